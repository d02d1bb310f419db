"""Shards on disk are read as they were written."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlvc import RLVC, Database, Interactions, open_dataset, write_dataset
from rlvc.data import Image
from rlvc.distributed.disk import DatasetInfo, ShardData, is_shards, read_info, read_shard
from rlvc.distributed.disk.format import BLOCK, MAX_BYTES, MAX_IMAGES, checksum, file_of
from rlvc.distributed.disk.tables import describe_file
from rlvc.distributed.partition import cut_episodes
from rlvc.errors import DamagedFileError, FileFormatError, ImageError, InvalidFileError
from rlvc.vision import Harris, InterestPoints
from tests.support.builders import blocks
from tests.support.datasets import limited, logged

pyarrow: Any = importlib.import_module("pyarrow")
importlib.import_module("pyarrow.parquet")


def write(interactions: Interactions, folder: Path, shards: int) -> DatasetInfo:
    extractor = RLVC(detector=Harris(), threads=1).new_extractor(interactions.percepts)
    return write_dataset(interactions, folder, shards, extractor, threads=1)


def extracted(interactions: Interactions) -> Database:
    database = RLVC(detector=Harris(), threads=1).extract(interactions)
    assert all(len(places.feature) for places in database.index.places)
    return database


def equal(one: Any, other: Any) -> bool:
    """Tell whether arrays are the same to the last bit."""
    return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())


def check_shards(folder: Path, info: DatasetInfo, database: Database) -> None:
    """Compare all shards with the database that they were written from."""
    assert read_info(folder) == info
    first, seen, episodes = 0, set[int](), set[int]()
    for number in range(len(info.shards)):
        data = read_shard(folder, number)
        check_shard(data, database, first, seen)
        first += len(data.interactions)
        seen |= set(data.numbers.percepts.tolist())
        assert not set(data.interactions.episode.tolist()) & episodes
        episodes |= set(data.interactions.episode.tolist())
    assert first == len(database.interactions)
    assert seen == set(range(len(database.interactions.percepts)))


def check_shard(data: ShardData, database: Database, first: int, seen: set[int]) -> None:
    """Compare a shard with the database that it was written from."""
    here, numbers = data.interactions, data.numbers
    whole, rows = database.interactions, slice(first, first + len(here))
    for name in ("start", "end"):
        assert equal(numbers.percepts[getattr(here, name)], getattr(whole, name)[rows])
    for name in ("action", "reward", "episode", "terminated", "truncated"):
        assert equal(getattr(here, name), getattr(whole, name)[rows])
    assert equal(numbers.is_stuck, whole.is_stuck[rows])
    assert numbers.is_first.tolist() == [one not in seen for one in numbers.percepts.tolist()]  # type: ignore[union-attr]
    index = database.index
    assert data.index.graph == index.graph
    for i, images in enumerate(numbers.images):
        assert equal(images[data.index.table[:, i]], index.table[numbers.percepts, i])
        ours, theirs = data.index.places[i], index.places[i].take(images)
        assert ours.size == theirs.size
        for name in ("begin", "feature", "marks"):
            assert equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 80), shards=st.integers(1, 5),
    two=st.booleans(), n_images=st.integers(1, 12), block=st.integers(2, 15),
)  # fmt: skip
@example(seed=0, n=60, shards=3, two=True, n_images=12, block=4)
@settings(max_examples=15, deadline=None)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, shards: int, two: bool,
    n_images: int, block: int,
) -> None:  # fmt: skip
    database = extracted(logged(n, seed, ("left", "right") if two else ("",), n_images))
    n_episodes = len(np.unique(database.interactions.episode))
    folder = tmp_path_factory.mktemp("data") / "shards"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlvc.distributed.disk.write.BLOCK", block)
        info = write(database.interactions, folder, min(shards, n_episodes))
    check_shards(folder, info, database)
    blocks = [(i, *found[:2]) for i in range(1 + two) for found in info.blocks_of(i)]
    firsts = [
        (i, first)
        for i, camera in enumerate(info.cameras)
        for first in range(0, camera.images, block)
    ]
    assert blocks == [(i, number, first) for number, (i, first) in enumerate(firsts)]


def test_shards_are_balanced() -> None:
    episode = np.repeat(np.arange(100), 10)
    assert cut_episodes(episode, 4).tolist() == [0, 250, 500, 750, 1000]
    uneven = np.repeat([5, 3, 9], [97, 1, 2])
    assert cut_episodes(uneven, 3).tolist() == [0, 97, 98, 100]
    with pytest.raises(ValueError, match="between 1 and 3, the number of episodes; got 4"):
        cut_episodes(uneven, 4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset with two cameras."""
    folder = tmp_path_factory.mktemp("whole") / "shards"
    write(logged(30, cameras=("left", "right"), n_images=5), folder, 2)
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def read_all(folder: Path) -> None:
    """Read all that there is."""
    dataset = open_dataset(folder)
    for number in range(len(dataset.info.shards)):
        read_shard(folder, number)
    for one in dataset.database().interactions.percepts.images:
        for number in range(len(one)):
            one[number]


