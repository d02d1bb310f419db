"""Curves of a run: CSV files, and event files of TensorBoard.

A writer takes named numbers at a step, in groups: ``stages`` of learning, and ``rounds`` of
exploration. Every line is flushed to disk, so that a run can be followed.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from rlvc.learning.rlvc import Stage
from rlvc.runs.callbacks import Callback

log = logging.getLogger(__name__)

GROUPS = ("stages", "rounds")
ABOUT = ("result.json", "live.json", "live.rlvc", "examples.rlvc", "report.html")
Numbers = Mapping[str, float | None]  # None where a number does not exist


class CurveWriter(Protocol):
    """Write the numbers of a run."""

    def write(self, group: str, step: int, values: Numbers) -> None:
        """Write numbers at a step of a group."""
        ...

    def close(self) -> None:
        """Write everything to disk."""
        ...


class CsvCurves:
    """One file for each group: ``stages.csv``, ``rounds.csv``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Any] = {}

    def write(self, group: str, step: int, values: Numbers) -> None:
        """Add a line; all lines of a group have the same columns, and None is an empty cell."""
        row = {"step": step, **values}
        if group not in self._files:
            file = (self._folder / f"{group}.csv").open("w", newline="", encoding="utf-8")
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            self._files[group] = file, writer
        file, writer = self._files[group]
        writer.writerow(row)
        file.flush()

    def close(self) -> None:
        """Close the files."""
        for file, _ in self._files.values():
            file.close()


class TensorBoardCurves:
    """Event files in a folder that TensorBoard reads, with a tag such as ``stages/classes``."""

    def __init__(self, folder: Path) -> None:
        self._writer = import_tensorboard().SummaryWriter(str(folder))

    def write(self, group: str, step: int, values: Numbers) -> None:
        """Add a point to each curve whose number exists."""
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(f"{group}/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class Curves(Callback):
    """Write the numbers of stages and rounds with several writers.

    The writers are opened by the first line, and closed at the end of a ``with`` block.

    Args:
        open_writers: Returns the writers.
    """

    def __init__(self, open_writers: Callable[[], Sequence[CurveWriter]]) -> None:
        self._open = open_writers
        self._writers: Sequence[CurveWriter] | None = None
        self._n_stages = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers or ():
            writer.close()

    def write(self, group: str, step: int, values: Numbers) -> None:
        """Pass numbers to all writers, as long as they work."""
        try:
            if self._writers is None:
                self._writers = []
                self._writers = self._open()
            for writer in self._writers:
                writer.write(group, step, values)
        except OSError as error:
            self._writers = []
            log.warning("The run continues, but its curves cannot be written (%s).", error)

    def on_stage(self, stage: Stage) -> None:
        """Write the numbers of a stage; stages are counted over all that is learned."""
        self.write("stages", self._n_stages, describe_stage(stage))
        self._n_stages += 1

    def on_round(self, numbers: dict[str, Any]) -> None:
        """Write the numbers of a round at its number of interactions."""
        self.write("rounds", numbers["interactions"], numbers)


def open_curves(folder: Path, tensorboard: bool = False) -> Curves:
    """Return the curves of a run: CSV files in its folder, and event files on request.

    Files of an earlier run are removed by the first line, and not before, so that a run that does
    not get so far spoils nothing. The result of that run and its reports are removed as well, for
    a folder without a result is not finished.
    """
    events = folder / "tensorboard"

    def open_writers() -> list[CurveWriter]:
        curves = [folder / f"{group}.csv" for group in GROUPS]
        about = [folder / name for name in ABOUT]
        for old in (*about, *curves, *events.glob("events.out.tfevents.*")):
            old.unlink(missing_ok=True)
        return [CsvCurves(folder), *([TensorBoardCurves(events)] if tensorboard else [])]

    return Curves(open_writers)


def import_tensorboard() -> Any:
    """Return the package that writes event files, or say how to install it."""
    try:
        import tensorboardX
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{error.name} is not installed; install it with: pip install "rlvc[tensorboard]".'
        ) from error
    return tensorboardX


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
    """Return the numbers of a stage that a result has of every stage, and its measures."""
    keys = ("stage", "classes", "features", "residual", "aliased")
    numbers = describe_stage(stage)
    return {**{key: numbers[key] for key in keys}, **measures}


def describe_sizes(stage: Stage) -> dict[str, Any]:
    """Return how many stages, classes and features a result says that there are."""
    return {
        "stages": stage.number,
        "classes": stage.classifier.n_classes,
        "features": {
            "distinct": stage.database.extractor.n_symbols,
            "selected": len(stage.classifier.features),
        },
    }
