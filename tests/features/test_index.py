from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from rlvc.features import AtLeast, Composite, Feature, FeatureGraph, FeatureIndex, InCell, Primitive
from rlvc.features.kinds import MAX_OCCURRENCES
from tests.oracle import composites as oracle
from tests.oracle.rlvc import TooCloseError
from tests.support.scenes import HIGHEST, Scene, draw_graph, lazy_features, pair, seeds


def primitives_first(graph: FeatureGraph) -> tuple[FeatureGraph, list[Feature], dict[int, int]]:
    """Return the graph of the primitives, the features to add, and their new numbers by old."""
    kept = tuple(feature for feature in graph.features if isinstance(feature, Primitive))
    joined, numbers = FeatureGraph(kept).join(graph)
    return FeatureGraph(kept), list(joined.features[len(kept) :]), numbers


def assert_same_points(found: NDArray[np.float64], expected: Sequence[oracle.Point]) -> None:
    assert [tuple(row) for row in found[:, :2].tolist()] == [point.at for point in expected]
    rest = np.array([(point.scale, point.angle) for point in expected]).reshape(-1, 2)
    np.testing.assert_allclose(found[:, 2:], rest, rtol=1e-9, atol=1e-9)


def assert_same(one: FeatureIndex, other: FeatureIndex) -> None:
    assert one.graph == other.graph
    assert one.cameras == other.cameras
    for mine, yours in zip(one.places, other.places, strict=True):
        for name in ("begin", "feature", "marks"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(yours, name), strict=True)
        assert mine.size == yours.size
    matrices = [(one.incidence, other.incidence), *zip(one.shown, other.shown, strict=True)]
    for matrix, same in matrices:
        for name in ("indptr", "indices"):
            np.testing.assert_array_equal(getattr(matrix, name), getattr(same, name), strict=True)
        assert matrix.n_features == same.n_features == len(one.graph)
    for number in range(len(one.graph)):
        for mark, other_mark in zip(one.find(number), other.find(number), strict=True):
            np.testing.assert_array_equal(mark, other_mark, strict=True)


# Where features occur ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cameras", "n_scenes"), [(("",), 100), (("left", "right"), 40)], ids=["one", "two"]
)
def test_occurrences_are_those_of_algorithm_5(cameras: tuple[str, ...], n_scenes: int) -> None:
    n_checked = 0
    n_several = np.zeros(2, np.int64)
    n_found = np.zeros(HIGHEST + 1, np.int64)
    n_missing = np.zeros(HIGHEST + 1, np.int64)
    for seed in range(n_scenes):
        rng = np.random.default_rng(seed)
        graph, scene = draw_graph(rng, cameras, several=True), Scene.draw(rng, cameras)
        index = scene.see(graph)
        assert index.cameras == cameras
        assert index.incidence.n_percepts == len(scene.table)
        for places in index.places:
            rows = itertools.pairwise(places.begin)
            assert all((np.diff(places.feature[a:b]) >= 0).all() for a, b in rows)
        for row, percept in enumerate(scene.percepts):
            features = lazy_features(graph, percept)
            for number in range(len(graph)):
                try:
                    expected = oracle.occurrences(graph.features, number, percept)
                except (TooCloseError, oracle.TooManyError):
                    continue
                camera = cameras.index(graph.camera[number])
                images, marks = index.find(number)
                at_once = marks[images == index.table[row, camera]]
                alone = features.find(number)
                assert_same_points(at_once, expected)
                np.testing.assert_array_equal(alone, at_once, strict=True)
                if isinstance(graph[number], Composite):
                    assert len({point.at for point in expected}) == len(at_once)
                is_shown = number in index.incidence.row(row)
                assert is_shown == features.exhibits(number) == (len(expected) > 0)
                n_checked += 1
                n_several[int(len(expected) > 0)] += isinstance(graph[number], AtLeast)
                n_found[graph.height[number]] += len(expected) > 0
                n_missing[graph.height[number]] += len(expected) == 0
    assert n_checked > 4000
    assert n_found.min() > 50
    assert n_missing.min() > 50
    assert n_several.min() > 50


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_features_may_be_added_at_once_or_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cameras = ("",) if rng.random() < 0.5 else ("left", "right")
    mixed, scene = draw_graph(rng, cameras, several=True), Scene.draw(rng, cameras)
    primitives, features, numbers = primitives_first(mixed)
    whole = scene.see(primitives.add(features)[0])
    at_once, got = scene.see(primitives).add(features)
    assert got == list(range(len(primitives), len(mixed)))
    assert_same(at_once, whole)
    stepwise = scene.see(primitives)
    for number, feature in enumerate(features, len(primitives)):
        stepwise, got = stepwise.add([feature])
        assert got == [number]
    assert_same(stepwise, whole)
    again, got = stepwise.add([features[-1], features[0], features[-1]])
    assert got == [len(mixed) - 1, len(primitives), len(mixed) - 1]
    assert_same(again, whole)
    # The order of the features in a graph does not matter.
    other = scene.see(mixed)
    for old, new in numbers.items():
        for one, two in zip(other.find(old), whole.find(new), strict=True):
            np.testing.assert_array_equal(one, two, strict=True)
    for row in range(len(scene.table)):
        renamed = {numbers[n] for n in other.incidence.row(row).tolist()}
        assert renamed == set(whole.incidence.row(row).tolist())


