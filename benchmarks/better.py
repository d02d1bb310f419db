"""One classifier and a forest beside other methods, on the same databases.

Run it with ``RLVC_DATA=… python benchmarks/better.py``; ``pip install scikit-learn`` first. What is
done is written to ``runs/better`` at once and not done again, so that it can be stopped and go on;
``--table`` prints what is there. Seeds 5 to 9 were used for no choice.

All methods learn from the same 10,000 interactions, and are measured in the same episodes, views or
trials. *one*: ``RLVC(gamma=γ)``; *compact*: the same with compaction; *forest*: 25 trees; *fqi
features* and *fqi pixels*: Fitted Q Iteration with Extra-Trees on the same binary features and on
16 × 16 pixels (see ``fitted_q.py``); *direct*: tabular learning on the state itself, on the grid
that does best in these very episodes; *ceiling*: the percept of the database that is most similar,
and the best action where it was perceived; *optimum*: of the true dynamics.

Seconds are of learning, and for *direct* and *ceiling* of measuring as well; looking, which all but
the pixels share, is given apart. On the hill the binary features are the symbols alone, which do
not show the velocity; *one* and *forest* make composites of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fitted_q import fit
from rlvc import RLVC
from rlvc.compaction import Compaction
from rlvc.datasets.views import campus_views
from rlvc.envs.hill_scene import (
    LAST_GAUGE,
    LAST_GROUND,
    gauge_column,
    gauge_image,
    ground_column,
    ground_image,
)
from rlvc.envs.spots import CAMPUS
from rlvc.experiments import hill_measures
from rlvc.experiments.campus import direct_error, error_of
from rlvc.experiments.catalogue import base_learner
from rlvc.experiments.direct import compare
from rlvc.experiments.forests import show_more, values_of
from rlvc.experiments.hill_sights import actions_of, actor, see_hill
from rlvc.experiments.measures import grid_over, optimal_actor, walk
from rlvc.experiments.navigation import find_task
from rlvc.experiments.neighbours import vote
from rlvc.forest import Forest
from rlvc.forest_policy import AnyPolicy, ForestPolicy
from rlvc.images import Image
from rlvc.incidence import Incidence
from rlvc.interactions import Interactions, collect
from rlvc.learner import Database
from rlvc.mdp import greedy
from rlvc.percepts import Percepts
from rlvc.policy import Policy
from rlvc.sightings import Sightings
from rlvc.storage import write_whole

DATABASES = (
    "maze photos", "maze coil", "subway photos", "subway street", "campus places", "hill photos",
)  # fmt: skip
N = 10_000
SIDE = 16

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Batch:
    """Percepts to decide on: what they show of the symbols, and as few pixels."""

    sightings: Callable[[], Sightings]
    pixels: Callable[[], Floats]


Act = Callable[[Batch], Ints]


@dataclass(frozen=True, slots=True)
class Scene:
    """A database, and how to measure an agent that learned from it.

    Attributes:
        data: The interactions.
        database: The same, looked at.
        pixels: (n_percepts, …) all percepts as few pixels.
        best: (n_percepts,) the best action where each percept was perceived.
        measure: From an agent to its measures.
        others: Measures of what does not perceive: direct perception, the optimum.
        seconds: Of looking.
        is_campus: Whether this is the campus, where compaction matters.
        drive: A faster way to measure a policy, if there is one.
    """

    data: Interactions
    database: Database
    pixels: Floats
    best: Ints
    measure: Callable[[Act], dict[str, float]]
    others: Callable[[int], dict[str, dict[str, float]]]
    seconds: float
    is_campus: bool = False
    drive: Callable[[AnyPolicy], dict[str, float]] | None = None

    def reach(self, policy: AnyPolicy) -> dict[str, float]:
        """Return the measures of one classifier or of a forest."""
        if self.drive is not None:
            return self.drive(policy)
        is_one = isinstance(policy, Policy)
        return self.measure(act_of_policy(policy) if is_one else act_of_forest(policy))


def _few(image: Image) -> Floats:
    """Return an image as 16 × 16 pixels."""
    small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32).ravel()


def shrink(percepts: Percepts) -> Floats:
    """Return percepts as 16 × 16 pixels, camera after camera."""
    small = [np.stack([_few(images[i]) for i in range(len(images))]) for images in percepts.images]
    table = percepts.table()
    return np.concatenate([few[table[:, i]] for i, few in enumerate(small)], axis=1)


def batch_of(images: list[Any], database: Database) -> Batch:
    """Return a batch of images that are looked at when an agent asks for it."""
    percepts = Percepts()
    numbers = np.asarray([percepts.add(image) for image in images])

    def look() -> Sightings:
        seen = database.see(percepts)
        return seen.of_percepts(seen.table[numbers])

    return Batch(look, lambda: shrink(percepts)[numbers])


def look_at(data: Interactions, learner: RLVC) -> tuple[Database, list[Any], float]:
    """Return the database, what was seen, and how long it took."""
    begin = time.perf_counter()
    eye = learner.new_eye(data.percepts)
    looks = eye.look_at_all(data.percepts, learner.threads)
    database = learner.look(data, eye=eye, looks=looks)
    return database, looks, time.perf_counter() - begin


def states_of(data: Interactions) -> NDArray[np.float64]:
    """Return the state in which each percept was perceived (last)."""
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

    With ``nearby`` an agent perceives the percept of the nearest point of the grid, so that these
    are looked at once for all agents.
    """
    task = find_task(name)
    made = gymnasium.make(task.env_id, pictures=pictures, disable_env_checker=True)
    env: Any = made.unwrapped
    data = collect(made, N, seed=seed, state="position")
    database, _, seconds = look_at(data, learner)
    grid, optimal = grid_over(task.world), optimal_actor(task.world)

    def rng() -> np.random.Generator:
        return np.random.default_rng([seed, 2])

    def found(success: float, steps: float) -> dict[str, float]:
        return {"success": success, "steps": steps}

    if nearby:
        around = batch_of([env.percept(p) for p in grid.positions], database)
        shown, few = around.sightings(), around.pixels()
        everywhere = Batch(lambda: shown, lambda: few)

    def measure(act: Act) -> dict[str, float]:
        def at(positions: NDArray[np.float64]) -> Ints:
            return act(batch_of([env.percept(p) for p in positions], database))

        if not nearby:
            return found(*walk(task.world, at, rng()))
        actions = act(everywhere)
        return found(*walk(task.world, lambda p: actions[grid.nearest(p)], rng()))

    def others(n_classes: int) -> dict[str, dict[str, float]]:
        direct = compare(grid, data, n_classes, learner.solver, learner.gamma, seed)["best"]
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
    database, looks, seconds = look_at(data, learner)
    test = Percepts()
    number = np.asarray([test.add(views.image(*pair)) for pair in pairs])
    test_looks = database.eye.look_at_all(test)
    shown = database.see(test, looks=test_looks)
    known = states_of(data)[:, 0].astype(np.int64)
    optimal = CAMPUS.optimal_q().argmax(axis=1)

    def measure(act: Act) -> dict[str, float]:
        batch = Batch(lambda: shown, lambda: shrink(test))
        return {"test error": error_of(act(batch)[number], state)}

    def others(n_classes: int) -> dict[str, dict[str, float]]:
        voted = vote(looks[0], known, test_looks[0])[number]
        direct = direct_error(data, learner.solver, learner.gamma)
        return {
            "ceiling": {"test error": error_of(optimal[voted], state)},
            "direct": {"test error": direct},
        }

    few = shrink(data.percepts)
    return Scene(data, database, few, optimal[known], measure, others, seconds, is_campus=True)


