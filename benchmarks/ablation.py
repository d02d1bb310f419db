"""What each idea brings, and what other values of the parameters would.

Run it with ``RLVC_DATA=… python benchmarks/ablation.py GROUP``. The group *ideas* switches them off
one by one, on databases that were not used for any choice. The groups *choices*, *forests* and
*detectors* compare the defaults with other values, on the seeds that were used to choose;
``--databases "maze photos" "hill photos"`` selects the databases. The results of each database are
written to ``runs/GROUP`` and not computed again; ``--table`` only prints those that are there.

On the maze and the subway, success is that of an agent that perceives, wherever it is, the percept
of the nearest point of a 50 × 50 grid, as in the history of a run: close to the truth, and
affordable for many variants.
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

from rlvc import RLVC, Forest
from rlvc._core.atomic import atomic_write
from rlvc.learning import RelativeVariance, Surrogates
from rlvc.learning.generation.base import Canonical
from rlvc.policies import AnyPolicy
from rlvc.runs import tasks
from rlvc.vision import Harris, Sift
from scenes import make_scene

Change = Callable[[RLVC], RLVC]

AUTO: dict[str, Any] = {"descriptor": None, "metric": None, "threshold": 0.0}  # chosen to match


def select(**changes: Any) -> Change:
    """Return a change of the selector."""
    return lambda learner: replace(learner, selector=replace(learner.selector, **changes))


def change(**changes: Any) -> Change:
    """Return a change of the learner."""
    return lambda learner: replace(learner, **changes)


UNCHANGED: Change = lambda learner: learner  # noqa: E731
# A change of the learner, and the options of a forest; None for a single classifier.
Variants = dict[str, tuple[Change, dict[str, Any] | None]]

IDEAS: Variants = {
    "all ideas": (UNCHANGED, None),
    "without absorbing self-loops": (change(absorbing_self_loops=False), None),
    "without surrogates": (change(surrogates=Surrogates(features=1)), None),
    "without the correction for multiple tests": (select(correction="none", alpha=0.05), None),
    "without shrinkage": (change(shrinkage=0.0), None),
    "with irrelevant splits": (select(relevant=False), None),
    "without the ranking by reduction": (select(ranking="remaining"), None),
    "without composites": (change(generator=Canonical()), None),
    "forest, all ideas": (UNCHANGED, {}),
    "forest without absorbing self-loops": (change(absorbing_self_loops=False), {}),
    "forest without surrogates": (change(surrogates=Surrogates(features=1)), {}),
    "forest, each tree with its own values": (UNCHANGED, {"together": False}),
    "forest, all symbols for each tree": (UNCHANGED, {"symbols": 1.0}),
    "forest, all episodes for each tree": (UNCHANGED, {"episodes": 1.0}),
    "forest without uncertainty penalty": (UNCHANGED, {"uncertainty_penalty": 0.0}),
}
CHOICES: Variants = {
    "defaults": (UNCHANGED, None),
    "surrogates: 3 features": (change(surrogates=Surrogates(features=3)), None),
    "surrogates: agreement 0.5": (change(surrogates=Surrogates(agreement=0.5)), None),
    "surrogates: agreement 0.85": (change(surrogates=Surrogates(agreement=0.85)), None),
    "level 0.1": (select(alpha=0.1), None),
    "level 0.99": (select(alpha=0.99), None),
    "level 0.05, no correction": (select(alpha=0.05, correction="none"), None),
    "at least 1 sample per side": (select(min_samples=1), None),
    "at least 3 samples per side": (select(min_samples=3), None),
    "level 0.1, at least 3 samples per side": (select(alpha=0.1, min_samples=3), None),
    "shrinkage: 0": (change(shrinkage=0.0), None),
    "shrinkage: 1": (change(shrinkage=1.0), None),
    "shrinkage: 10": (change(shrinkage=10.0), None),
    "samples: percepts": (select(samples="percepts"), None),
    "Welch's t": (select(test="welch"), None),
    "τ = 0.001": (change(aliasing=RelativeVariance(tau=1e-3)), None),
    "τ = 0.0001": (change(aliasing=RelativeVariance(tau=1e-4)), None),
    "τ = 0.000001": (change(aliasing=RelativeVariance(tau=1e-6)), None),
    "absorbing self-loops: no": (change(absorbing_self_loops=False), None),
    "with irrelevant splits": (select(relevant=False), None),
    "symbols alone": (change(generator=Canonical()), None),
    "at most 20 classes per stage": (change(max_splits=20), None),
}
FORESTS: Variants = {
    "defaults": (UNCHANGED, {}),
    "50% of the symbols": (UNCHANGED, {"symbols": 0.5}),
    "90% of the symbols": (UNCHANGED, {"symbols": 0.9}),
    "80% of the episodes": (UNCHANGED, {"episodes": 0.8}),
    "uncertainty penalty 0": (UNCHANGED, {"uncertainty_penalty": 0.0}),
    "uncertainty penalty 0.5": (UNCHANGED, {"uncertainty_penalty": 0.5}),
    "uncertainty penalty 1": (UNCHANGED, {"uncertainty_penalty": 1.0}),
    "without irrelevant splits": (UNCHANGED, {"relevant": True}),
    "each tree with its own values": (UNCHANGED, {"together": False}),
}
DETECTORS: Variants = {
    "chosen from the images": (UNCHANGED, None),
    "half the threshold": (lambda chosen: replace(chosen, threshold=chosen.threshold / 2), None),
    "twice the threshold": (lambda chosen: replace(chosen, threshold=chosen.threshold * 2), None),
    "six times the threshold": (
        lambda chosen: replace(chosen, threshold=chosen.threshold * 6), None,
    ),
    "colour corners": (change(**AUTO, detector=Harris()), None),
    "SIFT": (change(**AUTO, detector=Sift(max_points=120)), None),
}  # fmt: skip
FORMS = {"test error": "{:.2%}", "missed": "{:.2%}", "classes": "{:.0f}", "symbols": "{:.0f}"}
GROUPS = {"ideas": IDEAS, "choices": CHOICES, "forests": FORESTS, "detectors": DETECTORS}


def run(task: str, pictures: str, seed: int, variants: Variants, trees: int) -> Any:
    """Return the measures of the variants on one database."""
    learner = tasks.make(task).base_learner()
    scene = make_scene(task, pictures, seed, learner, nearby=True)
    if variants is DETECTORS:
        learner = learner.fitted(scene.data.percepts)
    result: dict[str, Any] = {}
    for name, (variant, options) in variants.items():
        one = variant(learner)
        if variants is DETECTORS and variant is not UNCHANGED:
            scene = make_scene(task, pictures, seed, one, nearby=True)
        trainer = one if options is None else Forest(learner=one, trees=trees, seed=seed, **options)
        begin = time.perf_counter()
        policy: AnyPolicy = trainer.learn(scene.database)
        seconds = time.perf_counter() - begin
        result[name] = {**scene.measure_policy(policy), "classes": float(policy.n_classes)}
        if variants is DETECTORS:
            result[name]["symbols"] = float(scene.database.extractor.n_symbols)
        result[name]["seconds"] = seconds
        print(f"{task} {pictures} {seed} {name}", result[name], flush=True)
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
            cells.append(FORMS.get(column, "{:.3f}").format(value))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("group", nargs="?", default="ideas", choices=list(GROUPS))
    parser.add_argument("--databases", nargs="+", default=["maze photos", "campus places"])
    parser.add_argument("--seeds", nargs="+", type=int, help="5 to 9 for ideas, else 0 to 4")
    parser.add_argument("--trees", type=int, default=25, help="number of trees of forests")
    parser.add_argument("--out", type=Path, help="default: runs/GROUP")
    parser.add_argument("--table", action="store_true", help="only print existing results")
    options = parser.parse_args()
    group, folder = options.group, options.out or Path("runs") / options.group
    seeds = options.seeds or list(range(5, 10) if group == "ideas" else range(5))
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for database in options.databases:
            file = folder / f"{database.replace(' ', '_')}_{seed}.json"
            if not options.table and not file.exists():
                found = run(*database.split(), seed, GROUPS[group], options.trees)
                atomic_write(file, json.dumps(found).encode())
    for database in options.databases:
        table(folder, database, seeds)


if __name__ == "__main__":
    main()
