"""Sums of residuals for every (class, action, feature): the one pass over the incidence matrix.

All that a stage needs is, for every (class, action, feature), the count, the sum and the sum of
squares of the residuals of the interactions whose percept exhibits the feature. They are integers,
so they add up over threads, shards and machines to the same result.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.aliasing import Residuals, variance_of
from rlvc.compiled import chunks, compiled, n_threads, share_threads
from rlvc.incidence import Incidence


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

    def sums(self) -> Groups:
        """Return the sums alone: what a part of the interactions has to say to the others."""
        nothing = np.empty(0, np.int64)
        return Groups(nothing, np.zeros_like(self.begin), self.count, self.total, self.square)


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
    """Sum the residuals of every (group, feature): the one pass over the incidence matrix.

    With ``min_samples`` of 0 no (group, feature) is left out, which is what :func:`merge` adds up.
    """
    rows = percepts[groups.order]
    delta = integers[groups.order]
    n_groups = len(groups.count)
    # Threads get runs of groups with about as many interactions each.
    shares = chunks(len(rows), n_threads(threads))
    cuts = np.searchsorted(groups.begin, [piece.start for piece in shares][1:])
    edges = [0, *cuts.tolist(), n_groups]

    def work(span: tuple[int, int]) -> tuple[NDArray[Any], ...]:
        return _sum_groups(
            groups.begin[span[0] : span[1] + 1], rows, delta, incidence.indptr, incidence.indices,
            incidence.n_features, min_samples,
        )  # fmt: skip

    parts = share_threads(work, list(itertools.pairwise(edges)), threads)
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
    touched = np.empty(n_features + 1, np.uint32)  # one more: the last is written in any case
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
            d2 = d * d
            for i in range(indptr[rows[k]], indptr[rows[k] + 1]):
                f = np.uint32(indices[i])  # unsigned: no check for indices from the end
                met = sums[f, 0]
                touched[n_touched] = f
                n_touched += met == 0  # no branch, which would be guessed wrong
                sums[f, 0] = met + 1
                sums[f, 1] += d
                sums[f, 2] += d2
        first = n
        if n + n_touched > len(feature):
            room = 2 * (n + n_touched)
            longer, wider = np.empty(room, np.int32), np.empty((room, 3), np.int64)
            for i in range(n):  # one by one, as Numba takes seconds to compile a copy of rows
                longer[i] = feature[i]
                wider[i, 0], wider[i, 1], wider[i, 2] = out[i, 0], out[i, 1], out[i, 2]
            feature, out = longer, wider
        for i in range(n_touched):
            f = touched[i]
            if sums[f, 0] >= min_samples and size - sums[f, 0] >= min_samples:
                feature[n] = np.int32(f)
                out[n, 0], out[n, 1], out[n, 2] = sums[f, 0], sums[f, 1], sums[f, 2]
                n += 1
            sums[f, 0], sums[f, 1], sums[f, 2] = 0, 0, 0
        lengths[g] = n - first
    return lengths, feature[:n].copy(), out[:n].copy()


def merge(
    parts: Sequence[tuple[Groups, Candidates]], min_samples: int
) -> tuple[Groups, Candidates]:
    """Add up what several parts of the interactions give, as one pass over all would.

    Args:
        parts: The sums of the same groups on each part, on one grid, with no candidate left out.
        min_samples: Least number of samples on each side, in all.
    """
    count, total, square = (
        np.asarray(np.stack([getattr(groups, name) for groups, _ in parts]).sum(axis=0), np.int64)
        for name in ("count", "total", "square")
    )
    lengths = [len(one.feature) for _, one in parts]
    offsets = np.cumsum([0, *lengths[:-1]])
    begin = np.stack([one.begin for _, one in parts]) + offsets[:, np.newaxis]
    feature = np.concatenate([one.feature for _, one in parts])
    counts, totals, squares = (
        np.concatenate([getattr(one, name) for _, one in parts])
        for name in ("count", "total", "square")
    )
    n_features = int(feature.max(initial=-1)) + 1
    sizes, feature, sums = _merge_groups(
        begin, feature, counts, totals, squares, count, n_features, min_samples
    )
    nothing = np.empty(0, np.int64)
    groups = Groups(nothing, np.zeros(len(count) + 1, np.int64), count, total, square)
    first = np.concatenate([[0], np.cumsum(sizes)])
    return groups, Candidates(first, feature, *np.ascontiguousarray(sums.T))


@compiled
def _merge_groups(
    begin: NDArray[np.int64],
    feature: NDArray[np.int32],
    count: NDArray[np.int64],
    total: NDArray[np.int64],
    square: NDArray[np.int64],
    size: NDArray[np.int64],
    n_features: int,
    min_samples: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    sums = np.zeros((n_features, 3), np.int64)  # count, total, square of the group at hand
    touched = np.empty(n_features + 1, np.int32)
    lengths = np.zeros(len(size), np.int64)
    out_feature = np.empty(len(feature), np.int32)
    out = np.empty((len(feature), 3), np.int64)
    n = 0
    for g in range(len(size)):
        n_touched = 0
        for part in range(len(begin)):
            for i in range(begin[part, g], begin[part, g + 1]):
                f = feature[i]
                touched[n_touched] = f
                n_touched += sums[f, 0] == 0
                sums[f, 0] += count[i]
                sums[f, 1] += total[i]
                sums[f, 2] += square[i]
        first = n
        for k in range(n_touched):
            f = touched[k]
            if sums[f, 0] >= min_samples and size[g] - sums[f, 0] >= min_samples:
                out_feature[n] = f
                out[n, 0], out[n, 1], out[n, 2] = sums[f, 0], sums[f, 1], sums[f, 2]
                n += 1
            sums[f, 0], sums[f, 1], sums[f, 2] = 0, 0, 0
        lengths[g] = n - first
    return lengths, out_feature[:n].copy(), out[:n].copy()


def sides(
    groups: Groups, candidates: Candidates, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.float64], ...]:
    """Return n⊕, n⊖, Σ⊕, Σ⊖, σ⊕², σ⊖² of some candidates."""
    group = np.searchsorted(candidates.begin, chosen, side="right") - 1
    n1, s1, q1 = candidates.count[chosen], candidates.total[chosen], candidates.square[chosen]
    n0, s0 = groups.count[group] - n1, groups.total[group] - s1
    q0 = groups.square[group] - q1
    sides = (n1.astype(float), n0.astype(float), s1.astype(float), s0.astype(float))
    return (*sides, variance_of(n1, s1, q1), variance_of(n0, s0, q0))
