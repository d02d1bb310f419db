"""The graph of the visual features that a classifier tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlvc.features.kinds import AtLeast, Composite, Feature, InCell, Primitive
from rlvc.vision.extractor import FeatureExtractor


@dataclass(frozen=True)
class FeatureGraph:
    """Features by number; the parts of a feature have lower numbers.

    Graphs are immutable: adding features makes a new one in which the old ones keep their numbers.

    >>> graph = FeatureGraph((Primitive("", 0), Primitive("", 1)))
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
        """The camera of each feature."""
        return _cameras(self.features, ())

    @cached_property
    def height(self) -> tuple[int, ...]:
        """The height of each feature: 0 for primitives, else 1 more than its highest part."""
        return _heights(self.features, ())

    @cached_property
    def numbers(self) -> dict[Feature, int]:
        """The number of each feature."""
        return {feature: number for number, feature in enumerate(self.features)}

    def symbols(self, camera: str) -> NDArray[np.int32]:
        """Return the feature number of each symbol of a camera."""
        primitives = [
            number
            for number, feature in enumerate(self.features)
            if isinstance(feature, Primitive) and feature.camera == camera
        ]
        return np.asarray(primitives, np.int32)  # symbols are added in their order

    def add(self, features: Iterable[Feature]) -> tuple[FeatureGraph, list[int]]:
        """Return the graph with more features, and their numbers; known features keep theirs."""
        known = dict(self.numbers)
        numbers = [known.setdefault(feature, len(known)) for feature in features]
        if len(known) == len(self):
            return self, numbers
        graph = FeatureGraph(tuple(known))
        # Stages add few features to many, so known values are not computed again.
        graph.__dict__["numbers"] = known
        graph.__dict__["camera"] = _cameras(graph.features, self.camera)
        graph.__dict__["height"] = _heights(graph.features, self.height)
        return graph, numbers

    def add_symbols(self, extractor: FeatureExtractor) -> FeatureGraph:
        """Return the graph with a feature for each symbol of an extractor."""
        return self.add(
            Primitive(camera, symbol)
            for camera, vocabulary in extractor.vocabularies.items()
            for symbol in range(vocabulary.n_symbols)
        )[0]

    def only(self, wanted: Iterable[int]) -> tuple[FeatureGraph, dict[int, int]]:
        """Return the graph of the wanted features and their parts, and their new numbers by old."""
        kept: set[int] = set()
        pending = list(wanted)
        while pending:
            number = pending.pop()
            if number not in kept:
                kept.add(number)
                pending += self.features[number].parts
        numbers = {old: new for new, old in enumerate(sorted(kept))}
        features = tuple(_renumber(self.features[old], numbers) for old in numbers)
        return FeatureGraph(features), numbers

    def join(self, other: FeatureGraph) -> tuple[FeatureGraph, dict[int, int]]:
        """Return the graph with the features of another, and their new numbers by old.

        >>> other = FeatureGraph((Primitive("", 1), Primitive("", 0)))
        >>> FeatureGraph((Primitive("", 0),)).join(other)[1]
        {0: 1, 1: 0}
        """
        known, numbers = dict(self.numbers), dict[int, int]()
        for number, feature in enumerate(other.features):
            numbers[number] = known.setdefault(_renumber(feature, numbers), len(known))
        return FeatureGraph(tuple(known)), numbers

    def primitives(self, number: int) -> list[int]:
        """Return the numbers of the primitive features of which a feature is made, in order."""
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
        """Return features of one camera in words.

        >>> FeatureGraph((Primitive("left", 3), Primitive("left", 8))).names_of([0, 1])
        'symbols 3, 8 of left'
        """
        features = [self.features[number] for number in numbers]
        symbols = [one.symbol for one in features if isinstance(one, Primitive)]
        if len(symbols) < max(len(features), 2):
            return ", ".join(map(self._name, numbers))
        camera = self.camera[numbers[0]]
        return f"symbols {', '.join(map(str, symbols))}" + (f" of {camera}" if camera else "")

    def is_in_one_camera(self, number: int) -> bool:
        """Tell whether all parts of a feature are of one camera."""
        return len({self.camera[part] for part in self.features[number].parts}) <= 1

    def is_arranged(self, number: int) -> bool:
        """Tell whether a feature (the first part of an at-least feature) is more than a symbol."""
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
