from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc.vision import Harris, InterestPoints, Orb, Sift
from rlvc.vision.detectors import detectors
from tests.support.builders import blocks

EVERY = pytest.mark.parametrize("name", list(detectors))


@EVERY
@pytest.mark.parametrize("channels", [1, 3])
def test_points_are_ordered_from_top_to_bottom_and_left_to_right(name: str, channels: int) -> None:
    points = detectors.make(name).detect(blocks(1, (96, 128, channels)))
    assert len(points) >= 5
    order = np.lexsort((points.xy[:, 0], points.xy[:, 1]))
    assert np.array_equal(points.xy[order], points.xy)


@EVERY
def test_tiny_and_blank_images_have_no_points(name: str) -> None:
    sizes = (1, 1, 3), (1, 1, 1), (1, 64, 3), (64, 1, 1), (2, 2, 3), (7, 5, 3), (20, 20, 1)
    tiny = [np.full(shape, 90, np.uint8) for shape in sizes]
    for image in tiny:
        image[0, 0] = 255
    blank = [np.full((96, 96, n), level, np.uint8) for n in (1, 3) for level in (0, 127, 255)]
    for image in (*tiny, *blank):
        points = detectors.make(name).detect(image)
        assert [column.shape for column in points.columns] == [(0, 2), (0,), (0,), (0,)]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 20), st.sampled_from([1, 3]))
def test_harris_moves_with_the_window(x: int, y: int, seed: int, channels: int) -> None:
    rng = np.random.default_rng(seed)
    scene = rng.integers(0, 256, (128, 128, channels), dtype=np.uint8)
    detector, side = Harris(), 88
    margin = detector.margin
    whole = {tuple(p) for p in detector.detect(scene).xy.tolist()}
    shown = detector.detect(scene[y : y + side, x : x + side]).xy
    window = {tuple(p) for p in (shown + np.array([x, y])).tolist()}
    low, high = margin, side - margin
    inside = {(px, py) for px, py in whole if low <= px - x < high and low <= py - y < high}
    assert window == inside
    assert len(window) > 0


def test_harris_finds_corners_of_colour_alone() -> None:
    image = np.zeros((64, 64, 3), np.uint8)
    image[:, :, 0] = 100
    image[30:, 30:] = (0, 100, 0)
    assert len(Harris().detect(image)) == 1


def test_harris_keeps_one_maximum_per_window() -> None:
    image = np.random.default_rng(3).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    xy = Harris(radius=8).detect(image).xy
    gap = np.abs(xy[:, None] - xy[None]).max(axis=2)
    assert len(xy) > 3
    assert gap[~np.eye(len(xy), dtype=bool)].min() > 8


def test_max_points_bounds_the_number() -> None:
    image = blocks(4, (160, 160, 3))
    assert len(Orb(max_points=5).detect(image)) <= 5
    assert len(Sift(max_points=5).detect(image)) <= 5 < len(Sift().detect(image))


def test_points_can_be_chosen() -> None:
    points = InterestPoints.at(np.array([[1, 2], [3, 4], [5, 6]], np.float32), 7.0)
    assert points.take(np.array([2, 0])).xy.tolist() == [[5, 6], [1, 2]]
    assert points.take(np.array([False, True, False])).xy.tolist() == [[3, 4]]
    assert np.isnan(points.angle).all()
