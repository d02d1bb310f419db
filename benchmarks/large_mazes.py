"""Maze databases of any size, made of arrays, without images.

A window that slides over the maze's picture by whole pixels always shows the same interest points,
so the symbols of any percept follow from those of the whole picture. Agents walk from new random
positions; the resulting databases have the statistics of the real one, as ``scaling.py --check``
verifies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc import RLVC, Database, Interactions, Percepts, collect
from rlvc._core.jit import chunks, jit, share_threads
from rlvc.data import Images
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import ACTION_NAMES, MAZE
from rlvc.features import FeatureGraph, FeatureIndex, Incidence, OccurrenceTable
from rlvc.vision import ExtractionCache, FeatureExtractor, Harris

Ints = NDArray[np.int64]

STEPS = 100  # of an episode at most
CELL = 32  # pixels a side: symbols are looked up by the cells that a window covers
EPISODES = 500  # that are simulated at once


@dataclass(frozen=True, slots=True)
class Scene:
    """The symbols of the maze's picture and their positions.

    Attributes:
        extractor: The extractor that found them.
        xy: (n, 2) whole pixels of the padded picture, cell by cell.
        symbol: (n,) the symbol of each.
        begin: The first index of each cell, row by row of the cells.
        width: Cells in a row.
        margin: Pixels at the border of a window in which no points are detected.
        offset: From the position of the agent, in whole pixels, to the corner of its window.
    """

    extractor: FeatureExtractor
    xy: NDArray[np.int32]
    symbol: NDArray[np.int32]
    begin: Ints
    width: int
    margin: int
    offset: int

    @classmethod
    def extract(cls, learner: RLVC, env: PictureEnv) -> Scene:
        """Extract the symbols of the whole picture, with an extractor chosen for its percepts."""
        one = Percepts()
        one.add(env.padded)
        extractor = learner.new_extractor(one)
        if not isinstance(extractor.detector, Harris):
            raise TypeError(f"The detector must be Harris; got {extractor.detector}.")
        keypoints = ExtractionCache().extract(extractor, one, 0)
        (seen,) = extractor.find_symbols(one, keypoints, 0)
        xy = seen.points.xy[seen.point].astype(np.int32)
        width = env.padded.shape[1] // CELL + 1
        cell = xy[:, 1] // CELL * width + xy[:, 0] // CELL
        order = np.argsort(cell, kind="stable")
        begin = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=width * width))])
        offset = env.margin - env.world.window // 2
        margin = extractor.detector.margin
        return cls(extractor, xy[order], seen.symbol[order], begin, width, margin, offset)

    def rows(self, corner: NDArray[np.int32], threads: int = 0) -> Incidence:
        """Return the symbols in windows, given their (n, 2) corners."""
        n = self.extractor.n_symbols
        indptr = np.zeros(len(corner) + 1, np.int64)
        low, high = self.margin, MAZE.window - self.margin - 1
        cells = self.xy, self.symbol, self.begin, self.width, low, high, n
        pieces = chunks(len(corner), 64)
        nothing = np.empty(0, np.int32)

        def count(piece: slice) -> None:
            _find_symbols(corner[piece], *cells, indptr[piece.start + 1 : piece.stop + 1], nothing)

        def fill(piece: slice) -> None:
            here = indices[indptr[piece.start] : indptr[piece.stop]]
            _find_symbols(corner[piece], *cells, np.empty(len(corner[piece]), np.int64), here)

        share_threads(count, pieces, threads)
        np.cumsum(indptr, out=indptr)
        indices = np.empty(indptr[-1], np.int32)
        share_threads(fill, pieces, threads)
        return Incidence(indptr, indices, n)

    def places(self, corner: NDArray[np.int32]) -> OccurrenceTable:
        """Return the occurrences of the symbols in windows, given their corners."""
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
        return OccurrenceTable(begin, np.concatenate(symbols), marks, (MAZE.window, MAZE.window))


@jit
def _find_symbols(
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
    """Write the number of symbols of each window, and, unless ``out`` is empty, the symbols."""
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
    """A number of percepts, each a single image, without their pixels."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n
        self._images = [_Windows(n)]

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
    """Return the columns of n random steps from new positions, and the position of each percept.

    Every move leads to a new percept; a blocked move leads to the same percept as before.
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
    """Simulate n episodes at once; return them one after the other, and the positions."""
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
    """Return a database of n interactions with the maze.

    Composites need the places of the symbols, ``with_places``.
    """
    columns, position = walk(n, np.random.default_rng(seed))
    corner = position + np.int32(scene.offset)
    incidence = scene.rows(corner)
    percepts = Windows(len(corner))
    nowhere = OccurrenceTable(
        np.zeros(len(corner) + 1, np.int64), np.empty(0, np.int32), np.empty((0, 4)), (1, 1)
    )
    places = scene.places(corner) if with_places else nowhere
    graph = FeatureGraph().add_symbols(scene.extractor)
    shown = FeatureIndex(graph, ("",), (places,), percepts.table(), (incidence,), incidence)
    given: dict[str, Any] = {"n_actions": len(ACTION_NAMES), "action_names": ACTION_NAMES}
    interactions = Interactions(percepts=percepts, **(given | columns))
    return Database.of(interactions, shown, scene.extractor)


def maze() -> tuple[RLVC, PictureEnv]:
    """Return a learner with the extractor chosen for the maze, and the maze."""
    env = gymnasium.make("rlvc/Maze-v0", disable_env_checker=True)
    learner = RLVC().fitted(collect(env, 300, seed=0).percepts)
    return learner, cast("PictureEnv", env.unwrapped)
