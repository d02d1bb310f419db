"""Forests in experiments: how they are learned, what they do in bulk, and what is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, PrefixedStore
from rlvc._core.params import as_json
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.learning.database import Database
from rlvc.learning.forest import Forest
from rlvc.learning.rlvc import RLVC
from rlvc.policies.forest import ForestPolicy
from rlvc.runs.callbacks import Callbacks, PhaseTimer


@dataclass(frozen=True, slots=True)
class Grown:
    """A forest that was learned beside one classifier, from the same interactions.

    Attributes:
        forest: With which parameters.
        policy: What it learned.
        seconds: How long that took.
    """

    forest: Forest
    policy: ForestPolicy
    seconds: float

    def describe(self, measures: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a result says of the forest, given what was measured of it."""
        parameters = as_json(self.forest)
        del parameters["learner"]  # the run's own
        return {
            "trees": len(self.policy.trees),
            "measures": dict(measures),
            "out_of_bag": self.policy.out_of_bag,
            "classes": self.policy.n_classes,
            "features": len(self.policy.tested),
            "seconds": self.seconds,
            "parameters": parameters,
        }


def learn_forest(
    trees: int,
    learner: RLVC,
    database: Database,
    seed: int,
    about: Mapping[str, str],
    timer: PhaseTimer,
    callbacks: Callbacks,
    store: CheckpointStore = NULL_STORE,
) -> Grown | None:
    """Learn a forest of so many trees, if any, and tell the watcher tree by tree."""
    if trees == 0:
        return None
    forest = Forest(learner=learner, trees=trees, seed=seed)
    with timer.phase("forest", trees):
        policy = forest.learn(database, callbacks.on_step, store=PrefixedStore(store, "forest"))
    return Grown(forest, replace(policy, about=about), timer.seconds.pop("forest"))


def show_more(index: FeatureIndex, graph: FeatureGraph) -> tuple[FeatureIndex, dict[int, int]]:
    """Return what percepts show of the features of a graph as well, and the numbers these have."""
    joined, numbers = index.graph.join(graph)
    return index.add(joined.features[len(index.graph) :])[0], numbers


def values_of(
    policy: ForestPolicy, index: FeatureIndex
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return how a forest votes on percepts, given what they show of all symbols.

    The same as looking at each of them, at a fraction of the cost.
    """
    shown, numbers = show_more(index, policy.graph)
    return policy.vote(
        one.classifier.renumber(numbers).classify(shown.incidence) for one in policy.trees
    )
