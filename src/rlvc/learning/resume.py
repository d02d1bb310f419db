"""What the stages of a learning decided, kept so that learning can be gone on with.

A stage is costly because of all the features that it compares. Which ones won is all that is kept:
the rest follows from the interactions, and is found again the way it was found before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlvc._core.checkpoint_store import CheckpointStore, fits, fitting
from rlvc.classifiers.base import Split
from rlvc.features.io import check_features, describe_feature, read_feature, symbols_of
from rlvc.learning.database import Learnable


@dataclass(frozen=True, slots=True)
class Decision:
    """How a stage goes on.

    Attributes:
        n_refinable: How many classes some feature would split.
        splits: The classes that are split now.
        database: The interactions, with the features that split known.
    """

    n_refinable: int
    splits: list[Split]
    database: Learnable


class Decisions:
    """The decisions of one learning, stage by stage."""

    def __init__(self, store: CheckpointStore) -> None:
        self._keeper = store

    def find(self, stage: int, database: Learnable, n_classes: int, rms: float) -> Decision | None:
        """Return what a stage decided that came as far before; None if it did not.

        Args:
            stage: The number of the stage.
            database: The interactions that it has.
            n_classes: How many classes there are.
            rms: The root mean square of the residuals, which tells whether all is as it was.
        """
        found = self._keeper.find(f"stage-{stage}")
        if found is None:
            return None
        manifest, _ = found
        is_same = (manifest.get("classes"), manifest.get("residual")) == (n_classes, rms.hex())
        fits(is_same, "stages")
        with fitting("stages"):
            return _read(manifest, database, n_classes)

    def keep(
        self, decision: Decision, stage: int, database: Learnable, n_classes: int, rms: float
    ) -> Decision:
        """Keep what a stage decided, and return it; the other arguments are those of `find`."""
        new = decision.database.graph.features[len(database.graph) :]
        manifest = {
            "classes": n_classes,
            "residual": rms.hex(),
            "refinable": decision.n_refinable,
            "splits": [[one.visual_class, one.feature] for one in decision.splits],
            "features": [describe_feature(feature) for feature in new],
        }
        self._keeper.keep(f"stage-{stage}", manifest, {})
        return decision


def _read(manifest: dict[str, Any], database: Learnable, n_classes: int) -> Decision:
    """Return the decision that a manifest describes, or raise an error if it makes no sense."""
    new = [read_feature(entry) for entry in manifest["features"]]
    graph, numbers = database.graph.add(new)
    n_known = len(database.graph)
    check_features(graph, symbols_of(database.extractor), n_known)
    fits(numbers == list(range(n_known, len(graph))), "features")
    splits = [Split(int(number), int(feature)) for number, feature in manifest["splits"]]
    is_right = all(0 <= s.visual_class < n_classes and 0 <= s.feature < len(graph) for s in splits)
    fits(is_right and len({one.visual_class for one in splits}) == len(splits), "stages")
    return Decision(int(manifest["refinable"]), splits, database.add(new)[0])
