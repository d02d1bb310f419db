"""The feature that best explains the residuals of a class: the paper's Algorithm 4.

All that a stage needs is, for every (class, action, feature), the count, the sum and the sum of
squares of the residuals of the interactions whose percept exhibits the feature: one pass over the
incidence matrix, group by group, in integers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rlvc.aliasing import Residuals, variance_of
from rlvc.compiled import chunks, compiled, n_threads, run_threads
from rlvc.incidence import Incidence
from rlvc.parameters import check, param


@dataclass(frozen=True, slots=True)
class Groups:
    """The interactions of a stage sorted by (class, action), with the sums of each group.

    Attributes:
        order: (N′,) interactions of the classes that are searched, group by group.
        begin: (n_groups + 1,) where each group begins in ``order``.
        count: (n_groups,) interactions in the group.
        total: (n_groups,) their sum of residuals.
        square: (n_groups,) their sum of squared residuals.
    """

    order: NDArray[np.int64]
    begin: NDArray[np.int64]
    count: NDArray[np.int64]
    total: NDArray[np.int64]
    square: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Every (group, feature) that leaves enough samples on both sides, with its sums.

    Attributes:
        begin: (n_groups + 1,) where the candidates of each group begin in the arrays below.
        feature: The feature, in no particular order within a group.
        count: Interactions of the group whose percept exhibits it, |S⊕|.
        total: Their sum of residuals.
        square: Their sum of squared residuals.
    """

    begin: NDArray[np.int64]
    feature: NDArray[np.int32]
    count: NDArray[np.int64]
    total: NDArray[np.int64]
    square: NDArray[np.int64]

    @property
    def group(self) -> NDArray[np.int64]:
        """The group of each candidate."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))


@dataclass(frozen=True, slots=True)
class Choice:
    """The best feature of every class.

    Attributes:
        feature: (n_classes,) the feature f*, or -1 for the paper's ⊥.
        action: (n_classes,) the action whose residuals it explains; -1 for ⊥.
        p_value: (n_classes,) of the test on the two sides; 1 for ⊥.
        n_tests: (n_classes,) how many candidates were compared.
    """

    feature: NDArray[np.int64]
    action: NDArray[np.int64]
    p_value: NDArray[np.float64]
    n_tests: NDArray[np.int64]


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
    alpha: float = param(0.05, "level of the test", above=0.0, below=1.0)
    correction: str = param(
        "none",
        "of the level for the number of candidates of the class",
        choices=("none", "bonferroni"),
    )
    min_samples: int = param(5, "least number of interactions on each side", low=1)

    def __post_init__(self) -> None:
        check(self)

    def select(
        self,
        residuals: Residuals,
        percepts: NDArray[np.int64],
        incidence: Incidence,
        is_aliased: NDArray[np.bool_],
        threads: int = 1,
    ) -> Choice:
        """Return the best feature of every aliased class.

        Among equals, the lowest action and then the lowest feature wins.

        Args:
            residuals: Δ_t of every interaction, with its class and action.
            percepts: (N,) the percept s_t of every interaction, a row of ``incidence``.
            incidence: Which percept exhibits which candidate feature.
            is_aliased: (n_classes,) the classes to search.
            threads: How many threads share the work; the result does not depend on it.
        """
        groups = group_interactions(residuals, is_aliased)
        candidates = sum_candidates(
            groups, residuals.integers, percepts, incidence, self.min_samples, threads
        )
        n_tests = np.diff(candidates.begin).reshape(is_aliased.size, -1).sum(axis=1)
        level = np.full(is_aliased.size, self.alpha)
        if self.correction == "bonferroni":
            level /= np.maximum(n_tests, 1)
        best, p_value = self._best_of_groups(
            groups,
            candidates,
            residuals,
            percepts,
            incidence,
            np.repeat(level, residuals.n_actions),
        )
        return self._best_of_classes(groups, candidates, best, p_value, n_tests)

    def _best_of_groups(
        self,
        groups: Groups,
        candidates: Candidates,
        residuals: Residuals,
        percepts: NDArray[np.int64],
        incidence: Incidence,
        level: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return for each group its best significant candidate, or -1, and the p-value."""
        score = _reductions(groups, candidates)
        if self.test == "student":
            # Within a group t grows with the reduction: if the best is not significant, none is.
            best = _best(candidates.begin, candidates.feature, score)
            p_value = np.ones(len(best))
            p_value[best >= 0] = student(groups, candidates, best[best >= 0])
            return np.where(p_value < level, best, -1), p_value
        if self.test == "welch":
            p_values = welch(groups, candidates)
        else:
            p_values = kolmogorov_smirnov(
                groups, candidates, residuals.integers, percepts, incidence
            )
        score = np.where(p_values < level[candidates.group], score, -1.0)
        best = _best(candidates.begin, candidates.feature, score)
        return best, np.where(best >= 0, p_values[best] if len(p_values) else 1.0, 1.0)

    def _best_of_classes(
        self,
        groups: Groups,
        candidates: Candidates,
        best: NDArray[np.int64],
        p_value: NDArray[np.float64],
        n_tests: NDArray[np.int64],
    ) -> Choice:
        found = best >= 0
        chosen = best[found]
        if self.ranking == "reduction":
            merit = _reductions(groups, candidates)[chosen]
        else:
            merit = -_remaining(groups, candidates, chosen)
        flat = np.full(len(best), -np.inf)
        flat[found] = merit
        merits = flat.reshape(len(n_tests), -1)
        action = np.argmax(merits, axis=1)
        rows = np.arange(len(n_tests))
        is_split = merits[rows, action] > -np.inf
        pick = rows * merits.shape[1] + action
        feature = np.full(len(n_tests), -1, np.int64)
        feature[is_split] = candidates.feature[best[pick[is_split]]]
        return Choice(
            feature,
            np.where(is_split, action, -1),
            np.where(is_split, p_value[pick], 1.0),
            n_tests,
        )


