"""A database that lies in parts, as learning has it: it asks all parts, and adds up what they say.

Who learns asks only for sums and samples; what percepts show is with the parts.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.fixed_point import Scale
from rlvc.classifiers.base import Classifier, Split
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import AtLeast, Feature
from rlvc.learning.aliasing import ResidualSums
from rlvc.learning.database import Database, scale_of, variance_of_returns
from rlvc.learning.generation.base import Candidates, Canonical, GeneratorState
from rlvc.learning.generation.composites import Composer, News
from rlvc.learning.generation.sampling import Sample, merge_samples
from rlvc.learning.make_policy import Spot
from rlvc.learning.mdp import MappedMDP, MappedSequence, estimate_from
from rlvc.learning.selection.selector import Selector, SplitChoice
from rlvc.learning.selection.sums import merge
from rlvc.learning.shard import Glass, Values
from rlvc.learning.surrogates import Company, Shares, Surrogates
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.keypoints import Keypoints

NUMBERS = itertools.count()  # of questions, so that parts can tell one from those before


class Team(Protocol):
    """Those who have the parts."""

    def ask(self, question: str, *more: Any) -> list[Any]:
        """Return what each part answers, in the order of the parts.

        Args:
            question: The name of a method of :class:`rlvc.learning.shard.Part`.
            more: Its arguments.
        """
        ...


@dataclass(frozen=True, slots=True)
class Spread:
    """Interactions whose percepts were looked at, and what was seen, in parts.

    Attributes:
        interactions: ⟨s, a, r, s′⟩, percepts by number.
        extractor: Who looked.
        graph: The features known so far.
        team: Those who have the parts.
        n_symbols: How many features are symbols, the first ones.
        bring: Brings it into the memory of this process.
    """

    interactions: Interactions
    extractor: FeatureExtractor
    graph: FeatureGraph
    team: Team
    n_symbols: int
    bring: Callable[[], Database]

    @property
    def extra(self) -> tuple[Feature, ...]:
        """The features beside symbols."""
        return self.graph.features[self.n_symbols :]

    def variance(self, gamma: float) -> float:
        """Return the variance of the discounted returns."""
        scale = Scale.of(self.interactions.reward)
        return variance_of_returns(self.team.ask("returns", gamma, scale), gamma, scale)

    def through(
        self, classifier: Classifier, absorbing_gamma: float | None = None, threads: int = 1
    ) -> SpreadView:
        """Return the interactions as a classifier shows them; parts have threads of their own."""
        scale = scale_of(self.interactions.reward, absorbing_gamma)
        glass = Glass(next(NUMBERS), self.extra, classifier, absorbing_gamma, scale)
        tallies = self.team.ask("tally", glass)

        def again() -> MappedSequence:
            return _concatenate(self.team.ask("sequence", glass))

        mdp = estimate_from(tallies, self.interactions.n_actions, scale, again)
        return SpreadView(self, glass, mdp)

    def map(self, classifier: Classifier, absorbing_gamma: float | None = None) -> MappedMDP:
        """Return the MDP that a classifier makes of the interactions."""
        return self.through(classifier, absorbing_gamma).mdp

    def classes(self, classifier: Classifier) -> Ints:
        """Return the (n_percepts,) visual classes of the percepts."""
        classes = np.zeros(len(self.interactions.percepts), np.int64)
        for numbers, found in self.team.ask("classes", self.extra, classifier):
            classes[numbers] = found
        return classes

    def usage(self, classifier: Classifier) -> Ints:
        """Return on how many percepts each of the classifier's features is tested."""
        usage: Ints = functools.reduce(operator.add, self.team.ask("usage", self.extra, classifier))
        return usage

    def spots(self, numbers: Sequence[int]) -> list[Spot | None]:
        """Return where some features are first seen; None where they are not."""
        if not numbers:
            return []
        answers = self.team.ask("spots", self.extra, list(numbers))
        every = ([spot for spot in spots if spot] for spots in zip(*answers, strict=True))
        return [min(spots, key=lambda spot: spot.image, default=None) for spots in every]

    def add(self, features: Iterable[Feature]) -> tuple[Spread, list[int]]:
        """Return the database in which some more features are known, and the number of each."""
        graph, numbers = self.graph.add(features)
        return replace(self, graph=graph), numbers

    def index_of(
        self, percepts: Percepts, threads: int = 0, keypoints: list[Keypoints] | None = None
    ) -> FeatureIndex:
        """Return what other percepts show of the features known here; nothing is learned."""
        keypoints = keypoints or ExtractionCache().extract(self.extractor, percepts, threads)
        seen = self.extractor.find_symbols(percepts, keypoints, threads, learn=False)
        return FeatureIndex.of(self.graph, percepts, seen)

    def whole(self) -> Database:
        """Return it in the memory of this process."""
        database = self.bring()
        return database.add(self.graph.features[len(database.graph) :])[0]


@dataclass(frozen=True, slots=True)
class SpreadResiduals:
    """The residuals that parts have, and what they add up to.

    Attributes:
        values: Whose residuals they are.
        sums: Of all parts.
    """

    values: Values
    sums: ResidualSums

    def variances(self) -> Floats:
        """Return σ²(Δ) for every (class, action), in units of reward²; 0 where never tried."""
        return self.sums.variances()

    def rms(self) -> float:
        """Return the root mean square residual, in units of reward."""
        return self.sums.rms()


