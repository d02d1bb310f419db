"""New features for classes that no known feature splits: pairs of features, and places.

The paper's Algorithm 6: count which features occur together in the percepts of a class, take the
pairs that often do, cluster their distances, and make of each cluster a composite feature. All
classes of a stage are done together, on arrays.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlvc.clustering import Clustering, CompleteLinkage
from rlvc.compiled import chunks, compiled, n_threads, share_threads
from rlvc.features import Composite, Feature, Row, is_likely, relate
from rlvc.generation import Candidates, generators
from rlvc.incidence import Incidence
from rlvc.parameters import check, param
from rlvc.sightings import Places, Sightings

log = logging.getLogger(__name__)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Jobs(NamedTuple):
    """The images that the percepts of some classes have of one camera.

    Attributes:
        begin: (n_classes + 1,) where the images of each class begin.
        image: (n,) the images of a class, each once, in an order drawn by the seed.
        row: (n_percepts,) where a percept's image stands in ``image``; n for other classes.
    """

    begin: Ints
    image: Ints
    row: Ints


class Pairs(NamedTuple):
    """Pairs of features that occur together, and how they stand to each other.

    Attributes:
        job: (n,) the class.
        parts: (n, 2) the features.
        begin: (n + 1,) where the relations of each pair begin.
        relation: (m, 3) distance, turn and ratio of its occurrences, by ascending distance.
        n_cut: How many classes had more features, more pairs, and how many pairs more distances
            than are allowed.
    """

    job: Ints
    parts: Ints
    begin: Ints
    relation: Floats
    n_cut: Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class Composites:
    """Pairs of features at typical distances, when no known feature splits a class."""

    clustering: Clustering = field(default_factory=CompleteLinkage)
    together: bool = param(False, "offer new features together with the known ones")
    likelihood: float = param(
        0.2, "least likelihood of a distance, of the most likely one's (ν)", above=0.0, below=1.0
    )
    deviation: float = param(1.0, "least standard deviation of a distance, pixels", above=0.0)
    support: float = param(
        0.2, "share of the class's images that must show both features", low=0.0, high=1.0
    )
    height: int = param(2, "greatest height of a composite", low=1)
    use_angle: bool = param(False, "ask for a typical angle between orientations as well")
    use_scale: bool = param(False, "ask for a typical ratio of scales as well")
    images: int = param(64, "most images of a class that are looked at for pairs", low=2)
    features: int = param(64, "most features of a class that are paired, the most frequent", low=2)
    pairs: int = param(32, "most pairs of a class, most frequent first", low=1)
    distances: int = param(64, "most distances of a pair", low=2)
    candidates: int = param(1000, "most new candidates of a class and camera", low=1)
    seed: int = param(0, "of what is looked at where there is more than allowed", low=0)

    def __post_init__(self) -> None:
        check(self)

    def generate(
        self,
        sightings: Sightings,
        classes: Ints,
        is_aliased: NDArray[np.bool_],
        attempt: int,
        threads: int = 1,
    ) -> Candidates | None:
        """Return the features of the graph, then new ones for what these do not split."""
        known = Candidates(sightings.incidence)
        if attempt == 0 and not self.together:
            return known
        if attempt > (0 if self.together else 1):
            return None
        wanted = np.flatnonzero(is_aliased)
        if len(wanted) == 0:
            return known if attempt == 0 else None
        new = self._compose(sightings, classes, wanted, threads)
        if attempt == 0:
            return Candidates(known.incidence.join(new.incidence), new.new)
        return new

    def _compose(
        self, sightings: Sightings, classes: Ints, wanted: Ints, threads: int
    ) -> Candidates:
        graph = sightings.graph
        is_part = np.asarray(graph.height, np.int64) < self.height
        rows: list[Incidence] = []
        new: list[Sequence[Feature]] = []
        cut = np.zeros(4, np.int64)
        n = len(graph)
        for camera, places in enumerate(sightings.places):
            jobs = self._jobs(sightings.table[:, camera], classes, wanted, places.n_images)
            pairs = self._pairs(jobs, places, is_part, threads)
            made, n_cut = self._cluster(pairs, len(wanted))
            cut += [*pairs.n_cut, n_cut]
            found = _exhibited(jobs, places, made, len(is_part), threads)
            rows.append(found.take(jobs.row).shift(n))
            new.append(made)
            n += len(made)
        for number, what in zip(cut.tolist(), _CAPS, strict=True):
            if number:
                log.info("%d %s", number, what)
        incidence = rows[0]
        for other in rows[1:]:
            incidence = incidence.join(other)
        incidence = Incidence(incidence.indptr, incidence.indices, n)
        return Candidates(incidence, Many(new))

    def _jobs(self, image_of: Ints, classes: Ints, wanted: Ints, n_images: int) -> Jobs:
        job_of = np.full(max(int(classes.max()), int(wanted.max())) + 1, -1, np.int64)
        job_of[wanted] = np.arange(len(wanted))
        job = job_of[classes]
        inside = np.flatnonzero(job >= 0)
        # Images are taken in an order of their own, so that the first few are a fair sample.
        order = np.random.default_rng(self.seed).permutation(n_images)
        rank = np.empty(n_images, np.int64)
        rank[order] = np.arange(n_images)
        key, inverse = np.unique(
            job[inside] * n_images + rank[image_of[inside]], return_inverse=True
        )
        row = np.full(len(classes), len(key), np.int64)
        row[inside] = inverse
        begin = np.searchsorted(key, np.arange(len(wanted) + 1) * n_images)
        return Jobs(begin, order[key % n_images], row)

    def _pairs(self, jobs: Jobs, places: Places, is_part: NDArray[np.bool_], threads: int) -> Pairs:
        def work(span: slice) -> tuple[NDArray[Any], ...]:
            return _find_pairs(
                span.start, span.stop, jobs.begin, jobs.image, places.begin, places.feature,
                places.marks, is_part, self.support, self.images, self.features, self.pairs,
                self.distances, 4.0 * self.deviation, self.seed,
            )  # fmt: skip

        parts = share_threads(work, _shares(jobs.begin, threads), threads)
        job, pair, count, relation, cut = (np.concatenate(p) for p in zip(*parts, strict=True))
        begin = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        return Pairs(job, pair, begin, relation, cut.reshape(-1, 3).sum(axis=0))

    def _cluster(self, pairs: Pairs, n_jobs: int) -> tuple[Made, int]:
        """Return a composite for every cluster of every pair, and how many classes had too many."""
        labels = self.clustering.cluster(pairs.begin, np.ascontiguousarray(pairs.relation[:, 0]))
        n_pairs = len(pairs.job)
        pair = np.repeat(np.arange(n_pairs), np.diff(pairs.begin))
        width = int(labels.max(initial=0)) + 1
        ways = labels.shape[1]
        key = (pair[:, None] * ways + np.arange(ways)) * width + labels
        size = n_pairs * ways * width
        fits = [_gaussian(key, pairs.relation[:, 0], size, self.deviation)]
        if self.use_angle:
            fits.append(_circular(key, pairs.relation[:, 1], size))
        if self.use_scale:
            fits.append(_gaussian(key, pairs.relation[:, 2], size, 0.1))
        cluster = np.flatnonzero(np.bincount(key.ravel(), minlength=size))
        of = cluster // (ways * width)
        job = pairs.job[of]
        place = np.arange(len(job)) - np.searchsorted(job, job)  # within the class
        keep = place < self.candidates
        n_cut = len(np.unique(job[~keep]))
        cluster, of, job = cluster[keep], of[keep], job[keep]
        rows = np.zeros((len(cluster), 7))
        rows[:, 0] = -2.0 * np.log(self.likelihood)
        columns = [1] + [3] * self.use_angle + [5] * self.use_scale
        for column, (mean, deviation) in zip(columns, fits, strict=True):
            rows[:, column], rows[:, column + 1] = mean[cluster], 1.0 / deviation[cluster]
        begin = np.searchsorted(job, np.arange(n_jobs + 1))
        made = Made(pairs.parts[of], of, rows, begin, self.likelihood)
        return made, n_cut


_CAPS = (
    "classes have more features than are paired; features says how many may be.",
    "classes have more pairs of features than are compared; pairs says how many may be.",
    "pairs of features have more distances than are clustered; distances says how many may be.",
    "classes have more new candidates than are tried; candidates says how many may be.",
)


@dataclass(frozen=True, slots=True)
class Made(Sequence[Feature]):
    """New composites, as features one by one when they are asked for.

    Attributes:
        parts: (n, 2) the features that each is made of.
        pair: (n,) which have their parts in common; they stand together.
        rows: (n, 7) their relations; see :meth:`rlvc.features.Composite.row`.
        begin: (n_classes + 1,) where those of each class begin.
        likelihood: ν.
    """

    parts: Ints
    pair: Ints
    rows: Floats
    begin: Ints
    likelihood: float

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, column: int) -> Composite:  # type: ignore[override]
        first, second = self.parts[column].tolist()
        row = self.rows[column].tolist()
        turn, ratio = row[4] > 0.0, row[6] > 0.0
        return Composite(
            first=first, second=second, likelihood=self.likelihood,
            mean=row[1], deviation=1.0 / row[2],
            turn=row[3] if turn else None, turn_deviation=1.0 / row[4] if turn else None,
            ratio=row[5] if ratio else None, ratio_deviation=1.0 / row[6] if ratio else None,
        )  # fmt: skip


class Many(Sequence[Feature]):
    """Several lists of features as one, without unrolling any."""

    def __init__(self, parts: list[Sequence[Feature]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __getitem__(self, number: int) -> Feature:  # type: ignore[override]
        for part in self._parts:
            if number < len(part):
                return part[number]
            number -= len(part)
        raise IndexError(number)


generators.register("composites", Composites)


def _shares(begin: Ints, threads: int) -> list[slice]:
    """Cut the classes into as many runs as there are threads, with about as many images each."""
    shares = chunks(int(begin[-1]), n_threads(threads))
    cuts = np.searchsorted(begin, [piece.start for piece in shares][1:]).tolist()
    edges = [0, *cuts, len(begin) - 1]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _gaussian(key: Ints, values: Floats, size: int, least: float) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of every cluster."""
    ways = key.shape[1]
    count = np.maximum(np.bincount(key.ravel(), minlength=size), 1)
    each = np.repeat(values, ways)
    mean = np.bincount(key.ravel(), each, minlength=size) / count
    square = np.bincount(key.ravel(), (each - mean[key.ravel()]) ** 2, minlength=size) / count
    return mean, np.maximum(np.sqrt(square), least)