def hill_scene(name: str, pictures: str, seed: int, learner: RLVC) -> Scene:
    """Return a database of the hill."""
    made = gymnasium.make("rlvc/Hill-v0", pictures=pictures, disable_env_checker=True)
    env: Any = made.unwrapped
    data = collect(made, N, seed=seed, state="state")
    database, _, seconds = look_at(data, learner)
    seen = see_hill(database.eye, database.sightings.graph, env.strip)
    order = [seen.cameras.index(camera) for camera in ("ground", "gauge")]
    few = [
        np.stack([_few(ground_image(env.strip, column)) for column in range(LAST_GROUND + 1)]),
        np.stack([_few(gauge_image(column)) for column in range(LAST_GAUGE + 1)]),
    ]
    begin = hill_measures.starts(seed)

    def found(missed: float, steps: float) -> dict[str, float]:
        return {"missed": missed, "steps": steps}

    def measure(act: Act) -> dict[str, float]:
        def at(states: NDArray[np.float64]) -> Ints:
            rows = ground_column(states[:, 0]), gauge_column(states[:, 1])
            table = np.zeros((len(states), 2), np.int64)
            for camera, row in zip(order, rows, strict=True):
                table[:, camera] = seen.table[row, camera]
            pixels = [few[order.index(camera)][rows[order.index(camera)]] for camera in (0, 1)]
            return act(
                Batch(lambda: seen.of_percepts(table), lambda: np.concatenate(pixels, axis=1))
            )

        return found(*hill_measures.trials(at, begin))

    def others(n_classes: int) -> dict[str, dict[str, float]]:
        grids = hill_measures.compare(data, n_classes, learner.solver, learner.gamma, begin)
        return {
            "direct": found(grids["best"]["missed"], grids["best"]["mean_steps"]),
            "direct 13×13": found(grids["grid13"]["missed"], grids["grid13"]["mean_steps"]),
            "optimum": found(*hill_measures.trials(hill_measures.optimal_action, begin)),
        }

    def drive(policy: AnyPolicy) -> dict[str, float]:
        return found(*hill_measures.trials(actor(actions_of(policy, env.strip)), begin))

    best = hill_measures.optimal_action(states_of(data))
    few_of_all = shrink(data.percepts)
    return Scene(data, database, few_of_all, best, measure, others, seconds, drive=drive)


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


