"""A vote of nearest neighbours: an estimate of what descriptors tell, without a policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlvc.vision.keypoints import Keypoints

BLOCK = 256  # descriptors whose neighbours are searched at a time


def vote(keypoints: Keypoints, label: NDArray[np.int64], asked: Keypoints) -> NDArray[np.int64]:
    """Return the label that most descriptors of each image vote for.

    A descriptor votes for the label of the image that has the nearest descriptor, in Euclidean
    distance. Ties go to the first descriptor and to the lowest label; an image without
    descriptors gets the label 0, and so do all if there are none to learn from.

    Args:
        keypoints: The keypoints of the images to learn from.
        label: (n_images,) their labels.
        asked: The keypoints of the images to label.
    """
    if len(keypoints.row) == 0:
        return np.zeros(len(asked.begin) - 1, np.int64)
    image = np.repeat(np.arange(len(label)), np.diff(keypoints.begin))
    first = np.unique(keypoints.row, return_index=True)[1]  # a point of each distinct descriptor
    known = label[image[first]]
    nearest = _nearest(asked.descriptors, keypoints.descriptors)
    n_labels = int(label.max()) + 1
    votes = np.zeros((len(asked.begin) - 1, n_labels), np.int64)
    voter = np.repeat(np.arange(len(votes)), np.diff(asked.begin))
    np.add.at(votes, (voter, known[nearest[asked.row]]), 1)
    return np.asarray(votes.argmax(axis=1))


def _nearest(rows: NDArray[np.generic], centres: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return the nearest of the centres for each row."""
    centre = centres.astype(np.float32)
    square = np.einsum("ij,ij->i", centre, centre)
    twice = np.ascontiguousarray(-2.0 * centre.T)
    found = [np.empty(0, np.int64)]
    for begin in range(0, len(rows), BLOCK):
        gap = rows[begin : begin + BLOCK].astype(np.float32) @ twice
        gap += square  # the square of the row's own length is the same for all centres
        found.append(gap.argmin(axis=1))
    return np.concatenate(found)
