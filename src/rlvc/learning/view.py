"""A database under one classifier: all that a stage and its parts can ask for."""

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
from rlvc.learning.generation.sampling import CellCounts, ImageQuery, Sample, merge_samples
from rlvc.learning.mdp import MappedMDP
from rlvc.learning.selection.selector import FeatureSelector, SplitChoice
from rlvc.learning.shard import Shard, ViewSpec
from rlvc.learning.surrogates import Cooccurrence, Tally, TallyRequest

if TYPE_CHECKING:
    from rlvc.learning.database import Database, ShardClient

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class View:
    """A database under one classifier: all that a stage and its parts can ask for.

    Attributes:
        database: The database.
        spec: The classifier and other facts, for questions to shards.
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
        """The number of cameras."""
        return len(self.database.interactions.percepts.cameras)

    @property
    def threads(self) -> int:
        """The number of threads to use; no result may depend on it."""
        return self.spec.threads

    @property
    def client(self) -> ShardClient:
        """The client of the shards; another client has other percepts."""
        return self.database.client

    @property
    def index(self) -> FeatureIndex:
        """The features of the percepts; see :attr:`Database.index`."""
        return self.database.index

    @property
    def classes(self) -> Ints:
        """(n_percepts,) the visual class of each percept."""
        return self.database.classes(self.spec.classifier, self.threads)

    def residuals(self, q: Floats, gamma: float) -> ResidualSums:
        """Return the sums of the Bellman residuals of some values."""
        return add_up(self.client.ask(Shard.sum_residuals, self.spec, q, gamma))

    def select(
        self,
        selector: FeatureSelector,
        candidates: Candidates,
        residuals: ResidualSums,
        is_open: Bools,
    ) -> SplitChoice:
        """Return the best candidate of every class.

        Args:
            selector: The selector.
            candidates: The features to choose from.
            residuals: What :meth:`residuals` returned.
            is_open: (n_classes,) the classes to split.
        """
        asked = self.spec, residuals.q, residuals.gamma, selector, candidates, is_open
        return selector.choose(self.client.ask(Shard.measure, *asked), residuals)

    def class_keys(self) -> Ints:
        """Return (n_classes, 3) keys of the percepts of each class: their number and two hashes."""
        return add_up(self.client.ask(Shard.class_keys, self.spec))

    def sample(self, query: ImageQuery, most: int) -> Sample:
        """Return at least the first ``most`` images of each class, if there are as many."""
        if self.client.shard is not None:  # nothing has to be sent, so nothing is copied
            return self.client.shard.sample(self.spec, query)
        return merge_samples(self.client.ask(Shard.cut_sample, self.spec, query, most), most)

    def count_cells(self, query: ImageQuery, levels: int) -> CellCounts:
        """Count the images of some classes that show each feature in each cell of a grid."""
        answers = self.client.ask(Shard.count_cells, self.spec, query, levels)
        n_images, rows = zip(*answers, strict=True)
        return CellCounts(add_up(n_images), np.concatenate(rows))


@dataclass(frozen=True, slots=True)
class SplitStatistics:
    """Statistics of the percepts of classes and the residuals of interactions, for surrogates.

    Attributes:
        view: The view.
        database: Its database, with the features that split classes.
        residuals: The residuals of the interactions.
    """

    view: View
    database: Database
    residuals: ResidualSums

    @property
    def graph(self) -> FeatureGraph:
        """The features, including those that split classes."""
        return self.database.graph

    def cooccurrences(self, pairs: Sequence[tuple[int, int]]) -> list[Cooccurrence]:
        """Return which features occur together with some, given by class and feature."""
        asked = self.view.spec, self.database.known, pairs
        answers = self.database.client.ask(Shard.cooccurrences, *asked)
        return [add_up(one) for one in zip(*answers, strict=True)]

    def tallies(self, requests: Sequence[TallyRequest]) -> list[Tally]:
        """Return the tally of each request."""
        answers = self.database.client.ask(
            Shard.tallies, self.view.spec, self.database.known, self.residuals.q,
            self.residuals.gamma, requests,
        )  # fmt: skip
        return [
            (add_up([n for n, _ in one]), add_up([total for _, total in one]))
            for one in zip(*answers, strict=True)
        ]


def add_up(answers: Sequence[R]) -> R:
    """Return the sum of the answers of all shards."""
    return functools.reduce(operator.add, answers)
