from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc.vision import Detector, Harris, InterestPoints, Invariants, Orb, Sift, SiftDescriptor
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors, grey
from tests.support.builders import blocks

WIDTH = {"invariants": 8, "sift": 128, "rootsift": 128, "orb": 32}


def grid(side: int, step: int = 8) -> InterestPoints:
    """Return points all over a square image, its border included."""
    xy = np.stack(np.meshgrid(np.arange(0, side, step), np.arange(0, side, step)), axis=-1)
    return InterestPoints.at(xy.reshape(-1, 2).astype(np.float32), 16.0)


@pytest.mark.parametrize("name", list(descriptors))
@pytest.mark.parametrize("detector", list(detectors))
@pytest.mark.parametrize("channels", [1, 3])
def test_any_detector_goes_with_any_descriptor(name: str, detector: str, channels: int) -> None:
    for image in (blocks(1, (128, 128, channels)), blocks(5, (33, 40, channels), side=3)):
        points = detectors.make(detector).detect(image)
        kept, rows = descriptors.make(name).describe(image, points)
        assert rows.shape == (len(kept), WIDTH[name])
        assert np.isfinite(rows).all()
        assert {tuple(p) for p in kept.xy.tolist()} <= {tuple(p) for p in points.xy.tolist()}


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_invariants_do_not_depend_on_rotation(normalise: bool, turns: int, channels: int) -> None:
    image = blocks(5, (65, 65, channels), side=5)
    turned = np.ascontiguousarray(np.rot90(image, turns))
    descriptor = Invariants(normalise=normalise)
    xy = grid(65).xy
    middle = xy - 32
    for _ in range(turns):  # a quarter turn to the left takes (x, y) to (y, -x)
        middle = np.stack([middle[:, 1], -middle[:, 0]], axis=1)
    kept, rows = descriptor.describe(image, InterestPoints.at(xy, 1.0))
    also, others = descriptor.describe(turned, InterestPoints.at(middle + 32, 1.0))
    assert len(kept) == len(also) > 10
    assert others == pytest.approx(rows, abs=1e-5)
    assert np.ptp(rows, axis=0).min() > 1e-3  # and places differ


def test_normalised_invariants_do_not_depend_on_affine_light() -> None:
    image = blocks(6, (65, 65, 3), side=5) // 2
    bright = image * np.array([1, 2, 1], np.uint8) + np.array([60, 0, 10], np.uint8)
    normal, raw = Invariants(normalise=True), Invariants()
    one, other = (normal.describe(i, grid(65))[1] for i in (image, bright))
    assert other == pytest.approx(one, abs=1e-4)
    assert np.abs(raw.describe(image, grid(65))[1] - raw.describe(bright, grid(65))[1]).max() > 0.1


def test_invariants_are_the_formula() -> None:
    # On a ramp the smoothed value is the value and the gradient is the slope.
    x, y = np.meshgrid(np.arange(40), np.arange(40))
    image = np.stack([3 * x, 2 * y, x + y], axis=-1).astype(np.uint8)
    _, rows = Invariants().describe(image, InterestPoints.at(np.array([[20, 15]], np.float32), 1.0))
    expected = [60, 30, 35, 9, 4, 2, 0, 3]
    scale = np.array([255] * 3 + [255**2] * 5)
    assert rows[0] * scale == pytest.approx(np.array(expected), abs=1e-2)


def test_grey_is_a_colour_whose_channels_are_equal() -> None:
    grey = blocks(7, (64, 64, 1))
    colour = np.repeat(grey, 3, axis=2)
    one, other = (Invariants().describe(i, grid(64))[1] for i in (grey, colour))
    assert np.array_equal(one, other)


def test_root_sift_is_the_hellinger_form() -> None:
    image = blocks(8, (128, 128, 3))
    points = detectors.make("sift").detect(image)
    plain = descriptors.make("sift").describe(image, points)[1].astype(np.float64)
    root = descriptors.make("rootsift").describe(image, points)[1].astype(np.float64)
    expected = np.sqrt(plain / plain.sum(axis=1, keepdims=True)) * 512
    assert np.abs(root - np.minimum(expected, 255)).max() < 12  # both are rounded to bytes
    assert descriptors.make("sift", root=True) == descriptors.make("rootsift")


@pytest.mark.parametrize(("name", "extractor"), [("sift", "SIFT_create"), ("orb", "ORB_create")])
def test_points_and_rows_are_those_of_opencv(name: str, extractor: str) -> None:
    image = blocks(shape=(120, 160, 3))
    detector = Sift(max_points=0) if name == "sift" else detectors.make(name)
    points, rows = descriptors.make(name).describe(image, detector.detect(image))
    keypoints, whole = getattr(cv2, extractor)().detectAndCompute(grey(image), None)
    pairs = zip(keypoints, whole, strict=True)
    order = {(k.pt, k.size, k.angle, k.octave): row for k, row in pairs}
    assert len(points) == len(order) > 20
    mine = zip(*points.columns, rows, strict=True)
    for (x, y), size, angle, octave, row in mine:
        theirs = order[(float(x), float(y)), float(size), float(angle), int(octave)]
        assert np.array_equal(row, theirs.astype(np.uint8))


def smooth(seed: int, sigma: float) -> NDArray[np.uint8]:
    """Return blurred noise: the more it is blurred, the larger the scales of SIFT's points."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(110, 140, 3)).astype(np.float32)
    blurred = cv2.GaussianBlur(noise, (0, 0), sigma)
    return np.asarray(cv2.normalize(blurred, None, 0, 255, cv2.NORM_MINMAX), np.uint8)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "detector",
    [Sift(max_points=n, contrast=c) for n in (0, 1, 30) for c in (0.02, 0.04)] + [Harris(), Orb()],
)
@pytest.mark.parametrize("root", [False, True])
def test_detecting_and_describing_at_once_changes_nothing(detector: Detector, root: bool) -> None:
    descriptor = SiftDescriptor(root=root)
    levels = set()
    images = [smooth(seed, sigma) for seed in range(3) for sigma in (1.0, 2.0, 4.0, 8.0)]
    for image in [*images, blocks(shape=(70, 90, 1)), np.zeros((40, 40, 3), np.uint8)]:
        points, rows = descriptor.describe(image, detector.detect(image))
        also, others = descriptor.detect_and_describe(image, detector)
        for mine, theirs in zip(points.columns, also.columns, strict=True):
            assert np.array_equal(mine, theirs, equal_nan=True)
        assert rows.dtype == others.dtype == np.uint8
        assert np.array_equal(rows, others)
        levels.add(bool((points.octave & 128).any()) if len(points) else None)
    if isinstance(detector, Sift):
        assert levels == {True, False, None}  # with points of the finest octave, without, and none
