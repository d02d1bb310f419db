from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, collect
from rlvc.envs.hill.dynamics import HILL
from rlvc.envs.hill.env import HillEnv
from rlvc.learning.solvers.dynamic import PolicyIteration, ValueIteration
from rlvc.tasks.hill import metrics as hill_measures
from rlvc.tasks.hill.metrics import (
    compare,
    learn_states,
    measure,
    optimal_action,
    optimal_q,
    starts,
    trials,
)

States = NDArray[np.float64]
Actions = NDArray[np.int64]
Cell = tuple[int, int]

LEARNER = RLVC(gamma=0.75, solver=PolicyIteration())


class BlindHill(HillEnv):
    """The same hill without images, for agents that know the state."""

    def percept(self, state: Any) -> dict[str, Any]:
        return {"nothing": np.zeros((1, 1, 3), np.uint8)}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return collect(TimeLimit(BlindHill(), 100), 10_000, state="state", seed=0)


def right(states: States) -> Actions:
    return np.ones(len(states), np.int64)


def brake(states: States) -> Actions:
    return (states[:, 1] < 0).astype(np.int64)


def drive_alone(state: States, action: list[int], max_steps: int) -> int | None:
    """Return how many steps one car takes to the top; None if it misses it."""
    for t in range(1, max_steps + 1):
        here = action[int(state[0] * 50 + 50)]
        (state,), (reward,), (terminated,) = HILL.move(state[None], [here])
        if reward > 0:
            return t
        if terminated:
            return None
    return None


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.floats(-1, 0.99), st.floats(-3, 3)), min_size=1, max_size=6),
    st.lists(st.integers(0, 1), min_size=101, max_size=101),
    st.integers(1, 100),
)
def test_driving_together_is_driving_alone(
    cars: list[tuple[float, float]], action: list[int], max_steps: int
) -> None:
    begin = np.array(cars)
    kept = begin.copy()
    steps = [drive_alone(state, action, max_steps) for state in begin]
    arrived = [t for t in steps if t is not None]

    def act(states: States) -> Actions:
        return np.array(action)[(states[:, 0] * 50 + 50).astype(np.int64)]

    missed, mean_steps = trials(act, begin, max_steps)
    assert missed == pytest.approx(1 - len(arrived) / len(steps))
    assert mean_steps == pytest.approx(np.mean(arrived) if arrived else np.nan, nan_ok=True)
    np.testing.assert_array_equal(begin, kept)


def test_what_is_missed() -> None:
    def one(act: Any, p: float, s: float, max_steps: int = 100) -> tuple[float, float]:
        return trials(act, np.array([[p, s]]), max_steps)

    assert one(right, 0.9, 2.0) == (0.0, 1.0)
    assert one(right, 0.5, 0.0) == (0.0, 9.0)
    assert one(right, 0.5, 0.0, max_steps=9) == (0.0, 9.0)
    for found in (
        one(right, 0.5, 0.0, max_steps=8),  # too late
        one(brake, -0.5, 0.0),  # never
        one(right, 0.9, 2.9),  # arrives too fast
        one(right, -0.99, -2.0),  # leaves on the left
    ):
        assert found[0] == 1.0
        assert np.isnan(found[1])


def test_an_actor_is_asked_only_for_cars_that_still_drive() -> None:
    asked = []

    def act(states: States) -> Actions:
        asked.append(len(states))
        return right(states)

    missed, mean_steps = trials(act, np.array([[0.9, 2.0], [0.9, 2.9], [0.5, 0.0]]))
    assert asked == [3] + [1] * 8
    assert missed == pytest.approx(1 / 3)
    assert mean_steps == 5.0


def test_starts_are_places_at_rest_that_depend_on_the_seed() -> None:
    assert starts(0).shape == (10_000, 2)
    assert (starts(3)[:, 1] == 0).all()
    assert starts(3)[:, 0].min() < -0.99
    assert starts(3)[:, 0].max() > 0.99
    np.testing.assert_array_equal(starts(3, 5), starts(3, 5))
    assert (starts(3, 5)[:, 0] != starts(4, 5)[:, 0]).all()


def test_a_table_has_cells_of_equal_size_over_position_and_velocity(data: Interactions) -> None:
    table = learn_states(data, 4, LEARNER)
    numbers = dataclasses.replace(table, action=np.arange(16))
    states = [(-1, -3), (-0.51, -3), (-0.5, -3), (0.99, -1.51), (-1, -1.5), (1, 3), (-1, 2.9)]
    assert numbers.act(np.array(states, np.float64)).tolist() == [0, 0, 1, 3, 4, 15, 12]
    beyond = np.array([(-1.1, -3.2), (1.2, 3.2)])  # where an episode may end
    assert numbers.act(beyond).tolist() == [0, 15]


