"""Collecting interactions with an environment, at random or around a policy."""

from __future__ import annotations

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol

import gymnasium
import numpy as np

from rlvc._core.arrays import Ints
from rlvc.data.interactions import Interactions
from rlvc.data.observations import as_percept
from rlvc.data.percepts import Percepts
from rlvc.data.spaces import check_spaces, warn_of_ignored_entries
from rlvc.data.validation import LARGE, SMALL
from rlvc.errors import EnvError, StoppedError

Env = gymnasium.Env[Any, Any]


class Predictor(Protocol):
    """A policy with the ``predict`` of Stable-Baselines3."""

    def predict(self, observation: Any) -> tuple[Ints, Any]:
        """Return the action for an observation, and a state."""
        ...


class Explorer:
    """Interact with an environment; later interactions are added to the first ones.

    The arguments are those of :func:`collect`.
    """

    def __init__(self, env: Env, *, seed: int = 0, state: str | None = None) -> None:
        if not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"seed of collect must be a whole number, at least 0; got {seed!r}.")
        self.env, self.space = env, check_spaces(env)
        warn_of_ignored_entries(env.observation_space)
        self._first_seed, self._n_rounds = int(seed), 0
        self._seed: int | None = None  # of the next reset
        self._percepts = Percepts()
        self._rows: list[tuple[Any, ...]] = []
        self._state = state
        self._states: list[tuple[Any, Any]] = []
        self._episode = -1
        # How often each action was tried in each percept.
        self._tried: defaultdict[int, Ints] = defaultdict(
            lambda: np.zeros(int(self.space.n), np.int64)
        )

    def collect(
        self,
        n: int,
        *,
        policy: Predictor | None = None,
        epsilon: float | None = None,
        curious: bool = False,
        on_step: Callable[[], None] | None = None,
    ) -> Interactions:
        """Interact ``n`` more times and return all interactions so far.

        The arguments are those of :func:`collect`. If ``curious``, random actions are drawn among
        those tried least in the percept.
        """
        if n < 1:
            raise ValueError(f"n of collect must be at least 1; got {n}.")
        epsilon = 0.1 if epsilon is None else epsilon
        if not 0.0 <= epsilon <= 1.0:
            raise ValueError(f"epsilon of collect must be in [0, 1]; got {epsilon}.")
        self._begin_round()
        first, rng = int(self.space.start), self._rng
        observation, info, start = self._reset()
        for t in range(n):
            before = info
            if policy is None or rng.random() < epsilon:
                action = self._draw(start, curious)
            else:
                action = np.asarray(policy.predict(observation)[0]).item() - first
            observation, reward, ends, cut, info = step(self.env, action + first)
            self._tried[start][action] += 1
            end = self._percepts.add(as_percept(observation))
            cut = cut or (t == n - 1 and not ends)
            self._rows.append((start, action, reward, end, self._episode, ends, cut))
            if self._state is not None:
                self._states.append((_entry(before, self._state), _entry(info, self._state)))
            start = end
            if (ends or cut) and t < n - 1:
                observation, info, start = self._reset()
            if on_step is not None:
                on_step()
        return self._interactions()

    def restore(
        self, saved: Interactions, on_step: Callable[[], None] | None = None
    ) -> Interactions:
        """Add a round that :meth:`last_round` returned, as if it were collected now."""
        self._begin_round()
        numbers = np.array([self._percepts.add(percept) for percept in saved.percepts])
        columns = (
            numbers[saved.start], saved.action, saved.reward, numbers[saved.end],
            saved.episode + self._episode + 1, saved.terminated, saved.truncated,
        )  # fmt: skip
        for row in zip(*(column.tolist() for column in columns), strict=True):
            start, action, *_ = row
            self._tried[start][action] += 1
            self._rows.append(row)
            if on_step is not None:
                on_step()
        self._episode = self._rows[-1][4]
        return self._interactions()

    def last_round(self, n: int) -> Interactions:
        """Return the ``n`` interactions of the last round, with episodes counted from 0."""
        data = self._interactions()
        part, _ = data.of_episodes(np.unique(data.episode[-n:]))
        return replace(part, episode=part.episode - part.episode[0])

    def _begin_round(self) -> None:
        """Seed the round: it depends on the seed and on the interactions so far alone."""
        number, self._n_rounds = self._n_rounds, self._n_rounds + 1
        # The first seed is that of the environment; the exploration draws from another stream.
        self._rng = np.random.default_rng([self._first_seed, 1, number][: 3 if number else 2])
        self._seed = int(self._rng.integers(2**31)) if number else self._first_seed

    def _draw(self, start: int, curious: bool) -> int:
        """Return a random action; if curious, one of those tried least in the percept."""
        if not curious:
            return int(self._rng.integers(self.space.n))
        tried = self._tried[start]
        return int(self._rng.choice(np.flatnonzero(tried == tried.min())))

    def _reset(self) -> tuple[Any, dict[str, Any], int]:
        observation, info = reset(self.env, self._seed)
        self._seed, self._episode = None, self._episode + 1  # one seed per round
        return observation, info, self._percepts.add(as_percept(observation))

    def _interactions(self) -> Interactions:
        names = names_of_actions(self.env)
        found = Interactions.from_rows(self._percepts, self._rows, self.space, names)
        if not self._states:
            return found
        states = np.asarray(self._states, np.float64)
        return replace(found, state=states[:, 0], next_state=states[:, 1])


