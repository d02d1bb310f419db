"""Measures on the campus: errors on the views learned from and on new ones.

A vote of nearest neighbours estimates how much descriptors tell, without a policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.data.images import Image
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.envs.campus.graph_world import CAMPUS
from rlvc.envs.photos.views import Views
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.learning.database import Database
from rlvc.learning.rlvc import RLVC
from rlvc.policies.forest import ForestPolicy
from rlvc.policies.values import greedy
from rlvc.runs.direct_perception import TabularPolicy
from rlvc.runs.forest import forest_values
from rlvc.vision.keypoints import Keypoints, first_points

ERRORS: Final = {"learn": "train_error", "test": "test_error"}  # the names by division
BLOCK: Final = 256  # descriptors whose neighbours are searched at a time


@dataclass(frozen=True, slots=True)
class Division:
    """The views of one division, and the keypoints extracted from them.

    Attributes:
        state: (n,) the state that each view shows.
        number: (n,) the number of its percept.
        percepts: The distinct views.
        keypoints: Their keypoints.
    """

    state: Ints
    number: Ints
    percepts: Percepts
    keypoints: Keypoints

    def index(self, database: Database) -> FeatureIndex:
        """Return the index of the distinct views, for the features of a database."""
        return database.index_of(self.percepts, keypoints=[self.keypoints])

    def incidence(self, database: Database) -> Incidence:
        """Return which features of a database each view exhibits."""
        return self.index(database).incidence.take(self.number)

    def is_optimal(self, forest: ForestPolicy, database: Database) -> Bools:
        """Return for each view whether the action of a forest is optimal."""
        actions = greedy(*forest_values(forest, self.index(database)))
        return CAMPUS.is_optimal(actions[self.number], self.state)


def division_of(views: Views, name: str) -> tuple[Ints, Iterator[Image]]:
    """Return the states of the views of one division, and the views."""
    pairs = [(s, view) for s, numbers in enumerate(views.division(name)) for view in numbers]
    states = np.asarray([state for state, _ in pairs], np.int64)
    return states, (views.image(state, view) for state, view in pairs)


def share_by_state(is_optimal: Bools, state: Ints) -> Floats:
    """Return the (n_states,) share of the views of each state on which an action is optimal."""
    return np.bincount(state, is_optimal) / np.bincount(state)


def error_of(actions: Ints, states: Ints) -> float:
    """Return the share of actions that are not optimal in their states."""
    return float(1.0 - CAMPUS.is_optimal(actions, states).mean())


def direct_error(data: Interactions, learner: RLVC) -> float:
    """Return the share of states in which tabular learning on the true state is not optimal."""

    def cell(states: Floats) -> Ints:
        return states.astype(np.int64).ravel()

    table = TabularPolicy.learn(data, cell, CAMPUS.n_states, learner)
    return error_of(table.action, np.arange(CAMPUS.n_states))


def vote(keypoints: Keypoints, label: Ints, query: Keypoints) -> Ints:
    """Return the label that most descriptors of each image vote for.

    A descriptor votes for the label of the image that has the nearest descriptor, in Euclidean
    distance. Ties go to the first descriptor and to the lowest label. An image without descriptors
    gets the label 0, as do all images if there are no descriptors to learn from.

    Args:
        keypoints: The keypoints of the images to learn from.
        label: (n_images,) their labels.
        query: The keypoints of the images to label.
    """
    if len(keypoints.row) == 0:
        return np.zeros(query.n_images, np.int64)
    image = np.repeat(np.arange(len(label)), np.diff(keypoints.begin))
    known = label[image[first_points(keypoints.row)]]
    nearest = _nearest(query.descriptors, keypoints.descriptors)
    votes = np.zeros((query.n_images, label.max() + 1), np.int64)
    voter = np.repeat(np.arange(len(votes)), np.diff(query.begin))
    np.add.at(votes, (voter, known[nearest[query.row]]), 1)
    return np.asarray(votes.argmax(axis=1))


def _nearest(rows: NDArray[np.generic], centres: NDArray[np.generic]) -> Ints:
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
