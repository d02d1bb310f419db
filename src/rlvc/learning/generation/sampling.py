"""Random samples of the images of classes, from all shards of a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlvc._core.arrays import Ints
from rlvc.features.occurrences import OccurrenceTable


class ImageQuery(NamedTuple):
    """Some images, and the features on them that are asked for.

    Attributes:
        wanted: The classes of the images, in ascending order.
        camera: The number of the camera.
        height: The height of composites; the occurrences of lower features are needed.
        seed: Seed of the random order of all images; -1 for any order.
    """

    wanted: list[int]
    camera: int
    height: int
    seed: int = -1


class CellCounts(NamedTuple):
    """The number of images of some classes that show each feature in each cell of a grid.

    Attributes:
        n_images: (n_wanted,) the number of images of each class.
        rows: (n, 4) the number of the class among the wanted ones, the feature, the number of the
            cell, and how many images of the class show the feature there.
    """

    n_images: Ints
    rows: Ints


class Sample(NamedTuple):
    """Images of some classes in a random order, and the features that occur on them.

    Attributes:
        begin: (n_wanted + 1,) where the images of each class begin.
        image: (n,) the images, as rows of ``places``.
        places: Where features occur, on these images at least.
    """

    begin: Ints
    image: Ints
    places: OccurrenceTable


@dataclass(frozen=True, slots=True)
class ShardSample:
    """The first images of some classes in one shard, and the features that occur on them.

    Attributes:
        begin: (n_wanted + 1,) where the images of each class begin.
        rank: (n,) the rank of each image in the order of the images of all shards, ascending for
            every class.
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
            rank: (n_images,) the rank of each image in the order of all.
            most: Maximum number of images of each class.
        """
        count = np.minimum(np.diff(sample.begin), most)
        begin = np.concatenate([[0], np.cumsum(count)])
        rows = np.repeat(sample.begin[:-1] - begin[:-1], count) + np.arange(begin[-1])
        image = sample.image[rows]
        return cls(begin, rank[image], sample.places.take(image))


def merge_samples(samples: Sequence[ShardSample], most: int) -> Sample:
    """Return the first images of each class over several shards, which may share some."""
    n_wanted = len(samples[0].begin) - 1
    number = np.concatenate([np.repeat(np.arange(n_wanted), np.diff(one.begin)) for one in samples])
    rank = np.concatenate([one.rank for one in samples])
    order = np.lexsort((rank, number))
    number, rank = number[order], rank[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (number[1:] != number[:-1]) | (rank[1:] != rank[:-1])
    order, number = order[is_new], number[is_new]
    keep = np.arange(len(number)) - np.searchsorted(number, number) < most
    begin = np.concatenate([[0], np.cumsum(np.bincount(number[keep], minlength=n_wanted))])
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
