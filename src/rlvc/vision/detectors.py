"""Interest point detectors.

A detector is a frozen dataclass with the method ``detect``. Register a custom one with
``detectors.register("mine", Mine)``, so that saved policies can name it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc._core.params import Checked, param
from rlvc._core.registry import Registry
from rlvc.data.images import Image


@dataclass(frozen=True, slots=True)
class InterestPoints:
    """Interest points of one image, in the detector's order.

    Attributes:
        xy: (n, 2) positions in pixels, x first.
        scale: (n,) diameters of the neighbourhoods in pixels.
        angle: (n,) orientations in degrees; NaN where the detector gives none.
        octave: (n,) OpenCV's code of the pyramid level on which a point was found.
    """

    xy: NDArray[np.float32]
    scale: NDArray[np.float32]
    angle: NDArray[np.float32]
    octave: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.xy)

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """The arrays, in the order of the attributes."""
        return self.xy, self.scale, self.angle, self.octave

    def take(self, keep: NDArray[np.bool_] | NDArray[np.integer]) -> InterestPoints:
        """Return the points that a mask or an array of numbers selects."""
        return InterestPoints(*(column[keep] for column in self.columns))

    @classmethod
    def at(cls, xy: NDArray[np.float32], scale: float) -> InterestPoints:
        """Return points of one scale and no orientation."""
        n = len(xy)
        angle = np.full(n, np.nan, np.float32)
        return cls(xy, np.full(n, scale, np.float32), angle, np.zeros(n, np.int32))

    @classmethod
    def concatenate(cls, parts: list[InterestPoints]) -> InterestPoints:
        """Return the points of many images, one image after another."""
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))


class Detector(Protocol):
    """Find interest points. The same image must always give the same points in the same order."""

    def detect(self, image: Image) -> InterestPoints:
        """Return the interest points of an (H, W, C) image."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Harris(Checked):
    """Colour Harris corners: the sum of the channels' structure tensors.

    A point depends only on the pixels within ``margin`` of it, and points nearer to the border are
    left out, so a window that slides over a scene by whole pixels shows exactly the same points.

    >>> image = np.zeros((64, 64, 3), np.uint8)
    >>> image[30:, 30:] = 255
    >>> Harris().detect(image).xy.tolist()
    [[31.0, 31.0]]
    """

    sigma: float = param(1.0, "scale of the derivatives, pixels", low=0.3, high=50.0)
    integration: float = param(2.0, "scale of the structure tensor, pixels", low=0.3, high=50.0)
    k: float = param(0.04, "weight of the squared trace", low=0.0, high=0.25)
    radius: int = param(
        5, "half the window in which a corner must be the maximum", low=1, high=1000
    )
    threshold: float = param(1e-6, "least cornerness, for channels in 0..1", low=0.0)

    @property
    def margin(self) -> int:
        """Distance in pixels up to which the image affects a point."""
        return _reach(self.sigma) + _reach(self.integration) + self.radius

    def detect(self, image: Image) -> InterestPoints:
        """Return the corners from top to bottom, left to right."""
        margin = self.margin
        height, width = image.shape[:2]
        if min(height, width) <= 2 * margin:
            return InterestPoints.at(np.empty((0, 2), np.float32), 0.0)
        smooth, slope = gaussian_kernels(self.sigma)
        dx = cv2.sepFilter2D(image, cv2.CV_32F, slope, smooth)
        dy = cv2.sepFilter2D(image, cv2.CV_32F, smooth, slope)
        blur, _ = gaussian_kernels(self.integration)
        xx, yy, xy = (
            cv2.sepFilter2D(_sum_channels(product), -1, blur, blur)
            for product in (dx * dx, dy * dy, dx * dy)
        )
        trace = xx + yy
        corner = xx * yy - xy * xy - np.float32(self.k) * trace * trace
        window = np.ones((2 * self.radius + 1,) * 2, np.uint8)
        is_maximum = (corner == cv2.dilate(corner, window)) & (corner > self.threshold * 255.0**4)
        inside = is_maximum[margin : height - margin, margin : width - margin]
        y, x = np.nonzero(inside)
        xy_points = np.stack([x + margin, y + margin], axis=1).astype(np.float32)
        return InterestPoints.at(xy_points, 2.0 * margin)


