"""Forests in runs: described for a result, and evaluated on many percepts at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.params import as_json
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.learning.forest import Forest
from rlvc.policies.forest import ForestPolicy


@dataclass(frozen=True, slots=True)
class GrownForest:
    """A forest that was grown beside one classifier, from the same interactions.

    Attributes:
        forest: Its parameters.
        policy: What it learned.
        seconds: How long that took.
    """

    forest: Forest
    policy: ForestPolicy
    seconds: float

    def describe(self, measures: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a result says of the forest, given its measures."""
        parameters = as_json(self.forest)
        del parameters["learner"]  # that of the run
        return {
            "trees": len(self.policy.trees),
            "measures": dict(measures),
            "out_of_bag": self.policy.out_of_bag,
            "classes": self.policy.n_classes,
            "features": len(self.policy.tested),
            "seconds": self.seconds,
            "parameters": parameters,
        }


def add_features(index: FeatureIndex, graph: FeatureGraph) -> tuple[FeatureIndex, dict[int, int]]:
    """Return an index that also knows the features of a graph, and the numbers they have in it."""
    joined, numbers = index.graph.join(graph)
    return index.add(joined.features[len(index.graph) :])[0], numbers


def forest_values(
    policy: ForestPolicy, index: FeatureIndex
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the votes of a forest on percepts, given an index of all their symbols.

    The same as asking it about each of them, at a fraction of the cost.
    """
    index, numbers = add_features(index, policy.graph)
    return policy.vote(
        one.classifier.renumber(numbers).classify(index.incidence) for one in policy.trees
    )
