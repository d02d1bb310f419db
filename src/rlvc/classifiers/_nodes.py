"""Decision nodes as arrays: the representation that trees and diagrams share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from rlvc._core.arrays import Ints, Rows
from rlvc._core.jit import jit, share_spans
from rlvc.classifiers.base import Split
from rlvc.features.incidence import Incidence, is_among

LEAF = -1


class NodeArrays(NamedTuple):
    """The arrays of :class:`Nodes`, for kernels."""

    feature: Ints
    present: Ints
    absent: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Tests for features that lead from a root, node 0, to leaves, the visual classes.

    Children have higher numbers than parents, and every class has exactly one leaf.

    Attributes:
        feature: (n_nodes,) the feature that each node tests; LEAF for a leaf.
        present: (n_nodes,) the child for percepts that exhibit the feature; for a leaf, its class.
        absent: (n_nodes,) the child for the other percepts; for a leaf, its class.

    >>> nodes = Nodes(np.array([7, LEAF, LEAF]), np.array([1, 1, 0]), np.array([2, 1, 0]))
    >>> nodes.walk(lambda feature: feature == 7)  # the tests with their outcomes, and the class
    ([(7, True)], 1)
    """

    feature: Ints = field(default_factory=lambda: np.array([LEAF], np.int64))
    present: Ints = field(default_factory=lambda: np.array([0], np.int64))
    absent: Ints = field(default_factory=lambda: np.array([0], np.int64))

    @property
    def n_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return len(self.feature)

    @property
    def n_classes(self) -> int:
        """The number of visual classes."""
        return int((self.feature == LEAF).sum())

    @property
    def leaves(self) -> Ints:
        """(n_classes,) the leaf of each class."""
        nodes = np.flatnonzero(self.feature == LEAF)
        leaves = np.empty(len(nodes), np.int64)
        leaves[self.present[nodes]] = nodes
        return leaves

    @property
    def features(self) -> Ints:
        """The distinct features that are tested, in ascending order."""
        return np.unique(self.feature[self.feature != LEAF])

    def classify(self, incidence: Incidence, threads: int = 1) -> Ints:
        """Return the (n_percepts,) visual classes of many percepts.

        Args:
            incidence: The features that each percept exhibits.
            threads: The number of threads; the result does not depend on it.
        """
        return self._classify(incidence, np.empty(0, np.int64), threads)

    def reclassify(
        self, before: Nodes, classes: Ints, incidence: Incidence, threads: int = 1
    ) -> Ints:
        """Return the same as :meth:`classify`, given the classes of an earlier classifier.

        If this classifier refines the earlier one, each percept starts at the leaf of its old
        class, so that only the new tests cost time.
        """
        inner = np.flatnonzero(before.feature != LEAF)
        is_refined = self.n_nodes >= before.n_nodes and all(
            np.array_equal(ours[inner], theirs[inner])
            for ours, theirs in zip(self.arrays, before.arrays, strict=True)
        )
        if not is_refined:
            return self.classify(incidence, threads)
        found = np.empty(incidence.n_percepts, np.int64)
        start, rows = before.leaves[classes], _rows_of(incidence, self.features)
        work = functools.partial(_classify_from, self.arrays, start, *rows, found)
        share_spans(work, len(found), threads)
        return found

    def walk(self, exhibits: Callable[[int], bool]) -> tuple[list[tuple[int, bool]], int]:
        """Return the tests on the path of one percept, with their outcomes, and its class."""
        known: dict[int, bool] = {}  # a path through a diagram may test a feature twice
        node = 0
        while (feature := int(self.feature[node])) != LEAF:
            if feature not in known:
                known[feature] = exhibits(feature)
            node = int(self.present[node] if known[feature] else self.absent[node])
        return list(known.items()), int(self.present[node])

    def usage(self, incidence: Incidence) -> Ints:
        """Return the number of percepts on which each of :attr:`features` is tested."""
        n_tested = np.zeros(int(self.feature.max()) + 1, np.int64)
        self._classify(incidence, n_tested, 1)
        return n_tested[self.features]

    def refine(self, splits: list[Split]) -> Self:
        """Return the classifier in which the leaves of some classes, each named once, are tests.

        Percepts that exhibit the feature go to a new class with the next number, the others stay in
        their class. New classes are numbered in the order of ``splits``.
        """
        if not splits:
            return self
        n, m = self.n_nodes, self.n_classes
        added = np.zeros(2 * len(splits), np.int64)
        feature, present, absent = (np.concatenate([array, added]) for array in self.arrays)
        for node, split in zip(self.leaves[[s.visual_class for s in splits]], splits, strict=True):
            feature[node], present[node], absent[node] = split.feature, n, n + 1
            feature[n : n + 2] = LEAF
            present[n] = absent[n] = m
            present[n + 1] = absent[n + 1] = split.visual_class
            n, m = n + 2, m + 1
        return replace(self, feature=feature, present=present, absent=absent)

    def renumber(self, numbers: dict[int, int]) -> Self:
        """Return the same nodes with their features renumbered."""
        feature = [numbers[f] if f != LEAF else LEAF for f in self.feature.tolist()]
        return type(self)(np.asarray(feature, np.int64), self.present, self.absent)

    def check(self, n_features: int) -> None:
        """Raise a ValueError unless every walk over ``n_features`` features ends at a class."""
        arrays = self.arrays
        if any(a.dtype != np.int64 or a.ndim != 1 or len(a) != len(arrays[0]) for a in arrays):
            raise ValueError("the arrays of the classifier are not of one length")
        numbers = np.arange(self.n_nodes)
        inner = self.feature != LEAF
        if (self.feature >= n_features).any() or (self.feature < LEAF).any():
            raise ValueError("the classifier tests a feature that does not exist")
        for child in (self.present[inner], self.absent[inner]):
            if (child <= numbers[inner]).any() or (child >= self.n_nodes).any():
                raise ValueError("the tests of the classifier do not lead to a class")
        leaves = self.present[~inner]
        if not np.array_equal(np.sort(leaves), np.arange(len(leaves))) or len(leaves) == 0:
            raise ValueError("the leaves of the classifier are not the classes")

    @property
    def arrays(self) -> NodeArrays:
        """The three arrays."""
        return NodeArrays(self.feature, self.present, self.absent)

    def _classify(self, incidence: Incidence, n_tested: Ints, threads: int) -> Ints:
        """Return the class of each percept and, unless ``n_tested`` is empty, count the tests."""
        classes = np.empty(incidence.n_percepts, np.int64)
        n = max(incidence.n_features, int(self.feature.max()) + 1)
        rows = _rows_of(incidence, self.features)
        work = functools.partial(_classify_all, self.arrays, *rows, n, classes, n_tested)
        share_spans(work, len(classes), threads)
        return classes


