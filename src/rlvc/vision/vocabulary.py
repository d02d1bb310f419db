"""Vocabularies: descriptors within a threshold of each other are one symbol.

A percept *exhibits* a symbol if one of its descriptors is within the threshold of the symbol's
descriptor. This is the paper's feature detector D(s, d): the result depends on the percept and that
symbol alone, so a policy searches only for the symbols that it tests, and a growing vocabulary
never changes earlier results.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import chunks, n_threads, run_threads
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.metrics import Metric
from rlvc.vision.search import Search, make_search

BLOCK = 8192  # descriptors that are compared with the vocabulary at a time


@dataclass(slots=True)
class Vocabulary:
    """The symbols of one camera, numbered in the order in which they were added.

    >>> from rlvc.vision.metrics import Euclidean
    >>> vocabulary = Vocabulary(Euclidean(), threshold=1.0)
    >>> vocabulary.extend(np.float32([[0, 0], [0.5, 0], [9, 9]])).tolist()
    [0, 2]
    >>> vocabulary.quantize(np.float32([[9, 8.5], [4, 4], [0, 0]]))[1].tolist()
    [1, 0]
    """

    metric: Metric
    threshold: float
    centres: Descriptors | None = None  # (n_symbols, d)
    is_fitted: bool = False
    _search: Search | None = field(default=None, init=False, repr=False)

    @property
    def n_symbols(self) -> int:
        """The number of symbols."""
        return 0 if self.centres is None else len(self.centres)

    @property
    def search(self) -> Search:
        """Compares descriptors with the symbols; it is rebuilt when symbols are added."""
        if self._search is None:
            assert self.centres is not None
            self._search = make_search(self.metric, self.centres, self.threshold)
        return self._search

    def extend(self, descriptors: Descriptors, threads: int = 1) -> NDArray[np.int64]:
        """Add a symbol for each descriptor that is not within the threshold of an earlier one.

        Return the rows that became symbols. The first non-empty call also fits the metric.
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
            rest = np.flatnonzero(np.diff(self.quantize(block, threads)[0]) == 0)
            new = rest[self.search.leaders(self.search.prepare(block[rest]))]
            if len(new):
                self.centres = np.concatenate([self.centres, block[new]])
                self._search = None
            added.append(start + new)
        return np.concatenate(added)

    def quantize(
        self, descriptors: Descriptors, threads: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the symbols that each descriptor shows, as CSR rows (indptr, symbols).

        A descriptor between two symbols shows both; one far from all shows none.
        """
        n = len(descriptors)
        if n == 0 or self.n_symbols == 0:
            return np.zeros(n + 1, np.int64), np.empty(0, np.int32)
        search = self.search
        pieces = chunks(n, max(n_threads(threads), n // BLOCK))
        found = run_threads(lambda p: search.near(search.prepare(descriptors[p])), pieces, threads)
        counts, symbols = map(np.concatenate, zip(*found, strict=True))
        return np.concatenate([[0], np.cumsum(counts)]), symbols