def test_every_file_is_needed(whole: Path, tmp_path: Path) -> None:
    read_all(whole)
    files = [path.relative_to(whole) for path in sorted(whole.rglob("*")) if path.is_file()]
    assert len(files) == 1 + 2 * 2 + 2 * 2 + 10 + 1
    for file in files:
        folder = Path(shutil.copytree(whole, tmp_path / "copy"))
        (folder / file).unlink()
        with pytest.raises((FileFormatError, ImageError), match=str(file)):
            read_all(folder)
        shutil.rmtree(folder)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_damage_is_noticed(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    files = [path.relative_to(whole) for path in sorted(whole.rglob("*")) if path.is_file()]
    file = data.draw(st.sampled_from(files))
    old = (whole / file).read_bytes()
    at = data.draw(st.integers(0, len(old) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "more"]))
    flipped = old[:at] + bytes([old[at] ^ data.draw(st.integers(1, 255))]) + old[at + 1 :]
    new = {"flip": flipped, "cut": old[:at], "more": old + b"x"}[kind]
    folder = Path(shutil.copytree(whole, tmp_path_factory.mktemp("damaged") / "copy"))
    (folder / file).write_bytes(new)
    if file.name == "dataset.json":  # a blank is as good as another
        with suppress(FileFormatError):
            assert read_info(folder) == read_info(whole)
        return
    if file.suffix == ".png":  # some bytes of it mean nothing
        with suppress(ImageError):
            read_all(folder)
        return
    with pytest.raises(DamagedFileError, match="is damaged: it changed since it was written"):
        read_all(folder)


def test_a_changed_number_is_noticed(copy: Path) -> None:
    text = (copy / "dataset.json").read_text("utf-8")
    (copy / "dataset.json").write_text(text.replace('"action_start": 0', '"action_start": 1'))
    with pytest.raises(DamagedFileError, match="is damaged: its checksum does not match"):
        read_info(copy)


def change_info(folder: Path, change: Callable[[Any], object]) -> None:
    """Change dataset.json and its checksum."""
    info = json.loads((folder / "dataset.json").read_text("utf-8"))
    change(info)
    info.pop("checksum")
    text = json.dumps({**info, "checksum": checksum(info)})
    (folder / "dataset.json").write_text(text, "utf-8")


def block_of(info: Any) -> Any:
    return info["cameras"][0]["blocks"][0]


def one_less(piece: dict[str, int]) -> None:
    piece["rows"] -= 1


