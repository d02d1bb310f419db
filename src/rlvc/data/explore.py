"""Exploration: collect and learn in turn, each round around the policy learned so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc._core.checkpoint_store import require_same
from rlvc.data.collect import Env, Explorer, Predictor
from rlvc.data.interactions import Interactions
from rlvc.data.observations import as_percept
from rlvc.data.percepts import digest_of, images_of

INTERACTIONS, ROUNDS, EPSILON = 10_000, 5, 0.3  # the defaults of explore

P = TypeVar("P", bound=Predictor)


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
    """Functions that :func:`explore` calls on its way.

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
        returns: The sums of rewards of this round's episodes, without one that the end of the round
            cut off.
        lengths: Their numbers of steps.
    """

    number: int
    interactions: Interactions
    policy: P
    returns: Floats
    lengths: Ints


class CachedPolicy:
    """A deterministic policy that remembers its action in each percept.

    >>> class Brightest:
    ...     def predict(self, observation):
    ...         print("predicting")
    ...         return np.int64(observation.max()), None
    >>> cached, image = CachedPolicy(Brightest()), np.full((8, 8, 3), 2, np.uint8)
    >>> int(cached.predict(image)[0]), int(cached.predict(image)[0])
    predicting
    (2, 2)
    """

    def __init__(self, policy: Predictor) -> None:
        self._policy = policy
        self._known: dict[tuple[bytes, ...], Ints] = {}

    def predict(self, observation: Any) -> tuple[Ints, Any]:
        """Return the action for one percept."""
        percept = as_percept(observation)
        parts = images_of(percept)
        key = tuple(digest_of(np.ascontiguousarray(parts[name])) for name in sorted(parts))
        if key not in self._known:
            self._known[key] = self._policy.predict(percept)[0]
        return self._known[key], None


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
    """Yield rounds that collect and learn: first at random, then around the policy so far.

    Random actions are drawn among those tried least in the current percept: a policy learned from
    its preferred actions knows little of the others and may go round in circles. Every round
    learns from all interactions so far, so the last one learns as from the whole database.

    Args:
        env: The environment.
        learn: Return the policy for interactions.
        interactions: How many over all rounds: half of them in the first, the rest in even parts.
        rounds: How often to collect and learn.
        epsilon: The share of random actions from the second round on.
        seed: Of the environment and of the exploration.
        callback: What to call before rounds and after interactions.
        store: Where the interactions of rounds are saved; those found there are not collected
            again.
    """
    check_exploration(interactions, rounds, epsilon)
    explorer, callback = Explorer(env, seed=seed), callback or ExplorationCallback()
    data: Interactions | None = None
    policy: P | None = None
    for number, n in enumerate(share(interactions, rounds), 1):
        callback.on_round(number, n)
        # Without any reward, no policy is better than chance.
        is_any_reward = data is not None and bool(data.reward.any())
        guide = CachedPolicy(policy) if policy is not None and is_any_reward else None
        saved = store.load(number) if store else None
        if saved is not None:
            require_same(len(saved) == n and saved.n_actions == explorer.space.n, "interactions")
            data = explorer.restore(saved, callback.on_step)
        else:
            data = explorer.collect(
                n, policy=guide, epsilon=epsilon, curious=True, on_step=callback.on_step
            )
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


def share(interactions: int, rounds: int) -> list[int]:
    """Return the number of interactions of each round: half in the first, even parts in the others.

    >>> share(10_000, 5), share(7, 3), share(3, 3), share(100, 1)
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