# Examples ----------------------------------------------------------------------------------------


def one_image(points: list[tuple[int, float, float]], size: tuple[int, int] = (32, 32)) -> Scene:
    shown = [(symbol, oracle.Point(x, y, 1.0, math.nan)) for symbol, x, y in points]
    return Scene({"": [oracle.View(*size, shown)]}, [(0,)])


TWO = FeatureGraph((Primitive("", 0), Primitive("", 1)))


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(0, 0, 0), (1, 3, 4)], [(1.5, 2)]),
        ([(0, 0, 0), (1, 3, 8)], []),
        ([(0, 0, 0)], []),
        ([(1, 3, 4)], []),
        ([], []),
        ([(0, 0, 0), (1, 3, 4), (1, 5, 0)], [(1.5, 2), (2.5, 0)]),
        # The diagonals of a square have one middle.
        ([(0, 0, 0), (0, 4, 0), (1, 4, 4), (1, 0, 4)], [(2, 2), (0, 2), (4, 2)]),
        ([(0, 0, 0), (0, 0, 0), (1, 3, 4), (1, 3, 4)], [(1.5, 2)]),
    ],
)
def test_a_pair_occurs_midway(
    points: list[tuple[int, float, float]], expected: list[tuple[float, float]]
) -> None:
    scene = one_image(points)
    index, (number,) = scene.see(TWO).add([pair()])
    image, marks = index.find(number)
    assert [tuple(row) for row in marks[:, :2].tolist()] == expected
    assert image.tolist() == [0] * len(expected)
    shown = {symbol for symbol, _, _ in points} | ({number} if expected else set())
    assert index.incidence.row(0).tolist() == sorted(shown)


def test_a_feature_pairs_with_itself() -> None:
    scene = one_image([(0, 0, 0), (0, 3, 4)])
    index, numbers = scene.see(TWO).add([pair(0, 0), pair(0, 0, mean=0.0)])
    apart, together = (index.find(number)[1][:, :2].tolist() for number in numbers)
    assert apart == [[1.5, 2.0]]
    assert together == [[0.0, 0.0], [3.0, 4.0]]


def test_parts_of_different_cameras_never_combine() -> None:
    graph = FeatureGraph((Primitive("left", 0), Primitive("right", 0)))
    view = oracle.View(32, 32, [(0, oracle.Point(3.0, 4.0, 1.0, math.nan))])
    scene = Scene({"left": [view], "right": [view]}, [(0, 0)])
    for first, second in ((0, 1), (1, 0)):
        index, (number,) = scene.see(graph).add([pair(first, second, mean=0.0)])
        assert len(index.find(number)[0]) == 0
        assert index.incidence.row(0).tolist() == [0, 1]
        assert not lazy_features(index.graph, scene.percepts[0]).exhibits(number)


def test_what_lies_outside_the_frame_is_in_the_nearest_cell() -> None:
    scene = one_image([(0, -1, 5), (0, 32, 31), (0, 15.5, 16)])
    cells = [InCell(part=0, level=1, column=c, line=line) for c in (0, 1) for line in (0, 1)]
    index, numbers = scene.see(TWO).add(cells)
    found = [index.find(number)[1][:, :2].tolist() for number in numbers]
    assert found == [[[-1.0, 5.0]], [[15.5, 16.0]], [], [[32.0, 31.0]]]


