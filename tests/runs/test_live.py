from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc import RLVC, Policy, Stage
from rlvc._core.params import as_json
from rlvc.classifiers import Diagrams
from rlvc.learning import Compaction
from rlvc.runs import Callback, CallbackList, Curves, Examples, LiveSnapshots, describe_stage
from rlvc.runs import live as snapshots_module
from tests.support.builders import COLOUR, database
from tests.support.tasks import run_custom
from tests.support.worlds import Corridor

OLD = ("live.json", "live.rlvc", "examples.rlvc", "result.json", "report.html", "stages.csv",
       "rounds.csv")  # fmt: skip
FACTS = {"task": "places", "source": "log", "seed": 3, "command": "rlvc learn log --seed 3"}


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    found = list(RLVC(threads=1, max_splits=1).stages(database(COLOUR)))
    assert len(found) > 3
    return found


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def live(folder: Path) -> Any:
    return json.loads((folder / "live.json").read_text(encoding="utf-8"))


def n_classes(folder: Path) -> int:
    return Policy.load(folder / "live.rlvc").n_classes


def test_a_snapshot_has_the_entries_of_the_result(stages: list[Stage], tmp_path: Path) -> None:
    with LiveSnapshots(tmp_path, FACTS, about={"task": "places"}, now=lambda: 0.0) as snapshots:
        snapshots.on_phase("learn", None)
        assert names(tmp_path) == set()
        snapshots.on_stage(stages[0])
        assert names(tmp_path) == {"live.json", "live.rlvc"}
        stage = stages[0]
        found = live(tmp_path)
        assert found.pop("versions")["rlvc"]
        assert found.pop("seconds") == {}
        assert found == {
            **FACTS, "interactions": 400, "percepts": 6, "stages": 0, "classes": 1,
            "features": {"distinct": stage.database.extractor.n_symbols, "selected": 0},
            "rounds": [], "history": [{"phase": "learn", **describe_stage(stage)}],
            "parameters": as_json(stage.learner), "phase": "learn", "updated": 1,
        }  # fmt: skip
        policy = Policy.load(tmp_path / "live.rlvc")
        assert dict(policy.about) == {"task": "places"}
        assert np.array_equal(policy.q, stage.policy().q)
    assert names(tmp_path) == set()


def test_a_pending_snapshot_is_never_lost(stages: list[Stage], tmp_path: Path) -> None:
    now = [0.0]
    sizes = [stage.classifier.n_classes for stage in stages]
    with LiveSnapshots(tmp_path, FACTS, now=lambda: now[0]) as snapshots:
        snapshots.on_phase("learn", None)
        snapshots.on_stage(stages[0])
        now[0] += 0.9
        snapshots.on_stage(stages[1])
        assert (n_classes(tmp_path), live(tmp_path)["updated"]) == (sizes[0], 1)
        now[0] += 0.2
        snapshots.on_stage(stages[2])
        assert (n_classes(tmp_path), live(tmp_path)["updated"]) == (sizes[2], 2)
        assert [line["stage"] for line in live(tmp_path)["history"]] == [0, 1, 2]
        snapshots.on_stage(stages[3])
        assert (n_classes(tmp_path), live(tmp_path)["stages"]) == (sizes[2], 2)
        snapshots.on_phase("evaluate", 10)  # the end of learning
        assert (n_classes(tmp_path), live(tmp_path)["stages"]) == (sizes[3], 3)
        assert (live(tmp_path)["phase"], live(tmp_path)["updated"]) == ("evaluate", 3)
        assert set(live(tmp_path)["seconds"]) == {"learn"}
        before = (tmp_path / "live.rlvc").stat()
        snapshots.on_phase("write", None)  # nothing new was learned
        assert live(tmp_path)["phase"] == "write"
        assert (tmp_path / "live.rlvc").stat().st_ino == before.st_ino


def test_merged_classes_can_be_watched_too(tmp_path: Path) -> None:
    learner = RLVC(threads=1, post_process=Compaction(every=1))
    with LiveSnapshots(tmp_path, FACTS, now=lambda: 0.0) as snapshots:
        snapshots.on_phase("compact", None)
        for stage in learner.stages(database(COLOUR)):
            snapshots.on_stage(stage)
        snapshots.on_phase("write", None)
        assert isinstance(Policy.load(tmp_path / "live.rlvc").classifier, Diagrams)
        assert n_classes(tmp_path) == live(tmp_path)["classes"] == stage.classifier.n_classes


