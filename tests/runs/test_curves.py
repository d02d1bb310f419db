from __future__ import annotations

import csv
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event

from rlvc import RLVC
from rlvc.runs import CallbackList, Curves, describe_stage
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


# CSV ---------------------------------------------------------------------------------------------


def test_each_group_has_its_file(tmp_path: Path) -> None:
    with Curves(tmp_path) as curves:
        curves.write("stages", 0, {"classes": 1, "residual": 0.1 + 0.2})
        curves.write("rounds", 50, {"return": None, "classes": 1})
        curves.write("stages", 1, {"classes": 2, "residual": 0.0})
        assert (tmp_path / "stages.csv").read_bytes() == (  # each line at once
            b"step,classes,residual\r\n0,1,0.30000000000000004\r\n1,2,0.0\r\n"
        )
        curves.write("rounds", 60, {"return": -1.5, "classes": 2})
    assert lines(tmp_path / "rounds.csv") == [
        ["step", "return", "classes"], ["50", "", "1"], ["60", "-1.5", "2"],
    ]  # fmt: skip


# TensorBoard -------------------------------------------------------------------------------------


def test_tensorboard_reads_the_curves(tmp_path: Path) -> None:
    with Curves(tmp_path, tensorboard=True) as curves:
        curves.write("stages", 0, {"classes": 1, "residual": 0.5})
        curves.write("stages", 1, {"classes": 2, "residual": 0.25})
        curves.write("rounds", 100, {"return": None, "classes": 3})
    assert points(tmp_path / "tensorboard") == {
        "stages/classes": [(0, 1.0), (1, 2.0)],
        "stages/residual": [(0, 0.5), (1, 0.25)],
        "rounds/classes": [(100, 3.0)],
    }
    assert lines(tmp_path / "rounds.csv") == [["step", "return", "classes"], ["100", "", "3"]]


def test_event_files_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    for n in (1, 2):
        with Curves(tmp_path, tensorboard=True) as curves:
            curves.write("stages", 0, {"classes": n})
    assert points(tmp_path / "tensorboard") == {"stages/classes": [(0, 2.0)]}
    with Curves(tmp_path) as curves:
        curves.write("stages", 0, {"classes": 3})
    assert list((tmp_path / "tensorboard").iterdir()) == []


def test_tensorboard_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"^tensorboardX is not installed; install it with: "
        r'pip install "rlvc\[tensorboard\]"\.$',
    ):
        Curves(tmp_path, tensorboard=True)


# Both together -----------------------------------------------------------------------------------


def test_event_files_are_closed_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = list[Any](), SummaryWriter.close

    def close_and_tell(events: Any) -> None:
        closed.append(events)
        close(events)

    monkeypatch.setattr(SummaryWriter, "close", close_and_tell)

    def write() -> None:
        with Curves(tmp_path, tensorboard=True) as curves:
            curves.write("rounds", 3, {"return": 1.0})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert len(closed) == 1
    assert points(tmp_path / "tensorboard") == {"rounds/return": [(3, 1.0)]}
    assert lines(tmp_path / "rounds.csv") == [["step", "return"], ["3", "1.0"]]


def test_curves_follow_a_run_and_count_its_stages_on(tmp_path: Path) -> None:
    recorded, curves = RecordingCallback(), Curves(tmp_path)
    callback = CallbackList([recorded, curves])
    numbers = {"round": 1, "interactions": 30, "episodes": 0, "return": None, "classes": 1}
    callback.on_phase("learn", None)
    callback.on_round(numbers)
    stages = list(RLVC(threads=1).stages(database(COLOUR)))
    for stage in [*stages, *stages]:
        callback.on_stage(stage)
    assert recorded.rounds == [numbers]
    assert recorded.stages == {"learn": [*stages, *stages]}
    assert lines(tmp_path / "rounds.csv") == [["step", *numbers], ["30", "1", "30", "0", "", "1"]]
    head, *rows = lines(tmp_path / "stages.csv")
    assert head == ["step", *describe_stage(stages[0])]
    assert rows == [
        [str(step), *map(str, describe_stage(stage).values())]
        for step, stage in enumerate([*stages, *stages])
    ]
    assert describe_stage(stages[-1]) == {
        "stage": len(stages) - 1, "interactions": 400, "classes": stages[-1].classifier.n_classes,
        "features": len(stages[-1].classifier.features), "residual": 0.0, "aliased": 0,
        "refined": 0,
    }  # fmt: skip
