"""The keypoints of many images: interest points, and the distinct descriptors among theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.detectors import InterestPoints

CAPACITY = 1024  # rows for which space is reserved at first


@dataclass(frozen=True, slots=True)
class Keypoints:
    """The keypoints of many images of one camera.

    Attributes:
        begin: (n_images + 1,) where the points of each image begin.
        points: All interest points.
        descriptors: (n_distinct, d) their distinct descriptors, in the order of their first points.
        row: (n_points,) the row of ``descriptors`` that describes each point.
    """

    begin: NDArray[np.int64]
    points: InterestPoints
    descriptors: Descriptors
    row: NDArray[np.int32]

    @property
    def n_images(self) -> int:
        """The number of images."""
        return len(self.begin) - 1


class KeypointBuffer:
    """Collect keypoints image by image, starting with a copy of known ones."""

    def __init__(self, known: Keypoints | None = None) -> None:
        self._begin = [0]
        self._columns: list[GrowableArray] | None = None
        self._row = GrowableArray(np.empty(0, np.int32))
        self._distinct: UniqueRows | None = None
        if known is not None:
            self._begin = known.begin.tolist()
            self._add_points(known.points)
            self._distinct = UniqueRows(known.descriptors)
            self._distinct.add(known.descriptors)
            self._row.add(known.row)

    @property
    def n_images(self) -> int:
        """The number of images added."""
        return len(self._begin) - 1

    def add(self, counts: Sequence[int], points: InterestPoints, rows: Descriptors) -> None:
        """Add images: the number of points on each, all points, and a descriptor for each point."""
        self._begin += (self._begin[-1] + np.cumsum(counts, dtype=np.int64)).tolist()
        self._add_points(points)
        if self._distinct is None:
            self._distinct = UniqueRows(rows)
        self._row.add(self._distinct.add(rows))

    def _add_points(self, points: InterestPoints) -> None:
        if self._columns is None:
            self._columns = [GrowableArray(column) for column in points.columns]
        for grown, column in zip(self._columns, points.columns, strict=True):
            grown.add(column)

    def finish(self) -> Keypoints:
        """Return the keypoints of all images (at least one); none may be added afterwards."""
        assert self._columns is not None
        assert self._distinct is not None
        points = InterestPoints(*(column.finish() for column in self._columns))
        begin = np.asarray(self._begin, np.int64)
        return Keypoints(begin, points, self._distinct.finish(), self._row.finish())


class GrowableArray:
    """An array to which rows are appended.

    It grows in place by an eighth at a time: concatenating a list of arrays in the end would need
    the memory twice.

    >>> column = GrowableArray(np.empty(0, np.int64))
    >>> column.add(np.arange(3)), column.add(np.arange(2))
    (None, None)
    >>> column.finish().tolist()
    [0, 1, 2, 0, 1]
    """

    def __init__(self, like: NDArray[Any]) -> None:
        self._array = np.empty((0, *like.shape[1:]), like.dtype)
        self.n = 0

    def reserve(self, n: int) -> NDArray[Any]:
        """Return the array with space for ``n`` more rows; it is valid until the next call."""
        need, capacity = self.n + n, len(self._array)
        if need > capacity:
            capacity = max(need, capacity + capacity // 8, CAPACITY)
            self._array.resize((capacity, *self._array.shape[1:]), refcheck=False)
        return self._array

    def add(self, rows: NDArray[Any]) -> None:
        """Append rows."""
        self.reserve(len(rows))[self.n : self.n + len(rows)] = rows
        self.n += len(rows)

    def finish(self) -> NDArray[Any]:
        """Return all rows; none may be added afterwards."""
        self._array.resize((self.n, *self._array.shape[1:]), refcheck=False)
        return self._array


class UniqueRows:
    """Distinct rows, in the order of their first occurrence.

    >>> rows = UniqueRows(np.empty((0, 2), np.uint8))
    >>> rows.add(np.uint8([[5, 5], [1, 1], [5, 5]])).tolist(), rows.add(np.uint8([[1, 1]])).tolist()
    ([0, 1, 0], [1])
    >>> rows.finish().tolist()
    [[5, 5], [1, 1]]
    """

    def __init__(self, like: Descriptors) -> None:
        self._start(like)

    def _start(self, like: Descriptors) -> None:
        self._dtype, self._width = like.dtype, like.shape[1]
        self._kept = GrowableArray(np.empty((0, self._width * like.dtype.itemsize), np.uint8))
        self._table = np.full(2 * CAPACITY, -1, np.int32)

    def check(self, rows: Descriptors) -> None:
        """Raise an error unless rows are of the width and the type of those before."""
        if rows.shape[1] != self._width:
            raise ValueError(
                f"Descriptors must have {self._width} numbers each, as before; got {rows.shape[1]}."
            )
        if rows.dtype != self._dtype:
            raise TypeError(f"Descriptors must be of {self._dtype}, as before; got {rows.dtype}.")

    def add(self, rows: Descriptors) -> NDArray[np.int32]:
        """Return the number of each row; a new row gets the next number."""
        if len(rows) == 0:
            return np.empty(0, np.int32)
        if self._kept.n == 0:  # width and type of arrays without rows are not reliable
            self._start(rows)
        self.check(rows)
        as_bytes = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
        kept = self._kept.reserve(len(rows))
        need = 2 * (self._kept.n + len(rows))
        if need > len(self._table):
            self._table = np.full(1 << need.bit_length(), -1, np.int32)
            known = kept[: self._kept.n]
            _number(known, kept, 0, self._table, np.empty(len(known), np.int32))
        which = np.empty(len(rows), np.int32)
        self._kept.n = _number(as_bytes, kept, self._kept.n, self._table, which)
        return which

    def finish(self) -> Descriptors:
        """Return the distinct rows; none may be added afterwards."""
        return self._kept.finish().view(self._dtype).reshape(self._kept.n, self._width)


def unique_rows(rows: Descriptors) -> tuple[Descriptors, NDArray[np.int32]]:
    """Return the distinct rows in the order of their first occurrence, and the number of each row.

    >>> unique_rows(np.uint8([[5, 5], [1, 1], [5, 5]]))[1].tolist()
    [0, 1, 0]
    """
    distinct = UniqueRows(rows)
    which = distinct.add(rows)
    return distinct.finish(), which


def first_points(row: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first point of each distinct descriptor, given the descriptor of each point.

    >>> first_points(np.int32([0, 1, 0, 2, 1])).tolist()
    [0, 1, 3]
    """
    highest = np.maximum.accumulate(row)  # descriptors are numbered by their first points
    return np.flatnonzero(np.diff(highest, prepend=np.int32(-1)))


