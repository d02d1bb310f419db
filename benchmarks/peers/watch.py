"""The processor time of learning, and the performance over it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Point = dict[str, Any]


class Watch:
    """Measure the processor time of learning; evaluations in between do not count.

    Args:
        budget: Seconds after which learning is over.
        evaluate: Returns the measures of an agent in a few episodes.
        first: Seconds until the first evaluation.
        points: Number of evaluations, evenly spaced on a logarithmic scale.
    """

    def __init__(
        self, budget: float, evaluate: Callable[[Any], Any], first: float = 10.0, points: int = 8
    ) -> None:
        self.budget, self._evaluate = budget, evaluate
        self._due = list(np.geomspace(min(first, budget / 2), budget, points)[:-1])
        self.curve: list[Point] = []
        self._begin, self._lost = time.process_time(), 0.0

    @property
    def seconds(self) -> float:
        """The processor time so far, without evaluations."""
        return time.process_time() - self._begin - self._lost

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Do not count the time of a block."""
        begin = time.process_time()
        yield
        self._lost += time.process_time() - begin

    def forget(self, seconds: float) -> None:
        """Do not count seconds that were spent on the curve alone."""
        self._lost += seconds

    def note(self, agent: Any, **more: Any) -> None:
        """Evaluate an agent now."""
        seconds = self.seconds
        with self.pause():
            self.curve.append({"seconds": seconds, **self._evaluate(agent), **more})
            print(" ", self.curve[-1], flush=True)

    def is_over(self, agent: Any, **more: Any) -> bool:
        """Evaluate an agent if that is due, and return whether learning is over."""
        if self._due and self.seconds >= self._due[0]:
            while self._due and self.seconds >= self._due[0]:
                del self._due[0]
            self.note(agent, **more)
        return self.seconds >= self.budget
