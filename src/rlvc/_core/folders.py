"""Folders to write to: atomic creation, free space, and cleaning up after failures."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlvc._core.atomic import explain_os_errors


def missing_folders(folder: Path) -> list[Path]:
    """Return the folders to create so that one exists, the innermost first.

    >>> missing_folders(Path.cwd())
    []
    """
    return [place for place in (folder, *folder.parents) if not place.exists()]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders up to the first that is not empty: others may have written to it."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a folder atomically: it appears when the block ends without an error.

    Args:
        path: A folder that does not exist yet, or is empty.

    Raises:
        OSError: It cannot be written; the text says what to do.
    """
    target = Path(path).resolve()
    created = missing_folders(target.parent)
    with explain_os_errors(Path(path)):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            hidden = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            try:
                yield hidden
                umask = os.umask(0)
                os.umask(umask)
                hidden.chmod(0o777 & ~umask)  # the permissions of an ordinary folder
                hidden.replace(target)
            except BaseException:
                shutil.rmtree(hidden, ignore_errors=True)
                raise
        except BaseException:
            remove_empty(created)
            raise


def check_place(path: Path) -> None:
    """Raise an OSError that says what to do unless something new can be written to a path."""
    target = path.resolve()
    with explain_os_errors(path):
        parent = next(place for place in (target, *target.parents) if place.exists())
        with tempfile.TemporaryFile(dir=parent):
            pass


def check_space(folder: Path, n_bytes: int) -> None:
    """Raise an OSError unless a folder has space for a file of so many bytes."""
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # respects quotas and limits
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        elif shutil.disk_usage(folder).free < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
