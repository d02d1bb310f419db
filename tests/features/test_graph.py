from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc.features import AtLeast, Composite, Feature, FeatureGraph, InCell, Primitive
from rlvc.vision import Euclidean, FeatureExtractor, Harris, Invariants, Vocabulary
from tests.oracle import composites as oracle
from tests.support.scenes import KnownSymbols, Scene, draw_graph, lazy_features, pair, seeds

CAMERAS = ("left", "right")


def drawn(seed: int) -> FeatureGraph:
    return draw_graph(np.random.default_rng(seed), CAMERAS, several=True)


def meaning(graph: FeatureGraph, number: int) -> object:
    """Return a feature with its parts, recursively, in place of their numbers."""
    feature = graph[number]
    values = {f.name: getattr(feature, f.name) for f in dataclasses.fields(feature)}
    for name in ("first", "second", "part"):
        if name in values:
            values[name] = meaning(graph, values[name])
    if isinstance(feature, AtLeast):
        values["parts"] = tuple(meaning(graph, part) for part in feature.parts)
    return type(feature), tuple(values.items())


# The graph ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_adding_keeps_the_numbers_of_known_features(seed: int) -> None:
    graph = drawn(seed)
    rng = np.random.default_rng(seed)
    cut = int(rng.integers(0, len(graph)))
    small = FeatureGraph(graph.features[:cut])
    old = [int(n) for n in rng.integers(0, cut, 3)] if cut else []
    offered = [*(graph[n] for n in old), *graph.features[cut:], *graph.features[cut:][::-1]]
    grown, numbers = small.add(offered)
    new = list(range(cut, len(graph)))
    assert numbers == [*old, *new, *new[::-1]]
    assert grown == graph
    assert [grown.numbers[feature] for feature in grown.features] == list(range(len(graph)))
    assert small == FeatureGraph(graph.features[:cut])  # graphs are immutable
    again, numbers = grown.add(offered)
    assert again is grown
    assert numbers == [*old, *new, *new[::-1]]


@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_heights_and_cameras_are_those_of_the_parts(seed: int) -> None:
    graph = drawn(seed)
    assert len(graph) == len(graph.features) == len(graph.height) == len(graph.camera)

    def height(number: int) -> int:
        parts = graph[number].parts
        return 1 + max(height(part) for part in parts) if parts else 0

    for number, feature in enumerate(graph.features):
        assert graph[number] is feature
        assert graph.height[number] == height(number)
        made_of = graph.primitives(number)
        assert made_of == sorted(set(made_of))
        assert {graph.camera[n] for n in made_of} == {graph.camera[number]}
        for part in feature.parts:
            assert part < number
            assert set(graph.primitives(part)) <= set(made_of)
        if isinstance(feature, Primitive):
            assert feature.camera == graph.camera[number]
            assert made_of == [number]
        else:
            assert set(made_of) == {n for part in feature.parts for n in graph.primitives(part)}


@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_only_the_wanted_features_and_their_parts_are_kept(seed: int) -> None:
    graph = drawn(seed)
    rng = np.random.default_rng(seed)
    wanted = [int(n) for n in rng.integers(0, len(graph), rng.integers(0, 4))]
    small, numbers = graph.only(wanted)

    def family(number: int) -> set[int]:
        return {number}.union(*(family(part) for part in graph[number].parts))

    kept = set[int]().union(*(family(number) for number in wanted))
    assert list(numbers) == sorted(kept)  # in the old order
    assert list(numbers.values()) == list(range(len(small)))
    for old, new in numbers.items():
        assert all(part < new for part in small[new].parts)
        assert meaning(small, new) == meaning(graph, old)
        assert small.describe(new) == graph.describe(old)
        assert small.height[new] == graph.height[old]
        assert small.camera[new] == graph.camera[old]
    assert small.only(range(len(small))) == (small, {n: n for n in range(len(small))})


def test_an_empty_graph_has_nothing() -> None:
    graph = FeatureGraph()
    assert len(graph) == 0
    assert (graph.height, graph.camera, graph.numbers) == ((), (), {})
    assert graph.symbols("").tolist() == []
    assert graph.only([]) == (graph, {})
    assert graph.add([]) == (graph, [])


