"""The campus over several seeds, as one table: the tree, its compaction, and the ceiling.

Run it with ``python benchmarks/campus.py --pictures photos places --seeds 0 1 2 3 4``; ``places``
come from ``rlvc data get places`` or the folder RLVC_DATA. Each line is one seed; the last lines
are the means.
"""

from __future__ import annotations

import argparse

import numpy as np

from rlvc.runs import Run, make_learner
from rlvc.tasks import CampusTask

KEYS = ("train_error", "test_error", "classes", "features", "stages", "seconds")
FORMS = ("{:.1%}", "{:.1%}", "{:.0f}", "{:.0f}", "{:.0f}", "{:.1f}")
NAMES = ("learned", "new", "classes", "features", "stages", "learn s")


def line(name: str, values: list[float]) -> str:
    """Return one row of the table: the tree, compacted, the ceiling, distinct features."""
    forms = (*FORMS, *FORMS, "{:.1%}", "{:.0f}", "{:.0f}")
    return (
        f"| {name} | " + " | ".join(f.format(v) for f, v in zip(forms, values, strict=True)) + " |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", nargs="+", default=["photos"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    learner = make_learner(options.preset, options.set, CampusTask().base_learner())

    columns = [f"{version}: {name}" for version in ("tree", "compact") for name in NAMES]
    print("| run | " + " | ".join([*columns, "vote: new", "distinct", "extract s"]) + " |")
    print("|---" * (len(columns) + 4) + "|")
    for pictures in options.pictures:
        rows: list[list[float]] = []
        for seed in options.seeds:
            result = Run(CampusTask(pictures=pictures), learner, seed=seed).execute().result
            both = [result[version][key] for version in ("basic", "compact") for key in KEYS]
            seconds = result["seconds"]["extract"]
            rows.append([*both, result["ceiling"], result["features"]["distinct"], seconds])
            print(line(f"{pictures}, seed {seed}", rows[-1]), flush=True)
        print(line(f"{pictures}, mean", np.mean(rows, axis=0).tolist()), flush=True)
    for version, name in (("basic", "tree"), ("compact", "compact")):
        found = CampusTask.paper[version]
        print(
            f"\nthe paper's campus, {name}: learned {found['train_error']:.1%}, new "
            f"{found['test_error']:.1%}, {found['classes']} classes, {found['features']} features"
        )


if __name__ == "__main__":
    main()
