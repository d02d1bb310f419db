"""A fair sample of the images of classes, from all parts of a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvc._core.arrays import Ints
from rlvc.features.occurrences import OccurrenceTable
from rlvc.learning.generation.class_images import ClassImages


@dataclass(frozen=True, slots=True)
class Sample:
    """The first images of some classes, in an order of all images of a camera, and what they show.

    Attributes:
        begin: (n_jobs + 1,) where the images of each class begin.
        rank: (n,) where each image stands in that order; in ascending order for every class.
        places: Where features occur on these n images.
    """

    begin: Ints
    rank: Ints
    places: OccurrenceTable


def cut_sample(jobs: ClassImages, rank: Ints, places: OccurrenceTable, most: int) -> Sample:
    """Return the first images of each job.

    Args:
        jobs: The images of classes, in ascending order of their rank.
        rank: (n_images,) where each image stands in the order of all.
        places: Where features occur.
        most: How many images of each job.
    """
    count = np.minimum(np.diff(jobs.begin), most)
    begin = np.concatenate([[0], np.cumsum(count)])
    image = jobs.image[_spans(jobs.begin[:-1], count)]
    return Sample(begin, rank[image], _take(places, image))


def merge_samples(samples: Sequence[Sample], most: int) -> Sample:
    """Return the first images of each class over several parts; some may have the same ones."""
    n_jobs = len(samples[0].begin) - 1
    job = np.concatenate([np.repeat(np.arange(n_jobs), np.diff(one.begin)) for one in samples])
    rank = np.concatenate([one.rank for one in samples])
    order = np.lexsort((rank, job))
    job, rank = job[order], rank[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (job[1:] != job[:-1]) | (rank[1:] != rank[:-1])
    order, job, rank = order[is_new], job[is_new], rank[is_new]
    keep = np.arange(len(job)) - np.searchsorted(job, job) < most
    begin = np.concatenate([[0], np.cumsum(np.bincount(job[keep], minlength=n_jobs))])
    whole = _join([one.places for one in samples])
    return Sample(begin, rank[keep], _take(whole, order[keep]))


def _spans(first: Ints, count: Ints) -> Ints:
    """Return the numbers of several spans, one after the other."""
    begin = np.concatenate([[0], np.cumsum(count)])
    return np.repeat(first - begin[:-1], count) + np.arange(begin[-1])


def _take(places: OccurrenceTable, images: Ints) -> OccurrenceTable:
    """Return where features occur on some images, in their order."""
    count = np.diff(places.begin)[images]
    rows = _spans(places.begin[images], count)
    begin = np.concatenate([[0], np.cumsum(count)])
    return OccurrenceTable(begin, places.feature[rows], places.marks[rows], places.size)


def _join(every: Sequence[OccurrenceTable]) -> OccurrenceTable:
    """Return where features occur on the images of several parts, one after the other."""
    count = np.concatenate([np.diff(places.begin) for places in every])
    return OccurrenceTable(
        np.concatenate([[0], np.cumsum(count)]),
        np.concatenate([places.feature for places in every]),
        np.concatenate([places.marks for places in every]),
        every[0].size,
    )
