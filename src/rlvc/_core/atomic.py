"""Atomic and durable writes of files and folders, and cleaning up after failures."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

Pathlike = str | os.PathLike[str]

_PART = re.compile(r"\.rlvc-[0-9a-f]{16}\.part")
_DENIED = "choose a place that you can write to"
_FILE = "a part of this path is a file; choose another place"
_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space or choose another disk"),
    errno.EFBIG: "a file may not be that large here; raise the limit or choose another disk",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _DENIED),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), _FILE),
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def atomic_file(path: Pathlike) -> Iterator[BinaryIO]:
    """Open a file to write; it replaces the old one when the block ends without an error.

    A reader finds either the old or the new content. Folders are created as needed.

    Raises:
        OSError: It cannot be written; the text says what to do. The old content stays.
    """
    target = Path(path)
    with explain_os_errors(target):
        if target.is_dir():
            raise IsADirectoryError(f"{target} is a folder; name a file in it.")
        if target.exists() and not target.is_file():
            raise OSError(f"{target} is a device or a pipe; name a regular file.")
        target.parent.mkdir(parents=True, exist_ok=True)
        part, handle = _new_part(target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if sys.platform != "win32":
                    part.replace(target)  # still locked, so that it is no leftover
            if sys.platform == "win32":
                part.replace(target)  # Windows renames no open file
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)


@contextmanager
def explain_os_errors(target: Path) -> Iterator[None]:
    """Add the path and a cure to an OSError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _CURES or error.strerror is None:
            raise
        cure = f"; {_CURES[error.errno]}"
        message = error.strerror.removesuffix(cure) + cure
        raise type(error)(error.errno, message, str(target)) from error


def atomic_write(path: Pathlike, data: bytes) -> None:
    """Write a file atomically."""
    with atomic_file(path) as file:
        file.write(data)


def missing_folders(folder: Path) -> list[Path]:
    """Return the folders to create for a folder to exist, the innermost first.

    >>> missing_folders(Path.cwd())
    []
    """
    return [place for place in (folder, *folder.parents) if not place.exists()]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders up to the first that is not empty, as others may have written to it."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextmanager
def atomic_folder(path: Pathlike) -> Iterator[Path]:
    """Create a folder atomically: it appears when the block ends without an error.

    It must not exist yet, or be empty.

    Raises:
        OSError: It cannot be written; the text says what to do.
    """
    target = Path(path).resolve()
    created = missing_folders(target.parent)
    with explain_os_errors(Path(path)), ExitStack() as undo:
        undo.callback(remove_empty, created)
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.parent / f".{target.name}.{secrets.token_hex(4)}"
        hidden.mkdir()
        undo.callback(shutil.rmtree, hidden, ignore_errors=True)
        yield hidden
        hidden.replace(target)
        undo.pop_all()


def check_place(path: Path) -> None:
    """Raise an OSError that says what to do unless a new file or folder can be written."""
    target = path.resolve()
    with explain_os_errors(path):
        parent = next(place for place in (target, *target.parents) if place.exists())
        with tempfile.TemporaryFile(dir=parent):
            pass


def check_space(folder: Path, n_bytes: int) -> None:
    """Raise an OSError unless a folder has space for a file of ``n_bytes``."""
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # respects quotas and limits
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        elif shutil.disk_usage(folder).free < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def remove_parts(folder: Path) -> int:
    """Remove the partial files that killed processes left in a folder; return how many.

    They have the names that :func:`atomic_file` gives, and are not locked.
    """
    n = 0
    for path in folder.iterdir():
        if not _PART.fullmatch(path.name) or path.is_symlink() or not path.is_file():
            continue
        with suppress(OSError), path.open("r+b") as file:
            if _lock(file.fileno(), wait=False):
                path.unlink()
                n += 1
    return n


def _new_part(folder: Path) -> tuple[Path, int]:
    """Return a new partial file, which is locked as long as it is open."""
    while True:
        part = folder / f".rlvc-{secrets.token_hex(8)}.part"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(part, flags, 0o666)  # less the umask
        _lock(handle, wait=True)
        if os.fstat(handle).st_nlink or sys.platform == "win32":
            return part, handle
        os.close(handle)  # removed before it was locked


def _lock(handle: int, *, wait: bool) -> bool:
    """Lock a file; return False if another process holds the lock."""
    if sys.platform != "win32":  # Windows removes no open file
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
    return True


def _sync_folder(folder: Path) -> None:
    """Make a new name durable, if the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
