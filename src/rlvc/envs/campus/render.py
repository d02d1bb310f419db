"""A drawing of the campus: the map with the agent on it, beside what the agent perceives."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc.data.images import Image
from rlvc.envs.campus.graph_world import AHEAD, CAMPUS, HEADINGS
from rlvc.envs.photos.images import scale_to
from rlvc.envs.picture import AMBER, DARK, WHITE, Color
from rlvc.envs.planar_world import Point

SIZE: Final = 480  # pixels: height of the drawing, and width and height of the map
FINER: Final = 2  # the map is drawn this many times larger, then shrunk, for smooth edges
LAWN: Final[Color] = (203, 219, 186)
SHADE: Final[Color] = (171, 191, 152)
WAY: Final[Color] = (244, 239, 226)
KERB: Final[Color] = (186, 178, 160)
BRICK: Final[Color] = (164, 96, 76)
ROOF: Final[Color] = (112, 74, 62)
BLANK: Final[Color] = (230, 230, 228)
FONT: Final = cv2.FONT_HERSHEY_DUPLEX
COMPASS: Final = ("north", "east", "south", "west")


def draw_campus(state: int | None, percept: Image | None) -> Image:
    """Return the map, 480×480, and on the right the percept, scaled to the same height.

    Args:
        state: Where the agent is; without one it is not drawn.
        percept: What it perceives; without one its place stays blank.

    >>> draw_campus(41, np.zeros((120, 160, 3), np.uint8)).shape
    (480, 1120, 3)
    """
    chart = _Map()
    chart.draw_ways()
    chart.draw_building()
    chart.draw_spots()
    if state is not None:
        chart.draw_agent(state)
    if percept is None:
        view = np.full((SIZE, SIZE * 4 // 3, 3), BLANK, np.uint8)
    else:
        view = scale_to(percept, max(1, round(percept.shape[1] * SIZE / len(percept))), SIZE)
    return np.concatenate([scale_to(chart.canvas, SIZE, SIZE), view], axis=1)


class _Map:
    """A canvas on which places are (x east, y north) and lengths are in steps."""

    def __init__(self) -> None:
        side = SIZE * FINER
        self.canvas = np.full((side, side, 3), LAWN, np.uint8)
        x, y = zip(*CAMPUS.places, self._at_goal(1, 0), strict=True)
        self.middle = (min(x) + max(x)) / 2, (min(y) + max(y)) / 2
        self.step: float = side / (max(max(x) - min(x), max(y) - min(y)) + 0.8)

    def draw_ways(self) -> None:
        places = CAMPUS.places
        ways: list[tuple[Point, Point]] = [(places[a], places[b]) for a, b in CAMPUS.links]
        ways.append((self._at_goal(0, 0), self._at_goal(0.6, 0)))
        for color, width in ((KERB, 0.21), (WAY, 0.17)):
            for start, end in ways:
                self._line(start, end, color, width)

    def draw_building(self) -> None:
        corners = [(0.5, -0.42), (0.5, 0.42), (1.0, 0.42), (1.0, -0.42)]
        outline = self._pixels([self._at_goal(*corner) for corner in corners])
        cv2.fillPoly(self.canvas, [outline + self._length(0.035)], SHADE)
        cv2.fillPoly(self.canvas, [outline], BRICK)
        cv2.polylines(self.canvas, [outline], True, ROOF, self._length(0.03))
        self._line(self._at_goal(0.5, -0.14), self._at_goal(0.5, 0.14), AMBER, 0.07)
        self._write("goal", self._at_goal(0.75, 0), 0.13, WHITE)

    def draw_spots(self) -> None:
        for number, place in enumerate(CAMPUS.places):
            for color, radius in ((KERB, 0.22), (WHITE, 0.2)):
                (centre,) = self._pixels([place]).tolist()
                cv2.circle(self.canvas, centre, self._length(radius), color, -1, cv2.LINE_AA)
            self._write(str(number), place, 0.15, DARK)
        east, north = (middle + SIZE * FINER / self.step / 2 for middle in self.middle)
        foot, tip = self._pixels([(east - 0.3, north - 0.8), (east - 0.3, north - 0.45)]).tolist()
        width = self._length(0.025)
        cv2.arrowedLine(self.canvas, foot, tip, DARK, width, cv2.LINE_AA, tipLength=0.35)
        self._write("N", (east - 0.3, north - 0.3), 0.15, DARK)

    def draw_agent(self, state: int) -> None:
        spot, heading = pose = divmod(state, len(HEADINGS))
        shape = [(0.34, 0.0), (-0.24, 0.22), (-0.13, 0.0), (-0.24, -0.22)]
        for color, size in ((DARK, 1.0), (WHITE, 0.86), (AMBER, 0.66)):
            arrow = [self._relative(pose, size * ahead, size * aside) for ahead, aside in shape]
            cv2.fillPoly(self.canvas, [self._pixels(arrow)], color, cv2.LINE_AA)
        below = self.middle[0], self.middle[1] - SIZE * FINER / self.step / 2 + 0.35
        self._write(f"at spot {spot}, facing {COMPASS[heading]}", below, 0.15, DARK)

    def _at_goal(self, ahead: float, aside: float) -> Point:
        return self._relative(CAMPUS.goal, ahead, aside)

    def _relative(self, pose: tuple[int, int], ahead: float, aside: float) -> Point:
        """Return the place ahead and aside of an agent at a spot, with a heading."""
        (x, y), (east, north) = CAMPUS.places[pose[0]], AHEAD[pose[1]]
        return x + ahead * east - aside * north, y + ahead * north + aside * east

    def _pixels(self, places: list[Point]) -> NDArray[np.int32]:
        shifts = (np.array(places) - self.middle) * (self.step, -self.step)
        return np.asarray(np.rint(shifts + SIZE * FINER / 2), np.int32)

    def _length(self, steps: float) -> int:
        return max(1, round(steps * self.step))

    def _line(self, start: Point, end: Point, color: Color, width: float) -> None:
        a, b = self._pixels([start, end]).tolist()
        cv2.line(self.canvas, a, b, color, self._length(width), cv2.LINE_AA)

    def _write(self, words: str, place: Point, height: float, color: Color) -> None:
        """Write words around a place, in letters of a height."""
        size = self._length(height) / cv2.getTextSize("0", FONT, 1, 1)[0][1]
        pen = max(1, round(1.6 * size))
        (width, above), _ = cv2.getTextSize(words, FONT, size, pen)
        ((x, y),) = self._pixels([place]).tolist()
        start = x - width // 2, y + above // 2
        cv2.putText(self.canvas, words, start, FONT, size, color, pen, cv2.LINE_AA)
