"""Some classes as one camera sees them, and the new features that are offered for each.

A *job* is an aliased class as one camera sees it: the distinct images of its percepts. Threads
share jobs; what they make of each becomes a block, which can be kept, and blocks become one matrix.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.jit import chunks, jit, n_threads, share_threads
from rlvc.features.incidence import Incidence
from rlvc.features.kinds import Feature


class Made(Protocol):
    """New features of one class, as arrays; features are made when they are asked for."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def feature(self, number: int) -> Feature:
        """Return one of them."""
        ...

    def stamp(self) -> tuple[int, ...]:
        """Return what tells these features from others."""
        ...


class Share(NamedTuple):
    """What one thread made for some classes that stand together.

    Attributes:
        made: The new features of each class.
        length: (n_images,) how many of its class each image exhibits.
        columns: Which, image by image.
        n_cut: How often each of the caps bit.
    """

    made: Sequence[Made]
    length: Ints
    columns: NDArray[np.int32]
    n_cut: Ints


@dataclass(frozen=True, slots=True)
class Block:
    """The new features that one camera sees of one class, and which percepts exhibit them.

    Attributes:
        length: (n_percepts,) how many each percept of the class exhibits.
        columns: Which, percept by percept.
        made: The features.
    """

    length: Ints
    columns: NDArray[np.int32]
    made: Made


@dataclass(frozen=True, slots=True)
class ClassImages:
    """Some classes as one camera sees them.

    Attributes:
        begin: (n_jobs + 1,) where the images of each class begin.
        image: The distinct images of its percepts.
        percepts: The percepts, class by class.
        edges: (n_jobs + 1,) where those of each class begin.
        row: For each percept, where its image stands in ``image``.
    """

    begin: Ints
    image: Ints
    percepts: Ints
    edges: Ints
    row: Ints

    @classmethod
    def of(
        cls, classes: Ints, n_classes: int, wanted: list[int], image: Ints, order: Ints
    ) -> ClassImages:
        """Return the jobs of some classes, in ascending order; images stand in an order."""
        is_wanted = np.zeros(n_classes, np.bool_)
        is_wanted[wanted] = True
        begin, images, row = _distinct_images(classes, is_wanted, image, order)
        percepts = np.flatnonzero(is_wanted[classes])
        percepts = percepts[np.argsort(classes[percepts], kind="stable")]
        edges = np.searchsorted(classes[percepts], [*wanted, is_wanted.size])
        return cls(begin, images, percepts, edges, row[percepts])

    def share(self, work: Callable[[slice], Share], threads: int) -> tuple[list[Block], Ints]:
        """Return what threads make of the jobs, as one block for each."""
        pieces = chunks(len(self.image), n_threads(threads))
        cuts = np.searchsorted(self.begin, [piece.start for piece in pieces][1:]).tolist()
        spans = [slice(a, b) for a, b in itertools.pairwise([0, *cuts, len(self.begin) - 1])]
        shares = share_threads(work, spans, threads)
        made = itertools.chain.from_iterable(one.made for one in shares)
        length = np.concatenate([one.length for one in shares])
        indptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        on_images = Incidence(indptr, np.concatenate([one.columns for one in shares]), 0)
        rows = on_images.take(self.row)
        blocks = [
            Block(np.diff(rows.indptr[a : b + 1]), rows.indices[rows.indptr[a] : rows.indptr[b]], m)
            for (a, b), m in zip(itertools.pairwise(self.edges.tolist()), made, strict=True)
        ]
        return blocks, np.sum([one.n_cut for one in shares], axis=0)


