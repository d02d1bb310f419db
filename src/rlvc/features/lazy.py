"""The features of one percept, extracted only as far as a policy's tests ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.data.images import Image
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import AtLeast, Marks, Primitive
from rlvc.features.occurrences import derive, to_marks
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.search import Search


class LazyFeatures:
    """The features of one percept.

    The image of a camera is processed when a test first needs it, and a feature is searched for
    when it is first tested; both are remembered for later tests.

    Args:
        graph: The features, by number.
        extractor: Detects and describes interest points and knows the symbols.
        percept: The images by camera; a percept that is one image has the camera "".

    >>> from rlvc.data import Percepts
    >>> from rlvc.vision import ExtractionCache, choose_extractor
    >>> percepts = Percepts()
    >>> image = np.zeros((64, 64, 3), np.uint8)
    >>> image[30:, 30:] = 255
    >>> number, extractor = percepts.add(image), choose_extractor(percepts).new_extractor()
    >>> keypoints = ExtractionCache().extract(extractor, percepts)
    >>> symbols = extractor.find_symbols(percepts, keypoints)
    >>> features = LazyFeatures(FeatureGraph((Primitive("", 0),)), extractor, {"": image})
    >>> features.exhibits(0), features.find(0)[:, :2].tolist()
    (True, [[31.0, 31.0]])
    """

    def __init__(
        self, graph: FeatureGraph, extractor: FeatureExtractor, percept: Mapping[str, Image]
    ) -> None:
        self._graph = graph
        self._extractor = extractor
        self._percept = percept
        self._keypoints: dict[str, tuple[InterestPoints, NDArray[Any], Search]] = {}
        self._found: dict[int, Marks] = {}
        self._exhibited: dict[int, bool] = {}

    def exhibits(self, number: int) -> bool:
        """Tell whether the percept exhibits a feature; a policy calls this for each test."""
        if number not in self._exhibited:
            feature = self._graph[number]
            if isinstance(feature, Primitive):
                _, rows, search = self._extract(feature.camera)
                self._exhibited[number] = search.has_match(rows, feature.symbol)
            elif isinstance(feature, AtLeast):
                n_parts = sum(map(self.exhibits, feature.parts))
                self._exhibited[number] = n_parts >= feature.least
            else:
                self._exhibited[number] = len(self.find(number)) > 0
        return self._exhibited[number]

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
            points, rows, search = self._extract(feature.camera)
            points = points.take(search.matches(rows, feature.symbol))
            return to_marks(points)
        if not self._graph.is_in_one_camera(number):
            return np.empty((0, 4), np.float64)  # positions in two cameras cannot be compared
        height, width = self._percept[self._graph.camera[number]].shape[:2]
        parts = [self._found[part] for part in feature.parts]
        found = [(np.zeros(len(one), np.int64), one) for one in parts]  # on image 0
        return derive(feature, found, (width, height))[1]

    def _extract(self, camera: str) -> tuple[InterestPoints, NDArray[Any], Search]:
        """Return the points of a camera's image, their prepared descriptors, and the search."""
        if camera not in self._keypoints:
            points, descriptors = self._extractor.extract_image(self._percept[camera])
            search = self._extractor.vocabularies[camera].search
            self._keypoints[camera] = points, search.prepare(descriptors), search
        return self._keypoints[camera]
