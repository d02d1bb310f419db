"""Merging visual classes that are equivalent: the paper's Section 4, its ``post-process`` box."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from rlvc._core.arrays import Bools, Floats
from rlvc._core.params import check, param
from rlvc._core.registry import Registry
from rlvc.classifiers.base import Classifier
from rlvc.classifiers.bdd import BACKENDS, check_backend
from rlvc.learning.mdp import MappedMDP

Solve = Callable[[Classifier], tuple[MappedMDP, Floats]]


class Step(Protocol):
    """Transform the classifiers of one run between its stages."""

    def __call__(
        self, number: int, classifier: Classifier, solve: Solve, *, is_last: bool
    ) -> Classifier:
        """Return another classifier, or the same object to keep it.

        Args:
            number: The stage that will use the classifier.
            classifier: The refined classifier.
            solve: Maps and solves the MDP of any classifier on the current database.
            is_last: Whether no class will be refined after this.
        """
        ...


class PostProcess(Protocol):
    """The paper's post-processing: what happens to a classifier between two stages."""

    def start(self) -> Step | None:
        """Return the step of one run; None to keep all classifiers."""
        ...


@dataclass(frozen=True, slots=True)
class Keep:
    """No post-processing: classifiers stay as they are."""

    def start(self) -> None:
        """Return None, as there is no step."""


def value_gaps(q: Floats) -> Floats:
    """Return |V*(V) − V*(V′)| for every two classes."""
    value: Floats = q.max(axis=1)
    return np.abs(value[:, None] - value[None, :])


def policy_gaps(q: Floats) -> Floats:
    """Return the larger of |V*(V) − Q*(V′, π*(V))| and |V*(V′) − Q*(V, π*(V′))|."""
    gaps: Floats = np.abs(q.max(axis=1)[:, None] - q[:, q.argmax(axis=1)].T)
    return np.maximum(gaps, gaps.T)


def action_value_gaps(q: Floats) -> Floats:
    """Return the largest |Q*(V, a) − Q*(V′, a)| of any action a, for every two classes."""
    gaps = np.zeros((len(q), len(q)))
    for column in q.T:  # one action at a time, to spare memory
        np.maximum(gaps, np.abs(column[:, None] - column[None, :]), out=gaps)
    return gaps


GAPS: Final = {"value": value_gaps, "policy": policy_gaps, "action-value": action_value_gaps}
EQUIVALENCES: Final = tuple(
    "+".join(names) for n in range(1, len(GAPS) + 1) for names in itertools.combinations(GAPS, n)
)


def equivalent(q: Floats, is_tried: Bools, equivalence: str, epsilon: float) -> list[list[int]]:
    """Return groups of classes that are ε-equivalent.

    Equivalence up to ε is not transitive, so a chain of neighbours must not become one class.
    The groups are those of hierarchical clustering with complete linkage: starting from single
    classes, the two groups whose farthest members are nearest become one, as long as these are
    equivalent.

    Only the values of tried actions are known, so classes in which the same actions were tried are
    compared. A class in which fewer were tried first joins the group of such classes that is
    nearest in the values of those actions, if it is within ε of every member in all values that
    both know; it adopts the group's other values. The nearest classes go first.

    Ties go to the lowest values. Nothing depends on the numbers of classes.

    Args:
        q: (n_classes, n_actions) optimal state–action values.
        is_tried: (n_classes, n_actions) which of them were tried.
        equivalence: Names of relations joined by ``+``; all of them must hold.
        epsilon: The largest gap, as a fraction of the range of the optimal values.

    >>> q = np.array([[0.0], [0.6], [1.2], [100.0]])
    >>> equivalent(q, q >= 0, "value", epsilon=0.01)
    [[0, 1], [2], [3]]
    >>> q = np.array([[3.0, 7.0], [3.0, 0.0], [0.0, 0.0]])
    >>> equivalent(q, np.array([[True, True], [True, False], [True, True]]), "value", 0.01)
    [[0, 1], [2]]
    """
    value = np.where(is_tried, q, -np.inf).max(axis=1)
    known = value[np.isfinite(value)]
    limit = epsilon * float(np.ptp(known)) if len(known) else 0.0
    rows, which = np.unique(
        np.column_stack([is_tried, np.where(is_tried, q, 0.0)]), axis=0, return_inverse=True
    )
    tried, values = rows[:, : q.shape[1]] > 0, rows[:, q.shape[1] :]
    groups: list[list[int]] = []
    patterns = np.unique(tried, axis=0)
    for pattern in sorted(patterns.tolist(), key=lambda p: (-sum(p), p)):
        same = np.flatnonzero((tried == pattern).all(axis=1)).tolist()
        richer = [g for g in groups if (tried[g[0]] >= pattern).all()]
        alone = _join(values[:, pattern], tried[:, pattern], same, richer, limit)
        groups += _cluster(values[np.ix_(alone, pattern)], alone, equivalence, limit)
    label = np.empty(len(rows), np.int64)
    for number, members in enumerate(groups):
        label[members] = number
    classes: dict[int, list[int]] = {}
    for number, mark in enumerate(label[which.ravel()].tolist()):
        classes.setdefault(mark, []).append(number)
    return list(classes.values())


