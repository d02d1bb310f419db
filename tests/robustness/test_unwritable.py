"""Places that cannot be written to: a full disk, no permission, a path that is a file.

What was there before is there after, byte for byte; nothing is left behind; and it is said what to
do. A disk is filled in two ways: by a limit on the size of files, and by a tiny file system.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc import (
    RLVC,
    Forest,
    ForestPolicy,
    Percepts,
    Policy,
    collect,
    read_arrays,
    read_folder,
    read_minari,
    write_folder,
    write_minari,
)
from rlvc.data.io.minari import check_minari_id, largest_size
from rlvc.errors import DataError
from tests.support.builders import COLOUR, database, pictures
from tests.support.datasets import chain
from tests.support.worlds import Corridor

if sys.platform == "win32":
    pytest.skip("There are neither limits nor owners of files.", allow_module_level=True)

from tests.support.datasets import limited

Write = Callable[[Path], None]


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return all that is in a folder; folders hold None."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def forest() -> ForestPolicy:
    return Forest(learner=RLVC(threads=1), trees=2).learn(database(COLOUR))


@pytest.fixture
def writers(
    policy: Policy, forest: ForestPolicy, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Write]:
    """What writes below a folder, over what was there before if it may."""

    def to_minari(folder: Path) -> None:
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
        write_minari(collect(Corridor(limit=3), 5), "deep/log-v0")

    return {
        "csv": lambda folder: write_folder(chain(), folder / "deep" / "log"),
        "parquet": lambda folder: write_folder(chain(), folder / "deep" / "log", table="parquet"),
        "minari": to_minari,
        "policy": lambda folder: policy.save(folder / "policy.rlvc"),
        "forest": lambda folder: forest.save(folder / "policy.rlvc"),
    }


KINDS = ["csv", "parquet", "minari", "policy", "forest"]


def fill(folder: Path) -> dict[str, bytes | None]:
    """Fill a folder with what must not be lost."""
    folder.mkdir(exist_ok=True)
    (folder / "policy.rlvc").write_bytes(b"the policy of yesterday")
    write_folder(chain(), folder / "old")
    read_folder(folder / "old")
    return contents(folder)


# A full disk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_loses_nothing(kind: str, writers: dict[str, Write], tmp_path: Path) -> None:
    before, write = fill(tmp_path / "disk"), writers[kind]
    n_failed = 0
    for n in (0, 60, 130, 300, 1000, 3000, 20_000):
        with limited(n):
            try:
                write(tmp_path / "disk")
            except OSError as error:
                told = str(error)
                n_failed += 1
            else:
                break
        assert told.startswith(
            "[Errno 27] File too large; a file may not be that large here; raise the limit or "
            f"choose another disk: '{tmp_path / 'disk'}/"
        )
        assert contents(tmp_path / "disk") == before
    assert n_failed >= 3
    shutil.rmtree(tmp_path / "disk" / "deep", ignore_errors=True)
    write(tmp_path / "disk")  # now that there is room
    assert contents(tmp_path / "disk").keys() > before.keys() - {"policy.rlvc"}


def test_minari_asks_for_the_room_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    for number, (limit, n) in enumerate([(1, 4), (2, 7), (30, 40)]):
        data = collect(Corridor(limit=limit), n, seed=number)
        write_minari(data, f"log-v{number}")
        file = tmp_path / f"log-v{number}" / "data" / "main_data.hdf5"
        assert file.stat().st_size <= largest_size(data) <= 20 * file.stat().st_size


def test_percepts_that_do_not_fit_on_the_disk() -> None:
    images = pictures(8, shape=(10, 10, 3))
    percepts = Percepts(in_memory=2 * 300)
    with limited(3 * 300 + 7):
        assert [percepts.add(image) for image in images[:5]] == [0, 1, 2, 3, 4]
        with pytest.raises(
            OSError,
            match=r"^\[Errno 27\] File too large; the temporary file has no space for image 5 of "
            r"the percept\. Free some space there, or set TMPDIR to another folder: "
            rf"'{re.escape(tempfile.gettempdir())}'$",
        ):
            percepts.add(images[5])
        assert len(percepts) == 5
        assert percepts.add(images[2]) == 2
    assert [percepts.add(image) for image in images[::-1]] == [5, 6, 7, 4, 3, 2, 1, 0]
    for number, image in enumerate(images[[0, 1, 2, 3, 4, 7, 6, 5]]):
        assert np.array_equal(np.asarray(percepts[number]), image)


TINY = """
import os, sys, tempfile
from pathlib import Path
import numpy as np
from rlvc import Interactions, Percepts, Policy, read_folder, write_folder
from rlvc.data.io.minari import write_minari
disk = Path(sys.argv[1])
os.environ["MINARI_DATASETS_PATH"] = str(disk / "minari")
(disk / "minari").mkdir()
policy = Policy.load(sys.argv[2])
images = np.random.default_rng(0).integers(0, 256, (31, 40, 40, 3), dtype=np.uint8)
few, many = (
    Interactions.from_arrays(
        images[:n], [0] * n, [1.0] * n, [False] * (n - 1) + [True],
        next_observations=images[1 : n + 1],
    )
    for n in (3, 30)
)
write_folder(few, disk / "old")
policy.save(disk / "policy.rlvc")
size = (disk / "policy.rlvc").stat().st_size
(disk / "rest").write_bytes(bytes(max(0, os.statvfs(disk).f_bavail * 4096 - size // 2)))


def contents():
    return {str(path): path.read_bytes() if path.is_file() else None for path in disk.rglob("*")}


tempfile.tempdir = str(disk)
percepts = Percepts(in_memory=0)
before = contents()
for write in (
    lambda: write_folder(many, disk / "deep" / "log"),
    lambda: write_folder(many, disk / "deep" / "log", table="parquet"),
    lambda: write_minari(many, "deep/log-v0"),
    lambda: policy.save(disk / "policy.rlvc"),
    lambda: [percepts.add(image) for image in images],
):
    try:
        write()
    except OSError as error:
        print(error)
    else:
        print("written")
    print(contents() == before)
assert np.array_equal(np.asarray(percepts[0]), images[0])
assert len(read_folder(disk / "old")) == 3
"""


@pytest.mark.slow
def test_a_tiny_file_system_that_is_full(saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "saved.rlvc").write_bytes(saved)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = 'mount -t tmpfs -o size=1m tiny "$1"'
    shell = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*shell, mounted, "sh", disk], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("This system lets nobody mount a file system of their own.")
    done = subprocess.run(
        [*shell, f'{mounted} && exec "$2" -c "$3" "$1" "$4"', "sh", disk, sys.executable, TINY,
         tmp_path / "saved.rlvc"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    full = "[Errno 28] No space left on device; free some space or choose another disk: "
    assert done.stdout.splitlines() == [
        f"{full}'{disk}/deep/log'", "True", f"{full}'{disk}/deep/log'", "True",
        f"{full}'{disk}/minari/deep/log-v0'", "True", f"{full}'{disk}/policy.rlvc'", "True",
        *done.stdout.splitlines()[8:9], "True",
    ]  # fmt: skip
    assert re.fullmatch(
        r"\[Errno 28\] No space left on device; the temporary file has no space for image \d+ of "
        rf"the percept\. .* set TMPDIR to another folder: '{re.escape(str(disk))}'",
        done.stdout.splitlines()[8],
    )
    assert done.stderr == ""


# No permission -----------------------------------------------------------------------------------


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody for a while if we are root, who may do anything."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(65534)
    except OSError:
        pytest.skip("Root cannot be anybody else here.")
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder with something in it, that may be read and not be written to."""
    with tempfile.TemporaryDirectory() as name:  # nobody may enter the folders of pytest
        outer, folder = Path(name), Path(name) / "locked"
        outer.chmod(0o755)
        fill(folder)
        folder.chmod(0o555)
        with unprivileged(), pytest.raises(PermissionError):
            (folder / "probe").write_bytes(b"")
        yield folder
        folder.chmod(0o755)


DENIED = "[Errno 13] Permission denied; choose a place that you can write to: "


@pytest.mark.parametrize("kind", KINDS)
def test_no_permission_to_write(
    kind: str, writers: dict[str, Write], locked: Path, tmp_path: Path
) -> None:
    before = contents(locked)
    writers[kind](tmp_path)  # nobody may be kept from importing what this needs
    with unprivileged(), pytest.raises(PermissionError, match=f"^{re.escape(DENIED)}'{locked}/"):
        writers[kind](locked)
    assert contents(locked) == before


def test_no_permission_to_read(locked: Path) -> None:
    folder = locked / "old"
    np.savez(locked / "log.npz", actions=[1])
    for place in (folder / "images" / "000000.png", folder / "actions.txt", locked / "log.npz"):
        place.chmod(0)
    with unprivileged(), pytest.raises(DataError) as caught:
        read_folder(folder)
    assert list(caught.value.problems) == [
        "actions.txt cannot be read (Permission denied). Check that you may read it.",
        "image names a file that cannot be read (Permission denied) in row 1 (images/000000.png). "
        "Check that it is a file that may be read.",
    ]
    (folder / "interactions.csv").chmod(0)
    with unprivileged(), pytest.raises(DataError, match=r"interactions\.csv cannot be read \(Perm"):
        read_folder(folder)
    with unprivileged(), pytest.raises(DataError, match=r"Permission denied"):
        read_arrays(locked / "log.npz")


# A path that is a file ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_is_a_file(kind: str, writers: dict[str, Write], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(OSError, match="a part of this path is a file; choose another place") as bad:
        writers[kind](tmp_path / "file")
    assert bad.value.errno in (errno.ENOTDIR, errno.EEXIST)
    assert contents(tmp_path) == {"file": b"mine"}


def test_data_from_a_path_that_is_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    os.mkfifo(tmp_path / "pipe.npz")  # would be waited for for ever
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "file"))
    reads: list[Callable[[], Any]] = [
        lambda: read_folder(tmp_path / "file"),
        lambda: read_folder(tmp_path / "file" / "log"),
        lambda: read_folder(tmp_path / "pipe.npz"),
        lambda: read_arrays(tmp_path),
        lambda: read_arrays(tmp_path / "pipe.npz"),
        lambda: read_arrays(tmp_path / "file" / "log.npz"),
    ]
    for read in reads:
        with pytest.raises(DataError, match=r" has 1 problem:\n"):
            read()
    uses: list[Callable[[str], Any]] = [read_minari, check_minari_id]
    for use in uses:
        with pytest.raises(OSError, match=r"a part of this path is a file; choose another place"):
            use("log-v0")


# The command line --------------------------------------------------------------------------------


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "disk")
    return tmp_path / "disk"


