from __future__ import annotations

import os
import sys
import time

import pytest

from rlvc._core.parallel import _end_with, run_processes


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_order(processes: int) -> None:
    assert list(run_processes(lambda n: n * n, range(7), processes)) == [0, 1, 4, 9, 16, 25, 36]
    assert list(run_processes(lambda n: n, [], processes)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
def test_work_is_done_elsewhere_and_inherits_what_is_here() -> None:
    here = {"secret": object()}  # which could not be sent
    found = list(run_processes(lambda _: (os.getpid(), "secret" in here), range(4), 2))
    assert os.getpid() not in {pid for pid, _ in found}
    assert all(there for _, there in found)


def test_an_error_comes_back() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise ValueError("number 2 is no good")
        return number

    with pytest.raises(ValueError, match="number 2 is no good"):
        list(run_processes(work, range(4), 2))


def test_a_process_ends_with_the_one_who_forked_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class EndError(Exception):
        pass

    def end(code: int) -> None:
        raise EndError

    asked = list[float]()
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(time, "sleep", asked.append)
    parents = iter([7, 7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    with pytest.raises(EndError):
        _end_with(7)
    assert len(asked) == 2