@jit
def _slot(rows: NDArray[np.uint8], i: int, size: int) -> np.int64:
    """Return where to start probing for a row in a table of this size, a power of two."""
    key = np.uint64(14695981039346656037)  # Fowler, Noll and Vo's hash
    for c in range(rows.shape[1]):
        key = (key ^ np.uint64(rows[i, c])) * np.uint64(1099511628211)
    return np.int64((key ^ (key >> np.uint64(32))) & np.uint64(size - 1))


@jit
def _number(
    rows: NDArray[np.uint8],
    kept: NDArray[np.uint8],
    n: int,
    table: NDArray[np.int32],
    which: NDArray[np.int32],
) -> int:
    """Number rows by a hash table with open addressing; rows with equal hashes are compared.

    New rows are written to ``kept``, after its first n rows; return how many it then has.
    """
    width = rows.shape[1]
    for i in range(len(rows)):
        slot = _slot(rows, i, len(table))
        while True:
            known = table[slot]
            if known == -1:
                table[slot] = n
                which[i] = n
                for c in range(width):
                    kept[n, c] = rows[i, c]
                n += 1
                break
            for c in range(width):
                if rows[i, c] != kept[known, c]:
                    break
            else:  # the same row
                which[i] = known
                break
            slot = (slot + 1) & (len(table) - 1)
    return n
