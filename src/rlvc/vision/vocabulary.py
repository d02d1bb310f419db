"""Symbols: descriptors up to a threshold on the metric.

A percept *exhibits* a symbol when one of its descriptors lies within the threshold of the symbol's
own descriptor. That is the paper's feature detector D(s, d), word for word: whether a symbol is
there depends on the percept and on that symbol alone, so a policy needs to look only for the few
symbols that it tests, and a vocabulary that grows never changes what was said before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.compiled import chunks, compiled, n_threads, run_threads
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.metrics import Embedded, Metric

BLOCK = 8192  # descriptors that are compared with the vocabulary at a time


@dataclass(slots=True)
class Vocabulary:
    """The distinct descriptors of one camera, numbered in the order in which they were met.

    >>> from rlvc.vision.metrics import Euclidean
    >>> words = Vocabulary(Euclidean(), threshold=1.0)
    >>> words.extend(np.float32([[0, 0], [0.5, 0], [9, 9]])).tolist()
    [0, 2]
    >>> words.quantize(np.float32([[9, 8.5], [4, 4], [0, 0]]))[1].tolist()
    [1, 0]
    """

    metric: Metric
    threshold: float
    centres: Descriptors | None = None  # (n_symbols, d)
    is_fitted: bool = False
    _embedded: NDArray[Any] | None = field(default=None, init=False, repr=False)
    _axis: int = field(default=0, init=False, repr=False)  # along which the centres are sorted
    _order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), init=False)

    @property
    def n_symbols(self) -> int:
        """How many symbols there are."""
        return 0 if self.centres is None else len(self.centres)

    def extend(self, descriptors: Descriptors, threads: int = 1) -> NDArray[np.int64]:
        """Add a symbol for each descriptor that is not within the threshold of an earlier one.

        The first non-empty call also fits the metric. Returns the rows that became symbols.
        """
        if len(descriptors) == 0:
            return np.empty(0, np.int64)
        if not self.is_fitted:
            self.metric = self.metric.fit(descriptors)
            self.is_fitted = True
        if self.centres is None:
            self.centres = descriptors[:0]
        added = []
        for start in range(0, len(descriptors), BLOCK):
            block = descriptors[start : start + BLOCK]
            added.append(start + self._extend_block(block, threads))
        return np.concatenate(added)

    def _extend_block(self, block: Descriptors, threads: int) -> NDArray[np.int64]:
        assert self.centres is not None
        known = np.zeros(len(block), np.bool_)
        if len(self.centres):
            indptr, _ = self.quantize(block, threads)
            known = np.diff(indptr) > 0
        rest = np.flatnonzero(~known)
        if len(rest) == 0:
            return rest
        new = rest[self._leaders(block[rest])]
        self.centres = np.concatenate([self.centres, block[new]])
        self._embedded = None
        return new

    def _leaders(self, rows: Descriptors) -> NDArray[np.int64]:
        if isinstance(self.metric, Embedded):
            embedded = self.metric.embed(rows)
            return _leaders(embedded, self._limit(), self.metric.binary)
        chosen: list[int] = []
        for i in range(len(rows)):
            near = self.metric.distances(rows[i : i + 1], rows[chosen]) if chosen else np.empty(0)
            if not (near <= self.threshold).any():
                chosen.append(i)
        return np.asarray(chosen, np.int64)

    def quantize(
        self, descriptors: Descriptors, threads: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return which symbols each descriptor stands for, as CSR rows (indptr, symbols).

        A descriptor between two symbols stands for both; one far from all stands for none.
        """
        n = len(descriptors)
        if n == 0 or self.n_symbols == 0:
            return np.zeros(n + 1, np.int64), np.empty(0, np.int32)
        pieces = chunks(n, max(n_threads(threads), n // BLOCK))
        parts = list(run_threads(lambda piece: self._near(descriptors[piece]), pieces, threads))
        counts = np.concatenate([part[0] for part in parts])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return indptr, np.concatenate([part[1] for part in parts])

    def _near(self, rows: Descriptors) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        assert self.centres is not None
        if isinstance(self.metric, Embedded):
            rows = self.metric.embed(rows)
            index = self._embedded_centres()
            axis, order = self._axis, self._order
            return _within(rows, index, order, axis, self._limit(), self.metric.binary)
        is_near = self.metric.distances(rows, self.centres) <= self.threshold
        return is_near.sum(axis=1, dtype=np.int64), np.nonzero(is_near)[1].astype(np.int32)

    def _embedded_centres(self) -> NDArray[Any]:
        if self._embedded is None:
            assert isinstance(self.metric, Embedded)
            assert self.centres is not None
            index = self.metric.embed(self.centres)
            self._axis = int(np.argmax(np.std(index, axis=0)))
            self._order = np.argsort(index[:, self._axis], kind="stable")
            self._embedded = index
        return self._embedded

    def _limit(self) -> float:
        binary = isinstance(self.metric, Embedded) and self.metric.binary
        return self.threshold if binary else self.threshold**2

    def prepare(self, descriptors: Descriptors) -> NDArray[Any]:
        """Return descriptors in the form that :meth:`matches` compares: once for many tests."""
        return self.metric.embed(descriptors) if isinstance(self.metric, Embedded) else descriptors

    def matches(self, prepared: NDArray[Any], symbol: int) -> NDArray[np.int64]:
        """Return which prepared rows stand for one symbol: all that a single test costs."""
        assert self.centres is not None
        if isinstance(self.metric, Embedded):
            index = self._embedded_centres()
            return _rows_within(prepared, index, symbol, self._limit(), self.metric.binary)
        centre = self.centres[symbol : symbol + 1]
        return np.flatnonzero(self.metric.distances(prepared, centre)[:, 0] <= self.threshold)


@compiled
def _far(a: NDArray[Any], i: int, b: NDArray[Any], j: int, limit: float, binary: bool) -> bool:
    """Tell whether row i of a is farther than the limit from row j of b, as soon as it is certain.

    The limit is a number of bits for binary rows, else a squared distance.
    """
    total = 0.0
    for c in range(a.shape[1]):
        if binary:
            bits = int(a[i, c]) ^ int(b[j, c])
            while bits:
                bits &= bits - 1
                total += 1.0
        else:
            difference = float(a[i, c]) - float(b[j, c])
            total += difference * difference
        if total > limit:
            return True
    return False


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
