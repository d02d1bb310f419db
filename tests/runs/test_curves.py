from __future__ import annotations

import csv
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

from rlvc import RLVC
from rlvc.runs import CallbackList, CsvCurves, Curves, describe_stage, open_curves
from rlvc.runs.curves import import_tensorboard
from tests.support.builders import COLOUR, database
from tests.support.tasks import RecordingCallback


def lines(file: Path) -> list[list[str]]:
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.reader(text))


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the points of each curve in the one event file of a folder."""
    (file,) = folder.iterdir()
    data, found = file.read_bytes(), dict[str, list[tuple[int, float]]]()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])  # between two checksums
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
        data = data[16 + length :]
    return found


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int, dict[str, Any]]] = []
        self.is_closed = False

    def write(self, group: str, step: int, values: Mapping[str, float | None]) -> None:
        self.written.append((group, step, dict(values)))

    def close(self) -> None:
        self.is_closed = True


# CSV ---------------------------------------------------------------------------------------------


def test_each_group_has_its_file(tmp_path: Path) -> None:
    journal = CsvCurves(tmp_path)
    journal.write("stages", 0, {"classes": 1, "residual": 0.1 + 0.2})
    journal.write("rounds", 50, {"return": -1.5})
    journal.write("stages", 1, {"classes": 2, "residual": 0.0})
    journal.close()
    assert (tmp_path / "stages.csv").read_bytes() == (
        b"step,classes,residual\r\n0,1,0.30000000000000004\r\n1,2,0.0\r\n"
    )
    assert lines(tmp_path / "rounds.csv") == [["step", "return"], ["50", "-1.5"]]


def test_a_line_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    journal = CsvCurves(tmp_path)
    for step in range(3):
        journal.write("stages", step, {"classes": step})
        assert len(lines(tmp_path / "stages.csv")) == step + 2
    journal.close()


def test_what_is_not_known_is_an_empty_cell(tmp_path: Path) -> None:
    journal = CsvCurves(tmp_path)
    journal.write("rounds", 10, {"return": None, "classes": 1})
    journal.write("rounds", 20, {"return": 0.5, "classes": 2})
    journal.close()
    assert lines(tmp_path / "rounds.csv")[1:] == [["10", "", "1"], ["20", "0.5", "2"]]


def test_curves_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    (tmp_path / "stages.csv").write_text("old")
    (tmp_path / "rounds.csv").write_text("old")
    (tmp_path / "mine.csv").write_text("kept")
    with open_curves(tmp_path) as journal:
        journal.write("stages", 0, {"classes": 1})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.csv", "stages.csv"]
    assert lines(tmp_path / "stages.csv") == [["step", "classes"], ["0", "1"]]


# TensorBoard -------------------------------------------------------------------------------------


def test_tensorboard_reads_the_curves(tmp_path: Path) -> None:
    with open_curves(tmp_path, tensorboard=True) as journal:
        journal.write("stages", 0, {"classes": 1, "residual": 0.5})
        journal.write("stages", 1, {"classes": 2, "residual": 0.25})
        journal.write("rounds", 100, {"return": None, "classes": 3})
    assert points(tmp_path / "tensorboard") == {
        "stages/classes": [(0, 1.0), (1, 2.0)],
        "stages/residual": [(0, 0.5), (1, 0.25)],
        "rounds/classes": [(100, 3.0)],
    }
    assert lines(tmp_path / "rounds.csv") == [["step", "return", "classes"], ["100", "", "3"]]


def test_event_files_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    for n in (1, 2):
        with open_curves(tmp_path, tensorboard=True) as journal:
            journal.write("stages", 0, {"classes": n})
    assert points(tmp_path / "tensorboard") == {"stages/classes": [(0, 2.0)]}
    with open_curves(tmp_path) as journal:
        journal.write("stages", 0, {"classes": 3})
    assert list((tmp_path / "tensorboard").iterdir()) == []


def test_a_run_that_writes_no_line_spoils_nothing(tmp_path: Path) -> None:
    for name in ("stages.csv", "rounds.csv", "result.json"):
        (tmp_path / name).write_text("old")
    with open_curves(tmp_path, tensorboard=True):
        pass
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "stages.csv": "old", "rounds.csv": "old", "result.json": "old",
    }  # fmt: skip


def test_tensorboard_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"^tensorboardX is not installed; install it with: "
        r'pip install "rlvc\[tensorboard\]"\.$',
    ):
        import_tensorboard()


# All together ------------------------------------------------------------------------------------


def test_journals_are_closed_whatever_happens() -> None:
    one, other = Kept(), Kept()

    def write() -> None:
        with Curves(lambda: [one, other]) as journals:
            journals.write("rounds", 3, {"return": 1.0})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert one.written == other.written == [("rounds", 3, {"return": 1.0})]
    assert one.is_closed
    assert other.is_closed


def test_stages_are_counted_on() -> None:
    kept = Kept()
    journals = Curves(lambda: [kept])
    stages = list(RLVC(threads=1).stages(database(COLOUR)))
    for stage in [*stages, *stages]:
        journals.on_stage(stage)
    assert [step for _, step, _ in kept.written] == list(range(2 * len(stages)))
    assert {group for group, _, _ in kept.written} == {"stages"}
    assert [values for _, _, values in kept.written[: len(stages)]] == [
        describe_stage(stage) for stage in stages
    ]
    last = kept.written[-1][2]
    assert last == {
        "stage": len(stages) - 1, "interactions": 400, "classes": stages[-1].classifier.n_classes,
        "features": len(stages[-1].classifier.features), "residual": 0.0, "aliased": 0,
        "refined": 0,
    }  # fmt: skip


def test_curves_are_a_callback() -> None:
    kept, recorded = Kept(), RecordingCallback()
    callback = CallbackList([recorded, Curves(lambda: [kept])])
    numbers = {"round": 1, "interactions": 30, "episodes": 0, "return": None, "classes": 1}
    callback.on_phase("learn", None)
    callback.on_round(numbers)
    stage = next(iter(RLVC(threads=1).stages(database(COLOUR))))
    callback.on_stage(stage)
    assert recorded.rounds == [numbers]
    assert recorded.stages == {"learn": [stage]}
    assert kept.written == [("rounds", 30, numbers), ("stages", 0, describe_stage(stage))]
