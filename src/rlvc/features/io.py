"""Features in files: write them, read them, and check them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from rlvc._core.validate import from_json, require
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import MAX_HEIGHT, AtLeast, Composite, Feature, InCell, Primitive
from rlvc.vision.extractor import FeatureExtractor

MAX_NAMED: Final = 2**21  # features in the descriptions of all features


def describe_feature(feature: Feature) -> dict[str, Any]:
    """Return a feature for JSON, without its optional parameters that are None.

    >>> describe_feature(Primitive("front", 3))
    {'camera': 'front', 'symbol': 3}
    """
    return {k: v for k, v in dataclasses.asdict(feature).items() if v is not None}


def read_feature(entry: dict[str, Any]) -> Feature:
    """Return the feature that an entry describes; its keys tell its kind.

    >>> read_feature({"camera": "front", "symbol": 3})
    Primitive(camera='front', symbol=3)
    """
    kinds = {"symbol": Primitive, "level": InCell, "least": AtLeast}
    kind = next((kinds[key] for key in kinds if key in entry), Composite)
    feature: Feature = from_json(kind, entry)
    return feature


def check_features(graph: FeatureGraph, n_symbols: Mapping[str, int], first: int = 0) -> None:
    """Raise a ValueError unless parts precede what they make up and all numbers make sense.

    Args:
        graph: The features.
        n_symbols: The number of symbols of each camera.
        first: The number of the first feature to check.
    """
    require(len(graph.numbers) == len(graph), "features")
    for number, feature in enumerate(graph.features[first:], first):
        require(all(0 <= part < number for part in feature.parts), "features")
    for number, feature in enumerate(graph.features[first:], first):
        if isinstance(feature, Primitive):
            require(0 <= feature.symbol < n_symbols[feature.camera], "features")
        elif isinstance(feature, InCell):
            require(0 <= feature.level <= 16, "features")
            require(min(feature.column, feature.line) >= 0, "features")
            require(max(feature.column, feature.line) < 2**feature.level, "features")
        elif isinstance(feature, AtLeast):
            require(1 <= feature.least <= len(set(feature.parts)) == len(feature.parts), "features")
            require(graph.is_in_one_camera(number), "features")
            require(not any(isinstance(graph[part], AtLeast) for part in feature.parts), "features")
        else:
            require(graph.is_in_one_camera(number), "features")
            require(0.0 < feature.likelihood < 1.0 and feature.mean >= 0.0, "features")
            require((feature.turn is None) == (feature.turn_deviation is None), "features")
            require((feature.ratio is None) == (feature.ratio_deviation is None), "features")
            require(feature.ratio is None or abs(feature.ratio) < 1000.0, "features")
            for deviation in (feature.deviation, feature.turn_deviation, feature.ratio_deviation):
                require(deviation is None or 0.0 < deviation < math.inf, "features")
            require(np.isfinite(feature.parameters()).all(), "features")
    require(max(graph.height, default=0) <= MAX_HEIGHT, "features")
    _check_descriptions(graph, first)


def _check_descriptions(graph: FeatureGraph, first: int) -> None:
    """Raise a ValueError if descriptions of features would be too long.

    A feature may be a part of many others, and each of these names it.
    """
    known: dict[int, int] = {}

    def count(number: int) -> int:  # the recursion is as deep as features are high
        if number not in known:
            known[number] = 1 + sum(map(count, graph[number].parts))
        return known[number]

    named = [count(number) for number in range(first, len(graph))]
    require(max(named, default=0) <= 2 ** (MAX_HEIGHT + 1) and sum(named) <= MAX_NAMED, "features")


def symbols_of(extractor: FeatureExtractor) -> dict[str, int]:
    """Return the number of symbols of each camera."""
    return {camera: one.n_symbols for camera, one in extractor.vocabularies.items()}
