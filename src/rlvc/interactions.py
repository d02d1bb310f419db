"""The database of interactions ⟨s, a, r, s′⟩, and how to collect one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
            shape = np.shape(getattr(self, name))
            if shape != (n,):
                got = shape[0] if len(shape) == 1 else f"shape {shape}"
                raise ValueError(f"{name} of Interactions must have {n} entries; got {got}.")
        if not np.isfinite(self.reward).all():
            row = int(np.flatnonzero(~np.isfinite(self.reward))[0])
            raise ValueError(
                f"reward of Interactions must be finite; got {self.reward[row]} in row {row}."
            )
        size = np.abs(self.reward[self.reward != 0])
        if len(size) and (size.max() > 1e100 or size.min() < 1e-100):
            raise ValueError(
                "reward of Interactions must be 0 or between 1e-100 and 1e100 in size; got "
                f"{size.min():g} to {size.max():g}. Scale the rewards: policies do not change."
            )
        if self.action_names and len(self.action_names) != self.n_actions:
            raise ValueError(
                f"action_names of Interactions must name {self.n_actions} actions; "
                f"got {len(self.action_names)}."
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
        continues[:-1] = (self.episode[1:] == self.episode[:-1]) & (self.start[1:] == self.end[:-1])
        return self.terminated | self.truncated | ~continues

    @property
    def is_stuck(self) -> NDArray[np.bool_]:
        """(N,) whether that action, in that very percept, never led to another percept.

        A policy that acts by what it perceives now then repeats it for ever. Where chance lets a
        later try through, the pair was seen to move, and it is not stuck.

        >>> image = np.zeros((2, 4, 4, 3), np.uint8)
        >>> image[1] = 1
        >>> data = Interactions.from_arrays(
        ...     image[[0, 0, 0]], [0, 1, 1], [0.0, 0, 0], [False, False, False],
        ...     next_observations=image[[0, 0, 1]],
        ... )
        >>> data.is_stuck.tolist()
        [True, False, False]
        """
        pair = self.start * self.n_actions + self.action
        moves = (self.start != self.end) | self.terminated
        return np.asarray(np.bincount(pair, moves)[pair] == 0)

    def of_episodes(self, numbers: ArrayLike) -> tuple[Interactions, NDArray[np.int64]]:
        """Return the interactions of some episodes, in their order, and which percepts they have.

        These percepts are numbered anew, in the order of the numbers that they have here.

        >>> image = np.arange(4 * 8 * 8, dtype=np.uint8).reshape(4, 8, 8)
        >>> data = Interactions.from_arrays(
        ...     image[:3], [0, 1, 0], [0, 0, 1], [False, True, True], next_observations=image[1:]
        ... )
        >>> part, percepts = data.of_episodes([1])
        >>> data.episode.tolist(), part.start.tolist(), part.end.tolist(), percepts.tolist()
        ([0, 0, 1], [0], [1], [2, 3])
        """
        rows = np.flatnonzero(np.isin(self.episode, numbers))
        percepts = np.unique([self.start[rows], self.end[rows]])
        columns = ("action", "reward", "episode", "terminated", "truncated")
        part = replace(
            self,
            percepts=self.percepts.take(percepts),
            start=np.searchsorted(percepts, self.start[rows]),
            end=np.searchsorted(percepts, self.end[rows]),
            **{name: getattr(self, name)[rows] for name in columns},
            state=None if self.state is None else self.state[rows],
            next_state=None if self.next_state is None else self.next_state[rows],
        )
        return part, percepts

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
        next_observations: Any,
        n_actions: int | None = None,
        action_start: int = 0,
        action_names: tuple[str, ...] = (),
    ) -> Interactions:
        """Make a database from one observation, action, reward and next observation per row.

        Percepts are numbered as they are met: the start of a row, its end, the next row. Actions
        are counted from ``action_start``; an episode ends where a row is terminated or truncated.

        >>> image = np.arange(4 * 8 * 8, dtype=np.uint8).reshape(4, 8, 8)
        >>> Interactions.from_arrays(
        ...     image[:3], [0, 1, 0], [0, 0, 1], [False, False, True], next_observations=image[1:]
        ... ).end.tolist()
        [1, 2, 3]
        """
        percepts = Percepts()
        pairs = [
            (percepts.add(start), percepts.add(end))
            for start, end in zip(observations, next_observations, strict=True)
        ]
        start, end = np.asarray(pairs, np.int64).reshape(-1, 2).T
        given = np.asarray(actions)
        if given.size and given.dtype.kind not in "biu":
            raise TypeError(
                f"actions of from_arrays must be integers; got {given.dtype}. "
                "Number the actions that were taken."
            )
        action = given.astype(np.int64) - action_start
        ends = np.asarray(terminated, np.bool_)
        cut = np.zeros_like(ends) if truncated is None else np.asarray(truncated, bool)
        return cls(
            percepts=percepts,
            start=start,
            action=action,
            reward=np.asarray(rewards, np.float64),
            end=end,
            episode=np.cumsum(ends | cut, axis=0) - (ends | cut),
            terminated=ends,
            truncated=cut,
            n_actions=int(action.max(initial=0)) + 1 if n_actions is None else n_actions,
            action_start=action_start,
            action_names=action_names,
        )


def collect(
    env: gymnasium.Env[Any, Any],
    n: int,
    *,
    policy: Acts | None = None,
    epsilon: float | None = None,
    seed: int = 0,
    state: str | None = None,
    on_step: Callable[[], None] | None = None,
) -> Interactions:
    """Interact ``n`` times with an environment and return the database.

    Args:
        env: Its observations are images (or dicts of images), its actions ``Discrete``.
        n: How many interactions to collect.
        policy: What to follow; without one every action is random.
        epsilon: The share of actions that are random all the same; 0.1 unless given.
        seed: Of the environment and of the exploration.
        state: The entry of ``info`` that tells the true state, to be kept for the sake of
            comparison; the learner never sees it.
        on_step: Called after each interaction.
    """
    if n < 1:
        raise ValueError(f"n of collect must be at least 1; got {n}.")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed of collect must be a whole number, at least 0; got {seed!r}.")
    epsilon = 0.1 if epsilon is None else epsilon
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon of collect must be in [0, 1]; got {epsilon}.")
    space = _discrete(env)
    rng = np.random.default_rng([seed, 1])  # the environment draws from the seed itself
    percepts = Percepts()
    rows: list[tuple[Any, ...]] = []
    states: list[tuple[Any, Any]] = []
    observation, info = env.reset(seed=int(seed))
    here, episode = percepts.add(observation), 0
    for t in range(n):
        before = info
        if policy is None or rng.random() < epsilon:
            action = int(rng.integers(space.n))
        else:
            action = int(policy.predict(observation)[0]) - int(space.start)
        observation, reward, terminated, truncated, info = env.step(action + int(space.start))
        there = percepts.add(observation)
        truncated = truncated or (t == n - 1 and not terminated)
        rows.append((here, action, float(reward), there, episode, terminated, truncated))
        if state is not None:
            states.append((_entry(before, state), _entry(info, state)))
        here = there
        if (terminated or truncated) and t < n - 1:
            observation, info = env.reset()
            here, episode = percepts.add(observation), episode + 1
        if on_step is not None:
            on_step()
    types = (np.int64, np.int64, np.float64, np.int64, np.int64, np.bool_, np.bool_)
    table: list[NDArray[Any]] = [
        np.asarray(column, kind)
        for column, kind in zip(zip(*rows, strict=True), types, strict=True)
    ]
    start, acted, rewards, end, episodes, ends, cuts = table
    seen = np.asarray(states, np.float64) if states else None
    names = tuple(getattr(env.unwrapped, "action_names", ()))
    return Interactions(
        percepts,
        start,
        acted,
        rewards,
        end,
        episodes,
        ends,
        cuts,
        n_actions=int(space.n),
        action_start=int(space.start),
        action_names=names if len(names) == space.n else (),  # a wrapper may offer other actions
        state=None if seen is None else seen[:, 0],
        next_state=None if seen is None else seen[:, 1],
    )


def _discrete(env: gymnasium.Env[Any, Any]) -> gymnasium.spaces.Discrete:
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise TypeError(
            f"The action space of the environment must be Discrete; got {space}. "
            "Wrap the environment so that it offers a list of actions."
        )
    return space


def _entry(info: dict[str, Any], state: str) -> Any:
    if state not in info:
        raise ValueError(
            f"state of collect must be an entry of the environment's info; got {state!r}, and "
            f"info has {', '.join(map(repr, info)) or 'no entries'}."
        )
    return info[state]
