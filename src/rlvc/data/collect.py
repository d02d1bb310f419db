"""How interactions are collected: at random, around a policy, or in rounds that learn."""

from __future__ import annotations

import hashlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import fits
from rlvc.data.interactions import Interactions
from rlvc.data.observations import as_percept, check_spaces, tell_left_out
from rlvc.data.percepts import SINGLE, Percepts
from rlvc.data.steps import reset, step

INTERACTIONS, ROUNDS, EPSILON = 10_000, 5, 0.3  # how to explore unless told otherwise


class Predictor(Protocol):
    """Anything that predicts actions as Stable-Baselines3 does; a Policy does."""

    def predict(self, observation: Any) -> tuple[NDArray[np.int64], Any]:
        """Return the action for an observation, and a state."""
        ...


P = TypeVar("P", bound=Predictor)


class RoundStore(Protocol):
    """Keep what was met in each round of exploration."""

    def find(self, number: int) -> Interactions | None:
        """Return what was met in a round; None if that was not kept."""
        ...

    def keep(self, number: int, interactions: Interactions) -> None:
        """Keep what was met in a round, episodes counted from 0: all of it or nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Round(Generic[P]):
    """What came of a round of exploration.

    Attributes:
        number: Which round, counted from 1.
        interactions: All that was collected so far; later rounds add percepts to its store.
        policy: What was learned from them.
        returns: The sums of rewards of the episodes of this round that came to their own end.
        lengths: Their numbers of steps.
    """

    number: int
    interactions: Interactions
    policy: P
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]


class CachedPolicy:
    """A policy that always does the same in the same percept, which it then looks at only once.

    >>> class Loud:
    ...     def predict(self, observation):
    ...         print("looked")
    ...         return np.int64(observation.max()), None
    >>> steady, image = CachedPolicy(Loud()), np.full((8, 8, 3), 2, np.uint8)
    >>> int(steady.predict(image)[0]), int(steady.predict(image)[0])
    looked
    (2, 2)
    """

    def __init__(self, policy: Predictor) -> None:
        self._policy = policy
        self._known: dict[bytes, NDArray[np.int64]] = {}

    def predict(self, observation: Any) -> tuple[NDArray[np.int64], Any]:
        """Return the action for one percept."""
        percept = as_percept(observation)
        parts = percept if isinstance(percept, Mapping) else {SINGLE: percept}
        digest = hashlib.blake2b(digest_size=16)
        for camera in sorted(parts):
            digest.update(np.ascontiguousarray(parts[camera]).data)
        key = digest.digest()
        if key not in self._known:
            self._known[key] = self._policy.predict(percept)[0]
        return self._known[key], None


class Explorer:
    """Interact with an environment, more and more; all that was met is kept.

    Args:
        env: Its observations are images (or dicts of images, or stacked frames), its actions
            ``Discrete``.
        seed: Of the environment and of the exploration.
        state: The entry of ``info`` that tells the true state, to be kept for the sake of
            comparison; the learner never sees it.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, seed: int = 0, state: str | None = None
    ) -> None:
        if not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"seed of collect must be a whole number, at least 0; got {seed!r}.")
        self.env, self.space = env, check_spaces(env)
        tell_left_out(env.observation_space)
        self._first_seed, self._n_rounds = int(seed), 0
        self._seed: int | None = None  # of the next reset
        self._percepts = Percepts()
        self._rows: list[tuple[Any, ...]] = []
        self._state = state
        self._states: list[tuple[Any, Any]] = []
        self._episode = -1
        # How often each action was tried in each percept.
        self._tried: defaultdict[int, NDArray[np.int64]] = defaultdict(
            lambda: np.zeros(int(self.space.n), np.int64)
        )

    def go_on(
        self,
        n: int,
        *,
        policy: Predictor | None = None,
        epsilon: float | None = None,
        curious: bool = False,
        on_step: Callable[[], None] | None = None,
    ) -> Interactions:
        """Interact ``n`` more times, and return all interactions so far.

        Args:
            n: How many interactions to collect; the last one ends its episode in any case.
            policy: What to follow; without one every action is random.
            epsilon: The share of actions that are random all the same; 0.1 unless given.
            curious: Whether random actions are drawn among those that were tried least in that very
                percept.
            on_step: Called after each interaction.
        """
        if n < 1:
            raise ValueError(f"n of collect must be at least 1; got {n}.")
        epsilon = 0.1 if epsilon is None else epsilon
        if not 0.0 <= epsilon <= 1.0:
            raise ValueError(f"epsilon of collect must be in [0, 1]; got {epsilon}.")
        self._begin_round()
        first, rng = int(self.space.start), self._rng
        observation, info, here = self._reset()
        for t in range(n):
            before = info
            if policy is None or rng.random() < epsilon:
                action = self._draw(here, curious)
            else:
                action = np.asarray(policy.predict(observation)[0]).item() - first
            observation, reward, ends, cut, info = step(self.env, action + first)
            self._tried[here][action] += 1
            there = self._percepts.add(as_percept(observation))
            cut = cut or (t == n - 1 and not ends)
            self._rows.append((here, action, reward, there, self._episode, ends, cut))
            if self._state is not None:
                self._states.append((_entry(before, self._state), _entry(info, self._state)))
            here = there
            if (ends or cut) and t < n - 1:
                observation, info, here = self._reset()
            if on_step is not None:
                on_step()
        return self._interactions()

    def restore(self, met: Interactions, on_step: Callable[[], None] | None = None) -> Interactions:
        """Take what :meth:`go_on` met in a round before, as if it was met now; see `latest`."""
        self._begin_round()
        for start, action, reward, end, episode, ends, cut in zip(
            met.start.tolist(), met.action.tolist(), met.reward.tolist(), met.end.tolist(),
            (met.episode + self._episode + 1).tolist(), met.terminated.tolist(),
            met.truncated.tolist(), strict=True,
        ):  # fmt: skip
            here, there = (self._percepts.add(met.percepts[number]) for number in (start, end))
            self._tried[here][action] += 1
            self._rows.append((here, action, reward, there, episode, ends, cut))
            if on_step is not None:
                on_step()
        self._episode = self._rows[-1][4]
        return self._interactions()

    def latest(self, n: int) -> Interactions:
        """Return the last ``n`` interactions, those of a whole round, with episodes from 0."""
        data = self._interactions()
        part, _ = data.of_episodes(np.unique(data.episode[-n:]))
        return replace(part, episode=part.episode - part.episode[0])

    def _begin_round(self) -> None:
        """Draw anew: what a round does depends on the seed and on what is known, not on its way."""
        number, self._n_rounds = self._n_rounds, self._n_rounds + 1
        # The environment draws from the first seed itself, and the exploration beside it.
        self._rng = np.random.default_rng([self._first_seed, 1, number][: 3 if number else 2])
        self._seed = int(self._rng.integers(2**31)) if number else self._first_seed

    def _draw(self, here: int, curious: bool) -> int:
        """Return a random action; if curious, one of those that were tried least in a percept."""
        if not curious:
            return int(self._rng.integers(self.space.n))
        tried = self._tried[here]
        return int(self._rng.choice(np.flatnonzero(tried == tried.min())))

    def _reset(self) -> tuple[Any, dict[str, Any], int]:
        observation, info = reset(self.env, self._seed)
        self._seed, self._episode = None, self._episode + 1  # one seed for all of a round
        return observation, info, self._percepts.add(as_percept(observation))

    def _interactions(self) -> Interactions:
        names = names_of_actions(self.env)
        met = Interactions.from_rows(self._percepts, self._rows, self.space, names)
        if not self._states:
            return met
        seen = np.asarray(self._states, np.float64)
        return replace(met, state=seen[:, 0], next_state=seen[:, 1])