def _circular(key: Ints, angles: Floats, size: int, least: float = 5.0) -> tuple[Floats, Floats]:
    """Return the circular mean and standard deviation of every cluster, degrees."""
    ways = key.shape[1]
    count = np.maximum(np.bincount(key.ravel(), minlength=size), 1)
    each = np.deg2rad(np.repeat(angles, ways))
    x = np.bincount(key.ravel(), np.cos(each), minlength=size) / count
    y = np.bincount(key.ravel(), np.sin(each), minlength=size) / count
    length = np.clip(np.hypot(x, y), 1e-9, 1.0)
    return np.rad2deg(np.arctan2(y, x)), np.maximum(np.rad2deg(np.sqrt(-2 * np.log(length))), least)


def _exhibited(jobs: Jobs, places: Places, made: Made, n_features: int, threads: int) -> Incidence:
    """Return which image of which class exhibits which new feature, and one empty row more."""

    def work(span: slice) -> tuple[Ints, NDArray[np.int32]]:
        return _find_exhibited(
            span.start, span.stop, jobs.begin, jobs.image, places.begin, places.feature,
            places.marks, made.parts, made.pair, made.rows, made.begin, n_features,
        )  # fmt: skip

    parts = share_threads(work, _shares(jobs.begin, threads), threads)
    count, indices = (np.concatenate(part) for part in zip(*parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(count), [len(indices)]]).astype(np.int64)
    return Incidence(indptr, indices, len(made))


