"""Where the features of a graph occur on many percepts, found for all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.compiled import compiled
from rlvc.features import (
    MOST,
    Composite,
    Feature,
    Graph,
    Located,
    Marks,
    Primitive,
    marks,
    pair_up,
)
from rlvc.incidence import Incidence
from rlvc.percepts import Percepts
from rlvc.vision.eye import Occurrences

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where features occur on the images of one camera: image by image, feature by feature.

    Attributes:
        begin: (n_images + 1,) where the occurrences of each image begin.
        feature: (n,) the number of the feature, in ascending order on every image.
        marks: (n, 4) the occurrences: x, y, scale, angle.
        size: The width and height of the images.
    """

    begin: Ints
    feature: NDArray[np.int32]
    marks: Marks
    size: tuple[int, int]

    @property
    def n_images(self) -> int:
        """How many images there are."""
        return len(self.begin) - 1

    def of(self, number: int) -> tuple[Ints, Marks]:
        """Return on which images a feature occurs, and where."""
        rows = np.flatnonzero(self.feature == number)
        return np.searchsorted(self.begin, rows, side="right") - 1, self.marks[rows]

    def find(self, features: Sequence[Composite | Located], numbers: Sequence[int]) -> Places:
        """Return the occurrences of features whose parts occur here, called by some numbers."""
        nothing = np.empty(0, np.int64), np.empty((0, 4))
        parts = [nothing, *(self._find(feature) for feature in features)]
        image = np.concatenate([image for image, _ in parts])
        lengths = [len(image) for image, _ in parts[1:]]
        feature = np.repeat(np.asarray(numbers, np.int32), np.asarray(lengths, np.int64))
        found = np.concatenate([rows for _, rows in parts])
        order = np.lexsort((feature, image))  # keeps the order of the occurrences of a feature
        begin = np.concatenate([[0], np.cumsum(np.bincount(image, minlength=self.n_images))])
        return Places(begin.astype(np.int64), feature[order], found[order], self.size)

    def _find(self, feature: Composite | Located) -> tuple[Ints, Marks]:
        if isinstance(feature, Located):
            image, found = self.of(feature.part)
            inside = feature.is_inside(found, self.size)
            return image[inside], found[inside]
        return _compose(
            self.begin, self.feature, self.marks, feature.first, feature.second, feature.row(),
            np.empty((MOST, 4), np.float64),
        )  # fmt: skip

    def join(self, others: Places) -> Places:
        """Return these occurrences and those of other features on the same images."""
        if len(others.feature) == 0:
            return self
        feature, found = _merge(
            self.begin, self.feature, self.marks, others.begin, others.feature, others.marks
        )
        return Places(self.begin + others.begin, feature, found, self.size)

    def incidence(self, n_features: int) -> Incidence:
        """Return which image exhibits which feature."""
        image = np.repeat(np.arange(self.n_images), np.diff(self.begin))
        return Incidence.from_pairs(image, self.feature, self.n_images, n_features)


@dataclass(frozen=True, slots=True)
class Sightings:
    """What percepts show of the features of a graph.

    Attributes:
        graph: The features.
        cameras: The names of the cameras.
        places: Where features occur, one for each camera.
        table: (n_percepts, n_cameras) the images that make up each percept.
        incidence: Which percept exhibits which feature.
    """

    graph: Graph
    cameras: tuple[str, ...]
    places: tuple[Places, ...]
    table: Ints
    incidence: Incidence

    @classmethod
    def of(cls, graph: Graph, percepts: Percepts, seen: list[Occurrences]) -> Sightings:
        """Return what percepts show of a graph, given the symbols that an eye saw on them."""
        places = tuple(
            _symbols(graph.symbols(images.camera), occurrences, images.shape or (0, 0))
            for images, occurrences in zip(percepts.images, seen, strict=True)
        )
        table = percepts.table()
        symbols = _percepts(places, table, len(graph))
        higher = [n for n, one in enumerate(graph.features) if not isinstance(one, Primitive)]
        return cls(graph, percepts.cameras, places, table, symbols)._find(higher)

    def add(self, features: Iterable[Feature]) -> tuple[Sightings, list[int]]:
        """Return the sightings of a graph with some more features, and the number of each."""
        known = len(self.graph)
        graph, numbers = self.graph.add(features)
        grown = Sightings(graph, self.cameras, self.places, self.table, self.incidence)
        return grown._find(range(known, len(graph))), numbers

    def _find(self, numbers: Sequence[int]) -> Sightings:
        """Find features of the graph that are not found yet; parts before what they make up."""
        graph, places = self.graph, list(self.places)
        levels: dict[int, list[int]] = {}
        for number in numbers:
            levels.setdefault(graph.height[number], []).append(number)
        incidence = self.incidence
        for _, wanted in sorted(levels.items()):
            new = [
                here.find(*_of_camera(graph, wanted, camera))
                for camera, here in zip(self.cameras, places, strict=True)
            ]
            incidence = incidence.join(_percepts(new, self.table, len(graph)))
            places = [here.join(more) for here, more in zip(places, new, strict=True)]
        return Sightings(graph, self.cameras, tuple(places), self.table, incidence)


