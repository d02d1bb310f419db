from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc._core.fixed_point import FixedPoint
from rlvc.learning import AbsoluteVariance, RelativeVariance
from rlvc.learning.aliasing import Residuals, aliasing_detectors, bellman_residuals, variance_of
from rlvc.learning.mdp import MappedSequence, map_interactions
from tests.oracle import rlvc as oracle
from tests.support.builders import Problem


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 4), st.integers(0, 8),
)  # fmt: skip
def test_aliased_is_algorithm_2(seed: int, n: int, largest: int, quarters: int) -> None:
    rng = np.random.default_rng(seed)
    delta, group = rng.integers(-largest, largest + 1, n), rng.integers(0, 6, n)
    sequence = [
        oracle.Interaction(t, int(g) % 2, Fraction(0), 0, False) for t, g in enumerate(group)
    ]
    fractions = [Fraction(int(d), 4) for d in delta]
    classes = (group // 2).tolist()
    tau = quarters / 4
    residuals = Residuals(delta, FixedPoint(2), group, np.zeros((3, 2))).sums
    expected = [oracle.aliased(V, sequence, classes, fractions, 2, tau) for V in range(3)]
    assert AbsoluteVariance(tau=tau).detect(residuals, 123.0).tolist() == expected
    assert RelativeVariance(tau=tau).detect(residuals, 1.0).tolist() == expected
    assert RelativeVariance(tau=tau / 8).detect(residuals, 8.0).tolist() == expected
    assert residuals.rms() == pytest.approx(np.sqrt(np.mean((delta / 4) ** 2)))
    variances = residuals.variances()
    for g in range(6):
        samples = [d for d, h in zip(fractions, group, strict=True) if h == g]
        assert variances[g // 2, g % 2] == pytest.approx(float(oracle.variance(samples)))


@pytest.mark.parametrize("seed", range(8))
def test_residuals_are_those_of_the_paper(seed: int) -> None:
    problem = Problem.draw(seed, n=50)
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 4, len(problem.dense))
    q = np.ldexp(rng.integers(-1000, 1000, (4, 3)), -6).astype(np.float64)
    residuals = bellman_residuals(map_interactions(problem.interactions, classes), q, 0.5)
    table = {(V, a): float(q[V, a]) for V in range(4) for a in range(3)}
    expected = oracle.residuals(problem.sequence, classes.tolist(), table, 3, 0.5)
    assert residuals.values.tolist() == [float(d) for d in expected]  # dyadic, so to the bit
    assert (
        residuals.group.tolist()
        == (classes[problem.interactions.start] * 3 + problem.interactions.action).tolist()
    )


def test_the_fixed_point_format_holds_any_residual_of_any_shard() -> None:
    # The largest reward, γ times the largest value and the largest q, whatever their signs: 16.2.
    one, yes = np.zeros(1, np.int64), np.array([True])
    here = MappedSequence(one, one, np.ones(1), one, yes, yes)
    residuals = bellman_residuals(here, np.array([[0.0], [-8.0]]), 0.9)
    assert residuals.fixed == FixedPoint.for_squares(16.2, 1)
    assert residuals.fixed != FixedPoint.for_squares(15.9, 1)


def test_a_small_variance_far_from_zero_is_exact() -> None:
    x = 2**29 + np.array([0, 1, 0, 1, 1, 1])
    sums = (np.array([6]), np.array([x.sum()]), np.array([(x * x).sum()]))
    assert variance_of(*sums).tolist() == [(4 - 4 * 4 / 6) / 6]


def test_no_interactions_have_no_percepts() -> None:
    nothing = np.empty(0, np.int64)
    none = Residuals(nothing, FixedPoint(0), nothing, np.zeros((1, 1)))
    means, percepts = none.by_percept(nothing)
    assert (means.integers.tolist(), means.group.tolist(), percepts.tolist()) == ([], [], [])


def test_detectors_have_names_and_default_thresholds() -> None:
    assert list(aliasing_detectors) == ["absolute", "relative"]
    assert aliasing_detectors.make("relative") == RelativeVariance(tau=1e-5)
    assert aliasing_detectors.make("absolute") == AbsoluteVariance(tau=0.0)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_residuals_in_threads_are_those_of_the_formula(seed: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    n, q = 200, rng.normal(0, 10.0 ** rng.integers(-8, 9), (7, 3))
    start, end, action = rng.integers(0, 7, n), rng.integers(0, 7, n), rng.integers(0, 3, n)
    reward, terminated = rng.normal(0, 5, n), rng.random(n) < 0.2
    sequence = MappedSequence(start, action, reward, end, terminated, terminated)
    found = bellman_residuals(sequence, q, 0.9, threads=threads)
    ahead = np.where(terminated, 0.0, q.max(axis=1)[end])
    expected = found.fixed.encode(reward + 0.9 * ahead - q[start, action])
    assert np.array_equal(found.integers, expected)
    assert np.array_equal(found.group, start * 3 + action)
    sums = found.sums
    assert sums is found.sums  # added up once
    assert int(sums.square.sum()) == sum(d * d for d in expected.tolist())
    assert sums.rms() == pytest.approx(np.sqrt(np.mean(found.values**2)))
    means, _ = found.by_percept(end)
    assert int(means.sums.count.sum()) == len(means.integers) < n
