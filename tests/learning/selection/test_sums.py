from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc._core.fixed_point import FixedPoint, group_sums
from rlvc.features import Incidence
from rlvc.learning.aliasing import Residuals
from rlvc.learning.selection.selector import Samples
from rlvc.learning.selection.sums import (
    CandidateSums,
    GroupSums,
    group_interactions,
    merge,
    sum_candidates,
)

seeds = st.integers(0, 2**32 - 1)
Sums = dict[tuple[int, int], tuple[int, int, int]]


def by_hand(
    dense: NDArray[np.bool_], percept: NDArray[np.int64], group: NDArray[np.int64],
    delta: NDArray[np.int64], is_wanted: NDArray[np.bool_], min_samples: int,
) -> Sums:  # fmt: skip
    sums: Sums = {}
    for g in range(len(is_wanted)):
        members = [t for t in range(len(group)) if group[t] == g and is_wanted[g]]
        for f in range(dense.shape[1]):
            plus = [int(delta[t]) for t in members if dense[percept[t], f]]
            if len(plus) >= min_samples and len(members) - len(plus) >= min_samples:
                sums[g, f] = len(plus), sum(plus), sum(d * d for d in plus)
    return sums


def as_dict(candidates: CandidateSums) -> Sums:
    rows = zip(
        candidates.group.tolist(), candidates.feature.tolist(), candidates.n.tolist(),
        candidates.total.tolist(), candidates.square.tolist(), strict=True,
    )  # fmt: skip
    listed = [((g, f), (n, s, q)) for g, f, n, s, q in rows]
    assert len(dict(listed)) == len(listed)  # no candidate stands there twice
    return dict(listed)


@settings(deadline=None, max_examples=60)
@given(
    seeds, st.integers(1, 60), st.integers(1, 12), st.integers(1, 5), st.integers(1, 3),
    st.integers(1, 4),
)  # fmt: skip
def test_sums_are_those_of_every_interaction(
    seed: int, n: int, n_features: int, n_classes: int, n_actions: int, min_samples: int
) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.random((9, n_features)) < 0.4
    percept = rng.integers(0, 9, n)
    group = rng.integers(0, n_classes * n_actions, n)
    delta = rng.integers(-(2**28), 2**28, n)
    is_aliased = rng.random(n_classes) < 0.7
    residuals = Residuals(delta, FixedPoint(0), group, np.zeros((n_classes, n_actions)))
    expected = by_hand(dense, percept, group, delta, np.repeat(is_aliased, n_actions), min_samples)
    incidence = Incidence.from_dense(dense)
    cut = int(rng.integers(0, n_features + 1))
    left, right = (dense & (np.arange(n_features) < cut), dense & (np.arange(n_features) >= cut))
    in_parts = Incidence.from_dense(left).append(Incidence.from_dense(right))
    assert len(in_parts.parts) == 2
    for threads in (1, 2, 3):
        for matrix in (incidence, in_parts):
            samples = Samples(residuals, percept, matrix, is_aliased, threads)
            groups, order = group_interactions(samples)
            assert as_dict(sum_candidates(groups, order, samples, min_samples)) == expected
    for g in range(n_classes * n_actions):
        members = delta[(group == g) & np.repeat(is_aliased, n_actions)[g]].tolist()
        assert groups.n[g] == len(members)
        assert groups.total[g] == sum(members)
        assert groups.square[g] == sum(d * d for d in members)
    members = [
        np.flatnonzero((group == g) & np.repeat(is_aliased, n_actions)[g])
        for g in range(n_classes * n_actions)
    ]
    assert np.array_equal(order, np.concatenate(members))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_order_of_the_interactions_gives_the_same_sums(threads: int) -> None:
    rng = np.random.default_rng(1)
    n, dense = 3000, rng.random((200, 700)) < 0.1  # more candidates than the first room holds
    percept, group = rng.integers(0, 200, n), rng.integers(0, 6, n)
    fixed = FixedPoint.for_squares(100.0, n)
    delta = fixed.encode(rng.uniform(-100, 100, n))
    incidence, every = Incidence.from_dense(dense), np.ones(3, np.bool_)

    def sums(rows: NDArray[np.int64]) -> Sums:
        residuals = Residuals(delta[rows], fixed, group[rows], np.zeros((3, 2)))
        samples = Samples(residuals, percept[rows], incidence, every, threads)
        return as_dict(sum_candidates(*group_interactions(samples), samples, 3))

    expected = sums(np.arange(n))
    assert len(expected) > 2048
    for _ in range(2):
        assert sums(rng.permutation(n)) == expected


