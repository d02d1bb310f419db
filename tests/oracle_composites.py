"""A slow and literal transcription of the paper's Algorithm 5: where composite features occur.

Lists, loops and plain numbers only, so that it can be read beside the paper. Two things are more
than the paper has: the constraints on angles and scales of which it speaks, and features that are
looked for in one cell of the frame. The likelihood is in proportion to that of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from rlvc.features import Composite, Feature, Located, Primitive
from tests.oracle import TooCloseError

CLOSE = 1e-9


class TooManyError(Exception):
    """There are more occurrences than loops as slow as these should look at."""


@dataclass(frozen=True)
class Point:
    """An interest point of an image, or an occurrence."""

    x: float
    y: float
    scale: float
    angle: float  # NaN where there is none

    @property
    def at(self) -> tuple[float, float]:
        return self.x, self.y


@dataclass(frozen=True)
class View:
    """The image of one camera: its size and its interest points, each with its symbol."""

    width: int
    height: int
    points: list[tuple[int, Point]] = field(default_factory=list)


Percept = dict[str, View]


def occurrences(V: Sequence[Feature], v: int, s: Percept, most: int = 300) -> list[Point]:
    """Where feature number v of the graph occurs, in the order in which it is found."""
    feature = V[v]
    if isinstance(feature, Primitive):
        view = s[feature.camera]
        return [point for symbol, point in view.points if symbol == feature.symbol]
    if isinstance(feature, Located):
        view = s[camera(V, v)]
        return [o for o in occurrences(V, feature.part, s, most) if is_inside(o, feature, view)]
    O: dict[tuple[float, float], Point] = {}  # noqa: E741 - as the paper calls it
    O_1 = occurrences(V, feature.first, s, most)
    O_2 = occurrences(V, feature.second, s, most)
    for one in O_1:
        for other in O_2:
            if is_likely(one, other, feature):
                middle = between(one, other)
                O.setdefault(middle.at, middle)
        if len(O) > most:
            raise TooManyError
    return list(O.values())


def camera(V: Sequence[Feature], v: int) -> str:
    feature = V[v]
    return feature.camera if isinstance(feature, Primitive) else camera(V, feature.parts[0])


def is_inside(point: Point, feature: Located, view: View) -> bool:
    """Tell whether a point is in a cell; what lies outside the frame is in the nearest one."""
    n = 2**feature.level
    column = math.floor(Fraction(point.x) * n / view.width)
    line = math.floor(Fraction(point.y) * n / view.height)
    column, line = min(max(column, 0), n - 1), min(max(line, 0), n - 1)
    return (column, line) == (feature.column, feature.line)


def is_likely(one: Point, other: Point, v: Composite) -> bool:
    """Compare a product of Gaussians, each of which is 1 at its mean, with ν."""
    d = math.sqrt((other.x - one.x) ** 2 + (other.y - one.y) ** 2)
    likelihood = gaussian(d - v.mean, v.deviation)
    if v.turn is not None and v.turn_deviation is not None:
        likelihood *= gaussian(smallest(other.angle - one.angle - v.turn), v.turn_deviation)
    if v.ratio is not None and v.ratio_deviation is not None:
        likelihood *= gaussian(octaves(one.scale, other.scale) - v.ratio, v.ratio_deviation)
    if abs(likelihood - v.likelihood) <= CLOSE:
        raise TooCloseError
    return likelihood >= v.likelihood  # not so where an angle is missing


def gaussian(difference: float, sigma: float) -> float:
    return math.exp(-((difference / sigma) ** 2) / 2)


def octaves(one: float, other: float) -> float:
    """How often one scale must be doubled to give the other; 0 where there is none."""
    return math.log2(other) - math.log2(one) if one > 0.0 and other > 0.0 else 0.0


def smallest(angle: float) -> float:
    """The angle of the smallest size among those that are whole turns apart, degrees."""
    if math.isnan(angle):
        return angle
    found = min((angle % 360.0, angle % 360.0 - 360.0), key=abs)
    if abs(abs(found) - 180.0) <= CLOSE:
        raise TooCloseError  # as far on one side as on the other
    return found


def between(one: Point, other: Point) -> Point:
    """The midpoint, with the mean angle and, in octaves, the mean scale."""
    angle = one.angle + smallest(other.angle - one.angle) / 2
    scale = math.sqrt(one.scale * other.scale)
    return Point((one.x + other.x) / 2, (one.y + other.y) / 2, scale, angle)
