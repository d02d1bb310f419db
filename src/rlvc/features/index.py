"""The feature index: which of many percepts exhibit which features, and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc.data.percepts import Percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.kinds import MAX_OCCURRENCES, AtLeast, Feature, Primitive
from rlvc.features.occurrences import Found, OccurrenceTable, derive, locate_symbols
from rlvc.vision.extractor import SymbolOccurrences


@dataclass(frozen=True, slots=True)
class FeatureIndex:
    """The features of a graph on many percepts.

    For features with parts, only the images that exhibit them are stored; :meth:`find` computes
    where they occur from the occurrences of symbols.

    Attributes:
        graph: The features.
        cameras: The names of the cameras.
        places: The occurrences of primitive features, one table for each camera.
        table: (n_percepts, n_cameras) the images that make up each percept.
        shown: Which image exhibits which feature, one matrix for each camera.
        incidence: Which percept exhibits which feature.

    >>> from rlvc.data import Percepts
    >>> from rlvc.vision import ExtractionCache, choose_extractor
    >>> percepts, image = Percepts(), np.zeros((64, 64, 3), np.uint8)
    >>> image[30:, 30:] = 255
    >>> number, extractor = percepts.add(image), choose_extractor(percepts).new_extractor()
    >>> keypoints = ExtractionCache().extract(extractor, percepts)
    >>> symbols = extractor.find_symbols(percepts, keypoints)
    >>> index = FeatureIndex.of(FeatureGraph().add_symbols(extractor), percepts, symbols)
    >>> index.incidence.row(0).tolist(), index.find(0)[1][:, :2].tolist()
    ([0], [[31.0, 31.0]])
    """

    graph: FeatureGraph
    cameras: tuple[str, ...]
    places: tuple[OccurrenceTable, ...]
    table: Ints
    shown: tuple[Incidence, ...]
    incidence: Incidence

    @classmethod
    def of(
        cls, graph: FeatureGraph, percepts: Percepts, symbols: list[SymbolOccurrences]
    ) -> FeatureIndex:
        """Return the index of a graph on percepts, given the symbols of each camera."""
        places = tuple(
            locate_symbols(graph.symbols(images.camera), occurrences, images.shape or (0, 0))
            for images, occurrences in zip(percepts.images, symbols, strict=True)
        )
        return cls.from_occurrences(graph, percepts.cameras, places, percepts.table())

    @classmethod
    def from_occurrences(
        cls,
        graph: FeatureGraph,
        cameras: tuple[str, ...],
        places: tuple[OccurrenceTable, ...],
        table: Ints,
    ) -> FeatureIndex:
        """Return the index of a graph on percepts, given where its symbols occur."""
        n = len(graph)
        shown = tuple(
            Incidence.from_pairs(one.image, one.feature, one.n_images, n) for one in places
        )
        incidence = _of_percepts(shown, table, n)
        higher = [n for n, one in enumerate(graph.features) if not isinstance(one, Primitive)]
        return cls(graph, cameras, places, table, shown, incidence)._with_features(higher)

    def add(self, features: Iterable[Feature]) -> tuple[FeatureIndex, list[int]]:
        """Return the index of the graph with more features, and their numbers."""
        graph, numbers = self.graph.add(features)
        return self.extend(graph), numbers

    def extend(self, graph: FeatureGraph) -> FeatureIndex:
        """Return the index of a graph that has the features of this one first, then others."""
        if len(graph) == len(self.graph):
            return self
        return replace(self, graph=graph)._with_features(range(len(self.graph), len(graph)))

    def first(self, graph: FeatureGraph) -> FeatureIndex:
        """Return the index of a graph that has only the first features of this one."""
        n = len(graph)
        shown = tuple(one.first(n) for one in self.shown)
        is_same = bool(shown) and self.incidence is self.shown[0]  # percepts are single images
        incidence = shown[0] if is_same else self.incidence.first(n)
        return replace(self, graph=graph, shown=shown, incidence=incidence)

    def only(self, symbols: Bools) -> FeatureIndex:
        """Return the index as if only some symbols were exhibited; the graph stays as it is.

        Args:
            symbols: (n_features,) which primitive features to keep; other features are kept if all
                their parts are.
        """
        wanted = symbols.copy()
        for number, feature in enumerate(self.graph.features):
            if feature.parts:
                wanted[number] = all(wanted[part] for part in feature.parts)
        return replace(
            self,
            places=tuple(places.only(wanted) for places in self.places),
            shown=tuple(one.only(wanted) for one in self.shown),
            incidence=self.incidence.only(wanted),
        )

    def of_percepts(self, table: Ints) -> FeatureIndex:
        """Return the index of other percepts that are made of the same images.

        Args:
            table: (n_percepts, n_cameras) the images that make up each percept.
        """
        incidence = _of_percepts(self.shown, table, len(self.graph))
        return replace(self, table=table, incidence=incidence)

    def find(self, number: int, known: dict[int, Found] | None = None) -> Found:
        """Return on which images of its camera a feature occurs, and where.

        Occurrences of its parts are added to ``known``; those in it are not computed again.
        """
        known = {} if known is None else known
        if number not in known:
            for part in self.graph[number].parts:
                self.find(part, known)
            known[number] = self._find(number, known, MAX_OCCURRENCES)
        return known[number]

    def places_of(
        self, higher: Iterable[int], known: dict[int, Found]
    ) -> tuple[OccurrenceTable, ...]:
        """Return where primitive features and the given others occur, one table for each camera."""
        found = {number: self.find(number, known) for number in higher}
        return tuple(
            places.join({n: where for n, where in found.items() if self.graph.camera[n] == camera})
            for camera, places in zip(self.cameras, self.places, strict=True)
        )

    def _find(self, number: int, known: dict[int, Found], most: int) -> Found:
        """Return the first ``most`` occurrences on each image, given those of the parts."""
        feature, camera = self.graph[number], self.graph.camera[number]
        places = self.places[self.cameras.index(camera)]
        if isinstance(feature, Primitive):
            return places.of(number)
        if not self.graph.is_in_one_camera(number):
            return np.empty(0, np.int64), np.empty((0, 4))
        return derive(feature, [known[part] for part in feature.parts], places.size, most)

    def _with_features(self, numbers: Sequence[int]) -> FeatureIndex:
        """Return the index with features of the graph added to the matrices."""
        known: dict[int, Found] = {}
        plain: dict[int, Ints] = {}
        for number in numbers:
            if not isinstance(self.graph[number], AtLeast):
                for part in self.graph[number].parts:
                    self.find(part, known)
                plain[number] = self._find(number, known, 1)[0]
        grown = self._with_images(plain)
        several: dict[int, Ints] = {}
        for camera, images in zip(self.cameras, grown.shown, strict=True):
            counted = {  # the matrices have their parts by now
                number: feature
                for number in numbers
                if isinstance(feature := self.graph[number], AtLeast)
                and self.graph.camera[number] == camera
            }
            parts = [np.asarray(feature.parts, np.int64) for feature in counted.values()]
            for number, count in zip(counted, images.counts(parts), strict=True):
                several[number] = np.flatnonzero(count >= counted[number].least)
        return grown._with_images(dict(sorted(several.items())))

    def _with_images(self, images: dict[int, Ints]) -> FeatureIndex:
        """Return the index with features added to the matrices, given the images of each."""
        if not images:
            return self
        n, new = len(self.graph), list[Incidence]()
        for camera, places in zip(self.cameras, self.places, strict=True):
            found = {k: image for k, image in images.items() if self.graph.camera[k] == camera}
            new.append(_of_images(found, places.n_images, n))
        shown = tuple(one.join(more) for one, more in zip(self.shown, new, strict=True))
        added = _of_percepts(new, self.table, n)
        is_same = self.incidence is self.shown[0] and added is new[0]  # percepts are single images
        incidence = shown[0] if is_same else self.incidence.join(added)
        return replace(self, shown=shown, incidence=incidence)


def _of_images(images: dict[int, Ints], n_images: int, n_features: int) -> Incidence:
    """Return which image exhibits which feature, given the images of each feature."""
    image = np.concatenate([np.empty(0, np.int64), *images.values()])
    lengths = np.asarray([len(one) for one in images.values()], np.int64)
    feature = np.repeat(np.asarray(list(images), np.int32), lengths)
    return Incidence.from_pairs(image, feature, n_images, n_features)


def _of_percepts(shown: Sequence[Incidence], table: Ints, n_features: int) -> Incidence:
    """Return which percept exhibits which feature, given the same for images."""
    if not shown:
        return Incidence(np.zeros(len(table) + 1, np.int64), np.empty(0, np.int32), n_features)
    if len(shown) == 1 and np.array_equal(table[:, 0], np.arange(shown[0].n_percepts)):
        return shown[0]
    return Incidence.union([one.take(table[:, i]) for i, one in enumerate(shown)])
