"""Small custom environments with many kinds of observations; importing this registers one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlvc import Interactions
from tests.support.builders import pictures

SIDE = 48
N_CELLS, GOAL = 5, 2
REAR = N_CELLS  # the picture behind the agent, which is always the same
PICTURES = pictures(N_CELLS + 1, seed=3, shape=(SIDE, SIDE, 3))
GREYS = PICTURES[..., 0].copy()
BEST = [1, 1, 0, 0, 0]  # what to do in each cell: right, or left

Image = NDArray[np.uint8]


def _speed(before: int, now: int) -> NDArray[np.float32]:
    return np.array([now - before], np.float32)


# What the agent perceives in a cell when it was in another one before.
KINDS: dict[str, Callable[[int, int], Any]] = {
    "colour": lambda before, now: PICTURES[now],
    "grey": lambda before, now: GREYS[now],
    "plane": lambda before, now: GREYS[now][:, :, None],
    "cameras": lambda before, now: {
        "front": PICTURES[now], "rear": GREYS[REAR], "speed": _speed(before, now),
    },
    "told": lambda before, now: {"image": PICTURES[now], "speed": _speed(before, now)},
    "first": lambda before, now: GREYS[[before, now]],
    "first colour": lambda before, now: PICTURES[[before, now]],
    "last": lambda before, now: np.moveaxis(GREYS[[before, now]], 0, 2),
    "last colour": lambda before, now: np.concatenate([PICTURES[before], PICTURES[now]], axis=2),
    "nested": lambda before, now: {
        "front": PICTURES[[before, now]], "rear": GREYS[[before, now]],
        "speed": _speed(before, now),
    },
    "vector": lambda before, now: _speed(before, now),
}  # fmt: skip


def space_of(observation: Any) -> spaces.Space[Any]:
    """Return a space of such observations."""
    if isinstance(observation, dict):
        return spaces.Dict({name: space_of(part) for name, part in observation.items()})
    if observation.dtype == np.uint8:
        return spaces.Box(0, 255, observation.shape, np.uint8)
    return spaces.Box(-GOAL, GOAL, observation.shape, observation.dtype)


class Corridor(gymnasium.Env[Any, np.int64]):
    """Cells in a row, of which the one in the middle is the goal; actions are left and right.

    Args:
        kind: What is perceived; see ``KINDS``.
        start: The number of the first action.
        limit: After how many steps an episode is cut off.
        render_mode: None, or ``rgb_array``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - as Gymnasium's
    action_names = ("left", "right")

    def __init__(
        self,
        *,
        kind: str = "colour",
        start: int = 0,
        limit: int = 12,
        render_mode: str | None = None,
    ) -> None:
        self._look = KINDS[kind]
        self.observation_space = space_of(self._look(0, 0))
        self.action_space: Any = spaces.Discrete(2, start=start)
        self.render_mode = render_mode
        self._first, self._limit = start, limit
        self._before = self._cell = self._t = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._before = self._cell = int(self.np_random.choice([0, 1, 3, 4]))
        self._t = 0
        return self._look(self._before, self._cell), {}

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        go = 1 if int(action) - self._first else -1
        self._before, self._cell = self._cell, min(max(0, self._cell + go), N_CELLS - 1)
        self._t += 1
        is_there = self._cell == GOAL
        is_late = self._t >= self._limit and not is_there
        seen = self._look(self._before, self._cell)
        return seen, float(is_there), is_there, is_late, {"is_success": is_there}

    def render(self) -> Any:
        return np.kron(PICTURES[self._cell], np.ones((2, 2, 1), np.uint8))


WALK = pictures(6, shape=(64, 64, 3))


class Walk(gymnasium.Env[Any, np.int64]):
    """A walk on five pictures to the last one. Actions: ``start`` is left, the next is right."""

    def __init__(self, *, start: int = 0, is_dict: bool = False, limit: int = 30) -> None:
        image = spaces.Box(0, 255, (64, 64, 3), np.uint8)
        self.observation_space: spaces.Space[Any] = (
            spaces.Dict({"front": image, "rear": image}) if is_dict else image
        )
        self.action_space = spaces.Discrete(2, start=start)
        self.action_names = ("left", "right")
        self.first, self.is_dict, self.limit = start, is_dict, limit
        self.actions: list[int] = []

    def look(self) -> tuple[Any, dict[str, Any]]:
        image = WALK[self.cell]
        observation = {"front": image, "rear": WALK[5]} if self.is_dict else image
        return observation, {"cell": np.array([self.cell], np.float64)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell, self.t = int(self.np_random.integers(0, 4)), 0
        return self.look()

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.actions.append(int(action))
        right = int(action) - self.first
        self.cell = max(0, self.cell + (1 if right else -1))
        self.t += 1
        terminated = self.cell == 4
        observation, info = self.look()
        cut = self.t >= self.limit and not terminated
        return observation, 1.0 if terminated else 0.0, terminated, cut, info


class Always:
    """A policy that takes one action, and remembers what it was shown."""

    def __init__(self, action: int) -> None:
        self.action = action
        self.seen: list[Any] = []

    def predict(self, observation: Any) -> tuple[NDArray[np.int64], Any]:
        self.seen.append(observation)
        return np.asarray(self.action), None


Script = tuple[list[float], bool, dict[str, Any]]  # rewards, whether the end is terminal, and info


class Scripted(gymnasium.Env[Any, np.int64]):
    """Episodes whose rewards and ends are given; action 1 doubles the rewards.

    The picture is that of the step, or the last one.
    """

    def __init__(self, episodes: list[Script]) -> None:
        self.observation_space = spaces.Box(0, 255, PICTURES[0].shape, np.uint8)
        self.action_space = spaces.Discrete(2)
        self.episodes, self.number = episodes, -1
        self.seeds: list[int | None] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.number, self.t = self.number + 1, 0
        return PICTURES[0], {"is_success": True}  # to be ignored

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        rewards, is_ended, info = self.episodes[self.number]
        reward = rewards[self.t] * (1 + int(action))
        self.t += 1
        is_over = self.t == len(rewards)
        seen = PICTURES[min(self.t, N_CELLS)]
        return seen, reward, is_over and is_ended, is_over and not is_ended, info


class Fixed(Scripted):
    """Episodes of a known length, which earn 1 in each step."""

    def __init__(self, length: int = 3, *, is_cut: bool = False) -> None:
        super().__init__([([1.0] * length, not is_cut, {})] * 100)

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return super().step(np.int64(0))


def tried(data: Interactions) -> NDArray[np.int64]:
    """Return how often each action was tried in each percept."""
    count = np.zeros((len(data.percepts), data.n_actions), np.int64)
    np.add.at(count, (data.start, data.action), 1)
    return count


gymnasium.register("Corridor-v0", "tests.support.worlds:Corridor")


def identical(one: Interactions, other: Interactions) -> bool:
    """Tell whether two databases hold the same, to the bit and in the same order."""
    columns = ("start", "action", "reward", "end", "episode", "terminated", "truncated")
    facts = ("n_actions", "action_start", "action_names")
    return (
        all(getattr(one, name) == getattr(other, name) for name in facts)
        and all(_same(getattr(one, name), getattr(other, name)) for name in columns)
        and one.percepts.cameras == other.percepts.cameras
        and _same(one.percepts.table(), other.percepts.table())
        and all(
            len(a) == len(b) and all(_same(a[number], b[number]) for number in range(len(a)))
            for a, b in zip(one.percepts.images, other.percepts.images, strict=True)
        )
    )


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
