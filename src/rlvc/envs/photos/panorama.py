"""Views cut from panoramic photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from rlvc.data.images import Image
from rlvc.envs.photos.camera import HEIGHT, WIDTH, PinholeCamera, expose
from rlvc.envs.photos.images import read_image
from rlvc.errors import ImageError


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
                    f"Picture {file} must show a place all around, twice as wide as high, with a "
                    f"height that is a multiple of 4; got {width}×{height}. "
                    "Give an equirectangular photograph."
                )
            self._bands[spot] = photograph[height // 4 : -height // 4].copy()
        return self._bands[spot]
