"""How the end of a stage becomes a policy: only the features that decide go along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlvc.classifier import Classifier
from rlvc.features import Primitive
from rlvc.incidence import Incidence
from rlvc.interactions import Interactions
from rlvc.policy import Policy
from rlvc.vision.eye import SIDE, Eye


def make_policy(
    eye: Eye,
    interactions: Interactions,
    symbols: Incidence,
    classifier: Classifier,
    q: NDArray[np.float64],
    count: NDArray[np.int64],
    gamma: float,
) -> Policy:
    """Return the policy of a solved stage; ``symbols`` are those of the database's percepts."""
    selected = classifier.features.tolist()
    patches = [eye.patches[feature] for feature in selected]
    return Policy(
        eye=eye.snapshot(),
        features=tuple(Primitive(eye.camera_of[f], eye.symbol_of[f]) for f in selected),
        classifier=classifier.renumber({f: number for number, f in enumerate(selected)}),
        q=q,
        count=count,
        usage=classifier.usage(symbols),
        patches=np.stack(patches) if patches else np.empty((0, SIDE, SIDE, 3), np.uint8),
        shapes={images.camera: images.shape or () for images in interactions.percepts.images},
        gamma=gamma,
        action_start=interactions.action_start,
        action_names=interactions.action_names,
    )
