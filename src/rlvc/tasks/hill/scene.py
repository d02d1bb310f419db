"""The scene of the hill: a map over position and velocity, with the images of both."""

from __future__ import annotations

from typing import Final

import numpy as np

from rlvc.data.images import Image
from rlvc.report.web.encoding import encode_array, encode_image, encode_images
from rlvc.report.web.scene import Scene
from rlvc.runs.direct_perception import ENOUGH
from rlvc.tasks.hill.index import GAUGE, GROUND, POSITIONS, VELOCITIES, all_images
from rlvc.tasks.hill.metrics import optimal_q

EVERY: Final = 4  # columns between points of the map; half as many rows
LOST: Final = 1e-6  # a value below which no action matters


def draw_scene(strip: Image) -> Scene:
    """Return every position that the ground shows, and every velocity that the gauge does."""
    percepts, numbers = all_images(strip)
    names, table = percepts.cameras, percepts.table()[numbers]
    column_of = dict(zip(names, table.T, strict=True))
    ground, gauge = column_of[GROUND], column_of[GAUGE][: len(VELOCITIES)]
    alike = list(percepts.images[names.index(GAUGE)])  # but for the cursor, so they compress well
    sheets, gauges = encode_images(GAUGE, alike, 1, np.inf)
    _, first = np.unique(ground, return_index=True)
    where = {
        GAUGE: gauges,
        GROUND: {
            "name": GROUND, "width": strip.shape[1] - len(POSITIONS) + 1,
            "height": len(strip), "file": 0, "x": encode_array(first), "zoom": 1.0,
        },
    }  # fmt: skip
    across, up = np.arange(0, len(POSITIONS), 2 * EVERY), np.arange(0, len(VELOCITIES), EVERY)
    x, y = (each.ravel() for each in np.meshgrid(across, up))
    shown = {GROUND: ground[x], GAUGE: gauge[y]}
    labels = [
        f"position {POSITIONS[i]:.2f}, velocity {VELOCITIES[j]:.2f}"
        for i, j in zip(x, y, strict=True)
    ]
    columns = np.arange(0, len(POSITIONS), EVERY)
    rows = np.arange(0, len(VELOCITIES), EVERY // 2)
    states = np.stack(np.meshgrid(POSITIONS[columns], VELOCITIES[rows]), axis=-1).reshape(-1, 2)
    q = optimal_q(states)
    best = q.max(axis=1, keepdims=True)
    about = {
        "kind": "plane", "n_actions": q.shape[1], "ground": names.index(GROUND),
        "gauge": names.index(GAUGE), "columns": encode_array(ground), "every_column": EVERY,
        "rows": encode_array(gauge), "every_row": EVERY // 2,
        "position": [POSITIONS[0], POSITIONS[-1]], "velocity": [VELOCITIES[0], VELOCITIES[-1]],
        "good": encode_array((q >= ENOUGH * best) | (best < LOST)), "best": encode_array(best),
    }  # fmt: skip
    pairs = np.stack([shown[name] for name in names], axis=1)
    cameras = [where[name] for name in names]
    return Scene(percepts, pairs, labels, [encode_image(strip), *sheets], cameras, about)
