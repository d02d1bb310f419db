from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlvc import RLVC, collect, evaluate
from rlvc.data import Explorer
from rlvc.data.spaces import names_of_actions
from rlvc.errors import EnvError, RlvcError
from tests.support.worlds import WALK, Always, Corridor, Fixed, Walk, identical, tried

# Interacting more and more -----------------------------------------------------------------------


def test_an_explorer_keeps_its_interactions() -> None:
    explorer, calls = Explorer(Corridor(), seed=4), list[int]()
    first = explorer.collect(50)
    kept = [column.copy() for column in (first.start, first.action, first.end, first.episode)]
    both = explorer.collect(30, on_step=lambda: calls.append(1))
    assert (len(first), len(both), len(calls)) == (50, 80, 30)
    for before, column in zip(kept, (both.start, both.action, both.end, both.episode), strict=True):
        assert np.array_equal(before, column[:50])
    assert both.is_last[49]
    assert both.episode[50] == both.episode[49] + 1
    assert (both.terminated | both.truncated)[[49, 79]].all()
    assert identical(first, collect(Corridor(), 50, seed=4))


@pytest.mark.parametrize("curious", [False, True])
def test_the_seed_decides(curious: bool) -> None:
    one, same, other = (
        Explorer(Corridor(), seed=seed).collect(120, curious=curious) for seed in (1, 1, 2)
    )
    assert identical(one, same)
    assert not np.array_equal(one.action, other.action)


def test_the_environment_is_seeded_once_in_a_round() -> None:
    env = Fixed()
    explorer = Explorer(env, seed=9)
    explorer.collect(10)
    explorer.collect(4)
    first = env.seeds.index(None, 1)
    (second,) = [n for n, seed in enumerate(env.seeds) if n and seed is not None]
    assert env.seeds[0] == 9
    assert env.seeds[second] != 9
    assert first == 1
    assert len(env.seeds) == 6


