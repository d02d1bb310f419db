"""Tasks as a page shows them: percepts to ask about, where their pixels are, and a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc.data.percepts import SINGLE, Percepts
from rlvc.envs.campus.graph_world import AHEAD, CAMPUS, HEADINGS
from rlvc.envs.hill.env import HillEnv
from rlvc.envs.hill.scene import LAST_GAUGE, gauge_image, ground_image
from rlvc.envs.photos.views import DIVISIONS, campus_views
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import MOVES
from rlvc.report.web.encoding import QUALITY, Json, pack, picture, show_images
from rlvc.runs.examples import Examples
from rlvc.runs.metrics import ENOUGH, SPACING, cells_over, grid_over
from rlvc.tasks import hill
from rlvc.tasks.hill_index import GAUGE, GROUND, POSITIONS, VELOCITIES
from rlvc.tasks.hill_metrics import optimal_q
from rlvc.tasks.navigation import TASKS

VIEWS: Final = 4  # of either division that are shown of each state of the campus
EVERY: Final = 4  # columns from one percept of the hill's map to the next; half as many rows
LOST: Final = 1e-6  # a value below which nothing that is done on the hill matters


@dataclass(frozen=True, slots=True)
class Scene:
    """What a page shows of a task.

    Attributes:
        percepts: What is looked at.
        table: (n, n_cameras) the images that make up each percept that can be shown.
        labels: How to call these percepts.
        images: Pictures of the page.
        cameras: For each camera, where on these pictures its images are.
        task: What the view of the task needs to know.
    """

    percepts: Percepts
    table: NDArray[np.int64]
    labels: list[str]
    images: list[Json]
    cameras: list[Json]
    task: Json


def scene_of(result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
    """Return the scene of a run.

    Args:
        result: What is known of the run.
        examples: The percepts that a run on a task of one's own kept.
        is_draft: Whether a coarser map will do, because the run is not finished.
    """
    task = result.get("task")
    if "pictures" not in result:
        return _own(examples)
    if task == "campus":
        return _spots(result["pictures"], result["seed"], 1 if is_draft else VIEWS)
    if task == "hill":
        return _plane(result["pictures"])
    return _world(str(task), result["pictures"], is_draft)


def _world(name: str, pictures: str, is_draft: bool) -> Scene:
    """Return the maze or the subway: a grid of positions on its picture.

    A draft has fewer of them, and says nothing of the optimum, which takes a while to find.
    """
    task = TASKS[name]
    env = gymnasium.make(task.env_id, pictures=pictures, disable_env_checker=True).unwrapped
    assert isinstance(env, PictureEnv)
    world = task.world
    positions, cells = cells_over(world, 2 * SPACING if is_draft else SPACING)
    percepts = Percepts()
    numbers = [percepts.add(env.percept(position)) for position in positions]
    corner = np.array([env.corner(position) for position in positions])
    table = percepts.table()[numbers]
    at = np.zeros((len(percepts.images[0]), 2), np.int64)
    at[table[:, 0]] = corner
    camera = {
        "name": SINGLE, "width": world.window, "height": world.window, "file": 0,
        "x": pack(at[:, 0]), "y": pack(at[:, 1]), "zoom": 1.0,
    }  # fmt: skip
    labels = [f"at ({x:.0f}, {y:.0f})" for x, y in positions]
    about = {
        "kind": "world", "n_actions": len(MOVES), "width": world.width, "height": world.height,
        "walls": world.walls, "exits": world.exits, "moves": MOVES.tolist(), "margin": env.margin,
        "columns": cells.shape[1], "rows": cells.shape[0], "cells": pack(cells),
        "x": pack(positions[:, 0]), "y": pack(positions[:, 1]),
    }  # fmt: skip
    if not is_draft:
        q = grid_over(world).optimal_q
        best = q.max(axis=1)
        about |= {"good": pack(q >= ENOUGH * best[:, None]), "best": pack(best)}
    shown = picture(env.padded, QUALITY) if is_draft else picture(env.padded)
    return Scene(percepts, table, labels, [shown], [camera], about)


def _spots(pictures: str, seed: int, n_views: int) -> Scene:
    """Return the campus: some views of every state, such as were learned from and new ones."""
    views, percepts = campus_views(pictures, seed), Percepts()
    numbers, labels, states, kinds = [], list[str](), list[int](), list[int]()
    for state in range(views.n_states):
        for kind, name in enumerate(DIVISIONS):
            for i, view in enumerate(views.division(name)[state][:n_views]):
                numbers.append(percepts.add(views.image(state, view)))
                what = "new view" if name == "test" else "view learned from"
                labels.append(f"spot {CAMPUS.name(state)}, {what} {i + 1}")
                states.append(state)
                kinds.append(kind)
    store = percepts.images[0]
    images, camera = show_images(SINGLE, [store[i] for i in range(len(store))], 0)
    good = CAMPUS.is_optimal(np.arange(CAMPUS.reward.shape[1])[None], _column(CAMPUS.n_states))
    about = {
        "kind": "spots", "n_actions": good.shape[1], "places": CAMPUS.places,
        "links": CAMPUS.links, "goal": CAMPUS.goal, "headings": HEADINGS, "ahead": AHEAD,
        "state": states, "is_new": kinds, "good": pack(good),
    }  # fmt: skip
    return Scene(percepts, percepts.table()[numbers], labels, images, [camera], about)


def _plane(pictures: str) -> Scene:
    """Return the hill: every position that the ground shows, every velocity that the gauge does."""
    env = gymnasium.make(hill.ENV_ID, pictures=pictures, disable_env_checker=True).unwrapped
    assert isinstance(env, HillEnv)
    percepts = Percepts()
    numbers = [
        percepts.add(
            {GROUND: ground_image(env.strip, column), GAUGE: gauge_image(min(column, LAST_GAUGE))}
        )
        for column in range(len(POSITIONS))
    ]
    names, table = percepts.cameras, percepts.table()[numbers]
    column_of = dict(zip(names, table.T, strict=True))
    ground, gauge = column_of[GROUND], column_of[GAUGE][: len(VELOCITIES)]
    store = percepts.images[names.index(GAUGE)]
    alike = [store[i] for i in range(len(store))]  # but for the cursor, so there is room for all
    sheets, gauges = show_images(GAUGE, alike, 1, np.inf)
    first = np.zeros(len(percepts.images[names.index(GROUND)]), np.int64)
    first[ground[::-1]] = np.arange(len(ground))[::-1]
    where = {
        GAUGE: gauges,
        GROUND: {
            "name": GROUND, "width": env.strip.shape[1] - len(POSITIONS) + 1,
            "height": len(env.strip), "file": 0, "x": pack(first), "zoom": 1.0,
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
        "gauge": names.index(GAUGE), "columns": pack(ground), "every_column": EVERY,
        "rows": pack(gauge), "every_row": EVERY // 2,
        "position": [POSITIONS[0], POSITIONS[-1]], "velocity": [VELOCITIES[0], VELOCITIES[-1]],
        "good": pack((q >= ENOUGH * best) | (best < LOST)), "best": pack(best),
    }  # fmt: skip
    pairs = np.stack([shown[name] for name in names], axis=1)
    cameras = [where[name] for name in names]
    return Scene(percepts, pairs, labels, [picture(env.strip), *sheets], cameras, about)


def _own(examples: Examples | None) -> Scene:
    """Return a task of one's own: a strip of percepts."""
    if examples is None:
        return Scene(Percepts(), np.empty((0, 0), np.int64), [], [], [], {"kind": "own"})
    percepts, images, cameras = examples.percepts, list[Json](), list[Json]()
    for store in percepts.images:
        sheets, camera = show_images(
            store.camera, [store[i] for i in range(len(store))], len(images)
        )
        images += sheets
        cameras.append(camera)
    labels = [f"percept {i + 1}" for i in range(len(percepts))]
    about = {"kind": "own", "count": examples.count.tolist()}
    return Scene(percepts, percepts.table(), labels, images, cameras, about)


def _column(n: int) -> NDArray[np.int64]:
    return np.arange(n)[:, None]
