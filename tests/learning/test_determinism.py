"""The same data and the same seed give the same policy, byte for byte, whatever else is different.

Here: threads, hash seeds, the order in which a system lists files, the order of rows of a table.
Elsewhere: the backends of decision diagrams (test_compaction), composites (test_composite_policies)
and going on after a stop (test_resume).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Forest, Interactions, collect, read_folder, write_folder
from rlvc.envs.photos.images import ground_picture, maze_picture, strip_picture
from rlvc.envs.photos.views import campus_views
from rlvc.learning import Compaction
from tests.support.builders import pictures
from tests.support.worlds import Corridor, identical


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of interactions of two cameras."""
    folder = tmp_path_factory.mktemp("data") / "log"
    write_folder(collect(Corridor(kind="cameras", limit=5), 150, seed=1), folder)
    return folder


def policies(data: Interactions, threads: int, folder: Path) -> dict[str, bytes]:
    """Learn in three ways and save what comes of it; return the bytes."""
    learner = RLVC(gamma=0.5, threads=threads)
    compact = RLVC(gamma=0.5, threads=threads, post_process=Compaction(every=2))
    learner.learn(data).save(folder / "tree")
    compact.learn(data).save(folder / "compact")
    Forest(learner=learner, trees=3, seed=5).learn(data).save(folder / "forest")
    return {name: (folder / name).read_bytes() for name in ("tree", "compact", "forest")}


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip


ELSEWHERE = """
import sys
from pathlib import Path
from rlvc import read_folder, write_folder
from tests.learning.test_determinism import policies
data = read_folder(sys.argv[1])
write_folder(data, f"{sys.argv[3]}/log")
policies(data, int(sys.argv[2]), Path(sys.argv[3]))
"""


@pytest.mark.slow
def test_threads_and_hash_seeds(folder: Path, tmp_path: Path) -> None:
    # This process has a hash seed of its own, which nobody knows.
    expected = policies(read_folder(folder), 1, tmp_path)
    expected |= {f"log/{name}": data for name, data in files(folder).items()}
    assert len(set(expected.values())) > 10
    root = Path(__file__).parents[2]
    for threads, hash_seed in (("2", "0"), ("3", "1")):
        elsewhere = tmp_path / hash_seed
        elsewhere.mkdir()
        subprocess.run(
            [sys.executable, "-c", ELSEWHERE, folder, threads, elsewhere], check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
        )  # fmt: skip
        assert files(elsewhere) == expected


# The order in which files are listed -------------------------------------------------------------


class Listing:
    """What ``os.scandir`` returns, in another order."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __enter__(self) -> Iterator[Any]:
        return self._entries

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def close(self) -> None:
        pass


Order = Callable[[list[Any]], list[Any]]
ORDERS: dict[str, Order] = {
    "ahead": lambda names: names,
    "backwards": lambda names: names[::-1],
    "mixed": lambda names: [names[i] for i in np.random.default_rng(3).permutation(len(names))],
}
every_order = pytest.mark.parametrize("order", ORDERS)


@contextmanager
def listing(order: str, *folders: Path) -> Iterator[None]:
    """Let folders be listed in a certain order, and make sure that some are."""
    scandir, listdir, change = os.scandir, os.listdir, ORDERS[order]

    def scan(path: Any = ".") -> Listing:
        with scandir(path) as entries:
            return Listing(change(sorted(entries, key=lambda entry: entry.name)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", scan)
        patch.setattr(os, "listdir", lambda path=".": change(sorted(listdir(path))))
        for folder in folders:
            names = change(sorted(listdir(folder)))
            assert (names == sorted(names)) == (order == "ahead")
            for found in (folder.iterdir(), folder.glob("*")):
                assert [file.name for file in found] == names
        yield


def write_pictures(folder: Path, n: int, shape: tuple[int, ...], seed: int) -> Path:
    folder.mkdir(parents=True)
    for number, image in enumerate(pictures(n, seed, shape)):
        cv2.imwrite(str(folder / f"{number}.png"), image)
    return folder


@every_order
def test_interactions_do_not_depend_on_how_files_are_listed(
    order: str, folder: Path, tmp_path: Path
) -> None:
    with listing(order, folder, folder / "images" / "front"):
        found = read_folder(folder)
        write_folder(found, tmp_path / "again")
    assert identical(found, collect(Corridor(kind="cameras", limit=5), 150, seed=1))
    assert files(tmp_path / "again") == files(folder)


@every_order
@pytest.mark.parametrize("draw", [maze_picture, strip_picture, ground_picture])
def test_pictures_do_not_depend_on_how_files_are_listed(
    draw: Callable[[Path], NDArray[np.uint8]], order: str, tmp_path: Path
) -> None:
    # A picture is made once for a folder: it takes two of them.
    one, other = (write_pictures(tmp_path / name, 7, (90, 80, 3), 0) for name in ("a", "b"))
    with listing(order, other):
        found = draw(other)
    assert np.array_equal(found, draw(one))


@pytest.fixture(scope="module")
def campus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photographs of all states of the campus."""
    root = tmp_path_factory.mktemp("campus") / "photographs"
    for state in range(44):
        write_pictures(root / f"{state // 4:02}-{'NESW'[state % 4]}", 4, (12, 16, 3), state)
    return root


@every_order
def test_views_do_not_depend_on_how_files_are_listed(
    order: str, campus: Path, tmp_path: Path
) -> None:
    place = tmp_path / "campus"  # views are made once for a folder
    shutil.copytree(campus, place)
    with listing(order, place, place / "00-N"):
        found = campus_views(place, seed=2)
    expected = campus_views(campus, seed=2)
    assert (found.learn, found.test) == (expected.learn, expected.test)
    for state in range(44):
        for number in range(4):
            assert np.array_equal(found.image(state, number), expected.image(state, number))


# The order of rows -------------------------------------------------------------------------------


def test_the_order_of_rows_in_a_table(folder: Path, tmp_path: Path) -> None:
    header, *lines = (folder / "interactions.csv").read_text().splitlines()
    shutil.copytree(folder, tmp_path / "mixed")
    (tmp_path / "mixed" / "SHA256SUMS").unlink()
    mixed = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    assert mixed != lines
    (tmp_path / "mixed" / "interactions.csv").write_text("\n".join([header, *mixed]))
    for name, place in {"one": folder, "other": tmp_path / "mixed"}.items():
        RLVC(gamma=0.5, threads=1).learn(read_folder(place)).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
