"""Sums of residuals for every (class, action, feature): the one pass over the incidence matrix.

For every (class, action, feature), a stage needs the count, the sum and the sum of squares of the
residuals of the interactions whose percept exhibits the feature. They are integers, so their sums
over threads, shards and machines are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Floats, Ints, Ints32, Rows
from rlvc._core.jit import add_to_row, jit, n_threads, prefetch, spans_of, spread_threads
from rlvc.features.incidence import Incidence
from rlvc.learning.aliasing import variance_of

if TYPE_CHECKING:
    from rlvc.learning.selection.selector import Samples


class GroupSums(NamedTuple):
    """The sums of the residuals of every (class, action); 0 for classes that are not searched.

    Attributes:
        n: (n_groups,) interactions in the group.
        total: (n_groups,) their sum of residuals.
        square: (n_groups,) their sum of squared residuals.
    """

    n: Ints
    total: Ints
    square: Ints


class CandidateSums(NamedTuple):
    """The sums of every (group, feature) with enough samples on both sides.

    Attributes:
        begin: (n_groups + 1,) where the candidates of each group begin in the arrays below.
        feature: The feature, in no particular order within a group.
        n: Interactions of the group whose percept exhibits it, |S⊕|.
        total: Their sum of residuals.
        square: Their sum of squared residuals.
    """

    begin: Ints
    feature: Ints32
    n: Ints
    total: Ints
    square: Ints

    @property
    def group(self) -> Ints:
        """The group of each candidate."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))


def group_interactions(samples: Samples) -> tuple[GroupSums, Ints]:
    """Sort the interactions of the aliased classes by (class, action), stably.

    Returns:
        groups: The sums of each group.
        order: (N′,) the interactions, group by group.
    """
    residuals, sums = samples.residuals, samples.residuals.sums
    is_wanted = np.repeat(samples.is_aliased, residuals.q.shape[1])
    columns = (sums.count, sums.total, sums.square)
    groups = GroupSums(*(np.where(is_wanted, column.ravel(), 0) for column in columns))
    begin = _offsets(groups.n)
    is_small = len(residuals.group) < 2**31  # half the memory
    order = np.empty(begin[-1], np.int32 if is_small else np.int64)
    _sort_groups(residuals.group, is_wanted, begin[:-1].copy(), order)
    return groups, order


