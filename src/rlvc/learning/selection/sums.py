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

from rlvc._core.jit import add_to_row, chunks, jit, n_threads, prefetch, spread_threads
from rlvc.features.incidence import Incidence
from rlvc.learning.aliasing import Residuals, variance_of


@dataclass(frozen=True, slots=True)
class GroupSums:
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

    def sums(self) -> GroupSums:
        """Return the sums alone: what a part of the interactions has to say to the others."""
        nothing = np.empty(0, np.int64)
        return GroupSums(nothing, np.zeros_like(self.begin), self.count, self.total, self.square)


@dataclass(frozen=True, slots=True)
class CandidateSums:
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


def group_interactions(residuals: Residuals, is_aliased: NDArray[np.bool_]) -> GroupSums:
    """Sort the interactions of the aliased classes by (class, action), in order within each."""
    is_wanted = np.repeat(is_aliased, residuals.n_actions)
    sums = residuals.sums()
    count, total, square = (
        np.where(is_wanted, one.ravel(), 0) for one in (sums.count, sums.total, sums.square)
    )
    begin = np.concatenate([[0], np.cumsum(count)])
    is_small = len(residuals.group) < 2**31  # half the memory
    order = np.empty(begin[-1], np.int32 if is_small else np.int64)
    _sort_groups(residuals.group, is_wanted, begin[:-1].copy(), order)
    return GroupSums(order, begin, count, total, square)


@jit
def _sort_groups(
    group: NDArray[np.int64],
    is_wanted: NDArray[np.bool_],
    at: NDArray[np.int64],
    order: NDArray[np.int64],
) -> None:
    for t in range(len(group)):
        g = group[t]
        if is_wanted[g]:
            order[at[g]] = t
            at[g] += 1


def sum_candidates(
    groups: GroupSums,
    integers: NDArray[np.int64],
    percepts: NDArray[np.int64],
    incidence: Incidence,
    min_samples: int,
    threads: int = 1,
) -> CandidateSums:
    """Sum the residuals of every (group, feature): the one pass over the incidence matrix.

    With ``min_samples`` of 0 no (group, feature) is left out, which is what :func:`merge` adds up.
    """
    spans = _spans(groups.begin, n_threads(threads))
    tasks = [(part, span) for part in incidence.parts for span in spans]

    def work(task: tuple[Incidence, tuple[int, int]]) -> tuple[NDArray[Any], ...]:
        part, span = task
        width = part.n_features
        # With more to add up than there are features, all of these are looked through in the end.
        many = width * max(part.n_percepts, 1) / max(len(part.indices), 1)
        return _sum_groups(
            groups.begin[span[0] : span[1] + 1], groups.order, percepts, integers, part.indptr,
            part.indices, np.zeros((width, 4), np.int64), min_samples, many,
        )  # fmt: skip

    found = spread_threads(work, tasks, threads)
    by_part = [
        [np.concatenate(column) for column in zip(*found[i : i + len(spans)], strict=True)]
        for i in range(0, len(found), len(spans))
    ]
    if len(by_part) == 1:
        ((lengths, feature, sums),) = by_part
    else:
        lengths, feature, sums = _by_group(by_part)
    begin = np.concatenate([[0], np.cumsum(lengths)])
    return CandidateSums(begin, feature, *np.ascontiguousarray(sums.T))


PIECES = 4  # of the work for each thread: who is done early takes another one
LEAST = 10_000  # interactions of a piece, if there are more pieces than threads