def act_of_policy(policy: Policy) -> Act:
    """Return what a policy does, in bulk."""

    def act(batch: Batch) -> Ints:
        shown, numbers = show_more(batch.sightings(), policy.graph)
        return policy.actions[policy.classifier.renumber(numbers).classify(shown.incidence)]

    return act


def act_of_forest(policy: ForestPolicy) -> Act:
    """Return what a forest does, in bulk."""
    return lambda batch: greedy(*values_of(policy, batch.sightings()))


def dense(incidence: Incidence) -> Floats:
    """Return the binary features of percepts."""
    return matrix(incidence).toarray()


def matrix(incidence: Incidence) -> sparse.csr_array:
    """Return the binary features of percepts, sparse."""
    ones = np.ones(len(incidence.indices), np.float32)
    shape = incidence.n_percepts, incidence.n_features
    return sparse.csr_array((ones, incidence.indices, incidence.indptr), shape=shape)


def act_of_neighbours(scene: Scene) -> Act:
    """Return the best action where the most similar percept (by cosine) was perceived."""

    def unit(incidence: Incidence) -> sparse.csr_array:
        length = np.sqrt(np.maximum(np.diff(incidence.indptr), 1))
        rows = matrix(incidence)
        rows.data /= np.repeat(length, np.diff(rows.indptr)).astype(np.float32)
        return rows

    known = unit(scene.database.incidence).T.tocsr()

    def act(batch: Batch) -> Ints:
        asked = unit(batch.sightings().incidence)
        nearest = [
            np.asarray((asked[i : i + 256] @ known).toarray().argmax(axis=1))
            for i in range(0, asked.shape[0], 256)
        ]
        return scene.best[np.concatenate(nearest)]

    return act


PARTS = ("ours", "others", "fqi")


def run(task: str, pictures: str, seed: int, parts: list[str], file: Path) -> None:
    """Add what some methods reach on one database to its file, unless it is there."""
    result: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"parts": []}
    missing = [part for part in parts if part not in result["parts"]]
    if not missing:
        return
    learner = base_learner(task)
    scene = make_scene(task, pictures, seed, learner)
    result.setdefault("looking", scene.seconds)

    def note(method: str, measures: dict[str, float], seconds: float | None, **more: Any) -> None:
        result[method] = {**measures, "seconds": seconds, **more}
        print(f"{task} {pictures} {seed} {method}", result[method], flush=True)

    for part in missing:
        {"ours": ours, "others": others, "fqi": fqi}[part](scene, learner, seed, note)
        result["parts"].append(part)
        write_whole(file, json.dumps(result).encode())


def timed(learn: Callable[[], Any]) -> tuple[Any, float]:
    """Return what is learned, and in how many seconds."""
    begin = time.perf_counter()
    made = learn()
    return made, time.perf_counter() - begin


