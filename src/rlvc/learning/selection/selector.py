"""The feature that best explains the residuals of a class: the paper's Algorithm 4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc._core.fixed_point import FixedPoint
from rlvc._core.jit import jit
from rlvc._core.params import check, param
from rlvc.features.incidence import Incidence
from rlvc.learning.aliasing import Residuals
from rlvc.learning.selection.significance import kolmogorov_smirnov, student, welch
from rlvc.learning.selection.sums import Candidates, GroupSums, group_interactions, sum_candidates

NEVER = -1.0  # the score of a candidate that is not to be chosen; others have 0 at least


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The best feature of every class.

    Attributes:
        feature: (n_classes,) the feature f*, or -1 for the paper's ⊥.
        action: (n_classes,) the action whose residuals it explains; -1 for ⊥.
        p_value: (n_classes,) of the test on the two sides; 1 for ⊥.
        n_tests: (n_classes,) how many candidates were compared; without those that change nothing,
            if splits must be relevant.
    """

    feature: NDArray[np.int64]
    action: NDArray[np.int64]
    p_value: NDArray[np.float64]
    n_tests: NDArray[np.int64]

    @classmethod
    def none(cls, n_classes: int) -> SplitChoice:
        """Return the choice of ⊥ for every class."""
        nothing = np.full(n_classes, -1, np.int64)
        return cls(nothing, nothing, np.ones(n_classes), np.zeros(n_classes, np.int64))

    def fill_missing(self, other: SplitChoice) -> SplitChoice:
        """Return this choice and, where it is ⊥, the other."""
        none = self.feature < 0
        return SplitChoice(
            np.where(none, other.feature, self.feature),
            np.where(none, other.action, self.action),
            np.where(none, other.p_value, self.p_value),
            np.where(none, other.n_tests, self.n_tests),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Selector:
    """Rank the candidates of a class, and keep the best whose two sides differ significantly."""

    ranking: str = param(
        "reduction",
        "what makes a feature better: the reduction of the sum of squares that it brings, or the "
        "variance that remains (the paper)",
        choices=("reduction", "remaining"),
    )
    test: str = param(
        "student",
        "test on the two sides: Student's t (the paper), Welch's t, Kolmogorov–Smirnov",
        choices=("student", "welch", "ks"),
    )
    alpha: float = param(0.5, "level of the test", above=0.0, below=1.0)
    correction: str = param(
        "bonferroni",
        "of the level for the number of candidates of the class (the paper: none)",
        choices=("none", "bonferroni"),
    )
    min_samples: int = param(2, "least number of samples on each side", low=1)
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

    def __post_init__(self) -> None:
        check(self)

    def select(
        self,
        residuals: Residuals,
        percepts: NDArray[np.int64],
        incidence: Incidence,
        is_aliased: NDArray[np.bool_],
        threads: int = 1,
    ) -> SplitChoice:
        """Return the best feature of every aliased class.

        Among equals, the lowest action and then the lowest feature wins.

        Args:
            residuals: Δ_t of every interaction, with its class and action.
            percepts: (N,) the percept s_t of every interaction, a row of ``incidence``.
            incidence: Which percept exhibits which candidate feature.
            is_aliased: (n_classes,) the classes to search.
            threads: How many threads share the work; the result does not depend on it.
        """
        if self.samples == "percepts":
            residuals, percepts = residuals.by_percept(percepts)
        groups = group_interactions(residuals, is_aliased)
        candidates = sum_candidates(
            groups, residuals.integers, percepts, incidence, self.min_samples, threads
        )
        p_values = None
        if self.test == "ks":
            p_values = kolmogorov_smirnov(
                groups, candidates, residuals.integers, percepts, incidence
            )
        known = residuals.q, residuals.fixed, residuals.n_classes, residuals.n_actions
        return self._choose(groups, candidates, *known, p_values)

    def sums(
        self,
        residuals: Residuals,
        percepts: NDArray[np.int64],
        incidence: Incidence,
        is_aliased: NDArray[np.bool_],
        threads: int = 1,
    ) -> tuple[GroupSums, Candidates]:
        """Return all that :meth:`choose` needs to know of a part of the interactions.

        No candidate is left out, as the other parts may have the samples that are missing here;
        ``merge`` adds the parts up. The arguments are those of :meth:`select`.
        """
        self._check_sums()
        groups = group_interactions(residuals, is_aliased)
        candidates = sum_candidates(groups, residuals.integers, percepts, incidence, 0, threads)
        return groups.sums(), candidates

    def choose(
        self,
        groups: GroupSums,
        candidates: Candidates,
        q: NDArray[np.float64] | None,
        fixed: FixedPoint,
        n_classes: int,
        n_actions: int,
    ) -> SplitChoice:
        """Return the best feature of every class from sums alone, whoever summed.

        Args:
            groups: The sums of every (class, action).
            candidates: Those of every (class, action, feature) with enough samples.
            q: (n_classes, n_actions) the values, if splits must be relevant.
            fixed: The grid of the sums.
            n_classes: How many visual classes there are.
            n_actions: How many actions there are.
        """
        self._check_sums()
        return self._choose(groups, candidates, q, fixed, n_classes, n_actions, None)

    def _check_sums(self) -> None:
        """Raise an error if sums do not tell which feature is best."""
        for name, wrong, right in (
            ("test", "ks", "student or welch"),
            ("samples", "percepts", "interactions"),
        ):
            if getattr(self, name) == wrong:
                raise ValueError(
                    f"{name} of Selector must be {right} where sums are all that is known, as on "
                    f"several machines; got {wrong!r}. Choose {right}, or learn on one machine."
                )

    def _choose(
        self,
        groups: GroupSums,
        candidates: Candidates,
        q: NDArray[np.float64] | None,
        fixed: FixedPoint,
        n_classes: int,
        n_actions: int,
        p_values: NDArray[np.float64] | None,
    ) -> SplitChoice:
        """Return the best feature of every class; ``p_values`` of a test that needs more than sums.

        Where there is none, sums give them.
        """
        reduction = _reductions(groups, candidates)
        if self.relevant:
            reduction[_is_idle(groups, candidates, q, fixed)] = NEVER
        counts = candidates.group[reduction > NEVER] // n_actions
        n_tests = np.bincount(counts, minlength=n_classes)
        level = np.full(n_classes, self.alpha)
        if self.correction == "bonferroni":
            level /= np.maximum(n_tests, 1)
        if self.test == "student":
            # Within a group t grows with the reduction: if the best is not significant, none is.
            best = _best(candidates.begin, candidates.feature, reduction)
            p_value = np.ones(len(best))
            p_value[best >= 0] = student(groups, candidates, best[best >= 0])
            best[p_value >= np.repeat(level, n_actions)] = -1
        else:
            if p_values is None:
                p_values = welch(groups, candidates)
            is_significant = p_values < level[candidates.group // n_actions]
            score = np.where(is_significant, reduction, NEVER)
            best = _best(candidates.begin, candidates.feature, score)
            p_value = np.where(best >= 0, p_values[best] if len(p_values) else 1.0, 1.0)
        merit = np.full(len(best), -np.inf)
        chosen = best[best >= 0]
        is_reduction = self.ranking == "reduction"
        merit[best >= 0] = (
            reduction[chosen] if is_reduction else -_remaining(groups, candidates, chosen)
        )
        return _choose(candidates, best, merit.reshape(n_classes, -1), p_value, n_tests)


def _choose(
    candidates: Candidates,
    best: NDArray[np.int64],
    merit: NDArray[np.float64],
    p_value: NDArray[np.float64],
    n_tests: NDArray[np.int64],
) -> SplitChoice:
    """Return for each class the best candidate of its actions; ``merit`` is (classes, actions)."""
    action = np.argmax(merit, axis=1)
    rows = np.arange(len(merit))
    is_split = merit[rows, action] > -np.inf
    pick = rows * merit.shape[1] + action
    feature = np.full(len(merit), -1, np.int64)
    feature[is_split] = candidates.feature[best[pick[is_split]]]
    return SplitChoice(
        feature,
        np.where(is_split, action, -1),
        np.where(is_split, p_value[pick], 1.0),
        n_tests,
    )


def _is_idle(
    groups: GroupSums, candidates: Candidates, q: NDArray[np.float64] | None, fixed: FixedPoint
) -> NDArray[np.bool_]:
    """Tell which splits change neither value nor policy: on both sides another action is best."""
    if q is None:
        raise ValueError("relevant of Selector needs residuals that know the values.")
    q = np.ldexp(q, fixed.exponent)
    others = np.full(q.shape, -np.inf)
    for action in range(q.shape[1]):
        rest = np.delete(q, action, axis=1)
        others[:, action] = rest.max(axis=1, initial=-np.inf)
    return _idle_kernel(
        candidates.begin, groups.count, groups.total, candidates.count, candidates.total,
        q.ravel(), others.ravel(),
    )  # fmt: skip


@jit
def _idle_kernel(
    begin: NDArray[np.int64],
    count: NDArray[np.int64],
    total: NDArray[np.int64],
    with_count: NDArray[np.int64],
    with_total: NDArray[np.int64],
    q: NDArray[np.float64],
    others: NDArray[np.float64],
) -> NDArray[np.bool_]:
    out = np.empty(len(with_count), np.bool_)
    for g in range(len(begin) - 1):
        for i in range(begin[g], begin[g + 1]):
            n1, s1 = with_count[i], with_total[i]
            n0, s0 = count[g] - n1, total[g] - s1
            out[i] = max(s1 / n1, s0 / n0) + q[g] <= others[g]
    return out


def reductions(
    n: int, total: int, with_count: NDArray[np.int64], with_total: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return n σ² − n⊕ σ⊕² − n⊖ σ⊖² for several ways to part ``n`` residuals in two."""
    begin = np.array([0, len(with_count)], np.int64)
    return _reduction_kernel(
        begin, np.array([n], np.int64), np.array([total], np.int64), with_count, with_total
    )


def _reductions(groups: GroupSums, candidates: Candidates) -> NDArray[np.float64]:
    """Return n σ² − n⊕ σ⊕² − n⊖ σ⊖² = (n⊖ Σ⊕ − n⊕ Σ⊖)² / (n n⊕ n⊖) for all candidates.

    Equal patterns, and patterns that are each other's complement, give equal numbers to the bit, so
    that ties are ties.
    """
    return _reduction_kernel(
        candidates.begin, groups.count, groups.total, candidates.count, candidates.total
    )


@jit
def _reduction_kernel(
    begin: NDArray[np.int64],
    count: NDArray[np.int64],
    total: NDArray[np.int64],
    with_count: NDArray[np.int64],
    with_total: NDArray[np.int64],
) -> NDArray[np.float64]:
    out = np.empty(len(with_count), np.float64)
    for g in range(len(begin) - 1):
        n, s = float(count[g]), float(total[g])
        for i in range(begin[g], begin[g + 1]):
            n1, s1 = float(with_count[i]), float(with_total[i])
            n0, s0 = n - n1, s - s1
            d = n0 * s1 - n1 * s0
            out[i] = d * d / (n * (n1 * n0))
    return out


@jit
def _best(
    begin: NDArray[np.int64], feature: NDArray[np.int32], score: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the candidate of each group with the highest score, -1 if none is above NEVER."""
    best = np.full(len(begin) - 1, -1, np.int64)
    for g in range(len(begin) - 1):
        top, at = NEVER, -1
        for i in range(begin[g], begin[g + 1]):
            if score[i] > top or (at >= 0 and score[i] == top and feature[i] < feature[at]):
                top, at = score[i], i
        best[g] = at
    return best


def _remaining(
    groups: GroupSums, candidates: Candidates, chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return n⊕/n σ⊕² + n⊖/n σ⊖², rounded once: in whole numbers, so that perfect splits tie."""
    group = np.searchsorted(candidates.begin, chosen, side="right") - 1
    columns = (
        groups.count[group], groups.total[group], groups.square[group],
        candidates.count[chosen], candidates.total[chosen],
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.asarray(
        [
            (q * n1 * (n - n1) - s1 * s1 * (n - n1) - (s - s1) ** 2 * n1) / (n * n1 * (n - n1))
            for n, s, q, n1, s1 in rows
        ],
        np.float64,
    )
