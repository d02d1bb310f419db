"""Which percept exhibits which feature, as sparse rows."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.compiled import compiled


@dataclass(frozen=True, slots=True)
class Incidence:
    """A sparse percept × feature matrix of Booleans.

    Attributes:
        indptr: (n_percepts + 1,) where each row begins in ``indices``.
        indices: Features that each percept exhibits, each once, in ascending order.
        n_features: The number of columns.

    >>> Incidence.from_dense(np.array([[0, 1], [1, 1], [0, 0]])).indices.tolist()
    [1, 0, 1]
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    n_features: int

    @property
    def n_percepts(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1

    def row(self, percept: int) -> NDArray[np.int32]:
        """Return the features of one percept."""
        return self.indices[self.indptr[percept] : self.indptr[percept + 1]]

    def exhibits(
        self, percepts: NDArray[np.int64], features: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Tell for pairs of a percept and a feature whether the one exhibits the other."""
        return _exhibits(self.indptr, self.indices, percepts, features)

    def count(self, features: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of some features, each named once, every percept exhibits."""
        wanted = np.zeros(self.n_features, np.bool_)
        wanted[features] = True
        return _count(self.indptr, self.indices, wanted)

    def take(self, rows: NDArray[np.int64]) -> Incidence:
        """Return the matrix of some rows, in the given order; a row may stand there twice."""
        return Incidence(*_take(self.indptr, self.indices, rows), self.n_features)

    def only(self, wanted: NDArray[np.bool_]) -> Incidence:
        """Return the matrix in which only some features are exhibited; all keep their numbers.

        >>> shown = Incidence.from_dense(np.array([[1, 1], [0, 1]]))
        >>> shown.only(np.array([False, True])).indptr.tolist()
        [0, 1, 2]
        """
        kept = wanted[self.indices]
        before = np.concatenate([[0], np.cumsum(kept)])
        return Incidence(before[self.indptr], self.indices[kept], self.n_features)

    def join(self, other: Incidence) -> Incidence:
        """Return what a percept exhibits in this matrix or in another, with as many rows.

        It takes one pass where, as is usual, the other's features have higher numbers.
        """
        n_features = max(self.n_features, other.n_features)
        if len(self.indices) and len(other.indices) and other.indices.min() <= self.indices.max():
            wide = [Incidence(one.indptr, one.indices, n_features) for one in (self, other)]
            return Incidence.union(wide)
        return self.append(other)

    def append(self, other: Incidence) -> Incidence:
        """Return the same as :meth:`join` where all features of the other have higher numbers."""
        n_features = max(self.n_features, other.n_features)
        indices = _join(self.indptr, self.indices, other.indptr, other.indices)
        return Incidence(self.indptr + other.indptr, indices, n_features)

    @classmethod
    def union(cls, parts: list[Incidence]) -> Incidence:
        """Return the matrix of which percept exhibits a feature in one of the parts."""
        if len(parts) == 1:
            return parts[0]
        rows = [np.repeat(np.arange(part.n_percepts), np.diff(part.indptr)) for part in parts]
        columns = [part.indices for part in parts]
        shape = parts[0].n_percepts, parts[0].n_features
        return cls.from_pairs(np.concatenate(rows), np.concatenate(columns), *shape)

    @classmethod
    def from_pairs(
        cls,
        percept: NDArray[np.int64],
        feature: NDArray[np.int32],
        n_percepts: int,
        n_features: int,
    ) -> Incidence:
        """Return the matrix of a list of (percept, feature) pairs, in which pairs may repeat."""
        key = np.unique(percept * np.int64(max(n_features, 1)) + feature)
        rows, columns = np.divmod(key, max(n_features, 1))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_percepts))])
        return cls(indptr.astype(np.int64), columns.astype(np.int32), n_features)

    @classmethod
    def from_dense(cls, matrix: NDArray[np.bool_]) -> Incidence:
        """Return the sparse form of a (n_percepts, n_features) matrix."""
        rows, columns = np.nonzero(matrix)
        return cls.from_pairs(rows, columns.astype(np.int32), *matrix.shape)


class Joined(Incidence):
    """What :meth:`Incidence.join` returns, put together when it is asked for.

    Every stage of learning adds a few columns to all that were there, and stages are kept. Of their
    matrices only the last few that were asked for are there as a whole.

    >>> one = Incidence.from_dense(np.array([[1, 0], [0, 1]]))
    >>> two = Joined(one, Incidence.from_dense(np.array([[0, 0, 1], [0, 0, 0]])))
    >>> two.indices.tolist(), two.n_features
    ([0, 2, 1], 3)
    """

    __slots__ = ("__weakref__", "_left", "_right")
    _left: Incidence
    _right: Incidence

    def __init__(self, left: Incidence, right: Incidence) -> None:
        n_features = max(left.n_features, right.n_features)
        for name, value in {"n_features": n_features, "_left": left, "_right": right}.items():
            object.__setattr__(self, name, value)  # it is frozen

    @property
    def indptr(self) -> NDArray[np.int64]:
        """(n_percepts + 1,) where each row begins in ``indices``."""
        return self._whole().indptr

    @property
    def indices(self) -> NDArray[np.int32]:
        """Features that each percept exhibits, each once, in ascending order."""
        return self._whole().indices

    def _whole(self) -> Incidence:
        one: Incidence = self
        added = list[Incidence]()
        while isinstance(one, Joined) and (known := _known(one)) is None:
            added.append(one._right)
            one = one._left
        whole = known if isinstance(one, Joined) and known is not None else one
        for more in reversed(added):
            whole = whole.join(more)
        if added:
            _WHOLE.append((weakref.ref(self), whole))
        return whole


_WHOLE: deque[tuple[weakref.ref[Joined], Incidence]] = deque(maxlen=8)


def _known(one: Joined) -> Incidence | None:
    """Return a matrix as a whole, if it was asked for not long ago."""
    return next((whole for asked, whole in tuple(_WHOLE) if asked() is one), None)


@compiled
def _count(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], wanted: NDArray[np.bool_]
) -> NDArray[np.int64]:
    total = np.zeros(len(indptr) - 1, np.int64)
    for row in range(len(total)):
        for i in range(indptr[row], indptr[row + 1]):
            total[row] += wanted[indices[i]]
    return total


@compiled
def _take(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    begin = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        begin[i + 1] = begin[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    out = np.empty(begin[-1], indices.dtype)
    for i in range(len(rows)):
        first = indptr[rows[i]]
        for k in range(begin[i + 1] - begin[i]):
            out[begin[i] + k] = indices[first + k]
    return begin, out


@compiled
def _join(
    left: NDArray[np.int64],
    left_indices: NDArray[np.int32],
    right: NDArray[np.int64],
    right_indices: NDArray[np.int32],
) -> NDArray[np.int32]:
    out = np.empty(left[-1] + right[-1], np.int32)
    n = 0
    for row in range(len(left) - 1):
        for i in range(left[row], left[row + 1]):
            out[n] = left_indices[i]
            n += 1
        for i in range(right[row], right[row + 1]):
            out[n] = right_indices[i]
            n += 1
    return out


@compiled
def _exhibits(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    percepts: NDArray[np.int64],
    features: NDArray[np.int64],
) -> NDArray[np.bool_]:
    found = np.zeros(len(percepts), np.bool_)
    for i in range(len(percepts)):
        first, end = indptr[percepts[i]], indptr[percepts[i] + 1]
        last = end
        while first < last:
            middle = (first + last) // 2
            if indices[middle] < features[i]:
                first = middle + 1
            else:
                last = middle
        found[i] = first < end and indices[first] == features[i]
    return found
