"""The incidence matrix: which percept exhibits which feature, as sparse rows.

Every stage of learning adds a few features to a matrix that may fill most of the memory, so a
matrix may consist of several parts with different features: adding features copies no large part.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Ints, Ints32, Rows
from rlvc._core.jit import jit, share_spans, take_rows


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

    indptr: Ints
    indices: Ints32
    n_features: int

    @property
    def n_percepts(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1

    @property
    def rows(self) -> Rows:
        """Where each row begins, and what is in the rows, for kernels."""
        return self.indptr, self.indices

    @property
    def parts(self) -> tuple[Incidence, ...]:
        """Simple matrices with the same rows; the features of each have higher numbers than before.

        Code that reads all rows reads them part by part, as :attr:`indices` concatenates the parts.
        """
        return (self,)

    def row(self, percept: int) -> Ints32:
        """Return the features of one percept."""
        rows = [one.indices[one.indptr[percept] : one.indptr[percept + 1]] for one in self.parts]
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def counts(
        self, sets: Sequence[Ints], rows: Ints | None = None, threads: int = 1
    ) -> NDArray[np.integer]:
        """Return (n_sets, n_percepts) how many features of each set each percept exhibits.

        All sets are counted in one pass, as reading the matrix takes most of the time.

        Args:
            sets: The features of each set, all distinct.
            rows: The percepts to count, all by default; they may repeat.
            threads: How many threads to use; the result does not depend on it.
        """
        largest = max(map(len, sets), default=0)
        dtype = np.uint8 if largest < 2**8 else np.uint32  # small, as there are many counts
        total = np.zeros((len(sets), self.n_percepts if rows is None else len(rows)), dtype)
        rows = np.empty(0, np.int64) if rows is None else rows
        for first in range(0, len(sets), 64):  # a bit of a word for each set
            wanted = np.zeros(self.n_features, np.uint64)
            for number, features in enumerate(sets[first : first + 64]):
                wanted[features] |= np.uint64(1) << np.uint64(number)
            lowest = int(np.flatnonzero(wanted).min(initial=self.n_features))
            batch = total[first : first + 64]
            for one in self.parts:
                if lowest < one.n_features:
                    work = functools.partial(_count_sets, one.rows, wanted, rows, batch)
                    share_spans(work, total.shape[1], threads)
        return total

    def cooccurrences(
        self, pivot: Ints, features: Ints, threads: int = 1
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Return how often each feature occurs with each of the given ones.

        Args:
            pivot: (n_percepts,) the index of the given feature that a percept counts for; -1 for
                none.
            features: The given features.
            threads: How many threads to use; the result does not depend on it.

        Returns:
            n: (n_given,) the number of percepts that count for each given feature.
            n_has: (n_given,) how many of them exhibit it.
            count: (n_given, n_features) how many of them exhibit each feature.
            both: (n_given, n_features) how many of them exhibit both.
        """
        has = np.zeros(self.n_percepts, np.bool_)
        for one in self.parts:
            find = functools.partial(_find_features, one.rows, pivot, features, has)
            share_spans(find, self.n_percepts, threads)
        n_given = len(features)
        n = np.bincount(pivot + 1, minlength=n_given + 1)[1:]
        n_has = np.bincount(pivot[has] + 1, minlength=n_given + 1)[1:]
        shape = 2, n_given, self.n_features
        found = np.zeros(shape, np.int64)  # without the given feature, and with it
        for one in self.parts:
            work = functools.partial(_count_cooccurrences, one.rows, pivot, has, shape)
            for part in share_spans(work, self.n_percepts, threads):
                found += part
        return n, n_has, found[0] + found[1], found[1]

    def take(self, rows: Ints) -> Incidence:
        """Return the matrix of the given rows, in this order; they may repeat."""
        parts = [take_rows(*one.rows, rows) for one in self.parts]
        return Incidence(*functools.reduce(_join_rows, parts), self.n_features)

    def only(self, wanted: Bools) -> Incidence:
        """Return the matrix in which only the wanted features are exhibited; numbers are kept.

        >>> shown = Incidence.from_dense(np.array([[1, 1], [0, 1]]))
        >>> shown.only(np.array([False, True])).indptr.tolist()
        [0, 1, 2]
        """
        parts = [_only_wanted(one.rows, wanted) for one in self.parts]
        return Incidence(*functools.reduce(_join_rows, parts), self.n_features)

    def join(self, other: Incidence) -> Incidence:
        """Return the matrix of what percepts exhibit in this matrix or another with the same rows.

        If the other's features have higher numbers, as is usual, the first part is not copied:
        everything joined to it becomes the second part.
        """
        first, *added = self.parts
        new = Incidence.union(other.parts)
        if not new._is_above(first):
            return Incidence.union([*self.parts, new])
        for one in reversed(added):
            if new._is_above(one):
                n_features = max(one.n_features, new.n_features)
                rows = _join_rows(one.rows, new.rows) if len(new.indices) else one.rows
                new = Incidence(*rows, n_features)
            else:
                new = Incidence.union([one, new])
        return StackedIncidence((first, new))

    def _is_above(self, other: Incidence) -> bool:
        """Tell whether all features have higher numbers than those of another matrix."""
        lowest = self.indices.min(initial=self.n_features)
        return bool(lowest >= other.n_features or lowest > other.indices.max(initial=-1))

    def append(self, other: Incidence) -> Incidence:
        """Return what :meth:`join` returns, without a copy; the other's features must be higher.

        The other becomes a further part, which suits large matrices.
        """
        return StackedIncidence((*self.parts, *other.parts))

    def first(self, n_features: int) -> Incidence:
        """Return the matrix of the features with the lowest numbers."""
        is_first = np.arange(self.n_features) < n_features
        parts = [
            Incidence(*_only_wanted(one.rows, is_first), n_features)
            if one.n_features > n_features
            else one
            for one in self.parts
        ]
        # Every part costs a pass over the interactions, so those that are empty are left out.
        *others, last = [one for one in parts if len(one.indices)] or parts[:1]
        last = replace(last, n_features=n_features)
        return StackedIncidence((*others, last)) if others else last

    @classmethod
    def union(cls, parts: Sequence[Incidence]) -> Incidence:
        """Return the simple matrix of what percepts exhibit in any of the parts."""
        if len(parts) == 1:
            return parts[0]
        rows = [np.repeat(np.arange(part.n_percepts), np.diff(part.indptr)) for part in parts]
        columns = [part.indices for part in parts]
        shape = parts[0].n_percepts, max(part.n_features for part in parts)
        return cls.from_pairs(np.concatenate(rows), np.concatenate(columns), *shape)

    @classmethod
    def from_pairs(
        cls, percept: Ints, feature: Ints32, n_percepts: int, n_features: int
    ) -> Incidence:
        """Return the matrix of a list of (percept, feature) pairs, in which pairs may repeat."""
        percept, feature = np.asarray(percept, np.int64), np.asarray(feature, np.int32)
        return cls(*_sort_pairs(percept, feature, n_percepts), n_features)

    @classmethod
    def from_dense(cls, matrix: Bools) -> Incidence:
        """Return the sparse form of a (n_percepts, n_features) matrix."""
        rows, columns = np.nonzero(matrix)
        return cls.from_pairs(rows, columns.astype(np.int32), *matrix.shape)