@functools.cache
def gaussian_kernels(sigma: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the sampled Gaussian of unit sum and its derivative of unit response to a ramp."""
    reach = _reach(sigma)
    t = np.arange(-reach, reach + 1, dtype=np.float64)
    smooth = np.exp(-(t**2) / (2 * sigma**2))
    smooth /= smooth.sum()
    slope = t * smooth
    slope /= (t * slope).sum()
    return smooth.astype(np.float32), slope.astype(np.float32)


def _reach(sigma: float) -> int:
    return int(np.ceil(3 * sigma))


def _sum_channels(array: NDArray[np.float32]) -> NDArray[np.float32]:
    if array.ndim == 2:
        return array
    return cv2.transform(array, np.ones((1, array.shape[2]), np.float32))  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sift(Checked):
    """OpenCV's difference-of-Gaussians points, with scale and orientation."""

    max_points: int = param(120, "strongest points kept; 0 keeps all", low=0, high=10**5)
    contrast: float = param(0.04, "contrast threshold", low=0.0)
    edge: float = param(10.0, "edge threshold", low=0.0)

    def detect(self, image: Image) -> InterestPoints:
        """Return the points ordered by position, then scale, then orientation."""
        return sort_keypoints(self.opencv().detect(grey(image), None))[0]

    def opencv(self) -> Any:
        """Return OpenCV's detector with these parameters."""
        return cv2.SIFT_create(  # type: ignore[attr-defined]
            nfeatures=self.max_points, contrastThreshold=self.contrast, edgeThreshold=self.edge
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Orb(Checked):
    """OpenCV's oriented FAST corners."""

    max_points: int = param(500, "strongest points kept", low=1, high=10**5)

    def detect(self, image: Image) -> InterestPoints:
        """Return the points ordered by position, then scale, then orientation."""
        if min(image.shape[:2]) < 2:  # OpenCV cannot make a pyramid of a line
            return sort_keypoints([])[0]
        detector = cv2.ORB_create(nfeatures=self.max_points)  # type: ignore[attr-defined]
        return sort_keypoints(detector.detect(grey(image), None))[0]


def grey(image: Image) -> Image:
    """Return the (H, W) grey version of an image."""
    if image.shape[2] == 1:
        return image[:, :, 0]
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)  # type: ignore[return-value]


def sort_keypoints(keypoints: Sequence[cv2.KeyPoint]) -> tuple[InterestPoints, NDArray[np.int64]]:
    """Return OpenCV's keypoints, sorted so that its threads do not matter, and their numbers."""
    rows = np.asarray([(*k.pt, k.size, k.angle, k.octave) for k in keypoints]).reshape(-1, 5)
    order = np.lexsort(rows[:, [4, 3, 2, 0, 1]].T)  # by y, x, scale, angle, octave
    x, y, scale, angle = rows[order, :4].astype(np.float32).T
    octave = rows[order, 4].astype(np.int32)
    return InterestPoints(np.column_stack([x, y]), scale.copy(), angle.copy(), octave), order


def to_keypoints(points: InterestPoints) -> list[cv2.KeyPoint]:
    """Return points as OpenCV's keypoints, each with its number as ``class_id``."""
    columns = points.xy, points.scale, np.nan_to_num(points.angle, nan=-1.0), points.octave
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [cv2.KeyPoint(x, y, s, a, 0.0, o, i) for i, ((x, y), s, a, o) in enumerate(rows)]


detectors: Registry[Detector] = Registry("detector")
detectors.register("harris", Harris)
detectors.register("sift", Sift)
detectors.register("orb", Orb)
