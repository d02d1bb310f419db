from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlvc._core.lock import LOCK_FILE, FolderLockedError, lock_folder
from rlvc.errors import StoppedError
from rlvc.report.web.overview import describe_overview
from rlvc.runs import Checkpoint, Interrupt, folder, interruptible, task_of
from rlvc.runs import resources as needs
from rlvc.runs.interrupt import SIGNALS
from tests.support.worlds import Corridor

ENV = "tests.runs.test_resume:Stopping-v0"
WORDS = ("learn", ENV, "--interactions", 60, "--rounds", 3, "--episodes", 2, "--trees", 2)


class Stopping(Corridor):
    """A corridor in which somebody presses Ctrl-C at a step."""

    at: int | None = None
    steps = 0
    fails = False

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        Stopping.steps += 1
        if Stopping.steps == Stopping.at:
            if Stopping.fails:
                raise RuntimeError("a wheel came off")
            signal.raise_signal(signal.SIGINT)
        return super().step(action)


gymnasium.register("Stopping-v0", "tests.runs.test_resume:Stopping")


@pytest.fixture(autouse=True)
def attentive() -> Iterator[None]:
    """Listen to signals even where tests run in the background, which ignores some."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    }
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unpainted: None) -> None:
    """Work in an empty folder, without figures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Stopping, "at", None)
    monkeypatch.setattr(Stopping, "steps", 0)
    monkeypatch.setattr(Stopping, "fails", False)


