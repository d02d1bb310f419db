from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from rlvc import RLVC, Interactions, Round, explore
from rlvc.data import ExplorationCallback
from tests.support.worlds import PICTURES, Always, Corridor, Fixed, identical, tried


def right(met: Interactions) -> Always:
    """Learn to go right, whatever happened."""
    return Always(1)


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
            callback=ExplorationCallback(
                on_round=lambda number, n: begun.append((number, n)),
                on_step=lambda: steps.update([len(begun)]),
            ),
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


def test_the_policy_is_asked_once_a_round_in_each_percept() -> None:
    policy = Always(1)
    *_, last = explore(Corridor(), lambda met: policy, interactions=90, rounds=2, epsilon=0.0)
    met = last.interactions
    assert (met.action[45:] == 1).all()
    assert len(policy.seen) == len(np.unique(met.start[45:])) < 45


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
        *(
            ({"rounds": rounds}, "rounds of learn must be at least 1, and no more than the 20 "
             f"interactions; got {rounds}.")
            for rounds in (0, 21)
        ),
        ({"rounds": 2, "epsilon": 1.5}, "epsilon of learn must be in [0, 1]; got 1.5."),
        ({"rounds": 2, "epsilon": -0.1}, "epsilon of learn must be in [0, 1]; got -0.1."),
        ({"rounds": 2, "seed": -1}, "seed of collect must be a whole number, at least 0; got -1."),
    ],
)  # fmt: skip
def test_wrong_parameters_are_explained(given: dict[str, Any], message: str) -> None:
    message = f"^{re.escape(message)}$"
    with pytest.raises(ValueError, match=message):
        list(explore(Corridor(), right, interactions=20, **given))
    with pytest.raises(ValueError, match=message):
        RLVC().learn(Corridor(), interactions=20, **given)


def test_a_learner_learns_in_rounds() -> None:
    learner = RLVC(gamma=0.5, threads=1)
    policy = learner.learn(Corridor(start=3), interactions=200, rounds=3, epsilon=0.2, seed=6)
    rounds: list[Round[Any]] = list(
        explore(Corridor(start=3), learner.learn, interactions=200, rounds=3, epsilon=0.2, seed=6)
    )
    assert np.array_equal(policy.q, rounds[-1].policy.q)
    assert policy.predict(PICTURES[:2])[0].tolist() == [4, 4]
