"""Features as files have them: how they are written, and checked when they are read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from rlvc._core.validate import as_int, as_number, as_text, must
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import HIGHEST, AtLeast, Composite, Feature, InCell, Primitive
from rlvc.vision.extractor import FeatureExtractor

MOST_NAMED: Final = 2**21  # features in the words for all of them


def describe_feature(feature: Feature) -> dict[str, Any]:
    """Return a feature for JSON: what it has, without what is not asked of it."""
    return {k: v for k, v in dataclasses.asdict(feature).items() if v is not None}


def read_feature(entry: dict[str, Any]) -> Feature:
    """Return the feature that an entry describes; its names say which kind it is."""
    if "symbol" in entry:
        return Primitive(as_text(entry["camera"]), as_int(entry["symbol"]))
    if "level" in entry:
        names = "part", "level", "column", "line"
        return InCell(**{name: as_int(entry[name]) for name in names})
    if "least" in entry:
        parts = tuple(as_int(part) for part in entry["parts"])
        return AtLeast(parts=parts, least=as_int(entry["least"]))
    numbers = {name: as_number(entry[name]) for name in _NUMBERS if name in entry}
    return Composite(first=as_int(entry["first"]), second=as_int(entry["second"]), **numbers)


_NUMBERS = (
    "mean", "deviation", "likelihood", "turn", "turn_deviation", "ratio", "ratio_deviation",
)  # fmt: skip


def check_features(graph: FeatureGraph, n_symbols: Mapping[str, int], first: int = 0) -> None:
    """Raise a ValueError unless parts come before what they make up and all numbers make sense.

    Args:
        graph: The features.
        n_symbols: How many symbols each camera has.
        first: From which number on they are to be checked.
    """
    must(len(graph.numbers) == len(graph), "features")
    for number, feature in enumerate(graph.features[first:], first):
        must(all(0 <= part < number for part in feature.parts), "features")
    for feature in graph.features[first:]:
        if isinstance(feature, Primitive):
            must(0 <= feature.symbol < n_symbols[feature.camera], "features")
        elif isinstance(feature, InCell):
            must(0 <= feature.level <= 16, "features")
            must(min(feature.column, feature.line) >= 0, "features")
            must(max(feature.column, feature.line) < 2**feature.level, "features")
        elif isinstance(feature, AtLeast):
            must(1 <= feature.least <= len(set(feature.parts)) == len(feature.parts), "features")
            must(len({graph.camera[part] for part in feature.parts}) == 1, "features")
            must(not any(isinstance(graph[part], AtLeast) for part in feature.parts), "features")
        else:
            must(len({graph.camera[part] for part in feature.parts}) == 1, "features")
            must(0.0 < feature.likelihood < 1.0 and feature.mean >= 0.0, "features")
            must((feature.turn is None) == (feature.turn_deviation is None), "features")
            must((feature.ratio is None) == (feature.ratio_deviation is None), "features")
            must(feature.ratio is None or abs(feature.ratio) < 1000.0, "features")
            for deviation in (feature.deviation, feature.turn_deviation, feature.ratio_deviation):
                must(deviation is None or 0.0 < deviation < math.inf, "features")
            must(np.isfinite(feature.row()).all(), "features")
    must(max(graph.height, default=0) <= HIGHEST, "features")
    _check_words(graph, first)


def _check_words(graph: FeatureGraph, first: int) -> None:
    """Raise a ValueError if features put in words would be long without end.

    A feature may be a part of many, and so be named often.
    """
    known: dict[int, int] = {}

    def count(number: int) -> int:  # no deeper than features are high
        if number not in known:
            known[number] = 1 + sum(map(count, graph[number].parts))
        return known[number]

    named = [count(number) for number in range(first, len(graph))]
    must(max(named, default=0) <= 2 ** (HIGHEST + 1) and sum(named) <= MOST_NAMED, "features")


def symbols_of(extractor: FeatureExtractor) -> dict[str, int]:
    """Return how many symbols each camera of an eye has."""
    return {camera: words.n_symbols for camera, words in extractor.vocabularies.items()}