def test_at_least_features_occur_where_their_parts_do() -> None:
    scene = one_image([(0, 1, 1), (0, 9, 1), (1, 4, 5)])
    index, (far,) = scene.see(FeatureGraph(tuple(Primitive("", n) for n in range(3)))).add([pair()])
    wanted = [
        (AtLeast(parts=(1, 0), least=2), [(4, 5), (1, 1), (9, 1)]),
        (AtLeast(parts=(2, 0), least=1), [(1, 1), (9, 1)]),
        (AtLeast(parts=(2, 0), least=2), []),
        (AtLeast(parts=(far, 2, 1), least=2), [(2.5, 3), (4, 5)]),
        (AtLeast(parts=(0,), least=1), [(1, 1), (9, 1)]),
    ]  # a symbol that occurs twice counts once
    index, numbers = index.add(one for one, _ in wanted)
    features = lazy_features(index.graph, scene.percepts[0])
    for number, (at_least, places) in zip(numbers, wanted, strict=True):
        assert [tuple(row) for row in index.find(number)[1][:, :2].tolist()] == places
        assert [tuple(row) for row in features.find(number)[:, :2].tolist()] == places
        n_parts = sum(features.exhibits(part) for part in at_least.parts)
        assert features.exhibits(number) == (n_parts >= at_least.least) == bool(places)


# The limit of occurrences ------------------------------------------------------------------------


def any_two(number: int) -> Composite:
    """Two occurrences of a feature, however far apart."""
    return Composite(first=number, second=number, mean=0.0, deviation=1e6, likelihood=0.5)


def test_no_more_occurrences_are_kept_than_allowed() -> None:
    rng = np.random.default_rng(0)
    xy = rng.integers(0, 2**16, (60, 2)) / 16.0
    scene = one_image([(0, x, y) for x, y in xy.tolist()])
    graph, _ = FeatureGraph((Primitive("", 0),)).add([any_two(0)])
    expected = oracle.occurrences(graph.features, 1, scene.percepts[0], most=2000)
    assert len(expected) == 60 * 61 // 2 > MAX_OCCURRENCES
    # Without a bound, each of these would have the square of what the one before has.
    graph, numbers = graph.add(any_two(n) for n in range(1, 6))
    index = scene.see(graph)
    assert_same_points(index.find(1)[1], expected[:MAX_OCCURRENCES])
    features = lazy_features(graph, scene.percepts[0])
    for number in (1, *numbers):
        found = index.find(number)[1]
        assert found.shape == (MAX_OCCURRENCES, 4)
        np.testing.assert_array_equal(features.find(number), found)
    assert index.incidence.row(0).tolist() == list(range(7))


def test_thousands_of_points_are_composed() -> None:
    rng = np.random.default_rng(0)
    xy = rng.random((4000, 2), np.float32).astype(float) * 300.0
    symbols = rng.integers(0, 2, 4000)
    rows = [(int(s), x, y) for s, (x, y) in zip(symbols, xy.tolist(), strict=True)]
    scene = one_image(rows, (300, 300))
    graph, _ = TWO.add([pair(mean=40.0), pair(2, 0, mean=100.0), pair(2, 3, mean=9.0)])
    index = scene.see(graph)
    features = lazy_features(graph, scene.percepts[0])
    for number in range(2, 5):
        found = index.find(number)[1]
        assert 0 < len(found) <= MAX_OCCURRENCES
        assert len(np.unique(found[:, :2], axis=0)) == len(found)
        np.testing.assert_array_equal(features.find(number), found)


# Empty cases -------------------------------------------------------------------------------------


def test_images_without_points_show_nothing() -> None:
    blank = oracle.View(32, 32)
    scene = Scene({"": [blank, blank]}, [(0,), (1,)])
    index, numbers = scene.see(TWO).add([pair(), pair(2, 2), pair(0, 0)])
    assert numbers == [2, 3, 4]
    assert index.incidence.indptr.tolist() == [0, 0, 0]
    assert index.incidence.n_features == len(index.graph) == 5
    assert index.places[0].marks.shape == (0, 4)


def test_a_graph_without_features_shows_nothing() -> None:
    scene = Scene({"": [oracle.View(32, 32)]}, [(0,)])
    index = scene.see(FeatureGraph())
    assert index.incidence.indptr.tolist() == [0, 0]
    assert index.incidence.n_features == 0
