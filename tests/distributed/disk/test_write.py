"""Writing datasets: the same policy is learned from them as from the images."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, open_dataset, read_folder, write_dataset, write_folder
from rlvc.distributed.disk.unique import sample_unique
from rlvc.errors import ImageError
from rlvc.vision import Descriptors, Euclidean, Harris
from rlvc.vision.descriptors import descriptors
from rlvc.vision.keypoints import unique_rows
from rlvc.vision.metrics import metrics
from tests.support.builders import blocks
from tests.support.datasets import logged, views
from tests.support.policies import bytes_of


@dataclass(frozen=True, slots=True)
class Stretched:
    """A metric that is not of rlvc and learns from all descriptors."""

    factor: float = 1.0

    def fit(self, descriptors: Descriptors) -> Self:
        return type(self)(float(np.asarray(descriptors, np.float64).std()) + 1.0)

    def distances(self, a: Descriptors, b: Descriptors) -> NDArray[np.float64]:
        return Euclidean().distances(a, b) / self.factor


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few images be many."""
    monkeypatch.setattr("rlvc.distributed.disk.write.BLOCK", 4)
    monkeypatch.setattr("rlvc.distributed.disk.unique.SHARE", 1000)
    monkeypatch.setattr("rlvc.distributed.disk.unique.SAMPLE", 50)
    monkeypatch.setattr("rlvc.vision.metrics.SAMPLE", 50)


PARTS: list[dict[str, Any]] = [
    {"detector": Harris()},
    {"descriptor": descriptors.make("sift")},
    {"descriptor": descriptors.make("orb")},
    {"detector": Harris(), "metric": Stretched(), "threshold": 0.01},
]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("parts", PARTS, ids=["mahalanobis", "euclidean", "hamming", "own"])
@pytest.mark.parametrize("cameras", [("",), ("left", "right")], ids=["one", "two"])
def test_same_policy_from_1_2_and_4_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, Any],
    cameras: tuple[str, ...],
) -> None:  # fmt: skip
    monkeypatch.setattr(metrics, "_factories", dict(metrics._factories))
    metrics.register("stretched", Stretched)
    data = views(cameras=cameras)
    learner = RLVC(threads=1, **parts).fitted(data.percepts)
    wanted = bytes_of(learner.learn(data))
    for shards in (1, 2, 4):
        folder = tmp_path / f"{shards}"
        extractor = learner.new_extractor(data.percepts)
        info = write_dataset(data, folder, shards, extractor, threads=1)
        assert len(info.shards) == shards
        assert all(len(camera.blocks) > 1 for camera in info.cameras)
        assert not list(folder.glob(".*"))
        database = open_dataset(folder).database()
        assert bytes_of(learner.learn(database)) == wanted
    assert database.extractor.n_symbols > 4


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("cameras", [("",), ("left", "right")], ids=["one", "two"])
def test_images_that_have_files_are_referenced(tmp_path: Path, cameras: tuple[str, ...]) -> None:
    write_folder(views(cameras=cameras), tmp_path / "log", table="parquet")
    data, there = read_folder(tmp_path / "log", lazy=True), read_folder(tmp_path / "log")
    learner = RLVC(threads=1).fitted(there.percepts)
    write_dataset(data, tmp_path / "shards", 2, learner.new_extractor(data.percepts))
    assert not (tmp_path / "shards" / "frames").exists()
    database = open_dataset(tmp_path / "shards").database()
    assert bytes_of(learner.learn(database)) == bytes_of(learner.learn(there))
    images = database.interactions.percepts.images[0]
    assert images.fingerprint(0, len(images)) == there.percepts.images[0].fingerprint(
        0, len(images)
    )
    assert np.array_equal(images[3], there.percepts.images[0][3])
    file = sorted((tmp_path / "log" / "images").rglob("000003.png"))[0]
    file.unlink()
    with pytest.raises(ImageError, match="names a file that is not there: "):
        images[3]
    # What was seen is there: to learn, no image is needed.
    assert bytes_of(learner.learn(database)) == bytes_of(learner.learn(there))


def test_images_without_keypoints(tmp_path: Path) -> None:
    blank = np.zeros((3, 32, 32, 3), np.uint8)
    blank[1], blank[2] = 40, 80
    data = Interactions.from_arrays(
        blank, [0, 1, 0], [0.0, 1.0, 0.0], [True, True, True], next_observations=blank
    )
    learner = RLVC(detector=Harris())
    write_dataset(data, tmp_path / "shards", 2, learner.new_extractor(data.percepts))
    database = open_dataset(tmp_path / "shards").database()
    assert database.extractor.n_symbols == 0
    assert bytes_of(learner.learn(database)) == bytes_of(learner.learn(data))


@given(
    seed=st.integers(0, 10**6), n=st.integers(0, 60), most=st.integers(1, 20),
    group=st.integers(1, 15), share=st.integers(1, 400),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_distinct_rows_are_sampled_from_files(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, most: int, group: int, share: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 4, (n, 2)).astype(np.float32)
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlvc.distributed.disk.unique.SHARE", share)
        found = sample_unique(
            lambda: [rows[i : i + group] for i in range(0, n, group)], most, folder
        )
    assert not list(folder.iterdir())
    if n == 0:
        assert found is None
        return
    distinct, _ = unique_rows(rows)
    assert found.tolist() == distinct[:: -(-len(distinct) // most)].tolist()


def test_progress_is_reported(tmp_path: Path) -> None:
    data = logged(20)
    told, steps = list[tuple[str, int | None]](), list[str]()
    extractor = RLVC(detector=Harris()).new_extractor(data.percepts)
    write_dataset(
        data, tmp_path / "shards", 1, extractor,
        on_phase=lambda phase, total: told.append((phase, total)),
        on_step=lambda: steps.append(told[-1][0]),
    )  # fmt: skip
    n = len(data.percepts)
    assert told == [("extract", n), ("learn", 1), ("write", n)]
    assert [steps.count(phase) for phase, _ in told] == [n, 1, n]


def peak(data: Interactions, folder: Path) -> int:
    """Return the most bytes that were in use at a time while a dataset was made."""
    learner = RLVC(detector=Harris(), threads=1)
    extractor = learner.new_extractor(data.percepts)
    tracemalloc.start()
    try:
        write_dataset(data, folder, 2, extractor, threads=1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvc.distributed.disk.write.BLOCK", 16)

    def walk(n: int, name: str) -> Interactions:
        scene = blocks(0, (96, 136, 3))
        x = np.arange(n + 1)
        images = np.stack([scene[:, a % 40 : a % 40 + 96] for a in x])
        images[:, 0, 0, 0], images[:, 0, 0, 1] = x % 256, x // 256  # no two are the same
        ends = np.arange(n) % 10 == 9
        data = Interactions.from_arrays(
            images[:-1], x[:-1] % 2, np.ones(n), ends, next_observations=images[1:]
        )
        write_folder(data, tmp_path / name)
        return read_folder(tmp_path / name, lazy=True)

    few, many = walk(60, "few"), walk(480, "many")
    peak(few, tmp_path / "warm")  # what is made once for all
    least, most = peak(few, tmp_path / "a"), peak(many, tmp_path / "b")
    assert most < least + 420 * 2000  # where an image alone has 27,648 bytes
