"""Metrics: how far apart two descriptors are.

A metric is a frozen dataclass with the methods ``fit`` and ``distances``; register a custom one
with ``metrics.register("mine", Mine)``. The metrics of rlvc also have compiled searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc._core.registry import Registry
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.linear_algebra import covariance, project

SAMPLE = 50_000  # descriptors from which a covariance is estimated


class Metric(Protocol):
    """Measure how far apart descriptors are.

    The distance of two rows must not depend on the other rows of a call.
    """

    def fit(self, descriptors: Descriptors) -> Self:
        """Return this metric adapted to a sample of descriptors (n, d)."""
        ...

    def distances(self, a: Descriptors, b: Descriptors) -> NDArray[np.float64]:
        """Return the (n, m) distances between the rows of ``a`` (n, d) and ``b`` (m, d)."""
        ...


@runtime_checkable
class Embedded(Protocol):
    """A metric whose rows, once embedded, are compared by a compiled distance."""

    binary: bool

    def embed(self, descriptors: Descriptors) -> NDArray[Any]:
        """Return rows whose Euclidean distances (Hamming if binary) are those of the metric."""
        ...


@dataclass(frozen=True, slots=True)
class Euclidean:
    """The length of the difference.

    >>> Euclidean().distances(np.float32([[0, 0]]), np.float32([[3, 4], [0, 1]])).tolist()
    [[5.0, 1.0]]
    """

    binary = False

    def fit(self, descriptors: Descriptors) -> Self:
        """Return this metric, as it has nothing to fit."""
        return self

    def embed(self, descriptors: Descriptors) -> NDArray[Any]:
        """Return the rows themselves; bytes stay bytes, as there may be many."""
        is_bytes = descriptors.dtype == np.uint8
        return np.ascontiguousarray(descriptors, np.uint8 if is_bytes else np.float64)

    def distances(self, a: Descriptors, b: Descriptors) -> NDArray[np.float64]:
        """Return the (n, m) Euclidean distances."""
        return _distances(self.embed(a), self.embed(b))


@dataclass(frozen=True, slots=True)
class Mahalanobis:
    """The Euclidean distance after whitening by the covariance of the descriptors.

    Directions in which the sample does not vary carry no information and are dropped.

    Attributes:
        whitening: (d, r) matrix, empty until :meth:`fit`.
    """

    whitening: NDArray[np.float64] | None = None
    binary = False

    def fit(self, descriptors: Descriptors) -> Self:
        """Return the metric of the sample's covariance, of at most SAMPLE evenly spaced rows."""
        step = -(-len(descriptors) // SAMPLE) or 1
        sample = descriptors[::step].astype(np.float64)
        if len(sample) > 1:
            variance, axes = np.linalg.eigh(covariance(sample))
            keep = variance > 1e-9 * max(variance[-1], 1e-300)
            if keep.any():
                return type(self)(axes[:, keep] / np.sqrt(variance[keep]))
        return type(self)(np.eye(descriptors.shape[1]))

    def embed(self, descriptors: Descriptors) -> NDArray[Any]:
        """Return the whitened rows; each depends on itself alone, to the last bit."""
        if self.whitening is None:
            raise ValueError("Mahalanobis must be fitted first; call fit(descriptors).")
        return project(np.asarray(descriptors, np.float64), self.whitening)

    def distances(self, a: Descriptors, b: Descriptors) -> NDArray[np.float64]:
        """Return the (n, m) Mahalanobis distances."""
        return _distances(self.embed(a), self.embed(b))


@dataclass(frozen=True, slots=True)
class Hamming:
    """The number of bits that differ, for binary descriptors packed in bytes.

    >>> Hamming().distances(np.uint8([[0b0011]]), np.uint8([[0b0101]])).tolist()
    [[2.0]]
    """

    binary = True

    def fit(self, descriptors: Descriptors) -> Self:
        """Return this metric, as it has nothing to fit."""
        if descriptors.dtype != np.uint8:
            raise TypeError(
                f"The descriptors of Hamming must be packed bits (uint8); got {descriptors.dtype}. "
                "Use a binary descriptor such as orb, or another metric."
            )
        return self

    def embed(self, descriptors: Descriptors) -> NDArray[Any]:
        """Return the rows as words of 64 bits."""
        n, width = descriptors.shape
        padded = np.zeros((n, -(-width // 8) * 8), np.uint8)
        padded[:, :width] = descriptors
        return padded.view(np.uint64)

    def distances(self, a: Descriptors, b: Descriptors) -> NDArray[np.float64]:
        """Return the (n, m) Hamming distances."""
        bits = np.bitwise_count(a[:, np.newaxis, :] ^ b[np.newaxis, :, :])
        return np.asarray(bits.sum(axis=2), np.float64)


@jit
def _distances(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    out = np.empty((len(a), len(b)), np.float64)
    for i in range(len(a)):
        for j in range(len(b)):
            total = 0.0
            for c in range(a.shape[1]):
                difference = float(a[i, c]) - float(b[j, c])
                total += difference * difference
            out[i, j] = np.sqrt(total)
    return out


metrics: Registry[Metric] = Registry("metric")
metrics.register("euclidean", Euclidean)
metrics.register("mahalanobis", Mahalanobis)
metrics.register("hamming", Hamming)
