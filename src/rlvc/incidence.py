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

from rlvc.compiled import chunks, compiled, n_threads, share_threads

Ints = NDArray[np.int64]


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
        found = [_exhibits(one.indptr, one.indices, percepts, features) for one in self.parts]
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
                    work = functools.partial(_counts, one.indptr, one.indices, asked, every, here)
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
            find = functools.partial(_find, one.indptr, one.indices, job, features, has)
            share_threads(find, spans, threads)
        n, n_has = (
            np.bincount(which + 1, minlength=len(features) + 1)[1:] for which in (job, job[has])
        )
        shape = 2, len(features), self.n_features
        seen = np.zeros(shape, np.int64)  # without the feature, and with it
        for one in self.parts:
            work = functools.partial(_company, one.indptr, one.indices, job, has, shape)
            for some in share_threads(work, spans, threads):
                seen += some
        return n, n_has, seen[0] + seen[1], seen[1]

    def take(self, rows: NDArray[np.int64]) -> Incidence:
        """Return the matrix of some rows, in the given order; a row may stand there twice."""
        parts = [_take(one.indptr, one.indices, rows) for one in self.parts]
        return Incidence(*functools.reduce(_put_together, parts), self.n_features)

    def only(self, wanted: NDArray[np.bool_]) -> Incidence:
        """Return the matrix in which only some features are exhibited; all keep their numbers.

        >>> shown = Incidence.from_dense(np.array([[1, 1], [0, 1]]))
        >>> shown.only(np.array([False, True])).indptr.tolist()
        [0, 1, 2]
        """
        parts = [_only(one.indptr, one.indices, wanted) for one in self.parts]
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
        n = _from_pairs(
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
            _add_columns(tail.indptr, tail.indices, begin, feature, rows, indptr, indices)
            return base, Incidence(indptr, indices, m)
        new = Incidence.from_pairs(rows.astype(np.int64), np.repeat(feature, np.diff(begin)), n, m)
        return (Incidence.union([*parts, new]),), None


KEPT = 1  # matrices of a chain whose added columns are there as rows: the last one asked for
Columns = tuple[Ints, NDArray[np.int32], NDArray[np.int32]]  # where each begins, number, percepts
Split = tuple[tuple[Incidence, ...], Incidence | None]
Rows = tuple[Ints, NDArray[np.int32]]


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
        _fill_columns(one.indptr, one.indices, at, rows)
    feature = np.flatnonzero(count).astype(np.int32)
    return np.append(begin[feature], begin[-1]), feature, rows


def _put_together(left: Rows, right: Rows) -> Rows:
    """Return rows that begin as those of one matrix and go on as those of another."""
    indices = np.empty(len(left[1]) + len(right[1]), np.int32)
    _join(*left, *right, indices)
    return left[0] + right[0], indices


@compiled
def is_among(indices: NDArray[np.int32], first: int, end: int, feature: int) -> bool:
    """Tell whether a feature stands in a row, which goes from ``first`` to ``end``."""
    last = end
    while first < last:
        middle = (first + last) // 2
        if indices[middle] < feature:
            first = middle + 1
        else:
            last = middle
    return bool(first < end and indices[first] == feature)


@compiled
def _fill_columns(
    indptr: Ints, indices: NDArray[np.int32], at: Ints, rows: NDArray[np.int32]
) -> None:
    for row in range(len(indptr) - 1):
        for i in range(indptr[row], indptr[row + 1]):
            rows[at[indices[i]]] = row
            at[indices[i]] += 1


@compiled
def _add_columns(
    old: Ints,
    old_indices: NDArray[np.int32],
    begin: Ints,
    feature: NDArray[np.int32],
    rows: NDArray[np.int32],
    indptr: Ints,
    indices: NDArray[np.int32],
) -> None:
    """Write the rows of a matrix with columns of higher numbers added."""
    n = len(old) - 1
    indptr[:] = 0
    for i in range(len(rows)):
        indptr[rows[i] + 1] += 1
    for row in range(n):  # where a row ends now; its new features are written from there back
        indptr[row + 1] += indptr[row] + old[row + 1] - old[row]
        first = indptr[row]
        for i in range(old[row + 1] - old[row]):
            indices[first + i] = old_indices[old[row] + i]
    for k in range(len(feature) - 1, -1, -1):
        for i in range(begin[k], begin[k + 1]):
            row = rows[i]
            indptr[row + 1] -= 1
            indices[indptr[row + 1]] = feature[k]
    for i in range(len(rows)):
        indptr[rows[i] + 1] += 1


@compiled
def _from_pairs(
    percept: Ints, feature: NDArray[np.int32], indptr: Ints, indices: NDArray[np.int32]
) -> int:
    """Write the rows in ascending order, each feature once; return how many there are."""
    n = len(indptr) - 1
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
    return out


@compiled
def _counts(
    indptr: Ints,
    indices: NDArray[np.int32],
    asked: NDArray[np.uint64],
    rows: Ints,
    total: NDArray[np.integer],
    span: tuple[int, int],
) -> None:
    for k in range(span[0], span[1]):
        row = rows[k] if len(rows) else k
        for i in range(indptr[row], indptr[row + 1]):
            sets = asked[np.uint32(indices[i])]
            number = 0
            while sets:  # few features are in any
                if sets & np.uint64(1):
                    total[number, k] += 1
                sets >>= np.uint64(1)
                number += 1


@compiled
def _find(
    indptr: Ints,
    indices: NDArray[np.int32],
    job: Ints,
    features: Ints,
    has: NDArray[np.bool_],
    span: tuple[int, int],
) -> None:
    for row in range(span[0], span[1]):
        if job[row] >= 0:
            has[row] |= is_among(indices, indptr[row], indptr[row + 1], features[job[row]])


@compiled
def _company(
    indptr: Ints,
    indices: NDArray[np.int32],
    job: Ints,
    has: NDArray[np.bool_],
    shape: tuple[int, int, int],
    span: tuple[int, int],
) -> Ints:
    n_jobs, n_features = shape[1], shape[2]
    seen = np.zeros(2 * n_jobs * n_features, np.int64)
    for row in range(span[0], span[1]):
        if job[row] >= 0:
            first = np.uint64(((n_jobs if has[row] else 0) + job[row]) * n_features)
            for i in range(indptr[row], indptr[row + 1]):
                seen[first + np.uint64(indices[i])] += 1
    return seen.reshape(shape)


@compiled
def _take(indptr: Ints, indices: NDArray[np.int32], rows: Ints) -> Rows:
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
def _only(indptr: Ints, indices: NDArray[np.int32], wanted: NDArray[np.bool_]) -> Rows:
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


@compiled
def _join(
    left: Ints,
    left_indices: NDArray[np.int32],
    right: Ints,
    right_indices: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    n = 0
    for row in range(len(left) - 1):
        for i in range(left[row], left[row + 1]):
            out[n] = left_indices[i]
            n += 1
        for i in range(right[row], right[row + 1]):
            out[n] = right_indices[i]
            n += 1


@compiled
def _exhibits(
    indptr: Ints, indices: NDArray[np.int32], percepts: Ints, features: Ints
) -> NDArray[np.bool_]:
    found = np.zeros(len(percepts), np.bool_)
    for i in range(len(percepts)):
        row = percepts[i]
        found[i] = is_among(indices, indptr[row], indptr[row + 1], features[i])
    return found
