"""Compile kernels, and divide work among threads."""

from __future__ import annotations

import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rlvc._core.arrays import Ints

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def jit(kernel: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel to machine code that releases the global interpreter lock.

    Without fast-math, additions keep their order, so that results do not depend on the number of
    threads.
    """
    try:
        compiled = numba.njit(nogil=True, cache=True)(kernel)
    except RuntimeError:  # the cache folder is read-only, as in some containers
        compiled = numba.njit(nogil=True)(kernel)
    return cast("Callable[P, R]", compiled)


@intrinsic
def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """Prefetch the memory around ``array[index]`` of one dimension; in kernels only.

    It helps where rows are read in an order that the processor cannot predict.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        at = context.cast(builder, args[1], signature.args[1], types.intp)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        where = builder.bitcast(builder.gep(data, [at]), byte)
        builder.call(call, [where, number(0), number(3), number(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch = cast("Callable[[Any, Any], None]", _prefetch)


@intrinsic
def _add_to_row(_: Any, array: Any, row: Any, first: Any, second: Any, third: Any) -> Any:
    """Add to the first three of the four integers in a row with one instruction; in kernels only.

    ``array`` is (n, 4), int64, contiguous. Numba does not vectorize this by itself.
    """
    del first, second, third

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        word, lane = ir.IntType(64), ir.IntType(32)
        four = ir.VectorType(word, 4)
        at = context.cast(builder, args[1], signature.args[1], types.intp)
        where = builder.gep(data, [builder.mul(at, word(4))])
        where = builder.bitcast(where, four.as_pointer())
        more = ir.Constant(four, [0, 0, 0, 0])
        for i, number in enumerate(args[2:]):
            more = builder.insert_element(more, number, lane(i))
        total = builder.add(builder.load(where, align=8), more)
        builder.store(total, where, align=8)
        return context.get_dummy_value()

    return types.void(array, row, types.int64, types.int64, types.int64), generate


add_to_row = cast("Callable[[Any, Any, Any, Any, Any], None]", _add_to_row)


def n_threads(requested: int) -> int:
    """Return ``requested``, or the number of cores that this process may use if it is 0."""
    if requested:
        return requested
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


def spans_of(begin: Ints, pieces: int) -> list[tuple[int, int]]:
    """Cut rows into at most ``pieces`` spans of about equal size, given where the rows begin.

    >>> spans_of(np.array([0, 3, 4, 6]), 2)
    [(0, 1), (1, 3)]
    """
    starts = [piece.start for piece in chunks(int(begin[-1]), pieces)]
    edges = np.unique([*np.searchsorted(begin, starts), len(begin) - 1]).tolist()
    return list(itertools.pairwise(edges)) or [(0, 0)]


def run_threads(work: Callable[[T], R], pieces: Iterable[T], threads: int) -> Iterator[R]:
    """Yield ``work(piece)`` for every piece, in order, with at most a few results waiting.

    The work must not call this again, as it would wait for its own thread.
    """
    threads = n_threads(threads)
    if threads == 1:
        return map(work, pieces)
    submitted = (_pool(threads).submit(work, piece) for piece in pieces)
    return results_in_order(submitted, 4 * threads, Future.result, Future.cancel)


def results_in_order(
    submitted: Iterable[T], limit: int, wait: Callable[[T], R], cancel: Callable[[T], object]
) -> Iterator[R]:
    """Yield the results of submitted work, in order, with at most ``limit`` pending at a time.

    >>> list(results_in_order(map(str, range(3)), 2, int, print))
    [0, 1, 2]
    """
    pending = deque[T]()
    try:
        for one in submitted:
            pending.append(one)
            if len(pending) >= limit:
                yield wait(pending.popleft())
        while pending:
            yield wait(pending.popleft())
    finally:
        for one in pending:
            cancel(one)


def share_threads(work: Callable[[T], R], pieces: list[T], threads: int) -> list[R]:
    """Return ``[work(piece) for piece in pieces]``, the first in this thread, the rest in others.

    It suits a few pieces of a millisecond, for which waking a thread costs more than the work.
    """
    threads = n_threads(threads)
    if threads == 1 or len(pieces) <= 1:
        return [work(piece) for piece in pieces]
    others = [_pool(threads - 1).submit(work, piece) for piece in pieces[1:]]
    return [work(pieces[0]), *(future.result() for future in others)]


def spread_threads(work: Callable[[T], R], pieces: list[T], threads: int) -> list[R]:
    """Return ``[work(piece) for piece in pieces]``; a thread that is done takes the next piece.

    It suits pieces of different durations; give the long ones first.
    """
    waiting, done = enumerate(pieces), dict[int, R]()

    def run(_: int) -> None:
        for number, piece in waiting:  # an iterator that all threads share
            done[number] = work(piece)

    share_threads(run, list(range(min(n_threads(threads), len(pieces)))), threads)
    return [done[number] for number in range(len(pieces))]


def share_spans(work: Callable[[tuple[int, int]], R], n: int, threads: int) -> list[R]:
    """Return the results of the work on spans (first, end) of ``range(n)``, one per thread."""
    spans = [(piece.start, piece.stop) for piece in chunks(n, n_threads(threads))]
    return share_threads(work, spans, threads)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool that is reused: starting threads takes as long as a stage."""
    return ThreadPoolExecutor(threads, thread_name_prefix="rlvc")


if hasattr(os, "register_at_fork"):  # a forked process inherits the pool without its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


@jit
def take_rows(begin: Ints, values: NDArray[Any], rows: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Return the chosen rows of a sparse array, in this order; rows may repeat.

    >>> take_rows(np.array([0, 2, 3]), np.array([5, 6, 7]), np.array([1, 0]))[1].tolist()
    [7, 5, 6]
    """
    out_begin = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        out_begin[i + 1] = out_begin[i] + begin[rows[i] + 1] - begin[rows[i]]
    out = np.empty(out_begin[-1], values.dtype)
    for i in range(len(rows)):
        first = begin[rows[i]]
        for k in range(out_begin[i + 1] - out_begin[i]):
            out[out_begin[i] + k] = values[first + k]
    return out_begin, out
