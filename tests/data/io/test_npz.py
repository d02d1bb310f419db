from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc import Interactions, read_arrays
from rlvc.errors import DataError
from tests.support.builders import pictures
from tests.support.worlds import identical

IMAGES = pictures(4, shape=(16, 16, 3))
SOUND: dict[str, Any] = {
    "observations": IMAGES[:3], "actions": [0, 1, 0], "rewards": [0.0, 0.0, 1.0],
    "terminated": [False, False, True], "next_observations": IMAGES[1:],
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "log.npz"


def write(file: Path, **changed: Any) -> Path:
    arrays = {name: array for name, array in (SOUND | changed).items() if array is not None}
    np.savez_compressed(file, **arrays)
    return file


def problems(file: Path, **given: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_arrays(file, **given)
    return str(caught.value)


def test_arrays_are_read_as_they_are(file: Path) -> None:
    assert identical(read_arrays(write(file)), Interactions.from_arrays(**SOUND))
    named: dict[str, Any] = {"action_start": -1, "action_names": ("a", "b", "c")}
    read = read_arrays(write(file, truncated=[True, False, False]), **named)
    assert identical(
        read,
        Interactions.from_arrays(**SOUND, **named, n_actions=3, truncated=[True, False, False]),
    )
    assert read.episode.tolist() == [0, 1, 1]
    assert read_arrays(file, n_actions=7).n_actions == 7


def test_cameras_have_an_array_each(file: Path) -> None:
    stacks = pictures(4, 1, (2, 16, 16))
    write(
        file, observations=None, next_observations=None, **{
            "observations.front": IMAGES[:3], "next_observations.front": IMAGES[1:],
            "observations.rear": stacks[:3], "next_observations.rear": stacks[1:],
        },
    )  # fmt: skip
    data = read_arrays(file)
    assert data.percepts.cameras == ("front", "rear frame 1", "rear frame 2")
    assert (data.start.tolist(), data.end.tolist()) == ([0, 1, 2], [1, 2, 3])


def test_flags_may_be_numbers(file: Path) -> None:
    data = read_arrays(write(file, terminated=[0, 0, 1], truncated=[0.0, 1.0, 0.0]))
    assert data.terminated.tolist() == [False, False, True]
    assert data.truncated.tolist() == [False, True, False]


def test_all_missing_arrays_are_listed(file: Path) -> None:
    write(file, rewards=None, terminated=None)
    there = "observations, actions, next_observations"
    assert problems(file) == "\n  ".join(
        [
            f"{file} has 2 problems:",
            f"The array 'rewards' is missing; there are {there}.",
            f"The array 'terminated' is missing; there are {there}.",
        ]
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (
            {"observations": IMAGES[:2]},
            "observations, next_observations must have the same number of rows; observations ends "
            "after 2.",
        ),
        (
            {"next_observations": pictures(3, shape=(17, 16, 3))},
            "next_observations in rows 0, 1 and 2: The shape of the percept must be (16, 16, 3), "
            "as before; got (17, 16, 3). Resize the images to one size.",
        ),
    ],
)
def test_what_is_wrong_is_explained(changed: dict[str, Any], problem: str, file: Path) -> None:
    write(file, **changed)
    assert problems(file) == f"{file} has 1 problem (rows are counted from 0):\n  {problem}"


def test_no_code_is_run(file: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return pytest.fail, ("it was run",)

    np.savez(file, **(SOUND | {"actions": np.array([Trap()] * 3, object)}))
    assert problems(file) == (
        f"{file} has 1 problem:\n  It cannot be read as a .npz file: Object arrays cannot be "
        "loaded when allow_pickle=False"
    )


def test_a_file_that_is_something_else(file: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, IMAGES)
    file.write_bytes(buffer.getvalue())
    assert problems(file) == (
        f"{file} has 1 problem:\n  It cannot be read as a .npz file: it holds one array without a "
        "name. Write it with numpy.savez."
    )
    whole = write(file).read_bytes()
    for data in (b"", b"hello", whole[:100], whole[:-30]):
        file.write_bytes(data)
        assert problems(file).startswith(
            f"{file} has 1 problem:\n  It cannot be read as a .npz file: "
        )
    file.unlink()
    assert "No such file or directory" in problems(file)


@pytest.mark.parametrize("name", ["observations", "next_observations", "rewards"])
def test_a_flipped_bit_is_found(name: str, file: Path) -> None:
    np.savez(file, **SOUND)
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        info = archive.getinfo(f"{name}.npy")
    data[info.header_offset + 200] ^= 1  # behind the headers of zip and of NumPy
    file.write_bytes(data)
    assert problems(file) == (
        f"{file} has 1 problem:\n  It cannot be read as a .npz file: Bad CRC-32 for file "
        f"'{name}.npy'"
    )


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (
            "(9000000000000000000,)",
            "rewards.npy has 152 bytes, not 72000000000000000128 as it says",
        ),
        ("(2,)", "rewards.npy has 152 bytes, not 144 as it says"),
        ("(-3,)", "rewards.npy has 152 bytes, not 104 as it says"),
    ],
)
def test_nothing_is_believed_of_a_size(shape: str, told: str, file: Path) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00v\x00" + header.encode() + bytes(24)
    np.savez(file, **(SOUND | {"other": 1}))
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in (members | {"rewards.npy": member}).items():
            archive.writestr(name, data)
    assert told in problems(file)


def test_a_single_number_is_no_column_of_images(file: Path) -> None:
    write(file, observations=np.uint8(3))
    assert "observations must have rows; got one number." in problems(file)