def group_interactions(residuals: Residuals, is_aliased: NDArray[np.bool_]) -> Groups:
    """Sort the interactions of the aliased classes by (class, action), in order within each."""
    wanted = np.flatnonzero(np.repeat(is_aliased, residuals.n_actions)[residuals.group])
    group = residuals.group[wanted]
    size = residuals.n_classes * residuals.n_actions
    order = wanted[np.argsort(group, kind="stable")]
    count = np.bincount(group, minlength=size)
    delta = residuals.integers[wanted]
    total, square = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(total, group, delta)
    np.add.at(square, group, delta * delta)
    return Groups(order, np.concatenate([[0], np.cumsum(count)]), count, total, square)


def sum_candidates(
    groups: Groups,
    integers: NDArray[np.int64],
    percepts: NDArray[np.int64],
    incidence: Incidence,
    min_samples: int,
    threads: int = 1,
) -> Candidates:
    """Sum the residuals of every (group, feature): the one pass over the incidence matrix."""
    rows = percepts[groups.order]
    delta = integers[groups.order]
    n_groups = len(groups.count)
    # Threads get runs of groups with about as many interactions each.
    shares = chunks(len(rows), 4 * n_threads(threads))
    cuts = np.searchsorted(groups.begin, [piece.start for piece in shares][1:])
    edges = np.concatenate([[0], cuts, [n_groups]]).tolist()

    def work(span: tuple[int, int]) -> tuple[NDArray[Any], ...]:
        return _sum_groups(
            groups.begin[span[0] : span[1] + 1], rows, delta, incidence.indptr, incidence.indices,
            incidence.n_features, min_samples,
        )  # fmt: skip

    parts = list(run_threads(work, itertools.pairwise(edges), threads))
    lengths, feature, sums = (np.concatenate(part) for part in zip(*parts, strict=True))
    begin = np.concatenate([[0], np.cumsum(lengths)])
    return Candidates(begin, feature.astype(np.int32), *np.ascontiguousarray(sums.T))


