from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rlvc import RLVC, Percepts, collect
from rlvc.data import Image, Images
from rlvc.vision import CAMERA, DRAWN, ExtractionCache, FeatureExtractor, Keypoints
from tests.support.builders import blocks
from tests.support.worlds import PICTURES, Corridor

IMAGES = [blocks(seed, (64, 64, 3)) for seed in range(7)]


def fill(percepts: Percepts, first: int, last: int) -> None:
    for image in IMAGES[first:last]:
        percepts.add({"left": image, "right": image[:, :48]})


def same(one: list[Keypoints], other: list[Keypoints]) -> bool:
    mine, yours = (
        [(k.begin, k.descriptors, k.row, *k.points.columns) for k in keypoints]
        for keypoints in (one, other)
    )
    return len(mine) == len(yours) and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(sum(mine, ()), sum(yours, ()), strict=True)
    )


@pytest.mark.parametrize("config", [DRAWN, CAMERA], ids=["drawn", "camera"])
@pytest.mark.parametrize("threads", [1, 3])
def test_known_images_are_not_processed_again(config: Any, threads: int) -> None:
    percepts, cache, processed = Percepts(), ExtractionCache(), list[int]()
    for first, last in ((0, 3), (3, 4), (4, 4), (4, 7)):
        fill(percepts, first, last)
        extractor: FeatureExtractor = config.new_extractor()
        n_new = 2 * (last - first)
        assert cache.n_new(extractor, percepts) == n_new
        processed.clear()
        keypoints = cache.extract(extractor, percepts, threads, lambda: processed.append(1))
        assert len(processed) == n_new
        assert cache.n_new(extractor, percepts) == 0
        assert same(keypoints, ExtractionCache().extract(extractor, percepts))


def test_earlier_keypoints_are_not_changed() -> None:
    percepts, cache = Percepts(), ExtractionCache()
    fill(percepts, 0, 3)
    extractor = DRAWN.new_extractor()
    before = cache.extract(extractor, percepts)
    kept = [one.begin.copy() for one in before]
    assert cache.extract(extractor, percepts)[0] is before[0]  # nothing is new
    fill(percepts, 3, 7)
    cache.extract(extractor, percepts)
    assert all(np.array_equal(one.begin, begin) for one, begin in zip(before, kept, strict=True))


def test_another_detector_processes_everything() -> None:
    percepts, cache = Percepts(), ExtractionCache()
    fill(percepts, 0, 4)
    cache.extract(DRAWN.new_extractor(), percepts)
    camera = CAMERA.new_extractor()
    assert cache.n_new(camera, percepts) == 8
    assert same(cache.extract(camera, percepts), ExtractionCache().extract(camera, percepts))
    assert cache.n_new(DRAWN.new_extractor(), percepts) == 8  # it remembers one kind at a time


def test_images_without_points_are_known_as_well() -> None:
    percepts, cache, processed = Percepts(), ExtractionCache(), list[int]()
    for level in range(3):
        percepts.add(np.full((64, 64, 3), level, np.uint8))
    cache.extract(DRAWN.new_extractor(), percepts)
    percepts.add(IMAGES[0])
    keypoints = cache.extract(DRAWN.new_extractor(), percepts, 1, lambda: processed.append(1))
    assert len(processed) == 1
    assert keypoints[0].begin[:4].tolist() == [0, 0, 0, 0]
    assert keypoints[0].begin[4] == len(keypoints[0].row) > 0


@dataclass(frozen=True)
class Counting:
    """A detector that counts its calls."""

    calls: list[int]

    def detect(self, image: Any) -> Any:
        self.calls.append(1)
        return DRAWN.detector.detect(image)


def test_rounds_process_every_percept_once() -> None:
    detector = Counting([])
    learner = RLVC(gamma=0.5, threads=1, detector=detector, descriptor=DRAWN.descriptor,
                   metric=DRAWN.metric, threshold=0.2)  # fmt: skip
    learner.learn(Corridor(), interactions=200, rounds=4, epsilon=1.0)  # no policy extracts as well
    assert len(detector.calls) == 5
    cache, data = ExtractionCache(), collect(Corridor(), 100)
    one, other = learner.extract(data, cache), learner.extract(data)
    assert np.array_equal(one.incidence.indices, other.incidence.indices)
    assert len(data.percepts) == 5 < len(PICTURES)
    detector.calls.clear()
    learner.extract(collect(Corridor(), 200), cache)
    assert detector.calls == []


class Fleeting(Images):
    """A store that copies an image at each access and counts the copies that are alive."""

    def __init__(self, n: int) -> None:
        super().__init__()
        for number in range(n):
            self.add(blocks(number, (64, 64, 3)))
        self.alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.fetched, self.most = 0, 0

    def percepts(self) -> Percepts:
        return Percepts.of([self], np.arange(len(self))[:, np.newaxis])

    def __getitem__(self, number: int) -> Image:
        image = super().__getitem__(number).copy()
        self.fetched += 1
        self.alive[self.fetched] = image
        self.most = max(self.most, len(self.alive))
        return image


@pytest.mark.slow
@pytest.mark.parametrize("config", [DRAWN, CAMERA], ids=["drawn", "camera"])
@pytest.mark.parametrize("threads", [1, 2])
def test_few_images_are_held_at_a_time(config: Any, threads: int) -> None:
    images, extractor = Fleeting(30), config.new_extractor()
    (keypoints,) = ExtractionCache().extract(extractor, images.percepts(), threads)
    assert images.fetched == 30
    extractor.learn(images, keypoints, threads)
    symbols = extractor.quantize(images.camera, keypoints, threads)
    assert images.fetched > 30
    assert len(symbols.begin) == 31
    assert 1 <= images.most <= 2 * threads
    gc.collect()
    assert len(images.alive) == 0


def test_keypoints_waste_no_memory() -> None:
    percepts = Fleeting(5).percepts()
    (keypoints,) = ExtractionCache().extract(DRAWN.new_extractor(), percepts)
    columns = keypoints.points.xy, keypoints.points.scale, keypoints.row, keypoints.descriptors
    owners = [column if column.base is None else column.base for column in columns]
    assert sum(one.nbytes for one in owners) == sum(one.nbytes for one in columns)
