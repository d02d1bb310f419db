"""Callbacks: objects that follow a run, and the timer of its phases."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rlvc.learning.stage import Stage
from rlvc.runs.resources import ResourceEstimate


class Callback:
    """Follow a run; subclasses override the events that they need.

    >>> class PrintPhases(Callback):
    ...     def on_phase(self, phase, total):
    ...         print(phase)
    >>> with PhaseTimer(PrintPhases()).phase("learn"):
    ...     pass
    learn
    """

    def on_needs(self, needs: ResourceEstimate, least: ResourceEstimate | None) -> None:
        """Handle the estimate of what the run needs, before it collects or extracts anything.

        Args:
            needs: The memory and disk that it needs.
            least: What it needs at least, if that may be less.
        """

    def on_phase(self, phase: str, total: int | None) -> None:
        """Handle the start of a phase; ``total`` is its number of steps, if known."""

    def on_step(self) -> None:
        """Handle the end of a step of the current phase."""

    def on_stage(self, stage: Stage) -> None:
        """Handle a stage of the learner."""

    def on_round(self, numbers: dict[str, Any]) -> None:
        """Handle the numbers of a finished round of exploration."""


class CallbackList(Callback):
    """Call several callbacks in turn."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._callbacks = tuple(callbacks)

    def on_needs(self, needs: ResourceEstimate, least: ResourceEstimate | None) -> None:  # noqa: D102
        for callback in self._callbacks:
            callback.on_needs(needs, least)

    def on_phase(self, phase: str, total: int | None) -> None:  # noqa: D102
        for callback in self._callbacks:
            callback.on_phase(phase, total)

    def on_step(self) -> None:  # noqa: D102
        for callback in self._callbacks:
            callback.on_step()

    def on_stage(self, stage: Stage) -> None:  # noqa: D102
        for callback in self._callbacks:
            callback.on_stage(stage)

    def on_round(self, numbers: dict[str, Any]) -> None:  # noqa: D102
        for callback in self._callbacks:
            callback.on_round(numbers)


class PhaseTimer:
    """Announce phases to a callback, and measure how long they take.

    The name of a phase that is repeated in every round ends with the number of the round; the times
    of all rounds add up.

    Attributes:
        seconds: The seconds of each phase.
    """

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._running: tuple[str, float] | None = None
        self.seconds: dict[str, float] = {}

    def begin(self, name: str, total: int | None = None) -> None:
        """Begin a phase; end the previous one."""
        self.end()
        self._callback.on_phase(name, total)
        self._running = name.partition(" ")[0], time.perf_counter()

    def end(self) -> None:
        """End the current phase, if there is one."""
        if self._running is not None:
            name, begin = self._running
            passed = time.perf_counter() - begin
            self.seconds[name] = round(self.seconds.get(name, 0.0) + passed, 3)
        self._running = None

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[None]:
        """Time the body of a ``with`` statement as a phase."""
        self.begin(name, total)
        yield
        self.end()
