"""Curves of a run for those who have habits: CSV files, and event files of TensorBoard.

A journal takes named numbers at a step, in groups: ``stages`` of learning, and ``rounds`` of
exploration. Every line is on disk as soon as it is written, so that a run can be followed.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from rlvc.learning.rlvc import Stage

log = logging.getLogger(__name__)

GROUPS = ("stages", "rounds")
ABOUT = ("result.json", "live.json", "live.rlvc", "examples.rlvc", "report.html")
Numbers = Mapping[str, float | None]  # None where there is nothing to tell


class CurveWriter(Protocol):
    """Anything that takes the numbers of a run."""

    def write(self, group: str, step: int, values: Numbers) -> None:
        """Take some numbers at a step of a group."""
        ...

    def close(self) -> None:
        """Bring everything to disk."""
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
        """Add one point to each curve of which there is one."""
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(f"{group}/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class Curves:
    """Several journals at once, opened by the first line, closed at the end of a ``with`` block."""

    def __init__(self, begin: Callable[[], Sequence[CurveWriter]]) -> None:
        self._begin = begin
        self._journals: Sequence[CurveWriter] | None = None
        self._n_stages = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for journal in self._journals or ():
            journal.close()

    def write(self, group: str, step: int, values: Numbers) -> None:
        """Hand numbers to all journals, as long as they can be written."""
        try:
            if self._journals is None:
                self._journals = []
                self._journals = self._begin()
            for journal in self._journals:
                journal.write(group, step, values)
        except OSError as error:
            self._journals = []
            log.warning("The run goes on, but its curves cannot be written (%s).", error)

    def write_stage(self, stage: Stage) -> None:
        """Take what a stage of learning found; stages are counted on over all that is learned."""
        self.write("stages", self._n_stages, describe_stage(stage))
        self._n_stages += 1


def open_curves(folder: Path, tensorboard: bool = False) -> Curves:
    """Return the journals of a run: CSV files in its folder, and event files if wanted.

    What an earlier run left there goes when the first line comes, and not before: a run that does
    not get so far spoils nothing. Its result goes too, for a folder without one is not finished;
    and so does what is said or shown of it elsewhere.
    """
    events = folder / "tensorboard"

    def begin() -> list[CurveWriter]:
        curves = [folder / f"{group}.csv" for group in GROUPS]
        about = [folder / name for name in ABOUT]
        for old in (*about, *curves, *events.glob("events.out.tfevents.*")):
            old.unlink(missing_ok=True)
        return [CsvCurves(folder), *([TensorBoardCurves(events)] if tensorboard else [])]

    return Curves(begin)


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
