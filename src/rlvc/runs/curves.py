"""Curves of a run: CSV files, and event files of TensorBoard.

A line holds named numbers at a step of a group: ``stages`` of learning, or ``rounds`` of
exploration. Each line is flushed to disk at once, so that a run can be followed.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rlvc._core.registry import import_extra
from rlvc.learning.stage import Stage
from rlvc.runs.callbacks import Callback

log = logging.getLogger(__name__)

GROUPS = ("stages", "rounds")
RESULTS = ("result.json", "live.json", "live.rlvc", "examples.rlvc", "report.html")


class Curves(Callback, AbstractContextManager["Curves"]):
    """Write the numbers of stages and rounds to CSV files, and optionally to event files.

    The first line removes the files of an earlier run, with its result and its reports, for a
    folder that holds a result counts as finished. A run that fails before it removes nothing. The
    end of a ``with`` block closes the files.

    Args:
        folder: The folder of the run, for ``stages.csv`` and ``rounds.csv``.
        tensorboard: Whether to write ``tensorboard`` in it, with tags such as ``stages/classes``.
    """

    def __init__(self, folder: Path, tensorboard: bool = False) -> None:
        self._folder = folder
        self._events: Any = None
        new = import_extra("tensorboard", "tensorboardX").SummaryWriter if tensorboard else None
        self._new_events = new
        self._begun, self._works, self._n_stages = False, True, 0

    def __exit__(self, *_: object) -> None:
        if self._events is not None:
            self._events.close()

    def write(self, group: str, step: int, values: Mapping[str, float | None]) -> None:
        """Write numbers at a step of a group, unless an earlier line could not be written.

        All lines of a group have the same columns; a missing number is None.
        """
        if not self._works:
            return
        try:
            if not self._begun:
                self._begin()
            self._add_line(group, {"step": step, **values})
            if self._events is not None:
                for name, value in values.items():
                    if value is not None:
                        self._events.add_scalar(f"{group}/{name}", value, step)
                self._events.flush()
        except OSError as error:
            self._works = False
            log.warning("The run continues, but its curves cannot be written (%s).", error)

    def on_stage(self, stage: Stage) -> None:
        """Write the numbers of a stage; the step counts the stages of the whole run."""
        self.write("stages", self._n_stages, describe_stage(stage))
        self._n_stages += 1

    def on_round(self, numbers: dict[str, Any]) -> None:
        """Write the numbers of a round; the step is its number of interactions."""
        self.write("rounds", numbers["interactions"], numbers)

    def _begin(self) -> None:
        """Remove the files of an earlier run, and open those of this one."""
        events = self._folder / "tensorboard"
        files = [self._folder / name for name in (*RESULTS, *(f"{group}.csv" for group in GROUPS))]
        for old in (*files, *events.glob("events.out.tfevents.*")):
            old.unlink(missing_ok=True)
        if self._new_events is not None:
            self._events = self._new_events(str(events))
        self._begun = True

    def _add_line(self, group: str, row: dict[str, float | None]) -> None:
        """Add a line to a CSV file; None is an empty cell."""
        path = self._folder / f"{group}.csv"
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(row))
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)


def describe_stage(stage: Stage) -> dict[str, float]:
    """Return the numbers of a stage."""
    return {
        "stage": stage.number,
        "interactions": len(stage.database.interactions),
        "classes": stage.classifier.n_classes,
        "features": len(stage.classifier.features),
        "residual": stage.residual,
        "aliased": stage.n_aliased,
        "refined": stage.n_refined,
    }


def history_line(stage: Stage, **measures: Any) -> dict[str, Any]:
    """Return a line of the history of a result: the numbers of a stage, and its measures."""
    keys = ("stage", "classes", "features", "residual", "aliased")
    numbers = describe_stage(stage)
    return {**{key: numbers[key] for key in keys}, **measures}


def describe_sizes(stage: Stage) -> dict[str, Any]:
    """Return the entries of a result that count stages, classes and features."""
    return {
        "stages": stage.number,
        "classes": stage.classifier.n_classes,
        "features": {
            "distinct": stage.database.extractor.n_symbols,
            "selected": len(stage.classifier.features),
        },
    }
