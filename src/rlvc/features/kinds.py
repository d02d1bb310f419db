"""The kinds of visual features.

A *primitive* feature is a symbol. A *composite* has two parts, features themselves, at a typical
distance; it occurs at the midpoints of those pairs of occurrences whose distance is likely enough.
An *in-cell* feature is one in a part of the frame. An *at-least* feature tolerates that some of its
parts are missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def cells_of(xy: NDArray[np.float64], size: tuple[int, int], level: int) -> NDArray[np.int64]:
    """Return the (n, 2) column and line of positions on a grid of 2^level cells a side."""
    cells = np.floor(xy / size * 2**level).astype(np.int64)
    return np.asarray(np.clip(cells, 0, 2**level - 1))
