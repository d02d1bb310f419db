"""The feature that best explains the residuals of a class: the paper's Algorithm 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.jit import jit
from rlvc._core.params import Checked, param
from rlvc.features.incidence import Incidence
from rlvc.learning.aliasing import Residuals, ResidualSums
from rlvc.learning.selection.significance import kolmogorov_smirnov, student, welch
from rlvc.learning.selection.sums import (
    CandidateSums,
    GroupSums,
    group_interactions,
    merge,
    sum_candidates,
)


class SplitChoice(NamedTuple):
    """The best feature of every class.

    Attributes:
        feature: (n_classes,) the feature f*, or -1 for the paper's ⊥.
        action: (n_classes,) the action whose residuals it explains; -1 for ⊥.
        p_value: (n_classes,) of the test on the two sides; 1 for ⊥.
        n_tests: (n_classes,) how many candidates were compared; only relevant ones, if splits must
            be relevant.
    """

    feature: Ints
    action: Ints
    p_value: Floats
    n_tests: Ints

    @classmethod
    def none(cls, n_classes: int) -> SplitChoice:
        """Return ⊥ for every class."""
        nothing = np.full(n_classes, -1, np.int64)
        return cls(nothing, nothing, np.ones(n_classes), np.zeros(n_classes, np.int64))

    def fill_missing(self, other: SplitChoice) -> SplitChoice:
        """Return this choice, with ⊥ replaced by the other choice."""
        none = self.feature < 0
        pairs = zip(other, self, strict=True)
        return SplitChoice(*(np.where(none, theirs, ours) for theirs, ours in pairs))


@dataclass(frozen=True, slots=True)
class Samples:
    """The interactions of one shard, and which candidates their percepts exhibit.

    Attributes:
        residuals: Δ_t of every interaction, with its class and action.
        percepts: (N,) the percept s_t of every interaction, a row of ``incidence``.
        incidence: Which percept exhibits which candidate feature.
        is_aliased: (n_classes,) the classes to search.
        threads: The number of threads to use; no result depends on it.
        is_all: Whether these are all interactions, as there are no other shards.
    """

    residuals: Residuals
    percepts: Ints
    incidence: Incidence
    is_aliased: Bools
    threads: int = 1
    is_all: bool = True


class FeatureSelector(Protocol):
    """The paper's feature selector: measure candidates in every shard, then choose among them."""

    @property
    def min_samples(self) -> int:
        """The minimum number of samples on each side of a split."""
        ...

    def measure(self, samples: Samples) -> Any:
        """Return what :meth:`choose` needs of the interactions of one shard."""
        ...

    def choose(self, measured: Sequence[Any], residuals: ResidualSums) -> SplitChoice:
        """Return the best feature of every aliased class.

        Args:
            measured: The result of :meth:`measure` for each shard.
            residuals: The sums of the residuals of all interactions.
        """
        ...


NEVER = -1.0  # the score of a candidate that must not be chosen; other scores are at least 0


