"""How an environment is acted in: what it must give back, and what is said if it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium

from rlvc.data.validation import LARGE, SMALL
from rlvc.errors import EnvError, StoppedError

Env = gymnasium.Env[Any, Any]


def reset(env: Env, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Return the first observation of an episode, and the info that comes with it."""
    with _failing("reset"):
        given = env.reset(seed=seed)
    if not isinstance(given, tuple) or len(given) != 2:
        raise EnvError(
            "reset of the environment must return (observation, info); got "
            f"{_shape(given)}. Gymnasium has had it so since 0.26."
        )
    return given


def step(env: Env, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Return the next observation, the reward, whether the episode ended or was cut, and the info.

    Raises:
        EnvError: The environment failed, or returned something else.
    """
    with _failing(f"step, after action {action}"):
        given: Any = env.step(action)
    if not isinstance(given, tuple) or len(given) != 5:
        raise EnvError(
            "step of the environment must return (observation, reward, terminated, truncated, "
            f"info); got {_shape(given)}. Gymnasium has had it so since 0.26."
        )
    observation, reward, terminated, truncated, info = given
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise EnvError(f"The reward of the environment must be a finite number; got {reward!r}.")
    if number and not SMALL <= abs(number) <= LARGE:
        raise EnvError(
            "The reward of the environment must be 0 or between 1e-100 and 1e100 in size; got "
            f"{reward!r}. Scale the rewards: policies do not change."
        )
    return observation, number, bool(terminated), bool(truncated), info


@contextmanager
def _failing(where: str) -> Iterator[None]:
    """Say that it was the environment that failed, and where."""
    try:
        yield
    except StoppedError:  # somebody pressed Ctrl-C meanwhile
        raise
    except Exception as error:
        raise EnvError(
            f"The environment failed in {where}: {type(error).__name__}: {error}"
        ) from error


def _shape(given: Any) -> str:
    return f"{len(given)} values" if isinstance(given, tuple) else type(given).__name__