def test_shards_add_up() -> None:
    rng = np.random.default_rng(2)
    n, dense = 400, rng.random((30, 20)) < 0.3
    percept, group = rng.integers(0, 30, n), rng.integers(0, 4, n)
    delta = rng.integers(-(2**25), 2**25, n)
    incidence, every = Incidence.from_dense(dense), np.ones(2, np.bool_)

    def sums(rows: NDArray[np.int64], min_samples: int) -> Sums:
        residuals = Residuals(delta[rows], FixedPoint(0), group[rows], np.zeros((2, 2)))
        samples = Samples(residuals, percept[rows], incidence, every)
        return as_dict(sum_candidates(*group_interactions(samples), samples, min_samples))

    added: Sums = {}
    for shard in np.array_split(rng.permutation(n), 3):
        for key, values in sums(shard, 0).items():  # 0: a shard alone may lack one of the sides
            old = added.get(key, (0, 0, 0))
            added[key] = (old[0] + values[0], old[1] + values[1], old[2] + values[2])
    assert added == sums(np.arange(n), 0)
    whole = sums(np.arange(n), 5)
    assert whole
    assert all(added[key] == values for key, values in whole.items())


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(1, 60), st.integers(1, 6), st.integers(0, 4))
def test_merged_shards_are_one_pass(seed: int, n: int, n_shards: int, min_samples: int) -> None:
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 12))
    dense = rng.random((9, n_features)) < 0.4
    percept, group = rng.integers(0, 9, n), rng.integers(0, 4, n)
    delta = rng.integers(-(2**25), 2**25, n)
    is_aliased = rng.random(2) < 0.8

    def shard(rows: NDArray[np.int64], least: int) -> tuple[GroupSums, CandidateSums]:
        residuals = Residuals(delta[rows], FixedPoint(0), group[rows], np.zeros((2, 2)))
        incidence = Incidence.from_dense(dense[percept[rows]].reshape(-1, n_features))
        samples = Samples(residuals, np.arange(len(rows)), incidence, is_aliased)
        groups, order = group_interactions(samples)
        return groups, sum_candidates(groups, order, samples, least)

    parts = [shard(rows, 0) for rows in np.array_split(rng.permutation(n), n_shards)]
    expected_groups, expected = shard(np.arange(n), min_samples)
    groups = np.sum([one for one, _ in parts], axis=0)
    assert np.array_equal(groups, expected_groups)
    candidates = merge([one for _, one in parts], groups[0], min_samples)
    assert as_dict(candidates) == as_dict(expected)
    assert np.array_equal(candidates.begin, expected.begin)
    assert candidates.feature.dtype == np.int32


@settings(deadline=None)
@given(st.floats(1e-300, 1e300), st.integers(1, 10**12))
def test_fixed_point_never_overflows(largest: float, n: int) -> None:
    for fixed, power in (
        (FixedPoint.for_sums(largest, n), 1),
        (FixedPoint.for_squares(largest, n), 2),
    ):
        for number in (largest, -largest):
            integer = int(fixed.encode(np.array([number]))[0])
            assert np.sign(integer) == np.sign(number)
            assert n * abs(integer) ** power <= 2**63 - 1


@settings(deadline=None)
@given(st.lists(st.integers(-(2**10), 2**10), min_size=1, max_size=100), st.integers(-200, 200))
def test_fixed_point_keeps_dyadic_numbers(multiples: list[int], exponent: int) -> None:
    numbers = np.ldexp(np.array(multiples, np.float64), exponent)
    largest = float(np.abs(numbers).max())
    for fixed in (
        FixedPoint.for_sums(largest, len(numbers)), FixedPoint.for_squares(largest, len(numbers)),
    ):  # fmt: skip
        assert np.array_equal(fixed.decode(fixed.encode(numbers)), numbers)


@settings(deadline=None)
@given(
    st.floats(1e-300, 1e300), st.integers(1, 10**12),
    st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.booleans(),
)  # fmt: skip
def test_numbers_are_encoded_by_two_factors(
    largest: float, n: int, parts: list[float], squares: bool
) -> None:
    make = FixedPoint.for_squares if squares else FixedPoint.for_sums
    fixed, numbers = make(largest, n), largest * np.array(parts)
    first, second = fixed.factors()
    assert np.array_equal(np.rint(numbers * first * second).astype(np.int64), fixed.encode(numbers))


@settings(deadline=None)
@given(seeds, st.integers(0, 50), st.integers(1, 3))
def test_group_sums_are_those_of_the_members(seed: int, n: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    group, integers = rng.integers(0, 4, n), rng.integers(-(2**25), 2**25, n)
    count, total, square = group_sums(group, integers, 5, threads)
    for g in range(5):
        members = integers[group == g].tolist()
        expected = (len(members), sum(members), sum(d * d for d in members))
        assert (count[g], total[g], square[g]) == expected


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 6), max_size=12))
def test_rows_can_be_taken_and_matrices_united(seed: int, rows: list[int]) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.random((2, 7, 5)) < 0.4
    taken = Incidence.from_dense(one).take(np.array(rows, np.int64))
    expected = Incidence.from_dense(one[rows].reshape(-1, 5))
    assert np.array_equal(taken.indptr, expected.indptr)
    assert np.array_equal(taken.indices, expected.indices)
    union = Incidence.union([Incidence.from_dense(one), Incidence.from_dense(other)])
    both = Incidence.from_dense(one | other)
    assert np.array_equal(union.indptr, both.indptr)
    assert np.array_equal(union.indices, both.indices)