def _offsets(lengths: Ints) -> Ints:
    """Return where each of several runs begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)])


@jit
def _sort_groups(group: Ints, is_wanted: Bools, at: Ints, order: Ints) -> None:
    for t in range(len(group)):
        g = group[t]
        if is_wanted[g]:
            order[at[g]] = t
            at[g] += 1


def sum_candidates(
    groups: GroupSums, order: Ints, samples: Samples, min_samples: int
) -> CandidateSums:
    """Sum the residuals of every (group, feature): the one pass over the incidence matrix.

    If ``min_samples`` is 0, no (group, feature) is left out, as :func:`merge` requires.
    """
    begin, threads = _offsets(groups.n), n_threads(samples.threads)
    # Fewer pieces if they are small: waking a thread takes as long as a thousand interactions.
    n_pieces = min(PIECES * threads, max(threads, int(begin[-1]) // LEAST)) if threads > 1 else 1
    spans = spans_of(begin, n_pieces)
    tasks = [(part, span) for part in samples.incidence.parts for span in spans]

    def work(task: tuple[Incidence, tuple[int, int]]) -> tuple[NDArray[Any], ...]:
        part, span = task
        width = part.n_features
        # With more additions than features, scanning all features is faster than listing some.
        many = width * max(part.n_percepts, 1) / max(len(part.indices), 1)
        return _sum_groups(
            begin[span[0] : span[1] + 1], order, samples.percepts, samples.residuals.integers,
            part.rows, np.zeros((width, 4), np.int64), min_samples, many,
        )  # fmt: skip

    found = spread_threads(work, tasks, threads)
    by_part = []
    for i in range(0, len(found), len(spans)):
        columns = zip(*found[i : i + len(spans)], strict=True)
        lengths, feature, sums = (np.concatenate(column) for column in columns)
        by_part.append(CandidateSums(_offsets(lengths), feature, *np.ascontiguousarray(sums.T)))
    return by_part[0] if len(by_part) == 1 else _interleave(by_part)


PIECES = 4  # pieces of work for each thread, so that all threads finish at about the same time
LEAST = 10_000  # minimum interactions in a piece, if there are more pieces than threads


FAR, NEAR, NEXT = 64, 32, 12  # interactions ahead of the current one
LINE = 16  # features in a line of the cache


@jit
def _sum_groups(
    begin: Ints,
    order: Ints,
    percepts: Ints,
    integers: Ints,
    rows: Rows,
    sums: Ints,
    min_samples: int,
    many: float,
) -> tuple[Ints, Ints32, Ints]:
    """Return how many candidates each group has, their features and their sums.

    Args:
        begin: Where each group begins in ``order``.
        order: Interactions, group by group.
        percepts: The percept of each interaction.
        integers: The residual of each.
        rows: Where the row of each percept begins, and the features in it.
        sums: (n_features, 4) a buffer of zeros, for count, total and square of the current group.
        min_samples: Minimum number of samples on each side.
        many: The size of a group from which on all features are scanned for those it exhibits.
    """
    indptr, indices = rows
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
            # Consecutive rows are far apart in memory, which is a hundred times as slow as the
            # cache, so they are prefetched.
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


def merge(parts: Sequence[CandidateSums], size: Ints, min_samples: int) -> CandidateSums:
    """Add up the sums of several parts of the interactions.

    Args:
        parts: The sums of the same groups, without a minimum number of samples.
        size: (n_groups,) the total number of interactions of each group.
        min_samples: Minimum total number of samples on each side.
    """
    lengths, feature, sums = _merge_groups(*_concatenate(parts), size, min_samples)
    return CandidateSums(_offsets(lengths), feature, *sums)


def _interleave(parts: Sequence[CandidateSums]) -> CandidateSums:
    """Join the sums of several parts of the features, group by group."""
    begins, every = _concatenate(parts)
    feature, sums = _group_by_group(begins, every)
    return CandidateSums(_offsets(np.diff(begins).sum(axis=0)), feature, *sums)


@jit
def _group_by_group(begins: Ints, every: CandidateSums) -> tuple[Ints32, Ints]:
    """Return the features and the sums of candidates, sorted by group."""
    feature, out, n = np.empty_like(every.feature), np.empty((3, len(every.n)), np.int64), 0
    for g in range(begins.shape[1] - 1):
        for part in range(len(begins)):
            for i in range(begins[part, g], begins[part, g + 1]):
                feature[n] = every.feature[i]
                out[0, n], out[1, n], out[2, n] = every.n[i], every.total[i], every.square[i]
                n += 1
    return feature, out


def _concatenate(parts: Sequence[CandidateSums]) -> tuple[Ints, CandidateSums]:
    """Return where the groups of each part begin, and the candidates of all parts."""
    offsets = _offsets(np.array([len(one.feature) for one in parts]))[:-1]
    begins = np.stack([one.begin for one in parts]) + offsets[:, np.newaxis]
    columns = (np.concatenate(column) for column in zip(*(one[1:] for one in parts), strict=True))
    return begins, CandidateSums(offsets, *columns)


@jit
def _merge_groups(
    begin: Ints, every: CandidateSums, size: Ints, min_samples: int
) -> tuple[Ints, Ints32, Ints]:
    n_features = every.feature.max() + 1 if len(every.feature) else 0
    sums = np.zeros((n_features, 3), np.int64)  # count, total, square of the current group
    touched = np.empty(n_features + 1, np.int32)
    lengths = np.zeros(len(size), np.int64)
    feature = np.empty(len(every.feature), np.int32)
    out = np.empty((3, len(feature)), np.int64)
    n = 0
    for g in range(len(size)):
        n_touched = 0
        for part in range(len(begin)):
            for i in range(begin[part, g], begin[part, g + 1]):
                f = every.feature[i]
                touched[n_touched] = f
                n_touched += sums[f, 0] == 0
                sums[f, 0] += every.n[i]
                sums[f, 1] += every.total[i]
                sums[f, 2] += every.square[i]
        first = n
        for k in range(n_touched):
            f = touched[k]
            if sums[f, 0] >= min_samples and size[g] - sums[f, 0] >= min_samples:
                feature[n] = f
                out[0, n], out[1, n], out[2, n] = sums[f, 0], sums[f, 1], sums[f, 2]
                n += 1
            sums[f, 0], sums[f, 1], sums[f, 2] = 0, 0, 0
        lengths[g] = n - first
    return lengths, feature[:n].copy(), out[:, :n].copy()


def sides(groups: GroupSums, candidates: CandidateSums, chosen: Ints) -> tuple[Floats, ...]:
    """Return n⊕, n⊖, Σ⊕, Σ⊖, σ⊕², σ⊖² of some candidates."""
    group = np.searchsorted(candidates.begin, chosen, side="right") - 1
    n1, s1, q1 = candidates.n[chosen], candidates.total[chosen], candidates.square[chosen]
    n0, s0 = groups.n[group] - n1, groups.total[group] - s1
    q0 = groups.square[group] - q1
    sides = (n1.astype(float), n0.astype(float), s1.astype(float), s0.astype(float))
    return (*sides, variance_of(n1, s1, q1), variance_of(n0, s0, q0))
