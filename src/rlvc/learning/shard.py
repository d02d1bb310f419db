"""A shard: some whole episodes of a database, and the features of their percepts.

Questions to a shard ask for sums of integers, small samples, or single occurrences; the sum of the
answers of all shards is the answer of the whole database. Usually there is one shard, in this
process. A question contains all that is needed to answer it, so that a new worker can replace a
lost one; shards cache results for the questions that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.fixed_point import Scale
from rlvc._core.jit import n_threads, share_threads, spans_of
from rlvc.classifiers._nodes import Nodes
from rlvc.classifiers.base import Classifier
from rlvc.data.interactions import Interactions
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import Feature
from rlvc.features.occurrences import Found, OccurrenceTable
from rlvc.learning.aliasing import (
    Residuals,
    ResidualSums,
    ReturnSums,
    bellman_residuals,
    sum_returns,
)
from rlvc.learning.generation.base import Candidates
from rlvc.learning.generation.cells import count_cells
from rlvc.learning.generation.class_images import (
    ClassImages,
    FeatureBlock,
    assemble,
    class_keys,
)
from rlvc.learning.generation.composites import NewFeatures, may_be_part
from rlvc.learning.generation.sampling import CellCounts, ImageQuery, Sample, ShardSample
from rlvc.learning.mdp import EffectiveTransitions, MappedSequence, TransitionCounts
from rlvc.learning.selection.selector import FeatureSelector, Samples
from rlvc.learning.surrogates import Cooccurrence, Tally, TallyRequest, cooccurrences_of, tallies_of


@dataclass(frozen=True, slots=True)
class ClassifiedPercepts:
    """The percepts of a shard in the classes of a view.

    Attributes:
        number: The number of the view.
        classes: (n_percepts,) the visual class of each percept.
        n_classes: The number of classes.
        index: The features of the percepts, as far as known to the view.
        threads: The number of threads to use.
        sequence: The interactions between classes.
    """

    number: int
    classes: Ints
    n_classes: int
    index: FeatureIndex
    threads: int
    sequence: MappedSequence


@dataclass(slots=True)
class ShardFeatures:
    """Answer the questions of generators about the images of a shard, and cache results.

    Attributes:
        table: (n_percepts, n_cameras) the images that make up each percept.
        numbers: For each camera, the number of each image in the whole database.
        n_images: For each camera, the number of images in the whole database.
    """

    table: Ints
    numbers: tuple[Ints, ...]
    n_images: tuple[int, ...]
    _ranks: tuple[int, list[Ints]] = (-1, [])
    _parts: dict[int, Feature] = field(default_factory=dict)
    _found: dict[int, Found] = field(default_factory=dict)
    _places: tuple[OccurrenceTable, ...] = ()
    _images: dict[int, tuple[tuple[int, tuple[int, ...]], int, ClassImages]] = field(
        default_factory=dict
    )
    _blocks: dict[int, dict[int, FeatureBlock]] = field(default_factory=dict)

    def sample(self, percepts: ClassifiedPercepts, query: ImageQuery) -> Sample:
        """Return the images of some classes in a random order; nothing is copied."""
        images = self._images_of(percepts, query)
        places = self._places_of(percepts.index, query.height)[query.camera]
        return Sample(images.begin, images.image, places)

    def cut_sample(self, percepts: ClassifiedPercepts, query: ImageQuery, most: int) -> ShardSample:
        """Return the first images of some classes in that order, to merge with other shards."""
        rank = self._draw_ranks(query.seed)[query.camera]
        return ShardSample.cut(self.sample(percepts, query), rank, most)

    def count_cells(
        self, percepts: ClassifiedPercepts, query: ImageQuery, levels: int
    ) -> CellCounts:
        """Count the images of some classes, and those that show each feature in each cell."""
        images = self._images_of(percepts, query)
        places = self._places_of(percepts.index, query.height)[query.camera]
        is_part = may_be_part(percepts.index.graph, query.height)
        work = partial(count_cells, images, places, is_part, levels)
        spans = spans_of(images.begin, n_threads(percepts.threads))
        found = share_threads(work, spans, percepts.threads)
        return CellCounts(np.diff(images.begin), np.concatenate(found))

    def exhibit(
        self, percepts: ClassifiedPercepts, new: NewFeatures, is_open: Bools
    ) -> list[Incidence]:
        """Return which percepts exhibit new features, numbered after the known ones."""
        n = n_known = len(percepts.index.graph)
        wanted = np.flatnonzero(is_open).tolist()
        places, found = self._places_of(percepts.index, new.height), list[Incidence]()
        for number, kind in enumerate(new.kinds):
            kept, cached = set(kind.kept_ids), self._blocks.get(number, {})
            blocks = {name: block for name, block in cached.items() if name in kept}
            missing = [i for i, name in enumerate(kind.ids) if name not in blocks]
            if missing:
                query = ImageQuery([wanted[i] for i in missing], kind.camera, new.height)
                images = self._images_of(percepts, query)
                features = [kind.features[i] for i in missing]
                made = images.exhibit(features, places[kind.camera], n_known, percepts.threads)
                blocks |= {kind.ids[i]: block for i, block in zip(missing, made, strict=True)}
            self._blocks[number] = blocks
            found.append(assemble([blocks[name] for name in kind.ids], len(percepts.classes), n))
            n = found[-1].n_features
        return found

    def _images_of(self, percepts: ClassifiedPercepts, query: ImageQuery) -> ClassImages:
        """Return the images of some classes.

        They are cached, as a feature composed from images is then searched for on the same images.
        """
        wanted, camera, _, seed = query
        key = percepts.number, tuple(wanted)
        cached_key, cached_seed, images = self._images.get(camera, (None, -1, None))
        if images is None or cached_key != key or seed not in (-1, cached_seed):
            n = len(self.numbers[camera])
            rank = self._draw_ranks(seed)[camera] if seed >= 0 else np.arange(n)
            image = self.table[:, camera]
            images = ClassImages.of(percepts.classes, percepts.n_classes, wanted, image, rank)
            self._images[camera] = key, seed, images
        return images

    def _draw_ranks(self, seed: int) -> list[Ints]:
        """Return the rank of each image in a random order of all images."""
        if self._ranks[0] != seed:
            rng = np.random.default_rng(seed)
            ranks = (np.argsort(rng.permutation(n)) for n in self.n_images)
            numbered = zip(ranks, self.numbers, strict=True)
            self._ranks = seed, [rank[numbers] for rank, numbers in numbered]
        return self._ranks[1]

    def _places_of(self, index: FeatureIndex, height: int) -> tuple[OccurrenceTable, ...]:
        """Return where features that may be parts of composites occur."""
        if height == 1:
            return index.places
        graph = index.graph
        numbers = np.flatnonzero(may_be_part(graph, height)).tolist()
        parts = {n: graph[n] for n in numbers if graph.height[n] > 0}
        if not self._places or parts != self._parts:
            if not self._parts.items() <= parts.items():  # another run numbered other features
                self._found = {}
            self._parts, self._places = parts, index.places_of(parts, self._found)
        return self._places


@dataclass(frozen=True, slots=True)
class ShardNumbers:
    """The numbers of a shard's percepts and images in the whole database.

    Attributes:
        percepts: (n,) the number of each percept, in ascending order.
        is_first: (n,) which percepts no earlier shard has; a full slice for all.
        images: For each camera, the number of each image, in ascending order.
        n_images: For each camera, the number of images in all shards.
        is_stuck: (N,) which interactions lead nowhere, given those of all shards; None if this
            shard has all.
        n_shards: The number of shards.
    """

    percepts: Ints
    is_first: Bools | slice
    images: tuple[Ints, ...]
    n_images: tuple[int, ...]
    is_stuck: Bools | None
    n_shards: int

    @classmethod
    def of_all(cls, index: FeatureIndex) -> ShardNumbers:
        """Return the numbers of the only shard."""
        n_images = tuple(places.n_images for places in index.places)
        images = tuple(np.arange(n) for n in n_images)
        percepts = np.arange(len(index.table))
        return cls(percepts, slice(None), images, n_images, None, 1)


class KnownFeatures:
    """The features of a database; pickled, only those that shards do not have from the start.

    Args:
        graph: All of them.
        n_base: The number of features that every shard has from the start.
    """

    def __init__(self, graph: FeatureGraph, n_base: int) -> None:
        self._graph: FeatureGraph | None = graph
        self.added: tuple[Feature, ...] = graph.features[n_base:]

    def __getstate__(self) -> dict[str, Any]:
        return {"_graph": None, "added": self.added}

    def graph(self, base: FeatureGraph) -> FeatureGraph:
        """Return the graph of these features, given the first graph of a shard."""
        if self._graph is None:
            self._graph, _ = base.add(self.added)
        return self._graph


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """The specification of a view, from which every shard computes its part.

    Attributes:
        number: A unique number, by which shards recognize the view.
        known: The features.
        classifier: Maps the features of percepts to visual classes.
        absorbing_gamma: See :func:`rlvc.learning.mdp.map_interactions`.
        scale: The scale of the rewards of all shards.
        threads: The number of threads to use; no answer depends on it.
    """

    number: int
    known: KnownFeatures
    classifier: Classifier
    absorbing_gamma: float | None
    scale: Scale
    threads: int


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a feature first occurs.

    Attributes:
        image: The number of the image of its camera.
        x: Its x coordinate, in pixels.
        y: Its y coordinate, in pixels.
        scale: Its scale, in pixels.
    """

    image: int
    x: float
    y: float
    scale: float


