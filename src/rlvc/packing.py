"""How the end of a stage becomes a policy: only the features that decide go along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlvc.classifier.tree import Tree
from rlvc.features import Primitive
from rlvc.interactions import Interactions
from rlvc.policy import Policy
from rlvc.vision.eye import SIDE, Eye


def make_policy(
    eye: Eye,
    interactions: Interactions,
    classes: NDArray[np.int64],
    classifier: Tree,
    q: NDArray[np.float64],
    count: NDArray[np.int64],
    gamma: float,
) -> Policy:
    """Return the policy of a solved stage; ``classes`` are those of the database's percepts."""
    selected = classifier.features.tolist()
    compact = classifier.renumber({feature: number for number, feature in enumerate(selected)})
    usage = np.zeros(len(selected), np.int64)
    is_test = compact.feature >= 0
    np.add.at(usage, compact.feature[is_test], compact.visits(classes)[is_test])
    patches = [eye.patches[feature] for feature in selected]
    return Policy(
        eye=eye,
        features=tuple(Primitive(eye.camera_of[f], eye.symbol_of[f]) for f in selected),
        classifier=compact,
        q=q,
        count=count,
        usage=usage,
        patches=np.stack(patches) if patches else np.empty((0, SIDE, SIDE, 3), np.uint8),
        shapes={images.camera: images.shape or () for images in interactions.percepts.images},
        gamma=gamma,
        action_start=interactions.action_start,
        action_names=interactions.action_names,
    )
