"""Local descriptors of interest points.

A descriptor is a frozen dataclass with the method ``describe``, a ``JointDescriptor`` if it shares
work with detectors; register a custom one with ``descriptors.register("mine", Mine)``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc._core.params import Checked, param
from rlvc._core.registry import Registry
from rlvc.data.images import Image
from rlvc.vision.detectors import (
    Detector,
    InterestPoints,
    Sift,
    gaussian_kernels,
    grey,
    sort_keypoints,
    to_keypoints,
)

Descriptors = NDArray[Any]  # (n, d), float32 or uint8
ImageKeypoints = tuple[InterestPoints, Descriptors]  # of one image, with a row for each point


class Descriptor(Protocol):
    """Describe the neighbourhoods of interest points."""

    def describe(self, image: Image, points: InterestPoints) -> ImageKeypoints:
        """Return the points that can be described and one row for each of them."""
        ...


@runtime_checkable
class JointDescriptor(Descriptor, Protocol):
    """A descriptor that shares work with detectors that it knows."""

    def detect_and_describe(self, image: Image, detector: Detector) -> ImageKeypoints:
        """Return exactly ``self.describe(image, detector.detect(image))``, but faster."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Invariants(Checked):
    """Eight first-order colour differential invariants (Gouet & Boujemaa).

    The three smoothed channels, their squared gradient magnitudes, and the scalar products of the
    gradients of red with green and red with blue. They are invariant to rotations, and with
    ``normalise`` to affine changes of light: each channel is first brought to zero mean and unit
    deviation in the neighbourhood.

    >>> image = np.full((40, 40, 3), 51, np.uint8)
    >>> _, rows = Invariants().describe(image, InterestPoints.at(np.float32([[20, 20]]), 1.0))
    >>> (rows * 255).round().tolist()
    [[51.0, 51.0, 51.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """

    sigma: float = param(2.0, "scale of the neighbourhood, pixels", low=0.3, high=50.0)
    normalise: bool = param(False, "make the descriptors invariant to affine changes of light")

    def describe(self, image: Image, points: InterestPoints) -> ImageKeypoints:
        """Return the points whose neighbourhood lies inside the image, and (n, 8) float32."""
        smooth, slope = gaussian_kernels(self.sigma)
        reach = len(smooth) // 2
        height, width = image.shape[:2]
        cell = np.rint(points.xy).astype(np.int64)
        x, y = cell[:, 0], cell[:, 1]
        inside = (x >= reach) & (y >= reach) & (x < width - reach) & (y < height - reach)
        if not inside.all():
            points, cell = points.take(inside), cell[inside]
        return points, _invariants(image, cell, smooth, slope, self.normalise)


@jit
def _invariants(
    image: Image,
    cell: NDArray[np.int64],
    smooth: NDArray[np.float32],
    slope: NDArray[np.float32],
    normalise: bool,
) -> NDArray[np.float32]:
    size = len(smooth)
    reach = size // 2
    channels = image.shape[2]
    rows = np.empty((len(cell), 8), np.float32)
    jet = np.empty((3, 3), np.float64)  # channel; value, x derivative, y derivative
    for i in range(len(cell)):
        left, top = cell[i, 0] - reach, cell[i, 1] - reach
        for c in range(channels):
            value, ddx, ddy, total, square = 0.0, 0.0, 0.0, 0.0, 0.0
            for v in range(size):
                along, across = 0.0, 0.0
                for u in range(size):
                    level = image[top + v, left + u, c] / 255.0
                    along += smooth[u] * level
                    across += slope[u] * level
                    total += level
                    square += level * level
                value += smooth[v] * along
                ddy += slope[v] * along
                ddx += smooth[v] * across
            if normalise:
                mean = total / (size * size)
                deviation = np.sqrt(max(square / (size * size) - mean * mean, 1e-6))
                value, ddx, ddy = (value - mean) / deviation, ddx / deviation, ddy / deviation
            jet[c, 0], jet[c, 1], jet[c, 2] = value, ddx, ddy
        for c in range(channels, 3):
            # One by one, as Numba takes seconds to compile the copy of a row.
            jet[c, 0], jet[c, 1], jet[c, 2] = jet[0, 0], jet[0, 1], jet[0, 2]
        for c in range(3):
            rows[i, c] = jet[c, 0]
            rows[i, 3 + c] = jet[c, 1] ** 2 + jet[c, 2] ** 2
        for c in range(1, 3):
            rows[i, 5 + c] = jet[0, 1] * jet[c, 1] + jet[0, 2] * jet[c, 2]
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class SiftDescriptor(Checked):
    """OpenCV's SIFT histograms as bytes; ``root`` gives their Hellinger form (RootSIFT)."""

    root: bool = param(False, "take the square root of the normalised histogram")

    def describe(self, image: Image, points: InterestPoints) -> ImageKeypoints:
        """Return the points that OpenCV keeps and (n, 128) uint8."""
        sift = cv2.SIFT_create()  # type: ignore[attr-defined]
        points = _keep_octaves(points, (points.octave >> 8) & 255 > 0)
        points, rows = _compute(sift, image, points, 128, np.float32)
        return points, self._as_bytes(rows)

    def detect_and_describe(self, image: Image, detector: Detector) -> ImageKeypoints:
        """Detect and describe; for SIFT's own points, on one pyramid."""
        if type(detector) is not Sift:
            return self.describe(image, detector.detect(image))
        keypoints, rows = detector.opencv().detectAndCompute(grey(image), None)
        points, order = sort_keypoints(keypoints)
        if not (points.octave & 128).any():
            # Without a point of octave −1, OpenCV would describe them on a pyramid without it.
            return self.describe(image, points)
        return points, self._as_bytes(rows[order])

    def _as_bytes(self, rows: NDArray[np.float32]) -> NDArray[np.uint8]:
        if self.root:
            total = np.maximum(rows.sum(axis=1, keepdims=True), 1e-9)
            rows = np.sqrt(rows / total) * 512.0  # unit vectors, on SIFT's own scale of 512
        return np.clip(np.rint(rows), 0, 255).astype(np.uint8)


@dataclass(frozen=True, kw_only=True, slots=True)
class OrbDescriptor:
    """OpenCV's rotated BRIEF: 256 binary tests in 32 bytes, for the Hamming metric."""

    def describe(self, image: Image, points: InterestPoints) -> ImageKeypoints:
        """Return the points that OpenCV keeps and (n, 32) uint8."""
        orb = cv2.ORB_create()  # type: ignore[attr-defined]
        points = _keep_octaves(points, points.octave < 256)
        return _compute(orb, image, points, 32, np.uint8)


def _keep_octaves(points: InterestPoints, is_own: NDArray[np.bool_]) -> InterestPoints:
    """Clear the octaves of other detectors; only those of SIFT have a layer above bit 8."""
    return replace(points, octave=np.where(is_own, points.octave, 0).astype(np.int32))


def _compute(
    opencv: Any, image: Image, points: InterestPoints, width: int, dtype: type
) -> ImageKeypoints:
    """Return the points that an OpenCV extractor keeps and their rows."""
    rows = None
    if len(points):
        kept, rows = opencv.compute(grey(image), to_keypoints(points))
    if rows is None:
        return points.take(np.empty(0, np.int64)), np.empty((0, width), dtype)
    return points.take(np.asarray([k.class_id for k in kept], np.int64)), rows


descriptors: Registry[Descriptor] = Registry("descriptor")
descriptors.register("invariants", Invariants)
descriptors.register("sift", SiftDescriptor)
descriptors.register("rootsift", functools.partial(SiftDescriptor, root=True))
descriptors.register("orb", OrbDescriptor)
