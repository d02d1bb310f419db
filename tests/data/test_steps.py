"""Environments that fail, and those that do not do as Gymnasium has it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from rlvc import RLVC, collect, evaluate
from rlvc.errors import EnvError, RlvcError
from rlvc.policies.evaluate import LONGEST
from tests.support.worlds import Always, Corridor


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
        (reward(None), r"The reward of the environment must be a finite number; got None\."),
        (reward("1.0x"), r"The reward of the environment must be a finite number; got '1\.0x'\."),
    ],
)  # fmt: skip
def test_the_step_that_went_wrong_is_told(fault: Any, message: str) -> None:
    for act in (
        lambda: collect(Faulty(fault), 50),
        lambda: RLVC().learn(Faulty(fault), interactions=50),
        lambda: evaluate(Always(0), Faulty(fault), episodes=9),
    ):
        with pytest.raises(EnvError, match=f"^{message}$"):
            act()
    assert issubclass(EnvError, RlvcError)  # the command line ends with 1, without a traceback


def test_a_reset_of_old_is_told() -> None:
    class Old(Corridor):
        def reset(self, **given: Any) -> Any:
            return super().reset(**given)[0]

    message = "reset of the environment must return (observation, info); got ndarray."
    with pytest.raises(EnvError, match=f"^{re.escape(message)}"):
        collect(Old(), 5)


def test_an_episode_without_end_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    class Endless(Corridor):
        def step(self, action: np.int64) -> Any:
            observation, *_, info = super().step(action)
            return observation, 0.0, False, False, info

    found = evaluate(Always(0), Endless(), episodes=2, max_steps=30)
    assert found.lengths.tolist() == [30, 30]
    assert not found.terminated.any()
    assert caplog.messages == [
        "2 of 2 episodes did not end within 30 steps and were truncated. Give the environment "
        "a limit, for example by gymnasium.wrappers.TimeLimit."
    ]
    assert LONGEST == 10_000
