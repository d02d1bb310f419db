"""How the cost of learning grows with the number of interactions: the maze, without its images.

A window that slides over the maze's picture by whole pixels sees the very same interest points, so
one look at the whole picture tells which symbols any percept shows. From that, and from agents that
walk from fresh positions, databases of any size are made of arrays alone, with the statistics of
the real one; ``--check`` holds them against it, image by image.

For each size a fresh process learns some stages, and the table has:

* seconds per stage, on the clock and of the processor, and of what they are made up;
* bytes per interaction: of the index arrays (the rows of the incidence matrix and the columns of
  the interactions), and of all at the peak, less what the process had before;
* the ratio of the last stage's search to its floor, the three ``numpy.bincount`` passes of
  ``benchmarks/floors.py``, done in blocks, as their own arrays are larger than ours.

Then it fits a model, and prints what that says for 10⁹ interactions on many machines.

Run it with ``python benchmarks/scaling.py [--sizes N ...] [--stages K] [--composites] [--check]
[--out FILE] [--figure FILE]``; with ``--read FILE ...`` it reads what earlier runs wrote.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

import rlvc.composing
import rlvc.database
from rlvc import RLVC, Database, Interactions, Percepts, Stage, collect
from rlvc.aliasing import Residuals, bellman_residuals
from rlvc.compiled import chunks, compiled, share_threads
from rlvc.database import Belief, map_interactions
from rlvc.envs.picture import PictureEnv
from rlvc.envs.world import ACTION_NAMES, MAZE
from rlvc.evidence import merge
from rlvc.features import Graph
from rlvc.generation import Canonical
from rlvc.incidence import Incidence
from rlvc.percepts import Images
from rlvc.selection import Selector
from rlvc.sightings import Places, Sightings
from rlvc.solvers.dynamic import ModifiedPolicyIteration
from rlvc.surrogates import Surrogates
from rlvc.vision.detectors import Harris
from rlvc.vision.eye import Eye

Ints = NDArray[np.int64]
STEPS = 100  # of an episode at most
CELL = 32  # pixels a side: symbols are looked up by the cells that a window covers
EPISODES = 500  # that walk together
BLOCK = 500_000  # interactions at a time for the floor, whose own arrays are larger than ours
MACHINES = 16  # whose sums are added up, to see how long that takes
COLUMNS = ("start", "action", "reward", "end", "episode", "terminated", "truncated")
# The C library keeps what was freed, up to 32 MiB apiece, unless it is told to give it back.
RETURNED = {"MALLOC_MMAP_THRESHOLD_": str(4 * 2**20)}
SUM = 28  # bytes of one: feature, count, sum and sum of squares
NETWORK = 1e9  # bytes a second that the driver can receive: an assumption, about 10 Gbit/s
PARTS = {
    "classify": (Database, "classes"),
    "map": (Belief, "map"),
    "estimate": (rlvc.database, "estimate"),
    "solve": (ModifiedPolicyIteration, "solve"),
    "residuals": (rlvc.database, "bellman_residuals"),
    "sums": (Residuals, "sums"),
    "generate": (rlvc.composing.Composer, "generate"),
    "select": (Selector, "select"),
    "stand in": (Surrogates, "extend"),
    "show": (Database, "add"),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """Which symbols stand where on the maze's picture, and who saw them.

    Attributes:
        eye: Who looked.
        xy: (n, 2) whole pixels of the padded picture, cell by cell.
        symbol: (n,) the symbol of each.
        begin: Where those of each cell begin, row by row of the cells.
        width: Cells in a row.
        margin: Pixels at the border of a window in which nothing is seen.
        offset: From the place of an agent, at the nearest whole pixel, to its window's corner.
    """

    eye: Eye
    xy: NDArray[np.int32]
    symbol: NDArray[np.int32]
    begin: Ints
    width: int
    margin: int
    offset: int

    @classmethod
    def look(cls, learner: RLVC, env: PictureEnv) -> Scene:
        """Look once at the whole picture, with what suits its percepts."""
        one = Percepts()
        one.add(env.padded)
        eye = learner.new_eye(one)
        if not isinstance(eye.detector, Harris):
            raise TypeError(f"Only Harris points stay where they are; got {eye.detector}.")
        (seen,) = eye.see(one, 0)
        xy = seen.points.xy[seen.point].astype(np.int32)
        width = env.padded.shape[1] // CELL + 1
        cell = xy[:, 1] // CELL * width + xy[:, 0] // CELL
        order = np.argsort(cell, kind="stable")
        begin = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=width * width))])
        offset = env.margin - env.world.window // 2
        return cls(eye, xy[order], seen.symbol[order], begin, width, eye.detector.margin, offset)

    def rows(self, corner: NDArray[np.int32], threads: int = 0) -> Incidence:
        """Return which symbols are seen in the windows with some corners, (n, 2)."""
        n = self.eye.n_symbols
        indptr = np.zeros(len(corner) + 1, np.int64)
        low, high = self.margin, MAZE.window - self.margin - 1
        cells = self.xy, self.symbol, self.begin, self.width, low, high, n
        pieces = chunks(len(corner), 64)
        nothing = np.empty(0, np.int32)

        def count(piece: slice) -> None:
            _seen(corner[piece], *cells, indptr[piece.start + 1 : piece.stop + 1], nothing)

        def fill(piece: slice) -> None:
            here = indices[indptr[piece.start] : indptr[piece.stop]]
            _seen(corner[piece], *cells, np.empty(piece.stop - piece.start, np.int64), here)

        share_threads(count, pieces, threads)
        np.cumsum(indptr, out=indptr)
        indices = np.empty(indptr[-1], np.int32)
        share_threads(fill, pieces, threads)
        return Incidence(indptr, indices, n)

    def places(self, corner: NDArray[np.int32]) -> Places:
        """Return where the symbols are seen in the windows."""
        images, symbols, where = [], [], []
        low, high = self.margin, MAZE.window - self.margin - 1
        for image, here in enumerate(corner):
            seen = self.xy - here
            rows = np.flatnonzero(((seen >= low) & (seen <= high)).all(axis=1))
            rows = rows[np.argsort(self.symbol[rows], kind="stable")]
            images.append(np.full(len(rows), image))
            symbols.append(self.symbol[rows])
            where.append(seen[rows])
        xy = np.concatenate(where).astype(np.float64)
        marks = np.column_stack([xy, np.full(len(xy), 2.0 * low), np.full(len(xy), np.nan)])
        lengths = [len(one) for one in images]
        begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Places(begin, np.concatenate(symbols), marks, (MAZE.window, MAZE.window))


@compiled
def _seen(
    corner: NDArray[np.int32],
    xy: NDArray[np.int32],
    symbol: NDArray[np.int32],
    begin: Ints,
    width: int,
    low: int,
    high: int,
    n_symbols: int,
    lengths: Ints,
    out: NDArray[np.int32],
) -> None:
    """Write the symbols of each window in ascending order, if there is room, and their number."""
    words = np.zeros((n_symbols + 63) // 64, np.uint64)
    one = np.uint64(1)
    n = 0
    for p in range(len(corner)):
        left, top = corner[p, 0] + low, corner[p, 1] + low
        right, bottom = corner[p, 0] + high, corner[p, 1] + high
        for line in range(top // CELL, bottom // CELL + 1):
            first, last = line * width + left // CELL, line * width + right // CELL
            for i in range(begin[first], begin[last + 1]):
                x, y = xy[i, 0], xy[i, 1]
                if left <= x and x <= right and top <= y and y <= bottom:
                    words[symbol[i] >> 6] |= one << np.uint64(symbol[i] & 63)
        found = 0
        for w in range(len(words)):
            word = words[w]
            words[w] = 0
            bit = 0
            while word:
                while not word & one:
                    word >>= one
                    bit += 1
                if len(out):
                    out[n + found] = w * 64 + bit
                found += 1
                word >>= one
                bit += 1
        lengths[p] = found
        n += found


class Windows(Percepts):
    """So many percepts, each one image, of which nobody keeps the pixels."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n
        self._cameras, self._images = ("",), [_Windows(n)]

    def __len__(self) -> int:
        return self._n

    def table(self) -> Ints:
        """Return the (n, 1) numbers of the images."""
        return np.arange(self._n)[:, np.newaxis]


