"""What all experiments share: who watches, how long it takes, what it depends on."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore
from rlvc.learning.database import Database
from rlvc.learning.rlvc import RLVC, Stage
from rlvc.runs.resources import ResourceEstimate

PACKAGES: Final = (
    "rlvc", "gymnasium", "numpy", "scipy", "numba", "opencv-python-headless", "scikit-image",
)  # fmt: skip
NEW: Final = 1000  # a seed for episodes and views that nobody learned from


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Who is told how a run goes on.

    Attributes:
        on_phase: Called with the phase that begins and its number of steps, if known.
        on_step: Called after each of these steps.
        on_stage: Called after each stage of the learner.
        on_round: Called after each round of exploration with its numbers.
        on_needs: Called with what the run will need, before anything is collected or looked at, and
            with what it needs in any case, if that may be less.
    """

    on_phase: Callable[[str, int | None], None] = lambda phase, total: None
    on_step: Callable[[], None] = lambda: None
    on_stage: Callable[[Stage], None] = lambda stage: None
    on_round: Callable[[dict[str, Any]], None] = lambda numbers: None
    on_needs: Callable[[ResourceEstimate, ResourceEstimate | None], None] = lambda needs, least: (
        None
    )


class PhaseTimer:
    """Tell the watcher which phase begins, and keep the seconds that each took.

    A phase that comes back in every round has the number of the round behind its name.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self._watcher = callbacks
        self._running: tuple[str, float] | None = None
        self.seconds: dict[str, float] = {}

    def begin(self, name: str, steps: int | None = None) -> None:
        """Begin a phase; the one before is over."""
        self.end()
        self._watcher.on_phase(name, steps)
        self._running = name.partition(" ")[0], time.perf_counter()

    def end(self) -> None:
        """End the phase that is going on, if there is one."""
        if self._running is not None:
            name, begin = self._running
            passed = time.perf_counter() - begin
            self.seconds[name] = round(self.seconds.get(name, 0.0) + passed, 3)
        self._running = None

    @contextmanager
    def phase(self, name: str, steps: int | None = None) -> Iterator[None]:
        """Time what is done under this name."""
        self.begin(name, steps)
        yield
        self.end()


def learn_stages(
    learner: RLVC, database: Database, callbacks: Callbacks, store: CheckpointStore = NULL_STORE
) -> list[Stage]:
    """Return all stages of a learning, and tell the watcher of each."""
    stages = []
    for stage in learner.stages(database, store):
        stages.append(stage)
        callbacks.on_stage(stage)
    return stages


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:  # the same package may come under another name
        return "unknown"
