from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from rlvc.errors import FileFormatError
from rlvc.storage import MANIFEST, read_archive, write_archive, write_whole

KIND, VERSION = "soup", 3
HEADER = {"format": KIND, "version": VERSION}


# Writing a file whole ----------------------------------------------------------------------------


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "file"
    write_whole(path, b"first, and longer")
    write_whole(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.chmod", "pathlib.Path.replace"])
@pytest.mark.parametrize("error", [OSError("the disk is full"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_everything_as_it_was(
    where: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(where, fail)
        with pytest.raises(type(error)):
            write_whole(tmp_path / "old", b"new")
        with pytest.raises(type(error)):
            write_whole(tmp_path / "new", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
@pytest.mark.usefixtures("umask")
def test_permissions_follow_the_umask(mask: int, tmp_path: Path) -> None:
    os.umask(mask)
    write_whole(tmp_path / "file", b"data")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask
    assert os.umask(mask) == mask  # it is left as it was


# Archives ----------------------------------------------------------------------------------------

plain = st.sampled_from([np.bool_, np.uint8, np.int32, np.int64, np.float32, np.float64])
arrays_strategy = st.dictionaries(
    st.text("abc/", min_size=1, max_size=4),
    plain.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0))),
    max_size=4,
)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
manifests = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts), max_size=4)


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


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_archive(tmp_path / "a", HEADER, {"x": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def npy(array: NDArray[Any], **options: Any) -> bytes:
    member = io.BytesIO()
    np.lib.format.write_array(member, array, **options)
    return member.getvalue()


def header(shape: str, dtype: str = "'<f8'", fortran: str = "False") -> bytes:
    """Return the beginning of an array file that may say anything."""
    text = f"{{'descr': {dtype}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def archive(
    path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED, **change: object
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(MANIFEST, json.dumps({**HEADER, **change}))
        for name, data in members.items():
            file.writestr(name, data)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(FileFormatError) as error:
        read_archive(path, KIND, VERSION)
    message = str(error.value)
    assert str(path) in message
    return message.replace(str(path), "FILE")


def test_what_is_forged_here_would_be_read_if_it_were_right(tmp_path: Path) -> None:
    good = {"x.npy": npy(np.arange(3.0)), "y.npy": header("(2,)") + bytes(16)}
    _, arrays = read_archive(archive(tmp_path / "f", good), KIND, VERSION)
    assert {name: array.tolist() for name, array in arrays.items()} == {"x": [0, 1, 2], "y": [0, 0]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (npy(np.array([{}], dtype=object)), "an array that is not plain"),
        (npy(np.array(["text"])), "an array that is not plain"),
        (npy(np.zeros(2, "M8[s]")), "an array that is not plain"),
        (npy(np.zeros(2, [("a", "<f8")])), "an array that is not plain"),
        (npy(np.zeros(2, complex)), "an array that is not plain"),
        (npy(np.zeros((2, 2), order="F")), "an array that is not plain"),
        (header("(-2, -1)") + bytes(16), "an array that is not plain"),
        (npy(np.zeros(3)) + b"more", "an array of another size than it says"),
        (npy(np.zeros(3))[:-1], "an array of another size than it says"),
        (header(f"({10**15},)"), "an array of another size than it says"),
        (header(f"({2**62}, {2**62})") + bytes(8), "an array of another size than it says"),
        (npy(np.zeros(3), version=(2, 0)), "an array of another version"),
        (b"no array", "magic string"),
        (b"", "EOF"),
        (header("__import__('os')"), ""),
        (header("(" * 60 + ")" * 60), ""),
    ],
)
def test_an_array_that_is_not_what_it_says_is_refused(
    data: bytes, why: str, tmp_path: Path
) -> None:
    message = refusal(archive(tmp_path / "f", {"x.npy": data}))
    assert message.startswith("An array in FILE is damaged (")
    assert why in message


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    zeros = {"x.npy": npy(np.zeros(10_000))}  # small in the file, however large in memory
    message = refusal(archive(tmp_path / "f", zeros, zipfile.ZIP_DEFLATED))
    assert message == f"FILE is not a soup file, or it is damaged ({MANIFEST} is compressed)."


def test_another_format_or_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert refusal(archive(path, {}, format="tea")) == "FILE is not a soup file; it says 'tea'."
    assert refusal(archive(path, {}, format=None)) == "FILE is not a soup file; it says None."
    assert refusal(archive(path, {}, version=4)) == (
        "FILE has version 4 of the format; this rlvc reads version 3. "
        "Install the rlvc that wrote it, or learn the policy again."
    )


@pytest.mark.parametrize(
    "manifest", ["[]", "3", "{", "", '{"a": ' * 100_000, "[" * 100_000, "\ud800"]
)
def test_a_manifest_that_is_none_is_refused(manifest: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(MANIFEST, manifest.encode("utf-8", "surrogatepass"))
    assert refusal(path).startswith("FILE is not a soup file, or it is damaged (")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == "There is no file FILE."
    assert refusal(tmp_path) == "FILE is a folder."
    (tmp_path / "empty").write_bytes(b"")
    assert refusal(tmp_path / "empty").startswith("FILE is not a soup file, or it is damaged (")
    with zipfile.ZipFile(tmp_path / "f", "w") as file:
        file.writestr("other", "text")
    assert refusal(tmp_path / "f").startswith("FILE is not a soup file, or it is damaged (")