def literal_q(
    data: Interactions, cell: Callable[[States], Cell], gamma: float
) -> dict[tuple[Cell, int], float]:
    """Return Q of each cell and action that were tried, by value iteration on dictionaries."""
    assert data.state is not None
    assert data.next_state is not None
    tries: dict[tuple[Cell, int], list[tuple[float, Cell | None]]] = {}
    for t in range(len(data)):
        end = None if data.terminated[t] else cell(data.next_state[t])
        pair = cell(data.state[t]), int(data.action[t])
        tries.setdefault(pair, []).append((float(data.reward[t]), end))
    value, q = dict[Cell, float](), dict[tuple[Cell, int], float]()
    for _ in range(400):
        q = {
            pair: sum(r + gamma * (value.get(end, 0.0) if end else 0.0) for r, end in seen)
            / len(seen)
            for pair, seen in tries.items()
        }
        value = {}
        for (place, _), worth in q.items():
            value[place] = max(value.get(place, 0.0), worth)
    return q


@pytest.mark.slow
@pytest.mark.parametrize("solver", [PolicyIteration(), ValueIteration()], ids=["policy", "value"])
def test_the_values_of_a_table_are_those_of_counting(
    data: Interactions, solver: PolicyIteration | ValueIteration
) -> None:
    def cell(state: States) -> tuple[int, int]:
        p, s = state.tolist()
        column, row = int((p + 1) / 2 * 7), int((s + 3) / 6 * 7)
        return min(max(column, 0), 6), min(max(row, 0), 6)

    table = learn_states(data, 7, dataclasses.replace(LEARNER, solver=solver))
    q = literal_q(data, cell, LEARNER.gamma)
    assert len({place for place, _ in q}) == 49
    n_clear = 0
    for column, row in itertools.product(range(7), repeat=2):
        worth = [q.get(((column, row), action), 0.0) for action in range(2)]
        assert table.value[7 * row + column] == pytest.approx(max(worth), abs=1e-5)
        if abs(worth[0] - worth[1]) > 1e-4:  # rounding does not decide
            assert table.action[7 * row + column] == np.argmax(worth)
            n_clear += 1
    assert n_clear > 20


def test_the_best_grid_misses_least_then_is_fastest(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    nan = float("nan")
    found = {4: (0.5, 14.0), 9: (1.0, nan), 16: (0.1, 13.0), 25: (0.1, 12.0), 36: (0.1, 12.0)}
    found[169] = (0.0, 11.0)  # not among those that are tried
    monkeypatch.setattr(hill_measures, "SIDES", range(3, 7))
    monkeypatch.setattr(hill_measures, "trials", lambda act, _: found[len(act.__self__.action)])
    three = compare(data, 5, LEARNER, starts(0, 5))
    assert three == {
        "equal": {"cells": 4, "missed": 0.5, "mean_steps": 14.0},
        "best": {"cells": 25, "missed": 0.1, "mean_steps": 12.0},
        "grid13": {"cells": 169, "missed": 0.0, "mean_steps": 11.0},
    }
    assert compare(data, 9, LEARNER, starts(0, 5))["equal"]["mean_steps"] is None


def test_every_grid_is_measured_on_the_same_trials(data: Interactions) -> None:
    begin = starts(1, 300)
    three = compare(data, 100, LEARNER, begin)
    alone = {side: measure(learn_states(data, side, LEARNER).act, begin) for side in (10, 13)}
    assert three["equal"] == {"cells": 100, **alone[10]}
    assert three["grid13"] == {"cells": 169, **alone[13]}
    assert three["best"]["missed"] <= min(one["missed"] for one in alone.values())
    assert json.loads(json.dumps(three)) == three


def fewest_steps(state: States) -> int:
    """Try every sequence of actions, shortest first."""
    states = state[None]
    for t in range(1, 21):
        ends = [HILL.move(states, np.full(len(states), action)) for action in (0, 1)]
        if any((reward > 0).any() for _, reward, _ in ends):
            return t
        states = np.concatenate([end[~terminated] for end, _, terminated in ends])
    raise AssertionError(f"more than 20 steps from {state}")


def test_the_optimum_is_as_fast_as_any_sequence_of_actions() -> None:
    begin = starts(7, 25)
    fewest = [fewest_steps(state) for state in begin]
    missed, mean_steps = trials(optimal_action, begin)
    assert missed == 0
    assert np.mean(fewest) <= mean_steps <= np.mean(fewest) + 0.05


def test_the_optimum_of_ten_thousand_trials() -> None:
    missed, mean_steps = trials(optimal_action, starts(0))
    assert missed == 0
    assert mean_steps == pytest.approx(12.0, abs=0.05)


def test_optimal_values_count_the_steps() -> None:
    q = optimal_q(np.array([[0.9, 2.0], [0.5, 0.0], [0.9, 2.99], [-0.999, -2.9]]))
    assert q[0] == pytest.approx([100, 100])
    # Nine steps, and not far from here eight: the values lie between those of the nodes.
    assert 100 * 0.75**8 <= q[1].max() <= 100 * 0.75**7
    assert q[2] == pytest.approx([100, 0])  # only braking keeps the limit
    assert q[3] == pytest.approx([0, 0])  # the car is lost
