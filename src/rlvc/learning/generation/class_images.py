"""The images of some classes, and which of their percepts exhibit new features.

Threads share the images, class by class; which percepts of a class exhibit its new features becomes
a block, which can be kept from one stage to the next, and blocks become one matrix.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Ints
from rlvc._core.jit import chunks, jit, n_threads, share_threads
from rlvc.features.incidence import Incidence
from rlvc.features.kinds import Feature
from rlvc.features.occurrences import OccurrenceTable

Shown = tuple[Ints, NDArray[np.int32]]  # how many features each image exhibits, and which


class ClassFeatures(Protocol):
    """New features of one class or of several, as arrays."""

    @property
    def job(self) -> Ints:
        """(n,) the number of the class of each, in ascending order."""
        ...

    def __len__(self) -> int: ...

    def feature(self, number: int) -> Feature:
        """Return one of them as a feature."""
        ...

    @classmethod
    def concatenate(cls, every: Sequence[Self]) -> Self:
        """Return those of several classes, which are numbered by their place in the list."""
        ...

    def show(
        self, images: ClassImages, places: OccurrenceTable, n_features: int, span: slice
    ) -> Shown:
        """Return which features of its class each image of some classes exhibits."""
        ...


@dataclass(frozen=True, slots=True)
class FeatureBlock:
    """Which percepts of one class exhibit the new features that one camera sees of it.

    Attributes:
        length: (n_percepts,) how many each percept of the class exhibits.
        columns: Which, percept by percept.
        n_new: How many new features there are.
    """

    length: Ints
    columns: NDArray[np.int32]
    n_new: int


@dataclass(frozen=True, slots=True)
class ClassImages:
    """Some classes as one camera sees them.

    Attributes:
        begin: (n_jobs + 1,) where the images of each class begin.
        image: The distinct images of its percepts.
        edges: (n_jobs + 1,) where the percepts of each class begin.
        row: For each percept, class by class, where its image stands in ``image``.
    """

    begin: Ints
    image: Ints
    edges: Ints
    row: Ints

    @classmethod
    def of(
        cls, classes: Ints, n_classes: int, wanted: list[int], image: Ints, order: Ints
    ) -> ClassImages:
        """Return the images of some classes.

        Args:
            classes: (n_percepts,) the class of each percept.
            n_classes: How many classes there are.
            wanted: The classes, in ascending order.
            image: (n_percepts,) the image of each percept.
            order: (n_images,) all images, in the order in which those of a class shall stand.
        """
        is_wanted = np.zeros(n_classes, np.bool_)
        is_wanted[wanted] = True
        begin, images, row = _distinct_images(classes, is_wanted, image, order)
        percepts = np.flatnonzero(is_wanted[classes])
        percepts = percepts[np.argsort(classes[percepts], kind="stable")]
        edges = np.searchsorted(classes[percepts], [*wanted, is_wanted.size])
        return cls(begin, images, edges, row[percepts])

    def exhibit(
        self, features: ClassFeatures, places: OccurrenceTable, n_features: int, threads: int
    ) -> list[FeatureBlock]:
        """Return which percepts exhibit the new features of their class, as a block for each."""
        work = functools.partial(features.show, self, places, n_features)
        found = share_threads(work, spans_of(self.begin, threads), threads)
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([length for length, _ in found]))])
        columns = np.concatenate([columns for _, columns in found])
        rows = Incidence(indptr.astype(np.int64), columns, 0).take(self.row)
        n_new = np.bincount(features.job, minlength=len(self.edges) - 1).tolist()
        return [
            FeatureBlock(
                np.diff(rows.indptr[a : b + 1]), rows.indices[rows.indptr[a] : rows.indptr[b]], n
            )
            for (a, b), n in zip(itertools.pairwise(self.edges.tolist()), n_new, strict=True)
        ]


def spans_of(begin: Ints, threads: int) -> list[slice]:
    """Cut classes into runs with about as many images each, given where those of each begin."""
    pieces = chunks(int(begin[-1]), n_threads(threads))
    cuts = np.searchsorted(begin, [piece.start for piece in pieces][1:]).tolist()
    return [slice(a, b) for a, b in itertools.pairwise([0, *cuts, len(begin) - 1])]


def assemble(blocks: list[FeatureBlock], classes: Ints, is_aliased: Bools, n: int) -> Incidence:
    """Return which percept exhibits which feature of the blocks; they get numbers from ``n``."""
    if not blocks:
        return Incidence(np.zeros(len(classes) + 1, np.int64), np.empty(0, np.int32), n)
    job_of = np.full(len(is_aliased), -1, np.int64)
    job_of[is_aliased] = np.arange(len(blocks))
    first = n + np.cumsum([0, *(block.n_new for block in blocks)])
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


@jit
def class_keys(classes: Ints, n_classes: int, numbers: Ints) -> Ints:
    """Return (n_classes, 3) what tells sets of percepts apart: their size and two hashes.

    They add up over shards; the percepts are given by their numbers in the whole database.
    """
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
