"""Typical distances: clusters of the distances between two features.

A clustering is a frozen dataclass with one method. It is given the distances of many pairs of
features at once. To add a custom one, write it, then ``clusterings.register("mine", Mine)``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.cluster import hierarchy

from rlvc._core.arrays import Floats, Ints
from rlvc._core.jit import jit
from rlvc._core.params import Checked, param
from rlvc._core.registry import Registry
from rlvc.features.occurrences import wrap

ROUNDING = 1e-9
LEAST_TURN = 5.0  # degrees; orientations are not more precise than this
LEAST_RATIO = 0.1  # octaves


class Clustering(Protocol):
    """Cluster the numbers of every segment of a list."""

    def cluster(self, begin: Ints, values: Floats) -> Ints:
        """Return the cluster of each number, one column for each way to cluster.

        Args:
            begin: (n_segments + 1,) where each segment begins.
            values: (n,) the numbers, in ascending order in every segment.

        Returns:
            (n, n_ways) labels from 0 up within every segment; -1 for a number in no cluster.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteLinkage(Checked):
    """Hierarchical clustering on a line, cut where 2, 4, 8 … clusters are left.

    The two neighbouring clusters whose union is the shortest are joined first; ties go to those
    with the smallest numbers. On a line, complete linkage only has to compare neighbours, which
    takes microseconds instead of the general algorithm's tenth of a millisecond.

    >>> values = np.array([1.0, 2.0, 3.0, 10.0, 11.0, 30.0])
    >>> CompleteLinkage(levels=2).cluster(np.array([0, 6]), values).T.tolist()
    [[0, 0, 0, 0, 0, 1], [0, 0, 1, 2, 2, 3]]
    """

    levels: int = param(3, "how often the number of clusters doubles, from 2", low=1, high=8)

    def cluster(self, begin: Ints, values: Floats) -> Ints:
        """Return the labels, one column for each level."""
        return _complete(begin, values, self.levels)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tails(Checked):
    """One cluster for each of several cuts: the numbers below it or above it, whichever are fewer.

    The cuts have about the same number of values between them; equal values stay on one side. These
    clusters are not typical distances, but offer many thresholds to choose from, for features that
    move smoothly relative to each other. The other side is the complement, and needs no cluster.

    >>> values = np.array([1.0, 2.0, 3.0, 10.0, 11.0, 30.0])
    >>> Tails(cuts=2).cluster(np.array([0, 6]), values).T.tolist()
    [[0, 0, -1, -1, -1, -1], [-1, -1, -1, -1, 0, 0]]
    """

    cuts: int = param(15, "number of cuts", low=1, high=100)

    def cluster(self, begin: Ints, values: Floats) -> Ints:
        """Return the labels, one column for each cut."""
        return _tails(begin, values, self.cuts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hierarchical(Checked):
    """SciPy's hierarchical clustering, cut at a height."""

    method: str = param(
        "average",
        "distance between two clusters",
        choices=("single", "complete", "average", "centroid", "median", "ward"),
    )
    cut: float = param(20.0, "height at which the tree of clusters is cut, pixels", above=0.0)

    def cluster(self, begin: Ints, values: Floats) -> Ints:
        """Return the labels, one column."""
        labels = np.zeros((len(values), 1), np.int64)
        for first, last in itertools.pairwise(begin.tolist()):
            if last - first > 1:
                tree = hierarchy.linkage(values[first:last, None], self.method)
                found = hierarchy.fcluster(tree, self.cut, "distance")
                labels[first:last, 0] = np.unique(found, return_inverse=True)[1]
        return labels


clusterings: Registry[Clustering] = Registry("clustering")
clusterings.register("complete", CompleteLinkage)
clusterings.register("tails", Tails)
clusterings.register("hierarchical", Hierarchical)


@jit
def _tails(begin: Ints, values: Floats, cuts: int) -> Ints:
    labels = np.full((len(values), cuts), -1, np.int64)
    for s in range(len(begin) - 1):
        first, last = begin[s], begin[s + 1]
        for cut in range(cuts):
            at = first + (last - first) * (cut + 1) // (cuts + 1)
            while first < at < last and values[at] == values[at - 1]:
                at += 1
            if 2 * (at - first) <= last - first:
                labels[first:at, cut] = 0
            else:
                labels[at:last, cut] = 0
    return labels


@jit
def _complete(begin: Ints, values: Floats, levels: int) -> Ints:
    labels = np.zeros((len(values), levels), np.int64)
    longest = 0
    for s in range(len(begin) - 1):
        longest = max(longest, begin[s + 1] - begin[s])
    edge = np.empty(longest + 1, np.int64)  # where the clusters of a segment begin
    for s in range(len(begin) - 1):
        first, m = begin[s], begin[s + 1] - begin[s]
        for i in range(m + 1):
            edge[i] = i
        level = levels - 1
        while m > 0 and level >= 0:
            if m <= 2 << level:
                for c in range(m):
                    for i in range(edge[c], edge[c + 1]):
                        labels[first + i, level] = c
                level -= 1
                continue
            best, shortest = 0, np.inf
            for c in range(m - 1):
                length = values[first + edge[c + 2] - 1] - values[first + edge[c]]
                if length < shortest:
                    best, shortest = c, length
            for c in range(best + 1, m):
                edge[c] = edge[c + 1]
            m -= 1
    return labels


@jit
def fit(
    begin: Ints,
    relation: Floats,
    labels: Ints,
    limit: float,
    least: float,
    use_angle: bool,
    use_scale: bool,
) -> tuple[Ints, Floats]:
    """Return the pair and the parameters of a composite for each cluster of two relations or more.

    Distances and ratios of scales get a mean and a standard deviation; angles, which are circular,
    the angle of the mean vector and √(−2 ln R), where R is its length. A composite that differs
    from another one of the same pair only by rounding is left out.
    """
    pairs = np.empty(256, np.int64)
    rows = np.zeros((256, 7), np.float64)
    n = 0
    n_ways = labels.shape[1]
    for p in range(len(begin) - 1):
        own = n
        for way in range(n_ways):
            n_labels = 0
            for i in range(begin[p], begin[p + 1]):
                n_labels = max(n_labels, labels[i, way] + 1)
            sums = np.zeros((n_labels, 7), np.float64)
            for i in range(begin[p], begin[p + 1]):
                if labels[i, way] < 0:
                    continue
                s = sums[labels[i, way]]
                s[0] += 1.0
                s[1] += relation[i, 0]
                s[2] += relation[i, 0] * relation[i, 0]
                if use_angle:
                    angle = np.deg2rad(relation[i, 1])
                    s[3] += np.cos(angle)
                    s[4] += np.sin(angle)
                if use_scale:
                    s[5] += relation[i, 2]
                    s[6] += relation[i, 2] * relation[i, 2]
            for label in range(n_labels):
                s = sums[label]
                if s[0] < 2.0:
                    continue
                mean = s[1] / s[0]
                deviation = np.sqrt(max(s[2] / s[0] - mean * mean, 0.0))
                if n == len(pairs):
                    pairs = np.concatenate((pairs, np.empty_like(pairs)))
                    rows = np.concatenate((rows, np.zeros_like(rows)))
                row = rows[n]
                row[0], row[1], row[2] = limit, mean, 1.0 / max(deviation, least)
                if use_angle:
                    x, y = s[3] / s[0], s[4] / s[0]
                    size = min(max(np.sqrt(x * x + y * y), 1e-9), 1.0)
                    row[3] = np.rad2deg(np.arctan2(y, x))
                    row[4] = 1.0 / max(np.rad2deg(np.sqrt(-2.0 * np.log(size))), LEAST_TURN)
                if use_scale:
                    row[5] = s[5] / s[0]
                    square = s[6] / s[0] - row[5] * row[5]
                    row[6] = 1.0 / max(np.sqrt(max(square, 0.0)), LEAST_RATIO)
                is_new = True
                for other in range(own, n):
                    if _is_same(rows[other], row):
                        is_new = False
                        break
                if is_new:
                    pairs[n] = p
                    n += 1
    return pairs[:n].copy(), rows[:n].copy()


@jit
def _is_same(one: Floats, other: Floats) -> bool:
    """Tell whether two rows differ only by rounding."""
    for column in range(1, 7):
        difference = one[column] - other[column]
        if column == 3:
            difference = wrap(difference)
        if abs(difference) > ROUNDING:
            return False
    return True
