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
from rlvc.vision.linear_algebra import covariance, project

LENGTH = 16  # numbers of a sketch
LANES = 256  # sketches that are compared with one sketch at a time
SAMPLE = 2000  # rows from which the axes are estimated
ROUNDS = 8  # of the iteration that finds the axes


@dataclass(frozen=True, slots=True)
class Sketcher:
    """A projection to sketches, and the largest distance of sketches of near rows.

    Attributes:
        axes: (d, LENGTH) orthogonal axes, all of one length.
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
        step = -(-n // SAMPLE) or 1
        sample = rows[::step].astype(np.float64) / unit
        axes = main_axes(covariance(sample)) if n > 1 else np.zeros((width, LENGTH))
        limit = np.float32((min(threshold / unit, 1.0) + 1e-6) ** 2 * (1 + 1e-5))
        return cls(axes / unit, limit)

    def sketch(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return the (n, LENGTH) sketches of rows."""
        return project(rows, self.axes).astype(np.float32)


def main_axes(spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about the LENGTH main axes of a covariance (d, d), as orthogonal columns."""
    axes = np.eye(len(spread))[:, np.argsort(-np.diag(spread))[:LENGTH]]
    for _ in range(ROUNDS):
        axes, _ = np.linalg.qr(spread @ axes)
    return axes


def tiles(sketches: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return sketches as (n_tiles, LENGTH, LANES), the last tile padded with infinity.

    Corresponding numbers of LANES sketches are adjacent in memory, for vector instructions.
    """
    n, length = sketches.shape
    padded = np.pad(sketches, ((0, -n % LANES), (0, 0)), constant_values=np.inf)
    return np.ascontiguousarray(padded.reshape(-1, LANES, length).transpose(0, 2, 1))


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
