from __future__ import annotations

import importlib
import io
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc import Interactions, collect, read_folder, write_folder
from rlvc.data.io import FileImages
from rlvc.errors import DataError, ImageError
from tests.support.builders import pictures
from tests.support.datasets import HEADER, any_episodes, chain, write_images, write_table
from tests.support.worlds import Walk, identical

pyarrow: Any = importlib.import_module("pyarrow")
importlib.import_module("pyarrow.parquet")

SOUND = """
0,0,0.png,1,0.5,false,false
0,1,1.png,0,-1,false,true
0,2,0.png,,,,
7,3,2.png,2,1,true,false
7,4,0.png,,,,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the images 0.png, 1.png and 2.png, and no table yet."""
    write_images(tmp_path / "log")
    return tmp_path / "log"


def problems(path: Path, **given: Any) -> list[str]:
    with pytest.raises(DataError) as caught:
        read_folder(path, **given)
    return list(caught.value.problems)


@pytest.mark.parametrize("table", ["csv", "parquet"])
@pytest.mark.parametrize("start", [0, 3, -2])
@pytest.mark.parametrize("is_dict", [False, True])
def test_what_is_written_is_read(table: str, start: int, is_dict: bool, tmp_path: Path) -> None:
    data = collect(Walk(start=start, is_dict=is_dict, limit=7), 120, seed=4)
    target, calls = tmp_path / "new" / "log", list[int]()
    write_folder(data, target, table=table, on_image=lambda: calls.append(1))
    assert len(calls) == 5 + is_dict
    assert identical(read_folder(target), data)
    assert identical(read_folder(target / f"interactions.{table}"), data)
    assert [file.name for file in target.parent.iterdir()] == ["log"]
    if is_dict:
        assert len(list((target / "images" / "front").iterdir())) == 5
        assert len(list((target / "images" / "rear").iterdir())) == 1
    else:
        assert len(list((target / "images").iterdir())) == 5


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1), shape=st.sampled_from([(6, 5, 1), (6, 5, 3), (1, 1, 1)]),
    is_csv=st.booleans(),
)  # fmt: skip
def test_any_whole_episodes_are_kept_to_the_bit(
    seed: int, shape: tuple[int, ...], is_csv: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = any_episodes(seed, shape)
    target = tmp_path_factory.mktemp("any")
    write_folder(data, target, table="csv" if is_csv else "parquet")
    assert identical(read_folder(target), data)


def test_percepts_and_episodes_are_numbered_anew(tmp_path: Path) -> None:
    whole = collect(Walk(limit=4), 60, seed=2)
    part, _ = whole.of_episodes([3, 5, 6])
    write_folder(part, tmp_path / "log")
    read = read_folder(tmp_path / "log")
    assert np.array_equal(np.diff(read.episode), np.diff(part.episode) > 0)
    assert np.array_equal(read.action, part.action)
    for t in range(len(part)):
        for column in ("start", "end"):
            one = part.percepts[int(getattr(part, column)[t])]
            assert np.array_equal(
                np.asarray(one), np.asarray(read.percepts[int(getattr(read, column)[t])])
            )


def test_a_table_by_hand(folder: Path) -> None:
    data = read_folder(write_table(folder, SOUND))
    assert data.start.tolist() == [0, 1, 2]
    assert data.end.tolist() == [1, 0, 0]
    assert data.action.tolist() == [1, 0, 2]
    assert data.reward.tolist() == [0.5, -1, 1]
    assert data.episode.tolist() == [0, 0, 1]
    assert data.terminated.tolist() == [False, False, True]
    assert data.truncated.tolist() == [False, True, False]
    assert (data.n_actions, data.action_start, data.action_names) == (3, 0, ())
    for number, image in enumerate(pictures(3, shape=(6, 5, 3))):
        assert np.array_equal(np.asarray(data.percepts[number]), image)


def test_rows_in_any_order(folder: Path) -> None:
    expected = read_folder(write_table(folder, SOUND))
    lines = SOUND.strip().splitlines()
    for seed in range(5):
        np.random.default_rng(seed).shuffle(lines)
        assert identical(read_folder(write_table(folder, "\n".join(lines))), expected)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_how_csv_is_written_does_not_matter(mark: str, folder: Path) -> None:
    expected = read_folder(write_table(folder, SOUND))
    text = f"{HEADER},note\n" + SOUND.strip().replace("\n", ",x\n\n") + ",x\n  \n"
    text = text.replace("0.png", ' "0.png" ' if mark == "," else '"0.png"').replace(",", mark)
    text = text.replace(' "0.png" ', " 0.png ").replace("true", "Yes").replace("-1", "-1e0")
    text = text.replace("false", "0").replace(f"{mark}2{mark}1{mark}", f"{mark}2.0{mark}1{mark}")
    (folder / "table.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert identical(read_folder(folder), expected)


def test_parquet_from_elsewhere(folder: Path) -> None:
    expected = read_folder(write_table(folder, SOUND))
    (folder / "table.csv").unlink()
    nan = float("nan")
    columns = {
        "index": [[1], [2], [3], [4], [5]],
        "reward": pyarrow.array([0.5, -1, nan, 1, None], pyarrow.float32()),
        "episode": pyarrow.array([0, 0, 0, 7, 7], pyarrow.uint8()),
        "step": [0.0, 1.0, 2.0, 3.0, 4.0],
        "image": pyarrow.array(["0.png", "1.png", "0.png", "2.png", "0.png"]).dictionary_encode(),
        "action": [1.0, 0.0, nan, 2.0, None],
        "terminated": [False, False, False, True, None],
        "truncated": [0, 1, None, 0, 0],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "TABLE.PARQUET")
    assert identical(read_folder(folder), expected)


def test_cameras_have_a_column_each(folder: Path) -> None:
    write_images(folder / "rear", shape=(4, 4, 1))
    header = HEADER.replace("image", "image.rear,image.front")
    rows = "0,0,rear/1.png,0.png,0,0,,\n0,1,rear/1.png,1.png,0,0,1,\n0,2,rear/0.png,0.png,,,,"
    data = read_folder(write_table(folder, rows, header))
    assert data.percepts.cameras == ("front", "rear")
    assert [images.shape for images in data.percepts.images] == [(6, 5, 3), (4, 4, 1)]
    assert data.percepts.table().tolist() == [[0, 0], [1, 0], [0, 1]]
    assert (data.start.tolist(), data.end.tolist()) == ([0, 1], [1, 2])


def test_images_may_be_anywhere_and_each_file_is_read_once(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    expected = read_folder(write_table(folder, SOUND))
    write_table(tmp_path / "elsewhere", SOUND.replace("0.png", f"{folder}/0.png").replace(
        ",1.png", ",../log/1.png").replace(",2.png", ",../log/2.png"))  # fmt: skip
    calls: list[int] = []
    read = read_folder(tmp_path / "elsewhere", on_image=lambda: calls.append(1))
    assert identical(read, expected)
    assert len(calls) == 3


def test_alpha_is_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = read_folder(write_table(folder, SOUND))
    for name in ("0.png", "1.png"):
        image = cv2.imread(str(folder / name))
        assert image is not None
        image = np.dstack([image, np.full((6, 5), 77, np.uint8)])
        cv2.imwrite(str(folder / name), image)
    with caplog.at_level(logging.WARNING):
        assert identical(read_folder(folder), expected)
    assert caplog.messages == ["Some images have an alpha channel, which is left out."]


# Episodes without a last row


def test_nothing_depends_on_what_follows_a_terminal_end(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "0,0,0.png,1,0,,\n0,1,1.png,0,1,true,true\n1,0,2.png,0,0,true,"
    with caplog.at_level(logging.WARNING):
        data = read_folder(write_table(folder, rows))
    assert (data.start.tolist(), data.end.tolist()) == ([0, 1, 2], [1, 1, 2])
    assert data.terminated.tolist() == [False, True, True]
    assert not caplog.messages


def test_what_followed_a_cut_must_be_known(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = """
        0,0,2.png,1,0,,true
        1,0,0.png,1,5,,
        1,1,1.png,0,1,,true
        2,0,1.png,0,0,true,
        2,1,1.png,,,,
    """
    with caplog.at_level(logging.WARNING):
        data = read_folder(write_table(folder, rows))
    assert (data.start.tolist(), data.end.tolist()) == ([0, 1], [1, 1])
    assert (data.reward.tolist(), data.episode.tolist()) == ([5, 0], [0, 1])
    assert (data.terminated.tolist(), data.truncated.tolist()) == ([False, True], [True, False])
    assert len(data.percepts) == 2
    assert caplog.messages == [
        "2 of 3 episodes were cut off and have no image after their last action; "
        "that action is left out."
    ]


def test_one_interaction_must_be_left(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert problems(write_table(folder, "0,0,0.png,1,0,,true\n1,0,1.png,1,0,,true")) == [
        "Nothing is left: every episode was cut off after its only action and has no image "
        "after it. Add a last row with that image to each."
    ]
    assert not caplog.messages


# Actions


def test_actions_by_the_file_and_by_the_arguments(folder: Path) -> None:
    write_table(folder, SOUND)
    (folder / "actions.txt").write_bytes(
        b"\xef\xbb\xbf-1 sharp left\r\n0\tleft\r\n1 on\r\n2 right\r\n"
    )
    data = read_folder(folder)
    assert (data.action.tolist(), data.n_actions, data.action_start) == ([2, 1, 3], 4, -1)
    assert data.action_names == ("sharp left", "left", "on", "right")
    named = read_folder(folder, action_start=0, action_names=("a", "b", "c"))
    assert (named.n_actions, named.action_start) == (3, 0)
    assert named.action_names == ("a", "b", "c")
    (folder / "actions.txt").write_text("0\n1\n2\n3\n4\n\n")
    assert (read_folder(folder).n_actions, read_folder(folder).action_names) == (5, ())
    assert read_folder(folder, n_actions=3).n_actions == 3
    (folder / "actions.txt").unlink()
    assert read_folder(folder, n_actions=9, action_start=-5).action.tolist() == [6, 5, 7]


@pytest.mark.parametrize("text", ["", "left\nright\n", "0 left\n2 right\n", "0\n0\n"])
def test_a_file_of_actions_that_cannot_be_understood(text: str, folder: Path) -> None:
    write_table(folder, SOUND.replace("-1", "nan"))
    (folder / "actions.txt").write_text(text)
    assert problems(folder) == [
        "actions.txt must have a line for each action, with its number and its name, such as "
        "'0 left', and the numbers must go up by one from line to line.",
        f"reward is not finite in row 2 (nan). {LEAVE_OUT}",
    ]


def test_all_actions_have_names_or_none(folder: Path) -> None:
    write_table(folder, SOUND)
    (folder / "actions.txt").write_text("0 left\n1\n2 right")
    assert problems(folder) == ["actions.txt must name all actions or none; it names 2."]
    (folder / "actions.txt").write_bytes(b"0 \xff")
    assert problems(folder) == ["actions.txt is not UTF-8 text (byte 2). Save it as UTF-8."]


def test_arguments_that_do_not_fit(folder: Path) -> None:
    write_table(folder, SOUND)
    with pytest.raises(ValueError, match=r"^n_actions of read_folder must be between 1 and 65536"):
        read_folder(folder, n_actions=0)
    message = r"^action_names of read_folder must name 3 actions; got 2\. Name all or none\.$"
    with pytest.raises(ValueError, match=message):
        read_folder(folder, n_actions=3, action_names=("a", "b"))


# What is wrong


LEAVE_OUT = "Correct it, or leave the episode out."
NO_END = (
    "neither terminated nor truncated in row {}. Set truncated to true there if it was cut off."
)
GAP = "Number the steps of an episode consecutively."


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("0,1,1", "x,1,1", ["episode is not a whole number in row 2 (x)."]),
        ("0,1,1", ",1,1", ["episode is empty in row 2."]),
        ("0,1,1", "0,1.5,1", ["step is not a whole number in row 2 (1.5)."]),
        ("0,1,1", "0,,1", ["step is empty in row 2."]),
        ("0,1,1", "0,1e300,1", ["step is not a whole number in row 2 (1e300)."]),
        ("1.png", "", ["image is empty in row 2."]),
        ("1.png,0", "1.png,2.5", ["action is not a whole number in row 2 (2.5)."]),
        ("-1", "much", ["reward is not a number in row 2 (much)."]),
        ("false,true", "false,2", ["truncated is not true or false in row 2 (2)."]),
        (
            "1.png,0,-1", "1.png,,",
            [
                "action is empty in row 2. Only the last row of an episode, with the last image, "
                "has no action.",
                f"episode 0 has no end: {NO_END.format(1)}",
            ],
        ),
        ("false,true", "false,false", [f"episode 0 has no end: {NO_END.format(2)}"]),
        (
            "0.5,false,false", "0.5,false,true",
            [
                "terminated or truncated is true before the last action of the episode in row 1. "
                "Give the rows after it the number of another episode."
            ],
        ),
        (
            "0,2,0.png,,,,", "0,2,0.png,,3,,true",
            [
                "terminated or truncated is true without an action in row 3. Set it in the row of "
                "the last action.",
                "reward is given without an action in row 3. A reward belongs in the row of the "
                "action that it follows.",
            ],
        ),
        (
            "0,1,1", "0,0,1",
            [
                f"step is that of another row of its episode in row 2 (episode 0, step 0). {GAP}",
                f"step leaves a gap after the previous one in row 3 (episode 0, step 2). {GAP}",
            ],
        ),
        (
            "7,3,", "8,3,",
            ["There is no action in the only row of an episode, in row 5. Leave the episode out."],
        ),
        (
            "1.png", ".",
            [
                "image names a file that cannot be read (Is a directory) in row 2 (.). Check that "
                "it is a file that may be read."
            ],
        ),
        (
            "1.png", "table.csv",
            [
                "image names a file that is damaged, or is not an image that OpenCV can read, in "
                "row 2 (table.csv). Save it again as PNG, JPEG, BMP, TIFF or WebP."
            ],
        ),
        (
            "true,false", "true,false,1",
            ["The number of cells is not 7, as in the header, in row 4 (8)."],
        ),
    ],
)  # fmt: skip
def test_one_thing_is_wrong(old: str, new: str, expected: list[str], folder: Path) -> None:
    assert old in SOUND
    assert problems(write_table(folder, SOUND.replace(old, new, 1))) == expected


def test_actions_outside_the_space(folder: Path) -> None:
    write_table(folder, SOUND)
    assert problems(folder, n_actions=2, action_start=1) == [
        "action is not in 1..2 in row 2 (0). Correct it, or the number of actions."
    ]
    assert problems(folder, action_start=1) == [
        "action is below 1 in row 2 (0). Give the first action in actions.txt or with action_start."
    ]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("reward", "rewards", "; there is 'rewards'"),
        ("reward", "x", ""),
        ("step", "STEP", "; there is 'STEP'"),
        ("image", "img", "; there is 'img'"),
        ("action", "a", ""),
    ],
)
def test_columns_that_are_missing(old: str, new: str, hint: str, folder: Path) -> None:
    write_table(folder, SOUND.replace("1.png", "9.png"), HEADER.replace(old, new))
    missing, *others = problems(folder)
    assert missing == f"Column {old!r} is missing{hint}."
    assert [one[:40] for one in others] == ["image names a file that is not there in "] * (
        old != "image"
    )


@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_columns_there_twice_or_too_many(table: str, folder: Path) -> None:
    if table == "csv":
        write_table(
            folder, "0,0,0.png,0.png,1,1,0,true,", HEADER.replace("image,", "image,image.a,action,")
        )
    else:
        names = HEADER.replace("image,", "image,image.a,action,").split(",")
        arrays = [pyarrow.array([value]) for value in (0, 0, "0.png", "0.png", 1, 1, 0, True, None)]
        pyarrow.parquet.write_table(
            pyarrow.Table.from_arrays(arrays, names=names), folder / "table.parquet"
        )
    assert problems(folder) == [
        "Column 'action' appears 2 times.",
        "There are columns 'image' and 'image.a'. Keep 'image' for one camera, or a column "
        "'image.NAME' for each of several.",
    ]


def test_all_problems_are_reported_at_once(folder: Path) -> None:
    (folder / "2.png").write_bytes((folder / "2.png").read_bytes()[:60])
    cv2.imwrite(str(folder / "small.png"), np.zeros((3, 5, 3), np.uint8))
    cv2.imwrite(str(folder / "grey.png"), np.zeros((6, 5), np.uint8))
    cv2.imwrite(str(folder / "deep.png"), np.zeros((6, 5), np.uint16))
    cv2.imwrite(str(folder / "float.tiff"), np.zeros((6, 5), np.float32))
    rows = """
        0,0,0.png,0,nan,,
        0,1,small.png,0,1,,
        0,2,missing.png,x,1,maybe,
        0,4,grey.png,9,inf,,
        1,0,deep.png,1,0,,
        2,0,2.png,1,0,true,
        3,0,float.tiff,1,,true,
        3,zero,0.png,1,nan,,
        3,1,missing.png,,,,
    """
    with pytest.raises(DataError) as caught:
        read_folder(write_table(folder, rows), n_actions=2)
    assert str(caught.value) == "\n  ".join(
        [
            f"{folder} has 15 problems (rows are counted from 1, after the header):",
            "step is not a whole number in row 8 (zero).",
            "action is not a whole number in row 3 (x).",
            "terminated is not true or false in row 3 (maybe).",
            "action is not in 0..1 in row 4 (9). Correct it, or the number of actions.",
            "reward is empty in row 7.",
            f"reward is not finite in rows 1, 4 and 8 (nan, inf, nan). {LEAVE_OUT}",
            f"step leaves a gap after the previous one in row 4 (episode 0, step 4). {GAP}",
            f"episode 0 has no end: {NO_END.format(4)}",
            f"episode 1 has no end: {NO_END.format(5)}",
            "image has shape (3, 5, 3), not (6, 5, 3) as row 1, in row 2 (small.png). Resize the "
            "images to one size, all in grey or all in colour.",
            "image names a file that is not there in row 3 (missing.png). Paths start from the "
            "folder of the table.",
            "image has shape (6, 5, 1), not (6, 5, 3) as row 1, in row 4 (grey.png). Resize the "
            "images to one size, all in grey or all in colour.",
            "image is of type uint16, not uint8, in row 5 (deep.png). Scale the images to 0..255 "
            "and save them with 8 bits.",
            "image names a file that is damaged, or is not an image that OpenCV can read, in row 6 "
            "(2.png). Save it again as PNG, JPEG, BMP, TIFF or WebP.",
            "image is of type float32, not uint8, in row 7 (float.tiff). Scale the images to "
            "0..255 and save them with 8 bits.",
        ]
    )


def test_problems_of_many_rows_are_one_line(folder: Path) -> None:
    rows = [f"{i},0,0.png,0,{'9' * 99}x,true," for i in range(30)]
    (found,) = problems(write_table(folder, "\n".join(rows)))
    quoted = ", ".join([f"{'9' * 59}…"] * 10)
    assert found == (
        f"reward is not a number in rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more ({quoted}, …)."
    )


def test_a_long_list_is_cut(folder: Path) -> None:
    rows = [f"{i},0,0.png,0,0,,\n{i},1,1.png,,,," for i in range(62)]
    with pytest.raises(DataError) as caught:
        read_folder(write_table(folder, "\n".join(rows)))
    lines = str(caught.value).splitlines()
    assert len(caught.value.problems) == 62
    assert lines[0] == f"{folder} has 62 problems (rows are counted from 1, after the header):"
    assert lines[1].startswith("  episode 0 has no end")
    assert len(lines) == 52
    assert lines[-1] == "  and 12 more"
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ["table.csv is empty. Its first line must name the columns."]),
        (HEADER.encode(), ["There are no rows."]),
        (
            HEADER.replace("step,", "").encode(),
            ["Column 'step' is missing.", "There are no rows."],
        ),
        (b"episode,\xff", ["table.csv is not UTF-8 text (byte 8). Save it as UTF-8."]),
        (
            f'{HEADER}\n0,0,"0.png,0,0,true,\n'.encode(),
            ["table.csv is not valid CSV in line 2 (unexpected end of data)."],
        ),
    ],
)
def test_broken_tables_are_reported(data: bytes, expected: list[str], folder: Path) -> None:
    (folder / "table.csv").write_bytes(data)
    assert problems(folder) == expected


