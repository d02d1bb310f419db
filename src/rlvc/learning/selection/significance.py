"""Tests of whether the two sides of a split differ: Student's t, Welch's t, Kolmogorov–Smirnov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from rlvc._core.arrays import Floats, Ints, Rows
from rlvc._core.jit import jit
from rlvc.learning.selection.sums import CandidateSums, GroupSums, sides

if TYPE_CHECKING:
    from rlvc.learning.selection.selector import Samples


def student(groups: GroupSums, candidates: CandidateSums, chosen: Ints) -> Floats:
    """Return the p-values of Student's t-test with pooled variance; 0 for a perfect split."""
    n1, n0, s1, s0, v1, v0 = sides(groups, candidates, chosen)
    freedom = n1 + n0 - 2.0
    pooled = (n1 * v1 + n0 * v0) * (1.0 / n1 + 1.0 / n0)
    gap = np.abs(s1 / n1 - s0 / n0)
    return _two_sided(gap, pooled / np.maximum(freedom, 1.0), freedom)


def welch(groups: GroupSums, candidates: CandidateSums) -> Floats:
    """Return the p-values of Welch's t-test for all candidates; 1 where a side has one sample."""
    everything = np.arange(len(candidates.feature))
    n1, n0, s1, s0, v1, v0 = sides(groups, candidates, everything)
    e1, e0 = v1 / np.maximum(n1 - 1.0, 1.0), v0 / np.maximum(n0 - 1.0, 1.0)
    spread = e1**2 / np.maximum(n1 - 1.0, 1.0) + e0**2 / np.maximum(n0 - 1.0, 1.0)
    freedom = np.divide((e1 + e0) ** 2, spread, out=n1 + n0 - 2.0, where=spread > 0)
    p_value = _two_sided(np.abs(s1 / n1 - s0 / n0), e1 + e0, freedom)
    return np.where(np.minimum(n1, n0) < 2.0, 1.0, p_value)


def _two_sided(gap: Floats, error2: Floats, freedom: Floats) -> Floats:
    certain = (error2 <= 0.0) & (gap > 0.0)
    t = np.divide(gap, np.sqrt(error2), out=np.zeros_like(gap), where=error2 > 0.0)
    p_value = 2.0 * special.stdtr(np.maximum(freedom, 1.0), -t)
    return np.where(freedom < 1.0, 1.0, np.where(certain, 0.0, p_value))


def kolmogorov_smirnov(
    groups: GroupSums, order: Ints, candidates: CandidateSums, samples: Samples
) -> Floats:
    """Return the asymptotic p-values of the two-sample test for all candidates."""
    delta, incidence = samples.residuals.integers[order], samples.incidence
    group = np.repeat(np.arange(len(groups.n)), groups.n)
    ascending = np.lexsort((delta, group))
    gap = _largest_gaps(
        groups, candidates, samples.percepts[order][ascending], delta[ascending],
        incidence.rows, incidence.n_features,
    )  # fmt: skip
    n1 = candidates.n.astype(np.float64)
    n = groups.n[candidates.group].astype(np.float64)
    p_values: Floats = special.kolmogorov(np.sqrt(n1 * (n - n1) / n) * gap)
    return p_values


@jit
def _largest_gaps(
    groups: GroupSums,
    candidates: CandidateSums,
    percepts: Ints,
    delta: Ints,
    rows: Rows,
    n_features: int,
) -> Floats:
    """Return sup |F⊕ − F⊖| for every candidate, sweeping each group in ascending order of Δ."""
    feature, count, (indptr, indices) = candidates.feature, candidates.n, rows
    gaps = np.zeros(len(feature), np.float64)
    below = np.zeros(n_features, np.int64)  # samples so far that have the feature
    begin = 0
    for g in range(len(groups.n)):
        first, last = candidates.begin[g], candidates.begin[g + 1]
        size = groups.n[g]
        end = begin + size
        for c in range(first, last):
            below[feature[c]] = 0
        for k in range(begin, end if first < last else begin):
            for i in range(indptr[percepts[k]], indptr[percepts[k] + 1]):
                below[indices[i]] += 1
            if k + 1 < end and delta[k + 1] == delta[k]:
                continue
            met = k + 1 - begin
            for c in range(first, last):
                with_it = below[feature[c]]
                gap = abs(with_it / count[c] - (met - with_it) / (size - count[c]))
                gaps[c] = max(gaps[c], gap)
        begin = end
    return gaps
