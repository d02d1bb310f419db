"""Rows that are gathered image by image: never there twice, and each distinct one kept once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc.vision.descriptors import Descriptors

ROOM = 1024  # rows for which there is room at first


class GrowableArray:
    """An array to whose end rows are added.

    A list of arrays would have to be put together in the end, and be there twice. This one is grown
    where it lies, by an eighth at a time: what is not used yet takes memory as well.

    >>> column = GrowableArray(np.empty(0, np.int64))
    >>> column.add(np.arange(3)), column.add(np.arange(2))
    (None, None)
    >>> column.finish().tolist()
    [0, 1, 2, 0, 1]
    """

    def __init__(self, like: NDArray[Any]) -> None:
        self._array = np.empty((0, *like.shape[1:]), like.dtype)
        self.n = 0

    def make_room(self, n: int) -> NDArray[Any]:
        """Return an array with room for so many more rows; it may be written to until the next."""
        need, room = self.n + n, len(self._array)
        if need > room:
            more = max(need, room + room // 8, ROOM)
            self._array.resize((more, *self._array.shape[1:]), refcheck=False)
        return self._array

    def add(self, rows: NDArray[Any]) -> None:
        """Add rows."""
        self.make_room(len(rows))[self.n : self.n + len(rows)] = rows
        self.n += len(rows)

    def finish(self) -> NDArray[Any]:
        """Return all rows; none may be added any more."""
        self._array.resize((self.n, *self._array.shape[1:]), refcheck=False)
        return self._array


class UniqueRows:
    """Distinct rows, in the order in which they are met.

    >>> rows = UniqueRows(np.empty((0, 2), np.uint8))
    >>> rows.add(np.uint8([[5, 5], [1, 1], [5, 5]])).tolist(), rows.add(np.uint8([[1, 1]])).tolist()
    ([0, 1, 0], [1])
    >>> rows.finish().tolist()
    [[5, 5], [1, 1]]
    """

    def __init__(self, like: Descriptors) -> None:
        self._dtype, self._width = like.dtype, like.shape[1]
        self._kept = GrowableArray(np.empty((0, self._width * like.dtype.itemsize), np.uint8))
        self._table = np.full(2 * ROOM, -1, np.int32)

    def add(self, rows: Descriptors) -> NDArray[np.int32]:
        """Return the number of each row; one that was not met before gets the next."""
        if rows.shape[1] != self._width:
            raise ValueError(
                f"Descriptors must have {self._width} numbers each, as before; got {rows.shape[1]}."
            )
        if rows.dtype != self._dtype:
            raise TypeError(f"Descriptors must be of {self._dtype}, as before; got {rows.dtype}.")
        n_bytes = self._width * self._dtype.itemsize
        whole = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), n_bytes)
        kept = self._kept.make_room(len(rows))
        need = 2 * (self._kept.n + len(rows))
        if need > len(self._table):
            self._table = np.full(1 << need.bit_length(), -1, np.int32)
            _enter(kept, self._kept.n, self._table)
        which = np.empty(len(rows), np.int32)
        self._kept.n = _number(whole, kept, self._kept.n, self._table, which)
        return which

    def finish(self) -> Descriptors:
        """Return the rows; none may be added any more."""
        return self._kept.finish().view(self._dtype).reshape(self._kept.n, self._width)


def unique_rows(rows: Descriptors) -> tuple[Descriptors, NDArray[np.int32]]:
    """Return the distinct rows in the order in which they are met, and which one each row is.

    A camera that moves over a scene sees the same point again and again.

    >>> unique_rows(np.uint8([[5, 5], [1, 1], [5, 5]]))[1].tolist()
    [0, 1, 0]
    """
    distinct = UniqueRows(rows)
    which = distinct.add(rows)
    return distinct.finish(), which


@jit
def _slot(rows: NDArray[np.uint8], i: int, size: int) -> np.int64:
    """Return where the search for a row begins in a table of this size, a power of two."""
    key = np.uint64(14695981039346656037)  # Fowler, Noll and Vo's hash
    for c in range(rows.shape[1]):
        key = (key ^ np.uint64(rows[i, c])) * np.uint64(1099511628211)
    return np.int64((key ^ (key >> np.uint64(32))) & np.uint64(size - 1))


@jit
def _enter(kept: NDArray[np.uint8], n: int, table: NDArray[np.int32]) -> None:
    """Enter the first n rows, which are distinct, in an empty table."""
    for i in range(n):
        slot = _slot(kept, i, len(table))
        while table[slot] != -1:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = i


@jit
def _number(
    rows: NDArray[np.uint8],
    kept: NDArray[np.uint8],
    n: int,
    table: NDArray[np.int32],
    which: NDArray[np.int32],
) -> int:
    """Number rows in a hash table with open addressing, comparing whole rows where hashes meet.

    New ones are written behind the first n that were kept; returns how many there are then.
    """
    width = rows.shape[1]
    for i in range(len(rows)):
        slot = _slot(rows, i, len(table))
        while True:
            met = table[slot]
            if met == -1:
                table[slot] = n
                which[i] = n
                for c in range(width):
                    kept[n, c] = rows[i, c]
                n += 1
                break
            same = True
            for c in range(width):
                if rows[i, c] != kept[met, c]:
                    same = False
                    break
            if same:
                which[i] = met
                break
            slot = (slot + 1) & (len(table) - 1)
    return n
