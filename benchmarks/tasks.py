"""The maze and the subway over several seeds, as one table.

Run it with ``python benchmarks/tasks.py maze subway --pictures photos --seeds 0 1 2 3 4``; add
``--preset paper`` for the paper's literal choices. Pictures ``coil`` are read from the folder
RLVC_DATA, and so is ``street`` unless it was downloaded. Each line is one seed; the last lines are
the means.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from rlvc.runs import Run, make_learner, tasks

COLUMNS = (
    ("success", lambda r: r["measures"]["success"], "{:.3f}"),
    ("steps", lambda r: r["measures"]["mean_steps"], "{:.1f}"),
    ("suboptimal", lambda r: r["measures"]["suboptimal"], "{:.3f}"),
    ("direct equal", lambda r: r["direct"]["equal"]["success"], "{:.3f}"),
    ("direct best", lambda r: r["direct"]["best"]["success"], "{:.3f}"),
    ("classes", lambda r: r["classes"], "{:.0f}"),
    ("selected", lambda r: r["features"]["selected"], "{:.0f}"),
    ("distinct", lambda r: r["features"]["distinct"], "{:.0f}"),
    ("stages", lambda r: r["stages"], "{:.0f}"),
    ("extract s", lambda r: r["seconds"]["extract"], "{:.1f}"),
    ("learn s", lambda r: r["seconds"]["learn"], "{:.1f}"),
)


def line(name: str, values: list[float]) -> str:
    """Return one row of the table."""
    cells = [form.format(value) for (_, _, form), value in zip(COLUMNS, values, strict=True)]
    return "| " + " | ".join([name, *cells]) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--pictures", nargs="+", default=["photos"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()

    print("| run | " + " | ".join(name for name, _, _ in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name in options.tasks:
        for pictures in options.pictures:
            task: Any = tasks.make(name, pictures=pictures)
            rows: list[list[float]] = []
            for seed in options.seeds:
                learner = make_learner(options.preset, options.set, task.base_learner())
                result = Run(task, learner, seed=seed).execute().result
                rows.append([float(get(result) or np.nan) for _, get, _ in COLUMNS])
                title = f"{name} {pictures} {options.preset}"
                print(line(f"{title}, seed {seed}", rows[-1]), flush=True)
            print(line(f"{title}, mean", np.mean(rows, axis=0).tolist()), flush=True)
        paper = "classes {classes}, selected {selected}, distinct {distinct}, stages {stages}"
        print(f"\nthe paper's {name}: {paper.format(**task.paper)}\n", flush=True)


if __name__ == "__main__":
    main()
