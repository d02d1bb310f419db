"""How the end of a stage becomes a policy: only the features that decide go along."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc.classifiers.base import Classifier
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.errors import ImageError
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import AtLeast, Composite, Primitive
from rlvc.policies.policy import Policy
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import SIDE, FeatureExtractor, cut_patch

log = logging.getLogger(__name__)


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


class Seen(Protocol):
    """Interactions that were looked at, wherever what was seen is kept."""

    @property
    def interactions(self) -> Interactions:
        """The interactions ⟨s, a, r, s′⟩."""
        ...

    @property
    def extractor(self) -> FeatureExtractor:
        """Who looked."""
        ...

    @property
    def graph(self) -> FeatureGraph:
        """The features known so far."""
        ...

    def usage(self, classifier: Classifier) -> NDArray[np.int64]:
        """Return on how many percepts each of the classifier's features is tested."""
        ...

    def spots(self, numbers: Sequence[int]) -> list[Spot | None]:
        """Return where some features are first seen; None where they are not."""
        ...


def make_policy(
    seen: Seen,
    classifier: Classifier,
    q: NDArray[np.float64],
    count: NDArray[np.int64],
    gamma: float,
) -> Policy:
    """Return the policy of a solved stage."""
    selected = classifier.features.tolist()
    graph, numbers = seen.graph.only(selected)
    usage = np.zeros(len(graph), np.int64)
    usage[[numbers[feature] for feature in selected]] = seen.usage(classifier)
    interactions = seen.interactions
    policy = Policy(
        extractor=seen.extractor.snapshot(),
        graph=graph,
        classifier=classifier.renumber(numbers),
        q=q,
        count=count,
        usage=usage,
        patches=np.zeros((len(graph), SIDE, SIDE, 3), np.uint8),
        shapes={images.camera: images.shape or () for images in interactions.percepts.images},
        gamma=gamma,
        action_start=interactions.action_start,
        action_names=interactions.action_names,
    )
    if interactions.percepts.has_images:
        policy.patches[:] = draw_patches(
            graph, spots_of(policy, seen), seen.extractor, interactions.percepts
        )
    return policy


def spots_of(policy: Policy, seen: Seen) -> dict[int, Spot]:
    """Return where the features of a policy that have no patch of their own are first seen."""
    numbers = seen.graph.join(policy.graph)[1]
    wanted = [
        number
        for number, feature in enumerate(policy.graph.features)
        if not isinstance(feature, (Primitive, AtLeast))
    ]
    spots = seen.spots([numbers[number] for number in wanted])
    return {n: spot for n, spot in zip(wanted, spots, strict=True) if spot is not None}


def draw_patches(
    graph: FeatureGraph, spots: Mapping[int, Spot], extractor: FeatureExtractor, percepts: Percepts
) -> NDArray[np.uint8]:
    """Return what the features of a graph look like: a composite with all its parts in view."""
    patches, missing = np.zeros((len(graph), SIDE, SIDE, 3), np.uint8), list[ImageError]()
    for number, feature in enumerate(graph.features):  # parts come first
        if isinstance(feature, Primitive):
            patches[number] = extractor.patches[feature.camera][feature.symbol]
        elif isinstance(feature, AtLeast):
            patches[number] = patches[feature.parts[0]]
        elif number in spots:  # fresh interactions may not show it any more
            spot, camera = spots[number], percepts.cameras.index(graph.camera[number])
            size = _extent(graph, number, spot.scale)
            point = InterestPoints.at(np.array([[spot.x, spot.y]], np.float32), size)
            try:
                patches[number] = cut_patch(percepts.images[camera][spot.image], point, 0)
            except ImageError as error:  # that of a dataset on disk may be gone
                missing.append(error)
    if missing:
        log.warning("%d features have no picture. %s", len(missing), missing[0])
    return patches


def first_spot(index: FeatureIndex, number: int) -> Spot | None:
    """Return where a feature is first seen, among the images that were looked at."""
    image, found = index.find(number)
    if len(image) == 0:
        return None
    x, y, scale, _ = found[0].tolist()
    return Spot(int(image[0]), x, y, scale)


def _extent(graph: FeatureGraph, number: int, scale: float) -> float:
    """Return the diameter of the neighbourhood that shows all parts of a feature."""
    feature = graph[number]
    parts = max((_extent(graph, part, scale) for part in feature.parts), default=scale)
    return parts + (feature.mean + feature.reach if isinstance(feature, Composite) else 0.0)
