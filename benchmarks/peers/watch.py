"""Processor time, and what is reached after how much of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Point = dict[str, Any]


class Watch:
    """Measure the processor time of learning, and examine on the way without counting that.

    Args:
        budget: Seconds after which learning is over.
        glance: From an agent to what it reaches in a few episodes.
        first: Seconds after which to examine for the first time.
        points: How often to examine, evenly on a logarithmic scale.
    """

    def __init__(
        self, budget: float, glance: Callable[[Any], Any], first: float = 10.0, points: int = 8
    ) -> None:
        self.budget, self._glance = budget, glance
        self._due = list(np.geomspace(min(first, budget / 2), budget, points)[:-1])
        self.curve: list[Point] = []
        self._begin, self._lost = time.process_time(), 0.0

    @property
    def seconds(self) -> float:
        """Of the processor, without examining."""
        return time.process_time() - self._begin - self._lost

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Do not count what is done in this block."""
        begin = time.process_time()
        yield
        self._lost += time.process_time() - begin

    def forget(self, seconds: float) -> None:
        """Do not count seconds that were spent for the curve alone."""
        self._lost += seconds

    def note(self, agent: Any, **more: Any) -> None:
        """Examine an agent now."""
        seconds = self.seconds
        with self.pause():
            self.curve.append({"seconds": seconds, **self._glance(agent), **more})
            print(" ", self.curve[-1], flush=True)

    def is_over(self, agent: Any, **more: Any) -> bool:
        """Examine an agent if it is time, and tell whether learning is over."""
        if self._due and self.seconds >= self._due[0]:
            while self._due and self.seconds >= self._due[0]:
                del self._due[0]
            self.note(agent, **more)
        return self.seconds >= self.budget
