"""Which visual classes are aliased: the paper's Algorithm 2."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.fixed_point import FixedPoint, Scale, group_sums
from rlvc._core.jit import jit, share_spans
from rlvc._core.params import Checked, param
from rlvc._core.registry import Registry
from rlvc.data.interactions import Interactions
from rlvc.learning.mdp import MappedSequence


@dataclass(frozen=True)
class Residuals:
    """The Bellman residuals Δ_t of a stage, in fixed point, so that sums are exact.

    Attributes:
        integers: (N,) Δ_t in units of ``2 ** -fixed.exponent``.
        fixed: The fixed-point format.
        group: (N,) the pair of each interaction, class · n_actions + action.
        q: (n_classes, n_actions) the values that they are residuals of.
        gamma: The discount factor.
        threads: The number of threads that sum them up; no result depends on it.
    """

    integers: Ints
    fixed: FixedPoint
    group: Ints
    q: Floats
    gamma: float = 0.0
    threads: int = 1

    @property
    def values(self) -> Floats:
        """(N,) the residuals in units of reward."""
        return self.fixed.decode(self.integers)

    def by_percept(self, percepts: Ints) -> tuple[Residuals, Ints]:
        """Return the mean residual of every percept and pair, and the percepts.

        Args:
            percepts: (N,) the percept s_t of every interaction.
        """
        width = int(percepts.max(initial=0)) + 1
        pairs, which = np.unique(self.group * width + percepts, return_inverse=True)
        count, total, _ = group_sums(which, self.integers, len(pairs), self.threads)
        mean = np.rint(total / count).astype(np.int64)
        return replace(self, integers=mean, group=pairs // width), pairs % width

    @functools.cached_property
    def sums(self) -> ResidualSums:
        """Their sums for every (class, action)."""
        sums = group_sums(self.group, self.integers, self.q.size, self.threads)
        count, total, square = (one.reshape(self.q.shape) for one in sums)
        return ResidualSums(count, total, square, self.fixed, self.q, self.gamma)


@dataclass(frozen=True, slots=True)
class ResidualSums:
    """The sums of residuals, from which aliased classes are detected; they add up over shards.

    Attributes:
        count: (n_classes, n_actions) the number of residuals of each pair.
        total: (n_classes, n_actions) their sums.
        square: (n_classes, n_actions) the sums of their squares.
        fixed: The fixed-point format.
        q: (n_classes, n_actions) the values that they are residuals of.
        gamma: The discount factor.
    """

    count: Ints
    total: Ints
    square: Ints
    fixed: FixedPoint
    q: Floats
    gamma: float

    def __add__(self, other: ResidualSums) -> ResidualSums:
        sums = self.count + other.count, self.total + other.total, self.square + other.square
        return ResidualSums(*sums, self.fixed, self.q, self.gamma)

    def variances(self) -> Floats:
        """Return σ²(Δ) for every (class, action), in units of reward²; 0 where never tried."""
        variance = variance_of(self.count, self.total, self.square)
        return np.ldexp(variance, -2 * self.fixed.exponent)

    def rms(self) -> float:
        """Return the root mean square residual, in units of reward."""
        mean = int(self.square.sum()) / max(int(self.count.sum()), 1)
        return float(np.ldexp(np.sqrt(mean), -self.fixed.exponent))


def variance_of(count: Ints, total: Ints, square: Ints) -> Floats:
    """Return (Σx² − (Σx)² / n) / n, never below zero; 0 where n is 0 or all x are equal."""
    n = np.maximum(count, 1).astype(np.float64)
    mean = np.rint(total / n).astype(np.int64)  # shifting by an integer keeps the sums exact
    s = total - count * mean
    q = square - 2 * mean * total + count * mean * mean
    return np.asarray(np.maximum(q - s.astype(np.float64) * s / n, 0.0) / n)


def bellman_residuals(
    sequence: MappedSequence,
    q: Floats,
    gamma: float,
    scale: Scale | None = None,
    threads: int = 1,
) -> Residuals:
    """Return Δ_t = r_{t+1} + γ max_a′ Q(C(s_{t+1}), a′) − Q(C(s_t), a_t) for every interaction.

    >>> one = np.zeros(1, np.int64)
    >>> last = MappedSequence(one, one, np.ones(1), one, np.array([True]), np.array([True]))
    >>> bellman_residuals(last, np.array([[0.25]]), 0.9).values.tolist()
    [0.75]
    """
    value = q.max(axis=1)
    scale = scale or Scale.of(sequence.reward)
    # A bound that every shard can compute without the others.
    largest = scale.largest + gamma * float(np.abs(value).max()) + float(np.abs(q).max())
    fixed = FixedPoint.for_squares(largest, scale.n)
    n = len(sequence.start)
    integers, group = np.empty(n, np.int64), np.empty(n, np.int64)
    dense = np.ascontiguousarray(q, np.float64)
    work = functools.partial(
        _write_residuals, sequence, dense, value, gamma, fixed.factors(), integers, group
    )
    share_spans(work, n, threads)
    return Residuals(integers, fixed, group, q, gamma, threads)


@jit
def _write_residuals(
    sequence: MappedSequence,
    q: Floats,
    value: Floats,
    gamma: float,
    factors: tuple[float, float],
    integers: Ints,
    group: Ints,
    span: tuple[int, int],
) -> None:
    """Write the residuals of some interactions in fixed point, and the pair of each."""
    start, action, reward, end, terminated, _ = sequence
    first, second = factors
    for t in range(span[0], span[1]):
        ahead = 0.0 if terminated[t] else value[end[t]]
        delta = reward[t] + gamma * ahead - q[start[t], action[t]]
        integers[t] = np.int64(np.rint(delta * first * second))
        group[t] = start[t] * q.shape[1] + action[t]


ReturnSums = tuple[int, int, int]  # the number of returns, their sum, the sum of their squares


def sum_returns(interactions: Interactions, gamma: float, scale: Scale) -> ReturnSums:
    """Return the sums of the discounted returns of whole episodes; they add up over shards."""
    integers = _fixed(gamma, scale).encode(interactions.returns(gamma))
    return len(integers), int(integers.sum()), int((integers * integers).sum())


def variance_of_returns(shards: Iterable[ReturnSums], gamma: float, scale: Scale) -> float:
    """Return the variance of all returns, given the sums of the shards."""
    sums = np.asarray(list(shards), np.int64).sum(axis=0, keepdims=True)
    (variance,) = np.ldexp(variance_of(*sums.T), -2 * _fixed(gamma, scale).exponent)
    return float(variance)


def _fixed(gamma: float, scale: Scale) -> FixedPoint:
    return FixedPoint.for_squares(scale.largest / (1.0 - gamma), scale.n)


class AliasingDetector(Protocol):
    """Detect visual classes that mix percepts which should be distinguished."""

    def detect(self, residuals: ResidualSums, scale: float) -> Bools:
        """Return a mask (n_classes,); ``scale`` is the variance of the returns of the database."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RelativeVariance(Checked):
    """A class is aliased if σ²(Δ) of some action exceeds a fraction of the variance of returns."""

    tau: float = param(1e-5, "threshold, as a fraction of the variance of returns (τ)", low=0.0)

    def detect(self, residuals: ResidualSums, scale: float) -> Bools:
        """Return the classes above the threshold."""
        return np.asarray(residuals.variances().max(axis=1) > self.tau * scale)


@dataclass(frozen=True, kw_only=True, slots=True)
class AbsoluteVariance(Checked):
    """A class is aliased if σ²(Δ) of some action exceeds τ, as in the paper."""

    tau: float = param(0.0, "threshold, in units of reward² (τ)", low=0.0)

    def detect(self, residuals: ResidualSums, scale: float) -> Bools:
        """Return the classes above the threshold; the scale is ignored."""
        return np.asarray(residuals.variances().max(axis=1) > self.tau)


aliasing_detectors: Registry[AliasingDetector] = Registry("aliasing detector")
aliasing_detectors.register("relative", RelativeVariance)
aliasing_detectors.register("absolute", AbsoluteVariance)
