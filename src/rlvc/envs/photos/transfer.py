"""One file from a server: whole and checked, or not at all.

What an interrupted transfer received is kept apart, and the next one goes on from there.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from rlvc.errors import DownloadError

CHUNK = 1 << 16
ABANDONED = 300.0  # seconds after which a partial file that nobody writes to is anybody's
RESUMES = "run it again and it goes on where it stopped"


@dataclass(frozen=True, slots=True)
class File:
    """A file, and how to know that it is the right one."""

    name: str
    n_bytes: int
    sha256: str

    def has_size(self, path: Path) -> bool:
        """Return whether there is a file of the right size."""
        return path.is_file() and path.stat().st_size == self.n_bytes

    def is_right(self, path: Path) -> bool:
        """Return whether there is a file with the right bytes; this reads all of it."""
        if not self.has_size(path):
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def fetch(
    file: File,
    url: str,
    folder: Path,
    partials: Path,
    *,
    timeout: float,
    on_bytes: Callable[[int], object],
) -> None:
    """Receive a file and move it into its folder once it is whole and right.

    Any number of processes may do so at once: each writes to a file of its own.

    Args:
        file: What must come.
        url: Where it is.
        folder: Where it goes.
        partials: A folder on the same file system for what is not whole yet.
        timeout: Seconds to wait for a server that says nothing.
        on_bytes: Called with how many bytes of the file are here.

    Raises:
        DownloadError: A server that fails or sends something else.
        OSError: A folder that cannot be written to.
    """
    waiting = partials / file.name
    mine = partials / f"{file.name}.{uuid.uuid4().hex}"
    folder.mkdir(parents=True, exist_ok=True)
    partials.mkdir(parents=True, exist_ok=True)
    _claim(waiting, mine)
    try:
        is_resumed = True
        while is_resumed:  # if what was there before was wrong, all over again; but only once
            is_resumed = _receive(file, url, mine, timeout, on_bytes)
            if file.is_right(mine):
                mine.replace(folder / file.name)
                return
            mine.unlink(missing_ok=True)
    finally:
        with suppress(OSError):
            if mine.stat().st_size:
                mine.replace(waiting)
            else:
                mine.unlink()
    raise DownloadError(
        f"What {url} sends is not {file.name}: its size or SHA-256 differs. Check that no "
        "login page or proxy answers in its place, and RLVC_DATA_URL if it is set; then run it "
        "again."
    )


def _claim(waiting: Path, mine: Path) -> None:
    """Take over the partial file of an earlier run; a rename makes sure that only one does."""
    for other in waiting.parent.glob(f"{waiting.name}.*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > ABANDONED:
                other.replace(waiting)
    with suppress(OSError):
        waiting.replace(mine)
        os.utime(mine)


def _receive(
    file: File, url: str, partial: Path, timeout: float, on_bytes: Callable[[int], object]
) -> bool:
    """Append what is missing; return whether a part of it all is from an earlier transfer."""
    with partial.open("ab") as out:
        kept = out.tell()
        if kept >= file.n_bytes:
            return True
        headers = {"User-Agent": "rlvc"} | ({"Range": f"bytes={kept}-"} if kept else {})
        with _in_words(file, url, timeout):
            try:
                response = urlopen(Request(url, headers=headers), timeout=timeout)
            except HTTPError as error:
                if not kept or error.code != 416:
                    raise
                error.close()
                return True  # the server has nothing after the part we have: it must be wrong
        with response:
            if response.status != 206:  # it sends all, whatever it was asked for
                out.truncate(kept := 0)
            n_bytes = kept
            if response.length is not None and n_bytes + response.length != file.n_bytes:
                return kept > 0
            while n_bytes < file.n_bytes:
                with _in_words(file, url, timeout):
                    chunk = response.read1(min(CHUNK, file.n_bytes - n_bytes))
                if not chunk:
                    raise DownloadError(
                        f"The connection ended after {n_bytes:,} of the {file.n_bytes:,} bytes of "
                        f"{file.name}; {RESUMES}."
                    )
                out.write(chunk)
                n_bytes += len(chunk)
                on_bytes(n_bytes)
        out.flush()
        os.fsync(out.fileno())
    return kept > 0


@contextmanager
def _in_words(file: File, url: str, timeout: float) -> Iterator[None]:
    """Turn what a network does wrong into a sentence; nothing else may happen inside."""
    try:
        yield
    except HTTPError as error:
        error.close()
        cure = "Check RLVC_DATA_URL if it is set, or set RLVC_DATA to a folder that has the files"
        if error.code >= 500 or error.code in {408, 429}:  # the server's trouble, and it may pass
            cure = f"Wait a little; {RESUMES}"
        raise DownloadError(f"{url} answers {error.code} {error.reason}. {cure}.") from None
    except (HTTPException, OSError, UnicodeError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, TimeoutError):
            fact = f"no answer within {timeout:g} seconds"
        else:
            fact = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise DownloadError(
            f"{file.name} could not be received from {urlsplit(url).netloc}: {fact}. "
            f"Check the network; {RESUMES}. "
            "Without a network, set RLVC_DATA to a folder that has the files."
        ) from error