def test_a_damaged_parquet_file(folder: Path) -> None:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"episode": [0]}), buffer)
    for data in (b"", b"episode" * 9, buffer.getvalue()[:-20]):
        (folder / "table.parquet").write_bytes(data)
        (found,) = problems(folder)
        assert found.startswith("table.parquet is not a Parquet file, or it is damaged (")


def test_where_the_table_is_not(folder: Path) -> None:
    assert problems(folder) == [
        "There is no table: one file whose name ends with .csv or .parquet."
    ]
    assert problems(folder / "none") == ["There is no such folder and no such file."]
    assert problems(folder / "0.png") == [
        "It is not a table: its name must end with .csv or .parquet."
    ]
    write_table(folder, SOUND)
    (folder / "._table.csv").write_bytes(b"")  # of a file manager
    read_folder(folder)
    (folder / "old.parquet").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        read_folder(folder)
    assert str(caught.value) == (
        f"{folder} has 1 problem:\n"
        "  There are 2 tables (old.parquet, table.csv). Name the one to read, with its folder."
    )
    read_folder(folder / "table.csv")


def test_reading_writes_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_table(folder, SOUND)
    (folder / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    before = sorted(file.name for file in folder.iterdir())
    problems(folder)
    assert sorted(file.name for file in folder.iterdir()) == before
    assert capfd.readouterr() == ("", "")


def test_parquet_needs_pyarrow(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "table.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    said = r'^pyarrow is not installed; install it with: pip install "rlvc\[parquet\]"\.$'
    with pytest.raises(ModuleNotFoundError, match=said):
        read_folder(folder)
    with pytest.raises(ModuleNotFoundError, match=said):
        write_folder(chain(), tmp_path / "new", table="parquet")
    assert not (tmp_path / "new").exists()


# Writing


def test_episodes_must_be_whole(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"^interactions of write_folder must be whole episodes; row 1 does not start where "
        r"row 0 ended, in the same episode\.$",
    ):
        write_folder(chain(start=np.array([0, 2, 0])), tmp_path / "log")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [" left", "", "left\nright"])
def test_names_that_a_line_cannot_hold(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"^Names of actions and cameras must be on one line, without spaces around them, to "
        r"be written; got ",
    ):
        write_folder(chain(action_names=("right", name)), tmp_path / "log")


@pytest.mark.parametrize("names", [("../up", "a.b"), ("frame 1", "é/%"), ("..", '"x",y')])
def test_cameras_of_any_name(names: tuple[str, ...], tmp_path: Path) -> None:
    one, other = (dict.fromkeys(names, image) for image in pictures(2, shape=(4, 4, 3)))
    data = Interactions.from_arrays([one], [0], [1], [True], next_observations=[other])
    for table in ("csv", "parquet"):
        write_folder(data, tmp_path / table, table=table)
        assert identical(read_folder(tmp_path / table), data)
        assert {file.name for file in (tmp_path / table).iterdir()} == {
            "images", "SHA256SUMS", "actions.txt", f"interactions.{table}",
        }  # fmt: skip


def test_existing_files_are_not_overwritten(folder: Path, tmp_path: Path) -> None:
    message = r"^path of write_folder must be new or an empty folder; got .*log, which holds files"
    with pytest.raises(ValueError, match=message):
        write_folder(chain(), folder)
    with pytest.raises(ValueError, match=r"0\.png, which is a file\.$"):
        write_folder(chain(), folder / "0.png")
    with pytest.raises(ValueError, match=r"^Unknown table 'cvs'\. Did you mean 'csv'\? "):
        write_folder(chain(), tmp_path / "new", table="cvs")
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    target = tmp_path / "empty"
    target.mkdir()
    mode = target.stat().st_mode
    write_folder(chain(), target)
    assert len(read_folder(target)) == 3
    assert target.stat().st_mode == mode


# What a folder says of itself


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A folder that was written here: two images, two episodes."""
    write_folder(chain(), tmp_path / "sealed")
    return tmp_path / "sealed"


CURE = "Get it again from its source; if you changed it on purpose, remove SHA256SUMS."


def test_sha256sum_reads_the_checksums(sealed: Path) -> None:
    names = "actions.txt", *(f"images/00000{n}.png" for n in range(3)), "interactions.csv"
    command = ["sha256sum", "-c", "SHA256SUMS"]
    done = subprocess.run(command, cwd=sealed, capture_output=True, check=True, text=True)
    assert done.stdout == "".join(f"{name}: OK\n" for name in names)
    write_folder(chain(), sealed.parent / "again")
    again = sealed.parent / "again" / "SHA256SUMS"
    assert again.read_bytes() == (sealed / "SHA256SUMS").read_bytes()


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("place", [0, 20, 60, -1])
@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_any_flipped_bit_is_found_and_the_file_named(
    place: int, table: str, tmp_path: Path
) -> None:
    for name, expected in {
        "images/000001.png": "image names a file that is damaged: it has changed since it was "
        f"written, in row 2 (images/000001.png). {CURE}",
        f"interactions.{table}": f"damaged: interactions.{table} has changed since it was written. "
        f"{CURE}",
        "actions.txt": f"damaged: actions.txt has changed since it was written. {CURE}",
    }.items():
        folder = tmp_path / name.replace("/", " ")
        write_folder(chain(), folder, table=table)
        size = (folder / name).stat().st_size
        flip(folder / name, min(place, size - 1))
        assert expected in problems(folder)


def test_all_damage_is_reported_at_once_with_the_rest(sealed: Path) -> None:
    flip(sealed / "images/000000.png", 50)
    (sealed / "images/000002.png").write_bytes(b"")
    (sealed / "images/000001.png").unlink()
    (sealed / "actions.txt").unlink()
    text = (sealed / "interactions.csv").read_text()
    (sealed / "interactions.csv").write_text(text.replace("0.0", "nan", 1))
    assert problems(sealed) == [
        f"damaged: interactions.csv has changed since it was written. {CURE}",
        f"reward is not finite in row 1 (nan). {LEAVE_OUT}",
        "image names a file that is damaged: it has changed since it was written, in rows 1 and 3 "
        f"(images/000000.png, images/000002.png). {CURE}",
        "image names a file that is not there in row 2 (images/000001.png). Paths start from the "
        "folder of the table.",
        f"damaged: actions.txt is missing. {CURE}",
    ]
    (sealed / "SHA256SUMS").unlink()
    assert "damaged: it has changed" not in " ".join(problems(sealed))


def test_files_that_no_row_names_any_more_are_checked_too(sealed: Path) -> None:
    text = (sealed / "interactions.csv").read_text()
    (sealed / "interactions.csv").write_text(text.replace("images/000002", "./images//000000"))
    assert problems(sealed) == [
        f"damaged: interactions.csv has changed since it was written. {CURE}"
    ]
    flip(sealed / "images/000002.png", 9)
    assert f"damaged: images/000002.png has changed since it was written. {CURE}" in problems(
        sealed
    )


def test_files_that_a_user_adds_do_no_harm(sealed: Path) -> None:
    (sealed / "notes.txt").write_text("mine")
    write_images(sealed / "images" / "more", shape=(4, 4, 3))
    assert identical(read_folder(sealed), chain())
    (sealed / "more.csv").write_text(f"{HEADER}\n0,0,images/more/0.png,1,1,true,\n")
    assert len(read_folder(sealed / "more.csv")) == 1


def test_each_file_is_read_once(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    sys_open = io.open

    def count(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(Path(file).name)
        return sys_open(file, *args, **kwargs)

    monkeypatch.setattr(io, "open", count)
    read_folder(sealed)
    assert sorted(opened) == [
        "000000.png", "000001.png", "000002.png", "SHA256SUMS", "actions.txt", "interactions.csv",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-9] + "\0",
        lambda text: "",
        lambda text: text[1:],
        lambda text: text.replace("  ", "\t", 1),
        lambda text: f"{'0' * 64}  /dev/zero\n",
        lambda text: f"{'0' * 64}  images/../../x\n",
        lambda text: "\udcff",
    ],
)
def test_checksums_that_are_damaged_or_forged(damage: Callable[[str], str], sealed: Path) -> None:
    file = sealed / "SHA256SUMS"
    file.write_text(damage(file.read_text()), errors="surrogateescape")
    (found, *_) = problems(sealed)
    told = "SHA256SUMS is damaged. Get it again, or remove it to read without it."
    assert found == told or found.endswith(f"is missing. {CURE}")


@pytest.mark.skipif(sys.platform == "win32", reason="There are no pipes with names.")
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(sealed: Path) -> None:
    text = (sealed / "interactions.csv").read_text()
    (sealed / "interactions.csv").write_text(text.replace("000002", "000000"))
    (sealed / "images/000002.png").unlink()
    os.mkfifo(sealed / "images/000002.png")
    assert problems(sealed)[-1] == (
        f"damaged: images/000002.png cannot be read (it is not a regular file). {CURE}"
    )


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(chain(), tmp_path / "log", on_image=stop)
    assert not list(tmp_path.iterdir())


def test_images_may_stay_in_their_files(folder: Path) -> None:
    write_table(folder, SOUND)
    there, referred = read_folder(folder), read_folder(folder, lazy=True)
    assert identical(there, referred)
    (images,) = referred.percepts.images
    assert isinstance(images, FileImages)
    assert images.paths == ["0.png", "1.png", "2.png"]
    assert images.fingerprint(0, 3) == there.percepts.images[0].fingerprint(0, 3)
    (folder / "1.png").write_bytes((folder / "2.png").read_bytes())
    with pytest.raises(ImageError, match=r"1\.png has changed since image 1 of"):
        images[1]
    (folder / "2.png").unlink()
    with pytest.raises(ImageError, match="Image 2 of the percept names a file that is not"):
        images[2]
    with pytest.raises(IndexError, match="there is no number 3"):
        images[3]
