"""Work in processes of their own, for what takes seconds and is mostly Python.

Threads would wait for Python's lock. Processes that are forked start at once and read all that is
in memory, without a copy; only results are sent back.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

import cv2

from rlvc._core.jit import n_threads, run_threads

R = TypeVar("R")
T = TypeVar("T")

_work: Callable[[Any], Any] | None = None  # what a forked process is there for


def run_processes(work: Callable[[T], R], pieces: Sequence[T], processes: int) -> Iterator[R]:
    """Yield ``work(piece)`` for every piece, in order; in threads where forking is not safe.

    Args:
        work: Anything that can be called; it is not sent, but inherited.
        pieces: What to work on; these and the results are sent.
        processes: How many; 0 for all cores.
    """
    n = min(n_threads(processes), len(pieces))
    if n <= 1 or sys.platform != "linux":
        yield from run_threads(work, pieces, processes)
        return
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(n, context, initializer=_begin, initargs=(work, os.getpid()))
    try:
        yield from pool.map(_call, pieces)
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(work: Callable[[Any], Any], parent: int) -> None:
    """Prepare a forked process."""
    global _work
    _work = work
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who forked it decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cv2.setNumThreads(0)  # the threads of OpenCV were not forked


def _end_with(parent: int) -> None:
    """End when the one who forked this process is gone, who may have been killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _call(piece: Any) -> Any:
    assert _work is not None
    return _work(piece)
