"""A shard: some whole episodes of a database, and what their percepts show.

All that a shard is asked for are sums of integers, small samples, or single occurrences; the
answers of all shards, added up, are those of the whole. One shard in this process is the usual
case. A question says all that is needed to answer it, so that a new worker can answer like the one
that it replaces; what was computed for one question is kept for the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.fixed_point import Scale
from rlvc._core.jit import share_threads
from rlvc.classifiers._nodes import Nodes
from rlvc.classifiers.base import Classifier
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import PerceptPlaceholders
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
    spans_of,
)
from rlvc.learning.generation.composites import NewFeatures, may_be_part
from rlvc.learning.generation.sampling import CellCounts, Sample, ShardSample
from rlvc.learning.mdp import EffectiveTransitions, MappedSequence, TransitionCounts
from rlvc.learning.selection.selector import FeatureSelector, Samples
from rlvc.learning.surrogates import Cooccurrence, Group, Tally, cooccurrences_of, tallies_of


@dataclass(frozen=True, slots=True)
class ClassifiedPercepts:
    """The percepts of a shard as a classifier shows them.

    Attributes:
        number: Tells this view from others.
        classes: (n_percepts,) the visual class of each percept.
        n_classes: How many classes there are.
        index: What the percepts show of the features known then.
        threads: How many threads to use.
        sequence: The interactions as the classes show them.
    """

    number: int
    classes: Ints
    n_classes: int
    index: FeatureIndex
    threads: int
    sequence: MappedSequence


@dataclass(slots=True)
class ShardFeatures:
    """Answer what generators ask about the images of a shard; what was worked out is kept.

    Attributes:
        table: (n_percepts, n_cameras) the images that make up each percept.
        numbers: For each camera, the number of each image in the whole database.
        n_images: For each camera, how many images the whole database has.
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

    def sample(
        self, seen: ClassifiedPercepts, wanted: list[int], camera: int, seed: int, height: int
    ) -> Sample:
        """Return the images of some classes in the order that a seed draws; nothing is copied."""
        images = self._images_of(seen, wanted, camera, seed)
        return Sample(images.begin, images.image, self._places_of(seen.index, height)[camera])

    def cut_sample(
        self,
        seen: ClassifiedPercepts,
        wanted: list[int],
        camera: int,
        seed: int,
        most: int,
        height: int,
    ) -> ShardSample:
        """Return the first images of some classes in that order, to be merged with others."""
        sample = self.sample(seen, wanted, camera, seed, height)
        return ShardSample.cut(sample, self._draw(seed)[camera], most)

    def count_cells(
        self, seen: ClassifiedPercepts, wanted: list[int], camera: int, levels: int, height: int
    ) -> CellCounts:
        """Return how many images some classes have, and how many show what in which cell."""
        images = self._images_of(seen, wanted, camera)
        places = self._places_of(seen.index, height)[camera]
        is_part = may_be_part(seen.index.graph, height)
        work = partial(count_cells, images, places, is_part, levels)
        found = share_threads(work, spans_of(images.begin, seen.threads), seen.threads)
        return CellCounts(np.diff(images.begin), np.concatenate(found))

    def exhibit(
        self, seen: ClassifiedPercepts, new: NewFeatures, is_open: Bools
    ) -> list[Incidence]:
        """Return which percepts exhibit new features, numbered after the known ones."""
        n = n_known = len(seen.index.graph)
        wanted = np.flatnonzero(is_open).tolist()
        every_place, found = self._places_of(seen.index, new.height), list[Incidence]()
        for number, kind in enumerate(new.kinds):
            blocks = self._blocks.get(number, {})
            kept = set(kind.kept)
            blocks = self._blocks[number] = {i: one for i, one in blocks.items() if i in kept}
            missing = [i for i, name in enumerate(kind.numbers) if name not in blocks]
            if missing:
                images = self._images_of(seen, [wanted[i] for i in missing], kind.camera)
                features, places = [kind.features[i] for i in missing], every_place[kind.camera]
                made = images.exhibit(features, places, n_known, seen.threads)
                blocks |= {kind.numbers[i]: one for i, one in zip(missing, made, strict=True)}
            ours = [blocks[name] for name in kind.numbers]
            found.append(assemble(ours, len(seen.classes), n))
            n = found[-1].n_features
        return found

    def _images_of(
        self, seen: ClassifiedPercepts, wanted: list[int], camera: int, seed: int = -1
    ) -> ClassImages:
        """Return the images of some classes, in the order of a seed unless that is negative.

        What is composed of the images of classes is looked for on the same images next.
        """
        key = seen.number, tuple(wanted)
        known, order, images = self._images.get(camera, (None, -1, None))
        if images is None or known != key or seed not in (-1, order):
            rank = self._draw(seed)[camera] if seed >= 0 else np.arange(len(self.numbers[camera]))
            image = self.table[:, camera]
            images = ClassImages.of(seen.classes, seen.n_classes, wanted, image, rank)
            self._images[camera] = key, seed, images
        return images

    def _draw(self, seed: int) -> list[Ints]:
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
            if not self._parts.items() <= parts.items():  # of another run: numbers mean others
                self._found = {}
            self._parts, self._places = parts, index.places_of(numbers, self._found)
        return self._places


