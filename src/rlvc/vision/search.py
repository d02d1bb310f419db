"""Finding the descriptors within a threshold of others, whatever the metric."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc.vision.descriptors import Descriptors
from rlvc.vision.metrics import Embedded, Metric
from rlvc.vision.search_kernels import SketchedSearch, SortedSearch
from rlvc.vision.sketch import LENGTH


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
    if not isinstance(metric, Embedded):
        return PlainSearch(metric, centres, threshold)
    embedded = metric.embed(centres)
    if metric.binary or embedded.shape[1] <= LENGTH:
        return SortedSearch(metric, embedded, threshold)
    return SketchedSearch(metric, embedded, threshold)


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