@compiled
def _sum_groups(
    begin: NDArray[np.int64],
    rows: NDArray[np.int64],
    delta: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_features: int,
    min_samples: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    sums = np.zeros((n_features, 3), np.int64)  # count, total, square of the group at hand
    touched = np.empty(n_features, np.int32)
    lengths = np.zeros(len(begin) - 1, np.int64)
    feature = np.empty(1024, np.int32)
    out = np.empty((1024, 3), np.int64)
    n = 0
    for g in range(len(begin) - 1):
        size = begin[g + 1] - begin[g]
        if size < 2 * min_samples:
            continue
        n_touched = 0
        for k in range(begin[g], begin[g + 1]):
            d = delta[k]
            for i in range(indptr[rows[k]], indptr[rows[k] + 1]):
                f = indices[i]
                if sums[f, 0] == 0:
                    touched[n_touched] = f
                    n_touched += 1
                sums[f, 0] += 1
                sums[f, 1] += d
                sums[f, 2] += d * d
        first = n
        if n + n_touched > len(feature):
            room = 2 * (n + n_touched)
            longer, wider = np.empty(room, np.int32), np.empty((room, 3), np.int64)
            longer[:n], wider[:n] = feature[:n], out[:n]
            feature, out = longer, wider
        for i in range(n_touched):
            f = touched[i]
            if sums[f, 0] >= min_samples and size - sums[f, 0] >= min_samples:
                feature[n] = f
                out[n, 0], out[n, 1], out[n, 2] = sums[f, 0], sums[f, 1], sums[f, 2]
                n += 1
            sums[f, 0], sums[f, 1], sums[f, 2] = 0, 0, 0
        lengths[g] = n - first
    return lengths, feature[:n].copy(), out[:n].copy()


def _reductions(groups: Groups, candidates: Candidates) -> NDArray[np.float64]:
    """Return n σ² − n⊕ σ⊕² − n⊖ σ⊖² = (n Σ⊕ − n⊕ Σ)² / (n n⊕ n⊖) for every candidate.

    Equal patterns, and patterns that are each other's complement, give equal numbers to the bit, so
    that ties are ties.
    """
    return _reduction_kernel(
        candidates.begin, groups.count, groups.total, candidates.count, candidates.total
    )


@compiled
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
            n1 = float(with_count[i])
            d = n * float(with_total[i]) - n1 * s
            out[i] = d * d / (n * n1 * (n - n1))
    return out


@compiled
def _best(
    begin: NDArray[np.int64], feature: NDArray[np.int32], score: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the candidate of each group with the highest score above 0, or -1."""
    best = np.full(len(begin) - 1, -1, np.int64)
    for g in range(len(begin) - 1):
        top, at = 0.0, -1
        for i in range(begin[g], begin[g + 1]):
            if score[i] > top or (at >= 0 and score[i] == top and feature[i] < feature[at]):
                top, at = score[i], i
        best[g] = at
    return best


def _sides(
    groups: Groups, candidates: Candidates, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.float64], ...]:
    """Return n⊕, n⊖, Σ⊕, Σ⊖, σ⊕², σ⊖² of some candidates."""
    group = np.searchsorted(candidates.begin, chosen, side="right") - 1
    n1, s1, q1 = candidates.count[chosen], candidates.total[chosen], candidates.square[chosen]
    n0, s0 = groups.count[group] - n1, groups.total[group] - s1
    q0 = groups.square[group] - q1
    sides = (n1.astype(float), n0.astype(float), s1.astype(float), s0.astype(float))
    return (*sides, variance_of(n1, s1, q1), variance_of(n0, s0, q0))


def _remaining(
    groups: Groups, candidates: Candidates, chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    n1, n0, _, _, v1, v0 = _sides(groups, candidates, chosen)
    return (n1 * v1 + n0 * v0) / (n1 + n0)


def student(
    groups: Groups, candidates: Candidates, chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the p-values of Student's t-test with pooled variance; 0 for a perfect split."""
    n1, n0, s1, s0, v1, v0 = _sides(groups, candidates, chosen)
    freedom = n1 + n0 - 2.0
    pooled = (n1 * v1 + n0 * v0) * (1.0 / n1 + 1.0 / n0)
    gap = np.abs(s1 / n1 - s0 / n0)
    return _two_sided(gap, pooled / np.maximum(freedom, 1.0), freedom)


def welch(groups: Groups, candidates: Candidates) -> NDArray[np.float64]:
    """Return the p-values of Welch's t-test for all candidates."""
    everything = np.arange(len(candidates.feature))
    n1, n0, s1, s0, v1, v0 = _sides(groups, candidates, everything)
    e1, e0 = v1 / np.maximum(n1 - 1.0, 1.0), v0 / np.maximum(n0 - 1.0, 1.0)
    spread = e1**2 / np.maximum(n1 - 1.0, 1.0) + e0**2 / np.maximum(n0 - 1.0, 1.0)
    freedom = np.divide((e1 + e0) ** 2, spread, out=n1 + n0 - 2.0, where=spread > 0)
    return _two_sided(np.abs(s1 / n1 - s0 / n0), e1 + e0, freedom)


def _two_sided(
    gap: NDArray[np.float64], error2: NDArray[np.float64], freedom: NDArray[np.float64]
) -> NDArray[np.float64]:
    certain = (error2 <= 0.0) & (gap > 0.0)
    t = np.divide(gap, np.sqrt(error2), out=np.zeros_like(gap), where=error2 > 0.0)
    p_value = 2.0 * special.stdtr(np.maximum(freedom, 1.0), -t)
    return np.where(freedom < 1.0, 1.0, np.where(certain, 0.0, p_value))


def kolmogorov_smirnov(
    groups: Groups,
    candidates: Candidates,
    integers: NDArray[np.int64],
    percepts: NDArray[np.int64],
    incidence: Incidence,
) -> NDArray[np.float64]:
    """Return the asymptotic p-values of the two-sample test for all candidates."""
    delta = integers[groups.order]
    group = np.repeat(np.arange(len(groups.count)), groups.count)
    ascending = np.lexsort((delta, group))
    gap = _largest_gaps(
        groups.begin, percepts[groups.order][ascending], delta[ascending], candidates.begin,
        candidates.feature, candidates.count, incidence.indptr, incidence.indices,
        incidence.n_features,
    )  # fmt: skip
    n1 = candidates.count.astype(np.float64)
    n = groups.count[candidates.group].astype(np.float64)
    p_values: NDArray[np.float64] = special.kolmogorov(np.sqrt(n1 * (n - n1) / n) * gap)
    return p_values


@compiled
def _largest_gaps(
    begin: NDArray[np.int64],
    rows: NDArray[np.int64],
    delta: NDArray[np.int64],
    candidate_begin: NDArray[np.int64],
    feature: NDArray[np.int32],
    count: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_features: int,
) -> NDArray[np.float64]:
    """Return sup |F⊕ − F⊖| for every candidate, sweeping each group in ascending order of Δ."""
    gaps = np.zeros(len(feature), np.float64)
    below = np.zeros(n_features, np.int64)  # samples with the feature met so far
    for g in range(len(begin) - 1):
        first, last = candidate_begin[g], candidate_begin[g + 1]
        if first == last:
            continue
        size = begin[g + 1] - begin[g]
        for c in range(first, last):
            below[feature[c]] = 0
        for k in range(begin[g], begin[g + 1]):
            for i in range(indptr[rows[k]], indptr[rows[k] + 1]):
                below[indices[i]] += 1
            if k + 1 < begin[g + 1] and delta[k + 1] == delta[k]:
                continue
            met = k + 1 - begin[g]
            for c in range(first, last):
                with_it = below[feature[c]]
                gap = abs(with_it / count[c] - (met - with_it) / (size - count[c]))
                gaps[c] = max(gaps[c], gap)
    return gaps