@dataclass(frozen=True, slots=True)
class ShardNumbers:
    """How a shard is numbered in the whole database.

    Attributes:
        percepts: (n,) the number of each percept, in ascending order.
        is_first: (n,) which percepts no shard before this one has; a full slice for all.
        images: For each camera, the number of each image, in ascending order.
        n_images: For each camera, how many images all shards have.
        is_stuck: (N,) which interactions lead nowhere, as all shards know; None for what this one
            knows.
        n_shards: How many shards there are.
    """

    percepts: Ints
    is_first: Bools | slice
    images: tuple[Ints, ...]
    n_images: tuple[int, ...]
    is_stuck: Bools | None
    n_shards: int

    @classmethod
    def of_all(cls, index: FeatureIndex) -> ShardNumbers:
        """Return the numbers of the one shard that has everything."""
        n_images = tuple(places.n_images for places in index.places)
        images = tuple(np.arange(n) for n in n_images)
        percepts = np.arange(len(index.table))
        return cls(percepts, slice(None), images, n_images, None, 1)


class KnownFeatures:
    """The features that a database knows; other processes are sent those that shards do not have.

    Args:
        graph: All of them.
        n_base: How many of them every shard has from the start.
    """

    def __init__(self, graph: FeatureGraph, n_base: int) -> None:
        self._graph: FeatureGraph | None = graph
        self.added: tuple[Feature, ...] = graph.features[n_base:]

    def __getstate__(self) -> dict[str, Any]:
        return {"_graph": None, "added": self.added}

    def graph(self, base: FeatureGraph) -> FeatureGraph:
        """Return the graph of these features, given that of a shard."""
        if self._graph is None:
            self._graph, _ = base.add(self.added)
        return self._graph


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """How a database is viewed.

    Attributes:
        number: Tells this view from those before.
        known: The features.
        classifier: From what percepts exhibit to visual classes.
        absorbing_gamma: See :func:`rlvc.learning.mdp.map_interactions`.
        scale: Of the rewards of all shards.
        threads: How many threads to use; no answer depends on it.
    """

    number: int
    known: KnownFeatures
    classifier: Classifier
    absorbing_gamma: float | None
    scale: Scale
    threads: int


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a feature is first seen.

    Attributes:
        image: The number of the image of its camera.
        x: Where, pixels.
        y: Where, pixels.
        scale: How large, pixels.
    """

    image: int
    x: float
    y: float
    scale: float


class Shard:
    """Some whole episodes of a database, and an index of the features of their percepts.

    Args:
        interactions: The interactions; percepts and images have numbers of their own here.
        index: What the percepts show.
        numbers: Their numbers in the whole database; unless given, this is all of it.

    Attributes:
        threads: How many threads to use, whatever a view says; None for what it says.
    """

    def __init__(
        self, interactions: Interactions, index: FeatureIndex, numbers: ShardNumbers | None = None
    ) -> None:
        self.base = index
        self.threads: int | None = None
        self._given = interactions, index, numbers
        self._interactions, self._index = interactions, index
        self._numbers = numbers or ShardNumbers.of_all(index)
        self._features = ShardFeatures(index.table, self._numbers.images, self._numbers.n_images)
        self._transitions: tuple[float | None, EffectiveTransitions] | None = None
        self._classified: tuple[FeatureGraph, Nodes, Ints] | None = None
        self._view: ClassifiedPercepts | None = None
        self._residuals: tuple[int, Residuals] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, self._given  # what was worked out can be worked out again

    def index_of(self, known: KnownFeatures, *, is_kept: bool = False) -> FeatureIndex:
        """Return what the percepts show of some features.

        The last index is kept, as a database grows by a few features at every stage.

        Args:
            known: The features.
            is_kept: Whether this index is kept even if the last one has more features: those of
                another run, which began alike.
        """
        graph, index = known.graph(self.base.graph), self._index
        if graph is index.graph:
            return index
        n = len(index.graph)
        if graph.features[:n] == index.graph.features:
            self._index = index.extend(graph)
        elif not is_kept and graph.features == index.graph.features[: len(graph)]:
            return index.first(graph)  # of an earlier stage
        else:
            self._index = self.base.extend(graph)
        return self._index

    def sum_returns(self, gamma: float, scale: Scale) -> ReturnSums:
        """Return the sums of the discounted returns."""
        return sum_returns(self._interactions, gamma, scale)

    def count_transitions(self, spec: ViewSpec) -> TransitionCounts:
        """Return what the mapped MDP is estimated from."""
        n_classes, n_actions = spec.classifier.n_classes, self._interactions.n_actions
        sequence = self._classify(spec).sequence
        return TransitionCounts.of(sequence, n_classes, n_actions, spec.scale)

    def sequence(self, spec: ViewSpec) -> MappedSequence:
        """Return the interactions as the classes of their percepts: no sum, and large."""
        return self._classify(spec).sequence

    def sum_residuals(self, spec: ViewSpec, q: Floats, gamma: float) -> ResidualSums:
        """Return the count, the sum and the sum of squares of the residuals of every pair."""
        return self._residuals_of(spec, q, gamma).sums()

    def class_keys(self, spec: ViewSpec) -> Ints:
        """Return what this shard's percepts add to what tells classes apart."""
        numbers = self._numbers
        classes = self._classify(spec).classes[numbers.is_first]
        return class_keys(classes, spec.classifier.n_classes, numbers.percepts[numbers.is_first])

    def sample(
        self, spec: ViewSpec, wanted: list[int], camera: int, seed: int, height: int
    ) -> Sample:
        """Return the images of some classes in the order that a seed draws; nothing is copied."""
        return self._features.sample(self._classify(spec), wanted, camera, seed, height)

    def cut_sample(
        self, spec: ViewSpec, wanted: list[int], camera: int, seed: int, most: int, height: int
    ) -> ShardSample:
        """Return the first images of some classes in that order, to be merged with others."""
        seen = self._classify(spec)
        return self._features.cut_sample(seen, wanted, camera, seed, most, height)

    def count_cells(
        self, spec: ViewSpec, wanted: list[int], camera: int, levels: int, height: int
    ) -> CellCounts:
        """Return how many images some classes have, and how many show what in which cell."""
        return self._features.count_cells(self._classify(spec), wanted, camera, levels, height)

    def measure(
        self,
        spec: ViewSpec,
        q: Floats,
        gamma: float,
        selector: FeatureSelector,
        candidates: Candidates,
        is_open: Bools,
    ) -> Any:
        """Return what a selector measures of candidates; see :meth:`FeatureSelector.measure`."""
        residuals = self._residuals_of(spec, q, gamma)
        incidence = exhibit(self._features, self._classify(spec), candidates, is_open)
        start, is_all = self._interactions.start, self._numbers.n_shards == 1
        threads = self._threads_of(spec)
        return selector.measure(Samples(residuals, start, incidence, is_open, threads, is_all))

    def cooccurrences(
        self, spec: ViewSpec, known: KnownFeatures, pairs: Sequence[tuple[int, int]]
    ) -> list[Cooccurrence]:
        """Return what occurs together, for pairs of a class and a feature.

        ``known`` are the features by now, which may be more than when the classes were mapped.
        """
        classes, is_first = self._classify(spec).classes, self._numbers.is_first
        incidence, threads = self.index_of(known).incidence, self._threads_of(spec)
        return cooccurrences_of(incidence, classes, pairs, is_first, threads)

    def tallies(
        self, spec: ViewSpec, known: KnownFeatures, q: Floats, gamma: float, asked: Sequence[Group]
    ) -> list[Tally]:
        """Return how many of some features are exhibited in each of some groups."""
        residuals = self._residuals_of(spec, q, gamma)
        start = self._interactions.start
        return tallies_of(self.index_of(known).incidence, residuals, start, asked)

    def classes(
        self, known: KnownFeatures, classifier: Classifier, threads: int
    ) -> tuple[Ints, Ints]:
        """Return the percepts that no shard before has, and their classes."""
        numbers, threads = self._numbers, threads if self.threads is None else self.threads
        classes = self._classes(self.index_of(known), classifier, threads)
        return numbers.percepts[numbers.is_first], classes[numbers.is_first]

    def usage(self, known: KnownFeatures, classifier: Classifier) -> Ints:
        """Return on how many percepts that no shard before has each feature is tested."""
        incidence, is_first = self.index_of(known).incidence, self._numbers.is_first
        if not isinstance(is_first, slice):
            incidence = incidence.take(np.flatnonzero(is_first))
        return classifier.usage(incidence)

    def spots(self, known: KnownFeatures, numbers: Sequence[int]) -> list[Spot | None]:
        """Return where some features first occur here, on images by their number in all."""
        index, found = self.index_of(known), list[Spot | None]()
        for number in numbers:
            spot, (image, occurrences) = None, index.find(number)
            if len(image):
                images = self._numbers.images[index.cameras.index(index.graph.camera[number])]
                x, y, scale, _ = occurrences[0].tolist()
                spot = Spot(int(images[image[0]]), x, y, scale)
            found.append(spot)
        return found

    def split(self, n_shards: int) -> Iterator[Shard]:
        """Yield all that there is as several shards, with about as many interactions each."""
        whole, index = self._interactions, self.base
        is_stuck, cut = whole.is_stuck, cut_episodes(whole.episode, n_shards)
        for rows, percepts, is_first in cut_percepts(whole, cut):
            local = [np.unique(column, return_inverse=True) for column in index.table[percepts].T]
            images = tuple(numbers for numbers, _ in local)
            interactions = Interactions(
                PerceptPlaceholders(len(percepts)), np.searchsorted(percepts, whole.start[rows]),
                whole.action[rows], whole.reward[rows], np.searchsorted(percepts, whole.end[rows]),
                whole.episode[rows], whole.terminated[rows], whole.truncated[rows],
                whole.n_actions,
            )  # fmt: skip
            places = (one.take(some) for one, some in zip(index.places, images, strict=True))
            table = np.column_stack([which for _, which in local]).astype(np.int64, copy=False)
            numbers = ShardNumbers(
                percepts, is_first, images, self._numbers.n_images,
                is_stuck[rows], n_shards,
            )  # fmt: skip
            part = FeatureIndex.at(index.graph, index.cameras, tuple(places), table)
            yield Shard(interactions, part, numbers)

    def _threads_of(self, spec: ViewSpec) -> int:
        return spec.threads if self.threads is None else self.threads

    def _classify(self, spec: ViewSpec) -> ClassifiedPercepts:
        """Return the percepts of a view, and forget those of others."""
        view = self._view
        if view is None or view.number != spec.number:
            self._view = self._residuals = None
            index, threads = self.index_of(spec.known, is_kept=True), self._threads_of(spec)
            classes = self._classes(index, spec.classifier, threads)
            sequence = self._effective(spec.absorbing_gamma).map(self._interactions, classes)
            view = self._view = ClassifiedPercepts(
                spec.number, classes, spec.classifier.n_classes, index, threads, sequence
            )
        return view

    def _effective(self, gamma: float | None) -> EffectiveTransitions:
        """Return what the interactions are taken to say."""
        known = self._transitions
        if known is None or known[0] != gamma:
            is_stuck = self._numbers.is_stuck
            known = gamma, EffectiveTransitions.of(self._interactions, gamma, is_stuck)
            self._transitions = known
        return known[1]

    def _classes(self, index: FeatureIndex, classifier: Classifier, threads: int) -> Ints:
        """Return the (n_percepts,) visual classes of the percepts."""
        if not isinstance(classifier, Nodes):
            return classifier.classify(index.incidence, threads)
        graph, known = index.graph, self._classified
        # Features that another run added may have the same numbers, and mean something else.
        if known is not None and known[0].features == graph.features[: len(known[0])]:
            classes = classifier.reclassify(*known[1:], index.incidence, threads)
        else:
            classes = classifier.classify(index.incidence, threads)
        # The classifier of the next stage is often refined from that of this one.
        self._classified = graph, classifier, classes
        return classes

    def _residuals_of(self, spec: ViewSpec, q: Floats, gamma: float) -> Residuals:
        """Return the residuals of the interactions."""
        seen, known = self._classify(spec), self._residuals
        if known is not None and known[0] == seen.number:
            residuals = known[1]
            if residuals.gamma == gamma and np.array_equal(residuals.q, q):
                return residuals
        self._residuals = None
        found = bellman_residuals(seen.sequence, q, gamma, spec.scale, seen.threads)
        self._residuals = seen.number, found
        return found


