"""The scene of the maze or the subway: a map of percepts at a grid of positions."""

from __future__ import annotations

import numpy as np

from rlvc.data.percepts import SINGLE, Percepts
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import MOVES, PlanarWorld
from rlvc.report.web.encoding import QUALITY, encode_array, encode_image
from rlvc.report.web.scene import Scene
from rlvc.runs.direct_perception import ENOUGH
from rlvc.tasks.navigation.metrics import SPACING, cells_over, grid_over


def draw_scene(world: PlanarWorld, env: PictureEnv, *, is_draft: bool) -> Scene:
    """Return a grid of positions on the picture of a world.

    A draft has fewer positions, and no optimum, which takes a while to compute.
    """
    positions, cells = cells_over(world, 2 * SPACING if is_draft else SPACING)
    percepts = Percepts()
    numbers = [percepts.add(env.percept(position)) for position in positions]
    corner = np.array([env.corner(position) for position in positions])
    table = percepts.table()[numbers]
    at = np.zeros((len(percepts.images[0]), 2), np.int64)
    at[table[:, 0]] = corner
    camera = {
        "name": SINGLE, "width": world.window, "height": world.window, "file": 0,
        "x": encode_array(at[:, 0]), "y": encode_array(at[:, 1]), "zoom": 1.0,
    }  # fmt: skip
    labels = [f"at ({x:.0f}, {y:.0f})" for x, y in positions]
    about = {
        "kind": "world", "n_actions": len(MOVES), "width": world.width, "height": world.height,
        "walls": world.walls, "exits": world.exits, "moves": MOVES.tolist(), "margin": env.margin,
        "columns": cells.shape[1], "rows": cells.shape[0], "cells": encode_array(cells),
        "x": encode_array(positions[:, 0]), "y": encode_array(positions[:, 1]),
    }  # fmt: skip
    if not is_draft:
        q = grid_over(world).optimal_q
        best = q.max(axis=1)
        about |= {"good": encode_array(q >= ENOUGH * best[:, None]), "best": encode_array(best)}
    shown = encode_image(env.padded, QUALITY) if is_draft else encode_image(env.padded)
    return Scene(percepts, table, labels, [shown], [camera], about)
