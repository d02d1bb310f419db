"""What a classifier makes of a database: all that a stage and its parts may ask for."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.learning.aliasing import ResidualSums
from rlvc.learning.generation.base import Candidates
from rlvc.learning.generation.sampling import CellCounts, Sample, merge_samples
from rlvc.learning.mdp import MappedMDP
from rlvc.learning.selection.selector import FeatureSelector, SplitChoice
from rlvc.learning.shard import Shard, ViewSpec
from rlvc.learning.surrogates import Cooccurrence, Group, Tally

if TYPE_CHECKING:
    from rlvc.learning.database import Database

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class View:
    """A database as a classifier shows it: all that a stage and its parts ask for.

    Attributes:
        database: The interactions.
        spec: How they are viewed.
        mdp: The mapped MDP.
    """

    database: Database
    spec: ViewSpec
    mdp: MappedMDP

    @property
    def graph(self) -> FeatureGraph:
        """The features known so far."""
        return self.database.graph

    @property
    def n_cameras(self) -> int:
        """How many cameras there are."""
        return len(self.database.interactions.percepts.cameras)

    @property
    def threads(self) -> int:
        """How many threads to use; no result may depend on it."""
        return self.spec.threads

    @property
    def source(self) -> object:
        """Whose percepts they are: only those of the same source have the same numbers."""
        return self.database.client

    @property
    def index(self) -> FeatureIndex:
        """What the percepts show of the features known so far; of one shard in this process."""
        return self.database.index

    @property
    def classes(self) -> Ints:
        """(n_percepts,) the visual class of each percept."""
        return self.database.classes(self.spec.classifier, self.threads)

    def residuals(self, q: Floats, gamma: float) -> ResidualSums:
        """Return the sums of the Bellman residuals of some values."""
        return add_up(self.database.client.ask(Shard.sum_residuals, self.spec, q, gamma))

    def select(
        self,
        selector: FeatureSelector,
        candidates: Candidates,
        residuals: ResidualSums,
        is_open: Bools,
    ) -> SplitChoice:
        """Return the best candidate of every class.

        Args:
            selector: What chooses.
            candidates: The features to choose from.
            residuals: What :meth:`residuals` returned.
            is_open: (n_classes,) the classes to split.
        """
        asked = self.spec, residuals.q, residuals.gamma, selector, candidates, is_open
        return selector.choose(self.database.client.ask(Shard.measure, *asked), residuals)

    def class_keys(self) -> Ints:
        """Return (n_classes, 3) what tells sets of percepts apart: their size and two hashes."""
        return add_up(self.database.client.ask(Shard.class_keys, self.spec))

    def sample(self, wanted: list[int], camera: int, seed: int, most: int, height: int) -> Sample:
        """Return the first images of some classes, in an order of all images that a seed draws.

        Args:
            wanted: The classes, in ascending order.
            camera: The number of the camera.
            seed: Of the order.
            most: How many images of each class are needed; there may be more.
            height: The height of composites: those that are lower are among what images show.
        """
        client = self.database.client
        if client.shard is not None:  # there is nothing to send, so nothing is copied
            return client.shard.sample(self.spec, wanted, camera, seed, height)
        asked = self.spec, wanted, camera, seed, most, height
        return merge_samples(client.ask(Shard.cut_sample, *asked), most)

    def count_cells(self, wanted: list[int], camera: int, levels: int, height: int) -> CellCounts:
        """Return how many images of some classes show which feature in which cell of a grid."""
        asked = self.spec, wanted, camera, levels, height
        answers = self.database.client.ask(Shard.count_cells, *asked)
        n_images, rows = zip(*answers, strict=True)
        return CellCounts(add_up(n_images), np.concatenate(rows))


@dataclass(frozen=True, slots=True)
class SplitStatistics:
    """What surrogates may ask about the percepts of classes and the residuals of interactions.

    Attributes:
        view: The database as a classifier shows it.
        database: The same, with the features known by which classes are split.
        residuals: Of the interactions.
    """

    view: View
    database: Database
    residuals: ResidualSums

    @property
    def graph(self) -> FeatureGraph:
        """The features, those that split classes among them."""
        return self.database.graph

    def cooccurrences(self, pairs: Sequence[tuple[int, int]]) -> list[Cooccurrence]:
        """Return what occurs together, for pairs of a class and a feature."""
        asked = self.view.spec, self.database.known, pairs
        answers = self.database.client.ask(Shard.cooccurrences, *asked)
        return [add_up(one) for one in zip(*answers, strict=True)]

    def tallies(self, asked: Sequence[Group]) -> list[Tally]:
        """Return how many of some features are exhibited in each of some groups.

        The result for a group and m features are two arrays of m + 1: the interactions in which the
        percept exhibits so many of them, and the sum of their residuals.
        """
        answers = self.database.client.ask(
            Shard.tallies, self.view.spec, self.database.known, self.residuals.q,
            self.residuals.gamma, asked,
        )  # fmt: skip
        return [
            (add_up([n for n, _ in one]), add_up([total for _, total in one]))
            for one in zip(*answers, strict=True)
        ]


def add_up(answers: Sequence[R]) -> R:
    """Return the sum of the answers of all shards."""
    return functools.reduce(operator.add, answers)