def collect(
    env: gymnasium.Env[Any, Any],
    n: int,
    *,
    policy: Predictor | None = None,
    epsilon: float | None = None,
    seed: int = 0,
    state: str | None = None,
    on_step: Callable[[], None] | None = None,
) -> Interactions:
    """Interact ``n`` times with an environment and return the database.

    Args:
        env: Its observations are images (or dicts of images, or stacked frames), its actions
            ``Discrete``.
        n: How many interactions to collect.
        policy: What to follow; without one every action is random.
        epsilon: The share of actions that are random all the same; 0.1 unless given.
        seed: Of the environment and of the exploration.
        state: The entry of ``info`` that tells the true state, to be kept for the sake of
            comparison; the learner never sees it.
        on_step: Called after each interaction.
    """
    explorer = Explorer(env, seed=seed, state=state)
    return explorer.go_on(n, policy=policy, epsilon=epsilon, on_step=on_step)


def explore(
    env: gymnasium.Env[Any, Any],
    learn: Callable[[Interactions], P],
    *,
    interactions: int = INTERACTIONS,
    rounds: int = ROUNDS,
    epsilon: float = EPSILON,
    seed: int = 0,
    on_round: Callable[[int, int], None] | None = None,
    on_step: Callable[[], None] | None = None,
    kept: RoundStore | None = None,
) -> Iterator[Round[P]]:
    """Yield rounds that collect and learn: the first at random, the others around what was learned.

    Random actions are drawn among those that were tried least in the percept at hand. A policy that
    was learned from what it likes to do knows little of what it could do instead, and may go round
    in circles; so whatever comes back is tried in all ways. Every round learns anew from all
    interactions so far, so that the last one learns what it would from the whole database.

    Args:
        env: Where to act.
        learn: From interactions to a policy.
        interactions: How many over all rounds: half of them in the first, the rest in even parts.
        rounds: How often to collect and learn.
        epsilon: The share of random actions from the second round on.
        seed: Of the environment and of the exploration.
        on_round: Called with the number of a round that begins, and of its interactions.
        on_step: Called after each interaction.
        kept: Who keeps what was met in each round; what is found there is not done again.
    """
    check_exploration(interactions, rounds, epsilon)
    explorer = Explorer(env, seed=seed)
    data: Interactions | None = None
    policy: P | None = None
    for number, n in enumerate(share(interactions, rounds), 1):
        if on_round is not None:
            on_round(number, n)
        # Without any reward there is nothing to follow.
        is_any_reward = data is not None and bool(data.reward.any())
        guide = CachedPolicy(policy) if policy is not None and is_any_reward else None
        met = kept.find(number) if kept else None
        if met is not None:
            is_same = len(met) == n and met.n_actions == explorer.space.n
            fits(is_same, "interactions")
            data = explorer.restore(met, on_step)
        else:
            data = explorer.go_on(n, policy=guide, epsilon=epsilon, curious=True, on_step=on_step)
            if kept is not None:
                kept.keep(number, explorer.latest(n))
        policy = learn(data)
        yield Round(number, data, policy, *_episodes(data, len(data) - n))


