"""Direct perception: tabular learning on the true states of the same interactions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc.data.interactions import Interactions
from rlvc.learning.mdp import MappedSequence, estimate
from rlvc.learning.solvers.base import Solver
from rlvc.policies.values import greedy

Actor = Callable[[Floats], Ints]  # (n, d) states to (n,) actions

SIDES: Final = range(8, 31)  # grids from 8 × 8 to 30 × 30
ENOUGH: Final = 0.98  # share of the optimal value above which a decision counts as optimal


def learn_table(
    interactions: Interactions,
    cell: Callable[[Floats], Ints],
    n_cells: int,
    solver: Solver,
    gamma: float,
) -> tuple[Ints, Floats]:
    """Return the best action and the value of each cell of the state space.

    The interactions must carry the state; ``cell`` maps (n, d) states to (n,) cell numbers.
    """
    if interactions.state is None or interactions.next_state is None:
        raise ValueError("Direct perception needs interactions that carry the state.")
    sequence = MappedSequence(
        cell(interactions.state),
        interactions.action,
        interactions.reward,
        cell(interactions.next_state),
        interactions.terminated,
        interactions.is_last,
    )
    mdp = estimate(sequence, n_cells, interactions.n_actions)
    q = solver.solve(mdp, gamma)
    action = greedy(q, mdp.is_tried)
    return action, q[np.arange(n_cells), action]


@dataclass(frozen=True, slots=True, eq=False)
class TabularPolicy:
    """A policy on a square grid over two-dimensional states.

    Attributes:
        side: How many cells there are along either axis.
        low: (2,) the lowest state.
        extent: (2,) the size of the state space.
        action: (side, side) the best action; columns by the first coordinate, from the lowest.
        value: (side, side) the value of that action; 0 where nothing was tried.
    """

    side: int
    low: Floats
    extent: Floats
    action: Ints = field(repr=False)
    value: Floats = field(repr=False)

    @classmethod
    def learn(
        cls,
        interactions: Interactions,
        side: int,
        bounds: tuple[Floats, Floats],
        solver: Solver,
        gamma: float,
    ) -> TabularPolicy:
        """Learn from interactions that carry the state, given its lowest value and its extent."""
        low, extent = bounds
        cell = partial(cell_of, side=side, low=low, extent=extent)
        action, value = learn_table(interactions, cell, side**2, solver, gamma)
        return cls(side, low, extent, action.reshape(side, side), value.reshape(side, side))

    def act(self, states: Floats) -> Ints:
        """Return the (n,) actions at (n, 2) states."""
        return np.asarray(self.action.ravel()[cell_of(states, self.side, self.low, self.extent)])


def cell_of(states: Floats, side: int, low: Floats, extent: Floats) -> Ints:
    """Return the numbers of the cells, row by row; states outside the grid get its nearest cells.

    >>> cell_of(np.array([[0.1, 0.9], [2.0, 0.0]]), 3, np.zeros(2), np.ones(2)).tolist()
    [6, 2]
    """
    scaled = np.floor((states - low) / extent * side).astype(np.int64)
    column, row = np.clip(scaled, 0, side - 1).T
    return np.asarray(row * side + column)


def equal_side(n_classes: int) -> int:
    """Return the side of the square grid with about as many cells as there are classes.

    >>> equal_side(157)
    13
    """
    return max(1, round(math.sqrt(n_classes)))
