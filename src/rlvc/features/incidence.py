"""Which percept exhibits which feature, as sparse rows.

Learning adds a few features at every stage to a matrix that may fill most of the memory. So a
matrix may consist of parts, each with features of its own, and what is there is never copied.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.jit import chunks, n_threads, share_threads
from rlvc.features.incidence_kernels import (
    Rows,
    add_columns,
    count_company,
    count_sets,
    exhibit_pairs,
    fill_columns,
    find_features,
    join_rows,
    only_wanted,
    sort_pairs,
    take_rows,
)


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

    @property
    def parts(self) -> tuple[Incidence, ...]:
        """Plain matrices with as many rows; the features of each have higher numbers than before.

        What reads all rows reads part by part, as :attr:`indices` has to put them together first.
        """
        return (self,)

    def row(self, percept: int) -> NDArray[np.int32]:
        """Return the features of one percept."""
        rows = [one.indices[one.indptr[percept] : one.indptr[percept + 1]] for one in self.parts]
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def exhibits(
        self, percepts: NDArray[np.int64], features: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Tell for pairs of a percept and a feature whether the one exhibits the other."""
        found = [exhibit_pairs(one.indptr, one.indices, percepts, features) for one in self.parts]
        return found[0] if len(found) == 1 else np.logical_or.reduce(found)

    def count(self, features: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of some features, each named once, every percept exhibits."""
        return np.asarray(self.counts([features])[0], np.int64)

    def counts(
        self,
        sets: Sequence[NDArray[np.int64]],
        rows: NDArray[np.int64] | None = None,
        threads: int = 1,
    ) -> NDArray[np.integer]:
        """Return (n_sets, n_percepts) what :meth:`count` does for each of some sets of features.

        All are counted in one pass, as reading the matrix is what takes time.

        Args:
            sets: The features of each.
            rows: The percepts to look at, if not all; one may stand there twice.
            threads: How many threads to use; the result does not depend on it.
        """
        largest = max(map(len, sets), default=0)
        small = np.uint8 if largest < 2**8 else np.uint32  # one for each percept and set
        total = np.zeros((len(sets), self.n_percepts if rows is None else len(rows)), small)
        every = np.empty(0, np.int64) if rows is None else rows
        spans = [(one.start, one.stop) for one in chunks(total.shape[1], n_threads(threads))]
        for first in range(0, len(sets), 64):  # a bit of a word for each set
            asked = np.zeros(self.n_features, np.uint64)
            for number, features in enumerate(sets[first : first + 64]):
                asked[features] |= np.uint64(1) << np.uint64(number)
            lowest = int(np.flatnonzero(asked).min(initial=self.n_features))
            here = total[first : first + 64]
            for one in self.parts:
                if lowest < one.n_features:
                    work = functools.partial(
                        count_sets, one.indptr, one.indices, asked, every, here
                    )
                    share_threads(work, spans, threads)
        return total

    def company(
        self, job: NDArray[np.int64], features: NDArray[np.int64], threads: int = 1
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Return in what company each of some features is seen, on percepts of its own.

        Args:
            job: (n_percepts,) which of the features is looked for on a percept; -1 for none.
            features: The features.
            threads: How many threads to use; the result does not depend on it.

        Returns:
            n: (n_jobs,) the percepts of each.
            n_has: (n_jobs,) how many of them exhibit the feature.
            count: (n_jobs, n_features) how many of them exhibit each feature.
            both: (n_jobs, n_features) how many of them exhibit each together with the one.
        """
        has = np.zeros(self.n_percepts, np.bool_)
        spans = [(piece.start, piece.stop) for piece in chunks(self.n_percepts, n_threads(threads))]
        for one in self.parts:
            find = functools.partial(find_features, one.indptr, one.indices, job, features, has)
            share_threads(find, spans, threads)
        n, n_has = (
            np.bincount(which + 1, minlength=len(features) + 1)[1:] for which in (job, job[has])
        )
        shape = 2, len(features), self.n_features
        seen = np.zeros(shape, np.int64)  # without the feature, and with it
        for one in self.parts:
            work = functools.partial(count_company, one.indptr, one.indices, job, has, shape)
            for some in share_threads(work, spans, threads):
                seen += some
        return n, n_has, seen[0] + seen[1], seen[1]

    def take(self, rows: NDArray[np.int64]) -> Incidence:
        """Return the matrix of some rows, in the given order; a row may stand there twice."""
        parts = [take_rows(one.indptr, one.indices, rows) for one in self.parts]
        return Incidence(*functools.reduce(_put_together, parts), self.n_features)

    def only(self, wanted: NDArray[np.bool_]) -> Incidence:
        """Return the matrix in which only some features are exhibited; all keep their numbers.

        >>> shown = Incidence.from_dense(np.array([[1, 1], [0, 1]]))
        >>> shown.only(np.array([False, True])).indptr.tolist()
        [0, 1, 2]
        """
        parts = [only_wanted(one.indptr, one.indices, wanted) for one in self.parts]
        return Incidence(*functools.reduce(_put_together, parts), self.n_features)

    def join(self, other: Incidence) -> Incidence:
        """Return what a percept exhibits in this matrix or in another, with as many rows.

        It takes no copy of this matrix where, as is usual, the other's features have higher
        numbers: what is joined to it, one matrix after the other, becomes its second part.
        """
        first, *added = self.parts
        new = Incidence.union(other.parts)
        if not new._is_above(first):
            return Incidence.union([*self.parts, new])
        for one in added:
            new = _add_columns(one, new)
        return StackedIncidence((first, new))

    def _is_above(self, other: Incidence) -> bool:
        """Tell whether all features have higher numbers than those of another matrix."""
        lowest = self.indices.min(initial=self.n_features)
        return bool(lowest >= other.n_features or lowest > other.indices.max(initial=-1))

    def append(self, other: Incidence) -> Incidence:
        """Return the same as :meth:`join` where all features of the other have higher numbers.

        The other stays a part of its own: better than to join where it is large.
        """
        return StackedIncidence((*self.parts, *other.parts))

    def first(self, n_features: int) -> Incidence:
        """Return the matrix of the features with the lowest numbers."""
        parts = [part._first(n_features) for part in self.parts]
        return parts[0] if len(parts) == 1 else StackedIncidence(tuple(parts))

    def _first(self, n: int) -> Incidence:
        if self.n_features <= n:
            return self
        rows = only_wanted(self.indptr, self.indices, np.arange(self.n_features) < n)
        return Incidence(*rows, n)

    @classmethod
    def union(cls, parts: Sequence[Incidence]) -> Incidence:
        """Return the matrix of which percept exhibits a feature in one of the parts."""
        if len(parts) == 1:
            return parts[0]
        rows = [np.repeat(np.arange(part.n_percepts), np.diff(part.indptr)) for part in parts]
        columns = [part.indices for part in parts]
        shape = parts[0].n_percepts, max(part.n_features for part in parts)
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
        indptr = np.zeros(n_percepts + 1, np.int64)
        indices = np.empty(len(feature), np.int32)
        n = sort_pairs(
            np.asarray(percept, np.int64), np.asarray(feature, np.int32), indptr, indices
        )
        return cls(indptr, indices if n == len(indices) else indices[:n].copy(), n_features)

    @classmethod
    def from_dense(cls, matrix: NDArray[np.bool_]) -> Incidence:
        """Return the sparse form of a (n_percepts, n_features) matrix."""
        rows, columns = np.nonzero(matrix)
        return cls.from_pairs(rows, columns.astype(np.int32), *matrix.shape)


class StackedIncidence(Incidence):
    """What :meth:`Incidence.append` and :meth:`Incidence.join` return: a matrix of several parts.

    Its rows as a whole are put together anew whenever they are asked for.

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
    def indices(self) -> NDArray[np.int32]:
        """Features that each percept exhibits, each once, in ascending order."""
        rows = [(one.indptr, one.indices) for one in self._parts]
        return functools.reduce(_put_together, rows)[1]


def _add_columns(matrix: Incidence, other: Incidence) -> Incidence:
    """Return a matrix with the features of another, which usually have higher numbers."""
    begin, feature, rows = _as_columns(other)
    n, n_features = matrix.n_percepts, max(matrix.n_features, other.n_features)
    if len(rows) == 0:
        return Incidence(matrix.indptr, matrix.indices, n_features)
    if not other._is_above(matrix):
        return Incidence.union([matrix, other])
    indptr = np.empty(n + 1, np.int64)
    indices = np.empty(len(matrix.indices) + len(rows), np.int32)
    add_columns(matrix.indptr, matrix.indices, begin, feature, rows, indptr, indices)
    return Incidence(indptr, indices, n_features)


def _as_columns(matrix: Incidence) -> tuple[Ints, NDArray[np.int32], NDArray[np.int32]]:
    """Return the columns that are not empty: where each begins, its number, and its percepts."""
    begin = np.zeros(matrix.n_features + 1, np.int64)
    begin[1:] = np.cumsum(np.bincount(matrix.indices, minlength=matrix.n_features))
    rows = np.empty(begin[-1], np.int32)
    fill_columns(matrix.indptr, matrix.indices, begin[:-1].copy(), rows)
    feature = np.flatnonzero(np.diff(begin)).astype(np.int32)
    return np.append(begin[feature], begin[-1]), feature, rows


def _put_together(left: Rows, right: Rows) -> Rows:
    """Return rows that begin as those of one matrix and go on as those of another."""
    indices = np.empty(len(left[1]) + len(right[1]), np.int32)
    join_rows(*left, *right, indices)
    return left[0] + right[0], indices