def check_exploration(interactions: int, rounds: int, epsilon: float) -> None:
    """Raise a ValueError unless an environment can be explored in this way."""
    if not 1 <= rounds <= interactions:
        raise ValueError(
            f"rounds of learn must be at least 1, and no more than the {interactions} "
            f"interactions; got {rounds}."
        )
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon of learn must be in [0, 1]; got {epsilon}.")


def share(interactions: int, rounds: int) -> list[int]:
    """Return how many interactions each round has: half of all the first, the others even parts.

    >>> share(10_000, 5), share(7, 3), share(3, 3), share(100, 1)
    ([5000, 1250, 1250, 1250, 1250], [3, 2, 2], [1, 1, 1], [100])
    """
    if rounds == 1:
        return [interactions]
    first = min(interactions // 2, interactions - (rounds - 1))
    ends = [first + (interactions - first) * k // (rounds - 1) for k in range(rounds)]
    return [first, *np.diff(ends).tolist()]


def _episodes(data: Interactions, first: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the returns and lengths of the episodes from a row on; one that was cut is left out.

    The last episode may have been cut because the round was over, which says nothing of it.
    """
    episode, reward = data.episode[first:] - data.episode[first], data.reward[first:]
    n = int(episode[-1]) + bool(data.terminated[-1])
    returns = np.bincount(episode, reward)[:n].astype(np.float64)
    return returns, np.bincount(episode)[:n].astype(np.int64)


def names_of_actions(env: gymnasium.Env[Any, Any]) -> tuple[str, ...]:
    """Return how an environment calls its actions, if it tells; a wrapper may offer other ones.

    Environments say so in different ways: a list of ``action_names``, a method
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
