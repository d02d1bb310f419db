"""Resume learning: the decisions of every stage, saved in a checkpoint store.

A stage is costly because it compares many features. Only the chosen ones are saved: the rest
follows from the interactions, and is computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlvc._core.arrays import Bools
from rlvc._core.checkpoint_store import CheckpointStore, explain_mismatch, require_same
from rlvc.classifiers.base import Split
from rlvc.features.io import check_features, describe_feature, read_feature, symbols_of
from rlvc.learning.aliasing import ResidualSums
from rlvc.learning.database import Database
from rlvc.learning.view import View


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a stage.

    Attributes:
        n_refinable: How many classes some feature would split.
        splits: The classes to split now, with their features.
        database: The interactions, with the features of the splits.
    """

    n_refinable: int
    splits: list[Split]
    database: Database


Decide = Callable[[View, ResidualSums, Bools], Decision]


class Decisions:
    """Load the decision of a stage from a checkpoint store, or make it and save it there.

    Args:
        store: Where decisions are saved.
        decide: Makes a decision.
    """

    def __init__(self, store: CheckpointStore, decide: Decide) -> None:
        self._store, self._decide = store, decide

    def __call__(
        self, stage: int, view: View, residuals: ResidualSums, is_aliased: Bools
    ) -> Decision:
        """Return the decision of a stage."""
        name, database, n_classes = f"stage-{stage}", view.database, len(is_aliased)
        # The residuals show that nothing has changed.
        known = {"classes": n_classes, "residual": residuals.rms().hex()}
        found = self._store.load(name)
        if found is not None:
            saved, _ = found
            require_same(known.items() <= saved.items(), "stages")
            with explain_mismatch("stages"):
                return _read(saved, database, n_classes)
        decision = self._decide(view, residuals, is_aliased)
        new = decision.database.graph.features[len(database.graph) :]
        manifest = {
            **known,
            "refinable": decision.n_refinable,
            "splits": [[one.visual_class, one.feature] for one in decision.splits],
            "features": [describe_feature(feature) for feature in new],
        }
        self._store.save(name, manifest, {})
        return decision


def _read(manifest: dict[str, Any], database: Database, n_classes: int) -> Decision:
    """Return the decision that a manifest describes, or raise an error if it is invalid."""
    new = [read_feature(entry) for entry in manifest["features"]]
    graph, numbers = database.graph.add(new)
    n_known = len(database.graph)
    check_features(graph, symbols_of(database.extractor), n_known)
    require_same(numbers == list(range(n_known, len(graph))), "features")
    splits = [Split(int(number), int(feature)) for number, feature in manifest["splits"]]
    is_right = all(0 <= s.visual_class < n_classes and 0 <= s.feature < len(graph) for s in splits)
    require_same(is_right and len({one.visual_class for one in splits}) == len(splits), "stages")
    return Decision(int(manifest["refinable"]), splits, database.add(new)[0])
