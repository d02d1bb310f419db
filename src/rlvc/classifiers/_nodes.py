"""Decision nodes as arrays: what trees and diagrams are at work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.jit import chunks, jit, n_threads, share_threads
from rlvc.classifiers.base import Split
from rlvc.features.incidence import Incidence
from rlvc.features.incidence_kernels import Rows, is_among

LEAF = -1


def _leaf(value: int) -> Ints:
    return np.array([value], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Tests for features that lead from a root, node 0, to leaves, the visual classes.

    Children have higher numbers than parents, and every class has exactly one leaf.

    Attributes:
        feature: (n_nodes,) the feature that a node tests; LEAF for a leaf.
        present: (n_nodes,) the node for percepts that exhibit it; for a leaf, its class.
        absent: (n_nodes,) the node for the others; for a leaf, its class.
    """

    feature: Ints = field(default_factory=lambda: _leaf(LEAF))
    present: Ints = field(default_factory=lambda: _leaf(0))
    absent: Ints = field(default_factory=lambda: _leaf(0))

    @property
    def n_nodes(self) -> int:
        """How many nodes there are, leaves included."""
        return len(self.feature)

    @property
    def n_classes(self) -> int:
        """How many leaves there are."""
        return int((self.feature == LEAF).sum())

    @property
    def leaves(self) -> Ints:
        """(n_classes,) the node of each class."""
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
            incidence: What they exhibit.
            threads: How many threads to use; the result does not depend on it.
        """
        classes = np.empty(incidence.n_percepts, np.int64)
        nothing = np.empty(0, np.int64)
        self._visit(incidence, classes, nothing, threads)
        return classes

    def classify_on(
        self, before: Nodes, classes: Ints, incidence: Incidence, threads: int = 1
    ) -> Ints:
        """Return what :meth:`classify` does, given what another classifier said of the percepts.

        If this one was refined from the other, only those whose class was split are looked at.
        """
        inner = np.flatnonzero(before.feature != LEAF)
        is_refined = self.n_nodes >= before.n_nodes and all(
            np.array_equal(ours[inner], theirs[inner])
            for ours, theirs in zip(self._arrays(), before._arrays(), strict=True)
        )
        if not is_refined:
            return self.classify(incidence, threads)
        found = np.empty(incidence.n_percepts, np.int64)
        leaves = before.leaves
        first, second = _two_parts(incidence, self.features)
        work = functools.partial(_go_on, *self._arrays(), leaves, classes, *first, *second, found)
        spans = [(one.start, one.stop) for one in chunks(len(found), n_threads(threads))]
        share_threads(work, spans, threads)
        return found

    def walk(self, exhibits: Callable[[int], bool]) -> tuple[list[tuple[int, bool]], int]:
        """Return the tests on the path of one percept, with their outcomes, and its class."""
        known: dict[int, bool] = {}  # a path through merged classes may ask the same again
        node = 0
        while (feature := int(self.feature[node])) != LEAF:
            if feature not in known:
                known[feature] = exhibits(feature)
            node = int(self.present[node] if known[feature] else self.absent[node])
        return list(known.items()), int(self.present[node])

    def usage(self, incidence: Incidence) -> Ints:
        """Return on how many percepts each of :attr:`features` is tested."""
        n_tested = np.zeros(int(self.feature.max()) + 1, np.int64)
        self._visit(incidence, np.empty(incidence.n_percepts, np.int64), n_tested, 1)
        return n_tested[self.features]

    def renumber(self, numbers: dict[int, int]) -> Self:
        """Return the same nodes with their features called by other numbers."""
        feature = [numbers[f] if f != LEAF else LEAF for f in self.feature.tolist()]
        return type(self)(np.asarray(feature, np.int64), self.present, self.absent)

    def check(self, n_features: int) -> None:
        """Raise a ValueError unless all walks over so many features end, each at a class."""
        arrays = self._arrays()
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

    def _arrays(self) -> tuple[Ints, Ints, Ints]:
        return self.feature, self.present, self.absent

    def _visit(self, incidence: Incidence, classes: Ints, n_tested: Ints, threads: int) -> None:
        """Write the class of each percept and, if there is room, how often features are tested."""
        n = max(incidence.n_features, int(self.feature.max()) + 1)
        first, second = _two_parts(incidence, self.features)
        work = functools.partial(_visit, *self._arrays(), *first, *second, n, classes, n_tested)
        spans = [(one.start, one.stop) for one in chunks(len(classes), n_threads(threads))]
        share_threads(work, spans, threads)


def _two_parts(incidence: Incidence, features: Ints) -> tuple[Rows, Rows]:
    """Return the rows of the parts that may show some features; usually there are two at most."""
    lowest = int(features.min(initial=incidence.n_features))
    parts = [one for one in incidence.parts if lowest < one.n_features]
    if len(parts) > 2:
        parts = [incidence.only(np.isin(np.arange(incidence.n_features), features))]
    nothing = np.zeros(incidence.n_percepts + 1, np.int64), np.empty(0, np.int32)
    first, second = [(one.indptr, one.indices) for one in parts] + [nothing] * (2 - len(parts))
    return first, second


def split_leaves(nodes: Nodes, splits: list[Split]) -> tuple[Ints, Ints, Ints]:
    """Return the arrays in which the leaves of some classes, each named once, became tests.

    Percepts that exhibit the feature go to a new class; these are numbered as ``splits`` stand.
    """
    leaves = nodes.leaves
    n, m = nodes.n_nodes, nodes.n_classes
    room = np.zeros(2 * len(splits), np.int64)
    feature, present, absent = (np.concatenate([a, room]) for a in nodes._arrays())
    for split in splits:
        node = leaves[split.visual_class]
        feature[node], present[node], absent[node] = split.feature, n, n + 1
        feature[n : n + 2] = LEAF
        present[n] = absent[n] = m
        present[n + 1] = absent[n + 1] = split.visual_class
        n, m = n + 2, m + 1
    return feature, present, absent


@jit
def _go_on(
    feature: Ints,
    present: Ints,
    absent: Ints,
    leaves: Ints,
    before: Ints,
    first: Ints,
    first_indices: NDArray[np.int32],
    second: Ints,
    second_indices: NDArray[np.int32],
    classes: Ints,
    span: tuple[int, int],
) -> None:
    """Write the class of some percepts, going on from the leaf of the class that each had."""
    for p in range(span[0], span[1]):
        node = leaves[before[p]]
        while feature[node] != LEAF:
            f = feature[node]
            is_shown = is_among(second_indices, second[p], second[p + 1], f) or is_among(
                first_indices, first[p], first[p + 1], f
            )
            node = present[node] if is_shown else absent[node]
        classes[p] = present[node]


@jit
def _visit(
    feature: Ints,
    present: Ints,
    absent: Ints,
    first: Ints,
    first_indices: NDArray[np.int32],
    second: Ints,
    second_indices: NDArray[np.int32],
    n_features: int,
    classes: Ints,
    n_tested: Ints,
    span: tuple[int, int],
) -> None:
    """Write the class of some percepts, and on how many of them each feature is tested."""
    shown = np.full(n_features, -1, np.int64)  # the percept that exhibited a feature last
    tested = np.full(n_features, -1, np.int64)  # the percept on which it was tested last
    for p in range(span[0], span[1]):
        for i in range(first[p], first[p + 1]):
            shown[np.uint32(first_indices[i])] = p
        for i in range(second[p], second[p + 1]):
            shown[np.uint32(second_indices[i])] = p
        node = 0
        while feature[node] != LEAF:
            f = feature[node]
            if len(n_tested) and tested[f] != p:
                n_tested[f] += 1
                tested[f] = p
            node = present[node] if shown[f] == p else absent[node]
        classes[p] = present[node]
