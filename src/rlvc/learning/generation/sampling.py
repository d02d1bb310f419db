"""A fair sample of the images of classes, from all shards of a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlvc._core.arrays import Ints
from rlvc.features.occurrences import OccurrenceTable


class CellCounts(NamedTuple):
    """How many images of some classes show which feature in which cell of a grid.

    Attributes:
        n_images: (n_jobs,) how many images each class has.
        rows: (n, 4) the number of the class among those that were asked for, the feature, the
            number of the cell, and how many images of the class show the feature there.
    """

    n_images: Ints
    rows: Ints


class Sample(NamedTuple):
    """Images of some classes in a random order, and what occurs on them.

    Attributes:
        begin: (n_jobs + 1,) where the images of each class begin.
        image: (n,) the images, as rows of ``places``.
        places: Where features occur, on these images at least.
    """

    begin: Ints
    image: Ints
    places: OccurrenceTable


@dataclass(frozen=True, slots=True)
class ShardSample:
    """The first images of some classes in one shard, without what occurs on any others.

    Attributes:
        begin: (n_jobs + 1,) where the images of each class begin.
        rank: (n,) the place of each image in the order of the images of all shards; in ascending
            order for every class.
        places: Where features occur on these n images.
    """

    begin: Ints
    rank: Ints
    places: OccurrenceTable

    @classmethod
    def cut(cls, sample: Sample, rank: Ints, most: int) -> ShardSample:
        """Return the first images of each class.

        Args:
            sample: The images of classes, in ascending order of their rank.
            rank: (n_images,) the place of each image in the order of all.
            most: How many images of each class.
        """
        count = np.minimum(np.diff(sample.begin), most)
        begin = np.concatenate([[0], np.cumsum(count)])
        rows = np.repeat(sample.begin[:-1] - begin[:-1], count) + np.arange(begin[-1])
        image = sample.image[rows]
        return cls(begin, rank[image], sample.places.take(image))


def merge_samples(samples: Sequence[ShardSample], most: int) -> Sample:
    """Return the first images of each class over several shards; some may have the same ones."""
    n_jobs = len(samples[0].begin) - 1
    job = np.concatenate([np.repeat(np.arange(n_jobs), np.diff(one.begin)) for one in samples])
    rank = np.concatenate([one.rank for one in samples])
    order = np.lexsort((rank, job))
    job, rank = job[order], rank[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (job[1:] != job[:-1]) | (rank[1:] != rank[:-1])
    order, job = order[is_new], job[is_new]
    keep = np.arange(len(job)) - np.searchsorted(job, job) < most
    begin = np.concatenate([[0], np.cumsum(np.bincount(job[keep], minlength=n_jobs))])
    return Sample(begin, order[keep], _join([one.places for one in samples]))


def _join(every: Sequence[OccurrenceTable]) -> OccurrenceTable:
    """Return where features occur on the images of several shards, one after the other."""
    count = np.concatenate([np.diff(places.begin) for places in every])
    return OccurrenceTable(
        np.concatenate([[0], np.cumsum(count)]),
        np.concatenate([places.feature for places in every]),
        np.concatenate([places.marks for places in every]),
        every[0].size,
    )
