"""The car on the hill over several seeds: with and without composite features, and on the state.

Run it with ``python benchmarks/hill.py --pictures photos --seeds 0 1 2 3 4``. Each line of the
first table is one seed, and the last is the mean. *Missed* is the share of 10,000 trials from rest
that do not reach the top, *steps* the mean length of the others; a dash means that some seed has no
others. The second table is the mean over seeds at some stages; a run that ended earlier counts with
its last stage.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rlvc.runs import Run, make_learner
from rlvc.tasks import HillTask

EVERY = 10  # stages between two lines of the second table


def measured(name: str, *path: str) -> list[tuple[str, Callable[[Any], Any], str]]:
    """Return the two columns of the measures at a path of the result."""

    def get(result: Any, key: str) -> Any:
        for step in path:
            result = result[step]
        return result[key]

    return [
        (f"{name}missed", lambda r: get(r, "missed"), "{:.2%}"),
        (f"{name}steps", lambda r: get(r, "mean_steps"), "{:.2f}"),
    ]


COLUMNS: list[tuple[str, Callable[[Any], Any], str]] = [
    *measured("", "measures"),
    ("classes", lambda r: r["classes"], "{:.0f}"),
    ("selected", lambda r: r["features"]["selected"], "{:.0f}"),
    ("composite, gauge", lambda r: r["features"]["composite_by_camera"]["gauge"], "{:.0f}"),
    ("composite, ground", lambda r: r["features"]["composite_by_camera"]["ground"], "{:.0f}"),
    ("stages", lambda r: r["stages"], "{:.0f}"),
    *measured("primitive: ", "primitive_only", "measures"),
    ("primitive: classes", lambda r: r["primitive_only"]["classes"], "{:.0f}"),
    *measured("13 × 13: ", "direct", "grid13"),
    *measured("equal grid: ", "direct", "equal"),
    *measured("best grid: ", "direct", "best"),
    *measured("optimum: ", "optimum"),
    ("learn s", lambda r: r["seconds"]["learn"], "{:.1f}"),
    ("run s", lambda r: r["seconds"]["run"], "{:.0f}"),
]
FORMS = [form for _, _, form in COLUMNS]


def line(name: str, values: list[float], forms: list[str]) -> str:
    """Return one row of a table; a dash stands for numbers that are not finite."""
    cells = [f.format(v) if np.isfinite(v) else "–" for f, v in zip(forms, values, strict=True)]
    return "| " + " | ".join([name, *cells]) + " |"


def head(names: list[str]) -> str:
    """Return the head of a table."""
    return "| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|"


def number(value: float | None) -> float:
    """Return a number of a result; NaN for null."""
    return float("nan") if value is None else float(value)


def at_stages(results: list[Any]) -> list[tuple[int, list[float]]]:
    """Return some stages, each with the means over seeds of the misses and of the steps."""
    last = max(result["stages"] for result in results)
    rows = []
    for stage in sorted({*range(0, last + 1, EVERY), last}):
        lines = [r["history"][min(stage, len(r["history"]) - 1)] for r in results]
        found = [[number(one["missed"]), number(one["mean_steps"])] for one in lines]
        rows.append((stage, np.mean(found, axis=0).tolist()))
    return rows


def better_from(result: Any) -> int | None:
    """Return the first stage after which fewer trials miss than on the 13 × 13 grid, or None."""
    floor = result["direct"]["grid13"]["missed"]
    others = [one["stage"] for one in result["history"] if one["missed"] >= floor]
    stage = max(others, default=-1) + 1
    return stage if stage <= result["stages"] else None


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", nargs="+", default=["photos"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = HillTask().settings(options.preset) + options.set
    learner = make_learner(options.preset, settings, HillTask().base_learner())

    for pictures in options.pictures:
        print(head(["run", *(name for name, _, _ in COLUMNS)]))
        rows, results = [], []
        for seed in options.seeds:
            begin = time.perf_counter()
            result = Run(HillTask(pictures=pictures), learner, seed=seed).execute().result
            result["seconds"]["run"] = time.perf_counter() - begin
            results.append(result)
            rows.append([number(get(result)) for _, get, _ in COLUMNS])
            print(line(f"{pictures}, seed {seed}", rows[-1], FORMS), flush=True)
        print(line(f"{pictures}, mean", np.mean(rows, axis=0).tolist(), FORMS), flush=True)
        print("\n" + head(["stage", "missed", "steps"]))
        for stage, values in at_stages(results):
            print(line(str(stage), values, ["{:.2%}", "{:.2f}"]))
        print(f"\n{pictures}: the stage from which on it always misses less than the 13 × 13 grid")
        for seed, result in zip(options.seeds, results, strict=True):
            first = better_from(result)
            print(f"seed {seed}: {'never' if first is None else first} of {result['stages']}")
        print()
    print(
        "the paper's hill: {classes} classes, {selected} selected features, {stages} stages; "
        "it misses less than the 13 × 13 grid from stage 28 on".format(**HillTask.paper)
    )


if __name__ == "__main__":
    main()
