"""The database to learn from.

Its percepts are in shards. It asks all of them the same questions and adds up their answers;
usually there is one shard, in this process.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from rlvc._core.arrays import Ints
from rlvc._core.fixed_point import Scale
from rlvc.classifiers.base import Classifier
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import Feature
from rlvc.learning.aliasing import variance_of_returns
from rlvc.learning.mdp import MappedMDP, MappedSequence, estimate_from
from rlvc.learning.shard import KnownFeatures, Shard, Spot, ViewSpec
from rlvc.learning.view import View, add_up
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.keypoints import Keypoints

P = ParamSpec("P")
R = TypeVar("R")

_NUMBERS = itertools.count()  # of views, by which shards recognize them


class ShardClient(Protocol):
    """Asks the shards of a database, wherever they are."""

    @property
    def n_base(self) -> int:
        """The number of features that every shard has from the start."""
        ...

    @property
    def shard(self) -> Shard | None:
        """The only shard, if it is in this process; else None."""
        ...

    def ask(
        self, question: Callable[Concatenate[Shard, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> list[R]:
        """Return the answers of all shards, in order, to a method of :class:`Shard`."""
        ...

    def gather(self) -> Shard:
        """Return all shards as a single one in this process."""
        ...


@dataclass(frozen=True, slots=True)
class LocalShard:
    """The client of the only shard, in this process."""

    shard: Shard

    @property
    def n_base(self) -> int:
        """The number of features that it has from the start."""
        return len(self.shard.base.graph)

    def ask(
        self, question: Callable[Concatenate[Shard, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> list[R]:
        """Return its answer."""
        return [question(self.shard, *args, **kwargs)]

    def gather(self) -> Shard:
        """Return the shard."""
        return self.shard


@dataclass(frozen=True, slots=True)
class Database:
    """Interactions, and the features of their percepts.

    Attributes:
        interactions: ⟨s, a, r, s′⟩, percepts by number.
        extractor: The extractor of the percepts' symbols.
        graph: The features known so far.
        client: Asks the shards, which know the features of each percept.
    """

    interactions: Interactions
    extractor: FeatureExtractor
    graph: FeatureGraph
    client: ShardClient

    @classmethod
    def of(
        cls, interactions: Interactions, index: FeatureIndex, extractor: FeatureExtractor
    ) -> Database:
        """Return a database in the memory of this process.

        Args:
            interactions: ⟨s, a, r, s′⟩, percepts by number.
            index: The features of the percepts.
            extractor: The extractor of their symbols.
        """
        return cls(interactions, extractor, index.graph, LocalShard(Shard(interactions, index)))

    @property
    def known(self) -> KnownFeatures:
        """The features, for questions to shards."""
        return KnownFeatures(self.graph, self.client.n_base)

    @property
    def index(self) -> FeatureIndex:
        """The features of the percepts.

        Raises:
            TypeError: The percepts are in several shards, or in another process.
        """
        return _only_shard(self.client).index_of(self.known)

    @property
    def incidence(self) -> Incidence:
        """Which percept exhibits which feature; as :attr:`index`, of a shard in this process."""
        return self.index.incidence

    def variance(self, gamma: float) -> float:
        """Return the variance of the discounted returns: the scale of aliasing."""
        scale = Scale.of(self.interactions.reward)
        return variance_of_returns(self.client.ask(Shard.sum_returns, gamma, scale), gamma, scale)

    def view(
        self, classifier: Classifier, absorbing_gamma: float | None = None, threads: int = 1
    ) -> View:
        """Return the view of the database under a classifier.

        Args:
            classifier: Maps the features of percepts to visual classes.
            absorbing_gamma: See :func:`rlvc.learning.mdp.map_interactions`.
            threads: The number of threads to use; no result depends on it.
        """
        interactions, client = self.interactions, self.client
        scale = Scale.of(interactions.reward)
        if absorbing_gamma is not None:  # some rewards may repeat forever
            scale = replace(scale, largest=scale.largest / (1.0 - absorbing_gamma))
        spec = ViewSpec(next(_NUMBERS), self.known, classifier, absorbing_gamma, scale, threads)
        counts = add_up(client.ask(Shard.count_transitions, spec))
        load = functools.partial(_load_sequence, client, spec)
        return View(self, spec, estimate_from(counts, interactions.n_actions, scale, load))

    def map(self, classifier: Classifier, absorbing_gamma: float | None = None) -> MappedMDP:
        """Return the mapped MDP under a classifier."""
        return self.view(classifier, absorbing_gamma).mdp

    def classes(self, classifier: Classifier, threads: int = 1) -> Ints:
        """Return the (n_percepts,) visual classes of the percepts, for any number of threads."""
        answers = self.client.ask(Shard.classes, self.known, classifier, threads)
        if len(answers) == 1:
            return answers[0][1]
        classes = np.zeros(len(self.interactions.percepts), np.int64)
        for numbers, found in answers:
            classes[numbers] = found
        return classes

    def usage(self, classifier: Classifier) -> Ints:
        """Return the number of percepts on which each of the classifier's features is tested."""
        return add_up(self.client.ask(Shard.usage, self.known, classifier))

    def spots(self, numbers: Sequence[int]) -> list[Spot | None]:
        """Return where some features first occur; None for those that never do."""
        if not numbers:
            return []
        answers = self.client.ask(Shard.spots, self.known, numbers)
        found = ([spot for spot in spots if spot] for spots in zip(*answers, strict=True))
        return [min(spots, key=lambda spot: spot.image, default=None) for spots in found]

    def add(self, features: Iterable[Feature]) -> tuple[Database, list[int]]:
        """Return the database with more features, and their numbers."""
        graph, numbers = self.graph.add(features)
        return replace(self, graph=graph), numbers

    def gather(self) -> Database:
        """Return the database in the memory of this process; itself if it is there."""
        if self.client.shard is not None:
            return self
        return replace(self, client=LocalShard(self.client.gather()))

    def index_of(
        self, percepts: Percepts, threads: int = 0, keypoints: list[Keypoints] | None = None
    ) -> FeatureIndex:
        """Return the index of other percepts, for the features known here; none are learned."""
        keypoints = keypoints or ExtractionCache().extract(self.extractor, percepts, threads)
        seen = self.extractor.find_symbols(percepts, keypoints, threads, learn=False)
        return FeatureIndex.of(self.graph, percepts, seen)


def _only_shard(client: ShardClient) -> Shard:
    """Return the only shard, or raise an error if it is not in this process."""
    if client.shard is None:
        raise TypeError(
            "The percepts of this database are in shards elsewhere, but this needs all of them in "
            "the memory of this process. Choose the engine local, or a part that works with sums, "
            "such as the generators canonical and composites, Selector and Surrogates."
        )
    return client.shard


def _load_sequence(client: ShardClient, spec: ViewSpec) -> MappedSequence:
    """Return the mapped interactions of all shards, one after the other."""
    found = client.ask(Shard.sequence, spec)
    if len(found) == 1:
        return found[0]
    return MappedSequence(*map(np.concatenate, zip(*found, strict=True)))