@dataclass(frozen=True, slots=True)
class SpreadView:
    """A spread database as a classifier shows it.

    Attributes:
        database: The interactions.
        glass: Through what the parts see them.
        mdp: The mapped MDP.
    """

    database: Spread
    glass: Glass
    mdp: MappedMDP

    def residuals(self, q: Floats, gamma: float) -> SpreadResiduals:
        """Return the Bellman residuals of some values."""
        values = Values(next(NUMBERS), q, gamma)
        every = self.database.team.ask("residuals", self.glass, values)
        return SpreadResiduals(values, functools.reduce(operator.add, every))

    def select(
        self,
        offering: GeneratorState,
        selector: Selector,
        residuals: SpreadResiduals,
        is_open: Bools,
        attempt: int,
    ) -> tuple[SplitChoice, Candidates] | None:
        """Return the best feature of every class, and what there was; None if no others are left.

        The arguments are those of :meth:`rlvc.learning.database.Shown.select`.
        """
        if not hasattr(selector, "sums"):
            raise TypeError(
                f"{type(selector).__name__} selects from interactions that are in memory; here "
                "they lie in parts elsewhere. Give it the methods sums and choose that Selector "
                "has, or choose the engine local."
            )
        offer = self._offer(offering, is_open, attempt)
        if offer is None:
            return None
        known, news = offer
        asked = self.glass, residuals.values, selector, is_open, news, known
        sums = merge(self.database.team.ask("sums", *asked), selector.min_samples)
        n_classes, n_actions = residuals.values.q.shape
        choice = selector.choose(
            *sums, residuals.values.q, residuals.sums.fixed, n_classes, n_actions
        )
        new = () if news is None else news.features()
        n = len(self.database.graph) + len(new)
        nobody = Incidence(np.zeros(1, np.int64), np.empty(0, np.int32), n)
        return choice, Candidates(nobody, new)

    def _offer(
        self, offering: GeneratorState, is_open: Bools, attempt: int
    ) -> tuple[bool, News | None] | None:
        """Return whether the features known so far are candidates, and what is new."""
        if isinstance(offering, Composer):
            crowd = _Crowd(
                self.database.team, self.glass, len(self.database.interactions.percepts.cameras)
            )
            return offering.offer(crowd, self.database.graph, is_open, attempt)
        if isinstance(offering, Canonical):
            return (True, None) if attempt == 0 else None
        raise TypeError(
            f"{type(offering).__name__} offers features from percepts that are in memory; here "
            "they lie in parts elsewhere. Choose the generator canonical or composites, or the "
            "engine local."
        )

    def stand_in(
        self,
        surrogates: Surrogates,
        database: Spread,
        splits: list[Split],
        choice: SplitChoice,
        residuals: SpreadResiduals,
        min_samples: int,
    ) -> list[AtLeast | None]:
        """Return what to test instead of some features; see :meth:`Surrogates.extend`."""
        if not hasattr(surrogates, "stand_in"):
            raise TypeError(
                f"{type(surrogates).__name__} needs interactions that are in memory; here they lie "
                "in parts elsewhere. Give it the method stand_in that Surrogates has, or choose "
                "the engine local."
            )
        witness = _Witness(database.team, self.glass, residuals.values, database.extra)
        n_actions = self.database.interactions.n_actions
        return surrogates.stand_in(splits, choice, database.graph, n_actions, witness, min_samples)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """The parts, to a composer."""

    team: Team
    glass: Glass
    n_cameras: int

    def keys(self) -> Ints:
        keys: Ints = functools.reduce(operator.add, self.team.ask("keys", self.glass))
        return keys

    def sample(self, wanted: list[int], camera: int, seed: int, most: int, height: int) -> Sample:
        asked = self.glass, wanted, camera, seed, most, height
        return merge_samples(self.team.ask("sample", *asked), most)

    def cells(
        self, wanted: list[int], camera: int, levels: int, height: int
    ) -> tuple[Ints, tuple[Ints, Ints, Ints, Ints]]:
        answers = self.team.ask("cells", self.glass, wanted, camera, levels, height)
        n_images: Ints = functools.reduce(operator.add, (n for n, _ in answers))
        job, feature, cell, shown = (
            np.concatenate(column) for column in zip(*(c for _, c in answers), strict=True)
        )
        return n_images, (job, feature, cell, shown)


@dataclass(frozen=True, slots=True)
class _Witness:
    """The parts, to surrogates."""

    team: Team
    glass: Glass
    values: Values
    extra: tuple[Feature, ...]

    def company(self, pairs: Sequence[tuple[int, int]]) -> list[Company]:
        if not pairs:
            return []
        answers = self.team.ask("company", self.glass, self.extra, pairs)
        return [functools.reduce(operator.add, every) for every in zip(*answers, strict=True)]

    def tallies(self, asked: Sequence[tuple[int, Ints]]) -> list[Shares]:
        if not asked:
            return []
        answers = self.team.ask("tallies", self.glass, self.values, self.extra, asked)
        every = (zip(*one, strict=True) for one in zip(*answers, strict=True))
        return [(sum(next(columns)), sum(next(columns))) for columns in every]


def _concatenate(every: list[MappedSequence]) -> MappedSequence:
    """Return the sequence of all parts, one after the other."""
    names = ("start", "action", "reward", "end", "terminated", "is_last")
    return MappedSequence(*(np.concatenate([getattr(s, name) for s in every]) for name in names))
