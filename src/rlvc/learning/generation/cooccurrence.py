"""The compiled half of ``pairs.py``: which features occur together, how far apart, and where.

A *job* is an aliased class as one camera sees it; see ``class_images.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.jit import jit
from rlvc.features.occurrences import OccurrenceTable, is_likely, relate
from rlvc.learning.generation.class_images import ClassImages, Shown, scramble
from rlvc.learning.generation.sampling import Sample

TRIES = 8  # pairs that are measured for one that is kept: many are as far apart on every image
ROUNDING = 1e-9


class Caps(NamedTuple):
    """How much of a class is searched for pairs; see :class:`Composites`."""

    support: float
    images: int
    features: int
    pairs: int
    distances: int
    spread: float
    seed: int


@jit
def frequent_features(
    images: Ints, places: OccurrenceTable, is_part: Bools, need: int, seen: Ints
) -> Ints:
    """Return the features that at least ``need`` images show, most frequent first.

    ``seen`` holds zeros, one for each feature, and does so again afterwards.
    """
    known = np.empty(64, np.int64)
    n = 0
    for image in images:
        last = -1
        for i in range(places.begin[image], places.begin[image + 1]):
            f = places.feature[i]
            if f != last and is_part[f]:
                if seen[f] == 0:
                    if n == len(known):
                        known = np.concatenate((known, np.empty_like(known)))
                    known[n] = f
                    n += 1
                seen[f] += 1
            last = f
    keys = np.empty(n, np.int64)
    m = 0
    for i in range(n):
        f = known[i]
        if seen[f] >= need:
            keys[m] = (np.int64(len(images) - seen[f]) << 40) + f
            m += 1
    frequent = np.sort(keys[:m]) & ((np.int64(1) << 40) - 1)
    for i in range(n):
        seen[known[i]] = 0
    return frequent


@jit
def _by_count(both: Ints, names: Ints, most: int, need: int, wanted: int, seed: int) -> Ints:
    """Return about as many pairs of features as wanted, most frequent first.

    ``both`` is the number of images that show both, at most ``most``; pairs shown by less than
    ``need`` are left out, and equally frequent ones are in an order drawn by the seed.
    """
    m = len(names)
    count = np.zeros(most + 2, np.int64)
    for i in range(m):
        for j in range(i, m):
            count[both[i, j]] += 1
    floor, total = most + 1, 0
    while floor > need and total < wanted:
        floor -= 1
        total += count[floor]
    keys = np.empty(total, np.int64)
    codes = np.empty(total, np.int64)
    n = 0
    for i in range(m):
        for j in range(i, m):
            if both[i, j] >= floor:
                rare = np.int64(most - both[i, j]) << 31
                keys[n] = rare + scramble(names[i], names[j], seed)
                codes[n] = i * m + j
                n += 1
    return codes[np.argsort(keys[:n], kind="mergesort")]


@jit
def find_pairs(
    sample: Sample, is_part: Bools, caps: Caps, span: tuple[int, int]
) -> tuple[Ints, Ints, Ints, Floats, Ints]:
    """Return the pairs of features that occur together on the images of some jobs.

    Returns:
        job: (n,) the job of each pair.
        parts: (n, 2) its features.
        count: (n,) how many relations it has.
        relation: (m, 3) distance, turn and ratio, pair by pair, by ascending distance.
        cut: How many jobs had more images, more features and more pairs than are allowed, and how
            many pairs more distances.
    """
    out_job = np.empty(256, np.int64)
    out_parts = np.empty((256, 2), np.int64)
    out_count = np.empty(256, np.int64)
    out = np.empty((4096, 3), np.float64)
    n_pairs, n_values = 0, 0
    cut = np.zeros(4, np.int64)
    job_begin, places = sample.begin, sample.places
    n_features = min(caps.features, is_part.sum())
    n_images = 0
    for job in range(span[0], span[1]):
        n_images = max(n_images, min(job_begin[job + 1] - job_begin[job], caps.images))
    seen = np.zeros(len(is_part), np.int64)
    local = np.full(len(is_part), -1, np.int64)
    start = np.zeros((n_images, n_features), np.int64)
    length = np.zeros((n_images, n_features), np.int64)
    both = np.zeros((n_features, n_features), np.int64)
    here = np.empty(n_features, np.int64)
    one = np.empty((64, 3), np.float64)
    for job in range(span[0], span[1]):
        n = min(job_begin[job + 1] - job_begin[job], caps.images)
        if n < 2:
            continue
        cut[0] += job_begin[job + 1] - job_begin[job] > n
        need = max(2, int(np.ceil(caps.support * n - ROUNDING)))
        images = sample.image[job_begin[job] : job_begin[job] + n]
        frequent = frequent_features(images, places, is_part, need, seen)
        cut[1] += len(frequent) > caps.features
        frequent = np.sort(frequent[: caps.features])
        m = len(frequent)
        for i in range(m):
            local[frequent[i]] = i
        length[:n, :m] = 0
        both[:m, :m] = 0
        for k in range(n):
            n_here = 0
            for i in range(places.begin[images[k]], places.begin[images[k] + 1]):
                f = local[places.feature[i]]
                if f < 0:
                    continue
                if length[k, f] == 0:
                    start[k, f] = i
                    here[n_here] = f
                    n_here += 1
                length[k, f] += 1
            for i in range(n_here):
                both[here[i], here[i]] += length[k, here[i]] > 1
                for j in range(i + 1, n_here):
                    both[here[i], here[j]] += 1
        for i in range(m):
            local[frequent[i]] = -1
        accepted, tries = 0, TRIES * caps.pairs
        codes = _by_count(both, frequent, n, need, tries + 1, caps.seed)
        is_short = len(codes) > tries
        for code in codes[:tries]:
            f, g = code // m, code % m
            total = 0
            for k in range(n):
                total += _n_pairs(length[k, f], length[k, g], f == g)
            wanted = min(total, caps.distances)
            while wanted > len(one):
                one = np.concatenate((one, np.empty_like(one)))
            c, past, low, high = 0, 0, np.inf, -np.inf
            for k in range(n):
                more = _n_pairs(length[k, f], length[k, g], f == g)
                while c < wanted and c * total // wanted < past + more:  # every image has its share
                    a, b = _nth_pair(c * total // wanted - past, length[k, f], length[k, g], f == g)
                    i, j = start[k, f] + a, start[k, g] + b
                    one[c, 0], one[c, 1], one[c, 2] = relate(places.marks, i, places.marks, j)
                    low, high = min(low, one[c, 0]), max(high, one[c, 0])
                    c += 1
                past += more
            if c < 2 or high - low < caps.spread:
                continue  # as far apart on every image: no composite would split the class
            if accepted == caps.pairs:
                is_short = True
                break
            accepted += 1
            cut[3] += total > wanted
            if n_pairs == len(out_job):
                out_job = np.concatenate((out_job, np.empty_like(out_job)))
                out_parts = np.concatenate((out_parts, np.empty_like(out_parts)))
                out_count = np.concatenate((out_count, np.empty_like(out_count)))
            while n_values + c > len(out):
                out = np.concatenate((out, np.empty_like(out)))
            order = np.argsort(one[:c, 0], kind="mergesort")
            for v in range(c):
                for column in range(3):
                    out[n_values + v, column] = one[order[v], column]
            out_job[n_pairs], out_count[n_pairs] = job, c
            out_parts[n_pairs, 0], out_parts[n_pairs, 1] = frequent[f], frequent[g]
            n_values += c
            n_pairs += 1
        cut[2] += is_short
    return (
        out_job[:n_pairs].copy(), out_parts[:n_pairs].copy(), out_count[:n_pairs].copy(),
        out[:n_values].copy(), cut,
    )  # fmt: skip


@jit
def _n_pairs(n: int, m: int, is_one: bool) -> int:
    """Return how many pairs n and m occurrences make, or n occurrences of one feature."""
    return n * (n - 1) // 2 if is_one else n * m


@jit
def _nth_pair(number: int, n: int, m: int, is_one: bool) -> tuple[int, int]:
    """Return the two occurrences of one of these pairs."""
    if not is_one:
        return number // m, number % m
    first = 0
    while number >= n - 1 - first:
        number -= n - 1 - first
        first += 1
    return first, first + 1 + number


@jit
def exhibited(
    images: ClassImages,
    places: OccurrenceTable,
    parts: Ints,
    pair: Ints,
    rows: Floats,
    made: Ints,
    n_features: int,
    span: tuple[int, int],
) -> Shown:
    """Return how many composites of its job each image of some jobs exhibits, and which.

    The composites of each job begin at ``made``; see :class:`rlvc.learning.generation.pairs.Pairs`.
    """
    begin, feature, marks = places.begin, places.feature, places.marks
    base = images.begin[span[0]]
    count = np.zeros(images.begin[span[1]] - base, np.int64)
    out = np.empty(65536, np.int32)
    n = 0
    start = np.zeros(n_features, np.int64)
    length = np.zeros(n_features, np.int64)
    is_there = np.zeros(np.bincount(pair).max() if len(pair) else 0, np.bool_)
    for job in range(span[0], span[1]):
        made_first, made_last = made[job], made[job + 1]
        if made_first == made_last:
            continue
        for at in range(images.begin[job], images.begin[job + 1]):
            image = images.image[at]
            for i in range(begin[image], begin[image + 1]):
                f = feature[i]
                if length[f] == 0:
                    start[f] = i
                length[f] += 1
            if n + made_last - made_first >= len(out):  # one more: the last is written in any case
                out = np.concatenate((out, np.empty(len(out) + made_last - made_first, np.int32)))
            before, c = n, made_first
            while c < made_last:
                end = c + 1
                while end < made_last and pair[end] == pair[c]:
                    end += 1
                f, g = parts[c, 0], parts[c, 1]
                is_there[: end - c] = False
                n_there = 0
                for i in range(start[f], start[f] + length[f]):
                    for j in range(start[g], start[g] + length[g]):
                        distance, turn, ratio = relate(marks, i, marks, j)
                        for one in range(end - c):
                            if not is_there[one] and is_likely(
                                distance, turn, ratio, rows[c + one]
                            ):
                                is_there[one] = True
                                n_there += 1
                        if n_there == end - c:
                            break
                    if n_there == end - c:
                        break
                for one in range(end - c):
                    out[n] = c + one - made_first
                    n += is_there[one]
                c = end
            count[at - base] = n - before
            for i in range(begin[image], begin[image + 1]):
                length[feature[i]] = 0
    return count, out[:n].copy()
