"""The visual features that a classifier tests: a graph of primitive and of higher ones.

A composite has two parts, features themselves, at a typical distance; it occurs at the midpoints of
those pairs of occurrences whose distance is likely enough: the paper's Algorithm 5. A located
feature is one in a part of the frame. *Several* features that say the same forgive that one of them
is missed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc.vision.extractor import FeatureExtractor, Glance

HIGHEST = 16  # height of a feature: put in words, it may double with every part
MOST = 1000  # occurrences of a composite on one image; those beyond are not kept

Row = NDArray[np.float64]
Marks = NDArray[np.float64]  # (n, 4) occurrences: x, y, scale, angle (NaN where there is none)


@dataclass(frozen=True, slots=True)
class Primitive:
    """A single symbol of one camera's vocabulary.

    Attributes:
        camera: The camera that sees it; empty where percepts are single images.
        symbol: Its number in the camera's vocabulary.
    """

    camera: str
    symbol: int

    @property
    def parts(self) -> tuple[int, ...]:
        """A primitive feature has no parts."""
        return ()

    def __str__(self) -> str:
        where = f" of {self.camera}" if self.camera else ""
        return f"symbol {self.symbol}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """Two features at a typical distance, and perhaps at a typical angle and ratio of scales.

    An occurrence is *likely* when its likelihood, in proportion to that of the most likely one, is
    at least ν. For the distance d alone this reads exp(−((d − μ)/σ)²/2) ≥ ν.

    Attributes:
        first: The number of one part.
        second: The number of the other.
        mean: μ, pixels.
        deviation: σ, pixels.
        likelihood: ν, between 0 and 1.
        turn: Mean of the angle from the first part's orientation to the second's, degrees; None if
            any will do.
        turn_deviation: Its circular standard deviation, degrees.
        ratio: Mean of the binary logarithm of the second part's scale over the first's; None if any
            will do.
        ratio_deviation: Its standard deviation.
    """

    first: int
    second: int
    mean: float
    deviation: float
    likelihood: float
    turn: float | None = None
    turn_deviation: float | None = None
    ratio: float | None = None
    ratio_deviation: float | None = None

    @property
    def parts(self) -> tuple[int, ...]:
        """The numbers of the two parts."""
        return self.first, self.second

    @property
    def reach(self) -> float:
        """How far from the mean a distance may be, pixels."""
        return self.deviation * math.sqrt(-2.0 * math.log(self.likelihood))

    def row(self) -> Row:
        """Return what the compiled code needs to know; see :func:`is_likely`."""
        numbers = [-2.0 * math.log(self.likelihood), self.mean, 1.0 / self.deviation]
        for mean, deviation in (
            (self.turn, self.turn_deviation),
            (self.ratio, self.ratio_deviation),
        ):
            numbers += [0.0, 0.0] if mean is None or deviation is None else [mean, 1.0 / deviation]
        return np.asarray(numbers, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class InCell:
    """A feature in one cell of a grid over the frame.

    Attributes:
        part: The number of the feature.
        level: The frame is cut into 2^level columns and as many rows.
        column: Of the cell, from the left.
        line: Of the cell, from the top.
    """

    part: int
    level: int
    column: int
    line: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The number of the one part."""
        return (self.part,)

    def is_inside(self, marks: Marks, size: tuple[int, int]) -> NDArray[np.bool_]:
        """Tell which occurrences lie in the cell, on an image of a (width, height)."""
        cell = cells_of(marks[:, :2], size, self.level)
        return np.asarray((cell == (self.column, self.line)).all(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """At least so many of some features of one camera.

    It occurs where those that are there occur.

    Attributes:
        parts: The numbers of the features, the one that they stand in for first.
        least: How many of them must be there.
    """

    parts: tuple[int, ...]
    least: int


Feature = Primitive | Composite | InCell | AtLeast


@dataclass(frozen=True)
class Graph:
    """Features by number; those that others are made of come before them.

    A value: adding features makes another graph, in which the old ones keep their numbers.

    >>> graph = Graph((Primitive("", 0), Primitive("", 1)))
    >>> pair = Composite(first=0, second=1, mean=30.0, deviation=2.0, likelihood=0.5)
    >>> graph, numbers = graph.add([pair, pair])
    >>> numbers, graph.height[2], graph.describe(2)
    ([2, 2], 1, 'symbol 0 and symbol 1, 28 to 32 pixels apart')
    """

    features: tuple[Feature, ...] = ()

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, number: int) -> Feature:
        return self.features[number]

    @cached_property
    def camera(self) -> tuple[str, ...]:
        """The camera that sees each feature."""
        return _cameras(self.features, ())

    @cached_property
    def height(self) -> tuple[int, ...]:
        """The height of each feature: 0 for primitives, one more than the highest part's else."""
        return _heights(self.features, ())

    @cached_property
    def numbers(self) -> dict[Feature, int]:
        """The number of each feature."""
        return {feature: number for number, feature in enumerate(self.features)}

    def symbols(self, camera: str) -> NDArray[np.int32]:
        """Return the number of the feature that each symbol of a camera is."""
        primitives = [
            number
            for number, feature in enumerate(self.features)
            if isinstance(feature, Primitive) and feature.camera == camera
        ]
        return np.asarray(primitives, np.int32)  # a camera's symbols are met in their order

    def add(self, features: Iterable[Feature]) -> tuple[Graph, list[int]]:
        """Return the graph with some more features, and the number of each; known ones stay."""
        known = dict(self.numbers)
        numbers = [known.setdefault(feature, len(known)) for feature in features]
        if len(known) == len(self):
            return self, numbers
        graph = Graph(tuple(known))
        # Stages add a few features to many, so what is known of these is not found out again.
        graph.__dict__["numbers"] = known
        graph.__dict__["camera"] = _cameras(graph.features, self.camera)
        graph.__dict__["height"] = _heights(graph.features, self.height)
        return graph, numbers

    def add_symbols(self, extractor: FeatureExtractor) -> Graph:
        """Return the graph with a feature for each symbol that an eye knows."""
        return self.add(
            Primitive(camera, symbol)
            for camera, words in extractor.vocabularies.items()
            for symbol in range(words.n_symbols)
        )[0]

    def only(self, wanted: Iterable[int]) -> tuple[Graph, dict[int, int]]:
        """Return the graph of some features and their parts, and their numbers there."""
        kept: set[int] = set()
        waiting = list(wanted)
        while waiting:
            number = waiting.pop()
            if number not in kept:
                kept.add(number)
                waiting += self.features[number].parts
        numbers = {old: new for new, old in enumerate(sorted(kept))}
        return Graph(tuple(_renumber(self.features[old], numbers) for old in numbers)), numbers

    def join(self, other: Graph) -> tuple[Graph, dict[int, int]]:
        """Return the graph with the features of another, and the numbers that these have now.

        >>> one, two = Graph((Primitive("", 0),)), Graph((Primitive("", 1), Primitive("", 0)))
        >>> one.join(two)[1]
        {0: 1, 1: 0}
        """
        known, numbers = dict(self.numbers), dict[int, int]()
        for number, feature in enumerate(other.features):
            numbers[number] = known.setdefault(_renumber(feature, numbers), len(known))
        return Graph(tuple(known)), numbers

    def primitives(self, number: int) -> list[int]:
        """Return the numbers of the primitive features that a feature is made of, in order."""
        return [one for one in self.only([number])[1] if not self.features[one].parts]

    def describe(self, number: int) -> str:
        """Return a feature in words."""
        feature = self.features[number]
        if isinstance(feature, Primitive):
            return str(feature)
        if isinstance(feature, InCell):
            n = 2**feature.level
            return (
                f"{self._name(feature.part)} in column {feature.column + 1}, row "
                f"{feature.line + 1} of {n} × {n}"
            )
        if isinstance(feature, AtLeast):
            names = self.names_of(feature.parts)
            return f"at least {feature.least} of {len(feature.parts)} ({names})"
        low, high = max(feature.mean - feature.reach, 0.0), feature.mean + feature.reach
        text = f"{low:.0f} to {high:.0f} pixels apart"
        if feature.turn is not None:
            text += f", turned by about {feature.turn:.0f}°"
        if feature.ratio is not None:
            text += f", about {2**feature.ratio:.1f} times as large"
        return f"{self._name(feature.first)} and {self._name(feature.second)}, {text}"

    def names_of(self, numbers: Sequence[int]) -> str:
        """Return features of one camera in words, one after the other.

        >>> Graph((Primitive("left", 3), Primitive("left", 8))).names_of([0, 1])
        'symbols 3, 8 of left'
        """
        features = [self.features[number] for number in numbers]
        symbols = [one.symbol for one in features if isinstance(one, Primitive)]
        if len(symbols) < max(len(features), 2):
            return ", ".join(map(self._name, numbers))
        camera = self.camera[numbers[0]]
        return f"symbols {', '.join(map(str, symbols))}" + (f" of {camera}" if camera else "")

    def is_arranged(self, number: int) -> bool:
        """Tell whether a feature, or that for which several stand, is more than a symbol."""
        feature = self.features[number]
        if isinstance(feature, AtLeast):
            return self.is_arranged(feature.parts[0])
        return not isinstance(feature, Primitive)

    def _name(self, number: int) -> str:
        text = self.describe(number)
        return text if isinstance(self.features[number], Primitive) else f"({text})"


def _cameras(features: tuple[Feature, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the camera of each feature, given those of the first ones."""
    cameras = list(known)
    for feature in features[len(known) :]:
        if isinstance(feature, Primitive):
            cameras.append(feature.camera)
        else:
            cameras.append(cameras[feature.parts[0]])
    return tuple(cameras)


def _heights(features: tuple[Feature, ...], known: tuple[int, ...]) -> tuple[int, ...]:
    """Return the height of each feature, given those of the first ones."""
    heights = list(known)
    for feature in features[len(known) :]:
        heights.append(1 + max((heights[part] for part in feature.parts), default=-1))
    return tuple(heights)


def _renumber(feature: Feature, numbers: dict[int, int]) -> Feature:
    if isinstance(feature, Composite):
        return replace(feature, first=numbers[feature.first], second=numbers[feature.second])
    if isinstance(feature, InCell):
        return replace(feature, part=numbers[feature.part])
    if isinstance(feature, AtLeast):
        return replace(feature, parts=tuple(numbers[part] for part in feature.parts))
    return feature


class Sight:
    """One percept as a policy sees it: features are looked for when a test asks for them."""

    def __init__(self, graph: Graph, glance: Glance) -> None:
        self._graph = graph
        self._glance = glance
        self._found: dict[int, Marks] = {}
        self._exhibited: dict[int, bool] = {}

    def exhibits(self, number: int) -> bool:
        """Tell whether the percept exhibits a feature: the cost of one test at work."""
        if number not in self._exhibited:
            self._exhibited[number] = self._exhibits(number)
        return self._exhibited[number]

    def _exhibits(self, number: int) -> bool:
        feature = self._graph[number]
        if isinstance(feature, Primitive):
            return self._glance.exhibits(feature.camera, feature.symbol)
        if isinstance(feature, AtLeast):
            return self.count(feature) >= feature.least
        return len(self.find(number)) > 0

    def count(self, feature: AtLeast) -> int:
        """Return how many of several features the percept exhibits."""
        return sum(map(self.exhibits, feature.parts))

    def find(self, number: int) -> Marks:
        """Return the (n, 4) occurrences of a feature."""
        if number not in self._found:
            for part in self._graph[number].parts:
                self.find(part)
            self._found[number] = self._find(number)
        return self._found[number]

    def _find(self, number: int) -> Marks:
        feature = self._graph[number]
        if isinstance(feature, Primitive):
            points = self._glance.find(feature.camera, feature.symbol)
            return marks(points.xy, points.scale, points.angle)
        if isinstance(feature, InCell):
            size = self._glance.size(self._graph.camera[number])
            found = self._found[feature.part]
            return found[feature.is_inside(found, size)]
        if isinstance(feature, AtLeast):
            if not self.exhibits(number):
                return np.empty((0, 4), np.float64)
            return np.concatenate([self._found[part] for part in feature.parts])
        if len({self._graph.camera[part] for part in feature.parts}) > 1:
            return np.empty((0, 4), np.float64)  # positions of two cameras are not to be compared
        room = np.empty((MOST, 4), np.float64)
        n = pair_up(self._found[feature.first], self._found[feature.second], feature.row(), room)
        return room[:n].copy()


def marks(xy: NDArray[np.float32], scale: NDArray[np.float32], angle: NDArray[np.float32]) -> Marks:
    """Return occurrences from the positions, scales and angles of points."""
    return np.column_stack([xy, scale, angle]).astype(np.float64)


def cells_of(xy: NDArray[np.float64], size: tuple[int, int], level: int) -> NDArray[np.int64]:
    """Return the (n, 2) column and line of positions on a grid of 2^level cells a side."""
    cells = np.floor(xy / size * 2**level).astype(np.int64)
    return np.asarray(np.clip(cells, 0, 2**level - 1))


@jit
def relate(first: Marks, i: int, second: Marks, j: int) -> tuple[float, float, float]:
    """Return the distance, the angle and the log ratio of scales between two occurrences."""
    dx, dy = second[j, 0] - first[i, 0], second[j, 1] - first[i, 1]
    a, b = first[i, 2], second[j, 2]
    ratio = 0.0 if a == b or a <= 0.0 or b <= 0.0 else np.log2(b / a)
    return np.sqrt(dx * dx + dy * dy), second[j, 3] - first[i, 3], ratio


@jit
def is_likely(distance: float, turn: float, ratio: float, row: Row) -> bool:
    """Tell whether two occurrences stand to each other as a composite wants: Σ z² ≤ −2 ln ν."""
    z = (distance - row[1]) * row[2]
    total = z * z
    if row[4] > 0.0:
        z = wrap(turn - row[3]) * row[4]
        total += z * z
    if row[6] > 0.0:
        z = (ratio - row[5]) * row[6]
        total += z * z
    return bool(total <= row[0])  # not so where an angle is missing


@jit
def wrap(angle: float) -> float:
    """Return an angle in degrees between −180 and 180."""
    return (angle + 180.0) % 360.0 - 180.0


@jit
def pair_up(first: Marks, second: Marks, row: Row, out: Marks) -> int:
    """Write the occurrences of a composite, given those of its parts; return how many there are.

    They are the distinct midpoints in the order of the first part's occurrences, then of the
    second's; after as many as there is room for, the rest is left out.
    """
    n = 0
    for i in range(len(first)):
        for j in range(len(second)):
            distance, turn, ratio = relate(first, i, second, j)
            if not is_likely(distance, turn, ratio, row):
                continue
            x, y = (first[i, 0] + second[j, 0]) / 2.0, (first[i, 1] + second[j, 1]) / 2.0
            is_new = True
            for k in range(n):
                if out[k, 0] == x and out[k, 1] == y:
                    is_new = False
                    break
            if is_new:
                out[n, 0], out[n, 1] = x, y
                out[n, 2] = np.sqrt(first[i, 2] * second[j, 2])
                out[n, 3] = first[i, 3] + wrap(turn) / 2.0
                n += 1
                if n == len(out):
                    return n
    return n