def test_the_symbols_of_an_extractor_become_features_once() -> None:
    extractor = FeatureExtractor(Harris(), Invariants(), Euclidean(), 0.5)
    for name, n in (("left", 2), ("right", 1)):
        extractor.vocabularies[name] = Vocabulary(Euclidean(), 0.5)
        extractor.vocabularies[name].extend(np.arange(n, dtype=np.float32)[:, None])
    graph = FeatureGraph().add_symbols(extractor)
    assert graph.features == (Primitive("left", 0), Primitive("left", 1), Primitive("right", 0))
    graph, _ = graph.add([pair(0, 1)])
    extractor.vocabularies["left"].extend(np.array([[9.0]], np.float32))
    extractor.vocabularies["right"].extend(np.array([[7.0], [8.0]], np.float32))
    grown = graph.add_symbols(extractor)
    assert grown.features[:4] == graph.features
    assert grown.symbols("left").tolist() == [0, 1, 4]
    assert grown.symbols("right").tolist() == [2, 5, 6]
    assert grown.add_symbols(extractor) is grown


def test_features_are_described_in_words() -> None:
    graph = FeatureGraph((
        Primitive("", 3),
        Primitive("front", 0),
        Composite(first=0, second=0, mean=1.0, deviation=2.0, likelihood=0.1),
        Composite(
            first=0, second=2, mean=40.0, deviation=4.0, likelihood=math.exp(-0.5), turn=29.6,
            turn_deviation=3.0, ratio=-1.0, ratio_deviation=0.5,
        ),
        InCell(part=1, level=2, column=0, line=3),
        InCell(part=3, level=1, column=1, line=0),
        Primitive("front", 7),
        AtLeast(parts=(6, 1), least=1),
        AtLeast(parts=(1,), least=1),
        AtLeast(parts=(2, 0), least=2),
    ))  # fmt: skip
    pair_of_3 = "symbol 3 and symbol 3, 0 to 5 pixels apart"
    nested = (
        f"symbol 3 and ({pair_of_3}), 36 to 44 pixels apart, turned by about 30°, about 0.5 times "
        "as large"
    )
    assert [graph.describe(n) for n in range(10)] == [
        "symbol 3",
        "symbol 0 of front",
        pair_of_3,
        nested,
        "symbol 0 of front in column 1, row 4 of 4 × 4",
        f"({nested}) in column 2, row 1 of 2 × 2",
        "symbol 7 of front",
        "at least 1 of 2 (symbols 7, 0 of front)",
        "at least 1 of 1 (symbol 0 of front)",
        f"at least 2 of 2 (({pair_of_3}), symbol 3)",
    ]
    assert [graph.is_arranged(n) for n in range(10)] == [
        False, False, True, True, True, True, False, False, False, True,
    ]  # fmt: skip


def test_the_primitives_of_a_very_high_feature_are_found() -> None:
    features: list[Feature] = [Primitive("", 0), Primitive("", 1)]
    features += [pair(n, n + 1) for n in range(200)]
    graph = FeatureGraph(tuple(features))
    assert graph.primitives(201) == [0, 1]
    assert graph.height[201] == 200


