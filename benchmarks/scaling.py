"""The cost of learning over the number of interactions: the maze, without its images.

``large_mazes.py`` makes databases of any size from arrays; ``--check`` compares them with the real
one, image by image.

For each size a new process learns some stages and prints:

* the seconds per stage, of wall-clock and of processor time, and their breakdown;
* the bytes per interaction: of the index arrays (the rows of the incidence matrix and the columns
  of the interactions), and the peak of the process, less what it had before;
* the ratio of the last stage's search to its lower bound, the three ``numpy.bincount`` passes of
  ``benchmarks/floors.py``, done in blocks, because their own arrays are larger than ours.

Then it fits a model, and prints its prediction for 10⁹ interactions on many machines.

Run it with ``python benchmarks/scaling.py [--sizes N ...] [--stages K] [--composites] [--check]
[--out FILE] [--figure FILE]``; with ``--read FILE ...`` it reads the results of earlier runs.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlvc.learning.database
import rlvc.learning.shard
from large_mazes import Scene, make, maze
from rlvc import RLVC, Database, Percepts, Stage, collect
from rlvc.classifiers._nodes import Nodes
from rlvc.envs.planar_world import MAZE
from rlvc.features import FeatureIndex
from rlvc.learning import Surrogates
from rlvc.learning.aliasing import bellman_residuals
from rlvc.learning.generation.base import Canonical
from rlvc.learning.generation.composites import Composer
from rlvc.learning.mdp import EffectiveTransitions, TransitionCounts, map_interactions
from rlvc.learning.selection.selector import Samples, Selector
from rlvc.learning.selection.sums import merge
from rlvc.learning.shard import Shard, ShardFeatures
from rlvc.learning.solvers.dynamic import ModifiedPolicyIteration
from rlvc.vision import ExtractionCache

Ints = NDArray[np.int64]
BLOCK = 500_000  # interactions at a time for the floor, whose own arrays are larger than ours
MACHINES = 16  # whose sums are added up to time that
COLUMNS = ("start", "action", "reward", "end", "episode", "terminated", "truncated")
# The C library retains freed blocks of up to 32 MiB unless it is configured to return them.
RETURNED = {"MALLOC_MMAP_THRESHOLD_": str(4 * 2**20)}
SUM = 28  # bytes of one: feature, count, sum and sum of squares
NETWORK = 1e9  # bytes a second that the driver can receive: an assumption, about 10 Gbit/s
PARTS: dict[str, list[tuple[Any, str]]] = {  # the functions that do each part of a stage
    "classify": [(Nodes, "classify"), (Nodes, "reclassify")],
    "map": [(EffectiveTransitions, "map")],
    "estimate": [(TransitionCounts, "of"), (rlvc.learning.database, "estimate_from")],
    "solve": [(ModifiedPolicyIteration, "solve")],
    "residuals": [(rlvc.learning.shard, "bellman_residuals")],
    "sums": [(Shard, "sum_residuals")],
    "generate": [(Composer, "generate"), (ShardFeatures, "exhibit")],
    "select": [(Selector, "measure"), (Selector, "choose")],
    "surrogates": [(Surrogates, "extend")],
    "add": [(FeatureIndex, "extend")],
}


def time_parts() -> dict[str, float]:
    """Let the parts of a stage add up their seconds, without those of parts that they call."""
    seconds: dict[str, float] = defaultdict(float)

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def call(*args: Any, **named: Any) -> Any:
            begin, before = time.perf_counter(), sum(seconds.values())
            try:
                return work(*args, **named)
            finally:
                inner = sum(seconds.values()) - before
                seconds[name] += time.perf_counter() - begin - inner

        return call

    for name, functions in PARTS.items():
        for owner, attribute in functions:
            setattr(owner, attribute, timed(name, getattr(owner, attribute)))
    return seconds


def memory(name: str) -> int:
    """Return the resident bytes of this process: now (VmRSS), or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def measure(n: int, stages: int, *, composites: bool, threads: int, seed: int) -> dict[str, Any]:
    """Learn some stages of a database of n interactions, and return their cost."""
    learner, env = maze()
    learner = replace(learner, threads=threads)
    if not composites:
        learner = replace(learner, generator=Canonical())
    scene = Scene.extract(learner, env)
    _run(learner, make(scene, 3000, with_places=composites), 12)  # compiles kernels
    parts = time_parts()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # retained blocks would not be counted when reused
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory("VmRSS")
    begin = time.perf_counter()
    database = make(scene, n, seed, with_places=composites)
    making = time.perf_counter() - begin
    incidence, interactions = database.incidence, database.interactions
    rows = incidence.indptr.nbytes + incidence.indices.nbytes
    index = rows + sum(getattr(interactions, name).nbytes for name in COLUMNS)
    places = database.index.places[0]
    index += places.feature.nbytes + places.marks.nbytes  # none without composites
    clock, processor, last = _run(learner, database, stages)
    peak = memory("VmHWM") - before
    result = {
        "interactions": n, "percepts": incidence.n_percepts, "symbols": incidence.n_features,
        "nnz": len(incidence.indices), "stages": len(clock), "classes": last.classifier.n_classes,
        "residual": last.residual, "making": making, "clock": clock, "processor": processor,
        "parts": {name: parts[name] for name in PARTS}, "index": index, "peak": peak,
    }  # fmt: skip
    if not composites:
        result |= search_and_floor(learner, database, last)
    return result