COLLECT = ("collect", "tests.support.worlds:Corridor-v0", "--interactions", 30, "--to")


def test_collecting_where_there_is_no_room(ready: Path, call: Any) -> None:
    before = contents(ready)
    for where in ("disk/new", "minari:new-v0"):
        with limited(5000):
            done = call(*COLLECT, where)
        assert done.code == 1
        assert "File too large; a file may not be that large here" in " ".join(done.err.split())
        assert contents(ready) == before
        assert not list(Path("datasets").glob("*"))


@pytest.mark.parametrize("where", ["disk/policy.rlvc/new", "minari:new-v0"])
def test_where_nothing_can_be_written_is_found_before_collecting(
    where: str, ready: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(ready)

    def reset(*args: Any, **options: Any) -> None:
        pytest.fail("It began to collect.")

    monkeypatch.setattr(Corridor, "reset", reset)
    Path("datasets").write_bytes(b"")
    done = call(*COLLECT, where)
    assert (done.code, contents(ready)) == (1, before)
    assert "a part of this path is a file; choose another place" in " ".join(done.err.split())


LEARN = ("learn", "log", "--set", "threads=1", "--overwrite", "--out", "disk")


@pytest.mark.slow
def test_learning_where_there_is_no_room(ready: Path, call: Any) -> None:
    write_folder(collect(Corridor(), 60), "log")
    before, data = contents(ready), contents(Path("log"))
    for n_bytes in (500, 4000):  # before any work, and when the policy is written
        with limited(n_bytes):
            done = call(*LEARN)
        assert done.code == 1
        assert "File too large; a file may not be that large here" in " ".join(done.err.split())
        after = contents(ready)
        assert {name: after.get(name) for name in before} == before
        assert not [name for name in after if name.endswith(".part")]
        assert contents(Path("log")) == data
    assert call(*LEARN).code == 0
    assert Policy.load(ready / "policy.rlvc").n_classes > 1


def test_running_where_there_is_no_room(ready: Path, call: Any, small: None) -> None:
    before = contents(ready)
    with limited(500):
        done = call("run", "small", "--out", "disk/run")
    assert done.code == 1
    assert "File too large; a file may not be that large here" in " ".join(done.err.split())
    shutil.rmtree(ready / "run", ignore_errors=True)
    assert contents(ready) == before


@pytest.mark.parametrize("command", [LEARN[:-2], ("run", "small")])
def test_a_run_in_a_path_that_is_a_file(
    command: tuple[str, ...], ready: Path, call: Any, small: None
) -> None:
    write_folder(chain(), "log")
    before = contents(ready)
    for out, code in (("disk/policy.rlvc", 2), ("disk/policy.rlvc/run", 1)):
        done = call(*command, "--out", out)
        assert (done.code, contents(ready)) == (code, before)
        assert "policy.rlvc" in done.err


@pytest.mark.parametrize("command", [LEARN[:-2], ("run", "small")])
def test_a_run_where_nobody_may_write(
    command: tuple[str, ...], locked: Path, ready: Path, call: Any, small: None
) -> None:
    write_folder(chain(), locked.parent / "log")
    words = [str(locked.parent / word) if word == "log" else word for word in command]
    call(*command, "--out", "disk/policy.rlvc/run")  # imports what is needed
    before = contents(locked)
    with unprivileged():
        done = call(*words, "--out", locked / "run")
    assert (done.code, contents(locked)) == (1, before)
    assert "cannot be written to (Permission denied" in " ".join(done.err.split())
    assert "give another folder with --out" in " ".join(done.err.split())