def test_joined_features_keep_their_meaning() -> None:
    graph = drawn(0)
    half = FeatureGraph(graph.features[: len(graph) // 2])
    joined, numbers = half.join(drawn(1))
    other = drawn(1)
    assert joined.features[: len(half)] == half.features
    assert list(numbers) == list(range(len(other)))
    for old, new in numbers.items():
        assert meaning(joined, new) == meaning(other, old)
    assert joined.join(other) == (joined, numbers)


# Composites --------------------------------------------------------------------------------------


def at(*rows: tuple[int, float, float, float, float]) -> oracle.Percept:
    """Return a percept of one image that shows symbols at x, y, scale and angle."""
    return {"": oracle.View(64, 64, [(s, oracle.Point(*rest)) for s, *rest in rows])}


@settings(deadline=None, max_examples=100)
@given(
    mean=st.floats(0.0, 500.0), deviation=st.floats(0.1, 50.0), likelihood=st.floats(0.01, 0.99),
    share=st.floats(-2.0, 2.0).filter(lambda s: abs(abs(s) - 1.0) > 0.01),
)  # fmt: skip
def test_a_distance_is_likely_within_reach_of_the_mean(
    mean: float, deviation: float, likelihood: float, share: float
) -> None:
    two = Composite(first=0, second=1, mean=mean, deviation=deviation, likelihood=likelihood)
    assert math.exp(-((two.reach / deviation) ** 2) / 2) == pytest.approx(likelihood)
    distance = mean + share * two.reach
    if distance < 0.0:
        return
    graph, (number,) = FeatureGraph((Primitive("", 0), Primitive("", 1))).add([two])
    percept = at((0, 0, 9, 1, 0), (1, distance, 9, 1, 0))
    assert lazy_features(graph, percept).exhibits(number) == (abs(share) < 1.0)


def test_a_row_has_the_parameters_of_a_composite() -> None:
    given = {"first": 4, "second": 2, "mean": 30.0, "deviation": 2.0, "likelihood": math.exp(-2.0)}
    plain = Composite(**given)  # type: ignore[arg-type]
    assert plain.parts == (4, 2)
    assert plain.reach == pytest.approx(4.0)
    assert plain.parameters().tolist() == pytest.approx([4.0, 30.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    turned = Composite(**given, turn=-90.0, turn_deviation=10.0)  # type: ignore[arg-type]
    assert turned.parameters().tolist() == pytest.approx([4.0, 30.0, 0.5, -90.0, 0.1, 0.0, 0.0])
    scaled = Composite(**given, ratio=1.5, ratio_deviation=0.25)  # type: ignore[arg-type]
    assert scaled.parameters().tolist() == pytest.approx([4.0, 30.0, 0.5, 0.0, 0.0, 1.5, 4.0])
    assert len({plain, turned, scaled, dataclasses.replace(plain)}) == 3


@pytest.mark.parametrize(
    ("angle", "expected"), [(30.0, True), (390.0, True), (-300.0, False), (210.0, False)]
)
def test_angles_are_compared_around_the_circle(angle: float, expected: bool) -> None:
    graph, (number,) = FeatureGraph((Primitive("", 0), Primitive("", 1))).add([
        Composite(
            first=0, second=1, mean=10.0, deviation=1.0, likelihood=0.5,
            turn=40.0, turn_deviation=10.0,
        )
    ])  # fmt: skip
    for start in (0.0, 175.0, 355.0):
        percept = at((0, 10, 10, 1, start), (1, 20, 10, 1, start + angle))
        assert lazy_features(graph, percept).exhibits(number) == expected
    missing = at((0, 10, 10, 1, math.nan), (1, 20, 10, 1, 0.0))
    assert not lazy_features(graph, missing).exhibits(number)


def test_the_ratio_of_scales_goes_from_the_first_part_to_the_second() -> None:
    twice = Composite(
        first=0, second=1, mean=10.0, deviation=1.0, likelihood=0.5, ratio=1.0, ratio_deviation=0.1
    )
    graph, (number,) = FeatureGraph((Primitive("", 0), Primitive("", 1))).add([twice])
    for scales, expected in (((3, 6), True), ((6, 3), False), ((4, 4), False), ((0, 2), False)):
        percept = at((0, 10, 10, scales[0], 0.0), (1, 20, 10, scales[1], 0.0))
        assert lazy_features(graph, percept).exhibits(number) == expected


# One percept -------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_only_the_primitives_of_a_feature_are_searched_for_and_only_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, scene = draw_graph(rng, CAMERAS), Scene.draw(rng, CAMERAS, most=4)
    symbols = [n for n, one in enumerate(graph.features) if isinstance(one, Primitive)]
    left = [n for n in symbols if graph.camera[n] == "left"]
    more, (several,) = graph.add([AtLeast(parts=tuple(left), least=1)])
    extractor = KnownSymbols()
    lazy_features(more, scene.percepts[0], extractor).exhibits(several)
    assert extractor.log == [("exhibits", "left", n) for n in range(len(left))]  # but not located
    extractor = KnownSymbols()
    features = lazy_features(graph, scene.percepts[0], extractor)
    number = int(rng.integers(len(graph)))
    is_exhibited = features.exhibits(number)
    feature = graph[number]
    if isinstance(feature, Primitive):
        assert extractor.log == [("exhibits", feature.camera, feature.symbol)]
    else:
        wanted = [graph[n] for n in graph.primitives(number)]
        names = [("find", p.camera, p.symbol) for p in wanted if isinstance(p, Primitive)]
        assert sorted(extractor.log) == sorted(names)
    assert is_exhibited == (len(features.find(number)) > 0)
    before = len(extractor.log)
    assert features.find(number) is features.find(number)
    assert features.exhibits(number) == is_exhibited
    assert len(extractor.log) == before
