"""What each idea brings: all of them, and each switched off alone, on the maze and the campus.

Run it with ``RLVC_DATA=… python benchmarks/ablation.py``. Every database (task, pictures, seed) is
written to ``runs/ablation`` when it is done, and one that is there is not done again; ``--table``
prints what is there. ``--choices`` compares other values of the parameters instead, on the seeds
that were used to choose: add ``--seeds 0 1 --databases "maze photos" "hill photos"`` and so on;
``--trees 0`` leaves out the forests.

Success on the maze and the subway is that of an agent who perceives, wherever it is, the percept of
the nearest point of a 50 × 50 grid, as in the history of a run: close to the truth, and affordable
for many variants.
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

from rlvc import RLVC
from rlvc.aliasing import RelativeVariance
from rlvc.experiments.catalogue import base_learner
from rlvc.forest import Forest
from rlvc.generation import Canonical
from rlvc.storage import write_whole
from rlvc.surrogates import Surrogates
from scenes import make_scene

Change = Callable[[RLVC], RLVC]


def select(**changes: Any) -> Change:
    """Return a change of the selector."""
    return lambda learner: replace(learner, selector=replace(learner.selector, **changes))


def change(**changes: Any) -> Change:
    """Return a change of the learner."""
    return lambda learner: replace(learner, **changes)


ALL: Change = lambda learner: learner  # noqa: E731
IDEAS: dict[str, Change] = {
    "all ideas": ALL,
    "without nothing moved": change(nothing_moved=False),
    "without surrogates": change(surrogates=Surrogates(features=1)),
    "without the correction for many tests": select(correction="none"),
    "without splits that must matter": select(relevant=False),
    "without the ranking by reduction": select(ranking="remaining"),
    "without composites": change(generator=Canonical()),
}
FORESTS: dict[str, tuple[Change, dict[str, Any]]] = {
    "forest, all ideas": (ALL, {}),
    "forest without nothing moved": (IDEAS["without nothing moved"], {}),
    "forest without surrogates": (IDEAS["without surrogates"], {}),
    "forest, each tree with its own values": (ALL, {"together": False}),
    "forest, all symbols for each tree": (ALL, {"symbols": 1.0}),
    "forest, all episodes for each tree": (ALL, {"episodes": 1.0}),
    "forest, small trees": (ALL, {"relevant": True}),
    "forest without caution": (ALL, {"caution": 0.0}),
}
CHOICES: dict[str, Change] = {
    "defaults": ALL,
    "surrogates: 3 features": change(surrogates=Surrogates(features=3)),
    "surrogates: 5 features": change(surrogates=Surrogates(features=5)),
    "surrogates: agreement 0.5": change(surrogates=Surrogates(agreement=0.5)),
    "surrogates: agreement 0.85": change(surrogates=Surrogates(agreement=0.85)),
    "level 0.02": select(alpha=0.02),
    "level 0.5": select(alpha=0.5),
    "at least 1 sample a side": select(min_samples=1),
    "at least 5 samples a side": select(min_samples=5),
    "samples: percepts": select(samples="percepts"),
    "τ = 0.001": change(aliasing=RelativeVariance(tau=1e-3)),
    "τ = 0.0001": change(aliasing=RelativeVariance(tau=1e-4)),
    "nothing moved: no": change(nothing_moved=False),
    "splits need not matter": select(relevant=False),
    "Welch's t": select(test="welch"),
}
FOREST_CHOICES: dict[str, tuple[Change, dict[str, Any]]] = {
    "forest, defaults": (ALL, {}),
    "forest, 50% of the symbols": (ALL, {"symbols": 0.5}),
    "forest, 90% of the symbols": (ALL, {"symbols": 0.9}),
    "forest, 80% of the episodes": (ALL, {"episodes": 0.8}),
    "forest, caution 0": (ALL, {"caution": 0.0}),
    "forest, caution 0.5": (ALL, {"caution": 0.5}),
    "forest, caution 1": (ALL, {"caution": 1.0}),
    "forest, splits must matter": (ALL, {"relevant": True}),
    "forest, each tree with its own values": (ALL, {"together": False}),
}


def run(
    task: str,
    pictures: str,
    seed: int,
    variants: dict[str, Change],
    forests: dict[str, tuple[Change, dict[str, Any]]],
    trees: int,
) -> Any:
    """Return what the variants reach on one database."""
    learner = base_learner(task)
    scene = make_scene(task, pictures, seed, learner, nearby=True)
    result: dict[str, Any] = {}

    def note(name: str, learn: Callable[[], Any]) -> None:
        begin = time.perf_counter()
        policy = learn()
        seconds = time.perf_counter() - begin
        result[name] = {**scene.reach(policy), "classes": float(policy.n_classes)}
        result[name]["seconds"] = seconds
        print(f"{task} {pictures} {seed} {name}", result[name], flush=True)

    for name, variant in variants.items():
        note(name, lambda v=variant: v(learner).learn(scene.database))
    for name, (variant, options) in forests.items() if trees else ():
        forest = Forest(learner=variant(learner), trees=trees, seed=seed, **options)
        note(name, lambda f=forest: f.learn(scene.database))
    return result


def table(folder: Path, database: str, seeds: list[int]) -> None:
    """Print the means over the seeds that are done."""
    files = [folder / f"{database.replace(' ', '_')}_{seed}.json" for seed in seeds]
    results = [json.loads(file.read_text()) for file in files if file.exists()]
    if not results:
        return
    columns = [name for name in next(iter(results[0].values())) if name != "seconds"]
    done = [seed for seed, file in zip(seeds, files, strict=True) if file.exists()]
    print(f"\n{database}, seeds {done}\n\n| | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in results[0]:
        cells = []
        for column in columns:
            value = float(np.mean([r[name][column] for r in results if name in r]))
            form = "{:.2%}" if column in ("test error", "missed") else "{:.3f}"
            cells.append(("{:.0f}" if column == "classes" else form).format(value))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--databases", nargs="+", default=["maze photos", "campus places"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[5, 6, 7, 8, 9])
    parser.add_argument("--choices", action="store_true", help="compare values of parameters")
    parser.add_argument("--trees", type=int, default=25, help="of forests; 0 for none")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    options = parser.parse_args()
    folder = options.out or Path("runs") / ("choices" if options.choices else "ablation")
    folder.mkdir(parents=True, exist_ok=True)
    variants = (CHOICES, FOREST_CHOICES) if options.choices else (IDEAS, FORESTS)
    for seed in options.seeds:
        for database in options.databases:
            file = folder / f"{database.replace(' ', '_')}_{seed}.json"
            if not options.table and not file.exists():
                found = run(*database.split(), seed, *variants, options.trees)
                write_whole(file, json.dumps(found).encode())
    for database in options.databases:
        table(folder, database, options.seeds)


if __name__ == "__main__":
    main()
