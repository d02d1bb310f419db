from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from rlvc._core.fixed_point import FixedPoint
from rlvc.features import Incidence
from rlvc.learning.aliasing import Residuals
from rlvc.learning.selection.selector import Samples
from rlvc.learning.selection.significance import kolmogorov_smirnov, student, welch
from rlvc.learning.selection.sums import group_interactions, sum_candidates


@pytest.mark.parametrize("test", ["student", "welch", "ks"])
@pytest.mark.parametrize("largest", [2, 50, 2**24])
def test_p_values_are_those_of_scipy(test: str, largest: int) -> None:
    rng = np.random.default_rng(largest)
    n, dense = 300, rng.random((40, 12)) < 0.4
    percept, group = rng.integers(0, 40, n), rng.integers(0, 3, n)
    delta = rng.integers(-largest, largest + 1, n) + dense[percept, 3] * largest
    residuals = Residuals(delta, FixedPoint(0), group, np.zeros((3, 1)))
    samples = Samples(residuals, percept, Incidence.from_dense(dense), np.ones(3, np.bool_))
    groups, order = group_interactions(samples)
    candidates = sum_candidates(groups, order, samples, 2)
    if test == "student":
        p_values = student(groups, candidates, np.arange(len(candidates.feature)))
    elif test == "welch":
        p_values = welch(groups, candidates)
    else:
        p_values = kolmogorov_smirnov(groups, order, candidates, samples)
    assert len(p_values) >= 30
    for g, f, p in zip(candidates.group, candidates.feature, p_values, strict=True):
        here = group == g
        plus, minus = delta[here & dense[percept, f]], delta[here & ~dense[percept, f]]
        if test == "ks":
            gap = float(stats.ks_2samp(plus, minus, method="asymp").statistic)
            size = len(plus) * len(minus) / (len(plus) + len(minus))
            expected = float(stats.kstwobign.sf(np.sqrt(size) * gap))
        else:
            expected = float(stats.ttest_ind(plus, minus, equal_var=test == "student").pvalue)
        assert p == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(
    ("plus", "minus"),
    [
        ([4, 4, 4], [1, 1, 1, 1]),  # a perfect split
        ([4, 4, 4], [1, 2, 1, 1]),  # one side constant
        ([4, 4], [4, 4, 4]),  # nothing to tell apart
        ([5], [1, 2, 3]),  # a single sample
        ([5], [1, 1, 1]),
        ([5], [1]),  # no degree of freedom
        ([5, 1], [3, 3]),  # equal means
    ],
)
def test_degenerate_sides_get_scipys_answer(plus: list[int], minus: list[int]) -> None:
    delta = np.array(plus + minus)
    percept = np.array([1] * len(plus) + [0] * len(minus))
    incidence = Incidence.from_dense(np.array([[False], [True]]))
    residuals = Residuals(delta, FixedPoint(0), np.zeros(len(delta), np.int64), np.zeros((1, 1)))
    samples = Samples(residuals, percept, incidence, np.ones(1, np.bool_))
    groups, order = group_interactions(samples)
    candidates = sum_candidates(groups, order, samples, 1)
    got = student(groups, candidates, np.array([0]))[0], welch(groups, candidates)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for p, equal_var in zip(got, (True, False), strict=True):
            expected = float(stats.ttest_ind(plus, minus, equal_var=equal_var).pvalue)
            # Where scipy has no answer there is no evidence.
            assert p == pytest.approx(1.0 if np.isnan(expected) else expected, rel=1e-12)
