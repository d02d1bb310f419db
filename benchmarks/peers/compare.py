"""Compare this library with others, on the same databases, each on one core.

Run it with ``RLVC_DATA=… python benchmarks/peers/compare.py``, in a separate environment: ``pip
install -e . -r benchmarks/peers/requirements.txt``. Each task, seed and method has its own process;
results are written to ``runs/peers`` as they are computed, so that it can be stopped or killed, and
resumed. All results are then gathered in ``benchmarks/peers/results.json``, printed as tables and
drawn; ``--table`` prints and draws those gathered before, and needs nothing but rlvc. ``--tune``
tries settings on a seed that is not reported. Without RLVC_DATA the campus shows drawn facades
instead of real places: give another ``--out`` for these.

*one* and *forest* are this library's; *d3rlpy-dqn* and *d3rlpy-cql* learn from the same database of
10,000 random interactions, and so does *fqi*, Fitted Q Iteration with Extra-Trees on 16 × 16
pixels; *sb3-dqn* and *sb3-ppo* of Stable-Baselines3 collect as many themselves. All use one thread.
Time is processor time, so that other processes have little influence; the limit is ten minutes for
each method.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

import numpy as np  # noqa: E402

from rlvc._core.atomic import atomic_write  # noqa: E402

BUDGET = 600.0  # seconds of the processor
DECISIONS = 300  # single percepts to time
TUNING_SEED = 100
SEEDS = {"maze": (20, 21, 22), "campus": (20,), "hill": (20,)}
ORDER = ("random", "one", "forest", "sb3-ppo", "fqi", "d3rlpy-dqn", "sb3-dqn", "d3rlpy-cql")
CHOSEN: dict[str, dict[str, Any]] = {
    "d3rlpy-dqn": {"learning_rate": 2.5e-4},
    "d3rlpy-cql": {"learning_rate": 2.5e-4, "alpha": 0.1},
    "sb3-dqn": {"train_freq": 1},
    "sb3-ppo": {"n_steps": 2000},
    "fqi": {"max_features": "sqrt", "stuck": True},
}
TRIED: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("d3rlpy-dqn", {"learning_rate": 6.25e-5}, 150.0),
    ("sb3-ppo", {"n_steps": 2000}, BUDGET),
    ("d3rlpy-dqn", {"learning_rate": 2.5e-4}, 150.0),
    ("sb3-ppo", {"n_steps": 500}, BUDGET),
    ("d3rlpy-cql", {"learning_rate": 2.5e-4, "alpha": 1.0}, 150.0),
    ("d3rlpy-cql", {"learning_rate": 2.5e-4, "alpha": 0.1}, 150.0),
    ("sb3-dqn", {"train_freq": 4}, BUDGET),
    ("sb3-dqn", {"train_freq": 1}, 300.0),
    ("fqi", {"max_features": "sqrt", "stuck": True}, 40.0),
    ("fqi", {"max_features": "sqrt", "stuck": False}, 40.0),
    ("fqi", {"max_features": 0.1, "stuck": True}, 40.0),
)  # the method, its settings, and seconds


def pictures_of(task: str) -> str:
    """Return the pictures of a task."""
    return "places" if task == "campus" and os.environ.get("RLVC_DATA") else "photos"


def end_with(parent: int) -> None:
    """End this process when its parent is gone, which may have been killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def run_cell(cell: dict[str, Any]) -> None:
    """Learn and measure, and write the results to a file atomically."""
    import cv2

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    cv2.setNumThreads(1)
    import exams
    import methods
    from watch import Watch

    method, settings = cell["method"], cell["settings"]
    is_ours = method in ("one", "forest")
    if method not in ("one", "forest", "fqi", "random"):
        import torch

        torch.set_num_threads(1)
    if "d3rlpy" in method:
        import d3rlpy  # noqa: F401 - so that the import is not timed
    if "sb3" in method:
        import stable_baselines3  # noqa: F401
    exam = exams.EXAMS[cell["task"]](cell["pictures"], cell["seed"])
    data = exam.collect() if method in methods.OFFLINE else None
    if is_ours:
        methods.warm_up()

    def evaluate(agent: Any) -> Any:
        if is_ours:
            return exam.measure_policy(*agent, exams.INTERIM_EPISODES)
        return exam.measure(agent, exams.INTERIM_EPISODES)

    watch = Watch(cell["budget"], evaluate)
    learned = methods.METHODS[method](exam, watch, settings, data)
    seconds = watch.seconds
    reached = learned.measure(cell["episodes"])
    if cell["task"] == "maze":
        rng = np.random.default_rng([cell["seed"], 4])
        agent = exams.restless(learned.act, exam.n_actions, rng)
        learned.more["restless"] = exam.roam(agent, min(200, cell["episodes"]))
    shown = list(islice((data or exam.collect(DECISIONS)).percepts, DECISIONS))
    times = []
    for percept in shown:
        begin = time.process_time()
        learned.decide(percept)
        times.append(time.process_time() - begin)
    result = {
        **cell, **reached, "seconds": seconds, "decision": float(np.median(times)),
        "bytes": learned.size, **learned.more,
        "curve": [*watch.curve, {"seconds": seconds, **reached}],
    }  # fmt: skip
    atomic_write(Path(cell["file"]), json.dumps(result).encode())


