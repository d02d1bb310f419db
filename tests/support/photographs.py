"""Write photographs to files."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from rlvc.envs.photos.views import state_name


def write_picture(path: Path, image: object) -> Path:
    """Write an RGB image, and the folder around it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.asarray(image, np.uint8)[..., ::-1])
    return path


def write_color(path: Path, color: tuple[int, int, int], size: tuple[int, int] = (64, 64)) -> Path:
    """Write an image of one RGB color; the size is its height and width."""
    return write_picture(path, np.full((*size, 3), color))


def write_views(root: Path, n_views: int = 4) -> Path:
    """Write the views of all states of the campus, each of one color of its own."""
    for state in range(44):
        for view in range(n_views):
            write_color(root / state_name(state) / f"{view:02}.png", (state, view, 0), (12, 16))
    return root
