"""Measures of policies on the maze and the subway."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.data.interactions import Interactions
from rlvc.envs.optimum import optimal_values
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import PlanarWorld
from rlvc.learning.rlvc import RLVC
from rlvc.policies.forest import AnyPolicy
from rlvc.runs.direct_perception import (
    ENOUGH,
    SIDES,
    Actor,
    TabularPolicy,
    cell_of,
    equal_side,
)

SPACING = 25.6  # pixels between the positions of the grid: 50 × 50 of them on the maze
EPISODES = 1000
MAX_STEPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Positions that cover a world evenly, except its exits, and their optimal values.

    Attributes:
        world: The world.
        positions: (n, 2) the centres of the cells.
        cells: (n_rows, n_columns) the number of the position of each cell; -1 in an exit.
        optimal_q: (n, n_actions) Q* at the positions.
    """

    world: PlanarWorld
    positions: Floats
    cells: Ints
    optimal_q: Floats

    def nearest(self, positions: Floats) -> Ints:
        """Return the number of the cell's position for (n, 2) positions outside the exits."""
        n_rows, n_columns = self.cells.shape
        column = (positions[:, 0] / self.world.width * n_columns).astype(np.int64)
        row = (positions[:, 1] / self.world.height * n_rows).astype(np.int64)
        cell = np.minimum(row, n_rows - 1), np.minimum(column, n_columns - 1)
        return np.asarray(self.cells[cell])

    def is_optimal(self, actions: Ints) -> Bools:
        """Return at which positions the action has Q*(s, a) ≥ 0.98 V*(s)."""
        chosen = self.optimal_q[np.arange(len(actions)), actions]
        return np.asarray(chosen >= ENOUGH * self.optimal_q.max(axis=1))

    def suboptimal(self, actions: Ints) -> float:
        """Return the share of the positions at which the action is not optimal."""
        return float((~self.is_optimal(actions)).mean())

    def paint(self, values: Floats) -> Floats:
        """Return (n,) values at the positions as an image of cells; NaN in the exits."""
        return np.where(self.cells >= 0, values[self.cells], np.nan)


@functools.cache
def grid_over(world: PlanarWorld, spacing: float = SPACING) -> Grid:
    """Return the grid of a world with cells of about ``spacing`` pixels."""
    positions, cells = cells_over(world, spacing)
    return Grid(world, positions, cells, optimal_values(world).q(positions))


def cells_over(world: PlanarWorld, spacing: float = SPACING) -> tuple[Floats, Ints]:
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

    All episodes advance together, so that an actor gets many positions at once. It is not asked
    again about an agent that did not move, as its percept is the same.
    """
    position = world.random_starts(episodes, rng)
    steps = np.zeros(episodes, np.int64)  # 0 as long as no exit is reached
    action = np.full(episodes, -1, np.int64)  # -1 where the actor must be asked
    going = np.arange(episodes)
    for t in range(1, MAX_STEPS + 1):
        if len(going) == 0:
            break
        asking = going[action[going] < 0]
        if len(asking):
            action[asking] = act(position[asking])
        before = position[going]
        position[going], out = world.move(before, action[going], rng)
        action[going[(position[going] != before).any(axis=1)]] = -1
        steps[going[out]] = t
        going = going[~out]
    done = steps > 0
    return float(done.mean()), float(steps[done].mean()) if done.any() else float("nan")


def policy_actor(env: PictureEnv, policy: AnyPolicy, batch: int = 64) -> Actor:
    """Return the actor that takes the action of a policy for the percept at a position."""

    def act(positions: Floats) -> Ints:
        parts = [
            policy.predict(np.stack([env.percept(p) for p in positions[i : i + batch]]))[0]
            for i in range(0, len(positions), batch)
        ]
        return np.concatenate(parts) - policy.action_start

    return act


def optimal_actor(world: PlanarWorld) -> Actor:
    """Return the actor that knows its position and acts optimally."""
    optimum = optimal_values(world)
    return lambda positions: np.asarray(optimum.q(positions).argmax(axis=1))


def measure(
    grid: Grid, act: Actor, seed: int, episodes: int = EPISODES, suboptimal: float | None = None
) -> dict[str, Any]:
    """Return, for JSON, the measures of an actor: ``success``, ``mean_steps``, ``suboptimal``.

    The last one is the share of the grid's positions where the action is not optimal; it is
    computed unless given.
    """
    rng = np.random.default_rng([seed, 2])  # independent of the exploration
    success, mean_steps = walk(grid.world, act, rng, episodes)
    return {
        "success": success,
        "mean_steps": mean_steps if np.isfinite(mean_steps) else None,
        "suboptimal": grid.suboptimal(act(grid.positions)) if suboptimal is None else suboptimal,
    }


def learn_positions(
    world: PlanarWorld, interactions: Interactions, side: int, learner: RLVC
) -> TabularPolicy:
    """Return the policy of a ``side`` × ``side`` grid over the positions in a world."""
    extent = np.array([world.width, world.height], np.float64)
    cell = functools.partial(cell_of, side=side, low=np.zeros(2), extent=extent)
    return TabularPolicy.learn(interactions, cell, side**2, learner)


def compare(
    grid: Grid,
    interactions: Interactions,
    n_classes: int,
    learner: RLVC,
    seed: int,
    episodes: int = EPISODES,
) -> dict[str, dict[str, Any]]:
    """Return, for JSON, direct perception with as many cells as classes, and on the best grid.

    The best grid is the one with the highest measured success, then the fewest suboptimal
    decisions: hindsight that the learner does not have.
    """

    def at(side: int) -> dict[str, Any]:
        policy = learn_positions(grid.world, interactions, side, learner)
        return {"cells": side**2, **measure(grid, policy.act, seed, episodes)}

    best = min(map(at, SIDES), key=lambda found: (-found["success"], found["suboptimal"]))
    return {"equal": at(equal_side(n_classes)), "best": best}
