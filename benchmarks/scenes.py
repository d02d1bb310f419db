"""The databases of the comparisons, and how to measure agents that learned from them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import gymnasium
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from rlvc import RLVC, Database, ForestPolicy, Interactions, Percepts, collect
from rlvc.data import Image
from rlvc.envs.campus.graph_world import CAMPUS
from rlvc.envs.hill.scene import (
    LAST_GAUGE,
    LAST_GROUND,
    gauge_column,
    gauge_image,
    ground_column,
    ground_image,
)
from rlvc.envs.photos.views import campus_views
from rlvc.features import FeatureIndex
from rlvc.policies import AnyPolicy, greedy
from rlvc.runs import forest_values, tasks
from rlvc.runs.forest import add_features
from rlvc.tasks import grid_over, vote, walk
from rlvc.tasks.campus.metrics import direct_error, error_of
from rlvc.tasks.hill import metrics as hill_measures
from rlvc.tasks.hill.index import actions_of, actor, index_hill
from rlvc.tasks.navigation.metrics import compare, optimal_actor
from rlvc.vision import ExtractionCache

N = 10_000
SIDE = 16

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Batch:
    """Percepts to decide on: the index of their features, and their 16 × 16 pixels."""

    index: Callable[[], FeatureIndex]
    pixels: Callable[[], Floats]


Act = Callable[[Batch], Ints]


@dataclass(frozen=True, slots=True)
class Scene:
    """A database, and how to measure an agent that learned from it.

    Attributes:
        data: The interactions.
        database: The same, with its features extracted.
        pixels: (n_percepts, …) all percepts as 16 × 16 pixels.
        best: (n_percepts,) the best action at the state of each percept.
        measure: Returns the measures of an agent.
        others: Returns the measures of direct perception and of the optimum.
        seconds: The seconds of feature extraction.
        ceiling: Returns the measures of the best action at the state of the most similar percept;
            None if symbols determine which one that is.
        is_campus: Whether this is the campus, where compaction matters.
        drive: A faster way to measure a policy, if there is one.
    """

    data: Interactions
    database: Database
    pixels: Floats
    best: Ints
    measure: Callable[[Act], dict[str, float]]
    others: Callable[[], dict[str, dict[str, float]]]
    seconds: float
    ceiling: Callable[[], dict[str, float]] | None = None
    is_campus: bool = False
    drive: Callable[[AnyPolicy], dict[str, float]] | None = None

    def measure_policy(self, policy: AnyPolicy) -> dict[str, float]:
        """Return the measures of one classifier or of a forest."""
        return self.measure(act_of(policy)) if self.drive is None else self.drive(policy)


def _shrink_image(image: Image) -> Floats:
    """Return an image as 16 × 16 pixels."""
    small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32).ravel()


def shrink(percepts: Percepts) -> Floats:
    """Return percepts as 16 × 16 pixels, camera after camera."""
    small = [
        np.stack([_shrink_image(images[i]) for i in range(len(images))])
        for images in percepts.images
    ]
    table = percepts.table()
    return np.concatenate([pixels[table[:, i]] for i, pixels in enumerate(small)], axis=1)


def batch_of(images: list[Any], database: Database) -> Batch:
    """Return a batch of images that are extracted on demand."""
    percepts = Percepts()
    numbers = np.asarray([percepts.add(image) for image in images])

    def extract() -> FeatureIndex:
        index = database.index_of(percepts)
        return index.of_percepts(index.table[numbers])

    return Batch(extract, lambda: shrink(percepts)[numbers])


def cached(decide: Callable[[NDArray[Any]], Ints]) -> Callable[[NDArray[Any]], Ints]:
    """Return a function that decides once for all equal rows, as when agents are stuck."""
    known: dict[bytes, int] = {}

    def act(rows: NDArray[Any]) -> Ints:
        keys = [row.tobytes() for row in rows]
        fresh = {key: i for i, key in enumerate(keys) if key not in known}
        if fresh:
            actions = decide(rows[list(fresh.values())])
            known.update(zip(fresh, actions.tolist(), strict=True))
        return np.asarray([known[key] for key in keys], np.int64)

    return act


def extract_database(data: Interactions, learner: RLVC) -> tuple[Database, list[Any], float]:
    """Return the database, the keypoints, and the seconds that extraction takes."""
    begin = time.perf_counter()
    extractor = learner.new_extractor(data.percepts)
    cache = ExtractionCache()
    keypoints = cache.extract(extractor, data.percepts, learner.threads)
    database = learner.extract(data, cache, extractor=extractor)
    return database, keypoints, time.perf_counter() - begin


def states_of(data: Interactions) -> NDArray[np.float64]:
    """Return the last state in which each percept was perceived."""
    assert data.state is not None
    assert data.next_state is not None
    states = np.zeros((len(data.percepts), data.state[0].size))
    states[data.end] = data.next_state.reshape(len(data), -1)
    states[data.start] = data.state.reshape(len(data), -1)
    return states


def picture_scene(
    name: str, pictures: str, seed: int, learner: RLVC, *, nearby: bool = False
) -> Scene:
    """Return a database of the maze or the subway.

    With ``nearby``, an agent perceives the percept of the nearest point of a grid, so that features
    are extracted once for all agents.
    """
    task: Any = tasks.make(name)
    made = gymnasium.make(task.env_id, pictures=pictures, disable_env_checker=True)
    env: Any = made.unwrapped
    data = collect(made, N, seed=seed, state="position")
    database, _, seconds = extract_database(data, learner)
    grid, optimal = grid_over(task.world), optimal_actor(task.world)

    def rng() -> np.random.Generator:
        return np.random.default_rng([seed, 2])

    def found(success: float, steps: float) -> dict[str, float]:
        return {"success": success, "steps": steps}

    if nearby:
        around = batch_of([env.percept(p) for p in grid.positions], database)
        index, pixels = around.index(), around.pixels()
        everywhere = Batch(lambda: index, lambda: pixels)

    def measure(act: Act) -> dict[str, float]:
        def at(positions: NDArray[np.float64]) -> Ints:
            return act(batch_of([env.percept(p) for p in positions], database))

        if not nearby:
            return found(*walk(task.world, cached(at), rng()))
        actions = act(everywhere)
        return found(*walk(task.world, lambda p: actions[grid.nearest(p)], rng()))

    def others() -> dict[str, dict[str, float]]:
        direct = compare(grid, data, 1, learner, seed)["best"]
        return {
            "direct": found(direct["success"], direct["mean_steps"]),
            "optimum": found(*walk(task.world, optimal, rng())),
        }

    best = optimal(states_of(data))
    return Scene(data, database, shrink(data.percepts), best, measure, others, seconds)


def campus_scene(name: str, pictures: str, seed: int, learner: RLVC) -> Scene:
    """Return a database of the campus."""
    views = campus_views(pictures, seed)
    made = gymnasium.make(
        "rlvc/Campus-v0", pictures=pictures, views_seed=seed, disable_env_checker=True
    )
    data = collect(made, N, seed=seed, state="state")
    pairs = [(s, view) for s, numbers in enumerate(views.division("test")) for view in numbers]
    state = np.asarray([s for s, _ in pairs])
    database, keypoints, seconds = extract_database(data, learner)
    test = Percepts()
    number = np.asarray([test.add(views.image(*pair)) for pair in pairs])
    test_keypoints = ExtractionCache().extract(database.extractor, test)
    index = database.index_of(test, keypoints=test_keypoints)
    known = states_of(data)[:, 0].astype(np.int64)
    optimal = CAMPUS.optimal_q().argmax(axis=1)

    def measure(act: Act) -> dict[str, float]:
        batch = Batch(lambda: index, lambda: shrink(test))
        return {"test error": error_of(act(batch)[number], state)}

    def ceiling() -> dict[str, float]:
        voted = vote(keypoints[0], known, test_keypoints[0])[number]
        return {"test error": error_of(optimal[voted], state)}

    def others() -> dict[str, dict[str, float]]:
        return {"direct": {"test error": direct_error(data, learner)}}

    pixels = shrink(data.percepts)
    return Scene(
        data, database, pixels, optimal[known], measure, others, seconds, ceiling, is_campus=True
    )


def hill_scene(name: str, pictures: str, seed: int, learner: RLVC) -> Scene:
    """Return a database of the hill."""
    made = gymnasium.make("rlvc/Hill-v0", pictures=pictures, disable_env_checker=True)
    env: Any = made.unwrapped
    data = collect(made, N, seed=seed, state="state")
    database, _, seconds = extract_database(data, learner)
    index = index_hill(database.extractor, database.index.graph, env.strip)
    order = [index.cameras.index(camera) for camera in ("ground", "gauge")]
    grounds = [ground_image(env.strip, column) for column in range(LAST_GROUND + 1)]
    gauges = [gauge_image(column) for column in range(LAST_GAUGE + 1)]
    small = [np.stack(list(map(_shrink_image, images))) for images in (grounds, gauges)]
    begin = hill_measures.starts(seed)

    def found(missed: float, steps: float) -> dict[str, float]:
        return {"missed": missed, "steps": steps}

    def measure(act: Act) -> dict[str, float]:
        def at(columns: Ints) -> Ints:
            rows = columns.T
            table = np.zeros(columns.shape, np.int64)
            for camera, row in zip(order, rows, strict=True):
                table[:, camera] = index.table[row, camera]
            pixels = [small[order.index(camera)][rows[order.index(camera)]] for camera in (0, 1)]
            return act(
                Batch(lambda: index.of_percepts(table), lambda: np.concatenate(pixels, axis=1))
            )

        decide = cached(at)

        def steer(states: NDArray[np.float64]) -> Ints:
            return decide(
                np.stack([ground_column(states[:, 0]), gauge_column(states[:, 1])], axis=1)
            )

        return found(*hill_measures.trials(steer, begin))

    pixels_of_all = shrink(data.percepts)
    best = hill_measures.optimal_action(states_of(data))

    def ceiling() -> dict[str, float]:
        halves = np.split(pixels_of_all, 2, axis=1)  # one camera's pixels after the other's
        ground, gauge = (
            cdist(small[i], halves[camera], "sqeuclidean").astype(np.float32)
            for i, camera in enumerate(order)
        )
        actions = np.stack([best[(row + gauge).argmin(axis=1)] for row in ground], axis=1)
        return found(*hill_measures.trials(actor(actions), begin))

    def others() -> dict[str, dict[str, float]]:
        grids = hill_measures.compare(data, 1, learner, begin)
        return {
            "direct": found(grids["best"]["missed"], grids["best"]["mean_steps"]),
            "direct 13×13": found(grids["grid13"]["missed"], grids["grid13"]["mean_steps"]),
            "optimum": found(*hill_measures.trials(hill_measures.optimal_action, begin)),
        }

    def drive(policy: AnyPolicy) -> dict[str, float]:
        return found(*hill_measures.trials(actor(actions_of(policy, env.strip)), begin))

    return Scene(
        data, database, pixels_of_all, best, measure, others, seconds, ceiling, drive=drive
    )


SCENES = {
    "maze": picture_scene, "subway": picture_scene, "campus": campus_scene, "hill": hill_scene,
}  # fmt: skip


def make_scene(
    task: str, pictures: str, seed: int, learner: RLVC, *, nearby: bool = False
) -> Scene:
    """Return the database of a task, and how to measure on it."""
    if SCENES[task] is picture_scene:
        return picture_scene(task, pictures, seed, learner, nearby=nearby)
    return SCENES[task](task, pictures, seed, learner)


def act_of(policy: AnyPolicy) -> Act:
    """Return the actions of one classifier or of a forest, in bulk."""

    def act(batch: Batch) -> Ints:
        if isinstance(policy, ForestPolicy):
            return greedy(*forest_values(policy, batch.index()))
        index, numbers = add_features(batch.index(), policy.graph)
        return policy.actions[policy.classifier.renumber(numbers).classify(index.incidence)]

    return act