INCONSISTENT: list[tuple[Callable[[Any], object], str]] = [
    (lambda info: info.update(format="rlvc-dataset"), "its format is 'rlvc-dataset'"),
    (lambda info: info.update(version=2), "made by a newer rlvc: it has version 2 of the format"),
    (lambda info: info.pop("cameras"), "it has no 'cameras'"),
    (lambda info: info.update(n_actions=0), "its actions do not fit the rest"),
    (lambda info: info.update(action_names=["go"]), "its actions do not fit the rest"),
    (lambda info: info.update(action_names="go"), "where a list is expected"),
    (lambda info: info.update(interactions=31), "its shards do not fit the rest"),
    (lambda info: info.update(interactions=2**50), "its counts do not fit the rest"),
    (lambda info: info.update(interactions=-1), "its counts do not fit the rest"),
    (lambda info: info.update(interactions=30.0), "it has 30.0 where an integer is expected"),
    (lambda info: info.update(lowest=-99), "its rewards do not fit the rest"),
    (lambda info: info.update(lowest="low"), "it has 'low' where a number is expected"),
    (lambda info: info.update(extractor="mine"), "where an object is expected"),
    (lambda info: info["cameras"].reverse(), "its cameras do not fit the rest"),
    (lambda info: info["cameras"][0].update(shape=[3, 3]), "a list has 2 entries, not 3"),
    (lambda info: info["cameras"][0].update(shape=[3, 3, 2]), "its cameras do not fit the rest"),
    (lambda info: info["cameras"][0].update(symbols=2**31), "its symbols do not fit the rest"),
    (lambda info: info["cameras"][0].update(symbols=1), "its symbols do not fit the rest"),
    (lambda info: info["cameras"][0]["blocks"].clear(), "its images do not fit the rest"),
    (lambda info: block_of(info)["images"].update(rows=0), "its blocks do not fit the rest"),
    (lambda info: block_of(info)["images"].update(rows=6), "6 are expected"),
    (lambda info: block_of(info)["symbols"].update(rows=1), "1 are expected"),
    (lambda info: one_less(info["shards"][0]["percepts"]), "are expected"),
    (lambda info: info["shards"][0]["percepts"].update(rows=1), "its percepts do not fit the rest"),
    (lambda info: info["shards"].clear(), "its shards do not fit the rest"),
    (lambda info: info.update(percepts=2), "its shards do not fit the rest"),
    (lambda info: info.update(percepts=99), "its percepts do not fit the rest"),
    (lambda info: info.update(percepts=2**40), "its percepts do not fit the rest"),
    (lambda info: info.update(episodes=info["interactions"]), "its episodes do not fit the rest"),
]


@pytest.mark.parametrize(("change", "why"), INCONSISTENT)
def test_an_inconsistent_description_is_refused(
    copy: Path, change: Callable[[Any], object], why: str
) -> None:
    change_info(copy, change)
    with pytest.raises(InvalidFileError, match=re.escape(why)):
        read_all(copy)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="Name a folder to which rlvc wrote shards"):
        open_dataset(tmp_path)
    assert not is_shards(tmp_path)
    for text in ("{", "[1]", "[" * 100_000, "\xff"):
        (tmp_path / "dataset.json").write_bytes(text.encode("latin-1"))
        assert not is_shards(tmp_path)
        with pytest.raises(DamagedFileError, match="is damaged: it is not JSON"):
            open_dataset(tmp_path)
    (tmp_path / "dataset.json").unlink()
    (tmp_path / "dataset.json").mkdir()
    with pytest.raises(DamagedFileError):
        open_dataset(tmp_path)


def rewrite(folder: Path, kind: str, number: int, name: str, change: Any) -> None:
    """Change a column of a file, and the checksum of the file."""
    path = folder / file_of(kind, number)
    table = pyarrow.parquet.read_table(path)
    old = table.column(name)
    new = change(old.to_numpy().copy())
    column = new if isinstance(new, pyarrow.Array) else pyarrow.array(new, old.type)
    at, nullable = table.column_names.index(name), table.schema.field(name).nullable
    table = table.set_column(at, pyarrow.field(name, column.type, nullable), column)
    pyarrow.parquet.write_table(table, path, store_schema=False)
    piece = asdict(describe_file(path, table.num_rows))
    is_shard = kind in ("interactions", "percepts")
    change_info(
        folder,
        lambda info: (info["shards"][number] if is_shard else block_of(info)).update({kind: piece}),
    )


def first(value: Any) -> Callable[[Any], Any]:
    def change(column: Any) -> Any:
        column[0] = value
        return column

    return change


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("interactions", "action", first(3)),
        ("interactions", "action", first(-1)),
        ("interactions", "start", first(-1)),
        ("interactions", "end", first(10**6)),
        ("interactions", "reward", first(np.nan)),
        ("interactions", "reward", first(1e6)),
        ("interactions", "reward", lambda column: pyarrow.array(["x"] * len(column))),
        ("interactions", "stuck", lambda column: ~column),
        ("percepts", "percept", first(-1)),
        ("percepts", "percept", lambda column: column[::-1]),
        ("percepts", "image.left", first(5)),
        ("percepts", "image.left", first(-1)),
        ("percepts", "is_first", lambda column: ~column),
        ("images", "symbols", first(-1)),
        ("images", "symbols", lambda column: column + 1),
        ("images", "digest", first("no digest")),
        ("images", "digest", lambda column: np.full(len(column), column[0])),
        ("symbols", "image", first(-1)),
        ("symbols", "image", lambda column: column + 1),
        ("symbols", "image", lambda column: column[::-1]),
        ("symbols", "symbol", first(2**30)),
        ("symbols", "symbol", first(-1)),
        ("symbols", "symbol", lambda column: column[::-1]),
        ("symbols", "x", first(np.nan)),
        ("symbols", "y", first(np.inf)),
    ],
)
def test_invalid_tables_are_refused(copy: Path, kind: str, name: str, change: Any) -> None:
    rewrite(copy, kind, 0, name, change)
    with pytest.raises(InvalidFileError):
        read_all(copy)


