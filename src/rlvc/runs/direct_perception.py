"""Direct perception: tabular learning on the true states of the same interactions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc.data.interactions import Interactions
from rlvc.learning.mdp import MappedSequence, estimate
from rlvc.learning.rlvc import RLVC

Actor = Callable[[Floats], Ints]  # (n, d) states to (n,) actions

SIDES: Final = range(8, 31)  # grids from 8 × 8 to 30 × 30
ENOUGH: Final = 0.98  # share of the optimal value above which a decision counts as optimal


@dataclass(frozen=True, slots=True, eq=False)
class TabularPolicy:
    """A policy on cells of the space of true states.

    Attributes:
        cell: Returns the (n,) cells of (n, d) states.
        action: (n_cells,) the best action of each cell.
        value: (n_cells,) the value of that action; 0 where nothing was tried.
    """

    cell: Callable[[Floats], Ints]
    action: Ints = field(repr=False)
    value: Floats = field(repr=False)

    @classmethod
    def learn(
        cls, interactions: Interactions, cell: Callable[[Floats], Ints], n_cells: int, learner: RLVC
    ) -> TabularPolicy:
        """Learn from interactions that carry the state, as a learner solves its own MDP."""
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
        q = learner.solver.solve(mdp, learner.gamma)
        action = mdp.greedy(q)
        return cls(cell, action, q[np.arange(n_cells), action])

    def act(self, states: Floats) -> Ints:
        """Return the (n,) actions at (n, d) states."""
        return np.asarray(self.action[self.cell(states)])


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