def _run(learner: RLVC, database: Database, n: int) -> tuple[list[float], list[float], Stage]:
    """Return the seconds of each of the first n stages, and the last of them."""
    clock, processor = [], []
    at = time.perf_counter(), time.process_time()
    for stage in learner.stages(database):
        now = time.perf_counter(), time.process_time()
        clock.append(now[0] - at[0])
        processor.append(now[1] - at[1])
        at = now
        if stage.number + 1 == n:
            break
    return clock, processor, stage


def search_and_floor(learner: RLVC, database: Database, stage: Stage) -> dict[str, float]:
    """Return the seconds of a stage's search, in two threads, and of three passes of bincount.

    They are timed in turn, a few times; the best of each counts. Also returns the number of sums
    that a machine with a shard of the interactions would send to the driver, and the seconds that
    the driver takes to add them to those of others.
    """
    interactions, symbols = database.interactions, database.incidence
    sequence = map_interactions(interactions, stage.database.classes(stage.classifier))
    residuals = bellman_residuals(sequence, stage.q, learner.gamma)
    everything = np.ones(stage.classifier.n_classes, np.bool_)
    n_bins = len(everything) * interactions.n_actions * symbols.n_features
    samples = Samples(residuals, interactions.start, symbols, everything, threads=2)
    searches, floors = [], []
    for _ in range(5 if len(interactions) <= 1_000_000 else 2):
        begin = time.perf_counter()
        learner.selector.choose([learner.selector.measure(samples)], residuals.sums)
        searches.append(time.perf_counter() - begin)
        floor = 0.0
        for first in range(0, len(interactions), BLOCK):
            here = slice(first, first + BLOCK)
            row = symbols.take(interactions.start[here])
            length = np.diff(row.indptr)
            index = np.repeat(residuals.group[here], length) * symbols.n_features + row.indices
            delta = np.repeat(residuals.fixed.decode(residuals.integers[here]), length)
            square = delta * delta
            begin = time.perf_counter()
            np.bincount(index, minlength=n_bins)
            np.bincount(index, weights=delta, minlength=n_bins)
            np.bincount(index, weights=square, minlength=n_bins)
            floor += time.perf_counter() - begin
        floors.append(floor)
    sums = learner.selector.measure(replace(samples, is_all=False))
    begin = time.perf_counter()
    every = [sums.candidates] * MACHINES
    merge(every, MACHINES * sums.groups.n, learner.selector.min_samples)
    merging = (time.perf_counter() - begin) / MACHINES
    n_sums = len(sums.candidates.feature)
    return {"search": min(searches), "floor": min(floors), "sums": n_sums, "merge": merging}


