"""What is learned: a policy that acts, explains itself, and fits in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import run_threads
from rlvc.classifiers.base import Classifier
from rlvc.data.batches import one_percept, split_percepts
from rlvc.data.images import Image
from rlvc.features.graph import AtLeast, Feature, Graph, Sight
from rlvc.policies.io import read_policy, write_policy
from rlvc.policies.values import greedy
from rlvc.vision.extractor import FeatureExtractor, Glance


@dataclass(frozen=True, slots=True)
class FeatureTest:
    """One test on the path of a percept, and what came out.

    Attributes:
        number: The feature's number in the policy.
        feature: The feature that is looked for.
        name: The feature in words.
        exhibited: Whether it was found.
        occurrences: (n, 2) where it was found, in pixels.
        seen: Of several features, the numbers of those that were found.
        seen_name: These in words.
    """

    number: int
    feature: Feature
    name: str
    exhibited: bool
    occurrences: NDArray[np.float64]
    seen: tuple[int, ...] = ()
    seen_name: str = ""

    @classmethod
    def of(cls, graph: Graph, sight: Sight, number: int) -> FeatureTest:
        """Return what comes out when a feature is looked for on a percept."""
        feature, found = graph[number], sight.find(number)
        several = feature.parts if isinstance(feature, AtLeast) else ()
        seen = tuple(filter(sight.exhibits, several))
        return cls(
            number, feature, graph.describe(number), len(found) > 0, found[:, :2], seen,
            graph.names_of(seen),
        )  # fmt: skip

    def __str__(self) -> str:
        places = ", ".join(f"({x:.0f}, {y:.0f})" for x, y in self.occurrences[:3])
        more = f" and {len(self.occurrences) - 3} more" if len(self.occurrences) > 3 else ""
        return f"{self.name}: {self.summary}" + f" at {places}{more}" * self.exhibited

    @property
    def summary(self) -> str:
        """Whether it was seen, or which of several were."""
        if not isinstance(self.feature, AtLeast):
            return "seen" if self.exhibited else "not seen"
        if not self.seen or len(self.seen) == len(self.feature.parts):
            return "all seen" if self.seen else "none seen"
        return f"{'' if self.exhibited else 'only '}{len(self.seen)} seen ({self.seen_name})"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a policy acts as it does on one percept.

    Attributes:
        tests: The tests on the path through the classifier, in order.
        visual_class: The class at its end.
        q: (n_actions,) the values of the actions there.
        is_tried: (n_actions,) whether the database holds that action in that class.
        action: The action, as the environment numbers it.
        action_names: How to call the actions, if they have names.
        action_start: The first action as the environment numbers them.
    """

    tests: tuple[FeatureTest, ...]
    visual_class: int
    q: NDArray[np.float64]
    is_tried: NDArray[np.bool_]
    action: int
    action_names: tuple[str, ...] = ()
    action_start: int = 0

    @property
    def best(self) -> int:
        """The index of the action in ``q``."""
        return int(greedy(self.q[None], self.is_tried[None])[0])

    def name(self, index: int) -> str:
        """Return how to call the action that stands at an index of ``q``."""
        return self.action_names[index] if self.action_names else str(index + self.action_start)

    def __str__(self) -> str:
        lines = [f"{i}. {test}" for i, test in enumerate(self.tests, 1)]
        values = ", ".join(
            f"{self.name(a)} {value:.2f}" if tried else f"{self.name(a)} never tried"
            for a, (value, tried) in enumerate(zip(self.q, self.is_tried, strict=True))
        )
        lines.append(f"so this is class {self.visual_class}, where the values are {values}")
        lines.append(f"so the action is {self.name(self.best)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A vocabulary, a classifier on a few of its features, and the values of the classes.

    Attributes:
        extractor: The detector, the descriptor and the vocabularies.
        graph: The features that the classifier tests, and their parts; their numbers are its own.
        classifier: From features to visual classes.
        q: (n_classes, n_actions) state–action values.
        count: (n_classes, n_actions) how often the database tried each pair.
        usage: (n_features,) on how many percepts of the database each feature is tested; 0 for one
            that is but a part of others.
        patches: (n_features, side, side, 3) what each feature looks like.
        shapes: The shape of each camera's images.
        gamma: The discount factor.
        action_start: The first action as the environment numbers them.
        action_names: How to call the actions, if they have names.
        about: Notes for people, such as the task it was learned on.
    """

    extractor: FeatureExtractor
    graph: Graph
    classifier: Classifier
    q: NDArray[np.float64]
    count: NDArray[np.int64]
    usage: NDArray[np.int64]
    patches: NDArray[np.uint8]
    shapes: Mapping[str, tuple[int, ...]]
    gamma: float
    action_start: int = 0
    action_names: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that the classifier tests, and their parts."""
        return self.graph.features

    @property
    def tested(self) -> NDArray[np.int64]:
        """The numbers of the features that the classifier tests, in ascending order."""
        return self.classifier.features

    @property
    def n_classes(self) -> int:
        """How many visual classes there are."""
        return self.classifier.n_classes

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return int(self.q.shape[1])

    @property
    def actions(self) -> NDArray[np.int64]:
        """(n_classes,) the best action of each class, counted from 0."""
        return greedy(self.q, self.count > 0)

    @property
    def values(self) -> NDArray[np.float64]:
        """(n_classes,) the values of these actions."""
        return np.asarray(self.q[np.arange(self.n_classes), self.actions])

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[np.int64], Any]:
        """Return the action for one percept, or the actions for a batch, and the state unchanged.

        The signature is Stable-Baselines3's. One percept gives an array without dimensions, a batch
        of n an array of n. The policy is deterministic whatever is asked.
        """
        actions = self.actions[self.classify(observation)] + self.action_start
        return np.asarray(actions), state

    def classify(self, observation: Any) -> NDArray[np.int64]:
        """Return the visual class of one percept, or the classes of a batch."""
        percepts, is_batch = split_percepts(observation, self.shapes)
        found = list(run_threads(self._classify, percepts, 0 if len(percepts) > 8 else 1))
        classes = np.asarray(found, np.int64)
        return classes if is_batch else np.asarray(classes[0])

    def explain(self, percept: Any) -> Explanation:
        """Return the tests on the path of one percept, its class, its values and the action."""
        sight = Sight(self.graph, Glance(self.extractor, one_percept(percept, self.shapes)))
        path, visual_class = self.classifier.walk(lambda number: len(sight.find(number)) > 0)
        tests = tuple(FeatureTest.of(self.graph, sight, number) for number, _ in path)
        return Explanation(
            tests,
            visual_class,
            self.q[visual_class],
            self.count[visual_class] > 0,
            int(self.actions[visual_class]) + self.action_start,
            self.action_names,
            self.action_start,
        )

    def _classify(self, percept: dict[str, Image]) -> int:
        sight = Sight(self.graph, Glance(self.extractor, percept))
        return self.classifier.walk(sight.exhibits)[1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to one file, whole or not at all."""
        write_policy(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a policy; raise FileFormatError if the file is not one, and run no code from it."""
        return cls(**read_policy(path))
