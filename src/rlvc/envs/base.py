"""The base class of the paper's environments: episodes, checks of arguments, rendering."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, Space

from rlvc._core.arrays import Floats
from rlvc.data.images import Image
from rlvc.errors import unknown_name

Percept = TypeVar("Percept")
State = TypeVar("State", int, Floats)


class TaskEnv(gymnasium.Env[Percept, np.int64], Generic[Percept, State]):
    """An environment whose state is hidden from the agent, which perceives images of it.

    The ``info`` of ``reset`` and ``step`` holds the state. Truncation is left to a wrapper.

    Args:
        action_names: The name of each action.
        observation_space: The space of the percepts.
        render_mode: None, or ``rgb_array`` to have ``render`` draw the agent in its world.
    """

    state_name: ClassVar[str] = "state"
    """The key of the state in ``info``, and the option of ``reset`` that sets it."""

    def __init__(
        self, action_names: tuple[str, ...], observation_space: Space[Any], render_mode: str | None
    ) -> None:
        known = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in known:
            raise unknown_name("render mode", render_mode, known)
        self.render_mode = render_mode
        self.action_names = action_names
        self.action_space = Discrete(len(action_names))
        self.observation_space = observation_space
        self._state: State | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Percept, dict[str, Any]]:
        """Start an episode in a random state, or in the one that the options name."""
        super().reset(seed=seed)
        for option in options or {}:
            if option != self.state_name:
                raise unknown_name("reset option", option, [self.state_name])
        start = self._checked_start(options[self.state_name]) if options else self._random_start()
        self._state = start
        return self.percept(start), {self.state_name: copy(start)}

    def step(self, action: np.int64 | int) -> tuple[Percept, float, bool, bool, dict[str, Any]]:
        """Take an action, given by its number."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("Call reset before step.")
        if not self.action_space.contains(action):
            raise ValueError(
                f"action of {type(self).__name__} must be a whole number from 0 to "
                f"{len(self.action_names) - 1}; got {action!r}."
            )
        state, reward, terminated = self._act(self._state, int(action))
        self._state = state
        return self.percept(state), reward, terminated, False, {self.state_name: copy(state)}

    def render(self) -> Image | None:
        """Return a drawing of the agent in its world, shape (height, width, 3), or None."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render does nothing without a render mode; make the environment with "
                'render_mode="rgb_array".'
            )
            return None
        return self._draw(self._state)

    @abstractmethod
    def percept(self, state: State, /) -> Percept:
        """Return what the agent perceives in a state, as new arrays."""

    @abstractmethod
    def _checked_start(self, value: Any) -> State:
        """Return a state to start in, or raise a ValueError."""

    @abstractmethod
    def _random_start(self) -> State:
        """Return a random state to start in."""

    @abstractmethod
    def _act(self, state: State, action: int) -> tuple[State, float, bool]:
        """Return the next state, the reward, and whether the episode ends."""

    @abstractmethod
    def _draw(self, state: State | None) -> Image:
        """Return a drawing, without the agent before the first episode."""


def as_pair(value: object) -> Floats:
    """Return a pair of numbers as an array, or (NaN, NaN) if the value is not one."""
    try:
        pair = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full(2, np.nan)
    return pair if pair.shape == (2,) else np.full(2, np.nan)
