"""Ctrl-C: the first stops a run as soon as its work is saved, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rlvc.errors import StoppedError
from rlvc.learning.stage import Stage
from rlvc.runs.callbacks import Callback

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
SAVES_NOTHING: Final = ("evaluate", "write")  # phases that may end at any moment


class Interrupt(Callback):
    """Raise an error at the next event of a run after an interrupt was requested.

    Args:
        why: Return the message of the error that ends the run.

    >>> interrupt = Interrupt(lambda: "Stopped.")
    >>> interrupt.on_step()
    >>> interrupt.request()
    >>> interrupt.on_step()
    Traceback (most recent call last):
    rlvc.errors.StoppedError: Stopped.
    """

    def __init__(self, why: Callable[[], str]) -> None:
        self.is_requested = False
        self._why, self._phase = why, ""

    def request(self) -> None:
        """Stop at the next event; at once in a phase that saves nothing."""
        self.is_requested = True
        if self._phase in SAVES_NOTHING:
            self.check()

    def check(self) -> None:
        """Raise a StoppedError if an interrupt was requested."""
        if self.is_requested:
            raise StoppedError(self._why())

    def on_phase(self, phase: str, total: int | None) -> None:  # noqa: D102
        self.check()
        self._phase = phase.partition(" ")[0]

    def on_step(self) -> None:  # noqa: D102
        self.check()

    def on_stage(self, stage: Stage) -> None:  # noqa: D102
        self.check()

    def on_round(self, numbers: dict[str, Any]) -> None:  # noqa: D102
        self.check()


@contextmanager
def interruptible(why: Callable[[], str], on_request: Callable[[], None]) -> Iterator[Interrupt]:
    """Let signals interrupt the body of a ``with`` statement, if this is the main thread.

    Args:
        why: Return the message of the error that ends the run.
        on_request: Called at the first signal; the second one kills the process as usual.
    """
    interrupt = Interrupt(why)

    def on_signal(number: int, frame: object) -> None:
        for one in handled:
            signal.signal(one, signal.SIG_DFL)
        on_request()
        interrupt.request()

    is_main = threading.current_thread() is threading.main_thread()
    # A shell may let a background process ignore signals.
    handled = [one for one in SIGNALS if is_main and signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, on_signal) for one in handled}
    try:
        yield interrupt
    except Exception as error:
        if interrupt.is_requested and not isinstance(error, StoppedError):
            raise StoppedError(why()) from error  # the signal may have stopped a worker first
        raise
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
