"""The binary decision tree of the paper's Section 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvc._core.arrays import Ints
from rlvc.classifiers._nodes import LEAF, Nodes
from rlvc.classifiers.bdd import Diagrams


@dataclass(frozen=True, slots=True, eq=False)
class Tree(Nodes):
    """A binary decision tree whose inner nodes test features and whose leaves are visual classes.

    To refine class i, its leaf becomes a test: percepts that exhibit the feature go to a new class
    with the next number, the others stay in class i.

    >>> from rlvc.classifiers import Split
    >>> tree = Tree().refine([Split(0, feature=7)])
    >>> tree.n_classes, tree.walk(lambda feature: feature == 7)
    (2, ([(7, True)], 1))
    """

    def merge(self, groups: Sequence[Sequence[int]], backend: str = "auto") -> Tree | Diagrams:
        """Return the classifier in which the classes of each group are one.

        The result is a tree only if every class stays by itself.
        """
        order = dict.fromkeys(self.feature[self.feature != LEAF].tolist())
        diagrams = Diagrams(*self.arrays, np.asarray(list(order), np.int64))
        merged = diagrams.merge(groups, backend)
        return self if merged is diagrams else merged

    @property
    def parents(self) -> Ints:
        """(n_nodes,) the node above each node; -1 for the root."""
        inner = np.flatnonzero(self.feature != LEAF)
        parents = np.full(self.n_nodes, -1, np.int64)
        parents[self.present[inner]] = inner
        parents[self.absent[inner]] = inner
        return parents

    def sum_up(self, values: Ints) -> Ints:
        """Return (n_nodes, n) sums over the classes below each node of (n_classes, n) values."""
        total = np.zeros((self.n_nodes, *values.shape[1:]), np.int64)
        total[self.leaves] = values
        parents = self.parents
        for node in range(self.n_nodes - 1, 0, -1):  # children have higher numbers than parents
            total[parents[node]] += total[node]
        return total

    def check(self, n_features: int) -> None:
        """Raise a ValueError unless this is a tree over ``n_features`` features."""
        Nodes.check(self, n_features)
        inner = self.feature != LEAF
        children = np.sort(np.concatenate([self.present[inner], self.absent[inner]]))
        if not np.array_equal(children, np.arange(1, self.n_nodes)):
            raise ValueError("the nodes do not form a tree")
