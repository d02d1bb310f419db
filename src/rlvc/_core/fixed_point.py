"""Sums that do not depend on their order.

The sum of floating-point numbers depends on their order. Residuals and rewards are therefore
rounded once to integers times a power of two, and all sums are sums of integers: exact, and the
same for any number of threads, shards or machines.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc._core.jit import jit, share_spans


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Integers that stand for multiples of ``2 ** -exponent``.

    >>> fixed = FixedPoint.for_sums(largest=100.0, n=10_000)
    >>> fixed.decode(fixed.encode(np.array([0.25, -3.0]))).tolist()
    [0.25, -3.0]
    """

    exponent: int

    @classmethod
    def for_sums(cls, largest: float, n: int) -> FixedPoint:
        """Return the finest grid on which ``n`` numbers up to ``largest`` cannot overflow."""
        return cls(62 - _bits(n) - math.frexp(largest)[1])

    @classmethod
    def for_squares(cls, largest: float, n: int) -> FixedPoint:
        """Return the finest grid on which the squares of ``n`` such numbers cannot overflow."""
        return cls((62 - _bits(n)) // 2 - math.frexp(largest)[1])

    def factors(self) -> tuple[float, float]:
        """Return two factors that turn a number into these units; their product may overflow."""
        half = self.exponent // 2
        return float(np.ldexp(1.0, half)), float(np.ldexp(1.0, self.exponent - half))

    def encode(self, numbers: Floats) -> Ints:
        """Return the nearest integers, halves to even."""
        return np.rint(np.ldexp(numbers, self.exponent)).astype(np.int64)

    def decode(self, integers: Ints) -> Floats:
        """Return the numbers that the integers stand for."""
        return np.ldexp(integers.astype(np.float64), -self.exponent)


def _bits(n: int) -> int:
    return max(n, 1).bit_length()


@dataclass(frozen=True, slots=True)
class Scale:
    """The number of rewards and their size, which all shards must agree on before they sum.

    Attributes:
        n: The number of interactions.
        lowest: The lowest reward.
        largest: The largest absolute reward.
    """

    n: int
    lowest: float
    largest: float

    @classmethod
    def of(cls, rewards: Floats) -> Scale:
        """Return the scale of rewards."""
        return cls(len(rewards), float(rewards.min()), float(np.abs(rewards).max()))

    def floor(self, gamma: float) -> float:
        """Return the lowest return that the rewards allow."""
        return min(0.0, self.lowest) / (1.0 - gamma)


def group_sums(
    group: Ints, integers: Ints, n_groups: int, threads: int = 1
) -> tuple[Ints, Ints, Ints]:
    """Return the count, the sum and the sum of squares of the integers of each group.

    >>> [sums.tolist() for sums in group_sums(np.array([0, 1, 1]), np.array([2, 3, -3]), 3)]
    [[1, 2, 0], [2, 0, 0], [4, 18, 0]]
    """
    work = functools.partial(_sum_up, group, integers, n_groups)
    count, total, square = np.stack(share_spans(work, len(group), threads)).sum(axis=0)
    return count, total, square


@jit
def _sum_up(group: Ints, integers: Ints, n_groups: int, span: tuple[int, int]) -> Ints:
    sums = np.zeros((3, n_groups), np.int64)
    for t in range(span[0], span[1]):
        d, g = integers[t], group[t]
        sums[0, g] += 1
        sums[1, g] += d
        sums[2, g] += d * d
    return sums