class _Windows(Images):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.shape, self._n = (MAZE.window, MAZE.window, 3), n

    def __len__(self) -> int:
        return self._n


def walk(n: int, rng: np.random.Generator) -> tuple[dict[str, NDArray[Any]], NDArray[np.int32]]:
    """Return the columns of n random steps from fresh positions, and where each percept is.

    Every move makes a percept of its own; where a move is blocked, the percept is the same as
    before.
    """
    types = {
        "start": np.int64, "action": np.int64, "reward": np.float64, "end": np.int64,
        "episode": np.int64, "terminated": np.bool_, "truncated": np.bool_,
    }  # fmt: skip
    columns: dict[str, NDArray[Any]] = {name: np.empty(n, kind) for name, kind in types.items()}
    positions = np.empty((n + n // 50 + 2 * EPISODES * STEPS, 2), np.int32)
    done = n_percepts = n_episodes = 0
    while done < n:
        block, here = _episodes(min(EPISODES, 1 + (n - done) // 10), rng)
        rows = min(len(block["start"]), n - done)
        for name, values in block.items():
            offset = n_percepts if name in ("start", "end") else 0
            offset = n_episodes if name == "episode" else offset
            columns[name][done : done + rows] = values[:rows] + offset if offset else values[:rows]
        met = int(block["end"][:rows].max()) + 1
        positions[n_percepts : n_percepts + met] = here[:met]
        n_episodes += int(block["episode"][rows - 1]) + 1
        n_percepts += met
        done += rows
    return columns, positions[:n_percepts].copy()


def _episodes(
    n: int, rng: np.random.Generator
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int32]]:
    """Walk n episodes, all at once, and return them one after the other."""
    at = np.empty((STEPS + 1, n, 2))
    at[0] = MAZE.random_starts(n, rng)
    actions = rng.integers(0, len(ACTION_NAMES), (STEPS, n))
    exits = np.zeros((STEPS, n), np.bool_)
    for t in range(STEPS):
        at[t + 1], exits[t] = MAZE.move(at[t], actions[t], rng)
    length = np.where(exits.any(axis=0), exits.argmax(axis=0) + 1, STEPS)
    is_there = np.arange(STEPS) < length[:, np.newaxis]  # (n, STEPS)
    moves = (at[1:] != at[:-1]).any(axis=2).T & is_there
    met = np.cumsum(moves, axis=1)  # percepts of the episode after the first
    first = np.concatenate([[0], np.cumsum(met[:, -1] + 1)])
    end = first[:-1, np.newaxis] + met
    begins = np.column_stack([np.ones(n, np.bool_), moves])
    pixels = np.floor(at.transpose(1, 0, 2)[begins] + 0.5).astype(np.int32)
    terminated = exits.T[is_there]
    is_last = (np.arange(1, STEPS + 1) == length[:, np.newaxis])[is_there]
    block = {
        "start": (end - moves)[is_there], "action": actions.T[is_there],
        "reward": np.where(terminated, MAZE.reward, 0.0), "end": end[is_there],
        "episode": np.repeat(np.arange(n), length), "terminated": terminated,
        "truncated": is_last & ~terminated,
    }  # fmt: skip
    return block, pixels


def make(scene: Scene, n: int, seed: int = 0, *, with_places: bool = False) -> Database:
    """Return a database of n interactions in the maze; without places, composites need images."""
    columns, position = walk(n, np.random.default_rng(seed))
    corner = position + np.int32(scene.offset)
    incidence = scene.rows(corner)
    percepts = Windows(len(corner))
    nowhere = Places(
        np.zeros(len(corner) + 1, np.int64), np.empty(0, np.int32), np.empty((0, 4)), (1, 1)
    )
    places = scene.places(corner) if with_places else nowhere
    graph = Graph().add_symbols(scene.eye)
    shown = Sightings(graph, ("",), (places,), percepts.table(), (incidence,), incidence)
    given: dict[str, Any] = {"n_actions": len(ACTION_NAMES), "action_names": ACTION_NAMES}
    interactions = Interactions(percepts=percepts, **(given | columns))
    return Database(interactions, shown, scene.eye)


def maze() -> tuple[RLVC, PictureEnv]:
    """Return the maze, and a learner with what suits it."""
    env = gymnasium.make("rlvc/Maze-v0", disable_env_checker=True)
    learner = RLVC().fitted(collect(env, 300, seed=0).percepts)
    return learner, cast("PictureEnv", env.unwrapped)


def time_parts() -> dict[str, float]:
    """Have the parts of a stage add up their seconds, and return where."""
    seconds: dict[str, float] = defaultdict(float)

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def call(*args: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return work(*args, **named)
            finally:
                seconds[name] += time.perf_counter() - begin

        return call

    for name, (owner, attribute) in PARTS.items():
        setattr(owner, attribute, timed(name, getattr(owner, attribute)))
    return seconds


def memory(name: str) -> int:
    """Return bytes of this process that are resident now (VmRSS), or were at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def measure(n: int, stages: int, *, composites: bool, threads: int, seed: int) -> dict[str, Any]:
    """Learn some stages of a database of n interactions, and return what they cost."""
    learner, env = maze()
    learner = replace(learner, threads=threads)
    if not composites:
        learner = replace(learner, generator=Canonical())
    scene = Scene.look(learner, env)
    _run(learner, make(scene, 3000, with_places=composites), 12)  # what is compiled is there
    parts = time_parts()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed and kept would not be counted again
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = memory("VmRSS")
    begin = time.perf_counter()
    database = make(scene, n, seed, with_places=composites)
    making = time.perf_counter() - begin
    incidence, interactions = database.incidence, database.interactions
    rows = incidence.indptr.nbytes + incidence.indices.nbytes
    index = rows + sum(getattr(interactions, name).nbytes for name in COLUMNS)
    places = database.sightings.places[0]
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
    """Return the seconds of a stage's search, in two threads, and of its three passes of bincount.

    They are done in turn, a few times; the best of each counts. And how many sums a machine would
    hand over that has a part of the interactions, and how long the driver takes to add them to
    those of others.
    """
    interactions, symbols = database.interactions, database.incidence
    sequence = map_interactions(interactions, stage.database.classes(stage.classifier))
    residuals = bellman_residuals(sequence, stage.q, learner.gamma)
    everything = np.ones(stage.classifier.n_classes, np.bool_)
    n_bins = len(everything) * interactions.n_actions * symbols.n_features
    searches, floors = [], []
    for _ in range(5 if len(interactions) <= 1_000_000 else 2):
        begin = time.perf_counter()
        learner.selector.select(residuals, interactions.start, symbols, everything, 2)
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
    start = interactions.start
    groups, candidates = learner.selector.sums(residuals, start, symbols, everything, 2)
    begin = time.perf_counter()
    merge([(groups, candidates)] * MACHINES, learner.selector.min_samples)
    merging = (time.perf_counter() - begin) / MACHINES
    n_sums = len(candidates.feature)
    return {"search": min(searches), "floor": min(floors), "sums": n_sums, "merge": merging}


def check(n: int = 10_000) -> None:
    """Print the real database, looked at image by image, beside the one that is made of arrays."""
    learner, env = maze()
    scene = Scene.look(learner, env)
    rng = np.random.default_rng(1)
    position = MAZE.random_starts(300, rng)
    percepts = Percepts()
    numbers = [percepts.add(env.percept(one)) for one in position]
    (seen,) = scene.eye.see(percepts, 0, learn=False)
    corner = np.floor(position + 0.5).astype(np.int32) + np.int32(scene.offset)
    rows = scene.rows(corner)
    wrong = sum(
        not np.array_equal(rows.row(i), np.unique(seen.symbol[seen.begin[k] : seen.begin[k + 1]]))
        for i, k in enumerate(numbers)
    )
    print(f"rows of 300 windows that differ from those of their images: {wrong}")
    learner = replace(learner, generator=Canonical())
    begin = time.process_time()
    real = learner.look(collect(env, n, seed=0))
    spent = (time.process_time() - begin) / real.incidence.n_percepts
    print(f"collecting and looking: {spent * 1e3:.2f} ms of the processor a percept")
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
            f"  sums of (class, action, feature) to hand over: {one['sums']:,} "
            f"({one['sums'] * SUM / 2**20:.1f} MiB), added up in {one['merge'] * 1e3:.2f} ms"
        )
    sys.stdout.flush()


def fit(results: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """Return c and k of the model c + k · N for the seconds of a stage, best in proportion."""
    n = np.array([one["interactions"] for one in results], np.float64)
    seconds = np.array([np.mean(one[name]) for one in results])
    rows = np.column_stack([1.0 / seconds, n / seconds])  # so that each counts by its share
    (c, k), *_ = np.linalg.lstsq(rows, np.ones(len(n)))
    return float(c), float(k)


def predict(results: list[dict[str, Any]]) -> None:
    """Print the model, how it fits, and what it says for 10⁹ interactions on many machines."""
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
    print("10⁹ interactions: machines, GiB on each, s a stage = work + hand over + add up")
    for machines in (1, 10, 100, 1000):
        n = 10**9 / machines
        work = c + k * n
        send, add = (0.0, 0.0) if machines == 1 else (machines * part for part in one_part)
        rounds = np.ceil(np.log2(machines)) * sum(one_part)
        print(
            f"  {machines:>4}: {n * bytes_each / 2**30:.1f} GiB, {work + send + add:.2f} = "
            f"{work:.2f} + {send:.2f} + {add:.2f}; if added up two by two {work + rounds:.2f}"
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
    """Print what stages cost at each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--stages", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--composites", action="store_true", help="the default learner")
    parser.add_argument("--check", action="store_true", help="compare with the real database first")
    parser.add_argument("--out", type=Path, help="where to write what was measured")
    parser.add_argument("--read", type=Path, nargs="+", help="print and draw what was written")
    parser.add_argument("--figure", type=Path, help="where to draw it")
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
