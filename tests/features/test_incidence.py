from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc._core.arrays import Bools
from rlvc.features import Incidence
from rlvc.features.incidence import StackedIncidence

seeds = st.integers(0, 2**32 - 1)


def draw(rng: np.random.Generator, n_rows: int = 0) -> tuple[Bools, Incidence]:
    """Draw a matrix, dense and in parts, of which some are empty and some mix their numbers."""
    n_rows, width = n_rows or int(rng.integers(1, 12)), int(rng.integers(1, 5))
    dense = rng.random((n_rows, width)) < 0.4
    matrix = Incidence.from_dense(dense)
    for _ in range(int(rng.integers(0, 5))):
        more = np.zeros((n_rows, width + int(rng.integers(0, 4))), np.bool_)
        is_mixed = rng.random() < 0.3
        first = 0 if is_mixed else width
        more[:, first:] = rng.random((n_rows, more.shape[1] - first)) < rng.choice([0.0, 0.4])
        other = Incidence.from_dense(more)
        matrix = matrix.append(other) if rng.random() < 0.4 and not is_mixed else matrix.join(other)
        wide = np.zeros_like(more)
        wide[:, :width] = dense
        dense, width = wide | more, more.shape[1]
    return dense, matrix


def same(one: Incidence, dense: Bools) -> None:
    whole = Incidence.from_dense(dense)
    assert (one.n_percepts, one.n_features) == dense.shape
    assert np.array_equal(one.indptr, whole.indptr)
    assert np.array_equal(one.indices, whole.indices)
    assert str(one.indptr.dtype) == "int64"
    assert str(one.indices.dtype) == "int32"


@settings(deadline=None, max_examples=150)
@given(seeds)
def test_a_matrix_in_parts_equals_the_dense_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense, matrix = draw(rng)
    n, width = dense.shape
    assert np.array_equal([np.isin(np.arange(width), matrix.row(p)) for p in range(n)], dense)
    rows = rng.integers(0, n, int(rng.integers(0, 9)))
    same(matrix.take(rows), dense[rows])
    wanted = np.asarray(rng.random(width) < 0.5)
    same(matrix.only(wanted), dense & wanted)
    some = np.flatnonzero(wanted)
    assert np.array_equal(matrix.counts([some])[0], dense[:, some].sum(axis=1))
    for lower, higher in zip(matrix.parts, matrix.parts[1:], strict=False):
        assert lower.indices.max(initial=-1) < higher.indices.min(initial=width)
    assert all(type(part) is Incidence and part.n_percepts == n for part in matrix.parts)
    same(matrix, dense)
    same(pickle.loads(pickle.dumps(matrix)), dense)  # noqa: S301 - our own


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(0, 70), st.integers(1, 3))
def test_sets_of_features_are_counted(seed: int, n_sets: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    dense, matrix = draw(rng)
    sets = [np.flatnonzero(rng.random(dense.shape[1]) < 0.4) for _ in range(n_sets)]
    found = matrix.counts(sets, threads=threads)
    assert found.shape == (n_sets, len(dense))
    rows = rng.integers(0, len(dense), int(rng.integers(0, 9)))
    assert np.array_equal(matrix.counts(sets, rows, threads), found[:, rows])
    for one, features in zip(found, sets, strict=True):
        assert np.array_equal(one, dense[:, features].sum(axis=1))


def test_many_features_are_counted_without_an_overflow() -> None:
    matrix = Incidence.from_dense(np.ones((2, 300), np.bool_))
    assert matrix.counts([np.arange(300), np.arange(255)]).tolist() == [[300] * 2, [255] * 2]
    assert matrix.counts([np.arange(255)]).tolist() == [[255] * 2]


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_cooccurrences_are_counted(seed: int, n_given: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    dense, matrix = draw(rng)
    pivot = rng.integers(-1, n_given, len(dense))
    features = rng.integers(0, dense.shape[1], n_given)
    n, n_has, count, both = matrix.cooccurrences(pivot, features, threads)
    for k, feature in enumerate(features):
        members = dense[pivot == k]
        assert (n[k], n_has[k]) == (len(members), members[:, feature].sum())
        assert np.array_equal(count[k], members.sum(axis=0))
        assert np.array_equal(both[k], members[members[:, feature]].sum(axis=0))


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(0, 80))
def test_pairs_may_be_in_any_order_and_repeat(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    percept, feature = rng.integers(0, 5, n), rng.integers(0, 9, n).astype(np.int32)
    dense = np.zeros((5, 9), np.bool_)
    dense[percept, feature] = True
    same(Incidence.from_pairs(percept, feature, 5, 9), dense)


def test_known_features_are_not_copied() -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((50, 40)) < 0.3
    base = matrix = Incidence.from_dense(dense[:, :20])
    for n in range(20, 40):
        alone = dense[:, : n + 1] & (np.arange(n + 1) == n)
        matrix = matrix.join(Incidence.from_dense(alone))
        assert matrix.parts[0] is base
        assert len(matrix.parts) == 2
        same(matrix, dense[:, : n + 1])
    same(matrix.first(25), dense[:, :25])
    assert matrix.first(25).parts[0] is base
    same(matrix.first(7), dense[:, :7])
    assert len(matrix.first(7).parts) == 1  # the other is empty
    candidates = matrix.append(Incidence.from_dense(np.zeros((50, 60), np.bool_)))
    assert isinstance(candidates, StackedIncidence)
    assert candidates.parts[:2] == matrix.parts


@pytest.mark.parametrize("seed", range(3))
def test_the_same_matrix_may_be_joined_to_different_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense, matrix = draw(rng, 7)
    width = dense.shape[1]
    for _ in range(4):
        more = np.zeros((7, width + 2), np.bool_)
        more[:, width:] = rng.random((7, 2)) < 0.5
        expected = more.copy()
        expected[:, :width] |= dense
        one = matrix.join(Incidence.from_dense(more))
        assert np.array_equal(one.counts([np.arange(width + 2)])[0], expected.sum(axis=1))
        same(one, expected)
