"""Measures of policies on the hill, and of agents that know the position and the velocity."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from rlvc._core.arrays import Floats, Ints, frozen
from rlvc.data.interactions import Interactions
from rlvc.envs.hill.dynamics import ACTION_NAMES, FIRST, HILL, TOP
from rlvc.learning.rlvc import RLVC
from rlvc.runs.direct_perception import SIDES, Actor, TabularPolicy, cell_of, equal_side

TRIALS: Final = 10_000
MAX_STEPS: Final = 100
PAPER_SIDE: Final = 13  # of the grid in the paper
NODES: Final = 301  # values of each coordinate at which the optimum is computed
TOLERANCE: Final = 1e-9  # error of the optimum, as a fraction of the reward
LOWEST: Final = np.array([FIRST, -HILL.max_speed])
EXTENT: Final = np.array([TOP, HILL.max_speed]) - LOWEST


def starts(seed: int, n: int = TRIALS) -> Floats:
    """Return uniformly random places at rest, shape (n, 2), independent of the exploration.

    >>> starts(0, 3)[:, 1].tolist()
    [0.0, 0.0, 0.0]
    """
    return HILL.random_starts(n, np.random.default_rng([seed, 2]), at_rest=True)


def trials(act: Actor, starts: Floats, max_steps: int = MAX_STEPS) -> tuple[float, float]:
    """Drive from each (n, 2) start; return the share missed and the mean steps.

    A trial is missed if the car leaves the hill on the left, breaks the speed limit, also on its
    arrival, or takes more than ``max_steps``. The steps are those of the other trials; NaN if
    there is none. All trials advance together, so that an actor sees many states at once.

    >>> trials(lambda states: np.ones(len(states), np.int64), np.array([[-0.8, 0], [0.5, 0]]))
    (0.0, 9.5)
    """
    state = np.array(starts, dtype=np.float64)
    steps = np.zeros(len(state), np.int64)  # 0 as long as the top is not reached
    going = np.arange(len(state))
    for t in range(1, max_steps + 1):
        if len(going) == 0:
            break
        state[going], reward, terminated = HILL.move(state[going], act(state[going]))
        steps[going[reward > 0]] = t
        going = going[~terminated]
    arrived = steps > 0
    return float((~arrived).mean()), float(steps[arrived].mean()) if arrived.any() else float("nan")


def learn_states(interactions: Interactions, side: int, learner: RLVC) -> TabularPolicy:
    """Return the policy of a grid over the position (columns) and the velocity (rows)."""
    cell = functools.partial(cell_of, side=side, low=LOWEST, extent=EXTENT)
    return TabularPolicy.learn(interactions, cell, side**2, learner)


def measure(act: Actor, starts: Floats) -> dict[str, Any]:
    """Return the result of :func:`trials` for JSON, where a missing number is null."""
    missed, mean_steps = trials(act, starts)
    return {"missed": missed, "mean_steps": mean_steps if np.isfinite(mean_steps) else None}


def compare(
    interactions: Interactions, n_classes: int, learner: RLVC, starts: Floats
) -> dict[str, dict[str, Any]]:
    """Return, for JSON, direct perception on three grids.

    They are ``equal``, with as many cells as classes; ``best``, which misses least, then takes
    the fewest steps, on these very trials: hindsight that the learner does not have; and
    ``grid13``, the paper's.
    """

    @functools.cache
    def at(side: int) -> dict[str, Any]:
        table = learn_states(interactions, side, learner)
        return {"cells": side**2, **measure(table.act, starts)}

    def rank(found: dict[str, Any]) -> tuple[float, float]:
        return found["missed"], np.inf if found["mean_steps"] is None else found["mean_steps"]

    best = min(map(at, SIDES), key=rank)  # of equals, the smallest
    return {"equal": at(equal_side(n_classes)), "best": best, "grid13": at(PAPER_SIDE)}


def optimal_q(states: Floats) -> Floats:
    """Return Q* at (n, 2) states, shape (n, 2), by dynamic programming on the true dynamics.

    It is interpolated, so at a jump it lies between the two values.

    >>> optimal_q(np.array([[0.9, 2.0]])).round(1)
    array([[100., 100.]])
    """
    return _backup(states)(_optimal_values())


def optimal_action(states: Floats) -> Ints:
    """Return the optimal actions in known states; ties go to the left."""
    return np.asarray(optimal_q(states).argmax(axis=1))


@functools.cache
def _optimal_values() -> Floats:
    """Return V* of ``NODES`` × ``NODES`` states, row by row, by value iteration."""
    steps = np.linspace(0, 1, NODES)
    nodes = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2) * EXTENT + LOWEST
    q = _backup(nodes)
    values = np.zeros(len(nodes))
    change = np.inf
    while change > TOLERANCE * (1 - HILL.gamma) * HILL.reward:
        better = q(values).max(axis=1)
        change = float(np.abs(better - values).max())
        values = better
    return frozen(values)


def _backup(states: Floats) -> Callable[[Floats], Floats]:
    """Return the function from V at the nodes to Q at (n, 2) states: the reward + γ V.

    The outcomes of the actions are computed once; V is interpolated between the nodes.
    """
    many = np.repeat(np.asarray(states, np.float64), len(ACTION_NAMES), axis=0)
    end, reward, terminated = HILL.move(many, np.tile([0, 1], len(states)))
    place = np.clip((end - LOWEST) / EXTENT, 0, 1) * (NODES - 1)
    before = np.minimum(place.astype(np.int64), NODES - 2)
    right, down = (place - before).T  # how far along to the next node, in [0, 1]
    node = before[:, 1] * NODES + before[:, 0]

    def q(values: Floats) -> Floats:
        upper = (1 - right) * values[node] + right * values[node + 1]
        lower = (1 - right) * values[node + NODES] + right * values[node + NODES + 1]
        onward = (1 - down) * upper + down * lower
        returns = reward + HILL.gamma * np.where(terminated, 0.0, onward)
        return np.asarray(returns.reshape(-1, len(ACTION_NAMES)))

    return q
