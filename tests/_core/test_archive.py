from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import stat
import subprocess
import sys
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

from rlvc._core import atomic as whole_module
from rlvc._core import members as members_module
from rlvc._core.archive import kind_of, read_archive, write_archive
from rlvc._core.atomic import atomic_file, atomic_write, remove_parts
from rlvc._core.members import MANIFEST
from rlvc.errors import DamagedFileError, FileFormatError, InvalidFileError

KIND, VERSION = "soup", 3
HEADER = {"format": KIND, "version": VERSION}


# Writing a file whole ----------------------------------------------------------------------------


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "file"
    atomic_write(path, b"first, and longer")
    atomic_write(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace"])
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
            atomic_write(tmp_path / "old", b"new")
        with pytest.raises(type(error)):
            atomic_write(tmp_path / "new", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        atomic_write(tmp_path / "folder", b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"pipe is a device or a pipe; name an ordinary file\.$"):
        atomic_write(tmp_path / "pipe", b"data")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "free some space or choose another disk"),
        (errno.EACCES, "choose a place where you may write"),
    ],
)
def test_an_error_of_the_system_names_the_file_and_the_cure(
    number: int, cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match=cure) as error:
        write_archive(tmp_path / "a", HEADER, {})
    assert error.value.errno == number
    assert error.value.filename == str(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    with pytest.raises(OSError, match="a part of this path is a file; choose another place"):
        atomic_write(tmp_path / "file" / "a", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"


FILL = """
import resource, signal, sys
import numpy as np
from rlvc._core.archive import write_archive
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_archive(sys.argv[1], {}, {"x": np.zeros(10**6)})
except OSError as error:
    print(error)
"""


def test_where_a_file_gets_too_large_the_old_one_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    command = [sys.executable, "-c", FILL, str(tmp_path / "a")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "a file may not be that large here; raise the limit or choose another disk" in said
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


KILL = """
import os, signal, sys
from rlvc._core.atomic import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILL, str(tmp_path / "a")], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    for name in (".rlvc-mine.part", "rlvc-0123456789abcdef.part", ".rlvc-0123456789abcdef.parts"):
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / ".rlvc-0123456789abcdef.part").mkdir()
    (tmp_path / ".rlvc-fedcba9876543210.part").symlink_to(tmp_path / ".rlvc-mine.part")
    with atomic_file(tmp_path / "b") as file:  # another process may be writing here
        file.write(b"whole")
        assert remove_parts(tmp_path) == 1
    assert remove_parts(tmp_path) == 0
    assert (tmp_path / "b").read_bytes() == b"whole"
    assert len(list(tmp_path.iterdir())) == 6


def test_a_part_that_is_taken_for_a_leftover_at_once_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["0" * 16, "1" * 16])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(names))
    lock = whole_module._lock

    def slow(handle: int, *, wait: bool) -> bool:
        (tmp_path / f".rlvc-{'0' * 16}.part").unlink(missing_ok=True)
        return lock(handle, wait=wait)

    monkeypatch.setattr(whole_module, "_lock", slow)
    atomic_write(tmp_path / "a", b"data")
    assert (tmp_path / "a").read_bytes() == b"data"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


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
    atomic_write(tmp_path / "file", b"data")
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


@given(manifests, arrays_strategy)
def test_any_zip_program_and_numpy_read_an_archive(
    tmp_path_factory: pytest.TempPathFactory,
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
) -> None:
    path = tmp_path_factory.mktemp("archive") / "a"
    write_archive(path, manifest, arrays)
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert json.loads(file.read(MANIFEST)) == manifest
        for name, array in arrays.items():
            read = np.load(io.BytesIO(file.read(f"{name}.npy")), allow_pickle=False)
            assert (read.dtype, read.shape) == (array.dtype, array.shape)
            assert read.tobytes() == array.tobytes()


def test_large_files_have_the_offsets_of_zip64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {"a": np.arange(9.0), "b": np.arange(90), "c": np.zeros(0)}
    write_archive(tmp_path / "small", HEADER, arrays)
    monkeypatch.setattr(members_module, "_LARGE", 300)  # the size of b, the start of c
    data = {"x": b"1" * 200, "y": b"2" * 400, "z": b""}
    with (tmp_path / "a").open("wb") as file:
        writer = members_module.MemberWriter(file)
        for name, content in data.items():
            writer.add(name, content)
        writer.close()
    size = (tmp_path / "a").stat().st_size
    with (tmp_path / "a").open("rb") as file:
        found = members_module.read_members(file, size)
        read = {name: members_module.read_member(file, one) for name, one in found.items()}
    assert read == data


def test_what_is_not_plain_is_not_written(tmp_path: Path) -> None:
    for array in (np.array([{}], dtype=object), np.array(["a"]), np.zeros(2, complex)):
        with pytest.raises(ValueError, match=r"^x must be an array of plain numbers; got "):
            write_archive(tmp_path / "a", HEADER, {"x": array})
    for manifest, why in (
        ({"x": "a" * 2**24}, "its manifest has 167772.. bytes, more than 16777216"),
        ({"x": [0] * 2**20}, "its manifest has more than 1048576 values"),
    ):
        with pytest.raises(ValueError, match=f"cannot be written: {why}. Put more into arrays."):
            write_archive(tmp_path / "a", manifest, {})
    with pytest.raises(ValueError, match=r"^A file must have at most 60000 members of short names"):
        write_archive(tmp_path / "a", HEADER, {"x" * 300: np.zeros(1)})
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


def refusal(path: Path, kind: type[FileFormatError] = InvalidFileError) -> str:
    with pytest.raises(FileFormatError) as error:
        read_archive(path, KIND, VERSION)
    assert type(error.value) is kind
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    return message.replace(str(path), "FILE")


CURE = ". Copy it again from where it is whole, or make it again."
OTHER = "FILE is not a soup file: "


def test_what_is_forged_here_would_be_read_if_it_were_right(tmp_path: Path) -> None:
    good = {"x.npy": npy(np.arange(3.0)), "y.npy": header("(2,)") + bytes(16)}
    _, arrays = read_archive(archive(tmp_path / "f", good), KIND, VERSION)
    assert {name: array.tolist() for name, array in arrays.items()} == {"x": [0, 1, 2], "y": [0, 0]}


NOT_PLAIN, NO_ARRAY, SIZE = (
    "member 'x.npy' is no array of plain numbers",
    "member 'x.npy' is no array as rlvc writes them",
    "array 'x.npy' has another size than it says",
)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (npy(np.array([{}], dtype=object)), NOT_PLAIN),
        (npy(np.array(["text"])), NOT_PLAIN),
        (npy(np.zeros(2, "M8[s]")), NOT_PLAIN),
        (npy(np.zeros(2, [("a", "<f8")])), NOT_PLAIN),
        (npy(np.zeros(2, complex)), NOT_PLAIN),
        (npy(np.zeros(2, ">f8")), NOT_PLAIN),
        (npy(np.zeros((2, 2), order="F")), NOT_PLAIN),
        (header("(2,)", "'<f1'") + bytes(2), NOT_PLAIN),
        (header("(-2, -1)") + bytes(16), NOT_PLAIN),
        (header("(2)") + bytes(16), NOT_PLAIN),
        (header(f"({'1, ' * 39}1)") + bytes(8), NOT_PLAIN),
        (header("__import__('os')"), NOT_PLAIN),
        (header("(" * 60 + ")" * 60), NOT_PLAIN),
        (header(f"(1{'0' * 50},)"), NOT_PLAIN),
        (npy(np.zeros(3)) + b"more", SIZE),
        (npy(np.zeros(3))[:-1], SIZE),
        (header(f"({10**15},)"), SIZE),
        (header(f"({2**59}, {2**59})") + bytes(8), SIZE),
        (header(f"(0, {10**15})"), "array 'x.npy' has no entries but a large shape"),
        (header("(2,)", "'|b1'") + b"\0\2", "array 'x.npy' has entries that are neither true nor"),
        (npy(np.zeros(3), version=(2, 0)), NO_ARRAY),
        (npy(np.zeros(3))[:20], NO_ARRAY),
        (b"no array", NO_ARRAY),
        (b"", NO_ARRAY),
    ],
)
def test_an_array_that_is_not_what_it_says_is_refused(
    data: bytes, why: str, tmp_path: Path
) -> None:
    assert refusal(archive(tmp_path / "f", {"x.npy": data})).startswith(f"{OTHER}its {why}")


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    zeros = {"x.npy": npy(np.zeros(10_000))}  # small in the file, however large in memory
    message = refusal(archive(tmp_path / "f", zeros, zipfile.ZIP_DEFLATED))
    assert message == f"{OTHER}its member '{MANIFEST}' is compressed or encrypted."


def test_another_format_or_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert kind_of(archive(path, {}, format="tea")) == "tea"
    assert refusal(archive(path, {}, format="tea")) == "FILE is not a soup file; it says 'tea'."
    for other in (None, 3, "a" * 10**6):
        assert refusal(archive(path, {}, format=other)).endswith("; it says None.")
        assert kind_of(path) is None
    assert refusal(archive(path, {}, version=4)) == (
        "FILE was made by a newer rlvc: it has version 4 of the format, and this rlvc reads "
        "version 3. Update with: pip install --upgrade rlvc"
    )
    for another in (2, None, 3.0, True, "a" * 10**6):
        assert refusal(archive(path, {}, version=another)) == (
            f"FILE has version {str(another)[:20]} of the format; this rlvc reads version 3. "
            "Install the rlvc that wrote it, or make the file again."
        )


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("[]", "its manifest is no object"),
        ("3", "its manifest is no object"),
        ("{", "its manifest is no JSON"),
        ("", "its manifest is no JSON"),
        ('{"a": "' + '\\"' * 10**6, "its manifest is no JSON"),
        ('{"a": ' + "9" * 10**6 + "}", "its manifest is no JSON"),
        ("\ud800", "its manifest is no JSON"),
        ('{"a": ' * 100_000, "its manifest is nested deeper than 32"),
        ("[" * 33 + "]" * 33, "its manifest is nested deeper than 32"),
        ("[" * 32 + '"' + "[" * 9 + '"' + "]" * 32, "its manifest is no object"),
        ("[" + "[]," * 10**6 + "[]]", "its manifest has more than 1048576 values"),
        ('"' * (2**21 + 1), "its manifest has more than 1048576 values"),
        (" " * (2**24 + 1), "its manifest has 16777217 bytes, more than 16777216"),
    ],
    ids=lambda text: text[:20],
)
def test_a_manifest_that_is_none_is_refused(manifest: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(MANIFEST, manifest.encode("utf-8", "surrogatepass"))
    assert refusal(path).startswith(OTHER + why)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere", FileFormatError) == "There is no file FILE."
    assert refusal(tmp_path) == "FILE is a folder; name a file in it."
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        assert refusal(path) == "FILE is a device or a pipe; name an ordinary file."
        assert kind_of(path) is None
    (tmp_path / "empty").write_bytes(b"")
    assert refusal(tmp_path / "empty", DamagedFileError) == f"FILE is damaged: it is empty{CURE}"
    for content in (b"soup", b"soup" * 100, b"PK", b"PK\3\4" + bytes(40)):
        (tmp_path / "f").write_bytes(content)
        is_short = content == b"PK"  # it might have been one of ours
        message = refusal(tmp_path / "f", DamagedFileError if is_short else InvalidFileError)
        assert is_short or message == f"{OTHER}rlvc did not write it."
    with zipfile.ZipFile(tmp_path / "f", "w") as file:
        file.writestr("other", "text")
    assert refusal(tmp_path / "f") == f"{OTHER}rlvc did not write it."


def test_a_file_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = archive(tmp_path / "f", {})
    monkeypatch.setattr("rlvc._core.archive.os.open", refuse)
    with pytest.raises(PermissionError, match=r"let its owner allow you to read it: '.*f'$"):
        read_archive(path, KIND, VERSION)
    assert kind_of(path) is None


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk
    assert refusal(tmp_path / "f").startswith(f"{OTHER}it has {2**40} bytes; at most ")


# Damage ------------------------------------------------------------------------------------------


@pytest.fixture(name="sealed", scope="module")
def sealed_fixture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sealed") / "f"
    write_archive(path, HEADER, {"x": np.arange(5), "y/z": np.zeros((2, 3), np.uint8)})
    return path.read_bytes()


def test_the_seal_is_the_checksum_of_all_that_stands_before_it(sealed: bytes) -> None:
    assert sealed[-64:].decode() == hashlib.sha256(sealed[:-64]).hexdigest()


def test_every_byte_that_changes_or_is_missing_is_noticed(sealed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f"
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        refusal(path, DamagedFileError)
        path.write_bytes(sealed[:place])
        refusal(path, DamagedFileError)
    path.write_bytes(sealed + b"\0")
    refusal(path, DamagedFileError)
    path.write_bytes(sealed)
    read_archive(path, KIND, VERSION)


def unsealed(sealed: bytes) -> bytes:
    """Return a file as rlvc wrote it before there were seals."""
    return sealed[:-78] + b"\0\0"


def seal(data: bytes) -> bytes:
    """Return a file with a checksum that is right, whatever it holds."""
    start = data[:-2] + (76).to_bytes(2, "little") + b"rlvc sha256 "
    return start + hashlib.sha256(start).hexdigest().encode()


def test_a_file_without_a_seal_is_read_and_its_damage_is_noticed(
    sealed: bytes, tmp_path: Path
) -> None:
    path, old = tmp_path / "f", unsealed(sealed)
    assert seal(old) == sealed
    path.write_bytes(old)
    good = {name: array.tolist() for name, array in read_archive(path, KIND, VERSION)[1].items()}
    n_read = 0
    for place in range(len(old)):
        changed = bytearray(old)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            found = read_archive(path, KIND, VERSION)[1]
        except FileFormatError:
            continue
        n_read += 1  # a date or the like, which says nothing
        assert {name: array.tolist() for name, array in found.items()} == good
    assert 0 < n_read < len(old) / 5


def test_a_forged_file_with_the_right_checksum_is_strange_not_damaged(
    sealed: bytes, tmp_path: Path
) -> None:
    path, old = tmp_path / "f", unsealed(sealed)
    for place in range(len(old) - 2):
        changed = bytearray(old)
        changed[place] ^= 1 << place % 8
        path.write_bytes(seal(bytes(changed)))
        with contextlib.suppress(InvalidFileError):
            read_archive(path, KIND, VERSION)


def test_members_may_not_share_bytes_or_names(tmp_path: Path) -> None:
    path = tmp_path / "f"
    archive(path, {"x.npy": npy(np.zeros(2))})
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("x.npy", npy(np.ones(2)))
    assert refusal(path) == f"{OTHER}it has two members 'x.npy'."
    archive(path, {"x.npy": npy(np.zeros(2))})
    data = path.read_bytes()
    at = data.rindex(b"PK\1\2")  # the entry of x in the directory, now listed twice
    entry, end = data[at : data.rindex(b"PK\5\6")], data[data.rindex(b"PK\5\6") :]
    size = int.from_bytes(end[12:16], "little") + len(entry)
    end = end[:8] + b"\3\0\3\0" + size.to_bytes(4, "little") + end[16:]
    path.write_bytes(data[: at + len(entry)] + entry + end)
    message = refusal(path, DamagedFileError)
    assert message == f"FILE is damaged: its members do not lie one after the other{CURE}"
