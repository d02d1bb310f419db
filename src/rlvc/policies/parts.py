"""What policies of one classifier and forests have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.jit import run_threads
from rlvc.classifiers.base import Classifier
from rlvc.data.observations import split_percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import Feature
from rlvc.features.lazy import LazyFeatures
from rlvc.vision.extractor import FeatureExtractor


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PolicyParts:
    """A vocabulary and a few of its features; a base class of policies.

    Attributes:
        extractor: The detector, the descriptor and the vocabularies.
        graph: The features that are tested, and their parts, numbered from 0.
        usage: (n_features,) the number of percepts of the database on which each feature is tested,
            summed over the trees of a forest; 0 for a feature that is only a part of others.
        patches: (n_features, side, side, 3) an example image of each feature.
        shapes: The shape of each camera's images.
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

    def parts(self) -> dict[str, Any]:
        """Return the attributes that all policies have."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(PolicyParts)}

    def classify_by(self, classifiers: Sequence[Classifier], observation: Any) -> Ints:
        """Return for each classifier the class of one percept, or the classes of a batch."""
        percepts, is_batch = split_percepts(observation, self.shapes)
        features = (LazyFeatures(self.graph, self.extractor, percept) for percept in percepts)
        walks = run_threads(
            lambda one: [classifier.walk(one.exhibits)[1] for classifier in classifiers],
            features,
            0 if len(percepts) > 8 else 1,
        )
        classes = np.asarray(list(walks), np.int64).reshape(len(percepts), len(classifiers)).T
        return classes if is_batch else classes[:, 0]
