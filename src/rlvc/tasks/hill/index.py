"""Which features the images of both cameras on the hill exhibit; each image is processed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.jit import chunks, jit, n_threads, share_threads
from rlvc.classifiers._nodes import LEAF, Nodes
from rlvc.classifiers.base import Classifier
from rlvc.data.images import Image
from rlvc.data.percepts import Percepts
from rlvc.envs.hill.dynamics import FIRST, HILL, TOP
from rlvc.envs.hill.scene import (
    LAST_GAUGE,
    LAST_GROUND,
    gauge_column,
    gauge_image,
    ground_column,
    ground_image,
)
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.policies.forest import AnyPolicy, ForestPolicy
from rlvc.policies.values import greedy
from rlvc.runs.direct_perception import Actor
from rlvc.runs.forest import add_features
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.extractor import FeatureExtractor

GROUND: Final = "ground"
GAUGE: Final = "gauge"
POSITIONS: Final = np.linspace(FIRST, TOP, LAST_GROUND + 1)
"""The position that each image of the ground shows."""
VELOCITIES: Final = np.linspace(-HILL.max_speed, HILL.max_speed, LAST_GAUGE + 1)
"""The velocity that each image of the gauge shows."""
N_IMAGES: Final = len(POSITIONS) + len(VELOCITIES)


@dataclass(frozen=True, slots=True, eq=False)
class HillIndex:
    """Which image of either camera exhibits which feature of a graph.

    A percept is an image of the ground and one of the gauge, and a feature belongs to one of the
    cameras, so these two matrices determine what every percept exhibits.

    Attributes:
        graph: The features.
        ground: (1025, n_features) for every position, from the left.
        gauge: (361, n_features) for every velocity, from the lowest.
    """

    graph: FeatureGraph
    ground: Bools = field(repr=False)
    gauge: Bools = field(repr=False)

    @classmethod
    def of(cls, index: FeatureIndex, graph: FeatureGraph) -> HillIndex:
        """Return the index of the features of a graph from the result of :func:`index_hill`."""
        index, numbers = add_features(index, graph)
        columns = [numbers[number] for number in range(len(graph))]
        shows = {
            camera: _dense(shown.take(images))[:, columns]
            for camera, shown, images in zip(index.cameras, index.shown, index.table.T, strict=True)
        }
        return cls(graph, shows[GROUND], shows[GAUGE][: len(VELOCITIES)])

    def shows(self, number: int) -> Bools:
        """Return which positions exhibit a feature or, if it is of the gauge, which velocities."""
        images = self.ground if self.graph.camera[number] == GROUND else self.gauge
        return images[:, number]

    def classify(self, classifier: Classifier, threads: int = 0) -> Ints:
        """Return the (361, 1025) visual classes: rows by velocity, columns by position."""
        if not isinstance(classifier, Nodes):
            raise TypeError(
                "The classifier of a policy on the hill must be a tree or diagrams; "
                f"got {type(classifier).__name__}."
            )

        def work(rows: slice) -> Ints:
            return _classify(*classifier.arrays, self.gauge[rows], self.ground)

        pieces = chunks(len(self.gauge), n_threads(threads))
        return np.concatenate(share_threads(work, pieces, threads))


def all_images(strip: Image) -> tuple[Percepts, list[int]]:
    """Return percepts that show all images, and their numbers from the left.

    There are fewer images of the gauge than of the ground, so its last one is repeated.
    """
    percepts = Percepts()
    numbers = [
        percepts.add(
            {GROUND: ground_image(strip, column), GAUGE: gauge_image(min(column, LAST_GAUGE))}
        )
        for column in range(LAST_GROUND + 1)
    ]
    return percepts, numbers


def index_hill(
    extractor: FeatureExtractor,
    graph: FeatureGraph,
    strip: Image,
    threads: int = 0,
    on_image: Callable[[], None] | None = None,
) -> FeatureIndex:
    """Index all images; row i has image i of the ground and, while there are any, of the gauge.

    All symbols of the extractor must be in the graph. ``on_image`` is called after each image.
    """
    percepts, numbers = all_images(strip)
    keypoints = ExtractionCache().extract(extractor, percepts, threads, on_image)
    occurrences = extractor.find_symbols(percepts, keypoints, threads, learn=False)
    index = FeatureIndex.of(graph, percepts, occurrences)
    return index.of_percepts(index.table[numbers])


def actions_of(policy: AnyPolicy, strip: Image) -> Ints:
    """Return the (361, 1025) actions of a policy, counted from 0."""
    symbols = FeatureGraph().add_symbols(policy.extractor)
    index = index_hill(policy.extractor, symbols, strip)
    if isinstance(policy, ForestPolicy):
        return greedy(*values_of_forest(policy, index))
    return policy.actions[HillIndex.of(index, policy.graph).classify(policy.classifier)]


def values_of_forest(
    forest: ForestPolicy, index: FeatureIndex, threads: int = 0
) -> tuple[Floats, Bools]:
    """Return the (361, 1025, n_actions) values of a forest, and which of them any tree tried."""
    tested = HillIndex.of(index, forest.graph)
    return forest.vote(tested.classify(one.classifier, threads) for one in forest.trees)


def actor(actions: Ints) -> Actor:
    """Return the actor that takes the (361, 1025) actions of the percepts.

    >>> act = actor(np.repeat([[0], [1]], [180, 181], axis=0) + np.zeros(1025, np.int64))
    >>> act(np.array([[0.5, -0.1], [0.5, 0.0]])).tolist()  # thrusts the way it goes
    [0, 1]
    """
    return lambda states: np.asarray(
        actions[gauge_column(states[:, 1]), ground_column(states[:, 0])]
    )


def _dense(incidence: Incidence) -> Bools:
    dense = np.zeros((incidence.n_percepts, incidence.n_features), np.bool_)
    dense[np.repeat(np.arange(len(dense)), np.diff(incidence.indptr)), incidence.indices] = True
    return dense


@jit
def _classify(feature: Ints, present: Ints, absent: Ints, gauge: Bools, ground: Bools) -> Ints:
    """Walk from the root for every pair of images; no feature is seen by both cameras."""
    classes = np.empty((len(gauge), len(ground)), np.int64)
    for v in range(len(gauge)):
        for p in range(len(ground)):
            node = 0
            while feature[node] != LEAF:
                f = feature[node]
                node = present[node] if gauge[v, f] or ground[p, f] else absent[node]
            classes[v, p] = present[node]
    return classes
