"""The kinds of visual features.

A *primitive* feature is a symbol. A *composite* has two parts, features themselves, at a typical
distance; it occurs at the midpoints of those pairs of occurrences whose distance is likely enough.
An *in-cell* feature is one in a cell of a grid over the frame. An *at-least* feature tolerates that
some of its parts are missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints

MAX_HEIGHT = 16  # of a feature: its description may double in length with every level
MAX_OCCURRENCES = 1000  # of a composite on one image; further ones are dropped

Marks = Floats  # (n, 4) occurrences: x, y, scale, angle (NaN where there is none)


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

    def parameters(self) -> Floats:
        """Return −2 ln ν, then mean and 1/deviation of distance, turn and ratio (0, 0 if any)."""
        numbers = [-2.0 * math.log(self.likelihood), self.mean, 1.0 / self.deviation]
        optional = (self.turn, self.turn_deviation), (self.ratio, self.ratio_deviation)
        for mean, deviation in optional:
            numbers += [0.0, 0.0] if mean is None or deviation is None else [mean, 1.0 / deviation]
        return np.asarray(numbers, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class InCell:
    """A feature in one cell of a grid over the frame.

    Attributes:
        part: The number of the feature.
        level: The grid has 2^level columns and as many rows.
        column: The column of the cell, from the left.
        line: The row of the cell, from the top.
    """

    part: int
    level: int
    column: int
    line: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The number of the one part."""
        return (self.part,)

    def is_inside(self, marks: Marks, size: tuple[int, int]) -> Bools:
        """Tell which occurrences lie in the cell, on an image of this width and height."""
        column, line = cells_of(marks[:, :2], size, self.level).T
        is_inside: Bools = (column == self.column) & (line == self.line)
        return is_inside


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """A minimum number of several features of one camera.

    It occurs where its parts occur, if enough of them do.

    Attributes:
        parts: The numbers of the features; the others are surrogates of the first.
        least: How many of them must occur.
    """

    parts: tuple[int, ...]
    least: int


Feature = Primitive | Composite | InCell | AtLeast


def cells_of(xy: Floats, size: tuple[int, int], level: int) -> Ints:
    """Return (n, 2) the column and line of each position on a grid of 2^level × 2^level cells."""
    cells = np.floor(xy / size * 2**level).astype(np.int64)
    nearest: Ints = np.minimum(np.maximum(cells, 0), 2**level - 1)  # faster than np.clip if few
    return nearest