def stop_at(step: int | None) -> None:
    Stopping.at, Stopping.steps = step, 0


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_resume_it(call: Any, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "my run"
    assert call(*WORDS, "--out", whole).code == 0
    before = signal.getsignal(signal.SIGINT)
    stop_at(50)  # in the third round
    done = call(*WORDS, "--out", stopped)
    assert done.code == 1
    assert "Stopping as soon as this stage is saved; Ctrl-C again stops at once." in done.out
    why, how = done.err.splitlines()
    assert why == "rlvc: Stopped, and all completed work is saved. Resume it with:"
    assert how.strip() == shlex.join(["rlvc", *map(str, WORDS), "--resume", str(stopped)])
    assert signal.getsignal(signal.SIGINT) is before
    assert "rlvc-checkpoint" in names(stopped)
    assert {"examples.rlvc", "live.json", "live.rlvc"} <= set(names(stopped))  # so far
    assert not (stopped / "result.json").exists()
    assert call("report", stopped, "--out", tmp_path / "so far.html").code == 0
    stop_at(None)
    done = call(*shlex.split(how)[1:])
    assert (done.code, done.err) == (0, "")
    assert f"Resuming the run in {stopped}." in "".join(done.out.splitlines())
    assert "was interrupted and resumed 1×; all times are" in " ".join(done.out.split())
    assert Stopping.steps < 50  # of the last round, and to measure with
    assert names(stopped) == names(whole)
    for name in ("policy.rlvc", "one.rlvc", "examples.rlvc"):
        if (whole / name).exists():
            assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    for name in ("stages.csv", "rounds.csv"):
        assert (stopped / name).read_text() == (whole / name).read_text()
    results = [json.loads((at / "result.json").read_text()) for at in (whole, stopped)]
    assert [one["resumed"] for one in results] == [0, 1]
    assert results[1]["command"] == shlex.join(["rlvc", *map(str, WORDS), "--out", str(stopped)])
    assert results[1]["history"] == results[0]["history"]
    assert describe_overview(results[1], task_of(results[1]))["facts"][-1][0] == (
        "interrupted and resumed"
    )
    overviews = [describe_overview(one, task_of(one)) for one in results]
    labels = [[one["label"] for one in overview["headline"]] for overview in overviews]
    assert [label for label in labels[0] if label not in labels[1]] == ["to learn"]
    # Now it is finished.
    done = call(*shlex.split(how)[1:])
    assert done.code == 0
    assert "is finished; there is nothing left to do." in " ".join(done.out.split())
    assert names(stopped) == names(whole)
    done = call(*WORDS, "--seed", 3, "--resume", stopped)
    assert done.code == 2
    assert "holds another run, which is finished:\n  seed was 0, and is 3 now\n" in done.err


@pytest.mark.slow
def test_a_run_is_resumed_with_the_same_options(call: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stop_at(40)
    assert call(*WORDS, "--out", out).code == 1
    stop_at(None)
    before = names(out)
    done = call(*WORDS[:2], "--interactions", 90, *WORDS[4:], "--seed", 7, "--resume", out)
    assert done.code == 2
    assert done.err.splitlines()[1:] == [
        "  interactions was 60, and is 90 now",
        "  seed was 0, and is 7 now",
    ]
    for words, message in (
        (["--out", out], "holds a run that is not finished. Resume it:"),
        (["--resume", out, "--overwrite"], "--overwrite begins a new run, --resume resumes one"),
        (["--resume", out, "--out", tmp_path / "other"], "leave out --out"),
        (["--out", tmp_path / "new", "--resume", tmp_path / "new"], "begins now"),
    ):
        done = call(*WORDS, *words)
        assert done.code == (0 if "begins now" in message else 2)
        assert message in " ".join((done.err + done.out).split())
        assert set(before) <= set(names(out))
    done = call(*WORDS, "--out", out, "--overwrite")
    assert done.code == 0
    assert not (out / "rlvc-checkpoint").exists()
    assert json.loads((out / "result.json").read_text())["resumed"] == 0


def test_a_run_may_be_resumed_by_another_engine(call: Any, tmp_path: Path) -> None:
    stop_at(40)
    assert call(*WORDS, "--set", "engine=local", "--out", tmp_path / "run").code == 1
    stop_at(None)
    done = call(*WORDS, "--resume", tmp_path / "run")
    assert done.code == 0, done.err


def test_a_run_killed_while_it_cleans_up_is_finished(call: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [*WORDS[:2], "--interactions", 20, "--rounds", 1, "--episodes", 1]
    assert call(*words, "--out", out).code == 0
    expected = names(out)
    (out / "rlvc-checkpoint").mkdir()
    (out / "rlvc-checkpoint" / "learn-1-stage-0.rlvc").write_bytes(b"")
    done = call(*words, "--resume", out)
    assert done.code == 0
    assert names(out) == expected
    (out / "result.json").write_text("{")  # whoever did that
    done = call(*words, "--resume", out)
    assert done.code == 2
    assert "holds another run" in done.err


@pytest.mark.slow
def test_a_run_that_failed_can_be_resumed(call: Any, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "run"
    assert call(*WORDS, "--out", whole).code == 0
    stop_at(3)
    Stopping.fails = True
    done = call(*WORDS, "--out", out)  # nothing is saved
    assert (done.code, names(out)) == (1, [])
    assert "saved" not in done.out + done.err
    stop_at(50)
    done = call(*WORDS, "--out", out)
    assert done.code == 1
    assert "The environment failed in step" in done.err
    assert "Completed work is saved. Once the cause is fixed, resume it with:" in done.out
    Stopping.fails = False
    how = done.out.splitlines()[-1].strip()
    assert call(*shlex.split(how)[1:]).code == 0
    assert names(out) == names(whole)
    assert (out / "policy.rlvc").read_bytes() == (whole / "policy.rlvc").read_bytes()


def test_a_checkpoint_that_makes_no_sense_is_refused(call: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    Checkpoint(out).begin({"options": 3})
    done = call(*WORDS, "--resume", out)
    assert done.code == 1
    assert "does not hold a run; begin one with --overwrite." in done.err
    (out / "rlvc-checkpoint" / "run.rlvc").write_bytes(b"")
    done = call(*WORDS, "--out", out)
    assert done.code == 2
    assert "holds a run that is not finished" in done.err
    assert names(out) == ["rlvc-checkpoint", "rlvc-checkpoint/run.rlvc"]
    # If only the description is damaged, the rest is not lost.
    done = call(*WORDS, "--resume", out)
    assert done.code == 0
    assert "It is assumed to be this run." in " ".join(done.out.split())


def test_changed_packages_are_mentioned(call: Any, tmp_path: Path) -> None:
    out, words = tmp_path / "run", [*WORDS[:2], "--interactions", 20, "--rounds", 1]
    stop_at(10)
    assert call(*words, "--out", out).code == 1
    stop_at(None)
    checkpoint = Checkpoint(out)
    begun = checkpoint.description()
    assert begun is not None
    checkpoint.begin({**begun, "versions": {"rlvc": "0.0.1"}})
    done = call(*words, "--resume", out)
    assert done.code == 0
    assert "Versions of packages have changed since it began" in done.out


def test_foreign_files_in_a_folder_are_not_lost(call: Any, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    for name in ("percept-0.png", "stages.csv", "rlvc-checkpoint/mine.txt", "tensorboard/a"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")
    before = names(out)
    for words in (["--out", out], ["--resume", out]):
        done = call(*WORDS, *words)
        assert done.code == 2
        assert "holds percept-0.png and 2 more, and a run may write over it" in done.err
        assert names(out) == before


@pytest.mark.parametrize("fails", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_run_that_ends_before_it_saves_anything_leaves_another_one_waiting(
    fails: bool, call: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stop_at(40)
    assert call(*WORDS, "--out", out).code == 1
    before = names(out)
    stop_at(3)
    Stopping.fails = fails
    done = call(*WORDS, "--seed", 9, "--out", out, "--overwrite")
    assert (done.code, names(out)) == (1, before)
    if not fails:
        assert done.err == f"rlvc: Stopped. The interrupted run in {out} is still there.\n"
    stop_at(None)
    assert call(*WORDS, "--resume", out).code == 0
    assert not (out / "rlvc-checkpoint").exists()


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_while_does_not_lock_a_run_out(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "run"

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("rlvc.runs.checkpoint.write_folder", fail)
        full.setattr("rlvc.runs.curves.Curves._add_line", fail)
        full.setattr("rlvc.tasks.custom.task.evaluate", fail)
        done = call(*WORDS, "--out", out)
    assert done.code == 1
    assert "no more checkpoints can be saved" in caplog.text
    assert "its curves cannot be written" in caplog.text
    assert "resume it with:" in done.out
    done = call(*WORDS, "--resume", out)
    assert done.code == 0
    assert "rounds.csv" in names(out)


def test_a_worker_killed_by_the_signal_is_no_failure() -> None:
    def fail(interrupt: Interrupt) -> None:
        interrupt.is_requested = True
        raise RuntimeError("a process of the pool is gone")

    with (
        pytest.raises(StoppedError, match="for a test"),
        interruptible(lambda: "for a test", lambda: None) as interrupt,
    ):
        fail(interrupt)


def test_two_runs_never_write_into_one_folder(call: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with lock_folder(out):
        done = call(*WORDS, "--out", out)
        assert done.code == 1
        assert done.err.startswith(f"rlvc: Another run is writing into {out}; wait for its end")
        assert names(out) == [LOCK_FILE]
    assert names(out) == []
    with lock_folder(out):
        pass


def test_a_folder_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, os, time; from pathlib import Path; from rlvc._core.lock import lock_folder\n"
        "with lock_folder(Path(sys.argv[1])):\n"
        "    child = os.fork()\n"  # which does not hold it
        "    os.write(1, b'%d\\n' % (child or os.getpid()))\n"
        "    time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        (child,) = {int(process.stdout.readline()) for _ in range(2)}
        try:
            with pytest.raises(FolderLockedError), lock_folder(tmp_path):
                pass
            process.kill()
            process.wait()
            with lock_folder(tmp_path):
                pass
            assert names(tmp_path) == []
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_second_signal_kills() -> None:
    told = list[int]()
    before = [signal.getsignal(one) for one in SIGNALS]
    with interruptible(lambda: "for a test", lambda: told.append(1)) as interrupt:
        interrupt.on_phase("learn 2", None)
        interrupt.on_step()
        signal.raise_signal(signal.SIGTERM)
        assert [signal.getsignal(one) for one in SIGNALS] == [signal.SIG_DFL] * 2
        with pytest.raises(StoppedError, match="for a test"):
            interrupt.on_phase("learn", None)
        with pytest.raises(StoppedError, match="for a test"):
            interrupt.on_step()
        with pytest.raises(StoppedError, match="for a test"):
            interrupt.on_round({})
    assert told == [1]
    assert [signal.getsignal(one) for one in SIGNALS] == before


def test_phases_that_save_nothing_stop_at_once() -> None:
    with interruptible(lambda: "for a test", lambda: None) as interrupt:
        interrupt.on_phase("evaluate", None)
        with pytest.raises(StoppedError, match="for a test"):
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_stops_a_run_while_its_results_are_written(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "learn", ENV, "--interactions", 20, "--rounds", 1, "--episodes", 0  # no phase follows
    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_run", lambda *_: signal.raise_signal(signal.SIGINT))
        done = call(*words, "--out", tmp_path / "run")
    assert done.code == 1
    assert done.err.startswith("rlvc: Stopped, and all completed work is saved. Resume it with:\n")
    assert call(*words, "--resume", tmp_path / "run").code == 0
    assert (tmp_path / "run" / "result.json").exists()


def test_signals_that_are_ignored_stay_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible(str, lambda: None) as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert not interrupt.is_requested
    finally:
        signal.signal(signal.SIGINT, before)
    handlers = list[Any]()

    def elsewhere() -> None:  # only the main thread may listen
        with interruptible(str, lambda: None):
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert handlers == [before]


@pytest.mark.parametrize("words", [["learn", ENV], ["run", "maze"], ["run", "hill", "--trees", 4]])
def test_what_cannot_fit_is_refused_beforehand(
    words: list[str], call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "PROGRAM", 10**17)
    done = call(*words, "--out", tmp_path / "run")
    assert done.code == 1
    told = " ".join(done.out.split())
    assert told.startswith(f"This needs {'at most' if ENV in words else 'about'} 10000000")
    assert f"of disk in {tmp_path / 'run'}" in told
    assert "fewer trees (--trees)" in done.err
    assert (names(tmp_path), Stopping.steps) == (["run"], 0)


def test_disk_that_is_not_there_is_refused_beforehand(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "RESULTS", 10**17)
    done = call(*WORDS, "--out", tmp_path / "run")
    assert done.code == 1
    assert done.err.startswith("rlvc: This needs about 10000000")
    assert "GB of disk; " in done.err
    assert names(tmp_path) == ["run"]
