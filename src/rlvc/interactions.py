"""The database of interactions ⟨s, a, r, s′⟩, and how to collect one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvc.percepts import Percepts


class Acts(Protocol):
    """Anything that predicts actions as Stable-Baselines3 does; a Policy does."""

    def predict(self, observation: Any) -> tuple[NDArray[np.int64], Any]:
        """Return the action for an observation, and a state."""
        ...


@dataclass(frozen=True, slots=True)
class Interactions:
    """N interactions in the order in which they happened; percepts are given by number.

    Attributes:
        percepts: The distinct percepts.
        start: (N,) number of the percept s_t.
        action: (N,) action a_t, counted from 0.
        reward: (N,) reinforcement r_{t+1}.
        end: (N,) number of the percept s_{t+1}.
        episode: (N,) number of the episode; interactions of one stand together.
        terminated: (N,) whether s_{t+1} is terminal.
        truncated: (N,) whether the episode was cut after s_{t+1}.
        n_actions: How many actions there are.
        action_start: The first action as the environment numbers them.
        action_names: How to call the actions, if they have names.
        state: (N, d) what direct perception would see of s_t, where it is known.
        next_state: (N, d) the same of s_{t+1}.
    """

    percepts: Percepts
    start: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    end: NDArray[np.int64]
    episode: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    n_actions: int
    action_start: int = 0
    action_names: tuple[str, ...] = ()
    state: NDArray[np.float64] | None = None
    next_state: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        n = len(self.start)
        if n == 0:
            raise ValueError("Interactions must hold at least one interaction; got none.")
        for name in ("action", "reward", "end", "episode", "terminated", "truncated"):
            if len(getattr(self, name)) != n:
                got = len(getattr(self, name))
                raise ValueError(f"{name} of Interactions must have {n} entries; got {got}.")
        if not np.isfinite(self.reward).all():
            row = int(np.flatnonzero(~np.isfinite(self.reward))[0])
            raise ValueError(
                f"reward of Interactions must be finite; got {self.reward[row]} in row {row}."
            )
        for name, limit in (
            ("action", self.n_actions),
            ("start", len(self.percepts)),
            ("end", len(self.percepts)),
        ):
            numbers = getattr(self, name)
            wrong = np.flatnonzero((numbers < 0) | (numbers >= limit))
            if len(wrong):
                raise ValueError(
                    f"{name} of Interactions must be in 0..{limit - 1}; "
                    f"got {numbers[wrong[0]]} in row {wrong[0]}."
                )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def is_last(self) -> NDArray[np.bool_]:
        """(N,) whether the next row does not continue the episode."""
        continues = np.zeros(len(self), np.bool_)
        continues[:-1] = self.episode[1:] == self.episode[:-1]
        return self.terminated | self.truncated | ~continues

    def returns(self, gamma: float) -> NDArray[np.float64]:
        """Return the (N,) discounted returns from each interaction to the end of its episode."""
        total = np.empty(len(self))
        ahead = 0.0
        for t, (reward, last) in enumerate(
            zip(self.reward[::-1].tolist(), self.is_last[::-1].tolist(), strict=True)
        ):
            ahead = reward + gamma * (0.0 if last else ahead)
            total[-1 - t] = ahead
        return total

    @classmethod
    def from_arrays(
        cls,
        observations: Any,
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike | None = None,
        *,
        n_actions: int | None = None,
        next_observations: Any,
    ) -> Interactions:
        """Make a database from one observation, action, reward and next observation per row.

        >>> image = np.arange(4 * 8 * 8, dtype=np.uint8).reshape(4, 8, 8)
        >>> Interactions.from_arrays(
        ...     image[:3], [0, 1, 0], [0, 0, 1], [False, False, True], next_observations=image[1:]
        ... ).end.tolist()
        [1, 2, 3]
        """
        percepts = Percepts()
        start = np.asarray([percepts.add(o) for o in observations], np.int64)
        end = np.asarray([percepts.add(o) for o in next_observations], np.int64)
        action = np.asarray(actions, np.int64)
        ends = np.asarray(terminated, np.bool_)
        cut = np.zeros(len(ends), np.bool_) if truncated is None else np.asarray(truncated, bool)
        episode = np.concatenate([[0], np.cumsum(ends | cut)[:-1]]).astype(np.int64)
        return cls(
            percepts, start, action, np.asarray(rewards, np.float64), end, episode[: len(start)],
            ends, cut, n_actions if n_actions is not None else int(action.max(initial=0)) + 1,
        )  # fmt: skip


def collect(
    env: gymnasium.Env[Any, Any],
    n: int,
    *,
    policy: Acts | None = None,
    epsilon: float = 1.0,
    seed: int = 0,
    state: str = "position",
    on_step: Callable[[int], None] | None = None,
) -> Interactions:
    """Interact ``n`` times with an environment and return the database.

    Args:
        env: Its observations are images (or dicts of images), its actions ``Discrete``.
        n: How many interactions to collect.
        policy: What to follow; without one every action is random.
        epsilon: The share of actions that are random all the same.
        seed: Of the environment and of the exploration.
        state: The entry of ``info`` that tells the true state, kept if it is there for the sake of
            comparison; the learner never sees it.
        on_step: Called with the number of interactions so far.
    """
    if n < 1:
        raise ValueError(f"n of collect must be at least 1; got {n}.")
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon of collect must be in [0, 1]; got {epsilon}.")
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise TypeError(
            f"The action space of the environment must be Discrete; got {space}. "
            "Wrap the environment so that it offers a list of actions."
        )
    rng = np.random.default_rng(seed)
    percepts = Percepts()
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    observation, info = env.reset(seed=seed)
    here, episode = percepts.add(observation), 0
    for t in range(n):
        if policy is None or rng.random() < epsilon:
            action = int(rng.integers(space.n))
        else:
            action = int(policy.predict(observation)[0]) - int(space.start)
        before = info.get(state)
        observation, reward, terminated, truncated, info = env.step(action + int(space.start))
        there = percepts.add(observation)
        truncated = truncated or (t == n - 1 and not terminated)
        row = (here, action, float(reward), there, episode, terminated, truncated, before, info.get(state))  # fmt: skip  # noqa: E501
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
        here = there
        if terminated or truncated:
            observation, info = env.reset()
            here, episode = percepts.add(observation), episode + 1
        if on_step is not None:
            on_step(t + 1)
    known = all(value is not None for value in columns["state"] + columns["next_state"])
    return Interactions(
        percepts=percepts,
        start=np.asarray(columns["start"], np.int64),
        action=np.asarray(columns["action"], np.int64),
        reward=np.asarray(columns["reward"], np.float64),
        end=np.asarray(columns["end"], np.int64),
        episode=np.asarray(columns["episode"], np.int64),
        terminated=np.asarray(columns["terminated"], np.bool_),
        truncated=np.asarray(columns["truncated"], np.bool_),
        n_actions=int(space.n),
        action_start=int(space.start),
        action_names=tuple(getattr(env.unwrapped, "action_names", ())),
        state=np.asarray(columns["state"], np.float64) if known else None,
        next_state=np.asarray(columns["next_state"], np.float64) if known else None,
    )


_COLUMNS = (
    "start", "action", "reward", "end", "episode", "terminated", "truncated", "state", "next_state",
)  # fmt: skip