def check(n: int = 10_000) -> None:
    """Compare the real database, extracted image by image, with the one made of arrays."""
    learner, env = maze()
    scene = Scene.extract(learner, env)
    rng = np.random.default_rng(1)
    position = MAZE.random_starts(300, rng)
    percepts = Percepts()
    numbers = [percepts.add(env.percept(one)) for one in position]
    keypoints = ExtractionCache().extract(scene.extractor, percepts, 0)
    (seen,) = scene.extractor.find_symbols(percepts, keypoints, 0, learn=False)
    corner = np.floor(position + 0.5).astype(np.int32) + np.int32(scene.offset)
    rows = scene.rows(corner)
    wrong = sum(
        not np.array_equal(rows.row(i), np.unique(seen.symbol[seen.begin[k] : seen.begin[k + 1]]))
        for i, k in enumerate(numbers)
    )
    print(f"rows of 300 windows that differ from those of their images: {wrong}")
    learner = replace(learner, generator=Canonical())
    begin = time.process_time()
    real = learner.extract(collect(env, n, seed=0))
    spent = (time.process_time() - begin) / real.incidence.n_percepts
    print(f"collection and extraction: {spent * 1e3:.2f} ms of the processor per percept")
    for name, database in (("images", real), ("arrays", make(scene, n))):
        length = np.diff(database.incidence.indptr)
        _, _, last = _run(learner, database, 21)
        data = database.interactions
        print(
            f"{name}: {len(length)} percepts, {database.incidence.n_features} symbols, "
            f"{length.mean():.1f} ± {length.std():.1f} in a percept, {data.terminated.sum()} "
            f"exits, {data.is_stuck.mean():.3f} stuck; after 20 stages "
            f"{last.classifier.n_classes} classes, residual {last.residual:.2f}"
        )


def say(one: dict[str, Any]) -> None:
    """Print the lines of one size."""
    n, stages = one["interactions"], one["stages"]
    clock, processor = np.mean(one["clock"]), np.mean(one["processor"])
    print(
        f"{n:,} interactions, {one['percepts']:,} percepts, {one['nnz'] / one['percepts']:.1f} "
        f"symbols in each; made in {one['making']:.1f} s"
    )
    print(
        f"  {stages} stages, {one['classes']} classes: {clock:.4f} s a stage "
        f"({clock / n * 1e9:.0f} ns an interaction), {processor:.4f} s of the processor "
        f"({processor / n * 1e9:.0f} ns)"
    )
    share = {name: value / stages / n * 1e9 for name, value in one["parts"].items()}
    print("  of which, ns: " + ", ".join(f"{name} {value:.0f}" for name, value in share.items()))
    print(
        f"  index arrays {one['index'] / n:.0f} bytes an interaction, at the peak "
        f"{one['peak'] / n:.0f}: {one['peak'] / one['index']:.2f} times as many "
        f"({one['peak'] / 2**30:.2f} GiB)"
    )
    if "floor" in one:
        print(
            f"  search of the last stage, two threads: {one['search']:.4f} s over "
            f"{one['floor']:.4f} s of bincount: ratio {one['search'] / one['floor']:.3f}"
        )
        print(
            f"  sums of (class, action, feature) to send: {one['sums']:,} "
            f"({one['sums'] * SUM / 2**20:.1f} MiB), added up in {one['merge'] * 1e3:.2f} ms"
        )
    sys.stdout.flush()


