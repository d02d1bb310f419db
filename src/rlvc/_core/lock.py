"""A lock on the folder of a run, so that no two runs write into one folder."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from rlvc._core.atomic import explain_os_errors
from rlvc.errors import RlvcError

log = logging.getLogger(__name__)

LOCK_FILE: Final = ".rlvc.lock"


class FolderLockedError(RlvcError):
    """A folder that another run writes into."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder that exists; the system releases the lock when the process ends.

    A process that is killed leaves the lock file, but not the lock. A file system without locks
    only causes a warning.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, lock_folder(Path(folder)):
    ...     with lock_folder(Path(folder)):
    ...         pass
    Traceback (most recent call last):
    rlvc._core.lock.FolderLockedError: Another run is writing into ...

    Raises:
        FolderLockedError: Another process holds the lock.
        OSError: The lock file cannot be written; the text says what to do.
    """
    lock = FileLock(folder / LOCK_FILE, timeout=0)
    try:
        with explain_os_errors(folder):
            lock.acquire()
    except Timeout:
        raise FolderLockedError(
            f"Another run is writing into {folder}; wait for its end, or give another folder "
            "with --out."
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
            raise
        log.warning("%s cannot be locked (%s): make sure that no other run uses it.", folder, error)
    try:
        yield
    finally:
        (folder / LOCK_FILE).unlink(missing_ok=True)  # while it is held; filelock checks the inode
        lock.release()
