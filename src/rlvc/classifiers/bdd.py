"""Visual classes as Boolean functions of features: the paper's Section 4.2."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from rlvc._core.arrays import Ints
from rlvc.classifiers._nodes import LEAF, Nodes
from rlvc.classifiers.base import Split
from rlvc.errors import unknown_name

BACKENDS: Final = ("auto", "cudd", "autoref")
MEMORY: Final = 2**26  # bytes that CUDD plans for; it allocates more if necessary
LARGEST: Final = 50_000  # nodes of a diagram beyond which redundant features are not removed

Function = Any  # a Boolean function of ``dd``, of either backend


@dataclass(frozen=True, slots=True, eq=False)
class Diagrams(Nodes):
    """A partition of percepts by Boolean functions of features, one for each visual class.

    The functions are stored as one graph of tests in which several paths may lead to the leaf of a
    class. The package ``dd`` turns the graph into binary decision diagrams, which tell the features
    that each function depends on.

    Attributes:
        order: (n_features,) the features as variables of the diagrams, in their order.

    >>> four = Diagrams().refine([Split(0, feature=7)]).refine([Split(0, 8), Split(1, 8)])
    >>> two = four.merge([[0, 1], [2, 3]])  # now feature 7 makes no difference
    >>> two.n_classes, two.features.tolist()
    (2, [8])
    """

    order: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def refine(self, splits: list[Split]) -> Diagrams:
        """Return the classifier in which some classes, each named once, are split.

        B ∧ f becomes a new class with the next number, B ∧ ¬f stays. New features come last in the
        order.
        """
        if not splits:
            return self
        order = dict.fromkeys([*self.order.tolist(), *(split.feature for split in splits)])
        return replace(Nodes.refine(self, splits), order=np.asarray(list(order), np.int64))

    def merge(self, groups: Sequence[Sequence[int]], backend: str = "auto") -> Diagrams:
        """Return the classifier in which the classes of each group are one: B₁ ∨ B₂.

        Merged classes are numbered by their lowest member. Features that no class depends on any
        more are removed, and the others are reordered: those on which most classes depend come
        first, which keeps the diagrams small. If a diagram would grow beyond ``LARGEST`` nodes, all
        features stay in their order.

        Args:
            groups: A partition of the classes.
            backend: See :meth:`functions`. The result does not depend on it.
        """
        n = self.n_classes
        members = sorted(itertools.chain.from_iterable(groups))
        if members != list(range(n)):
            raise ValueError(
                f"groups of merge must hold each class from 0 to {n - 1} once; got {members}."
            )
        chosen = sorted(sorted(group) for group in groups if len(group))
        if len(chosen) == n:
            return self
        try:
            order = self._useful(chosen, backend)
        except _TooLargeError:
            order = self.order.tolist()
        group_of = np.empty(n, np.int64)
        for number, group in enumerate(chosen):
            group_of[group] = number
        nodes = Nodes(*_simplify(self, group_of, set(order)))
        tested = set(nodes.features.tolist())
        kept = [f for f in order if f in tested]
        return Diagrams(*nodes.arrays, np.asarray(kept, np.int64))

    def _useful(self, groups: list[list[int]], backend: str) -> list[int]:
        """Return the features on which the merged classes depend, those of most classes first."""
        functions = self.functions(backend, largest=LARGEST)
        n_users = dict.fromkeys(self.order.tolist(), 0)
        for group in groups:
            merged = functools.reduce(operator.or_, (functions[c] for c in group))
            for name in merged.support:
                n_users[int(name[1:])] += 1
        return sorted((f for f in n_users if n_users[f]), key=lambda f: -n_users[f])

    def functions(self, backend: str = "auto", *, largest: int | None = None) -> list[Function]:
        """Return the Boolean function of each class as a ``dd`` function.

        Its variables are the features, such as ``f7``, in the order of :attr:`order`.

        Args:
            backend: ``cudd``, in C, which not every installation of ``dd`` has; ``autoref``, plain
                Python; ``auto`` for the first of these that is installed.
            largest: The largest number of nodes of a diagram, as diagrams may be exponentially
                large; None for no limit.
        """
        manager = _new_manager(backend)
        manager.declare(*(f"f{feature}" for feature in self.order.tolist()))
        feature, present, absent = (array.tolist() for array in self.arrays)
        reached = [manager.false] * self.n_nodes  # the percepts whose walk passes each node
        reached[0] = manager.true
        functions = [manager.false] * self.n_classes
        for node, condition in enumerate(reached):
            if feature[node] == LEAF:
                functions[present[node]] = condition
                continue
            if largest is not None and condition.dag_size > largest:
                raise _TooLargeError
            test = manager.var(f"f{feature[node]}")
            reached[present[node]] |= condition & test
            reached[absent[node]] |= condition & ~test
        return functions

    def renumber(self, numbers: dict[int, int]) -> Diagrams:
        """Return the same classifier with its features renumbered."""
        order = np.asarray([numbers[f] for f in self.order.tolist()], np.int64)
        return replace(Nodes.renumber(self, numbers), order=order)

    def check(self, n_features: int) -> None:
        """Raise a ValueError unless all walks end and the order holds each tested feature once."""
        Nodes.check(self, n_features)
        if self.order.dtype != np.int64 or not np.array_equal(np.sort(self.order), self.features):
            raise ValueError("the order of the diagrams does not hold their features")


class _TooLargeError(Exception):
    """A diagram has too many nodes; the limit does not depend on the backend."""


def _simplify(nodes: Nodes, group_of: Ints, wanted: set[int]) -> tuple[Ints, Ints, Ints]:
    """Return the arrays of a graph whose classes are grouped, without redundant tests.

    A test of a feature that is not wanted is replaced by its absent child, a test whose children
    are equal by that child, and equal tests are merged.
    """
    feature, present, absent = (array.tolist() for array in nodes.arrays)
    tests: dict[tuple[int, int, int], int] = {}  # children first; a class c is child -1 - c
    becomes = [0] * len(feature)
    for node in reversed(range(len(feature))):
        if feature[node] == LEAF:
            becomes[node] = -1 - int(group_of[present[node]])
            continue
        high, low = becomes[present[node]], becomes[absent[node]]
        if feature[node] in wanted and high != low:
            becomes[node] = tests.setdefault((feature[node], high, low), len(tests))
        else:
            becomes[node] = low
    rows = list(tests)
    reached = {becomes[0]}
    for number in reversed(range(len(rows))):  # parents first
        if number in reached:
            reached |= set(rows[number][1:])
    kept = sorted((number for number in reached if number >= 0), reverse=True)
    place = {number: i for i, number in enumerate(kept)}
    n_classes = int(group_of.max()) + 1
    leaves = sorted(range(n_classes), key=lambda c: -1 - c != becomes[0])  # the root is node 0
    place |= {-1 - c: len(kept) + i for i, c in enumerate(leaves)}
    table = [(f, place[high], place[low]) for f, high, low in (rows[number] for number in kept)]
    table += [(LEAF, c, c) for c in leaves]
    feature_of, present_of, absent_of = np.asarray(table, np.int64).T.copy()
    return feature_of, present_of, absent_of


def check_backend(backend: str) -> bool:
    """Return whether a backend uses CUDD; raise a ValueError if it is not available."""
    if backend not in BACKENDS:
        raise unknown_name("backend of diagrams", backend, BACKENDS)
    has_cudd = importlib.util.find_spec("dd.cudd") is not None
    if backend == "cudd" and not has_cudd:
        raise ValueError(
            "dd is installed without CUDD; choose the backend autoref, or a Python for which dd "
            "has a wheel with CUDD."
        )
    return has_cudd and backend != "autoref"


def _new_manager(backend: str) -> Any:
    if check_backend(backend):
        manager = importlib.import_module("dd.cudd").BDD(memory_estimate=MEMORY)
    else:
        manager = importlib.import_module("dd.autoref").BDD()
    manager.configure(reordering=False)  # both backends use the given order
    return manager
