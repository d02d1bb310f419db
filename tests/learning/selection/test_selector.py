from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc._core.fixed_point import FixedPoint
from rlvc.features import Incidence
from rlvc.learning.aliasing import Residuals
from rlvc.learning.selection.selector import Samples, Selector, SplitChoice, reductions
from tests.oracle import rlvc as oracle
from tests.support.candidates import select

RULES = pytest.mark.parametrize(
    ("ranking", "test", "correction"),
    list(
        itertools.product(
            ["reduction", "remaining"], ["student", "welch", "ks"], ["none", "bonferroni"]
        )
    ),
)
N_CLASSES, N_ACTIONS = 3, 2


def draw(
    rng: np.random.Generator, size: int, largest: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Draw an incidence matrix, and the percept, the group and the residual of interactions."""
    n_percepts, n_features = int(rng.integers(2, 12)), int(rng.integers(1, 7))
    dense = rng.random((n_percepts, n_features)) < rng.uniform(0.1, 0.9)
    if n_features > 2:
        dense[:, -1] = dense[:, 0]
        dense[:, -2] = ~dense[:, 0]
    percept = rng.integers(0, n_percepts, size)
    group = rng.integers(0, N_CLASSES * N_ACTIONS, size)
    delta = rng.integers(-largest, largest + 1, size)
    if rng.random() < 0.5:  # something to find, sometimes without any noise
        delta = delta * int(rng.integers(0, 2)) + largest * dense[percept, rng.integers(n_features)]
    return dense, percept, group, delta


def check(
    dense: NDArray[np.bool_], percept: NDArray[np.int64], group: NDArray[np.int64],
    delta: NDArray[np.int64], rules: oracle.Rules, is_aliased: NDArray[np.bool_], threads: int = 1,
) -> int:  # fmt: skip
    """Compare the selector with the oracle; return for how many classes it found a feature."""
    values = np.random.default_rng(len(delta)).integers(-6, 7, (N_CLASSES, N_ACTIONS))
    q = {(V, a): float(values[V, a]) for V in range(N_CLASSES) for a in range(N_ACTIONS)}
    sequence = [
        oracle.Interaction(t, int(g) % N_ACTIONS, Fraction(0), 0, False)
        for t, g in enumerate(group)
    ]
    classes = (group // N_ACTIONS).tolist()
    shows = [set(np.flatnonzero(dense[p]).tolist()) for p in percept]
    fractions = [Fraction(int(d)) for d in delta]
    expected = []
    for V in range(N_CLASSES):
        F = oracle.generator([shows[t] for t in range(len(classes)) if classes[t] == V])
        found = oracle.selector(V, F, sequence, classes, fractions, shows, N_ACTIONS, rules, q)
        expected.append(found if is_aliased[V] else oracle.Found())
    chooser = Selector(
        ranking=rules.ranking, test=rules.test, alpha=rules.alpha,
        correction=rules.correction, min_samples=rules.min_samples, relevant=rules.relevant,
    )  # fmt: skip
    fixed = FixedPoint(0)
    given = Residuals(delta, fixed, group, values.astype(np.float64))
    choice = select(chooser, given, percept, Incidence.from_dense(dense), is_aliased, threads)
    for V, found in enumerate(expected):
        got = oracle.Found(
            None if choice.feature[V] < 0 else int(choice.feature[V]),
            None if choice.action[V] < 0 else int(choice.action[V]),
            float(choice.p_value[V]),
            int(choice.n_tests[V]),
        )
        assert (got.feature, got.action, got.n_tests) == (
            found.feature, found.action, found.n_tests,
        )  # fmt: skip
        if found.feature is None:
            assert got.p_value == 1.0
        else:
            assert got.p_value == pytest.approx(found.p_value, rel=1e-7, abs=1e-12)
    return sum(found.feature is not None for found in expected)


@RULES
@pytest.mark.parametrize("largest", [1, 6, 10**6])
def test_selector_agrees_with_the_paper(
    ranking: str, test: str, correction: str, largest: int
) -> None:
    rng = np.random.default_rng(largest)
    longest = 160 if test == "ks" else 60  # the weaker test needs more to find something
    n_found = n_checked = 0
    for _ in range(25):
        rules = oracle.Rules(
            ranking=ranking, test=test, correction=correction, close=0.0,
            min_samples=int(rng.integers(1, 5)), alpha=float(rng.choice([0.001, 0.05, 0.3])),
        )  # fmt: skip
        sample = draw(rng, int(rng.integers(4, longest)), largest)
        is_aliased = rng.random(N_CLASSES) < 0.8
        try:
            n_found += check(*sample, rules, is_aliased, int(rng.integers(1, 4)))
        except oracle.TooCloseError:
            continue
        n_checked += 1
    assert n_checked >= 20
    assert n_found >= 2


@pytest.mark.parametrize("ranking", ["reduction", "remaining"])
@pytest.mark.parametrize("test", ["student", "ks"])
def test_irrelevant_splits_are_not_made(ranking: str, test: str) -> None:
    n_checked = n_less = 0
    for seed in range(20):
        rules = oracle.Rules(ranking, test, 0.3, "none", 2, close=0.0, relevant=True)
        sample = draw(np.random.default_rng(seed), 90, 6)
        everything = np.ones(N_CLASSES, np.bool_)
        try:
            n_found = check(*sample, rules, everything)
            without = check(*sample, dataclasses.replace(rules, relevant=False), everything)
        except oracle.TooCloseError:
            continue
        n_checked += 1
        n_less += without > n_found
    assert n_checked >= 15
    assert n_less >= 2


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(0, 3),
    st.sampled_from(["reduction", "remaining"]), st.sampled_from(["student", "welch", "ks"]),
    st.sampled_from(["none", "bonferroni"]), st.integers(1, 4), st.booleans(),
)  # fmt: skip
def test_selector_agrees_where_ties_are_common(
    seed: int, size: int, largest: int, ranking: str, test: str, correction: str, min_samples: int,
    relevant: bool,
) -> None:  # fmt: skip
    rules = oracle.Rules(ranking, test, 0.2, correction, min_samples, close=0.0, relevant=relevant)
    sample = draw(np.random.default_rng(seed), size, largest)
    try:
        check(*sample, rules, np.ones(N_CLASSES, np.bool_))
    except oracle.TooCloseError:
        return


def one_group(
    chooser: Selector, dense: list[list[int]], delta: list[int]
) -> tuple[int, int, float, int]:
    """Select in a single class with a single action, one percept for each interaction."""
    n = len(delta)
    nothing = np.zeros(n, np.int64)
    residuals = Residuals(np.array(delta), FixedPoint(0), nothing, np.zeros((1, 1)))
    choice = select(
        chooser,
        residuals,
        np.arange(n),
        Incidence.from_dense(np.array(dense, np.bool_)),
        np.ones(1, bool),
    )
    return (
        int(choice.feature[0]), int(choice.action[0]), float(choice.p_value[0]),
        int(choice.n_tests[0]),
    )  # fmt: skip


def test_a_perfect_split_is_certain() -> None:
    dense = [[1]] * 3 + [[0]] * 3
    assert one_group(Selector(min_samples=3), dense, [7, 7, 7, 2, 2, 2]) == (0, 0, 0.0, 1)


def test_a_side_that_is_too_small_is_no_candidate() -> None:
    dense = [[1]] * 2 + [[0]] * 4
    assert one_group(Selector(min_samples=3), dense, [9, 9, 0, 0, 0, 0]) == (-1, -1, 1.0, 0)
    assert one_group(Selector(min_samples=2), dense, [9, 9, 0, 0, 0, 0])[0] == 0


def test_two_samples_on_a_side_are_enough_and_one_is_not() -> None:
    assert one_group(Selector(), [[1]] * 2 + [[0]] * 4, [9, 9, 0, 0, 0, 0])[0] == 0
    assert one_group(Selector(), [[1]] + [[0]] * 5, [9, 0, 1, 0, 1, 0])[0] == -1


@pytest.mark.parametrize("test", ["student", "welch", "ks"])
def test_a_split_is_significant_below_the_level_and_not_at_it(test: str) -> None:
    dense, delta = [[1]] * 6 + [[0]] * 6, [5, 6, 7, 8, 9, 9, 1, 2, 3, 3, 5, 6]
    p_value = one_group(Selector(test=test), dense, delta)[2]
    assert 0 < p_value < 0.5
    assert one_group(Selector(test=test, alpha=p_value), dense, delta)[0] == -1
    assert one_group(Selector(test=test, alpha=np.nextafter(p_value, 1)), dense, delta)[0] == 0


def test_a_reduction_is_what_the_parts_leave_of_the_sum_of_squares() -> None:
    x = np.array([3, 1, 4, 1, 5, 9])
    shown = np.array([[1, 1, 0, 0, 0, 1], [0, 1, 0, 1, 0, 0], [1, 0, 1, 1, 1, 1]], np.bool_)
    found = reductions(6, int(x.sum()), shown.sum(axis=1), shown @ x)
    expected = [6 * x.var() - k.sum() * x[k].var() - (~k).sum() * x[~k].var() for k in shown]
    assert found == pytest.approx(expected)


def test_another_choice_fills_missing_ones() -> None:
    none = SplitChoice.none(3)
    assert (none.feature.tolist(), none.action.tolist()) == ([-1] * 3, [-1] * 3)
    assert (none.p_value.tolist(), none.n_tests.tolist()) == ([1.0] * 3, [0] * 3)
    one = SplitChoice(
        np.array([0, -1, 1]), np.array([1, -1, 0]), np.array([0.1, 1, 0.2]), np.arange(3)
    )
    other = SplitChoice(
        np.array([7, 8, -1]), np.array([0, 2, -1]), np.array([0.3, 0.4, 1]), np.array([5, 1, 6])
    )
    both = one.fill_missing(other)
    assert (both.feature.tolist(), both.action.tolist()) == ([0, 8, 1], [1, 2, 0])
    assert (both.p_value.tolist(), both.n_tests.tolist()) == ([0.1, 0.4, 0.2], [0, 1, 2])


def test_a_feature_and_its_complement_tie_to_the_lowest_number() -> None:
    dense = [[0, 1, 0]] * 3 + [[1, 0, 1]] * 3
    assert one_group(Selector(min_samples=3), dense, [7, 8, 7, 2, 1, 2])[0] == 0


@pytest.mark.parametrize("n", [200, 299_999])
def test_a_complement_ties_to_the_bit_in_large_groups(n: int) -> None:
    rng = np.random.default_rng(n)
    bits = (62 - n.bit_length()) // 2
    for _ in range(20 if n < 1000 else 6):
        shown = rng.random(n) < rng.uniform(0.2, 0.8)
        delta = rng.integers(-(2**bits), 2**bits, n) // 2 + np.where(shown, 2 ** (bits - 1), 0)
        nothing = np.zeros(n, np.int64)
        residuals = Residuals(delta, FixedPoint(0), nothing, np.zeros((1, 1)))
        dense = np.array([[False, True], [True, False]])
        choice = select(
            Selector(),
            residuals,
            shown.astype(np.int64),
            Incidence.from_dense(dense),
            np.ones(1, bool),
        )
        assert choice.feature.tolist() == [0]


def test_kolmogorov_smirnov_sees_a_difference_that_leaves_the_mean() -> None:
    # The means are equal, so the sum of squares is not reduced; the distributions differ.
    dense = [[1]] * 20 + [[0]] * 20
    delta = [-9, 9] * 10 + [0] * 20
    assert one_group(Selector(test="ks", ranking="remaining"), dense, delta)[0] == 0
    assert one_group(Selector(test="student"), dense, delta)[0] == -1


def test_one_sample_is_never_significant_for_welch() -> None:
    # The variance of a single sample is unknown, so Welch's statistic is undefined.
    dense = [[1]] + [[0]] * 6
    assert one_group(Selector(test="welch", min_samples=1), dense, [9] + [0] * 6)[0] == -1


def test_two_perfect_splits_tie_to_the_lowest_action() -> None:
    # Nothing remains of either variance, whatever the size of the residuals.
    rng = np.random.default_rng(0)
    n = 200
    for _ in range(20):
        percept, action = rng.integers(0, 2, (2, n))
        level = rng.integers(-(2**26), 2**26, (2, 2))
        residuals = Residuals(level[action, percept], FixedPoint(0), action, np.zeros((1, 2)))
        choice = select(
            Selector(ranking="remaining", relevant=False),
            residuals,
            percept,
            Incidence.from_dense(np.array([[True], [False]])),
            np.ones(1, bool),
        )
        assert (choice.feature.tolist(), choice.action.tolist()) == ([0], [0])


def test_samples_that_share_a_percept_count_once() -> None:
    # Ten interactions of two percepts: many samples, but each side has a single percept.
    percept = np.repeat([0, 1], 5)
    delta = np.where(percept == 0, 100, -100) + np.tile([-1, 0, 1, 2, -2], 2)
    residuals = Residuals(
        delta.astype(np.int64), FixedPoint(0), np.zeros(10, np.int64), np.zeros((1, 1))
    )
    incidence = Incidence.from_dense(np.array([[True], [False]]))
    aliased = np.array([True])
    plain = Selector(min_samples=2, relevant=False)
    assert select(plain, residuals, percept, incidence, aliased).feature.tolist() == [0]
    apart = dataclasses.replace(plain, samples="percepts")
    assert select(apart, residuals, percept, incidence, aliased).feature.tolist() == [-1]


@pytest.mark.parametrize("seed", range(20))
def test_residuals_by_percept_are_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    percept, group = rng.integers(0, 6, 40), rng.integers(0, 4, 40)
    delta = rng.integers(-1000, 1001, 40)
    residuals = Residuals(delta, FixedPoint(0), group, np.zeros((2, 2)))
    means, percepts = residuals.by_percept(percept)
    expected = {}
    for g, p in zip(group.tolist(), percept.tolist(), strict=True):
        ours = [d for d, a, b in zip(delta, group, percept, strict=True) if (a, b) == (g, p)]
        expected[g, p] = round(sum(map(int, ours)) / len(ours))
    found = zip(means.group.tolist(), percepts.tolist(), means.integers.tolist(), strict=True)
    assert {(g, p): mean for g, p, mean in found} == expected
    assert len(means.group) == len(expected)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 90), st.integers(1, 4),
    st.sampled_from(["reduction", "remaining"]), st.sampled_from(["student", "welch"]),
    st.sampled_from(["none", "bonferroni"]), st.integers(1, 4), st.booleans(),
)  # fmt: skip
def test_sums_of_shards_choose_what_one_search_chooses(
    seed: int, size: int, n_shards: int, ranking: str, test: str, correction: str,
    min_samples: int, relevant: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    dense, percept, group, delta = draw(rng, size, int(rng.integers(0, 7)))
    values = rng.integers(-6, 7, (N_CLASSES, N_ACTIONS)).astype(np.float64)
    incidence, is_aliased = Incidence.from_dense(dense), rng.random(N_CLASSES) < 0.8
    selector = Selector(
        ranking=ranking, test=test, alpha=0.3, correction=correction, min_samples=min_samples,
        relevant=relevant,
    )  # fmt: skip
    fixed = FixedPoint(0)

    def residuals(rows: NDArray[np.int64]) -> Residuals:
        return Residuals(delta[rows], fixed, group[rows], values)

    expected = select(selector, residuals(np.arange(size)), percept, incidence, is_aliased)
    parts = [
        selector.measure(
            Samples(residuals(rows), percept[rows], incidence, is_aliased, is_all=n_shards == 1)
        )
        for rows in np.array_split(rng.permutation(size), n_shards)
    ]
    found = selector.choose(parts, residuals(np.arange(size)).sums)
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"test": "ks"}, r"^test of Selector must be student or welch where .*; got 'ks'\."),
        ({"samples": "percepts"}, r"^samples of Selector must be interactions where .*\."),
    ],
)
def test_options_that_need_all_interactions_are_refused(
    parameters: dict[str, str], message: str
) -> None:
    selector = Selector(**parameters)  # type: ignore[arg-type]
    nothing = np.zeros(2, np.int64)
    residuals = Residuals(nothing, FixedPoint(0), nothing, np.zeros((1, 1)))
    incidence, every = Incidence.from_dense(np.zeros((2, 1), np.bool_)), np.ones(1, np.bool_)
    with pytest.raises(ValueError, match=message):
        selector.measure(Samples(residuals, nothing, incidence, every, is_all=False))
