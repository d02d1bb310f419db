"""The mapped MDP: the interactions with visual classes for states (the paper's M_k)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.fixed_point import FixedPoint, Scale
from rlvc._core.jit import jit
from rlvc.data.interactions import Interactions


class MappedSequence(NamedTuple):
    """The interactions between visual classes: ⟨C(s_t), a_t, r_{t+1}, C(s_{t+1})⟩.

    Attributes:
        start: (N,) visual class of s_t.
        action: (N,) action a_t.
        reward: (N,) reinforcement r_{t+1}.
        end: (N,) visual class of s_{t+1}.
        terminated: (N,) whether s_{t+1} is terminal, so that nothing follows.
        is_last: (N,) whether row t + 1 does not continue the episode.
    """

    start: Ints
    action: Ints
    reward: Floats
    end: Ints
    terminated: Bools
    is_last: Bools


@dataclass(frozen=True, slots=True)
class EffectiveTransitions:
    """The interactions in which some actions may be taken to repeat forever.

    Attributes:
        reward: (N,) the reward; of an action that repeats forever, its return.
        terminated: (N,) whether nothing follows; true of an action that repeats forever.
        is_last: (N,) whether the next row does not continue the episode.
    """

    reward: Floats
    terminated: Bools
    is_last: Bools

    @classmethod
    def of(
        cls,
        interactions: Interactions,
        absorbing_gamma: float | None,
        is_stuck: Bools | None = None,
    ) -> EffectiveTransitions:
        """Return the effective transitions of interactions.

        Args:
            interactions: ⟨s, a, r, s′⟩.
            absorbing_gamma: See :func:`map_interactions`.
            is_stuck: (N,) which lead nowhere, if other interactions are known, too.
        """
        reward, terminated = interactions.reward, interactions.terminated
        if absorbing_gamma is not None:
            stuck = interactions.is_stuck if is_stuck is None else is_stuck
            reward = np.where(stuck, reward / (1.0 - absorbing_gamma), reward)
            terminated = terminated | stuck
        return cls(reward, terminated, interactions.is_last)

    def map(self, interactions: Interactions, classes: Ints) -> MappedSequence:
        """Return the interactions between the classes of their percepts."""
        start, end = classes[interactions.start], classes[interactions.end]
        return MappedSequence(
            start, interactions.action, self.reward, end, self.terminated, self.is_last
        )


def map_interactions(
    interactions: Interactions, classes: Ints, absorbing_gamma: float | None = None
) -> MappedSequence:
    """Return the interactions between the classes of their percepts.

    Args:
        interactions: ⟨s, a, r, s′⟩.
        classes: (n_percepts,) the visual class of each percept.
        absorbing_gamma: The discount factor with which an action that leads nowhere repeats
            forever: such an interaction ends there, with a return of r / (1 − γ). None to assume,
            as the paper does, that the next try may lead elsewhere.
    """
    return EffectiveTransitions.of(interactions, absorbing_gamma).map(interactions, classes)


@dataclass(frozen=True, slots=True)
class MappedMDP:
    """The mapped MDP, estimated by relative frequencies.

    A (class, action) pair that was never tried has no transition and no reward. Its value is
    :meth:`floor`, so that it never looks better than the pairs that were tried.

    Attributes:
        count: (n_classes, n_actions) how often each pair was tried, η(V, a).
        reward: (n_classes, n_actions) mean reinforcement, R_k(V, a); 0 where never tried.
        transition: (n_classes · n_actions, n_classes) sparse probabilities T_k(V, a, V′). A row
            sums to the share of its interactions that did not terminate.
        scale: The scale of the rewards.
        load_sequence: Returns the sequence that it was estimated from, for model-free methods; it
            is too large to be kept with the MDP.
    """

    count: Ints
    reward: Floats
    transition: sparse.csr_array
    scale: Scale
    load_sequence: Callable[[], MappedSequence]

    @property
    def sequence(self) -> MappedSequence:
        """The sequence that it was estimated from."""
        return self.load_sequence()

    @property
    def n_classes(self) -> int:
        """The number of visual classes."""
        return len(self.count)

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return int(self.count.shape[1])

    @property
    def is_tried(self) -> Bools:
        """(n_classes, n_actions) whether the pair was ever tried."""
        return self.count > 0

    def floor(self, gamma: float) -> float:
        """Return the lowest return that the rewards allow: what an untried pair is worth."""
        return self.scale.floor(gamma)

    def greedy(self, q: Floats) -> Ints:
        """Return the best action of each class: tried ones first, ties to the lowest number."""
        best: Ints = np.argmax(np.where(self.is_tried, q, -np.inf), axis=1)
        return best

    def backup(self, value: Floats, gamma: float) -> Floats:
        """Return R + γ T V, the H transform; :meth:`floor` for pairs that were never tried."""
        ahead = (self.transition @ value).reshape(self.count.shape)
        return np.where(self.is_tried, self.reward + gamma * ahead, self.floor(gamma))


@dataclass(frozen=True, slots=True)
class TransitionCounts:
    """The integers from which an MDP is estimated; they add up over parts of a sequence.

    Attributes:
        count: (n_classes · n_actions,) how often each pair was tried.
        total: The sum of its rewards, in fixed point.
        steps: (n_classes · n_actions, n_classes) how often it led to each class.
    """

    count: Ints
    total: Ints
    steps: sparse.csr_array

    @classmethod
    def of(
        cls, sequence: MappedSequence, n_classes: int, n_actions: int, scale: Scale
    ) -> TransitionCounts:
        """Return the counts of a sequence, or of a part of one whose rewards have a scale."""
        size = n_classes * n_actions
        if size * n_classes <= max(len(sequence.start), DENSE):
            count, total = np.zeros(size, np.int64), np.zeros(size, np.int64)
            dense = np.zeros((size, n_classes), np.int64)
            _count_steps(sequence, n_actions, _fixed(scale).factors(), count, total, dense)
            return cls(count, total, sparse.csr_array(dense))
        pair = sequence.start * n_actions + sequence.action
        total = np.zeros(size, np.int64)
        np.add.at(total, pair, _fixed(scale).encode(sequence.reward))
        continues = ~sequence.terminated
        keys = pair[continues] * np.int64(n_classes) + sequence.end[continues]
        keys, times = np.unique(keys, return_counts=True)
        entries = (times, (keys // n_classes, keys % n_classes))
        steps = sparse.csr_array(entries, shape=(size, n_classes))
        return cls(np.bincount(pair, minlength=size), total, steps)

    def __add__(self, other: TransitionCounts) -> TransitionCounts:
        return TransitionCounts(
            self.count + other.count, self.total + other.total, self.steps + other.steps
        )


DENSE = 1 << 16  # entries of a matrix up to which counting is faster than sorting


@jit
def _count_steps(
    sequence: MappedSequence,
    n_actions: int,
    factors: tuple[float, float],
    count: Ints,
    total: Ints,
    steps: Ints,
) -> None:
    start, action, reward, end, terminated, _ = sequence
    first, second = factors
    for t in range(len(start)):
        pair = start[t] * n_actions + action[t]
        count[pair] += 1
        total[pair] += np.int64(np.rint(reward[t] * first * second))
        if not terminated[t]:
            steps[pair, end[t]] += 1


def estimate(
    sequence: MappedSequence, n_classes: int, n_actions: int, scale: Scale | None = None
) -> MappedMDP:
    """Return the mapped MDP of a sequence (Section 3.3.1).

    >>> one = np.zeros(1, np.int64)
    >>> here = MappedSequence(one, one, np.ones(1), one, np.array([False]), np.array([True]))
    >>> estimate(here, 1, 2).count.tolist()
    [[1, 0]]
    """
    scale = scale or Scale.of(sequence.reward)
    counts = TransitionCounts.of(sequence, n_classes, n_actions, scale)
    return estimate_from(counts, n_actions, scale, lambda: sequence)


def estimate_from(
    counts: TransitionCounts, n_actions: int, scale: Scale, load: Callable[[], MappedSequence]
) -> MappedMDP:
    """Return the mapped MDP of a sequence, given its counts."""
    tries = np.maximum(counts.count, 1)
    steps = counts.steps.sorted_indices()
    rows = np.repeat(tries, np.diff(steps.indptr))
    transition = sparse.csr_array(
        (steps.data / rows, steps.indices, steps.indptr), shape=steps.shape
    )
    shape = (-1, n_actions)
    reward = (_fixed(scale).decode(counts.total) / tries).reshape(shape)
    return MappedMDP(counts.count.reshape(shape), reward, transition, scale, load)


def _fixed(scale: Scale) -> FixedPoint:
    return FixedPoint.for_sums(scale.largest, scale.n)
