"""What a run keeps in its folder while it goes on, so that it can be stopped at any moment.

The folder ``rlvc-checkpoint`` holds what the run is (``run.rlvc``), what was met in every round of
exploration, what was seen on images, what every stage decided, and the trees of a forest: each a
file or a folder of its own, written whole or not at all. It goes when the run is finished.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.checkpoint_store import Part
from rlvc.data.interactions import Interactions
from rlvc.data.io.checksums import FILE as CHECKSUMS
from rlvc.data.io.folder import read_folder, write_folder
from rlvc.errors import DamagedFileError, DataError

log = logging.getLogger(__name__)

FORMAT, VERSION = "rlvc-checkpoint", 1
FOLDER: Final = "rlvc-checkpoint"
ASIDE: Final = "rlvc-checkpoint-before"
RUN: Final = "run"


class Checkpoint:
    """Keep the parts of one run in its folder.

    What goes wrong with writing stops the keeping, and not the run. A part that is damaged counts
    as missing: the run makes it again.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._aside = folder / FOLDER, folder / ASIDE
        self.rounds = CheckpointRounds(self)
        self._works = True

    def description(self) -> dict[str, Any] | None:
        """Return what the run is that was not finished; None if there is none.

        Raises:
            FileFormatError: The file that says it is damaged, or not ours.
        """
        path = self._path(RUN)
        return read_archive(path, FORMAT, VERSION)[0] if path.exists() else None

    def begin(self, description: Mapping[str, Any]) -> None:
        """Keep what a new run is; what was kept of another one goes as soon as more is kept."""
        if self.folder.is_dir() and not self.folder.is_symlink():
            _remove(self._aside)
            self.folder.rename(self._aside)
        self._write(RUN, description, {})

    def withdraw(self) -> None:
        """Undo what `begin` did, as nothing came of it."""
        _remove(self.folder)
        if self._aside.exists():
            self._aside.rename(self.folder)

    def tidy(self) -> None:
        """Remove what was left half-written when the run was stopped."""
        for path in self.folder.glob(".*"):
            _remove(path)

    def clear(self) -> None:
        """Remove all: first what says that there is a run to go on with."""
        self._path(RUN).unlink(missing_ok=True)
        _remove(self.folder)
        _remove(self._aside)

    def find(self, name: str) -> Part | None:
        """Return a part that was kept; None if there is none, or if it is damaged."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            return read_archive(path, FORMAT, VERSION)
        except DamagedFileError as error:
            log.warning("A part of the run is made again: %s", error)
            return None

    def keep(
        self, name: str, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Keep a part, as long as that works."""
        if self._works:
            try:
                self._write(name, manifest, arrays)
                if name != RUN:
                    _remove(self._aside)
            except (OSError, ValueError) as error:
                self.give_up(error)

    def give_up(self, error: Exception) -> None:
        """Keep nothing more, and say so."""
        self._works = False
        log.warning(
            "The run goes on, but from here on nothing more of it can be kept in %s (%s). If it is "
            "stopped, it can be gone on with from here only.", self.folder, error,
        )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to go on with but what the run is."""
        return not any(path != self._path(RUN) for path in self.folder.glob("*"))

    @property
    def has_other(self) -> bool:
        """Whether what was kept of another run is still there."""
        return self._aside.exists()

    @property
    def works(self) -> bool:
        """Whether parts are still kept."""
        return self._works

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.rlvc"

    def _write(
        self, name: str, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        write_archive(self._path(name), {**manifest, "format": FORMAT, "version": VERSION}, arrays)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if it is there; of a link only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class CheckpointRounds:
    """Keep what was met in every round of exploration: images and a table, without loss."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def find(self, number: int) -> Interactions | None:
        """Return what was met in a round; None if that was not kept, or if it is damaged."""
        path = self._path(number)
        if not path.is_dir():
            return None
        try:
            if not (path / CHECKSUMS).exists():
                raise DataError(os.fspath(path), [f"{CHECKSUMS} is missing."])
            return read_folder(path, warn=False)  # a round may well have no end
        except DataError as error:
            log.warning("A round is done again: %s", error)
            aside = path.with_name(f".{path.name}")
            _remove(aside)
            path.rename(aside)
            return None

    def keep(self, number: int, interactions: Interactions) -> None:
        """Keep what was met in a round, as long as that works."""
        if self._checkpoint.works:
            try:
                # The names of actions are the environment's, and need not suit a file.
                write_folder(replace(interactions, action_names=()), self._path(number))
            except (OSError, ValueError) as error:
                self._checkpoint.give_up(error)

    def _path(self, number: int) -> Path:
        return self._checkpoint.folder / f"round-{number}"
