"""The images of some classes, and which of their percepts exhibit new features.

The wanted classes are numbered from 0, and threads share them. Which percepts of a class exhibit
its new features is a block, which can be reused at later stages; blocks make up one matrix.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints, Ints32, Rows
from rlvc._core.jit import jit, n_threads, share_threads, spans_of
from rlvc.features.incidence import Incidence
from rlvc.features.kinds import Feature
from rlvc.features.occurrences import OccurrenceTable

Exhibited = tuple[Ints, NDArray[np.int32]]  # how many features each image exhibits, and which


class ClassFeatures(Protocol):
    """The new features of one class or of several classes, one after the other, as arrays."""

    def __len__(self) -> int: ...

    def feature(self, number: int) -> Feature:
        """Return one of them as a feature."""
        ...

    @classmethod
    def concatenate(cls, every: Sequence[Self]) -> Self:
        """Return the features of several classes."""
        ...

    def exhibited(self, search: FeatureSearch, span: tuple[int, int]) -> Exhibited:
        """Return which features of its class each image of some classes exhibits.

        ``span`` is the first of the classes to do, and the one after the last.
        """
        ...


@dataclass(frozen=True, slots=True)
class FeatureBlock:
    """Which percepts of one class exhibit its new features of one camera.

    Attributes:
        percepts: (n_percepts,) the percepts of the class.
        length: (n_percepts,) how many features each of them exhibits.
        columns: Which ones, percept by percept.
        n_new: The number of new features.
    """

    percepts: Ints
    length: Ints
    columns: NDArray[np.int32]
    n_new: int


class ClassImages(NamedTuple):
    """The images of one camera that belong to some classes.

    Attributes:
        begin: (n_wanted + 1,) where the images of each class begin.
        image: The distinct images of its percepts.
        edges: (n_wanted + 1,) where the percepts of each class begin.
        percepts: The percepts, class by class.
        row: For each of them, the position of its image in ``image``.
    """

    begin: Ints
    image: Ints
    edges: Ints
    percepts: Ints
    row: Ints

    @classmethod
    def of(
        cls, classes: Ints, n_classes: int, wanted: list[int], image: Ints, rank: Ints
    ) -> ClassImages:
        """Return the images of some classes.

        Args:
            classes: (n_percepts,) the class of each percept.
            n_classes: The number of classes.
            wanted: The classes, in ascending order.
            image: (n_percepts,) the image of each percept.
            rank: (n_images,) the rank of each image, by which the images of a class are sorted.
        """
        number_of, bounds = np.full(n_classes, -1), np.arange(len(wanted) + 1)
        number_of[wanted] = bounds[:-1]
        number = number_of[classes]
        percepts = np.flatnonzero(number >= 0)
        percepts = percepts[np.argsort(number[percepts], kind="stable")]
        number, width = number[percepts], int(rank.max(initial=0)) + 1
        keys, first, row = np.unique(
            number * width + rank[image[percepts]], return_index=True, return_inverse=True
        )
        begin, edges = np.searchsorted(keys, bounds * width), np.searchsorted(number, bounds)
        return cls(begin, image[percepts[first]], edges, percepts, row)

    def exhibit(
        self,
        features: Sequence[ClassFeatures],
        places: OccurrenceTable,
        n_features: int,
        threads: int,
    ) -> list[FeatureBlock]:
        """Return which percepts exhibit the new features of their class, one block per class."""
        joined = type(features[0]).concatenate(features)
        search = FeatureSearch(self, places, n_features, np.cumsum([0, *map(len, features)]))
        work = functools.partial(joined.exhibited, search)
        found = share_threads(work, spans_of(self.begin, n_threads(threads)), threads)
        indptr = np.cumsum(np.concatenate([[0], *(length for length, _ in found)]))
        columns = np.concatenate([columns for _, columns in found])
        rows = Incidence(indptr, columns, 0).take(self.row)
        return [
            FeatureBlock(
                self.percepts[a:b], np.diff(rows.indptr[a : b + 1]),
                rows.indices[rows.indptr[a] : rows.indptr[b]], len(one),
            )
            for one, (a, b) in zip(features, itertools.pairwise(self.edges.tolist()), strict=True)
        ]  # fmt: skip


class FeatureSearch(NamedTuple):
    """Where to search for the new features of classes.

    Attributes:
        images: The images of the classes.
        places: The occurrences of known features on them, which may be parts.
        n_features: The number of known features.
        begin: (n_wanted + 1,) where the new features of each class begin.
    """

    images: ClassImages
    places: OccurrenceTable
    n_features: int
    begin: Ints


def assemble(blocks: list[FeatureBlock], n_percepts: int, n: int) -> Incidence:
    """Return which percept exhibits which feature of the blocks, numbered from ``n``."""
    if not blocks:
        return Incidence(np.zeros(n_percepts + 1, np.int64), np.empty(0, np.int32), n)
    first = n + np.cumsum([0, *(block.n_new for block in blocks)])
    offset = np.repeat(first[:-1], [len(block.percepts) for block in blocks])
    percepts, lengths, columns = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("percepts", "length", "columns")
    )
    return Incidence(*_place_rows(percepts, lengths, columns, offset, n_percepts), int(first[-1]))


@jit
def _place_rows(percepts: Ints, lengths: Ints, columns: Ints32, offset: Ints, n: int) -> Rows:
    """Return the rows of ``n`` percepts, given those of some, with an offset to add to each."""
    indptr, indices = np.zeros(n + 1, np.int64), np.empty(len(columns), np.int32)
    indptr[percepts + 1] = lengths
    indptr = np.cumsum(indptr)
    k = 0
    for i in range(len(percepts)):
        begin, first = indptr[percepts[i]], np.int32(offset[i])
        for j in range(begin, begin + lengths[i]):
            indices[j] = columns[k] + first
            k += 1
    return indptr, indices


@jit
def class_keys(classes: Ints, n_classes: int, numbers: Ints) -> Ints:
    """Return (n_classes, 3) keys of the percepts of each class: their number and two hashes.

    They add up over shards; ``numbers`` are those of the percepts in the whole database.
    """
    keys = np.zeros((n_classes, 3), np.int64)
    for i in range(len(numbers)):
        p = numbers[i]
        key = keys[classes[i]]
        key[0] += 1
        key[1] += scramble(p, 1, 2)  # sums do not depend on the order of percepts
        key[2] += scramble(3, p, 5)
    return keys


@jit
def scramble(a: int, b: int, seed: int) -> np.int64:
    """Return a number of 31 bits that looks random, the same on every machine."""
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    x ^= np.uint64(seed) * np.uint64(0x165667B19E3779F9)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(33))
