"""The scene of a custom task: a strip of some percepts."""

from __future__ import annotations

import numpy as np

from rlvc.data.percepts import Percepts
from rlvc.report.web.encoding import Json, encode_images
from rlvc.report.web.scene import Scene
from rlvc.runs.examples import Examples


def draw_scene(examples: Examples | None) -> Scene:
    """Return a strip of the percepts that a run saved."""
    if examples is None:
        return Scene(Percepts(), np.empty((0, 0), np.int64), [], [], [], {"kind": "custom"})
    percepts, images, cameras = examples.percepts, list[Json](), list[Json]()
    for store in percepts.images:
        sheets, camera = encode_images(store.camera, list(store), len(images))
        images += sheets
        cameras.append(camera)
    labels = [f"percept {i + 1}" for i in range(len(percepts))]
    about = {"kind": "custom", "count": examples.count.tolist()}
    return Scene(percepts, percepts.table(), labels, images, cameras, about)
