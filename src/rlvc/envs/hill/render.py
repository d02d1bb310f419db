"""A drawing of the car on the hill, above what its two cameras show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Floats, frozen
from rlvc.data.images import Image
from rlvc.envs.hill.dynamics import FIRST, HILL, TOP
from rlvc.envs.hill.scene import (
    GAUGE,
    PANEL,
    STRIP,
    WINDOW,
    gauge_column,
    gauge_face,
    gauge_image,
    ground_column,
)
from rlvc.envs.photos.images import scale_to
from rlvc.envs.picture import AMBER, DARK, WHITE, Color
from rlvc.envs.planar_world import Point

HEIGHT: Final = 720  # pixels of the drawing; it is as wide as the strip
SKYLINE: Final = 448  # the row at which the strip begins
VALLEY: Final = 422  # the row of the lowest place of the hill
PER_UNIT: Final = (STRIP[0] - WINDOW) / (TOP - FIRST)  # so the car is above its window
FINER: Final = 2  # the hill is drawn this many times larger, then shrunk, for smooth edges
BEYOND: Final = 0.22  # how far beyond either end a car is still drawn
SKY: Final[tuple[Color, Color]] = ((122, 176, 224), (232, 240, 244))
EARTH: Final[Color] = (104, 84, 66)
GRASS: Final[Color] = (104, 150, 76)
ABYSS: Final[Color] = (196, 60, 52)
BODY: Final[Color] = (208, 44, 48)
GLASS: Final[Color] = (190, 226, 244)
RUBBER: Final[Color] = (30, 32, 36)
STEEL: Final[Color] = (190, 194, 200)
FADED: Final[Color] = (150, 158, 168)
FONT: Final = cv2.FONT_HERSHEY_DUPLEX


def draw_hill(strip: Image, state: Floats | None) -> Image:
    """Return the hill, the strip of the ground and the gauge, one below the other.

    Args:
        strip: Shape (128, 1280, 3), the ground.
        state: Position and velocity of the car; without one, neither is shown.

    >>> draw_hill(np.zeros((128, 1280, 3), np.uint8), np.array([0.1, 0.5])).shape
    (720, 1280, 3)
    """
    scene = np.full((HEIGHT, STRIP[0], 3), PANEL, np.uint8)
    canvas = _landscape().copy()
    if state is not None:
        _draw_car(canvas, float(np.clip(state[0], FIRST - BEYOND, TOP + BEYOND)))
    scene[:SKYLINE] = scale_to(canvas, STRIP[0], SKYLINE)
    scene[SKYLINE:][: STRIP[1]] = strip
    gauge = gauge_face() if state is None else gauge_image(int(gauge_column(state[1])))
    below = SKYLINE + STRIP[1]
    x, y = (STRIP[0] - GAUGE[0]) // 2, (below + HEIGHT - GAUGE[1]) // 2
    scene[y : y + GAUGE[1], x : x + GAUGE[0]] = gauge
    middles = {"position": x // 2, "velocity": STRIP[0] - x // 2}
    for number, (word, middle) in enumerate(middles.items()):
        _write(scene, word, (middle, y + 34), 0.7, FADED)
        if state is not None:
            _write(scene, f"{state[number]:+.2f}", (middle, y + 74), 1.0, WHITE)
    if state is not None:
        left = int(ground_column(state[0]))
        for color, width in ((DARK, 7), (AMBER, 3)):
            corners = (left + 4, SKYLINE + 4), (left + WINDOW - 5, below - 5)
            cv2.rectangle(scene, *corners, color, width)
    return scene


@cache
def _landscape() -> Image:
    """Return the sky, the hill, its forbidden end and the flag at its top, drawn larger."""
    rows = np.linspace(0, 1, SKYLINE * FINER)[:, None, None]
    light = (1 - rows) * SKY[0] + rows * SKY[1]
    canvas = np.repeat(light, STRIP[0] * FINER, axis=1).astype(np.uint8)
    places = np.linspace(FIRST - 0.25, TOP + 0.25, 641)
    floor = [(places[-1], -1.0), (places[0], -1.0)]
    cv2.fillPoly(canvas, [_pixels([*_along(places), *floor])], EARTH)
    for part, color in ((places, GRASS), (places[places <= FIRST], ABYSS)):
        edge = _along(part)
        turf = [*edge, *((x, y - 0.035) for x, y in reversed(edge))]
        cv2.fillPoly(canvas, [_pixels(turf)], color)
    _draw_post(canvas)
    _draw_flag(canvas)
    return frozen(canvas)


def _draw_post(canvas: Image) -> None:
    """Draw a striped post at the end that the car must not pass."""
    y = float(HILL.height(FIRST))
    for stripe in range(6):
        low, high = y + 0.02 * stripe, y + 0.02 * (stripe + 1)
        box = [(FIRST - 0.012, low), (FIRST, low), (FIRST, high), (FIRST - 0.012, high)]
        cv2.fillPoly(canvas, [_pixels(box)], WHITE if stripe % 2 else ABYSS, cv2.LINE_AA)


def _draw_flag(canvas: Image) -> None:
    y = float(HILL.height(TOP))
    pole = [(TOP, y), (TOP + 0.008, y), (TOP + 0.008, y + 0.14), (TOP, y + 0.14)]
    cv2.fillPoly(canvas, [_pixels(pole)], DARK, cv2.LINE_AA)
    size = 0.02
    for row, column in product(range(3), range(5)):
        x, top = TOP + 0.008 + size * column, y + 0.14 - size * row
        square = [(x, top), (x + size, top), (x + size, top - size), (x, top - size)]
        cv2.fillPoly(canvas, [_pixels(square)], DARK if (row + column) % 2 else WHITE)


def _draw_car(canvas: Image, p: float) -> None:
    """Draw the car on the hill, tilted by the slope."""
    angle = np.arctan(float(HILL.slope(p)))
    ahead, up = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    foot = np.array(_along(np.array([p]))[0])

    def placed(points: Sequence[Point]) -> NDArray[np.int32]:
        return _pixels([tuple(foot + x * ahead + y * up) for x, y in points])

    radius = 0.017
    body = [
        (-0.068, 0.016), (-0.07, 0.038), (-0.05, 0.044), (-0.034, 0.07), (0.012, 0.07),
        (0.036, 0.046), (0.064, 0.04), (0.07, 0.03), (0.068, 0.016),
    ]  # fmt: skip
    windows = [
        [(-0.04, 0.046), (-0.029, 0.064), (-0.013, 0.064), (-0.013, 0.046)],
        [(-0.007, 0.046), (-0.007, 0.064), (0.009, 0.064), (0.026, 0.046)],
    ]
    cv2.fillPoly(canvas, [placed(body)], BODY, cv2.LINE_AA)
    cv2.polylines(canvas, [placed(body)], True, DARK, 2, cv2.LINE_AA)
    for window in windows:
        cv2.fillPoly(canvas, [placed(window)], GLASS, cv2.LINE_AA)
    for centre in placed([(-0.042, radius), (0.042, radius)]).tolist():
        for color, share in ((RUBBER, 1.0), (STEEL, 0.5), (RUBBER, 0.16)):
            size = round(share * radius * PER_UNIT * FINER)
            cv2.circle(canvas, centre, size, color, -1, cv2.LINE_AA)


def _along(places: Floats) -> list[Point]:
    return list(zip(places.tolist(), HILL.height(places).tolist(), strict=True))


def _pixels(points: Sequence[Point]) -> NDArray[np.int32]:
    """Return places (p, height) as (n, 2) pixels of the larger drawing."""
    x, y = np.array(points, dtype=np.float64).T
    column = WINDOW / 2 + (x - FIRST) * PER_UNIT
    row = VALLEY - (y + 0.25) * PER_UNIT
    return np.asarray(np.rint(np.stack([column, row], axis=1) * FINER), np.int32)


def _write(scene: Image, words: str, middle: tuple[int, int], size: float, color: Color) -> None:
    (width, _), _ = cv2.getTextSize(words, FONT, size, 1)
    start = middle[0] - width // 2, middle[1]
    cv2.putText(scene, words, start, FONT, size, color, 1, cv2.LINE_AA)