class StackedIncidence(Incidence):
    """A matrix of several parts, as :meth:`Incidence.append` and :meth:`Incidence.join` return.

    Its ``indptr`` and ``indices`` are computed at every access.

    >>> one = Incidence.from_dense(np.array([[1, 0], [0, 1]]))
    >>> two = one.append(Incidence.from_dense(np.array([[0, 0, 1], [0, 0, 0]])))
    >>> two.indices.tolist(), two.n_features, len(two.parts)
    ([0, 2, 1], 3, 2)
    """

    __slots__ = ("_parts",)
    _parts: tuple[Incidence, ...]

    def __init__(self, parts: tuple[Incidence, ...]) -> None:
        object.__setattr__(self, "_parts", parts)  # it is frozen
        object.__setattr__(self, "n_features", max(part.n_features for part in parts))

    def __reduce__(self) -> tuple[Any, ...]:
        return StackedIncidence, (self._parts,)

    @property
    def n_percepts(self) -> int:
        """The number of rows."""
        return self._parts[0].n_percepts

    @property
    def parts(self) -> tuple[Incidence, ...]:
        """The parts, each with higher features than those before."""
        return self._parts

    @property
    def indptr(self) -> Ints:
        """(n_percepts + 1,) where each row begins in ``indices``."""
        return np.asarray(sum(part.indptr for part in self._parts))

    @property
    def indices(self) -> Ints32:
        """Features that each percept exhibits, each once, in ascending order."""
        return functools.reduce(_join_rows, (one.rows for one in self._parts))[1]


