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
        known = stage, view.database, len(is_aliased), residuals.rms()
        decision = self.load(*known)
        if decision is None:
            decision = self._decide(view, residuals, is_aliased)
            self._save(decision, *known)
        return decision

    def load(self, stage: int, database: Database, n_classes: int, rms: float) -> Decision | None:
        """Return the decision of a stage in an earlier run; None if it did not get so far.

        Args:
            stage: The number of the stage.
            database: Its interactions.
            n_classes: The number of classes.
            rms: The root mean square of the residuals, which shows that nothing has changed.
        """
        found = self._store.load(f"stage-{stage}")
        if found is None:
            return None
        manifest, _ = found
        is_same = (manifest.get("classes"), manifest.get("residual")) == (n_classes, rms.hex())
        require_same(is_same, "stages")
        with explain_mismatch("stages"):
            return _read(manifest, database, n_classes)

    def _save(
        self, decision: Decision, stage: int, database: Database, n_classes: int, rms: float
    ) -> None:
        """Save the decision of a stage."""
        new = decision.database.graph.features[len(database.graph) :]
        manifest = {
            "classes": n_classes,
            "residual": rms.hex(),
            "refinable": decision.n_refinable,
            "splits": [[one.visual_class, one.feature] for one in decision.splits],
            "features": [describe_feature(feature) for feature in new],
        }
        self._store.save(f"stage-{stage}", manifest, {})


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
