"""The kinds of visual features, and the geometry of their occurrences.

A *primitive* feature is a symbol. A *composite* has two parts, features themselves, at a typical
distance; it occurs at the midpoints of those pairs of occurrences whose distance is likely enough:
the paper's Algorithm 5. An *in-cell* feature is one in a part of the frame. An *at-least* feature
tolerates that some of the features that it counts are missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit

HIGHEST = 16  # height of a feature: its description may double in length with every part
MOST = 1000  # occurrences of a composite on one image; further ones are dropped

Row = NDArray[np.float64]
Marks = NDArray[np.float64]  # (n, 4) occurrences: x, y, scale, angle (NaN where there is none)


@dataclass(frozen=True, slots=True)
class Primitive:
    """A single symbol of one camera's vocabulary.

    Attributes:
        camera: The camera; empty where percepts are single images.
        symbol: The number of the symbol in the camera's vocabulary.
    """

    camera: str
    symbol: int

    @property
    def parts(self) -> tuple[int, ...]:
        """A primitive feature has no parts."""
        return ()

    def __str__(self) -> str:
        where = f" of {self.camera}" if self.camera else ""
        return f"symbol {self.symbol}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """Two features at a typical distance, and perhaps at a typical angle and ratio of scales.

    An occurrence is *likely* when its likelihood, in proportion to that of the most likely one, is
    at least ν. For the distance d alone this reads exp(−((d − μ)/σ)²/2) ≥ ν.

    Attributes:
        first: The number of one part.
        second: The number of the other.
        mean: μ, pixels.
        deviation: σ, pixels.
        likelihood: ν, between 0 and 1.
        turn: Mean of the angle from the first part's orientation to the second's, degrees; None if
            any angle is accepted.
        turn_deviation: Its circular standard deviation, degrees.
        ratio: Mean of the binary logarithm of the second part's scale over the first's; None if any
            ratio is accepted.
        ratio_deviation: Its standard deviation.
    """

    first: int
    second: int
    mean: float
    deviation: float
    likelihood: float
    turn: float | None = None
    turn_deviation: float | None = None
    ratio: float | None = None
    ratio_deviation: float | None = None

    @property
    def parts(self) -> tuple[int, ...]:
        """The numbers of the two parts."""
        return self.first, self.second

    @property
    def reach(self) -> float:
        """How far from the mean a distance may be, pixels."""
        return self.deviation * math.sqrt(-2.0 * math.log(self.likelihood))

    def row(self) -> Row:
        """Return the parameters for the compiled code; see :func:`is_likely`."""
        numbers = [-2.0 * math.log(self.likelihood), self.mean, 1.0 / self.deviation]
        for mean, deviation in (
            (self.turn, self.turn_deviation),
            (self.ratio, self.ratio_deviation),
        ):
            numbers += [0.0, 0.0] if mean is None or deviation is None else [mean, 1.0 / deviation]
        return np.asarray(numbers, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class InCell:
    """A feature in one cell of a grid over the frame.

    Attributes:
        part: The number of the feature.
        level: The grid has 2^level columns and as many rows.
        column: Column of the cell, from the left.
        line: Row of the cell, from the top.
    """

    part: int
    level: int
    column: int
    line: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The number of the one part."""
        return (self.part,)

    def is_inside(self, marks: Marks, size: tuple[int, int]) -> NDArray[np.bool_]:
        """Tell which occurrences lie in the cell, on an image of a (width, height)."""
        cell = cells_of(marks[:, :2], size, self.level)
        return np.asarray((cell == (self.column, self.line)).all(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """At least so many of several features of one camera.

    It occurs where its parts occur, if enough of them do.

    Attributes:
        parts: The numbers of the features; the others are surrogates of the first.
        least: How many of them must occur.
    """

    parts: tuple[int, ...]
    least: int


Feature = Primitive | Composite | InCell | AtLeast


def marks(xy: NDArray[np.float32], scale: NDArray[np.float32], angle: NDArray[np.float32]) -> Marks:
    """Return occurrences from the positions, scales and angles of points."""
    return np.column_stack([xy, scale, angle]).astype(np.float64)


def cells_of(xy: NDArray[np.float64], size: tuple[int, int], level: int) -> NDArray[np.int64]:
    """Return the (n, 2) column and line of positions on a grid of 2^level cells a side."""
    cells = np.floor(xy / size * 2**level).astype(np.int64)
    return np.asarray(np.clip(cells, 0, 2**level - 1))


@jit
def relate(first: Marks, i: int, second: Marks, j: int) -> tuple[float, float, float]:
    """Return the distance, the angle and the log ratio of scales between two occurrences."""
    dx, dy = second[j, 0] - first[i, 0], second[j, 1] - first[i, 1]
    a, b = first[i, 2], second[j, 2]
    ratio = 0.0 if a == b or a <= 0.0 or b <= 0.0 else np.log2(b / a)
    return np.sqrt(dx * dx + dy * dy), second[j, 3] - first[i, 3], ratio


@jit
def is_likely(distance: float, turn: float, ratio: float, row: Row) -> bool:
    """Tell whether two occurrences are likely parts of a composite: Σ z² ≤ −2 ln ν."""
    z = (distance - row[1]) * row[2]
    total = z * z
    if row[4] > 0.0:
        z = wrap(turn - row[3]) * row[4]
        total += z * z
    if row[6] > 0.0:
        z = (ratio - row[5]) * row[6]
        total += z * z
    return bool(total <= row[0])  # false where an angle is missing


@jit
def wrap(angle: float) -> float:
    """Return an angle in degrees between −180 and 180."""
    return (angle + 180.0) % 360.0 - 180.0


@jit
def pair_up(first: Marks, second: Marks, row: Row, out: Marks) -> int:
    """Write the occurrences of a composite, given those of its parts; return how many there are.

    They are the distinct midpoints, ordered by the first part's occurrences, then by the second's;
    as many as ``out`` has rows.
    """
    n = 0
    for i in range(len(first)):
        for j in range(len(second)):
            distance, turn, ratio = relate(first, i, second, j)
            if not is_likely(distance, turn, ratio, row):
                continue
            x, y = (first[i, 0] + second[j, 0]) / 2.0, (first[i, 1] + second[j, 1]) / 2.0
            is_new = True
            for k in range(n):
                if out[k, 0] == x and out[k, 1] == y:
                    is_new = False
                    break
            if is_new:
                out[n, 0], out[n, 1] = x, y
                out[n, 2] = np.sqrt(first[i, 2] * second[j, 2])
                out[n, 3] = first[i, 3] + wrap(turn) / 2.0
                n += 1
                if n == len(out):
                    return n
    return n