def exhibit(
    features: ShardFeatures, seen: ClassifiedPercepts, candidates: Candidates, is_open: Bools
) -> Incidence:
    """Return which percepts exhibit which candidates; new ones come after known ones.

    Args:
        features: The images of the shard.
        seen: Its percepts as a classifier shows them.
        candidates: The features that a generator offers.
        is_open: (n_classes,) the classes that it offers them for.
    """
    index, new, is_known = seen.index, candidates.new, candidates.known
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
        for one in features.exhibit(seen, new, is_open):
            incidence = incidence.append(one)
    return incidence


def cut_episodes(episode: Ints, shards: int) -> Ints:
    """Return the (shards + 1,) rows at which shards of whole episodes begin and end.

    >>> cut_episodes(np.array([0, 0, 0, 1, 2, 2]), 2).tolist()
    [0, 3, 6]
    """
    begin = np.flatnonzero(np.concatenate([[True], episode[1:] != episode[:-1]]))
    if not 1 <= shards <= len(begin):
        raise ValueError(
            f"shards must be between 1 and {len(begin)}, as there are so many episodes; "
            f"got {shards}."
        )
    cut = [0]
    for k in range(1, shards):
        near = int(np.searchsorted(begin, len(episode) * k / shards))
        cut.append(min(max(near, cut[-1] + 1), len(begin) - shards + k))
    return np.append(begin[cut], len(episode))


def cut_percepts(interactions: Interactions, cut: Ints) -> Iterator[tuple[slice, Ints, Bools]]:
    """Yield the rows of each shard, its percepts, and which of these no shard before has."""
    start, end = interactions.start, interactions.end
    is_known = np.zeros(len(interactions.percepts), np.bool_)
    for first, last in itertools.pairwise(cut.tolist()):
        rows, is_here = slice(first, last), np.zeros(len(is_known), np.bool_)
        is_here[start[rows]] = is_here[end[rows]] = True
        if last == cut[-1]:
            is_here |= ~is_known  # what no interaction mentions is there as well, once
        percepts = np.flatnonzero(is_here)
        yield rows, percepts, ~is_known[percepts]
        is_known |= is_here