def name_of(cell: dict[str, Any]) -> str:
    """Return the name of a cell, which is one run of a method."""
    return "_".join([cell["task"], cell["pictures"], str(cell["seed"]), cell["method"],
                     *map(str, cell["settings"].values())])  # fmt: skip


def run_all(cells: list[dict[str, Any]], out: Path, workers: int) -> None:
    """Run the cells without results, a few at a time, each in its own process."""
    out.mkdir(parents=True, exist_ok=True)
    waiting = [c for c in cells if not (out / f"{name_of(c)}.json").exists()]
    running: dict[str, subprocess.Popen[bytes]] = {}
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                cell = waiting.pop(0)
                name = name_of(cell)
                cell = {**cell, "file": str(out / f"{name}.json")}
                with (out / f"{name}.log").open("wb") as log:
                    running[name] = subprocess.Popen(
                        [sys.executable, __file__, "--cell", json.dumps(cell)],
                        stdout=log, stderr=log, env=environment,
                    )  # fmt: skip
            time.sleep(0.5)
            for name, process in list(running.items()):
                if process.poll() is not None:
                    del running[name]
                    fate = "done" if process.returncode == 0 else f"failed; see {out}/{name}.log"
                    print(f"{name}: {fate}", flush=True)
    finally:
        for process in running.values():
            process.terminate()


def cells_of(seeds: dict[str, tuple[int, ...]], budget: float, episodes: int) -> list[Any]:
    """Return all cells: first one seed of each task, then the other seeds, task by task."""
    order = sorted(
        (min(rank, 1), number if rank else 0, which, number, rank)
        for number, task in enumerate(seeds)
        for rank in range(len(seeds[task]))
        for which in range(len(ORDER))
    )
    tasks = list(seeds)
    return [
        {"task": tasks[number], "pictures": pictures_of(tasks[number]),
         "seed": seeds[tasks[number]][rank], "method": ORDER[which],
         "settings": CHOSEN.get(ORDER[which], {}), "budget": budget, "episodes": episodes}
        for _, _, which, number, rank in order
    ]  # fmt: skip


def gather(cells: list[dict[str, Any]], out: Path) -> list[dict[str, Any]]:
    """Return the results of all cells that are done, whatever their pictures."""
    wanted = {name_of({**cell, "pictures": ""}) for cell in cells}
    results = [json.loads(file.read_text()) for file in sorted(out.glob("*.json"))]
    return [
        {k: v for k, v in one.items() if k != "file"}
        for one in results
        if "curve" in one and name_of({**one, "pictures": ""}) in wanted
    ]


def main() -> None:
    """Run the missing cells, print the tables and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs") / "peers")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--images", type=Path, default=Path("docs") / "images")
    parser.add_argument("--page", type=Path, help="a page whose tables to update")
    parser.add_argument("--workers", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--methods", nargs="+", default=ORDER, choices=ORDER, help="methods to run")
    parser.add_argument("--table", action="store_true", help="only print and draw results")
    parser.add_argument("--gather", action="store_true", help="gather results; run nothing")
    parser.add_argument("--tune", action="store_true", help="try settings on another seed")
    parser.add_argument("--quick", action="store_true", help="a quick look: 15 seconds, 1 seed")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        run_cell(json.loads(options.cell))
        return
    seeds, budget, episodes = dict(SEEDS), BUDGET, 1000
    if options.quick:
        seeds, budget, episodes = {task: SEEDS[task][:1] for task in SEEDS}, 15.0, 100
        options.out = options.out / "quick"
        options.results, options.images = options.out / "results.json", options.out
    tries = [
        {"task": "maze", "pictures": "photos", "seed": TUNING_SEED, "method": method,
         "settings": settings, "budget": seconds, "episodes": 200}
        for method, settings, seconds in TRIED
    ]  # fmt: skip
    cells = cells_of(seeds, budget, episodes)
    if not options.table:
        tuning = options.out / "tune"
        if options.tune:
            run_all(tries, tuning, options.workers)
        elif not options.gather:
            chosen = [cell for cell in cells if cell["method"] in options.methods]
            run_all(chosen, options.out, options.workers)
        found = {"results": gather(cells, options.out), "tuning": gather(tries, tuning)}
        atomic_write(options.results, json.dumps(found, indent=1).encode())
    from table import all_tables, draw_all, fill

    found = json.loads(options.results.read_text())
    tables = all_tables(found)
    draw_all(found, options.images)
    print("\n\n".join(tables.values()))
    if options.page:
        atomic_write(options.page, fill(options.page.read_text(), tables).encode())


if __name__ == "__main__":
    main()
