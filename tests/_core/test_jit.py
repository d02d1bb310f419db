from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc._core.jit import chunks, n_threads, run_threads, share_threads, spread_threads

THREADS = pytest.mark.parametrize("threads", [1, 2, 3, 0])
Share = Callable[[Callable[[Any], Any], list[Any], int], Iterable[Any]]
BOTH = pytest.mark.parametrize("share", [run_threads, share_threads, spread_threads])


@given(st.integers(0, 200), st.integers(1, 40))
def test_chunks_cover_the_range_once_in_order_and_evenly(n: int, pieces: int) -> None:
    cut = chunks(n, pieces)
    assert list(itertools.chain(*(range(n)[piece] for piece in cut))) == list(range(n))
    sizes = [piece.stop - piece.start for piece in cut]
    assert max(sizes) - min(sizes) <= 1
    assert len(cut) == max(1, min(pieces, n))


def test_as_many_threads_as_asked_or_as_there_are_cores() -> None:
    assert n_threads(7) == 7
    assert 1 <= n_threads(0) <= (os.cpu_count() or 1)


@BOTH
@THREADS
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_results_are_those_of_map_in_order(share: Share, threads: int, n: int) -> None:
    first = threading.Event()

    def work(piece: int) -> int:
        if piece == 0 and n > 1 and threads > 1:
            assert first.wait(10)  # the first does not end before the second
        elif piece == 1:
            first.set()
        return piece * piece

    assert list(share(work, list(range(n)), threads)) == [i * i for i in range(n)]


@BOTH
@THREADS
@pytest.mark.parametrize("bad", [0, 3, 19])
def test_exceptions_are_passed_on(share: Share, threads: int, bad: int) -> None:
    def work(piece: int) -> int:
        if piece == bad:
            raise LookupError(f"piece {piece}")
        return piece

    with pytest.raises(LookupError, match=f"^'?piece {bad}'?$"):
        list(share(work, list(range(20)), threads))
    assert list(share(str, [1, 2], threads)) == ["1", "2"]  # and the threads are still there


def test_results_before_an_exception_are_seen() -> None:
    results = run_threads(lambda piece: 1 // piece, [2, 1, 0, 1], 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_more_than_a_few_pieces_are_taken_ahead(threads: int) -> None:
    taken = 0

    def pieces() -> Iterator[int]:
        nonlocal taken
        for number in range(1, 1001):
            taken = number
            yield number

    results = run_threads(lambda piece: piece, pieces(), threads)
    for seen in range(1, 30):
        assert next(results) == seen
        assert taken - seen < 4 * threads
    del results


def test_what_is_left_is_not_begun_when_nobody_wants_it() -> None:
    begun: list[int] = []
    release = threading.Event()

    def work(piece: int) -> int:
        begun.append(piece)
        if piece:
            release.wait(10)
        return piece

    results = run_threads(work, range(100), 2)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    release.set()
    assert list(run_threads(str, [1, 2, 3], 2)) == ["1", "2", "3"]
    assert len(begun) <= 3  # the first, and one for each thread


def test_the_first_piece_is_done_by_the_caller() -> None:
    names = share_threads(lambda piece: threading.current_thread().name, [1, 2, 3], 2)
    assert names[0] == threading.current_thread().name
    assert all(name.startswith("rlvc") for name in names[1:])


FORK = """
import os, signal
from rlvc._core.jit import run_threads, share_threads
def work():
    return list(run_threads(str, [1, 2, 3], 2)) + share_threads(str, [4, 5], 2)
assert work() == ["1", "2", "3", "4", "5"]
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if work() == ["1", "2", "3", "4", "5"] else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_was_forked_has_threads_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=False, timeout=60)
    assert done.returncode == 0
