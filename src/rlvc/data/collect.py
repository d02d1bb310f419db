"""Collect interactions with an environment: at random, around a policy, or in rounds that learn."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import gymnasium
import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc._core.checkpoint_store import require_same
from rlvc.data.interactions import Interactions
from rlvc.data.observations import as_percept
from rlvc.data.percepts import Percepts
from rlvc.data.spaces import check_spaces, names_of_actions, warn_of_ignored_entries
from rlvc.data.validation import LARGE, SMALL
from rlvc.errors import EnvError, StoppedError

Env = gymnasium.Env[Any, Any]
INTERACTIONS, ROUNDS, EPSILON = 10_000, 5, 0.3  # defaults of explore

P = TypeVar("P", bound="Predictor")


class Predictor(Protocol):
    """A policy with the ``predict`` of Stable-Baselines3."""

    def predict(self, observation: Any) -> tuple[Ints, Any]:
        """Return the action for an observation, and a state."""
        ...


class Explorer:
    """Interact with an environment, several times if needed; all interactions are kept.

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
        on_step: Callable[[], None] = lambda: None,
    ) -> Interactions:
        """Interact ``n`` more times and return all interactions so far.

        The arguments are those of :func:`collect`. If ``curious``, random actions are drawn from
        those tried least in the percept, and the policy is asked only once for each percept.
        """
        if n < 1:
            raise ValueError(f"n of collect must be at least 1; got {n}.")
        epsilon = 0.1 if epsilon is None else epsilon
        if not 0.0 <= epsilon <= 1.0:
            raise ValueError(f"epsilon of collect must be in [0, 1]; got {epsilon}.")
        self._begin_round()
        first, rng = int(self.space.start), self._rng
        known: dict[int, int] = {}  # the policy's action in each percept
        observation, info, start = self._reset()
        for t in range(n):
            before = info
            if policy is None or rng.random() < epsilon:
                action = self._draw(start, curious)
            else:
                if not curious or start not in known:
                    known[start] = np.asarray(policy.predict(observation)[0]).item() - first
                action = known[start]
            observation, reward, terminated, truncated, info = step(self.env, action + first)
            self._tried[start][action] += 1
            end = self._percepts.add(as_percept(observation))
            truncated = truncated or (t == n - 1 and not terminated)
            self._rows.append((start, action, reward, end, self._episode, terminated, truncated))
            if self._state is not None:
                self._states.append((_entry(before, self._state), _entry(info, self._state)))
            start = end
            if (terminated or truncated) and t < n - 1:
                observation, info, start = self._reset()
            on_step()
        return self._interactions()

    def restore(
        self, saved: Interactions, on_step: Callable[[], None] = lambda: None
    ) -> Interactions:
        """Add a round that :meth:`last_round` returned, as if it had just been collected."""
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
            on_step()
        self._episode = self._rows[-1][4]
        return self._interactions()

    def last_round(self, n: int) -> Interactions:
        """Return the ``n`` interactions of the last round, with episodes counted from 0."""
        data = self._interactions()
        part, _ = data.of_episodes(np.unique(data.episode[-n:]))
        return replace(part, episode=part.episode - part.episode[0])

    def _begin_round(self) -> None:
        """Seed a round, which then depends only on the seed and on the interactions so far."""
        number, self._n_rounds = self._n_rounds, self._n_rounds + 1
        # The first seed is that of the environment; the exploration draws from another stream.
        stream = [self._first_seed, 1, number] if number else [self._first_seed, 1]
        self._rng = np.random.default_rng(stream)
        self._seed = int(self._rng.integers(2**31)) if number else self._first_seed

    def _draw(self, start: int, curious: bool) -> int:
        """Return a random action; if curious, one of those tried least in this percept."""
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
        data = Interactions.from_rows(self._percepts, self._rows, self.space, names)
        if not self._states:
            return data
        states = np.asarray(self._states, np.float64)
        return replace(data, state=states[:, 0], next_state=states[:, 1])


