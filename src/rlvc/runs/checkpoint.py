"""The checkpoint of a run, from which it resumes after it was stopped at any moment.

The folder ``rlvc-checkpoint`` holds the description of the run (``run.rlvc``), the interactions of
each round of exploration, extracted keypoints, the decisions of each stage, and the trees of a
forest, each in a file or a folder that is written atomically. A finished run removes it.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.arrays import Arrays
from rlvc._core.checkpoint_store import CheckpointStore, Record
from rlvc.data.interactions import Interactions
from rlvc.data.io.checksums import FILE as CHECKSUMS
from rlvc.data.io.folder import read_folder, write_folder
from rlvc.errors import DamagedFileError, DataError

log = logging.getLogger(__name__)

FORMAT, VERSION = "rlvc-checkpoint", 1
FOLDER: Final = "rlvc-checkpoint"
ASIDE: Final = "rlvc-checkpoint-before"
RUN: Final = "run"


class Checkpoint(CheckpointStore):
    """Save the records of one run in its folder, and load them.

    After an error, nothing more is saved, but the run continues. A damaged record counts as
    missing, and the run computes it again.

    Args:
        folder: The folder of the run.

    Attributes:
        folder: The folder of the checkpoint.
        rounds: The rounds of exploration.
        works: Whether records are still saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._aside = folder / FOLDER, folder / ASIDE
        self.rounds = CheckpointRounds(self)
        self.works = True

    def description(self) -> dict[str, Any] | None:
        """Return the description of the unfinished run; None if there is none.

        Raises:
            FileFormatError: The description is damaged, or was not written by rlvc.
        """
        path = self._path(RUN)
        return read_archive(path, FORMAT, VERSION)[0] if path.exists() else None

    def begin(self, description: Mapping[str, Any]) -> None:
        """Save the description of a new run; its first record replaces the old checkpoint."""
        if self.folder.is_dir() and not self.folder.is_symlink():
            _remove(self._aside)
            self.folder.rename(self._aside)
        self._write(RUN, description, {})

    def withdraw(self) -> None:
        """Undo `begin`, if the new run was refused."""
        _remove(self.folder)
        if self._aside.exists():
            self._aside.rename(self.folder)

    def tidy(self) -> None:
        """Remove partial files of the run that was stopped."""
        for path in self.folder.glob(".*"):
            _remove(path)

    def clear(self) -> None:
        """Remove the checkpoint, the description first."""
        self._path(RUN).unlink(missing_ok=True)
        _remove(self.folder)
        _remove(self._aside)

    def load(self, name: str) -> Record | None:
        """Return the record of this name; None if there is none, or if it is damaged."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            return read_archive(path, FORMAT, VERSION)
        except DamagedFileError as error:
            log.warning("A record of the run is computed again: %s", error)
            return None

    def save(self, name: str, manifest: Mapping[str, Any], arrays: Arrays) -> None:
        """Save a record, unless an earlier one could not be saved."""
        self.attempt(lambda: self._write(name, manifest, arrays))

    def attempt(self, write: Callable[[], None]) -> None:
        """Call a function that writes, unless an earlier one failed; log a warning if it fails."""
        if not self.works:
            return
        try:
            write()
        except (OSError, ValueError) as error:
            self.works = False
            log.warning(
                "The run continues, but no more checkpoints can be saved in %s (%s). If it is "
                "stopped, it resumes from this point.", self.folder, error,
            )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        """Whether nothing but the description of the run is saved."""
        return not any(path != self._path(RUN) for path in self.folder.glob("*"))

    @property
    def has_other(self) -> bool:
        """Whether the checkpoint of another run is still set aside."""
        return self._aside.exists()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.rlvc"

    def _write(self, name: str, manifest: Mapping[str, Any], arrays: Arrays) -> None:
        write_archive(self._path(name), {**manifest, "format": FORMAT, "version": VERSION}, arrays)
        if name != RUN:
            _remove(self._aside)


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class CheckpointRounds:
    """Save the interactions of each round of exploration as a folder, without loss."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def load(self, number: int) -> Interactions | None:
        """Return the interactions of a round; None if they are missing or damaged."""
        path = self._path(number)
        if not path.is_dir():
            return None
        try:
            if not (path / CHECKSUMS).exists():
                raise DataError(os.fspath(path), [f"{CHECKSUMS} is missing."])
            return read_folder(path, warn=False)  # the last episode of a round may have no end
        except DataError as error:
            log.warning("A round is repeated: %s", error)
            _remove(path)
            return None

    def save(self, number: int, interactions: Interactions) -> None:
        """Save the interactions of a round, unless an earlier record could not be saved."""
        # Names of actions come from the environment, and may not suit a file.
        nameless = replace(interactions, action_names=())
        self._checkpoint.attempt(lambda: write_folder(nameless, self._path(number)))

    def _path(self, number: int) -> Path:
        return self._checkpoint.folder / f"round-{number}"
