"""The live page of a run, which follows the files in the folder of the run."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

from rlvc.errors import RlvcError
from rlvc.report.page import render, to_json
from rlvc.report.web.data import FORMAT, POLICIES, VERSION, stamp_of
from rlvc.runs.folder import RESULT
from rlvc.runs.live import POLICY as DRAFT_POLICY
from rlvc.runs.live import RESULT as DRAFT

FILES: Final = (RESULT, POLICIES[0])
LIVE: Final = (DRAFT, DRAFT_POLICY)
SHARE: Final = 0.5  # of the time that may be spent on computing data while the run is learning
LONGEST_PAUSE: Final = 2.0  # seconds between two updates at most
ATTEMPTS: Final = 5  # to read a folder while another process writes to it

Stamps = tuple[tuple[int, ...] | None, ...]


class RunPage:
    """The page of a run that is in progress or finished; the content of a ``Server``.

    Data are computed on request only, and at most once for each version.

    Args:
        folder: The folder of the run.
        describe: Computes the data of the page from a folder.
        is_new: Ignore the files that are in the folder now, as they belong to an earlier run.
    """

    def __init__(
        self, folder: Path, describe: Callable[[Path], dict[str, Any]], *, is_new: bool = False
    ) -> None:
        self._folder, self._describe = folder, describe
        self._old = self._stamps() if is_new else None
        self._seen = self._stamps()
        self._number = int(time())  # higher than that of any earlier server
        self._rest = -math.inf  # no new version before this time
        self._lock, self._computing = threading.Lock(), threading.Lock()
        self._data: tuple[int, bytes] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether there is something to show."""
        stamps = self._stamps()
        return stamps != self._old and (stamps[0] or stamps[len(FILES)]) is not None

    def page(self) -> bytes:
        """Return a page that fetches its data."""
        return render(None).encode()

    def version(self) -> tuple[int, bool]:
        """Return a number that grows when the data change, and whether the run is finished."""
        with self._lock:
            stamps = self._stamps()
            is_over = stamps[0] is not None and stamps != self._old
            if stamps != self._seen and (is_over or monotonic() >= self._rest):
                self._seen = stamps
                self._number += 1
            return self._number, is_over

    def data(self) -> bytes:
        """Return the current data in JSON, computed at most once for each version."""
        with self._computing:
            number, _ = self.version()
            if self._data is None or self._data[0] != number:
                begin, self._rest = monotonic(), math.inf
                try:
                    self._data = number, self._compute()
                finally:
                    end = monotonic()
                    pause = (end - begin) * (1.0 / SHARE - 1.0)
                    self._rest = end + min(pause, LONGEST_PAUSE)
            return self._data[1]

    def _compute(self) -> bytes:
        """Return the data; retry if files were written or removed while they were read."""
        for _ in range(ATTEMPTS - 1):
            before = self._stamps()
            try:
                return self._compute_once()
            except (OSError, RlvcError, ValueError, KeyError):
                if self._stamps() == before:
                    raise
        return self._compute_once()

    def _compute_once(self) -> bytes:
        if not self.is_begun:
            waiting = {"phase": "waiting", "stage": None}
            name = self._folder.resolve().name
            empty = {"format": FORMAT, "version": VERSION, "title": name, "live": waiting}
            return to_json(empty).encode()
        return to_json(self._describe(self._folder)).encode()

    def _stamps(self) -> Stamps:
        """Return the stamps of all files; of a finished run, those of its results only."""
        stamps = tuple(stamp_of(self._folder / name) for name in (*FILES, *LIVE))
        return stamps if stamps[0] is None else (*stamps[: len(FILES)], *(None for _ in LIVE))
