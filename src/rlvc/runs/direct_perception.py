"""Direct perception: tabular learning on the same interactions with the position itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.data.interactions import Interactions
from rlvc.envs.planar_world import PlanarWorld
from rlvc.learning.mdp import MappedSequence, estimate
from rlvc.learning.solvers.base import Solver
from rlvc.policies.values import greedy
from rlvc.runs.metrics import EPISODES, Actor, Grid, Measures, measure

SIDES = range(8, 31)  # grids from 8 × 8 to 30 × 30


@dataclass(frozen=True, slots=True)
class Direct:
    """What direct perception reached on one square grid."""

    side: int
    measures: Measures

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {"cells": self.side**2, **self.measures.as_dict()}


def tabular(
    interactions: Interactions,
    cell: Callable[[NDArray[np.float64]], NDArray[np.int64]],
    n_cells: int,
    solver: Solver,
    gamma: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the best action and the value of each cell, as the interactions tell.

    Args:
        interactions: They must carry the state.
        cell: From (n, 2) states to the (n,) numbers of their cells.
        n_cells: How many cells there are.
        solver: Of the decision problem that the cells make.
        gamma: Discount factor, in [0, 1).
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


def direct_actor(
    world: PlanarWorld, interactions: Interactions, side: int, solver: Solver, gamma: float
) -> Actor:
    """Return what tabular learning on a ``side`` × ``side`` grid over the world does."""

    def cell(positions: NDArray[np.float64]) -> NDArray[np.int64]:
        scaled = positions / (world.width, world.height) * side
        column, row = np.minimum(scaled.astype(np.int64), side - 1).T
        return np.asarray(row * side + column)

    action, _ = tabular(interactions, cell, side**2, solver, gamma)
    return lambda positions: action[cell(positions)]


def equal_side(n_classes: int) -> int:
    """Return the side of the square grid with about as many cells as there are classes.

    >>> equal_side(157)
    13
    """
    return max(1, round(math.sqrt(n_classes)))


def compare(
    grid: Grid,
    interactions: Interactions,
    n_classes: int,
    solver: Solver,
    gamma: float,
    seed: int,
    episodes: int = EPISODES,
) -> dict[str, dict[str, Any]]:
    """Return, for JSON, direct perception with as many cells as classes, and on the best grid.

    The best grid is the one with the highest measured success, then the fewest suboptimal
    decisions: hindsight that the learner does not have.
    """

    def at(side: int) -> Direct:
        actor = direct_actor(grid.world, interactions, side, solver, gamma)
        rng = np.random.default_rng([seed, 2])
        return Direct(side, measure(grid, actor, rng, episodes))

    equal = at(equal_side(n_classes))
    tried = [at(side) for side in SIDES]
    best = max(tried, key=lambda d: (d.measures.success, -d.measures.suboptimal, -d.side))
    return {"equal": equal.as_dict(), "best": best.as_dict()}