def collect(
    env: Env,
    n: int,
    *,
    policy: Predictor | None = None,
    epsilon: float | None = None,
    seed: int = 0,
    state: str | None = None,
    on_step: Callable[[], None] | None = None,
) -> Interactions:
    """Interact ``n`` times with an environment and return the interactions.

    Args:
        env: Its observations are images (or dicts of images, or stacked frames), its actions
            ``Discrete``.
        n: How many interactions to collect; the last one ends its episode.
        policy: The policy to follow; without one, all actions are random.
        epsilon: The share of random actions with a policy; 0.1 unless given.
        seed: Of the environment and of the exploration.
        state: The entry of ``info`` that holds the true state, for comparison; the learner never
            uses it.
        on_step: Called after each interaction.
    """
    explorer = Explorer(env, seed=seed, state=state)
    return explorer.collect(n, policy=policy, epsilon=epsilon, on_step=on_step)


def names_of_actions(env: Env) -> tuple[str, ...]:
    """Return the names of an environment's actions, if it has them and no wrapper changes actions.

    There are different conventions: a list of ``action_names``, a method
    ``get_action_meanings`` (Atari), or an enumeration ``actions`` (MiniGrid).
    """
    inner: Any = env.unwrapped
    names: Any = getattr(inner, "action_names", None)
    if names is None and callable(meanings := getattr(inner, "get_action_meanings", None)):
        names = meanings()
    kind = getattr(inner, "actions", None)
    if names is None and inspect.isclass(kind) and issubclass(kind, Enum):
        names = [one.name for one in sorted(kind, key=lambda one: one.value)]
    if not isinstance(names, (list, tuple)) or not isinstance(
        env.action_space, gymnasium.spaces.Discrete
    ):
        return ()
    return tuple(map(str, names)) if len(names) == env.action_space.n else ()


def _entry(info: dict[str, Any], state: str) -> Any:
    if state not in info:
        raise ValueError(
            f"state of collect must be an entry of the environment's info; got {state!r}, and "
            f"info has {', '.join(map(repr, info)) or 'no entries'}."
        )
    return info[state]


def reset(env: Env, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Return the first observation of an episode and its info."""
    with _convert_errors("reset"):
        given = env.reset(seed=seed)
    observation, info = _check_tuple(given, 2, "reset", "(observation, info)")
    return observation, info


def step(env: Env, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Return the observation, reward, whether the episode terminated or truncated, and info.

    Raises:
        EnvError: The environment failed or returned something invalid.
    """
    with _convert_errors(f"step, after action {action}"):
        given: Any = env.step(action)
    form = "(observation, reward, terminated, truncated, info)"
    observation, reward, terminated, truncated, info = _check_tuple(given, 5, "step", form)
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if number and not SMALL <= abs(number) <= LARGE:
        demand, cure = "a finite number", ""
        if math.isfinite(number):
            demand = "0 or between 1e-100 and 1e100 in size"
            cure = " Scale the rewards: policies do not change."
        raise EnvError(f"The reward of the environment must be {demand}; got {reward!r}.{cure}")
    return observation, number, bool(terminated), bool(truncated), info


@contextmanager
def _convert_errors(where: str) -> Iterator[None]:
    """Raise an EnvError that says where the environment failed."""
    try:
        yield
    except StoppedError:  # the user pressed Ctrl-C
        raise
    except Exception as error:
        raise EnvError(
            f"The environment failed in {where}: {type(error).__name__}: {error}"
        ) from error


def _check_tuple(given: Any, n: int, whose: str, form: str) -> Any:
    """Return what an environment returned, if it has ``n`` values."""
    if isinstance(given, tuple) and len(given) == n:
        return given
    got = f"{len(given)} values" if isinstance(given, tuple) else type(given).__name__
    raise EnvError(
        f"{whose} of the environment must return {form}; got {got}. Gymnasium has required this "
        "since 0.26."
    )