def collect(
    env: Env,
    n: int,
    *,
    policy: Predictor | None = None,
    epsilon: float | None = None,
    seed: int = 0,
    state: str | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Interactions:
    """Interact ``n`` times with an environment and return the interactions.

    Args:
        env: Its observations are images (or dicts of images, or stacked frames), its actions
            ``Discrete``.
        n: The number of interactions to collect; the last one ends its episode.
        policy: The policy to follow; without one, all actions are random.
        epsilon: The share of random actions with a policy; 0.1 unless given.
        seed: Of the environment and of the exploration.
        state: The entry of ``info`` that holds the true state, for comparison; the learner never
            uses it.
        on_step: Called after each interaction.
    """
    explorer = Explorer(env, seed=seed, state=state)
    return explorer.collect(n, policy=policy, epsilon=epsilon, on_step=on_step)


class RoundStore(Protocol):
    """Save the interactions of each round of exploration."""

    def load(self, number: int) -> Interactions | None:
        """Return the interactions of a round, or None if they are not saved."""
        ...

    def save(self, number: int, interactions: Interactions) -> None:
        """Save the interactions of a round atomically; its episodes are counted from 0."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplorationCallback:
    """Functions that :func:`explore` calls while it works.

    Attributes:
        on_round: Called before each round with its number and its number of interactions.
        on_step: Called after each interaction.
    """

    on_round: Callable[[int, int], None] = lambda number, n: None
    on_step: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Round(Generic[P]):
    """The result of a round of exploration.

    Attributes:
        number: Which round, counted from 1.
        interactions: All interactions so far; later rounds add percepts to their store.
        policy: The policy learned from them.
        returns: The undiscounted returns of this round's episodes, without a last one that the end
            of the round cut off.
        lengths: Their numbers of steps.
    """

    number: int
    interactions: Interactions
    policy: P
    returns: Floats
    lengths: Ints


def explore(
    env: Env,
    learn: Callable[[Interactions], P],
    *,
    interactions: int = INTERACTIONS,
    rounds: int = ROUNDS,
    epsilon: float = EPSILON,
    seed: int = 0,
    callback: ExplorationCallback | None = None,
    store: RoundStore | None = None,
) -> Iterator[Round[P]]:
    """Yield rounds that collect and learn: first at random, then around the latest policy.

    Random actions are drawn from those tried least in the current percept: a policy learned from
    its preferred actions knows little of the others and may go round in circles. Every round
    learns from all interactions so far, so the last one learns from the whole database.

    Args:
        env: The environment.
        learn: Returns the policy learned from interactions, which must be deterministic: it is
            asked once per round for each percept.
        interactions: The total number, half of it in the first round, the rest in even parts.
        rounds: How often to collect and learn.
        epsilon: The share of random actions from the second round on.
        seed: Of the environment and of the exploration.
        callback: Functions to call before rounds and after interactions.
        store: Saves the interactions of each round; rounds found there are not collected again.
    """
    check_exploration(interactions, rounds, epsilon)
    explorer, callback = Explorer(env, seed=seed), callback or ExplorationCallback()
    data: Interactions | None = None
    policy: P | None = None
    for number, n in enumerate(round_sizes(interactions, rounds), 1):
        callback.on_round(number, n)
        # Without any reward, no policy beats chance.
        is_any_reward = data is not None and bool(data.reward.any())
        saved = store.load(number) if store else None
        if saved is not None:
            require_same(len(saved) == n and saved.n_actions == explorer.space.n, "interactions")
            data = explorer.restore(saved, callback.on_step)
        else:
            data = explorer.collect(
                n, policy=policy if is_any_reward else None, epsilon=epsilon, curious=True,
                on_step=callback.on_step,
            )  # fmt: skip
            if store is not None:
                store.save(number, explorer.last_round(n))
        policy = learn(data)
        yield Round(number, data, policy, *_episodes(data, len(data) - n))


def check_exploration(interactions: int, rounds: int, epsilon: float) -> None:
    """Raise a ValueError unless the parameters of :func:`explore` are valid."""
    if not 1 <= rounds <= interactions:
        raise ValueError(
            f"rounds of learn must be at least 1, and no more than the {interactions} "
            f"interactions; got {rounds}."
        )
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon of learn must be in [0, 1]; got {epsilon}.")


def round_sizes(interactions: int, rounds: int) -> list[int]:
    """Return the number of interactions of each round: half in the first, even parts in the others.

    >>> round_sizes(10_000, 5), round_sizes(7, 3), round_sizes(3, 3), round_sizes(100, 1)
    ([5000, 1250, 1250, 1250, 1250], [3, 2, 2], [1, 1, 1], [100])
    """
    if rounds == 1:
        return [interactions]
    first = min(interactions // 2, interactions - (rounds - 1))
    ends = [first + (interactions - first) * k // (rounds - 1) for k in range(rounds)]
    return [first, *np.diff(ends).tolist()]


def _episodes(data: Interactions, first: int) -> tuple[Floats, Ints]:
    """Return the returns and lengths of the episodes from a row on.

    A last episode that did not terminate is left out: the end of the round may have cut it off.
    """
    episode, reward = data.episode[first:] - data.episode[first], data.reward[first:]
    n = int(episode[-1]) + bool(data.terminated[-1])
    returns = np.bincount(episode, reward)[:n].astype(np.float64)
    return returns, np.bincount(episode)[:n].astype(np.int64)


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
    """Return the observation, the reward, the flags terminated and truncated, and the info.

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
    """Return a tuple from an environment, if it has ``n`` values."""
    if isinstance(given, tuple) and len(given) == n:
        return given
    got = f"{len(given)} values" if isinstance(given, tuple) else type(given).__name__
    raise EnvError(
        f"{whose} of the environment must return {form}; got {got}. Gymnasium has required this "
        "since 0.26."
    )
