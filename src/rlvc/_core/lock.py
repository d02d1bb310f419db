"""One run in one folder: whoever writes there holds it, for as long as the process lives."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlvc.errors import RlvcError

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

_held: set[int] = set()  # the open folders


class FolderLockedError(RlvcError):
    """A folder that another run is writing into."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a folder that exists; the system lets go of it when the process ends, however it does.

    Nothing is written: what is locked is the folder itself.

    Raises:
        FolderLockedError: Somebody else holds it.
    """
    if sys.platform == "win32":  # no folder can be opened there
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            os.close(handle)
            raise FolderLockedError(
                f"Another run is writing into {folder}; wait for its end, or give another folder "
                "with --out."
            ) from None
        log.warning("%s cannot be locked (%s): see that no other run uses it.", folder, error)
    _held.add(handle)
    try:
        yield
    finally:
        _held.discard(handle)
        with suppress(OSError):
            os.close(handle)


def _let_go() -> None:
    """Close what a fork inherited, so that it does not hold a folder longer than the run."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
