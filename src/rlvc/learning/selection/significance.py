"""Tests of whether the two sides of a split differ: Student's t, Welch's t, Kolmogorov–Smirnov."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rlvc._core.jit import jit
from rlvc.features.incidence import Incidence
from rlvc.learning.selection.sums import CandidateSums, GroupSums, sides


def student(
    groups: GroupSums, candidates: CandidateSums, chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the p-values of Student's t-test with pooled variance; 0 for a perfect split."""
    n1, n0, s1, s0, v1, v0 = sides(groups, candidates, chosen)
    freedom = n1 + n0 - 2.0
    pooled = (n1 * v1 + n0 * v0) * (1.0 / n1 + 1.0 / n0)
    gap = np.abs(s1 / n1 - s0 / n0)
    return _two_sided(gap, pooled / np.maximum(freedom, 1.0), freedom)


def welch(groups: GroupSums, candidates: CandidateSums) -> NDArray[np.float64]:
    """Return the p-values of Welch's t-test for all candidates; 1 where a side has one sample."""
    everything = np.arange(len(candidates.feature))
    n1, n0, s1, s0, v1, v0 = sides(groups, candidates, everything)
    e1, e0 = v1 / np.maximum(n1 - 1.0, 1.0), v0 / np.maximum(n0 - 1.0, 1.0)
    spread = e1**2 / np.maximum(n1 - 1.0, 1.0) + e0**2 / np.maximum(n0 - 1.0, 1.0)
    freedom = np.divide((e1 + e0) ** 2, spread, out=n1 + n0 - 2.0, where=spread > 0)
    p_value = _two_sided(np.abs(s1 / n1 - s0 / n0), e1 + e0, freedom)
    return np.where(np.minimum(n1, n0) < 2.0, 1.0, p_value)


def _two_sided(
    gap: NDArray[np.float64], error2: NDArray[np.float64], freedom: NDArray[np.float64]
) -> NDArray[np.float64]:
    certain = (error2 <= 0.0) & (gap > 0.0)
    t = np.divide(gap, np.sqrt(error2), out=np.zeros_like(gap), where=error2 > 0.0)
    p_value = 2.0 * special.stdtr(np.maximum(freedom, 1.0), -t)
    return np.where(freedom < 1.0, 1.0, np.where(certain, 0.0, p_value))


def kolmogorov_smirnov(
    groups: GroupSums,
    candidates: CandidateSums,
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


@jit
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