def test_an_episode_in_two_shards_is_refused(copy: Path) -> None:
    last = read_shard(copy, 0).interactions.episode[-1]
    rewrite(copy, "interactions", 1, "episode", lambda one: np.where(one == one[0], last, one))
    with pytest.raises(InvalidFileError, match="its episodes do not fit the rest"):
        read_all(copy)


def test_no_memory_is_allocated_for_a_forged_size(copy: Path) -> None:
    change_info(copy, lambda info: info["shards"][0]["percepts"].update(bytes=2**40))
    with pytest.raises(DamagedFileError, match=r"percepts/00000\.parquet is damaged"):
        read_all(copy)


def test_a_file_that_is_not_parquet_is_refused(copy: Path) -> None:
    path = copy / file_of("symbols", 0)
    path.write_bytes(b"PAR1" * 20)
    rows = read_info(copy).cameras[0].blocks[0].symbols.rows
    piece = asdict(describe_file(path, rows))
    change_info(copy, lambda info: block_of(info).update(symbols=piece))
    with pytest.raises(InvalidFileError, match="is not a Parquet file that can be read"):
        read_all(copy)
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidFileError, match="is not a regular file"):
        read_all(copy)


def test_a_missing_shard_is_refused(whole: Path) -> None:
    with pytest.raises(IndexError, match="has 2 shards; there is no shard 2"):
        read_shard(whole, 2)


def test_percepts_without_interactions_are_in_the_last_shard(tmp_path: Path) -> None:
    data = logged(20)
    data.percepts.add(blocks(77, (64, 72, 3)))
    write(data, tmp_path / "shards", 2)
    one, two = (read_shard(tmp_path / "shards", number).numbers for number in range(2))
    assert len(data.percepts) - 1 not in one.percepts
    assert two.percepts[-1] == len(data.percepts) - 1
    assert two.is_first[-1]  # type: ignore[index]
    assert set(one.percepts.tolist()) | set(two.percepts.tolist()) == set(range(len(data.percepts)))


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    data = logged(60)
    extractor = RLVC(detector=Harris()).new_extractor(data.percepts)
    for size in (100, 2_000, 10_000, 40_000):
        place = tmp_path / "deep" / "shards"
        with limited(size), pytest.raises(OSError, match="raise the limit or choose another disk"):
            write_dataset(data, place, 2, extractor.snapshot())
        assert not list(tmp_path.iterdir())


def test_interest_points_in_double_precision_are_refused(tmp_path: Path) -> None:
    data = logged(10)
    for change in (1e-9, np.nan):
        extractor = RLVC().new_extractor(data.percepts)
        extractor.detector = Odd(change)
        with pytest.raises(ValueError, match="must be float32, and positions and scales finite"):
            write_dataset(data, tmp_path / "shards", 1, extractor)
        assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class Odd:
    """A detector whose scales are not float32."""

    change: float

    def detect(self, image: Image) -> InterestPoints:
        points = Harris().detect(image)
        scale: Any = points.scale.astype(np.float64) + self.change
        return replace(points, scale=scale)


def test_the_number_of_images_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = logged(20, cameras=("left", "right"), n_images=3)
    monkeypatch.setattr("rlvc.distributed.disk.write.MAX_IMAGES", 5)
    with pytest.raises(ValueError, match="may have at most 5 images; got 6"):
        write_dataset(data, tmp_path / "shards", 1, RLVC().new_extractor(data.percepts))
    assert not list(tmp_path.iterdir())


def test_the_description_of_the_most_images_is_not_too_long() -> None:
    info = {"rows": 10**9, "bytes": 10**9, "crc32": 2**32 - 1}
    cameras = [{"blocks": [{"images": info, "symbols": info}] * 10}]
    n_bytes = len(json.dumps({"cameras": cameras}, indent=1)) / 10
    assert n_bytes * MAX_IMAGES / BLOCK < MAX_BYTES
