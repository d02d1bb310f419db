"""The binary decision tree of the paper's Section 3.1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlvc.classifier import Split
from rlvc.compiled import compiled
from rlvc.incidence import Incidence

LEAF = -1


def _leaf(value: int) -> NDArray[np.int64]:
    return np.array([value], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A binary decision tree whose inner nodes test features and whose leaves are visual classes.

    To refine class i, its leaf becomes a test: percepts that exhibit the feature go to a new class
    with the next number, the others stay in class i. Children have higher numbers than parents.

    Attributes:
        feature: (n_nodes,) the feature that a node tests; LEAF for a leaf.
        present: (n_nodes,) the node for percepts that exhibit it; for a leaf, its class.
        absent: (n_nodes,) the node for the others; for a leaf, its class.

    >>> tree = Tree().refine([Split(0, feature=7)])
    >>> tree.n_classes, tree.walk(lambda feature: feature == 7)
    (2, ([(7, True)], 1))
    """

    feature: NDArray[np.int64] = field(default_factory=lambda: _leaf(LEAF))
    present: NDArray[np.int64] = field(default_factory=lambda: _leaf(0))
    absent: NDArray[np.int64] = field(default_factory=lambda: _leaf(0))

    @property
    def n_nodes(self) -> int:
        """How many nodes there are, leaves included."""
        return len(self.feature)

    @property
    def n_classes(self) -> int:
        """How many leaves there are."""
        return (self.n_nodes + 1) // 2

    @property
    def features(self) -> NDArray[np.int64]:
        """The distinct features that are tested, in ascending order."""
        return np.unique(self.feature[self.feature != LEAF])

    def refine(self, splits: list[Split]) -> Tree:
        """Return the tree in which the leaves of some classes, each named once, became tests.

        New classes are numbered in the order of ``splits``.
        """
        if not splits:
            return self
        is_leaf = self.feature == LEAF
        node_of = np.empty(self.n_classes, np.int64)
        node_of[self.present[is_leaf]] = np.flatnonzero(is_leaf)
        n, m = self.n_nodes, self.n_classes
        grown = [np.concatenate([a, np.zeros(2 * len(splits), np.int64)]) for a in self._arrays()]
        feature, present, absent = grown
        for split in splits:
            node = node_of[split.visual_class]
            feature[node], present[node], absent[node] = split.feature, n, n + 1
            feature[n : n + 2] = LEAF
            present[n] = absent[n] = m
            present[n + 1] = absent[n + 1] = split.visual_class
            n, m = n + 2, m + 1
        return Tree(feature, present, absent)

    def classify(self, incidence: Incidence) -> NDArray[np.int64]:
        """Return the (n_percepts,) visual classes of many percepts."""
        n = max(incidence.n_features, int(self.feature.max()) + 1)
        return _classify(*self._arrays(), incidence.indptr, incidence.indices, n)

    def walk(self, exhibits: Callable[[int], bool]) -> tuple[list[tuple[int, bool]], int]:
        """Return the tests on the path of one percept, with their outcomes, and its class."""
        path: list[tuple[int, bool]] = []
        node = 0
        while (feature := int(self.feature[node])) != LEAF:
            there = exhibits(feature)
            path.append((feature, there))
            node = int(self.present[node] if there else self.absent[node])
        return path, int(self.present[node])

    def usage(self, incidence: Incidence) -> NDArray[np.int64]:
        """Return on how many percepts each of :attr:`features` is tested."""
        is_leaf = self.feature == LEAF
        visits = np.zeros(self.n_nodes, np.int64)
        percepts = np.bincount(self.classify(incidence), minlength=self.n_classes)
        visits[is_leaf] = percepts[self.present[is_leaf]]
        for node in np.flatnonzero(~is_leaf)[::-1]:  # children come after their parents
            visits[node] = visits[self.present[node]] + visits[self.absent[node]]
        usage = np.zeros(len(self.features), np.int64)
        np.add.at(usage, np.searchsorted(self.features, self.feature[~is_leaf]), visits[~is_leaf])
        return usage

    def renumber(self, numbers: dict[int, int]) -> Tree:
        """Return the same tree with its features called by other numbers."""
        feature = [numbers[f] if f != LEAF else LEAF for f in self.feature.tolist()]
        return Tree(np.asarray(feature, np.int64), self.present, self.absent)

    def check(self, n_features: int) -> None:
        """Raise a ValueError unless this is a tree over so many features, each leaf met once."""
        arrays = self._arrays()
        if any(a.dtype != np.int64 or a.ndim != 1 or len(a) != len(arrays[0]) for a in arrays):
            raise ValueError("the arrays of the tree are not of one length")
        inner = self.feature != LEAF
        numbers = np.arange(self.n_nodes)
        if (
            self.n_nodes % 2 == 0
            or (self.feature >= n_features).any()
            or (self.feature < LEAF).any()
        ):
            raise ValueError("the tree tests a feature that does not exist")
        children = np.sort(np.concatenate([self.present[inner], self.absent[inner]]))
        forward = (self.present > numbers)[inner] & (self.absent > numbers)[inner]
        if not np.array_equal(children, numbers[1:]) or not forward.all():
            raise ValueError("the nodes do not form a tree")
        leaves = np.sort(self.present[~inner])
        if not np.array_equal(leaves, np.arange(self.n_classes)):
            raise ValueError("the leaves of the tree are not the classes")

    def _arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        return self.feature, self.present, self.absent


@compiled
def _classify(
    feature: NDArray[np.int64],
    present: NDArray[np.int64],
    absent: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_features: int,
) -> NDArray[np.int64]:
    classes = np.empty(len(indptr) - 1, np.int64)
    exhibits = np.zeros(n_features, np.bool_)  # of the percept at hand
    for p in range(len(classes)):
        for i in range(indptr[p], indptr[p + 1]):
            exhibits[indices[i]] = True
        node = 0
        while feature[node] != LEAF:
            node = present[node] if exhibits[feature[node]] else absent[node]
        classes[p] = present[node]
        for i in range(indptr[p], indptr[p + 1]):
            exhibits[indices[i]] = False
    return classes