class Offer(Sequence[Feature]):
    """The new features of several blocks; features are made when they are asked for."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._begin = list(itertools.accumulate((len(b.made) for b in blocks), initial=0))

    def __len__(self) -> int:
        return self._begin[-1]

    def __getitem__(self, number: int) -> Feature:  # type: ignore[override]
        number = range(len(self))[number]
        block = bisect.bisect_right(self._begin, number) - 1
        return self._blocks[block].made.feature(number - self._begin[block])


def assemble(
    blocks: list[Block], classes: Ints, is_aliased: NDArray[np.bool_], n: int
) -> Incidence:
    """Return which percept exhibits which feature of the blocks; they get numbers from ``n``."""
    if not blocks:
        return Incidence(np.zeros(len(classes) + 1, np.int64), np.empty(0, np.int32), n)
    job_of = np.full(len(is_aliased), -1, np.int64)
    job_of[is_aliased] = np.arange(len(blocks))
    first = n + np.cumsum([0, *(len(block.made) for block in blocks)])
    indptr, indices = _assemble(
        job_of[classes],
        np.concatenate([block.length for block in blocks]),
        np.cumsum([0, *(len(block.length) for block in blocks)]),
        np.concatenate([block.columns for block in blocks]),
        first,
    )
    return Incidence(indptr, indices, int(first[-1]))


@jit
def _distinct_images(
    classes: Ints, is_aliased: NDArray[np.bool_], image: Ints, order: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return the distinct images of each aliased class.

    Args:
        classes: (n_percepts,) the class of each percept.
        is_aliased: (n_classes,) the classes that are wanted.
        image: (n_percepts,) the image of each percept.
        order: (n_images,) all images, in the order in which those of a class shall stand.

    Returns:
        begin: (n_jobs + 1,) where the images of each class begin.
        images: (n,) the images.
        row: (n_percepts,) where the image of a percept stands; n for those of other classes.
    """
    job_of = np.full(len(is_aliased), -1, np.int64)
    n_jobs = 0
    for c in range(len(is_aliased)):
        if is_aliased[c]:
            job_of[c] = n_jobs
            n_jobs += 1
    rank = np.empty(len(order), np.int64)
    for i in range(len(order)):
        rank[order[i]] = i
    edge = np.zeros(n_jobs + 1, np.int64)  # of the percepts, class by class
    for c in classes:
        if job_of[c] >= 0:
            edge[job_of[c] + 1] += 1
    edge = np.cumsum(edge)
    ranks = np.empty(edge[-1], np.int64)
    at = edge[:-1].copy()
    for p in range(len(classes)):
        job = job_of[classes[p]]
        if job >= 0:
            ranks[at[job]] = rank[image[p]]
            at[job] += 1
    begin = np.zeros(n_jobs + 1, np.int64)
    n = 0
    for job in range(n_jobs):
        here = np.sort(ranks[edge[job] : edge[job + 1]])
        for i in range(len(here)):
            if i == 0 or here[i] != here[i - 1]:
                ranks[n] = here[i]  # never beyond what was read already
                n += 1
        begin[job + 1] = n
    row = np.full(len(classes), n, np.int64)
    for p in range(len(classes)):
        job = job_of[classes[p]]
        if job >= 0:
            here = ranks[begin[job] : begin[job + 1]]
            row[p] = begin[job] + np.searchsorted(here, rank[image[p]])
    return begin, order[ranks[:n]], row


def class_keys(classes: Ints, n_classes: int) -> Ints:
    """Return (n_classes, 3) what tells sets of percepts apart: their size and two hashes."""
    return sum_keys(classes, n_classes, np.arange(len(classes)))


@jit
def sum_keys(classes: Ints, n_classes: int, numbers: Ints) -> Ints:
    """Return the part that some percepts have in :func:`class_keys`, given by number."""
    keys = np.zeros((n_classes, 3), np.int64)
    for i in range(len(numbers)):
        p = numbers[i]
        key = keys[classes[i]]
        key[0] += 1
        key[1] += scramble(p, 1, 2)  # addition, as the order of percepts does not matter
        key[2] += scramble(3, p, 5)
    return keys


@jit
def _assemble(
    job: Ints, length: Ints, begin: Ints, columns: NDArray[np.int32], first: Ints
) -> tuple[Ints, NDArray[np.int32]]:
    """Return the rows of all percepts as (indptr, indices), given those of each job.

    Args:
        job: (n_percepts,) the job of each percept; -1 for none.
        length: The lengths of the rows, job by job, percept by percept.
        begin: (n_jobs + 1,) where those of each job begin.
        columns: What stands in the rows; it gets the numbers of the job's own.
        first: (n_jobs + 1,) the number of each job's first column.
    """
    start = np.zeros(len(length) + 1, np.int64)
    for i in range(len(length)):
        start[i + 1] = start[i] + length[i]
    at = begin[:-1].copy()
    indptr = np.zeros(len(job) + 1, np.int64)
    for p in range(len(job)):
        indptr[p + 1] = indptr[p]
        if job[p] >= 0:
            indptr[p + 1] += length[at[job[p]]]
            at[job[p]] += 1
    out = np.empty(indptr[-1], np.int32)
    at = begin[:-1].copy()
    n = 0
    for p in range(len(job)):
        if job[p] >= 0:
            row = at[job[p]]
            for i in range(start[row], start[row + 1]):
                out[n] = columns[i] + first[job[p]]
                n += 1
            at[job[p]] += 1
    return indptr, out


@jit
def scramble(a: int, b: int, seed: int) -> np.int64:
    """Return a number of 31 bits that looks random, the same on every machine."""
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    x ^= np.uint64(seed) * np.uint64(0x165667B19E3779F9)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(33))
