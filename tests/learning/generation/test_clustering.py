from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster import hierarchy

from rlvc.learning.generation.clustering import (
    Clustering,
    CompleteLinkage,
    Hierarchical,
    Tails,
    clusterings,
)

EVERY = pytest.mark.parametrize("name", list(clusterings))
seeds = st.integers(0, 2**32 - 1)


def of(values: Any, clustering: Clustering) -> NDArray[np.int64]:
    """Return the labels of one list of numbers."""
    values = np.sort(np.asarray(values, np.float64))
    return clustering.cluster(np.array([0, len(values)]), values)


def draw_segments(seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw lists of numbers, some of them empty, some with numbers that are equal."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([0, 1, 2, 3, 5, 9, 20, 40], rng.integers(1, 9))
    parts = []
    for n in lengths.tolist():
        values = rng.uniform(0.0, 200.0, n)
        parts.append(np.sort(np.round(values / 8) if rng.random() < 0.3 else values))
    return np.cumsum([0, *lengths]), np.concatenate(parts)


# Of every clustering -----------------------------------------------------------------------------


@EVERY
@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_a_cluster_is_a_run_of_numbers(name: str, seed: int) -> None:
    begin, values = draw_segments(seed)
    labels = clusterings.make(name).cluster(begin, values)
    for first, last in itertools.pairwise(begin.tolist()):
        for column in labels[first:last].T.tolist():
            runs = [label for label, _ in itertools.groupby(column) if label >= 0]
            assert len(runs) == len(set(runs))


@EVERY
def test_nothing_has_no_cluster(name: str) -> None:
    clustering = clusterings.make(name)
    ways = of([1.0, 2.0], clustering).shape[1]
    assert of([], clustering).shape == (0, ways)
    assert clustering.cluster(np.array([0]), np.empty(0)).shape == (0, ways)
    assert clustering.cluster(np.array([0, 0, 0]), np.empty(0)).shape == (0, ways)


@EVERY
def test_one_number_is_a_cluster_or_none(name: str) -> None:
    labels = of([7.0], clusterings.make(name))
    assert labels.shape[0] == 1
    assert set(labels.ravel().tolist()) <= {-1, 0}


@EVERY
@pytest.mark.parametrize("n", [2, 3, 40])
def test_equal_numbers_are_no_trouble(name: str, n: int) -> None:
    labels = of(np.full(n, 12.5), clusterings.make(name))
    assert len(labels) == n
    for column in labels.T.tolist():
        clusters = set(column) - {-1}
        assert clusters == set(range(len(clusters)))


@EVERY
def test_numbers_far_apart_get_different_labels(name: str) -> None:
    labels = of([10.0, 11.0, 12.0, 500.0, 502.0], clusterings.make(name))
    assert any(
        len(set(way[:3].tolist())) == len(set(way[3:].tolist())) == 1 and way[0] != way[-1]
        for way in labels.T
    )


@settings(deadline=None, max_examples=100)
@given(seed=seeds, cuts=st.integers(1, 20))
def test_a_tail_is_the_shorter_side_of_a_cut(seed: int, cuts: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.sort(rng.integers(0, 12, int(rng.integers(1, 40))).astype(float))
    labels = of(values, Tails(cuts=cuts))
    n = len(values)
    for cut, way in enumerate(labels.T):
        inside = way == 0
        assert (way[~inside] == -1).all()
        assert 2 * inside.sum() <= n
        for number in set(values.tolist()):
            assert len(set(way[values == number].tolist())) == 1
        # Where no numbers are equal the cut is where as many numbers lie below as its share says.
        if len(set(values.tolist())) == n:
            below = n * (cut + 1) // (cuts + 1)
            assert inside.tolist() == [(i < below) == (2 * below <= n) for i in range(n)]


# Complete linkage --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(seed=seeds, n=st.integers(2, 60), levels=st.integers(1, 5))
def test_complete_linkage_is_that_of_scipy(seed: int, n: int, levels: int) -> None:
    values = np.sort(np.random.default_rng(seed).uniform(0.0, 100.0, n))
    labels = of(values, CompleteLinkage(levels=levels))
    assert labels.shape == (n, levels)
    tree = hierarchy.linkage(values[:, None], "complete")
    for level in range(levels):
        expected = hierarchy.fcluster(tree, 2 ** (level + 1), "maxclust")
        assert same_partition(labels[:, level].tolist(), expected.tolist())
        assert labels[-1, level] + 1 == min(n, 2 ** (level + 1))
        assert (np.diff(labels[:, level]) >= 0).all()


def same_partition(one: list[int], other: list[int]) -> bool:
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


@settings(deadline=None, max_examples=100)
@given(numbers=st.lists(st.integers(0, 12), min_size=1, max_size=20), levels=st.integers(1, 4))
def test_ties_go_to_the_smallest_numbers(numbers: list[int], levels: int) -> None:
    ordered = sorted(numbers)
    labels = of(ordered, CompleteLinkage(levels=levels))
    groups = [[n] for n in ordered]
    for level in reversed(range(levels)):
        while len(groups) > 2 ** (level + 1):
            _, i = min((groups[i + 1][-1] - groups[i][0], i) for i in range(len(groups) - 1))
            groups[i : i + 2] = [groups[i] + groups[i + 1]]
        expected = [label for label, group in enumerate(groups) for _ in group]
        assert labels[:, level].tolist() == expected


# SciPy's own -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["single", "complete", "average", "centroid", "median", "ward"])
def test_the_tree_is_cut_at_a_height(method: str) -> None:
    values = [0.0, 1.0, 20.0, 21.0, 22.5, 90.0]
    for cut, n_clusters in ((0.5, 6), (5.0, 3), (1000.0, 1)):
        labels = of(values, Hierarchical(method=method, cut=cut))
        assert len(set(labels[:, 0].tolist())) == n_clusters
