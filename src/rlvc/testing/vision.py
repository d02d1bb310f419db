"""Checks of the parts that extract features: detectors, descriptors and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlvc.data.images import Image
from rlvc.testing.require import Require
from rlvc.vision.descriptors import Descriptor, JointDescriptor
from rlvc.vision.detectors import Detector, Harris, InterestPoints
from rlvc.vision.metrics import Embedded, Metric


def check_detector(detector: Detector) -> None:
    """Check that ``detect`` returns the same valid points for the same image, however it is stored.

    The images are patchworks of squares, blank or tiny, in colour and grey, read-only or not
    contiguous.
    """
    n_points = 0
    for image in _images():
        before = image.copy()
        with Require(detector, f"an image of shape {image.shape}") as require:
            points = detector.detect(image)
            require.equal(image, before, "detect must not write to the image")
            _require_points(require, points, image)
            n_points += len(points)
            for stored, other in _copies(image):
                what = f"detect must return the same points for the same image if it is {stored}"
                require.equal([*detector.detect(other).columns], [*points.columns], what)
    require(n_points, "detect must find points in some of the patchworks of squares")


def check_descriptor(descriptor: Descriptor) -> None:
    """Check that ``describe`` returns one row per point, which depends on that point alone."""
    for image in _images():
        with Require(descriptor, f"an image of shape {image.shape}") as require:
            _check_describe(require, descriptor, image)
            if isinstance(descriptor, JointDescriptor):
                joint, rows = descriptor.detect_and_describe(image, Harris())
                apart, others = descriptor.describe(image, Harris().detect(image))
                what = "detect_and_describe must return what detect and then describe do"
                require.equal([*joint.columns, rows], [*apart.columns, others], what)


def _check_describe(require: Require, descriptor: Descriptor, image: Image) -> None:
    points, before = _grid(min(image.shape[:2])), image.copy()
    kept, rows = descriptor.describe(image, points)
    require.equal(image, before, "describe must not write to the image")
    _require_points(require, kept, image)
    given, returned = (set(map(tuple, p.xy.tolist())) for p in (points, kept))
    require(returned <= given, "describe must return points that it was given")
    usual = descriptor.describe(_patchwork((96, 96, image.shape[2])), _grid(96))[1]
    is_table = np.ndim(usual) == 2 and np.asarray(usual).dtype in (np.float32, np.uint8)
    require(is_table, "rows must be (n, d) numbers of float32 or uint8")
    require((usual != usual[:1]).any(), "rows must differ between points that look different")
    require.array(rows, (len(kept), usual.shape[1]), usual.dtype, "rows of the points")
    for stored, other in _copies(image):
        what = f"describe must return the same rows for the same image if it is {stored}"
        require.equal(descriptor.describe(other, points)[1], rows, what)
    for part in (slice(0), slice(0, 1), slice(1, None), slice(None, None, -1)):
        some = kept.take(np.arange(len(kept))[part].copy())
        again, alone = descriptor.describe(image, some)
        what = "describe must return its points once each, in the order in which they are given"
        require.equal([*again.columns], [*some.columns], what)
        require.equal(alone, rows[part], "a row must depend on its own point alone")


def check_metric(metric: Metric, seed: int = 0) -> None:
    """Check that the ``distances`` of the fitted metric form a metric, each of two rows alone.

    The descriptors are drawn by ``seed``: packed bits if the metric has ``binary = True``,
    floating-point numbers otherwise.
    """
    rng = np.random.default_rng(seed)
    rows: Any = (rng.normal(size=(30, 5)) * [1, 10, 0.1, 3, 5] + 7).astype(np.float32)
    if getattr(metric, "binary", False):
        rows = rng.integers(0, 256, (30, 8), dtype=np.uint8)
    rows.flags.writeable = False
    with Require(metric, "30 read-only descriptors") as require:
        fitted = metric.fit(rows)
        require.instance(fitted, type(metric), "the metric that fit returns")
        d = fitted.distances(rows, rows)
        require.array(d, (30, 30), np.float64, "distances of (n, d) and (m, d) rows")
        require((d >= 0).all(), "distances must not be negative")
        require(d.any(), "distances of different rows must not all be 0")
        require(not d.diagonal().any(), "the distance of a row to itself must be 0")
        require.equal(d, d.T, "distances must be symmetric")
        detour = (d[:, :, None] + d[None]).min(axis=1)
        require((d <= detour + 1e-9).all(), "distances must satisfy the triangle inequality")
        again = metric.fit(rows).distances(rows, rows)
        require.equal(again, d, "fit must return the same metric for the same descriptors")
        for part in (slice(0, 1), slice(7, 19), slice(0)):
            require.given = f"{len(rows[part])} and 30 descriptors"
            some = [fitted.distances(rows[part], rows), fitted.distances(rows, rows[part])]
            what = "a distance must depend on its two rows alone"
            require.equal(some, [d[part], d[:, part]], what)
        if isinstance(fitted, Embedded) and not fitted.binary:
            embedded = fitted.embed(rows).astype(np.float64)
            squares = ((embedded[:, None] - embedded[None]) ** 2).sum(axis=2)
            what = "embedded rows must have the distances of the metric"
            require(np.allclose(squares, d**2), what)


def _require_points(require: Require, points: InterestPoints, image: Image) -> None:
    require.instance(points, InterestPoints, "the points that are returned")
    n, size = len(points), np.array(image.shape[1::-1])
    require.array(points.xy, (n, 2), np.float32, "xy of points")
    require.array(points.scale, (n,), np.float32, "scale of points")
    is_known = ~np.isnan(points.angle)
    require.array(np.where(is_known, points.angle, 0), (n,), np.float32, "angle of points")
    require.array(points.octave, (n,), np.int32, "octave of points")
    is_inside = ((points.xy >= 0) & (points.xy <= size - 1)).all()
    require(is_inside, f"points of a {image.shape} image must lie inside it")
    require((points.scale > 0).all(), "the scales of points must be positive")


def _grid(side: int) -> InterestPoints:
    xy = np.stack(np.meshgrid(*[np.arange(0, side, 8)] * 2), axis=-1)
    return InterestPoints.at(xy.reshape(-1, 2).astype(np.float32), 16.0)


def _patchwork(shape: tuple[int, ...], side: int = 8) -> Image:
    height, width, channels = shape
    coarse = (-(-height // side), -(-width // side), channels)
    squares = np.random.default_rng(0).integers(0, 256, coarse, dtype=np.uint8)
    return squares.repeat(side, 0).repeat(side, 1)[:height, :width].copy()


def _images() -> Iterator[Image]:
    """Yield images in colour and grey: full of corners, small, blank and tiny."""
    for channels in (3, 1):
        yield _patchwork((96, 128, channels))
        yield _patchwork((33, 40, channels), side=3)
        yield np.full((96, 96, channels), 127, np.uint8)
        for size in ((1, 1), (1, 64), (64, 1), (2, 2), (7, 5)):
            yield _patchwork((*size, channels), side=1)


def _copies(image: Image) -> Iterator[tuple[str, Image]]:
    """Yield the same image as it may lie in memory."""
    yield "copied", image.copy()
    locked = image.copy()
    locked.flags.writeable = False
    yield "read-only", locked
    yield "in Fortran's order", np.asfortranarray(image)
    yield "stored upside down", image[::-1].copy()[::-1]
    yield "every second column of another", image.repeat(2, axis=1)[:, ::2]