@compiled
def _scramble(a: int, b: int, seed: int) -> np.int64:
    """Return a number of 31 bits that looks random, the same on every machine."""
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    x ^= np.uint64(seed) * np.uint64(0x165667B19E3779F9)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(33))


@compiled
def _find_pairs(
    first_job: int,
    last_job: int,
    job_begin: Ints,
    job_image: Ints,
    begin: Ints,
    feature: NDArray[np.int32],
    marks: Floats,
    is_part: NDArray[np.bool_],
    support: float,
    max_images: int,
    max_features: int,
    max_pairs: int,
    max_distances: int,
    least_spread: float,
    seed: int,
) -> tuple[Ints, Ints, Ints, Floats, Ints]:
    room, n_pairs, n_values = 256, 0, 0
    out_job = np.empty(room, np.int64)
    out_parts = np.empty((room, 2), np.int64)
    out_count = np.empty(room, np.int64)
    out = np.empty((4096, 3), np.float64)
    cut = np.zeros(3, np.int64)
    seen = np.zeros(len(is_part), np.int64)  # on how many images
    local = np.full(len(is_part), -1, np.int64)
    start = np.zeros((max_images, max_features), np.int64)
    length = np.zeros((max_images, max_features), np.int64)
    both = np.zeros((max_features, max_features), np.int64)
    here = np.empty(max_features, np.int64)
    one = np.empty((max_distances, 3), np.float64)
    for job in range(first_job, last_job):
        base = job_begin[job]
        n = min(job_begin[job + 1] - base, max_images)
        if n < 2:
            continue
        need = max(2, int(np.ceil(support * n)))
        known = np.empty(64, np.int64)
        m = 0
        for k in range(n):
            image = job_image[base + k]
            last = -1
            for i in range(begin[image], begin[image + 1]):
                f = feature[i]
                if f != last and is_part[f]:
                    if seen[f] == 0:
                        if m == len(known):
                            known = np.concatenate((known, np.empty_like(known)))
                        known[m] = f
                        m += 1
                    seen[f] += 1
                last = f
        known = np.sort(known[:m])
        frequent = known[seen[known] >= need]
        if len(frequent) > max_features:
            cut[0] += 1
            order = np.argsort(-seen[frequent], kind="mergesort")
            frequent = np.sort(frequent[order[:max_features]])
        seen[known] = 0
        m = len(frequent)
        for i in range(m):
            local[frequent[i]] = i
        start[:n, :m] = 0
        length[:n, :m] = 0
        both[:m, :m] = 0
        for k in range(n):
            image = job_image[base + k]
            n_here = 0
            for i in range(begin[image], begin[image + 1]):
                f = local[feature[i]]
                if f < 0:
                    continue
                if length[k, f] == 0:
                    start[k, f] = i
                    here[n_here] = f
                    n_here += 1
                length[k, f] += 1
            for i in range(n_here):
                f = here[i]
                both[f, f] += length[k, f] > 1
                for j in range(i + 1, n_here):
                    both[f, here[j]] += 1
        local[frequent] = -1
        # The most frequent pairs first; equally frequent ones in an order drawn by the seed.
        count = np.zeros(n + 1, np.int64)
        for i in range(m):
            for j in range(i, m):
                count[both[i, j]] += 1
        most_tries, floor, total = 8 * max_pairs, n + 1, 0
        while floor > need and total < most_tries:
            floor -= 1
            total += count[floor]
        keys = np.empty(total, np.int64)
        codes = np.empty(total, np.int64)
        t = 0
        for i in range(m):
            for j in range(i, m):
                if both[i, j] >= floor:
                    keys[t] = (np.int64(n - both[i, j]) << 31) + _scramble(
                        frequent[i], frequent[j], seed
                    )
                    codes[t] = i * m + j
                    t += 1
        accepted = 0
        for t in np.argsort(keys, kind="mergesort")[:most_tries]:
            i, j = codes[t] // m, codes[t] % m
            c = 0
            low, high = np.inf, -np.inf
            is_cut = False
            for k in range(n):
                if length[k, i] == 0 or length[k, j] == 0:
                    continue
                for a in range(start[k, i], start[k, i] + length[k, i]):
                    first = a + 1 if i == j else start[k, j]
                    for b in range(first, start[k, j] + length[k, j]):
                        if c == max_distances:
                            is_cut = True
                            break
                        distance, turn, ratio = relate(marks[a], marks[b])
                        one[c, 0], one[c, 1], one[c, 2] = distance, turn, ratio
                        low, high = min(low, distance), max(high, distance)
                        c += 1
                    if is_cut:
                        break
                if is_cut:
                    break
            if c < 2 or high - low < least_spread:
                continue  # as far apart on every image: no composite would split the class
            if accepted == max_pairs:
                cut[1] += 1
                break
            accepted += 1
            cut[2] += is_cut
            if n_pairs == len(out_job):
                out_job = np.concatenate((out_job, np.empty_like(out_job)))
                out_parts = np.concatenate((out_parts, np.empty_like(out_parts)))
                out_count = np.concatenate((out_count, np.empty_like(out_count)))
            while n_values + c > len(out):
                out = np.concatenate((out, np.empty_like(out)))
            order = np.argsort(one[:c, 0], kind="mergesort")
            for v in range(c):
                out[n_values + v] = one[order[v]]
            out_job[n_pairs], out_count[n_pairs] = job, c
            out_parts[n_pairs, 0], out_parts[n_pairs, 1] = frequent[i], frequent[j]
            n_values += c
            n_pairs += 1
    return (
        out_job[:n_pairs].copy(), out_parts[:n_pairs].copy(), out_count[:n_pairs].copy(),
        out[:n_values].copy(), cut,
    )  # fmt: skip