def _join(
    values: Floats, tried: Bools, rows: list[int], groups: list[list[int]], limit: float
) -> list[int]:
    """Add rows to the groups whose farthest member is nearest; return those too far from all.

    The nearest go first; later ones must be near to these, too.
    """
    if values.shape[1] == 0 or not groups:
        return rows
    begin = np.cumsum([0, *map(len, groups[:-1])])
    members = list(itertools.chain.from_iterable(groups))
    gaps = np.zeros((len(rows), len(members)))
    for column, known in zip(values.T, tried[members].T, strict=True):
        gap = np.abs(column[rows][:, None] - column[members][None, :])
        np.maximum(gaps, gap * known, out=gaps)
    farthest = np.maximum.reduceat(gaps, begin, axis=1)
    among = action_value_gaps(values[rows])
    alone = []
    for number in farthest.min(axis=1).argsort(kind="stable").tolist():
        best = int(farthest[number].argmin())
        if farthest[number, best] <= limit:
            groups[best].append(rows[number])
            farthest[:, best] = np.maximum(farthest[:, best], among[number])
        else:
            alone.append(rows[number])
    return sorted(alone)


def _cluster(q: Floats, numbers: list[int], equivalence: str, limit: float) -> list[list[int]]:
    """Return the groups of complete linkage of some classes, by their numbers."""
    if len(numbers) < 2:  # such as the only row without known values
        return [numbers] if numbers else []
    gaps = np.max([GAPS[name](q) for name in equivalence.split("+")], axis=0)
    links = hierarchy.linkage(squareform(gaps, checks=False), method="complete")
    labels = hierarchy.fcluster(links, t=limit, criterion="distance").tolist()
    groups: dict[int, list[int]] = {}
    for number, mark in zip(numbers, labels, strict=True):
        groups.setdefault(mark, []).append(number)
    return list(groups.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """Merge equivalent classes every few stages, and once at the end.

    Splitting and merging could alternate forever. So classes are merged before the end only as long
    as each compaction leaves more of them than the last one; then they are only split, which ends
    because the number of percepts is finite, and merged once more at the end.

    Classes with the same value and the same best action may differ in other actions, and then they
    would be split again. So before the end, the values of all actions must agree by default.
    """

    every: int = param(10, "stages between compactions; 0 to compact only at the end", low=0)
    epsilon: float = param(
        0.003,
        "largest gap between equivalent classes, as a fraction of the range of the optimal values "
        "(ε)",
        low=0.0,
    )
    equivalence: str = param(
        "value+policy",
        "what must be nearly equal: the optimal value, the value under each other's optimal "
        "action, the values of all actions, or several of these",
        choices=EQUIVALENCES,
    )
    on_the_way: str = param(
        "action-value",
        "the same before the end, where classes merged by a weaker relation would be split again "
        "(the paper: the same relation)",
        choices=EQUIVALENCES,
    )
    backend: str = param(
        "auto",
        "what computes diagrams: CUDD if dd comes with it, else plain Python; the classes are the "
        "same",
        choices=BACKENDS,
    )

    def __post_init__(self) -> None:
        check(self)
        check_backend(self.backend)

    def start(self) -> Step:
        """Return the step of one run."""
        return _CompactionStep(self)

    def compact(self, classifier: Classifier, solve: Solve, *, is_last: bool) -> Classifier:
        """Return the classifier with equivalent classes merged; itself if there are none."""
        mdp, q = solve(classifier)
        equivalence = self.equivalence if is_last else self.on_the_way
        groups = equivalent(q, mdp.is_tried, equivalence, self.epsilon)
        return classifier.merge(groups, self.backend)


@dataclass(slots=True)
class _CompactionStep:
    """Decide when to compact; the state of one run."""

    compaction: Compaction
    n_left: int = 0  # classes after the last compaction
    is_growing: bool = True  # whether compaction may happen before the end

    def __call__(
        self, number: int, classifier: Classifier, solve: Solve, *, is_last: bool
    ) -> Classifier:
        every = self.compaction.every
        is_due = self.is_growing and every > 0 and number % every == 0
        if not (is_due or is_last):
            return classifier
        compacted = self.compaction.compact(classifier, solve, is_last=is_last)
        self.is_growing = compacted.n_classes > self.n_left
        self.n_left = compacted.n_classes
        return compacted


post_processes: Registry[PostProcess] = Registry("post-processing")
post_processes.register("none", Keep)
post_processes.register("compaction", Compaction)