class FeatureSums(NamedTuple):
    """The sums of a shard from which features are selected.

    Attributes:
        groups: The sums of every (class, action).
        candidates: The sums of every (class, action, feature).
        p_values: The p-value of every candidate, if the test needs more than sums.
    """

    groups: GroupSums
    candidates: CandidateSums
    p_values: Floats | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Selector(Checked):
    """Choose the best candidate of each class whose two sides differ significantly."""

    ranking: str = param(
        "reduction",
        "criterion that ranks features: the reduction of the sum of squares, or the variance that "
        "remains (the paper)",
        choices=("reduction", "remaining"),
    )
    test: str = param(
        "student",
        "test between the two sides: Student's t (the paper), Welch's t, Kolmogorov–Smirnov",
        choices=("student", "welch", "ks"),
    )
    alpha: float = param(0.5, "level of the test", above=0.0, below=1.0)
    correction: str = param(
        "bonferroni",
        "correction of the level for the number of candidates of the class (the paper: none)",
        choices=("none", "bonferroni"),
    )
    min_samples: int = param(2, "minimum number of samples on each side", low=1)
    samples: str = param(
        "interactions",
        "what counts as a sample: every interaction (the paper), or the mean residual of each "
        "percept and action, since interactions that share a percept are not independent",
        choices=("interactions", "percepts"),
    )
    relevant: bool = param(
        True,
        "consider only splits by which the value or the best action of the class would change "
        "(the paper: false)",
    )

    def measure(self, samples: Samples) -> FeatureSums:
        """Return the sums of every (class, action, feature).

        If there are other shards, candidates with few samples in this one are not left out.
        """
        if not samples.is_all:
            self._check_sums()
        if self.samples == "percepts":
            residuals, percepts = samples.residuals.by_percept(samples.percepts)
            samples = replace(samples, residuals=residuals, percepts=percepts)
        groups, order = group_interactions(samples)
        least = self.min_samples if samples.is_all else 0
        candidates = sum_candidates(groups, order, samples, least)
        p_values = None
        if self.test == "ks":
            p_values = kolmogorov_smirnov(groups, order, candidates, samples)
        return FeatureSums(groups, candidates, p_values)

    def choose(self, measured: Sequence[FeatureSums], residuals: ResidualSums) -> SplitChoice:
        """Return the best feature of every aliased class.

        Ties go to the lowest action, then to the lowest feature.

        Args:
            measured: The result of :meth:`measure` for each shard.
            residuals: The sums of the residuals of all interactions.
        """
        groups, candidates, p_values = measured[0]
        if len(measured) > 1:
            groups = GroupSums(*np.sum([one.groups for one in measured], axis=0))
            every = [one.candidates for one in measured]
            candidates = merge(every, groups.n, self.min_samples)
        n_classes, n_actions = residuals.count.shape
        reduction = _reductions(groups, candidates)
        if self.relevant:
            reduction[_is_irrelevant(groups, candidates, residuals)] = NEVER
        counts = candidates.group[reduction > NEVER] // n_actions
        n_tests = np.bincount(counts, minlength=n_classes)
        level = np.full(n_classes, self.alpha)
        if self.correction == "bonferroni":
            level /= np.maximum(n_tests, 1)
        if self.test == "student":
            # Within a group t grows with the reduction: if the best is not significant, none is.
            best = _best(candidates, reduction)
            p_value = np.ones(len(best))
            p_value[best >= 0] = student(groups, candidates, best[best >= 0])
            best[p_value >= np.repeat(level, n_actions)] = -1
        else:
            p_values = welch(groups, candidates) if p_values is None else p_values
            is_significant = p_values < level[candidates.group // n_actions]
            score = np.where(is_significant, reduction, NEVER)
            best = _best(candidates, score)
            p_value = np.where(best >= 0, p_values[best] if len(p_values) else 1.0, 1.0)
        merit = np.full(len(best), -np.inf)
        chosen = best[best >= 0]
        is_reduction = self.ranking == "reduction"
        merit[best >= 0] = (
            reduction[chosen] if is_reduction else -_remaining(groups, candidates, chosen)
        )
        return _choose(candidates, best, merit.reshape(n_classes, -1), p_value, n_tests)

    def _check_sums(self) -> None:
        """Raise an error if features cannot be selected from the sums of several shards."""
        for name, wrong, right in (
            ("test", "ks", "student or welch"),
            ("samples", "percepts", "interactions"),
        ):
            if getattr(self, name) == wrong:
                raise ValueError(
                    f"{name} of Selector must be {right} where interactions are in several shards; "
                    f"got {wrong!r}. Choose {right}, or the engine local."
                )


def _choose(
    candidates: CandidateSums, best: Ints, merit: Floats, p_value: Floats, n_tests: Ints
) -> SplitChoice:
    """Return the best candidate of each class, given the best of its actions and their merit."""
    action = np.argmax(merit, axis=1)
    rows = np.arange(len(merit))
    is_split = merit[rows, action] > -np.inf
    pick = rows * merit.shape[1] + action
    feature = np.full(len(merit), -1, np.int64)
    feature[is_split] = candidates.feature[best[pick[is_split]]]
    return SplitChoice(
        feature, np.where(is_split, action, -1), np.where(is_split, p_value[pick], 1.0), n_tests
    )


def _is_irrelevant(groups: GroupSums, candidates: CandidateSums, residuals: ResidualSums) -> Bools:
    """Tell which splits change neither value nor policy: on both sides another action is best."""
    q = np.ldexp(residuals.q, residuals.fixed.exponent)
    others = np.full(q.shape, -np.inf)
    for action in range(q.shape[1]):
        rest = np.delete(q, action, axis=1)
        others[:, action] = rest.max(axis=1, initial=-np.inf)
    return _never_best(groups, candidates, q.ravel(), others.ravel())


@jit
def _never_best(groups: GroupSums, candidates: CandidateSums, q: Floats, others: Floats) -> Bools:
    begin, out = candidates.begin, np.empty(len(candidates.n), np.bool_)
    for g in range(len(begin) - 1):
        for i in range(begin[g], begin[g + 1]):
            n1, s1 = candidates.n[i], candidates.total[i]
            n0, s0 = groups.n[g] - n1, groups.total[g] - s1
            out[i] = max(s1 / n1, s0 / n0) + q[g] <= others[g]
    return out


def reductions(n: int, total: int, with_count: Ints, with_total: Ints) -> Floats:
    """Return n σ² − n⊕ σ⊕² − n⊖ σ⊖² for several splits of ``n`` residuals."""
    group = GroupSums(*np.array([[n], [total], [0]]))
    begin, feature = np.array([0, len(with_count)]), np.empty(0, np.int32)
    return _reductions(group, CandidateSums(begin, feature, with_count, with_total, with_total))


@jit
def _reductions(groups: GroupSums, candidates: CandidateSums) -> Floats:
    """Return n σ² − n⊕ σ⊕² − n⊖ σ⊖² = (n⊖ Σ⊕ − n⊕ Σ⊖)² / (n n⊕ n⊖) for all candidates.

    Candidates with the same or with complementary patterns get the same number, bit for bit, so
    that they tie.
    """
    begin, out = candidates.begin, np.empty(len(candidates.n), np.float64)
    for g in range(len(begin) - 1):
        n, s = float(groups.n[g]), float(groups.total[g])
        for i in range(begin[g], begin[g + 1]):
            n1, s1 = float(candidates.n[i]), float(candidates.total[i])
            n0, s0 = n - n1, s - s1
            d = n0 * s1 - n1 * s0
            out[i] = d * d / (n * (n1 * n0))
    return out


@jit
def _best(candidates: CandidateSums, score: Floats) -> Ints:
    """Return the candidate of each group with the highest score, -1 if none is above NEVER."""
    begin, feature = candidates.begin, candidates.feature
    best = np.full(len(begin) - 1, -1, np.int64)
    for g in range(len(begin) - 1):
        top, at = NEVER, -1
        for i in range(begin[g], begin[g + 1]):
            if score[i] > top or (at >= 0 and score[i] == top and feature[i] < feature[at]):
                top, at = score[i], i
        best[g] = at
    return best


def _remaining(groups: GroupSums, candidates: CandidateSums, chosen: Ints) -> Floats:
    """Return n⊕/n σ⊕² + n⊖/n σ⊖², rounded once: in whole numbers, so that perfect splits tie."""
    group = np.searchsorted(candidates.begin, chosen, side="right") - 1
    columns = (
        groups.n[group], groups.total[group], groups.square[group],
        candidates.n[chosen], candidates.total[chosen],
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.asarray(
        [
            (q * n1 * (n - n1) - s1 * s1 * (n - n1) - (s - s1) ** 2 * n1) / (n * n1 * (n - n1))
            for n, s, q, n1, s1 in rows
        ],
        np.float64,
    )
