"""Policies: from a percept to an action, with an explanation, saved in one file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.jit import run_threads
from rlvc.classifiers.base import Classifier
from rlvc.data.observations import one_percept, split_percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import Feature
from rlvc.features.lazy import LazyFeatures
from rlvc.policies.explanation import Explanation, FeatureTest
from rlvc.policies.io import read_policy, write_policy
from rlvc.policies.values import greedy
from rlvc.vision.extractor import FeatureExtractor


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BasePolicy:
    """What policies of one classifier and of a forest have in common.

    Attributes:
        extractor: The detector, the descriptor and the vocabularies.
        graph: The features that are tested, and their parts, numbered from 0.
        usage: (n_features,) the number of percepts of the database on which each feature is tested,
            summed over the trees of a forest; 0 for a feature that is only a part of others.
        patches: (n_features, side, side, 3) an example image of each feature.
        shapes: The shape of the images of each camera.
        gamma: The discount factor.
        action_start: The first action as the environment numbers them.
        action_names: The names of the actions, if they have any.
        about: Notes, such as the task it was learned on.
    """

    extractor: FeatureExtractor
    graph: FeatureGraph
    usage: Ints
    patches: NDArray[np.uint8]
    shapes: Mapping[str, tuple[int, ...]]
    gamma: float
    action_start: int = 0
    action_names: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that are tested, and their parts."""
        return self.graph.features

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to one file, atomically."""
        write_policy(path, self)

    def _base_fields(self) -> dict[str, Any]:
        """Return the attributes that all policies have."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(BasePolicy)}

    def _classify(self, classifiers: Sequence[Classifier], observation: Any) -> Ints:
        """Return for each classifier the class of one percept, or the classes of a batch."""
        percepts, is_batch = split_percepts(observation, self.shapes)
        features = (LazyFeatures(self.graph, self.extractor, percept) for percept in percepts)
        is_large = len(percepts) > 8  # waking threads for fewer costs more than it saves
        run = partial(run_threads, threads=0) if is_large else map
        found = run(lambda one: [each.walk(one.exhibits)[1] for each in classifiers], features)
        classes = np.asarray(list(found), np.int64).reshape(len(percepts), len(classifiers)).T
        return classes if is_batch else classes[:, 0]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Policy(BasePolicy):
    """A vocabulary, a classifier on a few of its features, and the values of the classes.

    It has the attributes of :class:`rlvc.policies.BasePolicy`, and these.

    Attributes:
        classifier: Maps the features of a percept to its visual class.
        q: (n_classes, n_actions) state–action values.
        count: (n_classes, n_actions) how often the database tried each pair.

    >>> import rlvc
    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)  # two places, two actions:
    >>> place, action = rng.integers(0, 2, (2, 200))  # the reward is for action i in place i
    >>> data = rlvc.Interactions.from_arrays(
    ...     images[place], action, place == action, np.ones(200, bool),
    ...     next_observations=images[place],
    ... )
    >>> policy = rlvc.RLVC().learn(data)
    >>> policy.n_classes, policy.predict(images)[0].tolist()
    (2, [0, 1])
    """

    classifier: Classifier
    q: NDArray[np.float64]
    count: NDArray[np.int64]

    @property
    def tested(self) -> NDArray[np.int64]:
        """The numbers of the features that the classifier tests, in ascending order."""
        return self.classifier.features

    @property
    def n_classes(self) -> int:
        """The number of visual classes."""
        return self.classifier.n_classes

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return int(self.q.shape[1])

    @property
    def actions(self) -> NDArray[np.int64]:
        """(n_classes,) the best action of each class, counted from 0."""
        return greedy(self.q, self.count > 0)

    @property
    def values(self) -> NDArray[np.float64]:
        """(n_classes,) the value of the best action of each class."""
        return np.asarray(self.q[np.arange(self.n_classes), self.actions])

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[np.int64], Any]:
        """Return the action for one percept, or the actions for a batch, and the state unchanged.

        The signature is that of Stable-Baselines3. One percept gives an array without dimensions, a
        batch of n percepts an array of length n. The policy is always deterministic.
        """
        classes = self._classify([self.classifier], observation)[0]
        actions = self.actions[classes] + self.action_start
        return np.asarray(actions), state

    def classify(self, observation: Any) -> NDArray[np.int64]:
        """Return the visual class of one percept, or the classes of a batch."""
        return np.asarray(self._classify([self.classifier], observation)[0])

    def explain(self, percept: Any) -> Explanation:
        """Return the tests on the path of one percept, its class, its values and the action."""
        features = LazyFeatures(self.graph, self.extractor, one_percept(percept, self.shapes))
        path, visual_class = self.classifier.walk(lambda number: len(features.find(number)) > 0)
        return Explanation(
            tests=tuple(FeatureTest.of(self.graph, features, number) for number, _ in path),
            visual_class=visual_class,
            q=self.q[visual_class],
            is_tried=self.count[visual_class] > 0,
            action=int(self.actions[visual_class]) + self.action_start,
            action_names=self.action_names,
            action_start=self.action_start,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a policy from a file; no code from the file is run.

        Raises:
            FileFormatError: The file is not a policy, or is damaged.
        """
        return cls(**read_policy(path))
