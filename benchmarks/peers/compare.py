"""This library beside its peers, on the same databases, each on one core.

Run it with ``RLVC_DATA=… python benchmarks/peers/compare.py``, in an environment of its own: ``pip
install -e . -r benchmarks/peers/requirements.txt``. Every task, seed and method is a process of its
own; what is done is written to ``runs/peers`` at once and not done again, so that all can be
stopped, killed and go on. What is there is then gathered in ``benchmarks/peers/results.json``,
printed as tables and drawn; ``--table`` prints and draws what was gathered before, and needs rlvc
alone. ``--tune`` tries the settings on a seed that is not reported. Without RLVC_DATA the campus
shows drawn facades instead of real places: give another ``--out`` for these.

*one* and *forest* are this library's; *d3rlpy-dqn* and *d3rlpy-cql* learn from the same database of
10,000 random interactions, and so does *fqi*, Fitted Q Iteration with Extra-Trees on 16 × 16
pixels; *sb3-dqn* and *sb3-ppo* of Stable-Baselines3 act themselves, as often. All use one thread.
Time is that of the processor, so that other work beside it does not count, and no method is given
more than ten minutes of it.
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
    """Return what a task shows."""
    return "places" if task == "campus" and os.environ.get("RLVC_DATA") else "photos"


def end_with(parent: int) -> None:
    """End when the one who started this process is gone, who may have been killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def run_cell(cell: dict[str, Any]) -> None:
    """Learn and measure; write what was found to a file, whole."""
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
        import d3rlpy  # noqa: F401 - not to be timed
    if "sb3" in method:
        import stable_baselines3  # noqa: F401
    exam = exams.EXAMS[cell["task"]](cell["pictures"], cell["seed"])
    data = exam.collect() if method in methods.OFFLINE else None
    if is_ours:
        methods.warm_up()

    def glance(agent: Any) -> Any:
        if is_ours:
            return exam.measure_policy(*agent, exams.GLANCE)
        return exam.measure(agent, exams.GLANCE)

    watch = Watch(cell["budget"], glance)
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
    """Return how a cell is called."""
    return "_".join([cell["task"], cell["pictures"], str(cell["seed"]), cell["method"],
                     *map(str, cell["settings"].values())])  # fmt: skip


def run_all(cells: list[dict[str, Any]], out: Path, workers: int) -> None:
    """Run what is not there, a few at a time, each in a process of its own."""
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
    """Return all cells, those first that fill the table early: a seed of each task, the maze."""
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
    """Return the results of all cells that are done, with whatever pictures there were."""
    wanted = {name_of({**cell, "pictures": ""}) for cell in cells}
    results = [json.loads(file.read_text()) for file in sorted(out.glob("*.json"))]
    return [
        {k: v for k, v in one.items() if k != "file"}
        for one in results
        if "curve" in one and name_of({**one, "pictures": ""}) in wanted
    ]


def main() -> None:
    """Run what is missing, print the tables and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs") / "peers")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--images", type=Path, default=Path("docs") / "images")
    parser.add_argument("--page", type=Path, help="whose tables to bring up to date")
    parser.add_argument("--workers", type=int, default=2, help="processes side by side")
    parser.add_argument("--methods", nargs="+", default=ORDER, choices=ORDER, help="to run")
    parser.add_argument("--table", action="store_true", help="only print and draw what is there")
    parser.add_argument("--gather", action="store_true", help="gather what is there, run nothing")
    parser.add_argument("--tune", action="store_true", help="try settings on another seed")
    parser.add_argument("--quick", action="store_true", help="a glance: 15 seconds, 1 seed")
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