class Shard:
    """Some whole episodes of a database, and an index of the features of their percepts.

    Args:
        interactions: The interactions, with percepts numbered within the shard.
        index: The features of the percepts.
        numbers: Their numbers in the whole database; None if this is the only shard.

    Attributes:
        interactions: The interactions.
        base: The index of the features that it has from the start.
        threads: The number of threads to use instead of that of a view; None for that of the view.
    """

    def __init__(
        self, interactions: Interactions, index: FeatureIndex, numbers: ShardNumbers | None = None
    ) -> None:
        self.base = index
        self.threads: int | None = None
        self._given = interactions, index, numbers
        self.interactions, self._index = interactions, index
        self._numbers = numbers or ShardNumbers.of_all(index)
        self._features = ShardFeatures(index.table, self._numbers.images, self._numbers.n_images)
        self._transitions: tuple[float | None, EffectiveTransitions] | None = None
        self._classified: tuple[FeatureGraph, Nodes, Ints] | None = None
        self._view: ClassifiedPercepts | None = None
        self._residuals: tuple[int, Residuals] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, self._given  # caches are not pickled

    def index_of(self, known: KnownFeatures, *, is_current: bool = False) -> FeatureIndex:
        """Return the index of some features.

        The last index is cached, as a database grows by a few features at every stage.

        Args:
            known: The features.
            is_current: Whether to cache this index even if the cached one has more features, which
                are then those of another run that began in the same way.
        """
        graph, index = known.graph(self.base.graph), self._index
        if graph is index.graph:
            return index
        n = len(index.graph)
        if graph.features[:n] == index.graph.features:
            self._index = index.extend(graph)
        elif not is_current and graph.features == index.graph.features[: len(graph)]:
            return index.first(graph)  # of an earlier stage
        else:
            self._index = self.base.extend(graph)
        return self._index

    def sum_returns(self, gamma: float, scale: Scale) -> ReturnSums:
        """Return the sums of the discounted returns."""
        return sum_returns(self.interactions, gamma, scale)

    def count_transitions(self, spec: ViewSpec) -> TransitionCounts:
        """Return the counts from which the mapped MDP is estimated."""
        n_classes, n_actions = spec.classifier.n_classes, self.interactions.n_actions
        sequence = self._classify(spec).sequence
        return TransitionCounts.of(sequence, n_classes, n_actions, spec.scale)

    def sequence(self, spec: ViewSpec) -> MappedSequence:
        """Return the interactions between classes; unlike other answers it is large."""
        return self._classify(spec).sequence

    def sum_residuals(self, spec: ViewSpec, q: Floats, gamma: float) -> ResidualSums:
        """Return the count, the sum and the sum of squares of the residuals of every pair."""
        return self._residuals_of(spec, q, gamma).sums

    def class_keys(self, spec: ViewSpec) -> Ints:
        """Return the share of this shard's percepts in the keys of classes."""
        numbers = self._numbers
        classes = self._classify(spec).classes[numbers.is_first]
        return class_keys(classes, spec.classifier.n_classes, numbers.percepts[numbers.is_first])

    def sample(self, spec: ViewSpec, query: ImageQuery) -> Sample:
        """Return the images of some classes in a random order; nothing is copied."""
        return self._features.sample(self._classify(spec), query)

    def cut_sample(self, spec: ViewSpec, query: ImageQuery, most: int) -> ShardSample:
        """Return the first images of some classes in that order, to merge with other shards."""
        return self._features.cut_sample(self._classify(spec), query, most)

    def count_cells(self, spec: ViewSpec, query: ImageQuery, levels: int) -> CellCounts:
        """Count the images of some classes, and those that show each feature in each cell."""
        return self._features.count_cells(self._classify(spec), query, levels)

    def measure(
        self,
        spec: ViewSpec,
        q: Floats,
        gamma: float,
        selector: FeatureSelector,
        candidates: Candidates,
        is_open: Bools,
    ) -> Any:
        """Return the measures of candidates; see :meth:`FeatureSelector.measure`."""
        residuals = self._residuals_of(spec, q, gamma)
        incidence = exhibit(self._features, self._classify(spec), candidates, is_open)
        start, is_all = self.interactions.start, self._numbers.n_shards == 1
        threads = self._n_threads(spec.threads)
        return selector.measure(Samples(residuals, start, incidence, is_open, threads, is_all))

    def cooccurrences(
        self, spec: ViewSpec, known: KnownFeatures, pairs: Sequence[tuple[int, int]]
    ) -> list[Cooccurrence]:
        """Count which features occur together with some, given as pairs of a class and a feature.

        ``known`` may have more features than the view.
        """
        classes, is_first = self._classify(spec).classes, self._numbers.is_first
        incidence, threads = self.index_of(known).incidence, self._n_threads(spec.threads)
        return cooccurrences_of(incidence, classes, pairs, is_first, threads)

    def tallies(
        self,
        spec: ViewSpec,
        known: KnownFeatures,
        q: Floats,
        gamma: float,
        requests: Sequence[TallyRequest],
    ) -> list[Tally]:
        """Return the tally of each request."""
        residuals = self._residuals_of(spec, q, gamma)
        start = self.interactions.start
        return tallies_of(self.index_of(known).incidence, residuals, start, requests)

    def classes(
        self, known: KnownFeatures, classifier: Classifier, threads: int
    ) -> tuple[Ints, Ints]:
        """Return the percepts that no earlier shard has, and their classes."""
        numbers = self._numbers
        classes = self._classes(self.index_of(known), classifier, self._n_threads(threads))
        return numbers.percepts[numbers.is_first], classes[numbers.is_first]

    def usage(self, known: KnownFeatures, classifier: Classifier) -> Ints:
        """Count the percepts that no earlier shard has on which each feature is tested."""
        incidence, is_first = self.index_of(known).incidence, self._numbers.is_first
        if not isinstance(is_first, slice):
            incidence = incidence.take(np.flatnonzero(is_first))
        return classifier.usage(incidence)

    def spots(self, known: KnownFeatures, numbers: Sequence[int]) -> list[Spot | None]:
        """Return where some features first occur, with images as the database numbers them."""
        index, found = self.index_of(known), list[Spot | None]()
        for number in numbers:
            spot, (image, occurrences) = None, index.find(number)
            if len(image):
                images = self._numbers.images[index.cameras.index(index.graph.camera[number])]
                x, y, scale, _ = occurrences[0].tolist()
                spot = Spot(int(images[image[0]]), x, y, scale)
            found.append(spot)
        return found

    def _n_threads(self, asked: int) -> int:
        return asked if self.threads is None else self.threads

    def _classify(self, spec: ViewSpec) -> ClassifiedPercepts:
        """Return the percepts of a view; those of the last view are cached."""
        if self._view is None or self._view.number != spec.number:
            self._view = self._residuals = None  # frees memory before more is needed
            index = self.index_of(spec.known, is_current=True)
            threads = self._n_threads(spec.threads)
            classes = self._classes(index, spec.classifier, threads)
            sequence = self._effective(spec.absorbing_gamma).map(self.interactions, classes)
            self._view = ClassifiedPercepts(
                spec.number, classes, spec.classifier.n_classes, index, threads, sequence
            )
        return self._view

    def _effective(self, gamma: float | None) -> EffectiveTransitions:
        """Return the effective transitions of the interactions; they are cached."""
        cached = self._transitions
        if cached is None or cached[0] != gamma:
            is_stuck = self._numbers.is_stuck
            cached = gamma, EffectiveTransitions.of(self.interactions, gamma, is_stuck)
            self._transitions = cached
        return cached[1]

    def _classes(self, index: FeatureIndex, classifier: Classifier, threads: int) -> Ints:
        """Return the (n_percepts,) visual classes of the percepts."""
        if not isinstance(classifier, Nodes):
            return classifier.classify(index.incidence, threads)
        graph, cached = index.graph, self._classified
        # Another run may have given the same numbers to other features.
        if cached is not None and cached[0].features == graph.features[: len(cached[0])]:
            classes = classifier.reclassify(*cached[1:], index.incidence, threads)
        else:
            classes = classifier.classify(index.incidence, threads)
        # The classifier of the next stage usually refines this one.
        self._classified = graph, classifier, classes
        return classes

    def _residuals_of(self, spec: ViewSpec, q: Floats, gamma: float) -> Residuals:
        """Return the residuals of the interactions."""
        percepts, cached = self._classify(spec), self._residuals
        if cached is not None and cached[0] == percepts.number:
            residuals = cached[1]
            if residuals.gamma == gamma and np.array_equal(residuals.q, q):
                return residuals
        self._residuals = cached = None
        residuals = bellman_residuals(percepts.sequence, q, gamma, spec.scale, percepts.threads)
        self._residuals = percepts.number, residuals
        return residuals


def exhibit(
    features: ShardFeatures, percepts: ClassifiedPercepts, candidates: Candidates, is_open: Bools
) -> Incidence:
    """Return which percepts exhibit which candidates; new ones come after known ones.

    Args:
        features: The images of the shard.
        percepts: Its percepts.
        candidates: The features that a generator proposes.
        is_open: (n_classes,) the classes that it proposes them for.
    """
    index, new, is_known = percepts.index, candidates.new, candidates.known
    if len(new) and not isinstance(new, NewFeatures):
        grown, numbers = index.add(new)
        if numbers != list(range(len(index.graph), len(grown.graph))):
            raise ValueError(
                "new of Candidates must be features that the graph does not have, each once."
            )
        is_new = np.arange(len(grown.graph)) >= len(index.graph)
        return grown.incidence if is_known else grown.incidence.only(is_new)
    incidence = index.incidence
    if not is_known:
        begin = np.zeros(incidence.n_percepts + 1, np.int64)
        incidence = Incidence(begin, np.empty(0, np.int32), incidence.n_features)
    if isinstance(new, NewFeatures):
        for one in features.exhibit(percepts, new, is_open):
            incidence = incidence.append(one)
    return incidence
