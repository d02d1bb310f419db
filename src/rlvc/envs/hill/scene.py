"""The images of the car on the hill: the ground underneath, and a gauge of its velocity.

Both are drawn at whole pixels, so there are no more than 1025 images of the ground and 361 of the
gauge. The cursor of the gauge looks the same everywhere, and is so far from the digits and from the
border that a small neighbourhood of a point never shows parts of two of them: the velocity can be
inferred from the distance between the cursor and a digit, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from rlvc._core.arrays import Floats, Ints, frozen
from rlvc.data.images import Image
from rlvc.envs.hill.dynamics import FIRST, HILL, TOP
from rlvc.envs.picture import Color
from rlvc.envs.planar_world import Point


def _arc(middle: Point, radii: Point, start: int, stop: int) -> tuple[Point, ...]:
    """Return points of an ellipse from one angle to another, in degrees, clockwise from east."""
    turns = np.radians(np.arange(start, stop + 1, 15))
    x, y = middle[0] + radii[0] * np.cos(turns), middle[1] + radii[1] * np.sin(turns)
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


STRIP: Final = (1280, 128)  # pixels: width and height of the ground
WINDOW: Final = 256  # pixels: the width of the part that is perceived
GAUGE: Final = (450, 100)  # pixels: width and height
LAST_GROUND: Final = STRIP[0] - WINDOW
PER_UNIT: Final = 60  # pixels of the gauge from one digit to the next
LAST_GAUGE: Final = round(2 * HILL.max_speed) * PER_UNIT
LEFT: Final = (GAUGE[0] - LAST_GAUGE) // 2  # the place of the first digit, in pixels

PANEL: Final[Color] = (34, 38, 44)
BEZEL: Final[tuple[Color, ...]] = ((84, 92, 102), (130, 138, 148), (62, 68, 76))
CURSOR: Final[Color] = (255, 214, 10)
DIGITS: Final[tuple[Color, ...]] = (
    (84, 140, 255),
    (96, 190, 255),
    (128, 232, 232),
    (246, 246, 246),
    (255, 204, 140),
    (255, 150, 90),
    (255, 92, 84),
)
"""The colours from -3 to 3: cold to the left, warm to the right."""
PEN: Final = 3.2  # pixels: how broad the strokes of the digits are
MINUS: Final = ((-16.0, 10.0), (-12.0, 10.0))
STROKES: Final[tuple[tuple[Point, ...], ...]] = (
    _arc((0.0, 10.0), (5.0, 8.5), 0, 360),
    ((-4.0, 6.0), (1.0, 1.5), (1.0, 18.5)),
    (*_arc((0.0, 6.5), (5.0, 5.0), 180, 390), (-5.0, 18.5), (5.5, 18.5)),
    (*_arc((-0.5, 6.0), (4.5, 4.5), 210, 435), *_arc((-0.5, 14.0), (5.0, 4.5), 285, 510)),
)
"""The lines of the digits from 0 to 3, in pixels to the right of their middle and below their top.

They are drawn here because the letters of OpenCV differ from one version to the next.
"""
DIGIT_TOP: Final = 20  # the row of the top of the digits
POINTER: Final[tuple[Point, ...]] = ((0, 0), (11, 11), (11, 23), (-11, 23), (-11, 11))
"""The corners of the cursor, clockwise, in pixels to the right of its tip and below."""
TIP: Final = 60  # the row of the tip


def ground_column(positions: ArrayLike) -> Ints:
    """Return the first column of the window for each position, from 0 to 1024.

    Positions beyond either end of the hill get the column of that end.

    >>> ground_column([-1.0, 0.1, 1.0, 1.2]).tolist()
    [0, 563, 1024, 1024]
    """
    p = np.clip(np.asarray(positions, dtype=np.float64), FIRST, TOP)
    return _round((p - FIRST) / (TOP - FIRST) * LAST_GROUND)


def gauge_column(velocities: ArrayLike) -> Ints:
    """Return the distance of the cursor from the digit -3 for each velocity, from 0 to 360.

    The cursor does not move beyond the last digit on either side.

    >>> gauge_column([-3.0, 0.5, 1.5, 3.2]).tolist()
    [0, 210, 270, 360]
    """
    limit = HILL.max_speed
    s = np.clip(np.asarray(velocities, dtype=np.float64), -limit, limit)
    return _round((s + limit) * PER_UNIT)


def ground_image(strip: Image, column: int) -> Image:
    """Return the window of a (128, 1280, 3) strip, shape (128, 256, 3), as a new array.

    >>> ground_image(np.zeros((128, 1280, 3), np.uint8), 1024).shape
    (128, 256, 3)
    """
    return strip[:, column : column + WINDOW].copy()


def gauge_image(column: int) -> Image:
    """Return the gauge, shape (100, 450, 3), with the cursor ``column`` pixels from the digit -3.

    >>> gauge_image(0).shape
    (100, 450, 3)
    """
    image = gauge_face().copy()
    cursor = _cursor()
    top, left = TIP - 1, LEFT + column - len(cursor) // 2
    image[top : top + len(cursor), left : left + len(cursor)] = cursor
    return image


@cache
def gauge_face() -> Image:
    """Return the gauge without its cursor; it is read-only.

    >>> (gauge_image(0) != gauge_face()).any(axis=2).sum() < 600
    np.True_
    """
    width, height = GAUGE
    face = np.empty((height, width, 3), np.uint8)
    for line, color in enumerate((*BEZEL, PANEL)):
        face[line : height - line, line : width - line] = color
    y, x = np.mgrid[:height, :width].astype(np.float64)
    for number, color in enumerate(DIGITS):
        digit = number - len(DIGITS) // 2
        middle = LEFT + number * PER_UNIT + (6 if digit < 0 else 0)
        ink = _stroke(STROKES[abs(digit)], x - middle, y - DIGIT_TOP)
        if digit < 0:
            ink = np.maximum(ink, _stroke(MINUS, x - middle, y - DIGIT_TOP))
        face = _paint(face, ink, color)
    return frozen(face)


@cache
def _cursor() -> Image:
    """Return the square around the cursor; one row of the panel is above its tip."""
    side = 2 * 14 + 1
    y, x = np.mgrid[:side, :side].astype(np.float64)
    x, y = x - side // 2, y - 1
    inside = np.full((side, side), np.inf)
    for (x0, y0), (x1, y1) in zip(POINTER, POINTER[1:] + POINTER[:1], strict=True):
        far = ((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) / np.hypot(x1 - x0, y1 - y0)
        inside = np.minimum(inside, far)
    return _paint(np.full((side, side, 3), PANEL, np.uint8), np.clip(inside + 0.5, 0, 1), CURSOR)


def _stroke(points: Sequence[Point], x: Floats, y: Floats) -> Floats:
    """Return the share of each pixel that a stroke along the points covers."""
    nearest = np.full(x.shape, np.inf)
    for (x0, y0), (x1, y1) in pairwise(points):
        dx, dy = x1 - x0, y1 - y0
        along = np.clip(((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy), 0, 1)
        nearest = np.minimum(nearest, np.hypot(x - x0 - along * dx, y - y0 - along * dy))
    return np.clip(PEN / 2 + 0.5 - nearest, 0, 1)


def _paint(image: Image, ink: Floats, color: Color) -> Image:
    mixed = image + ink[:, :, None] * (np.array(color, np.float64) - image)
    return np.asarray(np.rint(mixed), np.uint8)


def _round(numbers: Floats) -> Ints:
    return np.asarray(np.floor(numbers + 0.5), np.int64)
