"""Compiled searches, for metrics that embed descriptors as rows to compare number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.metrics import Embedded
from rlvc.vision.sketch import LANES, LENGTH, Sketcher, near_lanes, tiles


class CompiledSearch:
    """What all searches among embedded rows share: one centre against the rows of an image."""

    def __init__(self, metric: Embedded, embedded: NDArray[Any], threshold: float) -> None:
        self._embed = metric.embed
        self._binary = metric.binary
        self._threshold = threshold
        self._limit = float(threshold if metric.binary else threshold**2)
        self._centres = embedded

    def prepare(self, rows: Descriptors) -> NDArray[Any]:
        """Return the embedded rows."""
        return self._embed(rows)

    def matches(self, rows: NDArray[Any], symbol: int) -> NDArray[np.int64]:
        """Return the rows that are near one centre."""
        return _rows_within(rows, self._centres, symbol, self._limit, self._binary)

    def has_match(self, rows: NDArray[Any], symbol: int) -> bool:
        """Tell whether some row is near one centre."""
        return _any_within(rows, self._centres, symbol, self._limit, self._binary)


class SortedSearch(CompiledSearch):
    """A search among short rows, sorted along the axis on which the centres spread most."""

    def __init__(self, metric: Embedded, embedded: NDArray[Any], threshold: float) -> None:
        super().__init__(metric, embedded, threshold)
        spread = np.std(embedded, axis=0) if len(embedded) else np.zeros(1)
        self._axis = int(np.argmax(spread))
        self._order = np.argsort(embedded[:, self._axis], kind="stable")

    def leaders(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rows that are not within the threshold of an earlier one of these."""
        return _leaders(rows, self._limit, self._binary)

    def near(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return how many centres are near each row, and which, lowest number first."""
        return _within(rows, self._centres, self._order, self._axis, self._limit, self._binary)


class SketchedSearch(CompiledSearch):
    """A search among long rows, most of which their sketches tell apart."""

    def __init__(self, metric: Embedded, embedded: NDArray[Any], threshold: float) -> None:
        super().__init__(metric, embedded, threshold)
        self._sketcher = Sketcher.of(embedded, threshold)
        self._tiles = tiles(self._sketcher.sketch(embedded))

    def leaders(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rows that are not within the threshold of an earlier one of these."""
        sketcher = Sketcher.of(rows, self._threshold)
        return _sketched_leaders(rows, sketcher.sketch(rows), sketcher.limit, self._limit)

    def near(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return how many centres are near each row, and which, lowest number first."""
        sketches, limit = self._sketcher.sketch(rows), self._sketcher.limit
        row, centre = _sketched_pairs(
            rows, sketches, self._centres, self._tiles, limit, self._limit
        )
        by_row = np.argsort(row, kind="stable")
        return np.bincount(row, minlength=len(rows)), centre[by_row]


@jit
def _far(a: NDArray[Any], i: int, b: NDArray[Any], j: int, limit: float, binary: bool) -> bool:
    """Tell whether row i of a is farther than the limit from row j of b, as soon as it is certain.

    The limit is a number of bits for binary rows (words), else a squared distance.
    """
    width = a.shape[1]
    if binary:
        bits = np.int64(0)
        for c in range(width):
            bits += _count_bits(np.uint64(a[i, c]) ^ np.uint64(b[j, c]))
        return bool(bits > limit)
    zero = np.int32(0)  # bytes become integers, whose sums do not depend on the order
    total = (a[i, 0] + zero) * 0
    for begin in range(0, width, 16):
        for c in range(begin, min(begin + 16, width)):
            difference = (a[i, c] + zero) - (b[j, c] + zero)
            total += difference * difference
        if total > limit:
            return True
    return False


@jit
def _count_bits(word: np.uint64) -> np.int64:
    """Count the bits of a word by adding neighbours: pairs, fours, bytes, then all bytes."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@jit
def _leaders(rows: NDArray[Any], limit: float, binary: bool) -> NDArray[np.int64]:
    chosen = np.empty(len(rows), np.int64)
    n = 0
    for i in range(len(rows)):
        is_new = True
        for j in range(n):
            if not _far(rows, i, rows, chosen[j], limit, binary):
                is_new = False
                break
        if is_new:
            chosen[n] = i
            n += 1
    return chosen[:n].copy()


@jit
def _within(
    rows: NDArray[Any],
    centres: NDArray[Any],
    order: NDArray[np.int64],
    axis: int,
    limit: float,
    binary: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """List the centres near each row, lowest number first.

    ``order`` sorts the centres along one axis, so that only a window of them need be compared.
    """
    counts = np.zeros(len(rows), np.int64)
    found = np.empty(2 * len(rows) + 16, np.int32)
    reach = np.inf if binary else np.sqrt(limit) * (1 + 1e-9)
    n = 0
    for i in range(len(rows)):
        first, last = 0, len(order)
        while first < last:  # the first centre that is not too far to the left
            middle = (first + last) // 2
            if float(rows[i, axis]) - float(centres[order[middle], axis]) > reach:
                first = middle + 1
            else:
                last = middle
        begin = n
        for k in range(first, len(order)):
            j = order[k]
            if float(centres[j, axis]) - float(rows[i, axis]) > reach:
                break
            if not _far(rows, i, centres, j, limit, binary):
                if n == len(found):
                    found = np.concatenate((found, found))
                found[n] = j
                n += 1
        found[begin:n].sort()
        counts[i] = n - begin
    return counts, found[:n].copy()


@jit
def _sketched_leaders(
    rows: NDArray[Any], sketches: NDArray[np.float32], near: np.float32, limit: float
) -> NDArray[np.int64]:
    """Return the leaders; ``near`` is the limit of the sketches, ``limit`` that of the rows."""
    chosen = np.empty(len(rows), np.int64)
    met = np.full((-(-len(rows) // LANES), LENGTH, LANES), np.inf, np.float32)  # tiles of chosen
    gaps, lanes = np.empty(LANES, np.float32), np.empty(LANES, np.int32)
    n = 0
    for i in range(len(rows)):
        is_new = True
        for t in range(-(-n // LANES)):
            for k in range(near_lanes(sketches, i, met, t, near, gaps, lanes)):
                if not _far(rows, i, rows, chosen[t * LANES + lanes[k]], limit, False):
                    is_new = False
                    break
            if not is_new:
                break
        if is_new:
            for number in range(LENGTH):
                met[n // LANES, number, n % LANES] = sketches[i, number]
            chosen[n] = i
            n += 1
    return chosen[:n].copy()


@jit
def _sketched_pairs(
    rows: NDArray[Any],
    sketches: NDArray[np.float32],
    centres: NDArray[Any],
    tiles: NDArray[np.float32],
    near: np.float32,
    limit: float,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """List the rows and centres that are near; the centres of each row, lowest number first.

    A tile is compared with a few rows while it is in the cache, so rows are met in turns.
    """
    row, centre = np.empty(2 * len(rows) + 16, np.int32), np.empty(2 * len(rows) + 16, np.int32)
    gaps, lanes = np.empty(LANES, np.float32), np.empty(LANES, np.int32)
    n = 0
    for first in range(0, len(rows), 32):
        for t in range(len(tiles)):
            for i in range(first, min(first + 32, len(rows))):
                for k in range(near_lanes(sketches, i, tiles, t, near, gaps, lanes)):
                    j = t * LANES + lanes[k]
                    if not _far(rows, i, centres, j, limit, False):
                        if n == len(row):
                            row = np.concatenate((row, row))
                            centre = np.concatenate((centre, centre))
                        row[n], centre[n] = i, j
                        n += 1
    return row[:n].copy(), centre[:n].copy()


@jit
def _rows_within(
    rows: NDArray[Any], centres: NDArray[Any], symbol: int, limit: float, binary: bool
) -> NDArray[np.int64]:
    found = np.empty(len(rows), np.int64)
    n = 0
    for i in range(len(rows)):
        if not _far(rows, i, centres, symbol, limit, binary):
            found[n] = i
            n += 1
    return found[:n].copy()


@jit
def _any_within(
    rows: NDArray[Any], centres: NDArray[Any], symbol: int, limit: float, binary: bool
) -> bool:
    for i in range(len(rows)):  # noqa: SIM110 - numba compiles no generators in any()
        if not _far(rows, i, centres, symbol, limit, binary):
            return True
    return False