def _of_camera(
    graph: Graph, numbers: list[int], camera: str
) -> tuple[list[Composite | Located], list[int]]:
    """Return those features that a camera sees, and their numbers."""
    ours = [number for number in numbers if graph.camera[number] == camera]
    features = [graph[number] for number in ours]
    return [one for one in features if not isinstance(one, Primitive)], ours


def _symbols(numbers: NDArray[np.int32], seen: Occurrences, shape: Sequence[int]) -> Places:
    feature = numbers[seen.symbol]
    image = np.repeat(np.arange(len(seen.begin) - 1), np.diff(seen.begin))
    order = np.lexsort((feature, image))
    found = marks(seen.points.xy, seen.points.scale, seen.points.angle)
    return Places(seen.begin, feature[order], found[order], (shape[1], shape[0]))


def _percepts(places: Sequence[Places], table: Ints, n_features: int) -> Incidence:
    """Return which percept exhibits which feature, given the places on the images."""
    return Incidence.union(
        [here.incidence(n_features).take(table[:, i]) for i, here in enumerate(places)]
    )


@compiled
def _merge(
    begin: Ints,
    feature: NDArray[np.int32],
    rows: Marks,
    other_begin: Ints,
    other_feature: NDArray[np.int32],
    other_rows: Marks,
) -> tuple[NDArray[np.int32], Marks]:
    """Merge two lists that are in ascending order on every image."""
    n = len(feature) + len(other_feature)
    out = np.empty(n, np.int32)
    out_rows = np.empty((n, 4), np.float64)
    k = 0
    for image in range(len(begin) - 1):
        i, j = begin[image], other_begin[image]
        last, other_last = begin[image + 1], other_begin[image + 1]
        if i == last or j == other_last or feature[last - 1] < other_feature[j]:  # as is usual
            middle = k + last - i
            k = middle + other_last - j
            out[middle - last + i : middle], out[middle:k] = (
                feature[i:last],
                other_feature[j:other_last],
            )
            out_rows[middle - last + i : middle] = rows[i:last]
            out_rows[middle:k] = other_rows[j:other_last]
            continue
        while i < begin[image + 1] or j < other_begin[image + 1]:
            is_ours = j == other_begin[image + 1] or (
                i < begin[image + 1] and feature[i] < other_feature[j]
            )
            if is_ours:
                out[k] = feature[i]
                for column in range(4):
                    out_rows[k, column] = rows[i, column]
                i += 1
            else:
                out[k] = other_feature[j]
                for column in range(4):
                    out_rows[k, column] = other_rows[j, column]
                j += 1
            k += 1
    return out, out_rows


@compiled
def _compose(
    begin: Ints,
    feature: NDArray[np.int32],
    rows: Marks,
    first: int,
    second: int,
    row: NDArray[np.float64],
    room: Marks,
) -> tuple[Ints, Marks]:
    """Find the occurrences of one composite on all images."""
    image = np.empty(64, np.int64)
    out = np.empty((64, 4), np.float64)
    n = 0
    for i in range(len(begin) - 1):
        here = feature[begin[i] : begin[i + 1]]
        a, b = np.searchsorted(here, first), np.searchsorted(here, first, side="right")
        c, d = np.searchsorted(here, second), np.searchsorted(here, second, side="right")
        if a == b or c == d:
            continue
        start = begin[i]
        found = pair_up(rows[start + a : start + b], rows[start + c : start + d], row, room)
        while n + found > len(image):
            image = np.concatenate((image, np.empty_like(image)))
            out = np.concatenate((out, np.empty_like(out)))
        image[n : n + found] = i
        out[n : n + found] = room[:found]
        n += found
    return image[:n].copy(), out[:n].copy()
