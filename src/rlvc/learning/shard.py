"""What one worker holds of a database, and what it adds up of it.

All that a part is asked for are sums of whole numbers, small samples, or single places; the sums of
all parts, added up, are those of the whole. A question says all that is needed to answer it, so
that a worker which is new can answer like the one that it replaces. What was worked out for the
question before is kept for the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.fixed_point import Scale
from rlvc.classifiers.base import Classifier
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import PerceptPlaceholders
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import Feature, Primitive
from rlvc.features.occurrences import OccurrenceTable
from rlvc.learning.aliasing import Residuals, ResidualSums, bellman_residuals
from rlvc.learning.database import Database, EffectiveTransitions, Sums, sum_returns
from rlvc.learning.generation.cells import Cells
from rlvc.learning.generation.class_images import (
    Block,
    ClassImages,
    Made,
    Share,
    assemble,
    sum_keys,
)
from rlvc.learning.generation.composites import News, locate, may_be_part, show_located
from rlvc.learning.generation.pairs import Pairs, show
from rlvc.learning.generation.sampling import Sample, cut_sample
from rlvc.learning.make_policy import Spot, first_spot
from rlvc.learning.mdp import MappedSequence, TransitionCounts
from rlvc.learning.selection.selector import Selector
from rlvc.learning.selection.sums import Candidates, GroupSums
from rlvc.learning.surrogates import Company, Shares, company_of, tallies_of
from rlvc.vision.extractor import FeatureExtractor

if TYPE_CHECKING:
    from rlvc.distributed.disk import About, ShardData


@dataclass(frozen=True, slots=True)
class Facts:
    """What all parts of a database have in common.

    Attributes:
        features: The symbols of all cameras.
        cameras: The names of the cameras.
        n_images: How many images each of them has, over all parts.
        n_actions: How many actions there are.
    """

    features: tuple[Feature, ...]
    cameras: tuple[str, ...]
    n_images: tuple[int, ...]
    n_actions: int

    @classmethod
    def of(cls, about: About) -> Facts:
        """Return what the description of a dataset of shards says."""
        cameras = about.cameras
        return cls(
            tuple(Primitive(one.name, symbol) for one in cameras for symbol in range(one.symbols)),
            tuple(one.name for one in cameras),
            tuple(one.images for one in cameras),
            about.n_actions,
        )


@dataclass(frozen=True, slots=True)
class Glass:
    """Through what a database is seen.

    Attributes:
        number: Tells this one from those before.
        extra: The features that are known beside symbols.
        classifier: From what percepts exhibit to visual classes.
        absorbing_gamma: See :func:`rlvc.learning.database.map_interactions`.
        scale: Of the rewards of all parts.
    """

    number: int
    extra: tuple[Feature, ...]
    classifier: Classifier
    absorbing_gamma: float | None
    scale: Scale


@dataclass(frozen=True, slots=True)
class Values:
    """The values whose residuals are asked for.

    Attributes:
        number: Tells these from those before.
        q: (n_classes, n_actions) the values.
        gamma: The discount factor.
    """

    number: int
    q: Floats
    gamma: float


class Part:
    """Some whole episodes of a database, and what their percepts show.

    Args:
        data: What the part has.
        facts: What all parts have in common.
        threads: How many threads to use; no answer depends on it.
    """

    def __init__(self, data: ShardData, facts: Facts, threads: int = 1) -> None:
        graph = FeatureGraph(facts.features)
        places = []
        for camera, images in zip(facts.cameras, data.images, strict=True):
            feature = graph.symbols(camera)[images.symbol]
            places.append(OccurrenceTable(images.begin, feature, images.marks, images.size))
        interactions = Interactions(
            PerceptPlaceholders(len(data.percepts)), data.start, data.action, data.reward, data.end,
            data.episode, data.terminated, data.truncated, facts.n_actions,
        )  # fmt: skip
        index = FeatureIndex.at(graph, facts.cameras, tuple(places), data.table)
        self._base = Database(interactions, index, BLIND)
        self._facts, self._threads = facts, threads
        self._stuck, self._is_first, self._percepts = data.stuck, data.is_first, data.percepts
        self._images = [images.numbers for images in data.images]
        self._grown: list[tuple[tuple[Feature, ...], Database]] = [((), self._base)]
        self._seen: tuple[int, Ints, MappedSequence] | None = None
        self._residuals: tuple[int, Residuals] | None = None
        self._ranks: tuple[int, list[Ints]] | None = None
        self._joined: tuple[dict[int, Feature], tuple[OccurrenceTable, ...]] | None = None
        self._table = data.table
        self._blocks: dict[tuple[int, ...], Block] = {}

    def returns(self, gamma: float, scale: Scale) -> Sums:
        """Return the sums of the discounted returns."""
        return sum_returns(self._base.interactions, gamma, scale)

    def tally(self, glass: Glass) -> TransitionCounts:
        """Return what the mapped MDP is estimated from."""
        _, sequence = self._look(glass)
        n_classes, n_actions = glass.classifier.n_classes, self._facts.n_actions
        return TransitionCounts.of(sequence, n_classes, n_actions, glass.scale)

    def sequence(self, glass: Glass) -> MappedSequence:
        """Return the interactions as the classes of their percepts: no sum, and large."""
        return self._look(glass)[1]

    def residuals(self, glass: Glass, values: Values) -> ResidualSums:
        """Return the count, the sum and the sum of squares of the residuals of every pair."""
        return self._differ(glass, values).sums()

    def keys(self, glass: Glass) -> Ints:
        """Return the part that this part's percepts have in what tells classes apart."""
        classes = self._look(glass)[0][self._is_first]
        numbers = self._percepts[self._is_first]
        return sum_keys(classes, glass.classifier.n_classes, numbers)

    def sample(
        self, glass: Glass, wanted: list[int], camera: int, seed: int, most: int, height: int
    ) -> Sample:
        """Return the first images of some classes, in an order drawn by a seed.

        Args:
            glass: Through what percepts are seen.
            wanted: The classes, in ascending order.
            camera: Which camera.
            seed: Of the order, which is that of all images of all parts.
            most: How many images of a class.
            height: The greatest height of composites, whose parts are lower.
        """
        classes, _ = self._look(glass)
        database = self._known(glass.extra)
        rank = self._rank(seed)[camera]
        image, order = self._table[:, camera], np.argsort(rank)
        jobs = ClassImages.of(classes, glass.classifier.n_classes, wanted, image, order)
        return cut_sample(jobs, rank, self._places(database, height)[camera], most)

    def cells(
        self, glass: Glass, wanted: list[int], camera: int, levels: int, height: int
    ) -> tuple[Ints, tuple[Ints, Ints, Ints, Ints]]:
        """Return how many images some classes have, and how many show what in which cell.

        Args:
            glass: Through what percepts are seen.
            wanted: The classes, in ascending order.
            camera: Which camera.
            levels: Of the pyramid of grids.
            height: The greatest height of composites, whose parts are lower.
        """
        classes, _ = self._look(glass)
        database = self._known(glass.extra)
        places = self._places(database, height)[camera]
        image, order = self._table[:, camera], np.arange(places.n_images)
        jobs = ClassImages.of(classes, glass.classifier.n_classes, wanted, image, order)
        is_part = may_be_part(database.graph, height)
        counted = locate(levels, jobs, places, is_part, slice(0, len(wanted)))
        return np.diff(jobs.begin), counted

    def sums(
        self,
        glass: Glass,
        values: Values,
        selector: Selector,
        is_open: Bools,
        offer: News | None,
        known: bool,
    ) -> tuple[GroupSums, Candidates]:
        """Return the sums of every class, action and feature.

        Args:
            glass: Through what percepts are seen.
            values: Whose residuals they are.
            selector: Who chooses.
            is_open: (n_classes,) the classes that count.
            offer: New features, if there are any.
            known: Whether the features known so far are candidates as well.
        """
        classes, _ = self._look(glass)
        database = self._known(glass.extra)
        n = len(database.graph)
        incidence = database.incidence if known else _nothing(len(classes), n)
        if offer is not None:
            incidence = incidence.append(self._show(database, offer, classes, is_open))
        start = database.interactions.start
        residuals = self._differ(glass, values)
        return selector.sums(residuals, start, incidence, is_open, self._threads)

    def company(
        self, glass: Glass, extra: tuple[Feature, ...], pairs: Sequence[tuple[int, int]]
    ) -> list[Company]:
        """Return for pairs of a class and a feature the company in which that is seen here.

        ``extra`` are the features that are known by now, which may be more than when the classes
        were looked at.
        """
        classes, _ = self._look(glass)
        return company_of(self._known(extra).incidence, classes, pairs, self._is_first)

    def tallies(
        self,
        glass: Glass,
        values: Values,
        extra: tuple[Feature, ...],
        asked: Sequence[tuple[int, Ints]],
    ) -> list[Shares]:
        """Return for groups how many of some features are exhibited here."""
        residuals = self._differ(glass, values)
        database = self._known(extra)
        return tallies_of(database.incidence, residuals, database.interactions.start, asked)

    def classes(self, extra: tuple[Feature, ...], classifier: Classifier) -> tuple[Ints, Ints]:
        """Return the percepts that no part before has, and their classes."""
        classes = self._known(extra).classes(classifier)
        return self._percepts[self._is_first], classes[self._is_first]

    def usage(self, extra: tuple[Feature, ...], classifier: Classifier) -> Ints:
        """Return on how many percepts that no part before has each feature is tested."""
        own = self._known(extra).incidence.take(np.flatnonzero(self._is_first))
        return classifier.usage(own)

    def spots(self, extra: tuple[Feature, ...], numbers: Sequence[int]) -> list[Spot | None]:
        """Return where some features are first seen here, on images by their number in all."""
        index = self._known(extra).index
        found = list[Spot | None]()
        for number in numbers:
            spot = first_spot(index, number)
            if spot is not None:
                images = self._images[index.cameras.index(index.graph.camera[number])]
                spot = Spot(int(images[spot.image]), spot.x, spot.y, spot.scale)
            found.append(spot)
        return found

    def _known(self, extra: tuple[Feature, ...]) -> Database:
        """Return the database in which some more features are known.

        Those of the stages before are kept, of which policies may be made later; each has but a few
        more features than the one before.
        """
        known, database = next(
            one for one in reversed(self._grown) if extra[: len(one[0])] == one[0]
        )
        if len(known) < len(extra):
            database, _ = database.add(extra[len(known) :])
            same = [one for one in self._grown if extra[: len(one[0])] == one[0]]
            self._grown = [*same, (extra, database)]  # the others are of another run
        return database

    def _look(self, glass: Glass) -> tuple[Ints, MappedSequence]:
        """Return the classes of the percepts, and the interactions as these."""
        if self._seen is None or self._seen[0] != glass.number:
            interactions = self._base.interactions
            transitions = self._base.once(
                glass.absorbing_gamma,
                lambda: EffectiveTransitions.of(interactions, glass.absorbing_gamma, self._stuck),
            )
            classes = self._known(glass.extra).classes(glass.classifier, self._threads)
            self._seen = glass.number, classes, transitions.map(interactions, classes)
            self._residuals = None
        return self._seen[1:]

    def _differ(self, glass: Glass, values: Values) -> Residuals:
        """Return the residuals of the interactions."""
        _, sequence = self._look(glass)
        if self._residuals is None or self._residuals[0] != values.number:
            found = bellman_residuals(sequence, values.q, values.gamma, glass.scale, self._threads)
            self._residuals = values.number, found
        return self._residuals[1]

    def _rank(self, seed: int) -> list[Ints]:
        """Return where each image of this part stands in the order of all images of its camera."""
        if self._ranks is None or self._ranks[0] != seed:
            rng = np.random.default_rng(seed)
            ranks = []
            for n, numbers in zip(self._facts.n_images, self._images, strict=True):
                rank = np.empty(n, np.int64)
                rank[rng.permutation(n)] = np.arange(n)
                ranks.append(rank[numbers])
            self._ranks = seed, ranks
        return self._ranks[1]

    def _places(self, database: Database, height: int) -> tuple[OccurrenceTable, ...]:
        """Return where features that may be parts of composites occur."""
        index = database.index
        if height == 1:
            return index.places
        numbers = np.flatnonzero(may_be_part(database.graph, height)).tolist()
        # Not how many alone: who learns beside may have as many others.
        parts = {n: database.graph[n] for n in numbers if n >= len(self._facts.features)}
        if self._joined is None or self._joined[0] != parts:
            self._joined = parts, index.places_of(numbers, {})
            self._blocks = {}
        return self._joined[1]

    def _show(self, database: Database, offer: News, classes: Ints, is_open: Bools) -> Incidence:
        """Return which percepts exhibit new features, numbered after those of the database."""
        n = len(database.graph)
        whole = _nothing(len(classes), n)
        wanted = np.flatnonzero(is_open).tolist()
        every_place = self._places(database, offer.height)
        kept: dict[tuple[int, ...], Block] = {}
        for kind, one in enumerate(offer.kinds):
            names = [(kind, *key) for key in one.keys]
            missing = [i for i, name in enumerate(names) if name not in self._blocks]
            if missing:
                places = every_place[one.camera]
                image, order = self._table[:, one.camera], np.arange(places.n_images)
                chosen = [wanted[i] for i in missing]
                jobs = ClassImages.of(classes, len(is_open), chosen, image, order)
                work = partial(_show, one.made, missing, jobs, places, n)
                blocks, _ = jobs.share(work, self._threads)
                self._blocks |= {names[i]: b for i, b in zip(missing, blocks, strict=True)}
            ours = [self._blocks[name] for name in names]
            kept |= dict(zip(names, ours, strict=True))
            whole = whole.append(assemble(ours, classes, is_open, whole.n_features))
        self._blocks = kept
        return whole


def _show(
    made: Sequence[Made],
    some: list[int],
    jobs: ClassImages,
    places: OccurrenceTable,
    n: int,
    span: slice,
) -> Share:
    """Return which images of some classes exhibit the new features of their class."""
    pairs = [one for i in some if isinstance(one := made[i], Pairs)]
    if pairs:
        return show(Pairs.concatenate(pairs), jobs, places, n, span)
    cells = [one for i in some if isinstance(one := made[i], Cells)]
    return show_located(cells, jobs, places, n, span)


class _Nobody:
    """Stands for a detector, a descriptor and a metric where nobody looks."""


BLIND = FeatureExtractor(*(_Nobody(),) * 3, 0.0)  # type: ignore[arg-type]


def _nothing(n_percepts: int, n_features: int) -> Incidence:
    """Return a matrix in which no percept exhibits a feature."""
    return Incidence(np.zeros(n_percepts + 1, np.int64), np.empty(0, np.int32), n_features)
