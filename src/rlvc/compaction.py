"""Merging visual classes that are equivalent: the paper's Section 4, its ``post-process`` box."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from rlvc.classifier import Classifier
from rlvc.classifier.bdd import BACKENDS
from rlvc.mdp import MappedMDP, greedy
from rlvc.parameters import check, param
from rlvc.registry import Registry

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Solve = Callable[[Classifier], tuple[MappedMDP, Floats]]


class Step(Protocol):
    """Rework the classifiers of one run between its stages."""

    def __call__(
        self, number: int, classifier: Classifier, solve: Solve, *, is_last: bool
    ) -> Classifier:
        """Return another classifier, or the very same one to leave it.

        Args:
            number: The stage that the classifier is for.
            classifier: The refined classifier.
            solve: Maps and solves the MDP of any classifier on the current database.
            is_last: Whether no class will be refined after this.
        """
        ...


class PostProcess(Protocol):
    """The paper's post-processing: what happens to a classifier between two stages."""

    def start(self) -> Step:
        """Return what reworks the classifiers of one run."""
        ...


@dataclass(frozen=True, slots=True)
class Keep:
    """No post-processing: classifiers stay as they were refined."""

    def start(self) -> Step:
        """Return a step that leaves every classifier alone."""
        return _keep


def _keep(number: int, classifier: Classifier, solve: Solve, *, is_last: bool) -> Classifier:
    return classifier


def value_gaps(q: Floats, is_tried: Bools) -> Floats:
    """Return |V*(V) − V*(V′)| for every two classes."""
    value: Floats = q.max(axis=1)
    return np.abs(value[:, None] - value[None, :])


def policy_gaps(q: Floats, is_tried: Bools) -> Floats:
    """Return the larger of |V*(V) − Q*(V′, π*(V))| and |V*(V′) − Q*(V, π*(V′))|."""
    gaps: Floats = np.abs(q.max(axis=1)[:, None] - q[:, greedy(q, is_tried)].T)
    return np.maximum(gaps, gaps.T)


def action_value_gaps(q: Floats, is_tried: Bools) -> Floats:
    """Return the largest |Q*(V, a) − Q*(V′, a)| of any action a, for every two classes."""
    return np.asarray(np.abs(q[:, None, :] - q[None, :, :]).max(axis=2))


GAPS: Final = {"value": value_gaps, "policy": policy_gaps, "action-value": action_value_gaps}
EQUIVALENCES: Final = tuple(
    "+".join(names) for n in range(1, len(GAPS) + 1) for names in itertools.combinations(GAPS, n)
)


def equivalent(q: Floats, is_tried: Bools, equivalence: str, epsilon: float) -> list[list[int]]:
    """Return groups of classes in which every two are ε-equivalent.

    Equivalence up to ε is not transitive, so a chain of neighbours must not become one class.
    The groups are those of hierarchical clustering with complete linkage: beginning with every
    class by itself, the two groups whose farthest members are nearest become one, as long as these
    are equivalent. Ties go to the lower values. Nothing depends on the numbers of the classes.

    Args:
        q: (n_classes, n_actions) optimal state–action values.
        is_tried: (n_classes, n_actions) which of them the database knows.
        equivalence: Names of relations joined by ``+``; all of them must hold.
        epsilon: The largest gap, as a fraction of the range of the optimal values.

    >>> q = np.array([[0.0], [0.6], [1.2], [100.0]])
    >>> equivalent(q, q >= 0, "value", epsilon=0.01)
    [[0, 1], [2], [3]]
    """
    is_known = is_tried.any(axis=1)
    value = q[is_known].max(axis=1, initial=-np.inf)
    limit = epsilon * float(np.ptp(value)) if len(value) else 0.0
    rows, which = np.unique(np.column_stack([q, is_tried]), axis=0, return_inverse=True)
    values, tried = rows[:, : q.shape[1]], rows[:, q.shape[1] :] > 0
    label = np.zeros(len(rows), np.int64)
    if len(rows) > 1:
        gaps = np.max([GAPS[name](values, tried) for name in equivalence.split("+")], axis=0)
        links = hierarchy.linkage(squareform(gaps, checks=False), method="complete")
        label = hierarchy.fcluster(links, t=limit, criterion="distance")
    groups: dict[int, list[int]] = {}
    for number, mark in enumerate(label[which.ravel()].tolist()):
        groups.setdefault(mark, []).append(number)
    return list(groups.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """Merge equivalent classes every few stages, and once at the end.

    Splitting and merging could take turns for ever. So classes are merged on the way only as long
    as each time more of them are left than the time before; after that they are only split, which
    comes to an end since percepts are finite in number, and merged once more at the end.
    """

    every: int = param(10, "stages from one compaction to the next; 0: only at the end", low=0)
    epsilon: float = param(
        0.005,
        "largest gap between equivalent classes, as a fraction of the range of the optimal values "
        "(ε)",
        low=0.0,
    )
    equivalence: str = param(
        "value+policy",
        "what must be nearly the same: the optimal value, the value under each other's optimal "
        "action, the values of all actions, or several of these",
        choices=EQUIVALENCES,
    )
    backend: str = param(
        "auto",
        "who computes with diagrams: CUDD where dd comes with it, else plain Python; the classes "
        "are the same",
        choices=BACKENDS,
    )

    def __post_init__(self) -> None:
        check(self)

    def start(self) -> Step:
        """Return what compacts the classifiers of one run."""
        return _Alternation(self)

    def compact(self, classifier: Classifier, solve: Solve) -> Classifier:
        """Return the classifier with equivalent classes merged; itself if there are none."""
        mdp, q = solve(classifier)
        groups = equivalent(q, mdp.is_tried, self.equivalence, self.epsilon)
        return classifier.merge(groups, self.backend)


@dataclass(slots=True)
class _Alternation:
    """When to compact: the state of one run."""

    compaction: Compaction
    n_left: int = 0  # classes after the last compaction
    is_open: bool = True  # whether the next one may happen before the end

    def __call__(
        self, number: int, classifier: Classifier, solve: Solve, *, is_last: bool
    ) -> Classifier:
        every = self.compaction.every
        is_due = self.is_open and every > 0 and number % every == 0
        if not (is_due or is_last):
            return classifier
        compacted = self.compaction.compact(classifier, solve)
        self.is_open = compacted.n_classes > self.n_left
        self.n_left = compacted.n_classes
        return compacted


post_processes: Registry[PostProcess] = Registry("post-processing")
post_processes.register("none", Keep)
post_processes.register("compaction", Compaction)
