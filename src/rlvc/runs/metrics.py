"""Measures of policies on the maze and the subway."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.envs.optimum import optimal_values
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import PlanarWorld
from rlvc.policies.forest import AnyPolicy

Actor = Callable[[NDArray[np.float64]], NDArray[np.int64]]  # (n, 2) positions to (n,) actions

SPACING = 25.6  # pixels between the positions of the grid: 50 × 50 of them on the maze
EPISODES = 1000
MAX_STEPS = 100
ENOUGH = 0.98  # share of the optimal value above which a decision counts as optimal


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of an agent.

    Attributes:
        success: Share of the episodes that reach an exit in time.
        mean_steps: Mean length of those episodes; NaN if there is none.
        suboptimal: Share of the positions of a dense grid where the decision is not optimal.
    """

    success: float
    mean_steps: float
    suboptimal: float

    def as_dict(self) -> dict[str, float | None]:
        """Return the measures for JSON, in which a number that does not exist is null."""
        return {k: v if np.isfinite(v) else None for k, v in asdict(self).items()}


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Positions that cover a world evenly, without exits, and their optimal values.

    Attributes:
        world: The world.
        positions: (n, 2) the centres of the cells.
        cells: (n_rows, n_columns) the number of the position of each cell; -1 in an exit.
        optimal_q: (n, n_actions) Q* at the positions.
    """

    world: PlanarWorld
    positions: NDArray[np.float64]
    cells: NDArray[np.int64]
    optimal_q: NDArray[np.float64]

    def nearest(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number of the cell's position for (n, 2) positions outside the exits."""
        n_rows, n_columns = self.cells.shape
        column = (positions[:, 0] / self.world.width * n_columns).astype(np.int64)
        row = (positions[:, 1] / self.world.height * n_rows).astype(np.int64)
        cell = np.minimum(row, n_rows - 1), np.minimum(column, n_columns - 1)
        return np.asarray(self.cells[cell])

    def is_optimal(self, actions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell at which positions an action has Q*(s, a) ≥ 0.98 V*(s)."""
        chosen = self.optimal_q[np.arange(len(actions)), actions]
        return np.asarray(chosen >= ENOUGH * self.optimal_q.max(axis=1))

    def suboptimal(self, actions: NDArray[np.int64]) -> float:
        """Return the share of the positions at which the action is not optimal."""
        return float((~self.is_optimal(actions)).mean())

    def paint(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n,) values at the positions as an image of cells; NaN in the exits."""
        return np.where(self.cells >= 0, values[self.cells], np.nan)


@functools.cache
def grid_over(world: PlanarWorld, spacing: float = SPACING) -> Grid:
    """Return the grid of a world with cells of about ``spacing`` pixels."""
    positions, cells = cells_over(world, spacing)
    return Grid(world, positions, cells, optimal_values(world).q(positions))


def cells_over(
    world: PlanarWorld, spacing: float = SPACING
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the positions of the grid of a world, and the cells; see :class:`Grid`."""
    n_columns, n_rows = round(world.width / spacing), round(world.height / spacing)
    x = (np.arange(n_columns) + 0.5) * world.width / n_columns
    y = (np.arange(n_rows) + 0.5) * world.height / n_rows
    centres = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    outside = ~world.in_exit(centres)
    cells = np.where(outside, np.cumsum(outside) - 1, -1).reshape(n_rows, n_columns)
    return centres[outside], cells


def walk(
    world: PlanarWorld, act: Actor, rng: np.random.Generator, episodes: int = EPISODES
) -> tuple[float, float]:
    """Walk from random starts; return the success and the mean steps.

    All episodes advance together, so that an actor sees many positions at once. An agent that did
    not move perceives what it perceived, so its actor is not asked again.
    """
    position = world.random_starts(episodes, rng)
    steps = np.zeros(episodes, np.int64)
    going = np.ones(episodes, np.bool_)
    action = np.full(episodes, -1, np.int64)
    for t in range(1, MAX_STEPS + 1):
        agents = np.flatnonzero(going)
        if len(agents) == 0:
            break
        asking = agents[action[agents] < 0]
        if len(asking):
            action[asking] = act(position[asking])
        before = position[agents]
        position[agents], out = world.move(before, action[agents], rng)
        action[agents[(position[agents] != before).any(axis=1)]] = -1
        steps[agents[out]] = t
        going[agents[out]] = False
    done = ~going
    return float(done.mean()), float(steps[done].mean()) if done.any() else float("nan")


def policy_actor(env: PictureEnv, policy: AnyPolicy, batch: int = 64) -> Actor:
    """Return the actor that takes the policy's action in the percept of a position."""

    def act(positions: NDArray[np.float64]) -> NDArray[np.int64]:
        parts = [
            policy.predict(np.stack([env.percept(p) for p in positions[i : i + batch]]))[0]
            for i in range(0, len(positions), batch)
        ]
        return np.concatenate(parts) - policy.action_start

    return act


def optimal_actor(world: PlanarWorld) -> Actor:
    """Return the best actions of an agent that knows where it is."""
    optimum = optimal_values(world)
    return lambda positions: np.asarray(optimum.q(positions).argmax(axis=1))


def measure(grid: Grid, act: Actor, rng: np.random.Generator, episodes: int = EPISODES) -> Measures:
    """Return all measures of an actor."""
    success, mean_steps = walk(grid.world, act, rng, episodes)
    return Measures(success, mean_steps, grid.suboptimal(act(grid.positions)))
