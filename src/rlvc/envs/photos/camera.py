"""A hand-held pinhole camera, its exposure and its noise, and its views of panoramas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Final

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvc._core.arrays import Floats
from rlvc.data.images import Image
from rlvc.envs.photos.images import read_image
from rlvc.errors import ImageError

WIDTH: Final = 640
HEIGHT: Final = 480
NOISE: Final = 4.0
"""Standard deviation of the noise on each channel of each pixel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinholeCamera:
    """The orientation of a camera in degrees; x points right, y down and z ahead.

    >>> ahead = PinholeCamera(yaw=90, pitch=0, roll=0, field=60).rotation() @ (0, 0, 1)
    >>> ahead.round(6).tolist()
    [1.0, 0.0, 0.0]
    """

    yaw: float
    """Turn to the right."""
    pitch: float
    """Turn upwards."""
    roll: float
    """Clockwise tilt, as the photographer sees it."""
    field: float
    """Horizontal field of view."""

    @classmethod
    def draw(cls, rng: np.random.Generator) -> PinholeCamera:
        """Return a random camera that is held roughly upright.

        All angles are uniform: yaw within ±15°, pitch within ±8°, roll within ±5°, field 50-80°.
        """
        yaw, pitch, roll, field = rng.uniform((-15, -8, -5, 50), (15, 8, 5, 80)).tolist()
        return cls(yaw=yaw, pitch=pitch, roll=roll, field=field)

    def rotation(self) -> Floats:
        """Return the matrix (3, 3) from directions of the camera to those of the world."""
        (sy, sp, sr), (cy, cp, cr) = (
            function(np.radians([self.yaw, self.pitch, self.roll])) for function in (np.sin, np.cos)
        )
        turn = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        lift = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
        tilt = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        return np.asarray(turn @ lift @ tilt)

    def focal_length(self, width: int = WIDTH) -> float:
        """Return the focal length in pixels of a picture that is ``width`` pixels wide."""
        return float(width / 2 / np.tan(np.radians(self.field) / 2))


def expose(image: Image, rng: np.random.Generator, light: ArrayLike = 1.0) -> Image:
    """Return a picture with another exposure and with sensor noise.

    The exponent on the brightness (its gamma) is between 0.7 and 1.4, its logarithm uniform; the
    noise is Gaussian, in whole levels, of standard deviation 4, and drawn for every channel.

    Args:
        image: Shape (height, width, 3).
        rng: Source of the exponent and of the noise.
        light: What each channel is multiplied by, after the exponent.
    """
    gamma = np.exp(rng.uniform(np.log(0.7), np.log(1.4)))
    levels = 255 * np.linspace(0, 1, 256)[:, None] ** gamma * np.broadcast_to(light, 3)
    curve = np.rint(levels).clip(0, 255).astype(np.uint8)[None]
    # A table of the quantiles is several times faster than drawing normal numbers.
    noise = _quantiles()[rng.integers(0, 2**16, image.shape, np.uint16)]
    return np.asarray(cv2.add(cv2.LUT(image, curve), noise, dtype=cv2.CV_8U), np.uint8)


@lru_cache(maxsize=1)
def _quantiles() -> NDArray[np.int16]:
    """Return 65536 equally probable values of the noise."""
    inverse = NormalDist(0, NOISE).inv_cdf
    return np.rint([inverse((i + 0.5) / 2**16) for i in range(2**16)]).astype(np.int16)


class Panoramas:
    """Equirectangular photographs, and a camera that stands in the middle of each.

    A photograph is read when its first view is drawn, and the half of it around the horizon is
    kept in memory: no view reaches further up or down.

    Args:
        files: One photograph per spot, twice as wide as high. Its middle is straight ahead (yaw
            0, the heading north), and what is to the right of it lies to the east.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = tuple(files)
        self._bands: dict[int, Image] = {}

    def draw(self, state: int, rng: np.random.Generator) -> Image:
        """Return a view, (480, 640, 3), of a state, 4 · spot + heading, from a random camera.

        Takes about 15 ms, apart from reading the photograph.
        """
        spot, heading = divmod(state, 4)
        return expose(self._project(spot, 90.0 * heading, PinholeCamera.draw(rng)), rng)

    def _project(self, spot: int, yaw: float, camera: PinholeCamera) -> Image:
        band = self._band(spot)
        n_rows, n_columns = band.shape[:2]
        focal = camera.focal_length()
        right = ((np.arange(WIDTH) + 0.5 - WIDTH / 2) / focal).astype(np.float32)
        down = ((np.arange(HEIGHT) + 0.5 - HEIGHT / 2) / focal).astype(np.float32)
        turn = camera.rotation().astype(np.float32)
        x, y, z = (row[0] * right + (row[1] * down + row[2])[:, None] for row in turn)
        longitude = np.arctan2(x, z) + np.float32(np.radians(yaw))
        latitude = np.arctan2(y, np.sqrt(x * x + z * z))
        # Half a circle is as high as the whole photograph, twice the band.
        scale = np.float32(n_columns / (2 * np.pi))
        columns = np.mod(longitude * scale + np.float32(n_columns / 2 - 0.5), np.float32(n_columns))
        rows = latitude * np.float32(2 * n_rows / np.pi) + np.float32(n_rows / 2 - 0.5)
        view = cv2.remap(band, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
        return np.asarray(view, np.uint8)

    def _band(self, spot: int) -> Image:
        if spot not in self._bands:
            file = self._files[spot]
            photograph = read_image(file)
            height, width = photograph.shape[:2]
            if width != 2 * height or height % 4:
                raise ImageError(
                    f"Picture {file} must be an equirectangular panorama, twice as wide as high, "
                    f"with a height that is a multiple of 4; got {width}×{height}."
                )
            self._bands[spot] = photograph[height // 4 : -height // 4].copy()
        return self._bands[spot]
