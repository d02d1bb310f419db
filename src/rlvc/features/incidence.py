"""Which percept exhibits which feature, as sparse rows.

Learning adds a few features at every stage to a matrix that may fill most of the memory. So a
matrix may consist of parts, each with features of its own, and what is there is never copied.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
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

        It takes no copy where, as is usual, the other's features have higher numbers.
        """
        return Joined(self, other)

    def append(self, other: Incidence) -> Incidence:
        """Return the same as :meth:`join` where all features of the other have higher numbers.

        The other stays a part of its own: better than to join where it is large.
        """
        return Appended(self, other)

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


class Appended(Incidence):
    """What :meth:`Incidence.append` returns: a matrix of parts, put together if it is asked for.

    >>> one = Incidence.from_dense(np.array([[1, 0], [0, 1]]))
    >>> two = one.append(Incidence.from_dense(np.array([[0, 0, 1], [0, 0, 0]])))
    >>> two.indices.tolist(), two.n_features, len(two.parts)
    ([0, 2, 1], 3, 2)
    """

    __slots__ = ("__weakref__", "_left", "_right")
    _left: Incidence
    _right: Incidence

    def __init__(self, left: Incidence, right: Incidence) -> None:
        n_features = max(left.n_features, right.n_features)
        self._set(n_features=n_features, _left=left, _right=right)

    def _set(self, **slots: object) -> None:
        for name, value in slots.items():
            object.__setattr__(self, name, value)  # it is frozen

    def __reduce__(self) -> tuple[Any, ...]:
        return Incidence, (self.indptr, self.indices, self.n_features)

    @property
    def n_percepts(self) -> int:
        """The number of rows."""
        return self._left.n_percepts

    @property
    def parts(self) -> tuple[Incidence, ...]:
        """Those of the one matrix, and then those of the other."""
        return *self._left.parts, *self._right.parts

    @property
    def indptr(self) -> NDArray[np.int64]:
        """(n_percepts + 1,) where each row begins in ``indices``."""
        return self._one().indptr

    @property
    def indices(self) -> NDArray[np.int32]:
        """Features that each percept exhibits, each once, in ascending order."""
        return self._one().indices

    def _one(self) -> Incidence:
        """Return the matrix as a whole; the last ones that were asked for are kept."""
        whole = next((whole for asked, whole in tuple(_WHOLE) if asked() is self), None)
        if whole is None:
            rows = [(one.indptr, one.indices) for one in self.parts]
            whole = Incidence(*functools.reduce(_put_together, rows), self.n_features)
            _WHOLE.append((weakref.ref(self), whole))
        return whole


_WHOLE: deque[tuple[weakref.ref[Appended], Incidence]] = deque(maxlen=2)


class Joined(Appended):
    """What :meth:`Incidence.join` returns: at most two parts, a large and a small one.

    Every stage of learning adds a few columns to all that were there, and stages are kept. What was
    added is kept as columns, which take little room, and only the last matrices that were asked for
    have all of them as rows, the second part.

    >>> one = Incidence.from_dense(np.array([[1, 0], [0, 1]]))
    >>> two = Joined(one, Incidence.from_dense(np.array([[0, 0, 1], [0, 0, 0]])))
    >>> two.indices.tolist(), two.n_features
    ([0, 2, 1], 3)
    """

    __slots__ = ("_added", "_known")
    _added: Columns
    _known: deque[tuple[weakref.ref[Joined], Split]]

    def __init__(self, left: Incidence, right: Incidence) -> None:
        n_features = max(left.n_features, right.n_features)
        known = left._known if isinstance(left, Joined) else deque(maxlen=KEPT)
        self._set(n_features=n_features, _left=left, _added=_as_columns(right), _known=known)

    @property
    def parts(self) -> tuple[Incidence, ...]:
        """Those of the matrix that others were joined to, and one of all that was joined to it."""
        one: Incidence = self
        added, known = list[Joined](), None
        while isinstance(one, Joined) and (known := one._find()) is None:
            added.append(one)
            one = one._left
        split = (one.parts, None) if known is None else known
        for columns in _chained([more._added for more in reversed(added)]):
            split = self._grow(*split, columns)
        if added:
            self._known.append((weakref.ref(self), split))
        base, tail = split
        return base if tail is None else (*base, tail)

    def _find(self) -> Split | None:
        """Return what it consists of, if that was asked for not long ago."""
        return next((split for asked, split in tuple(self._known) if asked() is self), None)

    def _grow(self, base: tuple[Incidence, ...], tail: Incidence | None, added: Columns) -> Split:
        """Return the parts with some columns added."""
        begin, feature, rows = added
        n, m = self.n_percepts, self.n_features
        if len(rows) == 0:
            return base, tail
        parts = base if tail is None else (*base, tail)
        if all(feature[0] >= p.n_features or feature[0] > p.indices.max(initial=-1) for p in parts):
            if tail is None:
                tail = Incidence(np.zeros(n + 1, np.int64), np.empty(0, np.int32), m)
            indptr = np.empty(n + 1, np.int64)
            indices = np.empty(len(tail.indices) + len(rows), np.int32)
            add_columns(tail.indptr, tail.indices, begin, feature, rows, indptr, indices)
            return base, Incidence(indptr, indices, m)
        new = Incidence.from_pairs(rows.astype(np.int64), np.repeat(feature, np.diff(begin)), n, m)
        return (Incidence.union([*parts, new]),), None


KEPT = 1  # matrices of a chain whose added columns are there as rows: the last one asked for
Columns = tuple[Ints, NDArray[np.int32], NDArray[np.int32]]  # where each begins, number, percepts
Split = tuple[tuple[Incidence, ...], Incidence | None]


def _chained(added: list[Columns]) -> list[Columns]:
    """Return columns that were added one after the other in runs of ascending numbers.

    Each run is then added at once.
    """
    runs = list[list[Columns]]()
    for columns in added:
        if len(columns[1]) == 0:
            continue
        if runs and columns[1][0] > runs[-1][-1][1][-1]:
            runs[-1].append(columns)
        else:
            runs.append([columns])
    return [run[0] if len(run) == 1 else _side_by_side(run) for run in runs]


def _side_by_side(run: list[Columns]) -> Columns:
    lengths = np.concatenate([np.diff(begin) for begin, _, _ in run])
    feature, rows = (np.concatenate([columns[i] for columns in run]) for i in (1, 2))
    return np.concatenate([[0], np.cumsum(lengths)]), feature, rows


def _as_columns(matrix: Incidence) -> Columns:
    """Return the columns that are not empty, in ascending order."""
    begin = np.zeros(matrix.n_features + 1, np.int64)
    count = np.zeros(matrix.n_features, np.int64)
    for one in matrix.parts:
        count += np.bincount(one.indices, minlength=matrix.n_features)
    begin[1:] = np.cumsum(count)
    rows = np.empty(begin[-1], np.int32)
    at = begin[:-1].copy()
    for one in matrix.parts:
        fill_columns(one.indptr, one.indices, at, rows)
    feature = np.flatnonzero(count).astype(np.int32)
    return np.append(begin[feature], begin[-1]), feature, rows


def _put_together(left: Rows, right: Rows) -> Rows:
    """Return rows that begin as those of one matrix and go on as those of another."""
    indices = np.empty(len(left[1]) + len(right[1]), np.int32)
    join_rows(*left, *right, indices)
    return left[0] + right[0], indices
