"""Sketches: short projections of long rows that tell most rows apart.

Rows are projected on the main axes of a sample. A projection lengthens no difference, so rows whose
sketches are farther apart than the threshold are farther apart themselves, and only the others are
compared number by number. Sketches save time and decide nothing: results depend neither on the axes
nor on rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc.vision.linear import covariance, project

LENGTH = 16  # numbers of a sketch
LANES = 256  # sketches that are compared with one sketch at a time
SAMPLE = 2000  # rows from which the axes are estimated
ROUNDS = 8  # of the iteration that finds the axes


@dataclass(frozen=True, slots=True)
class Sketcher:
    """A projection to sketches, and the largest distance of sketches of near rows.

    Attributes:
        axes: (d, LENGTH) orthogonal axes, all of one length or zero.
        limit: Rows within the threshold have sketches whose squared distance is at most this.
    """

    axes: NDArray[np.float64]
    limit: np.float32

    @classmethod
    def fit(cls, rows: NDArray[Any], threshold: float) -> Sketcher:
        """Return a sketcher for rows like these.

        The limit allows for rounding. In units of the longest row or the threshold, whichever
        is more, one of two rows within the threshold is at most 1 long and the other 2, so their
        sketches in float32 are off by less than 3 · 2⁻²⁴; their squared distance then gathers
        LENGTH + 3 relative errors of 2⁻²⁴.
        """
        n, width = rows.shape
        longest = max(float(rows.max()), -float(rows.min())) * width**0.5 if n else 0.0
        unit = float(np.clip(max(longest, threshold), 1e-100, 1e100))
        sample = rows[:: -(-n // SAMPLE) or 1].astype(np.float64) / unit
        axes = main_axes(covariance(sample)) if n > 1 else np.zeros((width, LENGTH))
        limit = np.float32((min(threshold / unit, 1.0) + 1e-6) ** 2 * (1 + 1e-5))
        return cls(axes / unit, limit)

    def sketch(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return the (n, LENGTH) sketches of rows."""
        return project(rows, self.axes).astype(np.float32)


@jit
def main_axes(spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about the LENGTH main axes of a covariance (d, d), as columns; zero where it has less.

    This is orthogonal iteration, by hand because the threads of a linear algebra library may wait
    longer for each other than it takes. The axes must be orthogonal, but need not be exact.
    """
    width = len(spread)
    axes = np.zeros((LENGTH, width), np.float64)
    widest = np.argsort(-np.diag(spread))
    for k in range(min(LENGTH, width)):
        axes[k, widest[k]] = 1.0
    for _ in range(ROUNDS):
        for k in range(LENGTH):
            axis = np.zeros(width, np.float64)
            for c in range(width):
                for d in range(width):
                    axis[d] += axes[k, c] * spread[c, d]
            length = np.sqrt(_product(axis, axis))
            for m in range(2 * k):  # twice, to remove what rounding leaves the first time
                share = _product(axis, axes[m % k])
                for d in range(width):
                    axis[d] -= share * axes[m % k, d]
            rest = np.sqrt(_product(axis, axis))
            for d in range(width):
                axes[k, d] = axis[d] / rest if rest > 1e-6 * length else axis[d] * 0.0
    return np.ascontiguousarray(axes.T)


@jit
def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    total = 0.0  # a loop, as Numba takes seconds to compile sums of arrays
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


def tiles(sketches: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return sketches as (n_tiles, LENGTH, LANES), the last tile padded with infinity.

    Corresponding numbers of LANES sketches are adjacent in memory, for vector instructions.
    """
    n, length = sketches.shape
    n_tiles = -(-n // LANES)
    padded = np.full((n_tiles * LANES, length), np.inf, np.float32)
    padded[:n] = sketches
    return np.ascontiguousarray(padded.reshape(n_tiles, LANES, length).transpose(0, 2, 1))


@jit
def near_lanes(
    sketches: NDArray[np.float32],
    i: int,
    tiles: NDArray[np.float32],
    t: int,
    limit: np.float32,
    gaps: NDArray[np.float32],
    lanes: NDArray[np.int32],
) -> int:
    """Write to ``lanes`` which sketches of a tile are near the i-th one, and return how many.

    ``gaps`` and ``lanes`` have LANES elements each.
    """
    n = np.int32(0)
    for lane in range(LANES):
        total = np.float32(0)
        for c in range(LENGTH):
            difference = sketches[i, c] - tiles[t, c, lane]
            total += difference * difference
        gaps[lane] = total
        n += np.int32(total <= limit)
    if n == 0:
        return 0
    found = 0
    for lane in range(LANES):
        lanes[found] = lane
        found += gaps[lane] <= limit
    return found
