"""The results of a stage, and its policy, which contains only the features it tests."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Floats
from rlvc.classifiers.base import Classifier
from rlvc.classifiers.tree import Tree
from rlvc.data.percepts import Percepts
from rlvc.errors import ImageError
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import AtLeast, Composite, Primitive
from rlvc.learning.database import Database
from rlvc.learning.mdp import MappedMDP
from rlvc.learning.shard import Spot
from rlvc.learning.shrinkage import shrink
from rlvc.policies.policy import Policy
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import SIDE, FeatureExtractor, cut_patch

if TYPE_CHECKING:
    from rlvc.learning.rlvc import RLVC

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stage:
    """The results of a stage of the learner.

    Attributes:
        number: The stage k.
        database: The interactions it learned from.
        classifier: The classifier C_k.
        mdp: The mapped MDP M_k.
        q: (n_classes, n_actions) its optimal state–action values.
        learner: The learner.
        residual: Root mean square Bellman residual, in units of reward.
        n_aliased: The number of aliased classes.
        n_refinable: How many of them some feature would split.
        n_refined: How many of those are split now; the others wait for a later stage.
    """

    number: int
    database: Database
    classifier: Classifier
    mdp: MappedMDP
    q: Floats
    learner: RLVC
    residual: float
    n_aliased: int
    n_refinable: int
    n_refined: int

    def values(self) -> Floats:
        """Return the values that its policy acts on: ``q`` after shrinkage.

        Merged classes have no ancestors, so the values of diagrams do not shrink.
        """
        mdp, learner = self.mdp, self.learner
        if isinstance(self.classifier, Tree):
            mdp = shrink(mdp, self.classifier, learner.shrinkage)
        return self.q if mdp is self.mdp else learner.solver.solve(mdp, learner.gamma)

    def actions(self) -> NDArray[np.int64]:
        """Return the action that its policy takes in each class."""
        return self.mdp.greedy(self.values())

    def policy(self) -> Policy:
        """Return the policy of this stage, ready to act."""
        database, classifier = self.database, self.classifier
        selected = classifier.features.tolist()
        graph, numbers = database.graph.only(selected)
        usage = np.zeros(len(graph), np.int64)
        usage[[numbers[feature] for feature in selected]] = database.usage(classifier)
        interactions = database.interactions
        policy = Policy(
            extractor=database.extractor.snapshot(),
            graph=graph,
            classifier=classifier.renumber(numbers),
            q=self.values(),
            count=self.mdp.count,
            usage=usage,
            patches=np.zeros((len(graph), SIDE, SIDE, 3), np.uint8),
            shapes={images.camera: images.shape or () for images in interactions.percepts.images},
            gamma=self.learner.gamma,
            action_start=interactions.action_start,
            action_names=interactions.action_names,
        )
        if interactions.percepts.has_images:
            spots, percepts = spots_of(policy, database), interactions.percepts
            policy.patches[:] = draw_patches(graph, spots, database.extractor, percepts)
        return policy


def spots_of(policy: Policy, database: Database) -> dict[int, Spot]:
    """Return where the features of a policy that have no patch of their own first occur."""
    numbers = database.graph.join(policy.graph)[1]
    wanted = [
        number
        for number, feature in enumerate(policy.graph.features)
        if not isinstance(feature, (Primitive, AtLeast))
    ]
    spots = database.spots([numbers[number] for number in wanted])
    return {n: spot for n, spot in zip(wanted, spots, strict=True) if spot is not None}


def draw_patches(
    graph: FeatureGraph, spots: Mapping[int, Spot], extractor: FeatureExtractor, percepts: Percepts
) -> NDArray[np.uint8]:
    """Return the patches of a graph's features; that of a composite shows all its parts."""
    patches, missing = np.zeros((len(graph), SIDE, SIDE, 3), np.uint8), list[ImageError]()
    for number, feature in enumerate(graph.features):  # parts come first
        if isinstance(feature, Primitive):
            patches[number] = extractor.patches[feature.camera][feature.symbol]
        elif isinstance(feature, AtLeast):
            patches[number] = patches[feature.parts[0]]
        elif number in spots:  # fresh interactions may no longer show it
            spot, camera = spots[number], percepts.cameras.index(graph.camera[number])
            size = _extent(graph, number, spot.scale)
            point = InterestPoints.at(np.array([[spot.x, spot.y]], np.float32), size)
            try:
                patches[number] = cut_patch(percepts.images[camera][spot.image], point, 0)
            except ImageError as error:  # the image of a dataset on disk may be gone
                missing.append(error)
    if missing:
        log.warning("%d features have no patch. %s", len(missing), missing[0])
    return patches


def _extent(graph: FeatureGraph, number: int, scale: float) -> float:
    """Return the diameter of the neighbourhood that shows all parts of a feature."""
    feature = graph[number]
    parts = max((_extent(graph, part, scale) for part in feature.parts), default=scale)
    return parts + (feature.mean + feature.reach if isinstance(feature, Composite) else 0.0)
