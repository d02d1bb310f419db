from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, collect
from rlvc.data.collect import Explorer, names_of_actions
from rlvc.data.explore import CachedPolicy, Round, explore
from tests.support.worlds import GREYS, PICTURES, REAR, Always, Corridor, identical


class Fixed(gymnasium.Env[Any, np.int64]):
    """Episodes of a known length, which earn 1 in each step; the picture is that of the step."""

    def __init__(self, length: int = 3, *, is_cut: bool = False) -> None:
        self.observation_space = spaces.Box(0, 255, PICTURES[0].shape, np.uint8)
        self.action_space = spaces.Discrete(2)
        self.length, self.is_cut = length, is_cut
        self.seeds: list[int | None] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.t = 0
        return PICTURES[0], {}

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        is_over = self.t == self.length
        return PICTURES[self.t], 1.0, is_over and not self.is_cut, is_over and self.is_cut, {}


def tried(data: Interactions) -> NDArray[np.int64]:
    """Return how often each action was tried in each percept."""
    count = np.zeros((len(data.percepts), data.n_actions), np.int64)
    np.add.at(count, (data.start, data.action), 1)
    return count


def right(met: Interactions) -> Always:
    """Learn to go right, whatever happened."""
    return Always(1)


# Interacting more and more -----------------------------------------------------------------------


def test_an_explorer_keeps_what_it_met() -> None:
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


# Rounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interactions", "rounds", "sizes"),
    [(10, 3, [5, 2, 3]), (100, 4, [50, 16, 17, 17]), (5, 5, [1] * 5), (17, 1, [17])],
)
def test_half_of_the_interactions_are_random_and_the_rounds_share_the_others(
    interactions: int, rounds: int, sizes: list[int]
) -> None:
    begun, steps, learned = list[tuple[int, int]](), Counter[int](), list[int]()

    def learn(met: Interactions) -> Always:
        learned.append(len(met))
        return Always(1)

    found = list(
        explore(
            Corridor(), learn, interactions=interactions, rounds=rounds,
            on_round=lambda number, n: begun.append((number, n)),
            on_step=lambda: steps.update([len(begun)]),
        )
    )  # fmt: skip
    numbers = list(range(1, rounds + 1))
    assert begun == list(zip(numbers, sizes, strict=True))
    assert [steps[number] for number in numbers] == sizes
    assert [one.number for one in found] == numbers
    assert learned == [len(one.interactions) for one in found] == np.cumsum(sizes).tolist()
    assert len({id(one.policy) for one in found}) == rounds


def test_the_first_round_is_random_and_the_others_follow_the_policy() -> None:
    first, *others = explore(Corridor(), right, interactions=4000, rounds=3, epsilon=0.3, seed=1)
    assert (np.ptp(tried(first.interactions), axis=1) <= 1).all()
    for one in others:
        action = one.interactions.action[1000 * one.number :]
        assert 0.25 <= np.mean(action == 0) <= 0.35  # random ones are those that it neglects
    greedy = list(explore(Corridor(), right, interactions=200, rounds=2, epsilon=0.0))[-1]
    assert (greedy.interactions.action[100:] == 1).all()
    random = list(explore(Corridor(), right, interactions=200, rounds=2, epsilon=1.0))[-1]
    assert (np.ptp(tried(random.interactions), axis=1) <= 1).all()


def test_rounds_begin_alike() -> None:
    """What a later round adds does not change what an earlier one learned from."""
    rounds = list(explore(Corridor(), right, interactions=90, rounds=3, seed=5))
    again = list(explore(Corridor(), right, interactions=90, rounds=3, seed=5))
    for one, other in zip(rounds, again, strict=True):
        assert identical(one.interactions, other.interactions)
    last = rounds[-1].interactions
    for one in rounds:
        assert np.array_equal(one.interactions.action, last.action[: len(one.interactions)])