def test_a_round_can_be_restored_without_the_environment() -> None:
    through = Explorer(Corridor(), seed=3)
    through.collect(30)
    second = through.collect(20, curious=True)
    last = through.collect(20, policy=Always(1), epsilon=0.5, curious=True)

    stopped = Explorer(Corridor(), seed=3)
    stopped.collect(30)
    first = stopped.last_round(30)
    stopped.collect(20, curious=True)
    parts = first, stopped.last_round(20)
    steps = list[int]()
    resumed = Explorer(Corridor(), seed=3)
    for part in parts:
        restored = resumed.restore(part, lambda: steps.append(1))
    again = resumed.collect(20, policy=Always(1), epsilon=0.5, curious=True)
    assert len(steps) == 50
    for one, other in ((second, restored), (last, again)):
        for name in ("start", "action", "reward", "end", "episode", "terminated", "truncated"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert np.array_equal(one.percepts.table(), other.percepts.table())
        for a, b in zip(one.percepts, other.percepts, strict=True):
            assert np.array_equal(np.asarray(a), np.asarray(b))


def test_curiosity_tries_everything_as_often_in_every_percept() -> None:
    explorer = Explorer(Corridor(), seed=0)
    for n in (1, 2, 60, 137):
        count = tried(explorer.collect(n, curious=True))
        assert (np.ptp(count, axis=1) <= 1).all()
    plain = tried(collect(Corridor(), 200, seed=0))
    assert np.ptp(plain, axis=1).max() > 1


def test_curiosity_makes_up_for_a_policy() -> None:
    explorer = Explorer(Corridor(), seed=0)
    explorer.collect(300, policy=Always(1), epsilon=0.0)
    assert tried(explorer.collect(40, policy=Always(1), epsilon=0.0))[:, 0].sum() == 0
    count = tried(explorer.collect(60, curious=True))
    assert count[:, 0].sum() >= 40  # most of these went left, as never before


# The names of actions ----------------------------------------------------------------------------


class Moves(IntEnum):
    right = 1
    left = 0


class Bare(Corridor):
    """The corridor without names."""

    action_names = None  # type: ignore[assignment]


def test_names_come_from_wherever_they_are() -> None:
    assert names_of_actions(Corridor()) == ("left", "right")
    env: Any = Bare()
    assert names_of_actions(env) == ()
    env.actions = Moves
    assert names_of_actions(env) == ("left", "right")
    env.get_action_meanings = lambda: ["NOOP", "FIRE"]
    assert names_of_actions(env) == ("NOOP", "FIRE")
    env.action_names = ("a", "b")
    assert names_of_actions(env) == ("a", "b")
    assert names_of_actions(gymnasium.wrappers.TimeLimit(env, 3)) == ("a", "b")


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c"), "ab", 7, {"a": 0, "b": 1}])
def test_names_that_do_not_fit_are_left_out(names: Any) -> None:
    env: Any = Bare()
    env.action_names = names
    assert names_of_actions(env) == ()
    assert collect(env, 3).action_names == ()


def test_actions_that_are_not_listed_have_no_names() -> None:
    env = Corridor()
    env.action_space = spaces.Box(-1.0, 1.0, (2,))
    assert names_of_actions(env) == ()


@pytest.mark.parametrize("start", [0, 3, -2])
def test_collect_records_what_happened(start: int) -> None:
    env = Walk(start=start, limit=7)
    data = collect(env, 300, seed=5, state="cell")
    assert len(data) == 300
    assert (data.n_actions, data.action_start) == (2, start)
    assert data.action_names == ("left", "right")
    assert (data.action + start).tolist() == env.actions
    assert set(data.action.tolist()) == {0, 1}
    assert data.state is not None
    assert data.next_state is not None
    cell, after = data.state[:, 0].astype(int), data.next_state[:, 0].astype(int)
    assert np.array_equal(after, np.maximum(0, cell + np.where(data.action, 1, -1)))
    for t in range(300):
        assert np.array_equal(np.asarray(data.percepts[int(data.start[t])]), WALK[cell[t]])
        assert np.array_equal(np.asarray(data.percepts[int(data.end[t])]), WALK[after[t]])
    assert len(data.percepts) == 5
    assert np.array_equal(data.terminated, after == 4)
    assert np.array_equal(data.reward, data.terminated.astype(float))
    assert data.is_last[-1]
    assert not (data.terminated & data.truncated).any()
    goes_on = ~data.is_last[:-1]
    assert np.array_equal(data.end[:-1][goes_on], data.start[1:][goes_on])
    assert np.array_equal(np.diff(data.episode), data.is_last[:-1].astype(int))
    assert np.bincount(data.episode).max() == 7


def test_the_last_interaction_brings_no_percept_that_is_not_used() -> None:
    for n in range(1, 30):
        data = collect(Walk(limit=3), n, seed=n)
        assert set(data.start.tolist()) | set(data.end.tolist()) == set(range(len(data.percepts)))


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize(
    ("epsilon", "low", "high"),
    [(0.0, 0, 0), (None, 0.01, 0.1), (0.5, 0.2, 0.3), (1.0, 0.4, 0.6)],
)
def test_exploration_around_a_policy(
    start: int, epsilon: float | None, low: float, high: float
) -> None:
    policy = Always(start + 1)
    data = collect(Walk(start=start), 1000, policy=policy, epsilon=epsilon, seed=3)
    share = float(np.mean(data.action != 1))
    assert low <= share <= high
    random = 0.1 if epsilon is None else epsilon
    assert len(policy.seen) == pytest.approx(1000 * (1 - random), abs=60)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 0}, r"^n of collect must be at least 1; got 0\.$"),
        ({"epsilon": 1.5}, r"^epsilon of collect must be in \[0, 1\]; got 1\.5\.$"),
        *(
            ({"seed": seed}, rf"^seed of collect must be a whole number, at least 0; got {seed}\.$")
            for seed in (-1, None, 1.5)
        ),
    ],
)
def test_wrong_parameters_are_explained(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        collect(Walk(), **({"n": 1} | given))


class Faulty(Corridor):
    """A world that goes wrong in its third step, in one way or another."""

    def __init__(self, fault: Any) -> None:
        super().__init__()
        self.fault, self.steps = fault, 0

    def step(self, action: np.int64) -> Any:
        self.steps += 1
        given = super().step(action)
        return self.fault(given) if self.steps == 3 else given


def fail(given: Any) -> Any:
    raise KeyError("map")


def reward(value: Any) -> Any:
    return lambda given: (given[0], value, *given[2:])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (fail, r"The environment failed in step, after action \d: KeyError: 'map'"),
        (
            lambda given: given[:4],
            r"step of the environment must return \(observation, reward, terminated, truncated, "
            r"info\); got 4 values\. Gymnasium has required this since 0\.26\.",
        ),
        (reward(np.nan), r"The reward of the environment must be a finite number; got nan\."),
        (reward(-np.inf), r"The reward of the environment must be a finite number; got -inf\."),
        (reward(None), r"The reward of the environment must be a finite number; got None\."),
        (reward("1.0x"), r"The reward of the environment must be a finite number; got '1\.0x'\."),
        (
            reward(-1e300),
            r"The reward of the environment must be 0 or between 1e-100 and 1e100 in size; got "
            r"-1e\+300\. Scale the rewards: policies do not change\.",
        ),
    ],
)  # fmt: skip
def test_a_step_that_fails_is_reported(fault: Any, message: str) -> None:
    uses: list[Callable[[Faulty], Any]] = [
        lambda env: collect(env, 50),
        lambda env: RLVC().learn(env, interactions=50),
        lambda env: evaluate(Always(0), env, episodes=9),
    ]
    for use in uses:
        env = Faulty(fault)
        with pytest.raises(EnvError, match=f"^{message}$"):
            use(env)
        assert env.steps == 3
    assert issubclass(EnvError, RlvcError)  # the command line ends with 1, without a traceback


def test_a_reset_of_the_old_api_is_reported() -> None:
    class Old(Corridor):
        def reset(self, **given: Any) -> Any:
            return super().reset(**given)[0]

    message = "reset of the environment must return (observation, info); got ndarray."
    with pytest.raises(EnvError, match=f"^{re.escape(message)}"):
        collect(Old(), 5)
