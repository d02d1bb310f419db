"""Pairs of features at typical distances: composites for a class, and the images that exhibit them.

This module finds pairs that often occur together in a sample of the images of a class, makes a
composite of each cluster of their distances, and finds the images that exhibit these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.jit import jit
from rlvc.features.kinds import Composite
from rlvc.features.occurrences import OccurrenceTable, is_likely, relate
from rlvc.learning.generation.class_images import Exhibited, FeatureSearch, scramble
from rlvc.learning.generation.clustering import Clustering, fit
from rlvc.learning.generation.sampling import Sample

if TYPE_CHECKING:
    from rlvc.learning.generation.composites import Composites

TRIES = 8  # pairs measured per pair that is kept; many have the same distance on every image
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Pairs:
    """New composites, as arrays.

    Attributes:
        parts: (n, 2) the features that each is made of.
        pair: (n,) the number of the pair; composites of the same pair follow each other.
        rows: (n, 7) their parameters; see :meth:`rlvc.features.kinds.Composite.parameters`.
        likelihood: ν.
    """

    parts: Ints
    pair: Ints
    rows: Floats
    likelihood: float

    def __len__(self) -> int:
        return len(self.parts)

    @classmethod
    def concatenate(cls, every: Sequence[Pairs]) -> Pairs:
        """Return the composites of several classes."""
        arrays = zip(*((one.parts, one.pair, one.rows) for one in every), strict=True)
        parts, pair, rows = map(np.concatenate, arrays)
        return cls(parts, pair, rows, every[0].likelihood)

    def feature(self, number: int) -> Composite:
        """Return one of them as a feature."""
        first, second = self.parts[number].tolist()
        _, mean, inverse, turn, turn_inverse, ratio, ratio_inverse = self.rows[number].tolist()
        more: dict[str, Any] = {}
        if turn_inverse > 0.0:
            more |= {"turn": turn, "turn_deviation": 1.0 / turn_inverse}
        if ratio_inverse > 0.0:
            more |= {"ratio": ratio, "ratio_deviation": 1.0 / ratio_inverse}
        return Composite(
            first=first, second=second, mean=mean, deviation=1.0 / inverse,
            likelihood=self.likelihood, **more,
        )  # fmt: skip

    def exhibited(self, search: FeatureSearch, span: tuple[int, int]) -> Exhibited:
        """Return which composites of its class each image of some classes exhibits."""
        return _find_composites(search, self.parts, self.pair, self.rows, span)


def compose_pairs(
    config: Composites, sample: Sample, is_part: Bools, span: tuple[int, int]
) -> tuple[list[Pairs], Ints]:
    """Return the composites of each of some classes, and how often each limit was exceeded.

    There is a composite for each cluster of the distances of each pair.

    Args:
        config: The generator.
        sample: The images of each class, of which the first ones are searched.
        is_part: (n_features,) which features may be parts.
        span: The first of the classes to do, and the one after the last.
    """
    limits = Limits(
        float(config.support), config.images, config.features, config.pairs, config.distances,
        4.0 * config.deviation, config.seed % 2**62,
    )  # fmt: skip
    pairs, relation, cut = find_pairs(sample, is_part, limits, span)
    number, parts = pairs[:, 0], np.ascontiguousarray(pairs[:, 1:3])
    begin = np.concatenate([[0], np.cumsum(pairs[:, 3])])
    labels = config.clustering.cluster(begin, np.ascontiguousarray(relation[:, 0]))
    _check_labels(config.clustering, labels, len(relation))
    misfit = -2.0 * math.log(config.likelihood)
    use = config.use_angle, config.use_scale
    pair, rows = fit(begin, relation, labels, misfit, float(config.deviation), *use)
    edges = np.searchsorted(number[pair], np.arange(span[0], span[1] + 1)).tolist()
    made, n_cut = list[Pairs](), 0
    for first, last in itertools.pairwise(edges):
        n_cut += last - first > config.candidates
        some = slice(first, min(last, first + config.candidates))
        made.append(Pairs(parts[pair[some]], pair[some], rows[some], config.likelihood))
    return made, np.append(cut, n_cut)


def _check_labels(clustering: Clustering, labels: Ints, n: int) -> None:
    """Raise a ValueError unless labels are safe for compiled code."""
    is_table = isinstance(labels, np.ndarray) and labels.ndim == 2 and len(labels) == n
    is_right = is_table and labels.dtype == np.int64
    if not is_right or (n and not -1 <= labels.min() <= labels.max() < n):
        raise ValueError(
            f"{type(clustering).__name__}.cluster must return an array of int64 of shape ({n}, "
            f"n_ways) with labels from 0, or -1; got {np.shape(labels)} of "
            f"{getattr(labels, 'dtype', type(labels).__name__)}."
        )


class Limits(NamedTuple):
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

    ``seen`` is a buffer of zeros, one for each feature, and is zeros again on return.
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

    ``both`` is the number of images that show both, at most ``most``; pairs shown by fewer than
    ``need`` are left out, and equally frequent ones are in a random order.
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
    sample: Sample, is_part: Bools, limits: Limits, span: tuple[int, int]
) -> tuple[Ints, Floats, Ints]:
    """Return the pairs of features that occur together on the images of some classes.

    Returns:
        pairs: (n, 4) the number of the class, the two features, and the number of relations.
        relation: (m, 3) distance, turn and ratio, pair by pair, by ascending distance.
        cut: How many classes had more images, more features and more pairs than allowed, and how
            many pairs more distances.
    """
    pairs = np.empty((256, 4), np.int64)
    out = np.empty((4096, 3), np.float64)
    n_pairs, n_values = 0, 0
    cut = np.zeros(4, np.int64)
    first_image, places = sample.begin, sample.places
    n_features = min(limits.features, is_part.sum())
    n_images = 0
    for number in range(span[0], span[1]):
        n_images = max(n_images, min(first_image[number + 1] - first_image[number], limits.images))
    seen = np.zeros(len(is_part), np.int64)
    local = np.full(len(is_part), -1, np.int64)
    start = np.zeros((n_images, n_features), np.int64)
    length = np.zeros((n_images, n_features), np.int64)
    both = np.zeros((n_features, n_features), np.int64)
    here = np.empty(n_features, np.int64)
    one = np.empty((64, 3), np.float64)
    for number in range(span[0], span[1]):
        n = min(first_image[number + 1] - first_image[number], limits.images)
        if n < 2:
            continue
        cut[0] += first_image[number + 1] - first_image[number] > n
        need = max(2, int(np.ceil(limits.support * n - ROUNDING)))
        images = sample.image[first_image[number] : first_image[number] + n]
        frequent = frequent_features(images, places, is_part, need, seen)
        cut[1] += len(frequent) > limits.features
        frequent = np.sort(frequent[: limits.features])
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
        accepted, tries = 0, TRIES * limits.pairs
        codes = _by_count(both, frequent, n, need, tries + 1, limits.seed)
        is_short = len(codes) > tries
        for code in codes[:tries]:
            f, g = code // m, code % m
            total = 0
            for k in range(n):
                total += _n_pairs(length[k, f], length[k, g], f == g)
            wanted = min(total, limits.distances)
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
            if c < 2 or high - low < limits.spread:
                continue  # the same distance on every image: no composite would split the class
            if accepted == limits.pairs:
                is_short = True
                break
            accepted += 1
            cut[3] += total > wanted
            if n_pairs == len(pairs):
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            while n_values + c > len(out):
                out = np.concatenate((out, np.empty_like(out)))
            order = np.argsort(one[:c, 0], kind="mergesort")
            for v in range(c):
                for column in range(3):
                    out[n_values + v, column] = one[order[v], column]
            pair = pairs[n_pairs]
            pair[0], pair[1], pair[2], pair[3] = number, frequent[f], frequent[g], c
            n_values += c
            n_pairs += 1
        cut[2] += is_short
    return pairs[:n_pairs].copy(), out[:n_values].copy(), cut


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
def _find_composites(
    search: FeatureSearch, parts: Ints, pair: Ints, rows: Floats, span: tuple[int, int]
) -> Exhibited:
    """Return how many composites of its class each image of some classes exhibits, and which.

    For the arrays see :class:`Pairs`.
    """
    images, places, n_features, made = search
    begin, feature, marks = places.begin, places.feature, places.marks
    base = images.begin[span[0]]
    count = np.zeros(images.begin[span[1]] - base, np.int64)
    out = np.empty(65536, np.int32)
    n = 0
    start = np.zeros(n_features, np.int64)
    length = np.zeros(n_features, np.int64)
    is_there = np.zeros(np.bincount(pair).max() if len(pair) else 0, np.bool_)
    for number in range(span[0], span[1]):
        made_first, made_last = made[number], made[number + 1]
        if made_first == made_last:
            continue
        for at in range(images.begin[number], images.begin[number + 1]):
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