def _spans(begin: NDArray[np.int64], threads: int) -> list[tuple[int, int]]:
    """Cut groups into runs with about as many interactions each."""
    n = int(begin[-1])
    # Fewer pieces where they are small: to wake a thread takes as long as a thousand interactions.
    pieces = chunks(n, min(PIECES * threads, max(threads, n // LEAST)) if threads > 1 else 1)
    cuts = np.searchsorted(begin, [piece.start for piece in pieces][1:])
    edges = np.unique([0, *cuts.tolist(), len(begin) - 1]).tolist()
    return list(itertools.pairwise(edges)) if len(edges) > 1 else [(0, len(begin) - 1)]


def _by_group(by_part: list[list[NDArray[Any]]]) -> tuple[NDArray[Any], ...]:
    """Return lengths, features and sums group by group, given them part by part."""
    lengths = np.stack([one[0] for one in by_part])
    feature, sums = (np.concatenate([one[i] for one in by_part]) for i in (1, 2))
    begin = np.concatenate([[0], np.cumsum(lengths.ravel())])[:-1].reshape(lengths.shape)
    out = np.empty_like(feature), np.empty_like(sums)
    _copy_groups(begin, lengths, feature, sums, *out)
    return lengths.sum(axis=0), *out


@jit
def _copy_groups(
    begin: NDArray[np.int64],
    lengths: NDArray[np.int64],
    feature: NDArray[np.int32],
    sums: NDArray[np.int64],
    out_feature: NDArray[np.int32],
    out: NDArray[np.int64],
) -> None:
    n = 0
    for g in range(begin.shape[1]):
        for part in range(len(begin)):
            for i in range(begin[part, g], begin[part, g] + lengths[part, g]):
                out_feature[n] = feature[i]
                out[n, 0], out[n, 1], out[n, 2] = sums[i, 0], sums[i, 1], sums[i, 2]
                n += 1


FAR, NEAR, NEXT = 64, 32, 12  # interactions ahead of the one at hand
LINE = 16  # features that the memory brings at a time


@jit
def _sum_groups(
    begin: NDArray[np.int64],
    order: NDArray[np.int64],
    percepts: NDArray[np.int64],
    integers: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    sums: NDArray[np.int64],
    min_samples: int,
    many: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return how many candidates each group has, their features and their sums.

    Args:
        begin: Where each group begins in ``order``.
        order: Interactions, group by group.
        percepts: The percept of each interaction.
        integers: The residual of each.
        indptr: Where the row of each percept begins.
        indices: The features of the percepts.
        sums: (n_features, 4) zeros: room for count, total and square of the group at hand.
        min_samples: Least number of samples on each side.
        many: From how many interactions on a group is taken to show most features.
    """
    width = len(sums)
    touched = np.empty(width + 1, np.uint32)  # one more: the last is written in any case
    lengths = np.zeros(len(begin) - 1, np.int64)
    feature = np.empty(1024, np.int32)
    out = np.empty((1024, 3), np.int64)
    n, end = 0, begin[-1]
    for g in range(len(begin) - 1):
        size = begin[g + 1] - begin[g]
        if size < 2 * min_samples:
            continue
        n_touched = 0
        for k in range(begin[g], begin[g + 1]):
            # Rows that follow each other here do not do so in memory, which takes a hundred times
            # as long to answer as the cache: what is needed next is asked for some rows ahead.
            if k + FAR < end:
                prefetch(percepts, order[k + FAR])
                prefetch(integers, order[k + FAR])
            if k + NEAR < end:
                prefetch(indptr, percepts[order[k + NEAR]])
            if k + NEXT < end:
                row = percepts[order[k + NEXT]]
                for i in range(indptr[row], indptr[row + 1], LINE):
                    prefetch(indices, i)
            d = integers[order[k]]
            d2 = d * d
            row = percepts[order[k]]
            if size >= many:
                for i in range(indptr[row], indptr[row + 1]):
                    add_to_row(sums, np.uint32(indices[i]), 1, d, d2)
            else:
                for i in range(indptr[row], indptr[row + 1]):
                    f = np.uint32(indices[i])  # unsigned: no check for indices from the end
                    touched[n_touched] = f
                    n_touched += sums[f, 0] == 0  # no branch, which would be guessed wrong
                    add_to_row(sums, f, 1, d, d2)
        if size >= many:
            for number in range(width):
                touched[n_touched] = number
                n_touched += sums[number, 0] > 0
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
    parts: Sequence[tuple[GroupSums, CandidateSums]], min_samples: int
) -> tuple[GroupSums, CandidateSums]:
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
    groups = GroupSums(nothing, np.zeros(len(count) + 1, np.int64), count, total, square)
    first = np.concatenate([[0], np.cumsum(sizes)])
    return groups, CandidateSums(first, feature, *np.ascontiguousarray(sums.T))


@jit
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
    groups: GroupSums, candidates: CandidateSums, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.float64], ...]:
    """Return n⊕, n⊖, Σ⊕, Σ⊖, σ⊕², σ⊖² of some candidates."""
    group = np.searchsorted(candidates.begin, chosen, side="right") - 1
    n1, s1, q1 = candidates.count[chosen], candidates.total[chosen], candidates.square[chosen]
    n0, s0 = groups.count[group] - n1, groups.total[group] - s1
    q0 = groups.square[group] - q1
    sides = (n1.astype(float), n0.astype(float), s1.astype(float), s0.astype(float))
    return (*sides, variance_of(n1, s1, q1), variance_of(n0, s0, q0))