@jit
def is_among(indices: Ints32, first: int, end: int, feature: int) -> bool:
    """Tell whether a feature is in the row from ``first`` to ``end``."""
    last = end
    while first < last:
        middle = (first + last) // 2
        if indices[middle] < feature:
            first = middle + 1
        else:
            last = middle
    return bool(first < end and indices[first] == feature)


@jit
def _sort_pairs(percept: Ints, feature: Ints32, n: int) -> Rows:
    """Return the rows of ``n`` percepts in ascending order, each feature once."""
    indptr = np.zeros(n + 1, np.int64)
    indices = np.empty(len(feature), np.int32)
    for i in range(len(percept)):
        indptr[percept[i] + 1] += 1
    for row in range(n):
        indptr[row + 1] += indptr[row]
    for i in range(len(percept) - 1, -1, -1):  # from the end of each row, back
        row = percept[i]
        indptr[row + 1] -= 1
        indices[indptr[row + 1]] = feature[i]
    # Now indptr[row + 1] is where the row begins, and it ends where the next one does.
    out = 0
    for row in range(n):
        first = indptr[row + 1]
        last = indptr[row + 2] if row + 1 < n else len(percept)
        is_sorted = True
        for i in range(first + 1, last):
            is_sorted = is_sorted and indices[i - 1] <= indices[i]
        if not is_sorted:
            indices[first:last] = np.sort(indices[first:last])
        indptr[row] = out
        for i in range(first, last):
            if i == first or indices[i] != indices[i - 1]:
                kept = indices[i]
                indices[out] = kept
                out += 1
    indptr[n] = out
    return indptr, indices if out == len(indices) else indices[:out].copy()


@jit
def _count_sets(
    rows: Rows,
    wanted: NDArray[np.uint64],
    percepts: Ints,
    total: NDArray[np.integer],
    span: tuple[int, int],
) -> None:
    """Add how many features of each set each percept, or each of ``percepts``, exhibits."""
    indptr, indices = rows
    for k in range(span[0], span[1]):
        row = percepts[k] if len(percepts) else k
        for i in range(indptr[row], indptr[row + 1]):
            sets = wanted[np.uint32(indices[i])]
            number = 0
            while sets:  # few features are in any
                if sets & np.uint64(1):
                    total[number, k] += 1
                sets >>= np.uint64(1)
                number += 1


@jit
def _find_features(
    rows: Rows, pivot: Ints, features: Ints, has: Bools, span: tuple[int, int]
) -> None:
    """Tell which percepts exhibit the feature that they count for."""
    indptr, indices = rows
    for row in range(span[0], span[1]):
        if pivot[row] >= 0:
            has[row] |= is_among(indices, indptr[row], indptr[row + 1], features[pivot[row]])


@jit
def _count_cooccurrences(
    rows: Rows, pivot: Ints, has: Bools, shape: tuple[int, int, int], span: tuple[int, int]
) -> Ints:
    """Return how many percepts exhibit each feature, without and with the one they count for."""
    indptr, indices = rows
    n_given, n_features = shape[1], shape[2]
    count = np.zeros(2 * n_given * n_features, np.int64)
    for row in range(span[0], span[1]):
        if pivot[row] >= 0:
            first = np.uint64(((n_given if has[row] else 0) + pivot[row]) * n_features)
            for i in range(indptr[row], indptr[row + 1]):
                count[first + np.uint64(indices[i])] += 1
    return count.reshape(shape)


@jit
def _only_wanted(rows: Rows, wanted: Bools) -> Rows:
    """Return the rows with only the wanted features."""
    indptr, indices = rows
    begin = np.zeros(len(indptr), np.int64)
    for row in range(len(indptr) - 1):
        begin[row + 1] = begin[row]
        for i in range(indptr[row], indptr[row + 1]):
            begin[row + 1] += wanted[indices[i]]
    out = np.empty(begin[-1], indices.dtype)
    n = 0
    for i in range(len(indices)):
        if wanted[indices[i]]:
            out[n] = indices[i]
            n += 1
    return begin, out


@jit
def _join_rows(left: Rows, right: Rows) -> Rows:
    """Return the rows of one matrix, each continued by that of another."""
    left_begin, left_indices = left
    right_begin, right_indices = right
    out = np.empty(len(left_indices) + len(right_indices), np.int32)
    n = 0
    for row in range(len(left_begin) - 1):
        for i in range(left_begin[row], left_begin[row + 1]):
            out[n] = left_indices[i]
            n += 1
        for i in range(right_begin[row], right_begin[row + 1]):
            out[n] = right_indices[i]
            n += 1
    return left_begin + right_begin, out
