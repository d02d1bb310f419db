"""Searches for the descriptors within a threshold of others, for any metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.vision.descriptors import Descriptors
from rlvc.vision.metrics import Embedded, Metric
from rlvc.vision.search_kernels import (
    find_leaders,
    find_matches,
    find_near,
    find_sketched_leaders,
    find_sketched_pairs,
    has_match,
)
from rlvc.vision.sketch import LENGTH, Sketcher, tiles


def make_search(metric: Metric, centres: Descriptors, threshold: float) -> Search:
    """Return the fastest search that a metric allows.

    >>> from rlvc.vision.metrics import Euclidean
    >>> search = make_search(Euclidean(), np.float32([[0, 0], [9, 9]]), threshold=1.0)
    >>> search.matches(search.prepare(np.float32([[9, 8.5], [4, 4]])), 1).tolist()
    [0]
    """
    if not isinstance(metric, Embedded):
        return Search(metric, centres, threshold)
    embedded = metric.embed(centres)
    if metric.binary or embedded.shape[1] <= LENGTH:
        return SortedSearch(metric, embedded, threshold)
    return SketchedSearch(metric, embedded, threshold)


class Search:
    """Compare descriptors with the centres of a vocabulary, by the distances of any metric."""

    def __init__(self, metric: Metric, centres: Descriptors, threshold: float) -> None:
        self._metric = metric
        self._centres = centres
        self._threshold = threshold

    def prepare(self, rows: Descriptors) -> NDArray[Any]:
        """Return descriptors in the form that the other methods take."""
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
        """Tell whether any row is near one centre."""
        return len(self.matches(rows, symbol)) > 0


class CompiledSearch(Search):
    """The base of searches among embedded rows, which compare rows with one centre."""

    def __init__(self, metric: Embedded, embedded: NDArray[Any], threshold: float) -> None:
        self._embed, self._binary = metric.embed, metric.binary
        self._centres, self._threshold = embedded, threshold
        self._limit = float(threshold if metric.binary else threshold**2)

    def prepare(self, rows: Descriptors) -> NDArray[Any]:  # noqa: D102
        return self._embed(rows)

    def matches(self, rows: NDArray[Any], symbol: int) -> NDArray[np.int64]:  # noqa: D102
        return find_matches(rows, self._centres, symbol, self._limit, self._binary)

    def has_match(self, rows: NDArray[Any], symbol: int) -> bool:  # noqa: D102
        return has_match(rows, self._centres, symbol, self._limit, self._binary)


class SortedSearch(CompiledSearch):
    """A search among short rows, sorted along the axis of the centres' largest spread."""

    def __init__(self, metric: Embedded, embedded: NDArray[Any], threshold: float) -> None:
        super().__init__(metric, embedded, threshold)
        spread = np.std(embedded, axis=0) if len(embedded) else np.zeros(1)
        self._axis = int(np.argmax(spread))
        self._order = np.argsort(embedded[:, self._axis], kind="stable")

    def leaders(self, rows: NDArray[Any]) -> NDArray[np.int64]:  # noqa: D102
        return find_leaders(rows, self._limit, self._binary)

    def near(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:  # noqa: D102
        return find_near(rows, self._centres, self._order, self._axis, self._limit, self._binary)


class SketchedSearch(CompiledSearch):
    """A search among long rows, most of which are told apart by their sketches."""

    def __init__(self, metric: Embedded, embedded: NDArray[Any], threshold: float) -> None:
        super().__init__(metric, embedded, threshold)
        self._sketcher = Sketcher.fit(embedded, threshold)
        self._tiles = tiles(self._sketcher.sketch(embedded))

    def leaders(self, rows: NDArray[Any]) -> NDArray[np.int64]:  # noqa: D102
        sketcher = Sketcher.fit(rows, self._threshold)
        return find_sketched_leaders(rows, sketcher.sketch(rows), sketcher.limit, self._limit)

    def near(self, rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:  # noqa: D102
        sketches, limit = self._sketcher.sketch(rows), self._sketcher.limit
        row, centre = find_sketched_pairs(
            rows, sketches, self._centres, self._tiles, limit, self._limit
        )
        by_row = np.argsort(row, kind="stable")
        return np.bincount(row, minlength=len(rows)), centre[by_row]
