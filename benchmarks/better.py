"""One classifier and a forest beside other methods, on the same databases.

Run it with ``RLVC_DATA=… python benchmarks/better.py``; ``pip install scikit-learn`` first. Results
are written to ``runs/better`` as they are computed, so that it can be stopped and resumed;
``--table`` only prints those that are there. No choice was made on seeds 5 to 9.

All methods learn from the same 10,000 interactions, and are measured in the same episodes, views or
trials. *one*: ``RLVC(gamma=γ)``; *compact*: the same with compaction; *forest*: 25 trees; *fqi
features* and *fqi pixels*: Fitted Q Iteration with Extra-Trees on the same binary features and on
16 × 16 pixels (see ``fitted_q.py``); *direct*: tabular learning on the state itself, on the grid
that does best in these very episodes; *ceiling*: the best action at the state of the most similar
percept in the database (on the hill by 16 × 16 pixels, as the symbols are the same at any velocity;
on the campus by a vote of descriptors); *optimum*: that of the true dynamics.

Seconds are those of learning, and for *direct* and *ceiling* of measuring as well; feature
extraction, which all but the pixels need, is reported separately. On the hill the binary features
are the symbols alone, which do not show the velocity; *one* and *forest* make composites of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fitted_q import fit
from rlvc import RLVC, Forest
from rlvc._core.atomic import atomic_write
from rlvc.features import Incidence
from rlvc.learning import Compaction
from rlvc.runs import tasks
from scenes import Act, Batch, Floats, Ints, Scene, make_scene

DATABASES = (
    "maze photos", "maze coil", "subway photos", "subway street", "campus places", "hill photos",
)  # fmt: skip


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
        asked = unit(batch.index().incidence)
        nearest = [
            np.asarray((asked[i : i + 256] @ known).toarray().argmax(axis=1))
            for i in range(0, asked.shape[0], 256)
        ]
        return scene.best[np.concatenate(nearest)]

    return act


PARTS = ("ours", "others", "fqi")


def run(task: str, pictures: str, seed: int, parts: list[str], file: Path) -> None:
    """Add the measures of some methods on one database to its file, unless they are there."""
    result: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"parts": []}
    missing = [part for part in parts if part not in result["parts"]]
    if not missing:
        return
    learner = tasks.make(task).base_learner()
    scene = make_scene(task, pictures, seed, learner)
    result.setdefault("looking", scene.seconds)

    def note(method: str, measures: dict[str, float], seconds: float | None, **more: Any) -> None:
        result[method] = {**measures, "seconds": seconds, **more}
        print(f"{task} {pictures} {seed} {method}", result[method], flush=True)

    for part in missing:
        {"ours": ours, "others": others, "fqi": fqi}[part](scene, learner, seed, note)
        result["parts"].append(part)
        atomic_write(file, json.dumps(result).encode())


def timed(learn: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function learns, and how many seconds it takes."""
    begin = time.perf_counter()
    made = learn()
    return made, time.perf_counter() - begin


def ours(scene: Scene, learner: RLVC, seed: int, note: Callable[..., None]) -> None:
    """Measure one classifier and a forest; on the campus, one classifier compacted as well."""
    database = scene.database
    replace(learner, max_stages=2).learn(database)  # compiles the kernels
    one, seconds = timed(lambda: learner.learn(database))
    forest, forest_seconds = timed(lambda: Forest(learner=learner, seed=seed).learn(database))
    note("one", scene.measure_policy(one), seconds, classes=one.n_classes)
    note("forest", scene.measure_policy(forest), forest_seconds,
         classes=forest.n_classes, out_of_bag=forest.out_of_bag)  # fmt: skip
    if scene.is_campus:
        merging = replace(learner, post_process=Compaction())
        compact, seconds = timed(lambda: merging.learn(database))
        note("compact", scene.measure_policy(compact), seconds, classes=compact.n_classes)


def others(scene: Scene, learner: RLVC, seed: int, note: Callable[..., None]) -> None:
    """Measure direct perception, the optimum and the nearest neighbour."""
    begin = time.perf_counter()
    found = scene.others()
    seconds = time.perf_counter() - begin
    for method, measures in found.items():
        note(method, measures, seconds if method == "direct" else None)
    by_symbols = lambda: scene.measure(act_of_neighbours(scene))  # noqa: E731
    reached, seconds = timed(scene.ceiling or by_symbols)
    note("ceiling", reached, seconds)


def fqi(scene: Scene, learner: RLVC, seed: int, note: Callable[..., None]) -> None:
    """Measure Fitted Q Iteration on pixels and on the binary features."""
    pixels, seconds = timed(lambda: fit(scene.data, scene.pixels, learner.gamma))
    note("fqi pixels", scene.measure(lambda batch: pixels.act(batch.pixels())), seconds)
    rows = dense(scene.database.incidence)
    features, seconds = timed(lambda: fit(scene.data, rows, learner.gamma))
    reached = scene.measure(lambda batch: features.act(dense(batch.index().incidence)))
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
    print(f"\nextraction: {np.mean([r['looking'] for r in results]):.1f} s", flush=True)
    if ratio:
        span = f"({min(ratio):.1f}–{max(ratio):.1f})"
        print(f"forest over one: {np.mean(ratio):.1f} {span}", flush=True)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("databases", nargs="*", default=DATABASES, metavar="'TASK PICTURES'")
    parser.add_argument("--seeds", nargs="+", type=int, default=[5, 6, 7, 8, 9])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--out", type=Path, default=Path("runs") / "better")
    parser.add_argument("--table", action="store_true", help="only print existing results")
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
