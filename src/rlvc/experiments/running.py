"""What all experiments share: who watches, how long it takes, what it depends on."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from rlvc.learner import Stage

NEW: Final = 1000  # a seed for episodes and views that nobody learned from


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told how a run goes on.

    Attributes:
        on_phase: Called with the phase that begins and its number of steps, if known.
        on_step: Called after each of these steps.
        on_stage: Called after each stage of the learner.
    """

    on_phase: Callable[[str, int | None], None] = lambda phase, total: None
    on_step: Callable[[], None] = lambda: None
    on_stage: Callable[[Stage], None] = lambda stage: None


class Clock:
    """Tell the watcher which phase begins, and keep the seconds that each took."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, steps: int | None = None) -> Iterator[None]:
        """Time what is done under this name."""
        self._watcher.on_phase(name, steps)
        begin = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - begin, 3)


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    names = ("rlvc", "numpy", "scipy", "numba", "opencv-python-headless", "scikit-image")
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:  # the same package may come under another name
        return "unknown"