def _rows_of(incidence: Incidence, features: Ints) -> tuple[Rows, Rows]:
    """Return the rows that may hold some features, as two parts; usually there are no more."""
    lowest = int(features.min(initial=incidence.n_features))
    parts = [one for one in incidence.parts if lowest < one.n_features]
    if len(parts) > 2:
        parts = [incidence.only(np.isin(np.arange(incidence.n_features), features))]
    nothing = np.zeros(incidence.n_percepts + 1, np.int64), np.empty(0, np.int32)
    first, second = [one.rows for one in parts] + [nothing] * (2 - len(parts))
    return first, second


@jit
def _classify_from(
    nodes: NodeArrays,
    start: Ints,
    first: Rows,
    second: Rows,
    classes: Ints,
    span: tuple[int, int],
) -> None:
    """Write the classes of some percepts, each walk starting at a given node."""
    first_begin, first_indices = first
    second_begin, second_indices = second
    for p in range(span[0], span[1]):
        node = start[p]
        while nodes.feature[node] != LEAF:
            f = nodes.feature[node]
            is_shown = is_among(second_indices, second_begin[p], second_begin[p + 1], f) or (
                is_among(first_indices, first_begin[p], first_begin[p + 1], f)
            )
            node = nodes.present[node] if is_shown else nodes.absent[node]
        classes[p] = nodes.present[node]


@jit
def _classify_all(
    nodes: NodeArrays,
    first: Rows,
    second: Rows,
    n_features: int,
    classes: Ints,
    n_tested: Ints,
    span: tuple[int, int],
) -> None:
    """Write the classes of some percepts, and count on how many of them each feature is tested."""
    first_begin, first_indices = first
    second_begin, second_indices = second
    shown = np.full(n_features, -1, np.int64)  # the last percept that exhibits each feature
    tested = np.full(n_features, -1, np.int64)  # the last percept on which each was tested
    for p in range(span[0], span[1]):
        for i in range(first_begin[p], first_begin[p + 1]):
            shown[np.uint32(first_indices[i])] = p
        for i in range(second_begin[p], second_begin[p + 1]):
            shown[np.uint32(second_indices[i])] = p
        node = 0
        while nodes.feature[node] != LEAF:
            f = nodes.feature[node]
            if len(n_tested) and tested[f] != p:
                n_tested[f] += 1
                tested[f] = p
            node = nodes.present[node] if shown[f] == p else nodes.absent[node]
        classes[p] = nodes.present[node]
