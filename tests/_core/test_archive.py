"""Archives: what is written is read, and nothing else is."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from rlvc._core.archive import kind_of, pack, read_archive, write_archive
from rlvc.errors import DamagedFileError, FileFormatError, InvalidFileError
from tests.support.mutations import frame, join, split

KIND, VERSION = "soup", 3
HEADER = {"format": KIND, "version": VERSION}


plain = st.sampled_from([np.bool_, np.uint8, np.int32, np.int64, np.float32, np.float64])
arrays_strategy = st.dictionaries(
    st.text("abc/", min_size=1, max_size=4),
    plain.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0))),
    max_size=4,
)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
manifests = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts), max_size=4)


@pytest.mark.slow
@given(manifests, arrays_strategy, st.randoms())
def test_archives_keep_what_they_are_given_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    random: Any,
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    manifest = {**manifest, **HEADER}
    write_archive(folder / "a", manifest, arrays)
    keys, names = list(manifest), list(arrays)
    random.shuffle(keys)
    random.shuffle(names)
    shuffled = {name: np.asarray(arrays[name], order="F") for name in names}
    write_archive(folder / "b", {key: manifest[key] for key in keys}, shuffled)
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    read, found = read_archive(folder / "a", KIND, VERSION)
    assert read == manifest
    assert list(found) == sorted(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
        assert found[name].flags.writeable


@given(manifests, arrays_strategy)
def test_any_program_that_knows_safetensors_reads_an_archive(
    tmp_path_factory: pytest.TempPathFactory,
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
) -> None:
    path = tmp_path_factory.mktemp("archive") / "a"
    manifest = {**manifest, **HEADER}
    write_archive(path, manifest, arrays)
    with safe_open(path, "numpy") as file:
        found = json.loads(file.metadata()["rlvc"])
        assert re.fullmatch("[0-9a-f]{64}", found.pop("sha256"))
        assert found == manifest
        read = file.get_tensors()
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert read[name].tobytes() == array.tobytes()


def test_what_is_not_plain_is_not_written(tmp_path: Path) -> None:
    for array in (np.array([{}], dtype=object), np.array(["a"]), np.zeros(2, complex)):
        with pytest.raises(ValueError, match=r"^x must be an array of plain numbers; got "):
            write_archive(tmp_path / "a", HEADER, {"x": array})
    for manifest, why in (
        ({"x": "a" * 2**24}, "its manifest has 167772.. bytes, more than 16777216"),
        ({"x": [0] * 2**20}, "its manifest has more than 1048576 values"),
    ):
        with pytest.raises(ValueError, match=f"cannot be written: {why}. Move data into arrays."):
            write_archive(tmp_path / "a", manifest, {})
    with pytest.raises(ValueError, match=r"^A file must have at most 60000 arrays; got 60001\.$"):
        write_archive(tmp_path / "a", HEADER, dict.fromkeys(map(str, range(60_001)), np.zeros(1)))
    assert list(tmp_path.iterdir()) == []


def refusal(path: Path, kind: type[FileFormatError] = InvalidFileError) -> str:
    with pytest.raises(FileFormatError) as error:
        read_archive(path, KIND, VERSION)
    assert type(error.value) is kind
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    return message.replace(str(path), "FILE")


CURE = ". Copy it again from an intact copy, or make it again."
OTHER = "FILE is not a soup file: "


@pytest.mark.parametrize(
    ("dtype", "shape", "data", "why"),
    [
        ("F64", [2], bytes(16), None),
        ("BF16", [2], bytes(4), "has entries of type BF16"),
        ("C64", [2], bytes(16), "has entries of type C64"),
        ("F8_E4M3", [2], bytes(2), "has entries of type F8_E4M3"),
        ("F64", [1] * 33, bytes(8), "has 33 dimensions"),
        ("F64", [0, 10**15], b"", "has no entries but a large shape"),
        ("BOOL", [2], b"\0\2", "has entries that are neither true nor false"),
    ],
)
def test_an_array_of_another_kind_is_refused(
    dtype: str, shape: list[int], data: bytes, why: str | None, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(join(HEADER, {"x": (dtype, shape, data)}))
    if why is None:
        assert read_archive(tmp_path / "f", KIND, VERSION)[1]["x"].tolist() == [0.0, 0.0]
    else:
        assert refusal(tmp_path / "f") == f"{OTHER}its array 'x' {why}."


@pytest.mark.parametrize(
    ("dtype", "shape", "offsets"),
    [
        ("F64", [3], [0, 16]),
        ("F64", [10**15], [0, 16]),
        ("F64", [2**59, 2**59], [0, 16]),
        ("F64", [2], [0, 8]),
        ("F64", [2], [8, 24]),
        ("F64", [2], [16, 0]),
        ("F64", [-2], [0, 16]),
        ("F64", [2.0], [0, 16]),
        ("object", [2], [0, 16]),
        ("F64", "__import__('os')", [0, 16]),
        ("F64", [10**50], [0, 16]),
        (None, None, None),
    ],
)
def test_a_header_that_lies_is_damage(dtype: Any, shape: Any, offsets: Any, tmp_path: Path) -> None:
    header, _ = split(pack(json.dumps(HEADER), {"x": np.zeros(2)}))
    header["x"] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    (tmp_path / "f").write_bytes(frame(header, bytes(16)))
    assert refusal(tmp_path / "f", DamagedFileError).startswith("FILE is damaged: its header")


def test_arrays_may_not_share_bytes(tmp_path: Path) -> None:
    header, data = split(pack(json.dumps(HEADER), {"x": np.zeros(2)}))
    (tmp_path / "f").write_bytes(frame({**header, "y": header["x"]}, data))
    assert refusal(tmp_path / "f", DamagedFileError).startswith("FILE is damaged: its header")


def test_another_format_or_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f"

    def write(**change: object) -> Path:
        path.write_bytes(pack(json.dumps({**HEADER, **change}), {}))
        return path

    assert kind_of(write(format="tea")) == "tea"
    assert refusal(path) == "FILE is not a soup file; its format is 'tea'."
    for other in (None, 3, "a" * 10**6):
        assert refusal(write(format=other)).endswith("; its format is None.")
        assert kind_of(path) is None
    assert refusal(write(version=4)) == (
        "FILE was made by a newer rlvc: it has version 4 of the format, and this rlvc reads "
        "version 3. Update with: pip install --upgrade rlvc"
    )
    for another in (2, None, 3.0, True, "a" * 10**6):
        assert refusal(write(version=another)) == (
            f"FILE has version {str(another)[:20]} of the format; this rlvc reads version 3. "
            "Install the rlvc that wrote it, or make the file again."
        )


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("{", "its manifest is not valid JSON"),
        ('{"a": "' + '\\"' * 10**6, "its manifest is not valid JSON"),
        ('{"a": ' + "9" * 10**6 + "}", "its manifest is not valid JSON"),
        ('{"a": ' * 100_000, "its manifest is nested deeper than 32"),
        ('{"a": ' + "[" * 32 + "]" * 32 + "}", "its manifest is nested deeper than 32"),
        ('{"a": ' + "[" * 31 + '"' + "[" * 9 + '"' + "]" * 31 + "}", None),
        ('{"a": [' + "[]," * 10**6 + "[]]}", "its manifest has more than 1048576 values"),
        ("{" + '"' * (2**21 + 1), "its manifest has more than 1048576 values"),
        ("{" + " " * 2**24, "its manifest has 16777217 bytes, more than 16777216"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_a_manifest_that_is_none_is_refused(manifest: str, why: str | None, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(pack(manifest, {}))
    if why is None:
        assert refusal(tmp_path / "f") == "FILE is not a soup file; its format is None."
    else:
        assert refusal(tmp_path / "f").startswith(OTHER + why)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere", FileFormatError) == "There is no file FILE."
    assert refusal(tmp_path) == "FILE is a folder; name a file in it."
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        assert refusal(path) == "FILE is a device or a pipe; name a regular file."
        assert kind_of(path) is None
    path = tmp_path / "f"
    path.write_bytes(b"")
    assert refusal(path, DamagedFileError) == f"FILE is damaged: it is empty{CURE}"
    torch = save({"x": np.zeros(2)}, {"format": "pt"})
    for content in (b"soup", b"soup" * 100, b"PK\3\4" + bytes(40), torch, torch[:-1], bytes(99)):
        path.write_bytes(content)
        assert refusal(path) == f"{OTHER}rlvc did not write it."
        assert kind_of(path) is None


def test_a_file_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "f"
    write_archive(path, HEADER, {})
    monkeypatch.setattr("rlvc._core.archive.os.open", refuse)
    with pytest.raises(PermissionError, match=r"ask its owner to let you read it: '.*f'$"):
        read_archive(path, KIND, VERSION)
    assert kind_of(path) is None


@pytest.mark.slow
def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for begin in (b"", (2**30).to_bytes(8, "little")):
        with path.open("wb") as file:
            file.write(begin)
            file.truncate(2**40)  # takes no space on the disk
        assert refusal(path).startswith(f"{OTHER}it has {2**40} bytes; at most ")
    whole = pack(json.dumps(HEADER), {})
    path.write_bytes((2**26).to_bytes(8, "little") + whole[8:] + bytes(2**26))
    assert "its header has more than 33554432 bytes" in refusal(path, DamagedFileError)
    path.write_bytes(pack(json.dumps(HEADER), dict.fromkeys(map(str, range(60_001)), np.zeros(0))))
    assert refusal(path) == f"{OTHER}it has 60001 arrays; at most 60000 are read."


# Damage ------------------------------------------------------------------------------------------


@pytest.fixture(name="whole", scope="module")
def whole_fixture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "f"
    write_archive(path, HEADER, {"x": np.arange(5), "y/z": np.zeros((2, 3), np.uint8)})
    return path.read_bytes()


def test_every_byte_that_changes_or_is_missing_is_noticed(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f"
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        refusal(path, DamagedFileError)
        path.write_bytes(whole[:place])
        refusal(path, DamagedFileError)
    path.write_bytes(whole + b"\0")
    refusal(path, DamagedFileError)
    path.write_bytes(whole)
    read_archive(path, KIND, VERSION)


def test_a_forged_file_with_the_right_checksum_is_invalid_not_damaged(
    whole: bytes, tmp_path: Path
) -> None:
    path, (header, _) = tmp_path / "f", split(whole)
    text = header["__metadata__"]["rlvc"]
    for place in range(76, len(text)):
        changed = "{" + text[76:place] + chr(ord(text[place]) ^ 1 << place % 7) + text[place + 1 :]
        path.write_bytes(pack(changed, {"x": np.arange(5)}))
        with contextlib.suppress(InvalidFileError):
            read_archive(path, KIND, VERSION)
