"""Finding the descriptors within a threshold of others: compiled, or with any metric."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc.compiled import compiled
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.metrics import Embedded, Metric


class Search(Protocol):
    """Compare descriptors with the centres of a vocabulary."""

    def prepare(self, rows: Descriptors) -> NDArray[Any]:
        """Return descriptors in the form that the other methods take."""
        ...

    def leaders(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rows that are not within the threshold of an earlier one of these."""
        ...

    def near(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return how many centres are near each row, and which, lowest number first."""
        ...

    def matches(self, rows: NDArray[Any], symbol: int) -> NDArray[np.int64]:
        """Return the rows that are near one centre."""
        ...

    def has_match(self, rows: NDArray[Any], symbol: int) -> bool:
        """Tell whether some row is near one centre."""
        ...


def make_search(metric: Metric, centres: Descriptors, threshold: float) -> Search:
    """Return the fastest search that a metric allows."""
    if isinstance(metric, Embedded):
        return CompiledSearch(metric, centres, threshold)
    return PlainSearch(metric, centres, threshold)


class PlainSearch:
    """A search that knows nothing of the metric but its distances."""

    def __init__(self, metric: Metric, centres: Descriptors, threshold: float) -> None:
        self._metric = metric
        self._centres = centres
        self._threshold = threshold

    def prepare(self, rows: Descriptors) -> NDArray[Any]:
        """Return the rows themselves."""
        return rows

    def leaders(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rows that are not within the threshold of an earlier one of these."""
        chosen: list[int] = []
        for i in range(len(rows)):
            near = self._metric.distances(rows[i : i + 1], rows[chosen]) if chosen else np.empty(0)
            if not (near <= self._threshold).any():
                chosen.append(i)
        return np.asarray(chosen, np.int64)

    def near(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return how many centres are near each row, and which, lowest number first."""
        is_near = self._metric.distances(rows, self._centres) <= self._threshold
        return is_near.sum(axis=1, dtype=np.int64), np.nonzero(is_near)[1].astype(np.int32)

    def matches(self, rows: NDArray[Any], symbol: int) -> NDArray[np.int64]:
        """Return the rows that are near one centre."""
        centre = self._centres[symbol : symbol + 1]
        return np.flatnonzero(self._metric.distances(rows, centre)[:, 0] <= self._threshold)

    def has_match(self, rows: NDArray[Any], symbol: int) -> bool:
        """Tell whether some row is near one centre."""
        return len(self.matches(rows, symbol)) > 0


class CompiledSearch:
    """A search among embedded rows, sorted along the axis on which the centres spread most."""

    def __init__(self, metric: Embedded, centres: Descriptors, threshold: float) -> None:
        self._embed = metric.embed
        self._binary = metric.binary
        self._limit = float(threshold if metric.binary else threshold**2)
        self._centres = metric.embed(centres)
        spread = np.std(self._centres, axis=0) if len(centres) else np.zeros(1)
        self._axis = int(np.argmax(spread))
        self._order = np.argsort(self._centres[:, self._axis], kind="stable")

    def prepare(self, rows: Descriptors) -> NDArray[Any]:
        """Return the embedded rows."""
        return self._embed(rows)

    def leaders(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rows that are not within the threshold of an earlier one of these."""
        return _leaders(rows, self._limit, self._binary)

    def near(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return how many centres are near each row, and which, lowest number first."""
        return _within(rows, self._centres, self._order, self._axis, self._limit, self._binary)

    def matches(self, rows: NDArray[Any], symbol: int) -> NDArray[np.int64]:
        """Return the rows that are near one centre."""
        return _rows_within(rows, self._centres, symbol, self._limit, self._binary)

    def has_match(self, rows: NDArray[Any], symbol: int) -> bool:
        """Tell whether some row is near one centre."""
        return _any_within(rows, self._centres, symbol, self._limit, self._binary)


@compiled
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
    total = (a[i, 0] - b[j, 0]) * 0  # of the rows' own kind: integers add up in any order
    for begin in range(0, width, 16):
        for c in range(begin, min(begin + 16, width)):
            difference = a[i, c] - b[j, c]
            total += difference * difference
        if total > limit:
            return True
    return False


@compiled
def _count_bits(word: np.uint64) -> np.int64:
    """Count the bits of a word by adding neighbours: pairs, fours, bytes, then all bytes."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
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


@compiled
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
                    longer = np.empty(2 * n, np.int32)
                    longer[:n] = found
                    found = longer
                found[n] = j
                n += 1
        found[begin:n].sort()
        counts[i] = n - begin
    return counts, found[:n].copy()


@compiled
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


@compiled
def _any_within(
    rows: NDArray[Any], centres: NDArray[Any], symbol: int, limit: float, binary: bool
) -> bool:
    for i in range(len(rows)):  # noqa: SIM110 - numba compiles no generators in any()
        if not _far(rows, i, centres, symbol, limit, binary):
            return True
    return False
