"""Random graphs of features, and images with known symbols on which they occur."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import Percepts
from rlvc.features import (
    AtLeast,
    Composite,
    FeatureGraph,
    FeatureIndex,
    InCell,
    LazyFeatures,
    Primitive,
)
from rlvc.vision import InterestPoints, SymbolOccurrences
from tests.oracle import composites as oracle

seeds = st.integers(0, 2**32 - 1)


N_SYMBOLS = 3  # of each camera


HIGHEST = 4


def points_of(found: Sequence[oracle.Point]) -> InterestPoints:
    table = np.array([(p.x, p.y, p.scale, p.angle) for p in found], np.float32).reshape(-1, 4)
    return InterestPoints(table[:, :2], table[:, 2], table[:, 3], np.zeros(len(found), np.int32))


@dataclass
class KnownSymbols:
    """An extractor, and its searches, for percepts whose symbols are known; it logs its work."""

    camera: str = ""
    log: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def vocabularies(self) -> dict[str, SimpleNamespace]:
        return {c: SimpleNamespace(search=KnownSymbols(c, self.log)) for c in ("left", "right", "")}

    def extract_image(self, image: SimpleNamespace) -> tuple[InterestPoints, NDArray[np.int64]]:
        symbols = np.array([symbol for symbol, _ in image.points], np.int64)
        return points_of([point for _, point in image.points]), symbols

    def prepare(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        return symbols

    def matches(self, symbols: NDArray[np.int64], symbol: int) -> NDArray[np.int64]:
        self.log.append(("find", self.camera, symbol))
        return np.flatnonzero(symbols == symbol)

    def has_match(self, symbols: NDArray[np.int64], symbol: int) -> bool:
        self.log.append(("exhibits", self.camera, symbol))
        return symbol in symbols


def lazy_features(
    graph: FeatureGraph, percept: oracle.Percept, extractor: KnownSymbols | None = None
) -> LazyFeatures:
    """Return the features of one percept of the oracle as a policy finds them."""
    images = {
        camera: SimpleNamespace(shape=(view.height, view.width), points=view.points)
        for camera, view in percept.items()
    }
    return LazyFeatures(graph, extractor or KnownSymbols(), images)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Scene:
    """Images of some cameras with symbols on them, and the percepts that they make up."""

    views: dict[str, list[oracle.View]]
    table: list[tuple[int, ...]]

    @classmethod
    def draw(cls, rng: np.random.Generator, cameras: Sequence[str], most: int = 8) -> Scene:
        """Draw images with few points on a coarse grid, so that points and midpoints coincide."""
        views = {}
        for name in sorted(cameras):
            width, height = (int(n) for n in rng.integers(20, 40, 2))
            n_images = int(rng.integers(1, 6))
            views[name] = [
                oracle.View(width, height, draw_points(rng, int(rng.integers(0, most + 1))))
                for _ in range(n_images)
            ]
        shape = 12, len(cameras)
        rows = rng.integers(0, [len(images) for images in views.values()], shape)
        return cls(views, sorted(set(map(tuple, rows.tolist()))))

    @property
    def cameras(self) -> list[str]:
        return list(self.views)

    @property
    def percepts(self) -> list[oracle.Percept]:
        return [
            {name: self.views[name][i] for name, i in zip(self.cameras, row, strict=True)}
            for row in self.table
        ]

    def see(self, graph: FeatureGraph) -> FeatureIndex:
        """Return what the percepts show of a graph."""
        percepts = Percepts()
        for row in self.table:
            percept = {}
            for name, number in zip(self.cameras, row, strict=True):
                view = self.views[name][number]
                percept[name] = np.full((view.height, view.width), number, np.uint8)
            percepts.add(percept[""] if self.cameras == [""] else percept)
        # The store numbers images in the order in which percepts show them.
        met = [list(dict.fromkeys(column)) for column in zip(*self.table, strict=True)]
        seen = []
        for images, numbers in zip(percepts.images, met, strict=True):
            shown = [self.views[images.camera][number].points for number in numbers]
            rows = [row for points in shown for row in points]
            begin = np.cumsum([0, *map(len, shown)])
            symbol = np.array([s for s, _ in rows], np.int32)
            points = points_of([point for _, point in rows])
            seen.append(
                SymbolOccurrences(begin, symbol, np.arange(len(rows), dtype=np.int32), points)
            )
        return FeatureIndex.of(graph, percepts, seen)


def draw_points(rng: np.random.Generator, n: int) -> list[tuple[int, oracle.Point]]:
    found = []
    for _ in range(n):
        x, y = (float(t) for t in rng.integers(0, 10, 2) * 4)
        if rng.random() < 0.2:
            x = float(np.float32(rng.uniform(-2.0, 42.0)))
        scale = float(rng.choice([0.0, 2.0, 4.0, 5.0]))
        if rng.random() < 0.3:
            scale = float(np.float32(rng.uniform(1.0, 9.0)))
        angle = math.nan if rng.random() < 0.1 else float(np.float32(rng.uniform(0.0, 360.0)))
        # The last symbol is never seen.
        found.append((int(rng.integers(0, N_SYMBOLS - 1)), oracle.Point(x, y, scale, angle)))
    return found


def draw_composite(rng: np.random.Generator, parts: Sequence[int]) -> Composite | InCell:
    """Draw a feature that is made of some of those with the given numbers."""
    if rng.random() < 0.1:
        level = int(rng.integers(0, 4))
        column, line = (int(n) for n in rng.integers(0, 2**level, 2))
        return InCell(part=int(rng.choice(parts)), level=level, column=column, line=line)
    first, second = (int(n) for n in rng.choice(parts, 2))
    turns, scales = rng.random(2) < 0.1
    return Composite(
        first=first, second=first if rng.random() < 0.2 else second,
        mean=float(rng.uniform(0.0, 18.0)), deviation=float(rng.uniform(3.0, 10.0)),
        likelihood=float(rng.uniform(0.05, 0.8)),
        turn=float(rng.uniform(-180.0, 180.0)) if turns else None,
        turn_deviation=float(rng.uniform(40.0, 90.0)) if turns else None,
        ratio=float(rng.uniform(-1.0, 1.0)) if scales else None,
        ratio_deviation=float(rng.uniform(0.5, 2.0)) if scales else None,
    )  # fmt: skip


def draw_several(rng: np.random.Generator, parts: Sequence[int]) -> AtLeast:
    """Draw a feature that asks for some of those with the given numbers."""
    n = int(rng.integers(1, len(parts) + 1))
    some = tuple(rng.choice(parts, n, replace=False).tolist())
    return AtLeast(parts=some, least=int(rng.integers(1, n + 1)))


def draw_graph(
    rng: np.random.Generator, cameras: Sequence[str], n: int = 14, *, several: bool = False
) -> FeatureGraph:
    """Draw a graph in which primitives come early and late, and heights in no order."""
    graph = FeatureGraph()
    rest = [[Primitive(name, symbol) for symbol in range(N_SYMBOLS)] for name in cameras]
    while any(rest) or len(graph) < n + N_SYMBOLS * len(cameras):
        camera = int(rng.integers(len(cameras)))
        ours = [
            number
            for number, height in enumerate(graph.height)
            if graph.camera[number] == cameras[camera] and height < HIGHEST
            if not isinstance(graph[number], AtLeast)
        ]
        if rest[camera] and (len(ours) < 2 or rng.random() < 0.2):
            graph, _ = graph.add([rest[camera].pop(0)])
        elif ours and several and rng.random() < 0.2:
            graph, _ = graph.add([draw_several(rng, ours)])
        elif ours:
            graph, _ = graph.add([draw_composite(rng, ours[-5:])])
    return graph


def pair(first: int = 0, second: int = 1, mean: float = 5.0) -> Composite:
    """Two features about as far apart as a triangle of 3, 4 and 5 has them."""
    return Composite(first=first, second=second, mean=mean, deviation=1.0, likelihood=0.5)