def fit(results: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """Return c and k of the model c + k · N of the seconds of a stage, by relative errors."""
    n = np.array([one["interactions"] for one in results], np.float64)
    seconds = np.array([np.mean(one[name]) for one in results])
    rows = np.column_stack([1.0 / seconds, n / seconds])  # for relative errors
    (c, k), *_ = np.linalg.lstsq(rows, np.ones(len(n)))
    return float(c), float(k)


def predict(results: list[dict[str, Any]]) -> None:
    """Print the model, its fit, and its prediction for 10⁹ interactions on many machines."""
    for name in ("clock", "processor"):
        c, k = fit(results, name)
        print(f"{name}: seconds of a stage = {c:.4f} + {k * 1e9:.0f} ns · N")
        for one in results:
            n, seconds = one["interactions"], float(np.mean(one[name]))
            model = c + k * n
            print(f"  {n:>12,}: {seconds:.4f} s, model {model:.4f} ({model / seconds:.2f} of it)")
    c, k = fit(results, "clock")
    largest = results[-1]
    bytes_each = largest["peak"] / largest["interactions"]
    one_part = largest["sums"] * SUM / NETWORK, largest["merge"]
    print("10⁹ interactions: machines, GiB on each, s a stage = work + transfer + add up")
    for machines in (1, 10, 100, 1000):
        n = 10**9 / machines
        work = c + k * n
        send, add = (0.0, 0.0) if machines == 1 else (machines * part for part in one_part)
        rounds = np.ceil(np.log2(machines)) * sum(one_part)
        print(
            f"  {machines:>4}: {n * bytes_each / 2**30:.1f} GiB, {work + send + add:.2f} = "
            f"{work:.2f} + {send:.2f} + {add:.2f}; with tree reduction {work + rounds:.2f}"
        )


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds and bytes over the number of interactions."""
    import matplotlib.pyplot as plt

    n = np.array([one["interactions"] for one in results])
    line = np.geomspace(n[0], n[-1])
    blue, orange, grey = "#0060a0", "#c05000", "#808080"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, label, color in (
        ("processor", "of the processor", orange),
        ("clock", "on the clock, two threads", blue),
    ):
        c, k = fit(results, name)
        left.loglog(n, [np.mean(one[name]) for one in results], "o", color=color, label=label)
        left.loglog(line, c + k * line, color=color, lw=1)
    left.set(ylabel="seconds of a stage", title="Points: measured; lines: c + k · N")
    for name, label, color in (("index", "index arrays", grey), ("peak", "all, at the peak", blue)):
        each = [one[name] / one["interactions"] for one in results]
        right.semilogx(n, each, "o-", color=color, label=label)
    right.set(ylabel="bytes an interaction", ylim=(0, None), title="Memory")
    for axes in (left, right):
        axes.set_xlabel("interactions")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Print the cost of stages at each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--stages", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--composites", action="store_true", help="the default learner")
    parser.add_argument("--check", action="store_true", help="compare with the real database first")
    parser.add_argument("--out", type=Path, help="where to write the results")
    parser.add_argument("--read", type=Path, nargs="+", help="print and draw the results in files")
    parser.add_argument("--figure", type=Path, help="where to draw the figure")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        results = [one for path in options.read for one in json.loads(path.read_text())]
        for one in results:
            say(one)
        predict(results)
        if options.figure:
            draw(results, options.figure)
        return
    if options.one:
        found = measure(
            int(options.sizes[0]), options.stages, composites=options.composites,
            threads=options.threads, seed=options.seed,
        )  # fmt: skip
        print(json.dumps(found))
        return
    if options.check:
        check()
    results = []
    for size in options.sizes:
        command = [sys.executable, __file__, "--one", "--sizes", str(size)]
        command += ["--stages", str(options.stages), "--threads", str(options.threads)]
        command += ["--seed", str(options.seed), *(["--composites"] if options.composites else [])]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | RETURNED
        )
        results.append(json.loads(done.stdout.splitlines()[-1]))
        say(results[-1])
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    if len(results) > 1 and not options.composites:
        predict(results)
        if options.figure:
            draw(results, options.figure)


if __name__ == "__main__":
    main()
