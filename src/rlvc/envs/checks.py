"""Checks of arguments that all environments share."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.spaces import Discrete

from rlvc.errors import unknown_name


def check_render_mode(env: gymnasium.Env[Any, Any], mode: str | None) -> None:
    """Raise an error unless a mode is None or one that the environment has."""
    known = env.metadata["render_modes"]
    if mode is not None and mode not in known:
        raise unknown_name("render mode", mode, known)


def warn_of_no_render_mode() -> None:
    """Warn that ``render`` does nothing without a render mode."""
    gymnasium.logger.warn(
        "render does nothing without a render mode; make the environment with "
        'render_mode="rgb_array".'
    )


def check_options(options: dict[str, Any] | None, known: str) -> None:
    """Raise an error if ``reset`` gets any option but the known one."""
    for option in options or {}:
        if option != known:
            raise unknown_name("reset option", option, [known])


def check_step(env: gymnasium.Env[Any, Any], action: object, *, has_begun: bool) -> None:
    """Raise an error unless an episode has begun and the environment has the action."""
    if not has_begun:
        raise gymnasium.error.ResetNeeded("Call reset before step.")
    space = env.action_space
    assert isinstance(space, Discrete)
    if not space.contains(action):
        raise ValueError(
            f"action of {type(env).__name__} must be a whole number from 0 to {space.n - 1}; "
            f"got {action!r}."
        )
