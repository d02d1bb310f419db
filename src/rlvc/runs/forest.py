"""Forests of runs: their entry in the result, and their values on many percepts at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvc._core.arrays import Bools, Floats
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
        """Return the entry of a result for the forest, given its measures."""
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
    """Return an index extended by the features of a graph, and their numbers in it."""
    joined, numbers = index.graph.join(graph)
    return index.add(joined.features[len(index.graph) :])[0], numbers


def forest_values(policy: ForestPolicy, index: FeatureIndex) -> tuple[Floats, Bools]:
    """Return the values of the actions by a forest, and which of them any tree tried.

    The same as for one percept at a time, at a fraction of the cost.

    Args:
        policy: The policy of the forest.
        index: Which symbols, at least, the percepts exhibit.
    """
    index, numbers = add_features(index, policy.graph)
    return policy.vote(
        one.classifier.renumber(numbers).classify(index.incidence) for one in policy.trees
    )
