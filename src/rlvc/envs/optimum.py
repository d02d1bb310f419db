"""Optimal values of an agent that knows its position: dynamic programming on the dynamics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, product
from statistics import NormalDist
from typing import Final

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from rlvc._core.arrays import Floats, frozen
from rlvc.envs.planar_world import MOVES, PlanarWorld

TOLERANCE: Final = 1e-9
BATCH: Final = 512  # positions, so that their noisy targets fit the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One side of a picture cut into cells.

    Walls and exits are breaks: a cell ends there, and no value is interpolated across.
    """

    centres: Floats
    """The middle of each cell, shape (n,)."""
    knots: Floats
    """Places, in ascending order, between which the fractional number of the cell is linear."""
    numbers: Floats
    """That number at each knot: whole at a centre, and constant from there to a break."""

    @classmethod
    def cut(cls, breaks: Iterable[float], cell: float) -> Axis:
        """Put equal cells of at most ``cell`` pixels between each two breaks.

        >>> Axis.cut([0, 30, 40], cell=15).centres
        array([ 7.5, 22.5, 35. ])
        """
        ends = np.unique(np.fromiter(breaks, dtype=np.float64))
        centres, knots, numbers = [], [], []
        n_cells = 0
        for start, stop in pairwise(ends):
            n = max(1, int(np.ceil((stop - start) / cell - 1e-9)))
            middle = start + (np.arange(n) + 0.5) * ((stop - start) / n)
            number = np.arange(n_cells, n_cells + n)
            centres.append(middle)
            # The next part begins at the same break, so this one ends just before it.
            knots += [[start], middle, [np.nextafter(stop, start)]]
            numbers += [number[:1], number, number[-1:]]
            n_cells += n
        return cls(*(np.concatenate(parts).astype(float) for parts in (centres, knots, numbers)))

    def locate(self, places: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Return the two cells between which each place lies, shape (2, n), and their weights."""
        number = np.interp(places, self.knots, self.numbers)
        before = number.astype(np.intp)
        after, share = np.minimum(before + 1, len(self.centres) - 1), number - before
        return np.stack([before, after]), np.stack([1 - share, share])


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The optimal values of a world at its cells, and by interpolation everywhere.

    The noise of a move is replaced by the grid of all pairs of ``nodes``, equally probable.
    """

    world: PlanarWorld
    x: Axis = field(repr=False)
    y: Axis = field(repr=False)
    nodes: Floats = field(repr=False)
    """Values that stand for the noise on one coordinate, in pixels."""
    cell_values: Floats = field(repr=False)
    """V* at the centre of each cell, row by row; 0 in the exits."""

    def q(self, positions: ArrayLike) -> Floats:
        """Return Q* at (n, 2) positions, shape (n, 4).

        In an exit it is the value of moving as if the episode had not ended.

        >>> world = PlanarWorld(width=60, height=20, step=20, noise=0, window=1,
        ...               walls=(), exits=((40, 0, 60, 20),))
        >>> optimal_values(world).q([[5.0, 10.0], [25.0, 10.0]]).round(1)
        array([[ 81.,  90.,  81.,  81.],
               [ 90., 100.,  90.,  81.]])
        """
        points = np.asarray(positions, dtype=np.float64)
        moved, stays = np.empty((2, len(points), len(MOVES)))
        for action, rows in product(range(len(MOVES)), _batches(len(points))):
            cells, weights, exits, stays[rows, action] = self.outcomes(points[rows], action)
            onward = (self.cell_values[cells] * weights).sum(axis=1)
            moved[rows, action] = self.world.reward * exits + self.world.gamma * onward
        best = _best(moved, stays, self.world.gamma)
        return moved + self.world.gamma * stays * best[:, None]

    def outcomes(
        self, positions: Floats, action: int
    ) -> tuple[NDArray[np.intp], Floats, Floats, Floats]:
        """Return what one action leads to from (n, 2) positions.

        Returns:
            The cells (n, m) between which the noisy targets lie, row-wise with repetitions, and
            their weights (n, m), which sum up to the probability of moving and going on; then
            the probabilities (n,) of entering an exit and of staying.
        """
        shifts = np.stack(np.meshgrid(self.nodes, self.nodes), axis=-1).reshape(-1, 2)
        targets = (positions[:, None] + self.world.step * MOVES[action] + shifts).reshape(-1, 2)
        blocked = self.world.blocked(np.repeat(positions, len(shifts), axis=0), targets)
        exits = self.world.in_exit(targets) & ~blocked
        goes = ~(blocked | exits) / len(shifts)
        columns, across = self.x.locate(targets[:, 0])
        rows, down = self.y.locate(targets[:, 1])
        cells = rows[:, None] * len(self.x.centres) + columns
        weights = down[:, None] * across
        n = len(positions)
        return (
            np.concatenate(cells.reshape(4, n, -1), axis=1),
            np.concatenate((weights * goes).reshape(4, n, -1), axis=1),
            exits.reshape(n, -1).mean(axis=1),
            blocked.reshape(n, -1).mean(axis=1),
        )


@lru_cache(maxsize=8)
def optimal_values(world: PlanarWorld, cell: float = 12.8, n_nodes: int = 16) -> Optimum:
    """Return the optimal values of a world, by value iteration to 1e-9 of the reward.

    Results are cached.

    Args:
        world: The dynamics.
        cell: Largest side of a cell, in pixels.
        n_nodes: Number of values that stand for the noise on each coordinate; cost is quadratic.

    >>> world = PlanarWorld(width=60, height=20, step=20, noise=0, window=1,
    ...               walls=(), exits=((40, 0, 60, 20),))
    >>> optimal_values(world).q([[5.0, 10.0], [25.0, 10.0]]).max(axis=1).round(1)
    array([ 90., 100.])
    """
    for name, number in {"cell": cell, "n_nodes": n_nodes}.items():
        if not number > 0:
            raise ValueError(f"{name} of optimal_values must be above 0; got {number}.")
    corners = [(0, 0), (world.width, world.height), *(end for wall in world.walls for end in wall)]
    corners += [corner for x0, y0, x1, y1 in world.exits for corner in ((x0, y0), (x1, y1))]
    x, y = (Axis.cut(breaks, cell) for breaks in zip(*corners, strict=True))
    empty = np.zeros(len(x.centres) * len(y.centres))
    blank = Optimum(world, x, y, nodes=_nodes(world.noise, n_nodes), cell_values=empty)
    return replace(blank, cell_values=_solve(blank))


def _nodes(deviation: float, n_nodes: int) -> Floats:
    """Return equally probable values with the standard deviation of the noise.

    The values jump at walls and exits, where the nodes of a Gauss rule, few and far between in
    the middle, do badly; the medians of equally probable slices are dense where it matters.
    """
    if deviation == 0 or n_nodes == 1:
        return np.zeros(1)
    medians = [NormalDist().inv_cdf((i + 0.5) / n_nodes) for i in range(n_nodes)]
    return np.array(medians) * float(deviation / np.std(medians))


def _batches(n: int) -> list[slice]:
    return [slice(first, first + BATCH) for first in range(0, n, BATCH)]


def _best(moved: Floats, stays: Floats, gamma: float) -> Floats:
    """Return V* of (n, 4) expected returns of moving and probabilities of being blocked.

    A blocked agent is exactly where it was, so V solves V = max over a of (moved + γ·stays·V),
    which is max over a of moved / (1 - γ·stays).
    """
    return np.asarray((moved / (1 - gamma * stays)).max(axis=1))


def _solve(blank: Optimum) -> Floats:
    """Return V* of the cells by value iteration."""
    world = blank.world
    centres = np.stack(np.meshgrid(blank.x.centres, blank.y.centres), axis=-1).reshape(-1, 2)
    open_cells = np.flatnonzero(~world.in_exit(centres))
    gains, stays = np.empty((2, len(open_cells), len(MOVES)))
    transitions = []
    for action in range(len(MOVES)):
        blocks = []
        for rows in _batches(len(open_cells)):
            places = centres[open_cells[rows]]
            cells, weights, exits, stays[rows, action] = blank.outcomes(places, action)
            gains[rows, action] = world.reward * exits
            ends = np.arange(len(cells) + 1) * cells.shape[1]
            entries = weights.ravel(), cells.ravel(), ends
            block = scipy.sparse.csr_array(entries, shape=(len(cells), len(centres)))
            block.sum_duplicates()
            block.eliminate_zeros()
            blocks.append(block)
        transitions.append(scipy.sparse.vstack(blocks, format="csr"))
    values = np.zeros(len(centres))
    change = np.inf
    while change > TOLERANCE * (1 - world.gamma) * world.reward:
        onward = np.stack([matrix @ values for matrix in transitions], axis=1)
        best = _best(gains + world.gamma * onward, stays, world.gamma)
        change = np.abs(best - values[open_cells]).max(initial=0.0)
        values[open_cells] = best
    return frozen(values)