def test_slow_snapshots_are_rare(
    stages: list[Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, written = [0.0], list[float]()

    def write(path: Path, data: bytes) -> None:
        written.append(now[0])
        now[0] += 0.5

    monkeypatch.setattr(snapshots_module, "atomic_write", write)
    with LiveSnapshots(tmp_path, FACTS, now=lambda: now[0]) as snapshots:
        for _ in range(100):
            snapshots.on_stage(stages[0])
            now[0] += 1.0
    assert len(written) == 10  # each took half a second, so that 10 lie between them


@pytest.mark.parametrize("error", [None, RuntimeError(), KeyboardInterrupt()])
def test_snapshots_are_removed_however_a_run_ends(
    error: BaseException | None, stages: list[Stage], tmp_path: Path
) -> None:
    def run() -> None:
        with LiveSnapshots(tmp_path, FACTS, examples=True) as snapshots:
            snapshots.on_stage(stages[0])
            assert names(tmp_path) == {"live.json", "live.rlvc", "examples.rlvc"}
            if error is not None:
                raise error

    if error is None:
        run()
        assert names(tmp_path) == {"examples.rlvc"}  # of the result
    else:
        with pytest.raises(type(error)):
            run()
        assert names(tmp_path) == set()


def test_the_first_stage_removes_an_earlier_run(stages: list[Stage], tmp_path: Path) -> None:
    for name in (*OLD, "mine.csv"):
        (tmp_path / name).write_text("old")
    with (
        Curves(tmp_path, tensorboard=True) as curves,
        LiveSnapshots(tmp_path, FACTS, examples=True) as snapshots,
    ):
        CallbackList([curves, snapshots]).on_phase("collect", 3)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}
    assert names(tmp_path) == {*OLD, "mine.csv"}
    with Curves(tmp_path) as curves:
        curves.on_stage(stages[0])
    assert names(tmp_path) == {"stages.csv", "mine.csv"}
    assert "old" not in (tmp_path / "stages.csv").read_text()


@pytest.mark.parametrize("where", ["rlvc.runs.live.atomic_write", "rlvc._core.archive.os.fsync"])
def test_a_full_disk_stops_the_snapshots_and_not_the_run(
    where: str,
    stages: list[Stage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    now = [0.0]
    with (
        caplog.at_level(logging.WARNING),
        LiveSnapshots(tmp_path, FACTS, now=lambda: now[0]) as snapshots,
    ):
        snapshots.on_stage(stages[0])
        with monkeypatch.context() as patched:
            patched.setattr(where, fail)
            for stage in stages[1:]:
                now[0] += 60.0
                snapshots.on_stage(stage)
        snapshots.on_phase("write", None)
        assert live(tmp_path)["updated"] == 1
    (message,) = caplog.messages
    assert message.startswith(
        "The run continues, but cannot be watched any more: its snapshots cannot be written "
        "([Errno 28] No space left on device"
    )
    assert names(tmp_path) == set()


def test_a_custom_task_is_followed_round_by_round(tmp_path: Path) -> None:
    seen = list[Any]()

    class Follower(Callback):
        def on_phase(self, phase: str, total: int | None) -> None:
            if phase in ("collect 2", "evaluate"):
                seen.append((live(tmp_path), Examples.load(tmp_path / "examples.rlvc")))

    with (
        Curves(tmp_path) as curves,
        LiveSnapshots(tmp_path, FACTS, examples=True, now=lambda: 0.0) as snapshots,
    ):
        run = run_custom(
            Corridor(kind="cameras"), RLVC(gamma=0.5, threads=1), interactions=60, rounds=2,
            episodes=2, callbacks=[curves, snapshots, Follower()],
        )  # fmt: skip
    (first, few), (second, more) = seen
    assert (first["phase"], second["phase"]) == ("collect 2", "evaluate")
    assert (first["interactions"], second["interactions"]) == (30, 60)
    assert (few.count.sum(), more.count.sum()) == (30, 60)
    assert few.classes is None  # they were those of the first stage
    assert more.percepts.cameras == ("front", "rear")
    assert [len(one["rounds"]) for one in (first, second)] == [1, 2]
    assert second["rounds"] == run.result["rounds"]
    assert {line["phase"] for line in second["history"]} == {"learn 1", "learn 2"}
    last = [line for line in second["history"] if line.pop("phase") == "learn 2"]
    assert last == run.result["history"]
    for key in ("classes", "stages", "features", "percepts", "parameters", "versions"):
        assert second[key] == run.result[key]
