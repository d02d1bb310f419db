"""Ctrl-C: the first one ends a run when it has kept what it is doing, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from rlvc.errors import StoppedError
from rlvc.learning.rlvc import Stage
from rlvc.runs.callbacks import Callbacks

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
KEEPS_NOTHING: Final = ("evaluate",)  # phases that have nothing to bring into safety


class Stop:
    """Whether somebody wants a run to stop."""

    def __init__(self, why: Callable[[], str]) -> None:
        self.is_wanted = False
        self._why, self._phase = why, ""

    def want(self) -> None:
        """Let it stop: at once if it does nothing that is kept, else when that is kept."""
        self.is_wanted = True
        if self._phase in KEEPS_NOTHING:
            self.check()

    def check(self) -> None:
        """Raise a StoppedError if it shall stop."""
        if self.is_wanted:
            raise StoppedError(self._why())

    def watch(self, callbacks: Callbacks) -> Callbacks:
        """Return a watcher that stops what it watches, after having told about it."""

        def on_phase(phase: str, total: int | None) -> None:
            self.check()
            self._phase = phase.partition(" ")[0]
            callbacks.on_phase(phase, total)

        def on_step() -> None:
            callbacks.on_step()
            self.check()

        def on_stage(stage: Stage) -> None:
            callbacks.on_stage(stage)
            self.check()

        def on_round(numbers: dict[str, Any]) -> None:
            callbacks.on_round(numbers)
            self.check()

        return replace(
            callbacks, on_phase=on_phase, on_step=on_step, on_stage=on_stage, on_round=on_round
        )


@contextmanager
def stoppable(why: Callable[[], str], tell: Callable[[], None]) -> Iterator[Stop]:
    """Take signals to stop, in the main thread.

    Args:
        why: Returns what the error says that ends the run.
        tell: Called at the first signal; the second one kills the process as if nobody listened.
    """
    stop = Stop(why)

    def on_signal(number: int, frame: object) -> None:
        for one in heard:
            signal.signal(one, signal.SIG_DFL)
        tell()
        stop.want()

    heard = [
        one for one in SIGNALS
        # What runs in the background may have been told not to listen.
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(one) is not signal.SIG_IGN
    ]  # fmt: skip
    before = {one: signal.signal(one, on_signal) for one in heard}
    try:
        yield stop
    except Exception as error:
        if stop.is_wanted and not isinstance(error, StoppedError):
            raise StoppedError(why()) from error  # what stops it may have stopped a helper first
        raise
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
