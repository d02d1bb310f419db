"""How the end of a stage becomes a policy: only the features that decide go along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlvc.classifier import Classifier
from rlvc.features import Composite, Graph, Primitive, Several
from rlvc.interactions import Interactions
from rlvc.percepts import Percepts
from rlvc.policy import Policy
from rlvc.sightings import Sightings
from rlvc.vision.detectors import Points
from rlvc.vision.eye import SIDE, Eye, cut_patch


def make_policy(
    eye: Eye,
    interactions: Interactions,
    sightings: Sightings,
    classifier: Classifier,
    q: NDArray[np.float64],
    count: NDArray[np.int64],
    gamma: float,
) -> Policy:
    """Return the policy of a solved stage; ``sightings`` are those of the database's percepts."""
    selected = classifier.features.tolist()
    graph, numbers = sightings.graph.only(selected)
    usage = np.zeros(len(graph), np.int64)
    usage[[numbers[feature] for feature in selected]] = classifier.usage(sightings.incidence)
    patches = [_patch(number, eye, sightings, interactions.percepts) for number in numbers]
    return Policy(
        eye=eye.snapshot(),
        graph=graph,
        classifier=classifier.renumber(numbers),
        q=q,
        count=count,
        usage=usage,
        patches=np.stack(patches) if patches else np.empty((0, SIDE, SIDE, 3), np.uint8),
        shapes={images.camera: images.shape or () for images in interactions.percepts.images},
        gamma=gamma,
        action_start=interactions.action_start,
        action_names=interactions.action_names,
    )


def _patch(number: int, eye: Eye, sightings: Sightings, percepts: Percepts) -> NDArray[np.uint8]:
    """Return what a feature looks like: a composite where it is first found, all parts in view."""
    feature = sightings.graph[number]
    if isinstance(feature, Primitive):
        return eye.patches[feature.camera][feature.symbol]
    if isinstance(feature, Several):
        return _patch(feature.parts[0], eye, sightings, percepts)
    camera = sightings.cameras.index(sightings.graph.camera[number])
    image, found = sightings.find(number)
    if len(image) == 0:  # fresh interactions may not show it any more
        return np.zeros((SIDE, SIDE, 3), np.uint8)
    size = _extent(sightings.graph, number, float(found[0, 2]))
    point = Points.at(found[:1, :2].astype(np.float32), size)
    return cut_patch(percepts.images[camera][int(image[0])], point, 0)


def _extent(graph: Graph, number: int, scale: float) -> float:
    """Return the diameter of the neighbourhood that shows all parts of a feature."""
    feature = graph[number]
    parts = max((_extent(graph, part, scale) for part in feature.parts), default=scale)
    return parts + (feature.mean + feature.reach if isinstance(feature, Composite) else 0.0)
