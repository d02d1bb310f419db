"""How kernels are compiled and how work is shared between threads."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def compiled(kernel: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel to machine code that runs outside Python's lock.

    No fast-math: the order of additions is the order of the source, so results do not depend on how
    work was cut into pieces.
    """
    try:
        made = numba.njit(nogil=True, cache=True)(kernel)
    except RuntimeError:  # no folder for the cache may be written, as in some containers
        made = numba.njit(nogil=True)(kernel)
    return cast("Callable[P, R]", made)


def n_threads(asked: int) -> int:
    """Return ``asked``, or the number of cores that this process may use if it is 0."""
    if asked:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chunks(n: int, pieces: int) -> list[slice]:
    """Cut ``range(n)`` into at most ``pieces`` runs of nearly equal length.

    >>> chunks(5, 2)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    pieces = max(1, min(pieces, n))
    size, longer = divmod(n, pieces)
    ends = [i * size + min(i, longer) for i in range(pieces + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def run_threads(work: Callable[[T], R], pieces: Iterable[T], threads: int) -> Iterator[R]:
    """Yield ``work(piece)`` for every piece, in order, with at most a few results waiting.

    The work itself must not call this again: it would wait for the thread that it holds.
    """
    threads = n_threads(threads)
    if threads == 1:
        yield from map(work, pieces)
        return
    waiting: list[Future[R]] = []
    try:
        for piece in pieces:
            waiting.append(_pool(threads).submit(work, piece))
            if len(waiting) >= 4 * threads:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for future in waiting:
            future.cancel()


def share_threads(work: Callable[[T], R], pieces: list[T], threads: int) -> list[R]:
    """Return ``[work(piece) for piece in pieces]``, the first in this thread, the rest in others.

    For a few pieces of a millisecond, where waiting to be woken would cost more than the work.
    """
    threads = n_threads(threads)
    if threads == 1 or len(pieces) <= 1:
        return [work(piece) for piece in pieces]
    others = [_pool(threads - 1).submit(work, piece) for piece in pieces[1:]]
    return [work(pieces[0]), *(future.result() for future in others)]


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Keep the threads: starting them costs as much as a stage."""
    return ThreadPoolExecutor(threads, thread_name_prefix="rlvc")


if hasattr(os, "register_at_fork"):  # a fork has no threads; work given to kept ones would wait
    os.register_at_fork(after_in_child=_pool.cache_clear)
