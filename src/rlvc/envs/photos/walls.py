"""Walls: bricks, windows, doors, ledges and framed pictures, painted onto an array.

Lengths are in metres; x and y are counted from the lower left corner of a wall, y upward.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import cv2
import numpy as np

from rlvc.data.images import Image
from rlvc.envs.photos.images import scale_to

Color = tuple[int, int, int]
Box = tuple[slice, slice]  # rows and columns

SCALE: Final = 64
"""Pixels per metre."""
PLINTH: Final = 0.4
"""Height of the foot of a wall."""

RED: Final[Color] = (164, 96, 76)
SAND: Final[Color] = (198, 174, 138)
GREY: Final[Color] = (140, 142, 148)
CLAY: Final[Color] = (112, 74, 62)
STONE: Final[Color] = (202, 196, 184)
GRANITE: Final[Color] = (120, 116, 110)
WHITE: Final[Color] = (236, 234, 228)
DARK: Final[Color] = (50, 54, 60)
GREEN: Final[Color] = (44, 84, 78)
GLASS: Final[Color] = (150, 180, 196)
_TOP_OF_GLASS, _FOOT_OF_GLASS = (158, 190, 214), (58, 74, 90)


def brick_wall(width: float, height: float, color: Color, rng: np.random.Generator) -> Image:
    """Return a wall of bricks, each in a random shade.

    >>> brick_wall(3, 2, RED, np.random.default_rng(0)).shape
    (128, 192, 3)
    """
    tall, wide = 6, 18  # pixels, with a joint of one
    n_rows, n_columns = round(height * SCALE), round(width * SCALE)
    shades = rng.normal(1, 0.07, (n_rows // tall + 1, n_columns // wide + 2))
    y, x = np.mgrid[:n_rows, :n_columns]
    x += wide // 2 * (y // tall % 2)
    shade = shades[y // tall, x // wide]
    shade[(y % tall == 0) | (x % wide == 0)] = 1.22
    return np.asarray(np.clip(shade[..., None] * color, 0, 255), np.uint8)


def tiled_roof(width: float, height: float, rng: np.random.Generator) -> Image:
    """Return a roof of clay tiles, dark at the lower edge of each row."""
    roof = brick_wall(width, height, CLAY, rng)
    edges = np.arange(len(roof)) % 18 >= 15
    roof[edges] = (0.6 * roof[edges]).astype(np.uint8)
    return roof


def tinted(image: Image, color: Color, contrast: float) -> Image:
    """Return an image in shades of one color."""
    gray = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.float64)
    shade = 1 + contrast * (gray - gray.mean()) / 128
    return np.asarray(np.clip(shade[..., None] * color, 0, 255), np.uint8)


def add_window(wall: Image, x: float, y: float, width: float, height: float) -> None:
    """Put a window of four panes, with a lintel and a sill, around a point of a wall."""
    left, right, top, bottom = x - width / 2, x + width / 2, y + height / 2, y - height / 2
    _fill(wall, left - 0.12, right + 0.12, top, top + 0.22, STONE)
    _fill(wall, left - 0.06, right + 0.06, bottom, top, WHITE)
    _fill(wall, left - 0.15, right + 0.15, bottom - 0.12, bottom, STONE)
    glass = np.linspace(_TOP_OF_GLASS, _FOOT_OF_GLASS, round(height * SCALE))[:, None]
    wide, high = width / 2 - 0.08, height / 2 - 0.08
    for start, foot in product((left + 0.04, x + 0.04), (bottom + 0.04, y + 0.04)):
        rows, columns = _slices(wall, start, start + wide, foot, foot + high)
        first = rows.start - (len(wall) - round(top * SCALE))
        wall[rows, columns] = glass[first : first + rows.stop - rows.start]


def add_door(wall: Image, x: float) -> None:
    """Put a door of two wings under a canopy at the foot of a wall."""
    _fill(wall, x - 0.95, x + 0.95, 0, 2.75, STONE)
    _fill(wall, x - 0.8, x + 0.8, 0, 2.6, GREEN)
    for middle in (x - 0.4, x + 0.4):
        _fill(wall, middle - 0.27, middle + 0.27, 1.1, 2.4, GLASS)
        _fill(wall, middle - 0.27, middle + 0.27, 0.25, 0.9, DARK)
    _fill(wall, x - 0.02, x + 0.02, 0, 2.6, DARK)
    _fill(wall, x - 1.2, x + 1.2, 2.75, 2.95, DARK)


def hang(wall: Image, picture: Image, x: float, y: float, side: float) -> None:
    """Hang a square picture, in a white frame that casts a shadow, around a point of a wall."""
    left, right, top, bottom = x - side / 2, x + side / 2, y + side / 2, y - side / 2
    _fill(wall, left + 0.04, right + 0.1, bottom - 0.1, top - 0.06, DARK)
    _fill(wall, left, right, bottom, top, WHITE)
    frame = 0.08
    rows, columns = _slices(wall, left + frame, right - frame, bottom + frame, top - frame)
    wall[rows, columns] = scale_to(picture, columns.stop - columns.start, rows.stop - rows.start)


def add_ledges(wall: Image) -> None:
    """Put a foot under a wall and a ledge on top of it."""
    n_rows, n_columns = wall.shape[:2]
    width, height = n_columns / SCALE, n_rows / SCALE
    _fill(wall, 0, width, 0, PLINTH, GRANITE)
    _fill(wall, 0, width, height - 0.15, height, STONE)


def _slices(wall: Image, left: float, right: float, bottom: float, top: float) -> Box:
    """Return the rows and columns of a box that lies in the wall."""
    rows = slice(len(wall) - round(top * SCALE), len(wall) - round(bottom * SCALE))
    return rows, slice(round(left * SCALE), round(right * SCALE))


def _fill(wall: Image, left: float, right: float, bottom: float, top: float, color: Color) -> None:
    wall[_slices(wall, left, right, bottom, top)] = color
