"""Atomic writes: the old file or the new one, and nothing else."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from rlvc._core import atomic as atomic_module
from rlvc._core.atomic import atomic_file, atomic_write, remove_parts
from rlvc._core.lock import lock_folder


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


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"data")
    for name, why in (
        ("folder", r"folder is a folder; name a file in it\.$"),
        ("pipe", r"pipe is a device or a pipe; name a regular file\.$"),
        ("file/a", "a part of this path is a file; choose another place"),
    ):
        with pytest.raises(OSError, match=why):
            atomic_write(tmp_path / name, b"new")
    assert {p.name for p in tmp_path.iterdir()} == {"folder", "pipe", "file"}
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "file").read_bytes() == b"data"


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "free some space or choose another disk"),
        (errno.EACCES, "choose a place that you can write to"),
    ],
)
def test_an_error_of_the_system_names_the_file_and_the_cure(
    number: int, cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match=cure) as error:
        atomic_write(tmp_path / "a", b"new")
    assert error.value.errno == number
    assert error.value.filename == str(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


FILL = """
import resource, signal, sys
from rlvc._core.atomic import atomic_write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    atomic_write(sys.argv[1], bytes(10**6))
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
    lock = atomic_module._lock

    def slow(handle: int, *, wait: bool) -> bool:
        (tmp_path / f".rlvc-{'0' * 16}.part").unlink(missing_ok=True)
        return lock(handle, wait=wait)

    monkeypatch.setattr(atomic_module, "_lock", slow)
    atomic_write(tmp_path / "a", b"data")
    assert (tmp_path / "a").read_bytes() == b"data"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_folder_on_a_disk_without_locks_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks")))
    with lock_folder(tmp_path):
        assert "cannot be locked" in caplog.text


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