def test_the_policy_gets_better_from_round_to_round() -> None:
    learner = RLVC(gamma=0.5, threads=1)
    rounds = list(explore(Corridor(), learner.learn, interactions=300, rounds=3, epsilon=0.1))
    assert rounds[-1].lengths.mean() < 0.7 * rounds[0].lengths.mean()
    assert [int(rounds[-1].policy.predict(PICTURES[i])[0]) for i in (0, 1, 3, 4)] == [1, 1, 0, 0]


@pytest.mark.parametrize("is_cut", [False, True])
def test_the_returns_of_a_round_leave_out_what_was_cut(is_cut: bool) -> None:
    env = Fixed(3, is_cut=is_cut)
    rounds = list(explore(env, right, interactions=44, rounds=3))  # then 11 each: 3 + 3 + 3 + 2
    for one in rounds[1:]:
        assert one.returns.tolist() == [3.0, 3.0, 3.0]
        assert one.lengths.tolist() == [3, 3, 3]
        assert (str(one.returns.dtype), str(one.lengths.dtype)) == ("float64", "int64")
    whole = list(explore(Fixed(3, is_cut=is_cut), right, interactions=18, rounds=2))
    assert [len(one.returns) for one in whole] == ([2, 2] if is_cut else [3, 3])


def test_a_round_without_an_end_has_no_returns() -> None:
    for one in explore(Fixed(5), right, interactions=8, rounds=2):
        assert (len(one.returns), len(one.lengths)) == (0, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"rounds": 0},
            r"^rounds of learn must be at least 1, and no more than the 20 interactions; got 0\.$",
        ),
        (
            {"rounds": 21},
            r"^rounds of learn must be at least 1, and no more than the 20 interactions; got 21\.$",
        ),
        ({"rounds": 2, "epsilon": 1.5}, r"^epsilon of learn must be in \[0, 1\]; got 1\.5\.$"),
        ({"rounds": 2, "epsilon": -0.1}, r"^epsilon of learn must be in \[0, 1\]; got -0\.1\.$"),
        (
            {"rounds": 2, "seed": -1},
            r"^seed of collect must be a whole number, at least 0; got -1\.$",
        ),
    ],
)
def test_wrong_parameters_are_explained(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(explore(Corridor(), right, interactions=20, **given))
    with pytest.raises(ValueError, match=message):
        RLVC().learn(Corridor(), interactions=20, **given)


def test_a_learner_takes_what_its_rounds_teach() -> None:
    learner = RLVC(gamma=0.5, threads=1)
    policy = learner.learn(Corridor(start=3), interactions=200, rounds=3, epsilon=0.2, seed=6)
    rounds: list[Round[Any]] = list(
        explore(Corridor(start=3), learner.learn, interactions=200, rounds=3, epsilon=0.2, seed=6)
    )
    assert np.array_equal(policy.q, rounds[-1].policy.q)
    assert policy.predict(PICTURES[:2])[0].tolist() == [4, 4]


# A policy that looks once ------------------------------------------------------------------------


def test_the_same_percept_is_looked_at_once() -> None:
    inner = Always(1)
    steady = CachedPolicy(inner)
    for picture in [*PICTURES, *PICTURES]:
        assert int(steady.predict(picture.copy())[0]) == 1
    assert len(inner.seen) == len(PICTURES)


def test_what_is_no_image_does_not_make_another_percept() -> None:
    inner = Always(1)
    steady = CachedPolicy(inner)
    for speed in range(5):
        rear = np.asfortranarray(GREYS[REAR])
        steady.predict({"speed": np.float32(speed), "rear": rear, "front": PICTURES[0]})
    steady.predict({"front": PICTURES[1], "rear": GREYS[REAR]})
    assert len(inner.seen) == 2


def test_a_steady_policy_does_what_it_did_before() -> None:
    policy = RLVC(gamma=0.5, threads=1).learn(collect(Corridor(kind="first"), 200))
    steady, env = CachedPolicy(policy), Corridor(kind="first")
    for seed in range(6):
        observation, _ = env.reset(seed=seed)
        for _ in range(3):
            action, state = steady.predict(observation)
            assert (int(action), state) == (int(policy.predict(observation)[0]), None)
            observation, *_ = env.step(np.int64(action))


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
