"""The folder of a run as something to watch: what is there, and when it is new."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rlvc.errors import RlvcError
from rlvc.report.web.data import FORMAT, POLICIES, RESULT, VERSION
from rlvc.runs.live import POLICY as DRAFT_POLICY
from rlvc.runs.live import RESULT as DRAFT

FILES: Final = (RESULT, POLICIES[0])
LIVE: Final = (DRAFT, DRAFT_POLICY)
LONGEST_PAUSE: Final = 2.0  # seconds; what takes longer is done once, at the beginning
ATTEMPTS: Final = 5  # to read a folder that is written to meanwhile

Stamps = tuple[tuple[int, ...] | None, ...]


class RunPage:
    """The page of a run that goes on, or that is over.

    Nothing is done until somebody asks; the same data are not made twice.

    Args:
        folder: Of the run.
        describe: Return what a page shows of a folder.
        render: Return the page, given the data, or None for a page that fetches them.
        to_json: Return the data as a text.
        is_new: Whether what is in the folder now is of an earlier run, and not to be shown.
        share: The share of the time that may be spent on making data while the run goes on.
        now: Tell the time in seconds.
    """

    def __init__(
        self,
        folder: Path,
        describe: Callable[[Path], dict[str, Any]],
        render: Callable[[dict[str, Any] | None], str],
        to_json: Callable[[dict[str, Any]], str],
        *,
        is_new: bool = False,
        share: float = 0.5,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._share, self._now = folder, share, now
        self._describe, self._render, self._to_json = describe, render, to_json
        self._old = self._stamps() if is_new else None
        self._seen = self._stamps()
        self._number = int(time.time())  # more than a server that was here before ever said
        self._rest = -math.inf  # until when nothing is new
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._made: tuple[int, bytes] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether there is something to show."""
        stamps = self._stamps()
        return stamps != self._old and (stamps[0] or stamps[len(FILES)]) is not None

    def page(self) -> bytes:
        """Return a page that fetches its data."""
        return self._render(None).encode()

    def version(self) -> tuple[int, bool]:
        """Return a number that grows when there is something new, and whether the run is over."""
        with self._lock:
            stamps = self._stamps()
            is_over = stamps[0] is not None and stamps != self._old
            if stamps != self._seen and (is_over or self._now() >= self._rest):
                self._seen = stamps
                self._number += 1
            return self._number, is_over

    def data(self) -> bytes:
        """Return what the page shows now, made at most once for each version."""
        with self._making:
            number, _ = self.version()
            if self._made is None or self._made[0] != number:
                begin, self._rest = self._now(), math.inf
                try:
                    self._made = number, self._make()
                finally:
                    end = self._now()
                    pause = (end - begin) * (1.0 / self._share - 1.0)
                    self._rest = end + min(pause, LONGEST_PAUSE)
            return self._made[1]

    def _make(self) -> bytes:
        """Return the data; try again if files were written or went away while they were read."""
        for _ in range(ATTEMPTS - 1):
            before = self._stamps()
            try:
                return self._make_once()
            except (OSError, RlvcError, ValueError, KeyError):
                if self._stamps() == before:
                    raise
        return self._make_once()

    def _make_once(self) -> bytes:
        if not self.is_begun:
            waiting = {"phase": "waiting", "stage": None}
            name = self._folder.resolve().name
            empty = {"format": FORMAT, "version": VERSION, "title": name, "live": waiting}
            return json.dumps(empty).encode()
        return self._to_json(self._describe(self._folder)).encode()

    def _stamps(self) -> Stamps:
        """Return what changes when a file is written anew; of a run that is over, only its own."""
        stamps = tuple(_stamp(self._folder / name) for name in (*FILES, *LIVE))
        return stamps if stamps[0] is None else (*stamps[: len(FILES)], *(None for _ in LIVE))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