@compiled
def _find_exhibited(
    first_job: int,
    last_job: int,
    job_begin: Ints,
    job_image: Ints,
    begin: Ints,
    feature: NDArray[np.int32],
    marks: Floats,
    parts: Ints,
    pair: Ints,
    rows: Floats,
    made_begin: Ints,
    n_features: int,
) -> tuple[Ints, NDArray[np.int32]]:
    count = np.zeros(job_begin[last_job] - job_begin[first_job], np.int64)
    out = np.empty(4096, np.int32)
    n = 0
    start = np.zeros(n_features, np.int64)
    length = np.zeros(n_features, np.int64)
    for job in range(first_job, last_job):
        made_first, made_last = made_begin[job], made_begin[job + 1]
        if made_first == made_last:
            continue
        for at in range(job_begin[job], job_begin[job + 1]):
            image = job_image[at]
            for i in range(begin[image], begin[image + 1]):
                f = feature[i]
                if length[f] == 0:
                    start[f] = i
                length[f] += 1
            if n + made_last - made_first > len(out):
                out = np.concatenate((out, np.empty(len(out) + made_last - made_first, np.int32)))
            before = n
            c = made_first
            while c < made_last:
                end = c + 1
                while end < made_last and pair[end] == pair[c]:
                    end += 1
                f, g = parts[c, 0], parts[c, 1]
                if length[f] and length[g]:
                    for one in range(c, end):
                        if _occurs(
                            marks[start[f] : start[f] + length[f]],
                            marks[start[g] : start[g] + length[g]],
                            rows[one],
                        ):
                            out[n] = one
                            n += 1
                c = end
            count[at - job_begin[first_job]] = n - before
            for i in range(begin[image], begin[image + 1]):
                length[feature[i]] = 0
    return count, out[:n].copy()


@compiled
def _occurs(first: Floats, second: Floats, row: Row) -> bool:
    for i in range(len(first)):
        for j in range(len(second)):
            if is_likely(first[i], second[j], row):
                return True
    return False
