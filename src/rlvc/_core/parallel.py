"""Run work that takes seconds, mostly in Python, in forked processes.

Threads would wait for the global interpreter lock. Forked processes start at once and share the
memory of their parent; only results are sent back.
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

_work: Callable[[Any], Any] | None = None  # the work of a forked process


def run_processes(work: Callable[[T], R], pieces: Sequence[T], processes: int) -> Iterator[R]:
    """Yield ``work(piece)`` for every piece, in order; in threads where forking is not safe.

    Processes inherit the work; pieces and results are pickled. 0 processes mean one per core.
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cv2.setNumThreads(0)  # OpenCV's threads do not survive a fork


def _end_with(parent: int) -> None:
    """End when the parent is gone: it may have been killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _call(piece: Any) -> Any:
    assert _work is not None
    return _work(piece)