def ours(scene: Scene, learner: RLVC, seed: int, note: Callable[..., None]) -> None:
    """Measure one classifier and a forest; on the campus, one classifier compacted as well."""
    database = scene.database
    replace(learner, max_stages=2).learn(database)  # compiles what is to be timed
    one, seconds = timed(lambda: learner.learn(database))
    forest, forest_seconds = timed(lambda: Forest(learner=learner, seed=seed).learn(database))
    note("one", scene.reach(one), seconds, classes=one.n_classes)
    note("forest", scene.reach(forest), forest_seconds,
         classes=forest.n_classes, out_of_bag=forest.out_of_bag)  # fmt: skip
    if scene.is_campus:
        merging = replace(learner, post_process=Compaction())
        compact, seconds = timed(lambda: merging.learn(database))
        note("compact", scene.reach(compact), seconds, classes=compact.n_classes)


def others(scene: Scene, learner: RLVC, seed: int, note: Callable[..., None]) -> None:
    """Measure direct perception, the optimum and the nearest neighbour."""
    begin = time.perf_counter()
    found = scene.others(1)
    seconds = time.perf_counter() - begin
    for method, measures in found.items():
        note(method, measures, seconds if method == "direct" else None)
    if "ceiling" not in found:
        reached, seconds = timed(lambda: scene.measure(act_of_neighbours(scene)))
        note("ceiling", reached, seconds)


def fqi(scene: Scene, learner: RLVC, seed: int, note: Callable[..., None]) -> None:
    """Measure Fitted Q Iteration on pixels and on the binary features."""
    pixels, seconds = timed(lambda: fit(scene.data, scene.pixels, learner.gamma))
    note("fqi pixels", scene.measure(lambda batch: pixels.act(batch.pixels())), seconds)
    rows = dense(scene.database.incidence)
    features, seconds = timed(lambda: fit(scene.data, rows, learner.gamma))
    reached = scene.measure(lambda batch: features.act(dense(batch.sightings().incidence)))
    note("fqi features", reached, seconds)


ROWS = (
    "one", "compact", "forest", "fqi features", "fqi pixels", "direct", "direct 13×13", "ceiling",
    "optimum",
)  # fmt: skip
FORMS = {"success": "{:.3f}", "steps": "{:.2f}", "test error": "{:.2%}", "missed": "{:.2%}",
         "classes": "{:.0f}", "seconds": "{:.1f}"}  # fmt: skip


def table(folder: Path, database: str, seeds: list[int]) -> None:
    """Print the means over the seeds that are done, with the lowest and the highest."""
    files = [folder / f"{database.replace(' ', '_')}_{seed}.json" for seed in seeds]
    results = [json.loads(file.read_text()) for file in files if file.exists()]
    if not results:
        return
    columns = [c for c in FORMS if any(c in row for r in results for row in r.values()
                                       if isinstance(row, dict))]  # fmt: skip
    print(f"\n{database}, {len(results)} seeds\n\n| | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for method in ROWS:
        rows = [r[method] for r in results if method in r]
        cells = []
        for column in columns if rows else ():
            values = [row[column] for row in rows if row.get(column) is not None]
            form = FORMS[column].format
            if values:
                span = f"({form(min(values))}–{form(max(values))})"
                cells.append(f"{form(np.mean(values))} {span}")
            else:
                cells.append("–")
        if rows:
            print(f"| {method} | " + " | ".join(cells) + " |")
    ratio = [r["forest"]["seconds"] / r["one"]["seconds"] for r in results if "forest" in r]
    print(f"\nlooking: {np.mean([r['looking'] for r in results]):.1f} s; forest over one: "
          f"{np.mean(ratio):.1f} ({min(ratio):.1f}–{max(ratio):.1f})", flush=True)  # fmt: skip


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("databases", nargs="*", default=DATABASES, metavar="'TASK PICTURES'")
    parser.add_argument("--seeds", nargs="+", type=int, default=[5, 6, 7, 8, 9])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--out", type=Path, default=Path("runs") / "better")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for database in options.databases:
            file = options.out / f"{database.replace(' ', '_')}_{seed}.json"
            if not options.table:
                run(*database.split(), seed, options.parts, file)
    for database in options.databases:
        table(options.out, database, options.seeds)


if __name__ == "__main__":
    main()
