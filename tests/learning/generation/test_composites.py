from __future__ import annotations

import dataclasses
import itertools
import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Policy
from rlvc.features import Composite, Feature, FeatureGraph, FeatureIndex, InCell, Primitive
from rlvc.learning.generation.base import GeneratorState
from rlvc.learning.generation.clustering import CompleteLinkage, Tails, clusterings
from rlvc.learning.generation.composites import Composites
from rlvc.learning.generation.pairs import TRIES
from rlvc.vision import Harris, Sift
from tests.oracle import composites as oracle
from tests.oracle.rlvc import TooCloseError
from tests.support.candidates import Proposal, propose
from tests.support.marks import act, draw_all
from tests.support.scenes import Scene, draw_graph, draw_points

seeds = st.integers(0, 2**32 - 1)

WIDE: dict[str, Any] = {  # limits that are never exceeded
    "images": 10**3, "features": 10**2, "pairs": 10**3, "distances": 10**5, "candidates": 10**5,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Percepts in visual classes, and what they show."""

    scene: Scene
    index: FeatureIndex
    classes: NDArray[np.int64]

    @classmethod
    def draw(
        cls, rng: np.random.Generator, cameras: Sequence[str], turned: bool = False, most: int = 6
    ) -> Case:
        """Draw images in up to three classes; with angles and no two distances alike if turned."""
        views = {}
        for name in sorted(cameras):
            width, height = (int(n) for n in rng.integers(20, 40, 2))
            drawn = [draw_points(rng, int(rng.integers(0, most + 1))) for _ in range(7)]
            if turned:
                drawn = [[(symbol, scatter(rng)) for symbol, _ in points] for points in drawn]
            views[name] = [oracle.View(width, height, points) for points in drawn]
        rows = rng.integers(0, 7, (14, len(cameras))).tolist()
        scene = Scene(views, sorted(set(map(tuple, rows))))
        graph = draw_graph(rng, tuple(sorted(cameras)), 5)
        classes = rng.integers(0, rng.integers(1, 4), len(scene.table))
        return cls(scene, scene.see(graph), np.unique(classes, return_inverse=True)[1])

    @classmethod
    def of(
        cls,
        images: list[list[tuple[float, ...]]],
        classes: list[int] | None = None,
        size: tuple[int, int] = (64, 64),
    ) -> Case:
        """Return images of points, each given by symbol, x and y, and perhaps scale and angle."""
        views = []
        for points in images:
            rows = [(*row, 1.0, math.nan)[:5] if len(row) == 3 else row for row in points]
            shown = [(int(s), oracle.Point(*map(float, rest))) for s, *rest in rows]
            views.append(oracle.View(*size, shown))
        scene = Scene({"": views}, [(i,) for i in range(len(views))])
        symbols = max((int(row[0]) for points in images for row in points), default=0) + 1
        graph = FeatureGraph(tuple(Primitive("", symbol) for symbol in range(symbols)))
        return cls(scene, scene.see(graph), np.array(classes or [0] * len(images)))

    @property
    def graph(self) -> FeatureGraph:
        return self.index.graph

    @property
    def n_classes(self) -> int:
        return int(self.classes.max()) + 1

    def shown(self, visual_class: int, camera: str) -> list[oracle.Percept]:
        """Return the distinct images of a camera on the percepts of a class."""
        column = self.scene.cameras.index(camera)
        numbers = {row[column] for row, c in zip(self.scene.table, self.classes, strict=True)
                   if c == visual_class}  # fmt: skip
        return [{camera: self.scene.views[camera][number]} for number in sorted(numbers)]

    def propose(
        self,
        rules: Composites,
        wanted: Sequence[int] | None = None,
        threads: int = 1,
        composer: GeneratorState | None = None,
    ) -> Proposal:
        """Return the new features that are proposed for some classes, or for all."""
        is_aliased = np.zeros(self.n_classes, np.bool_)
        is_aliased[list(range(self.n_classes) if wanted is None else wanted)] = True
        composer, attempt = composer or rules.start(), 0 if rules.together else 1
        found = propose(composer, self.index, self.classes, is_aliased, attempt, threads)
        assert found is not None
        return found

    def expected(self, rules: Composites, visual_class: int) -> list[Composite]:
        """Return what Algorithm 6 proposes for a class, camera by camera."""
        return [
            one
            for camera in self.scene.cameras
            for one in oracle.generator(
                self.graph.features, self.shown(visual_class, camera), rules, alone(rules)
            )
        ]


def scatter(rng: np.random.Generator) -> oracle.Point:
    return oracle.Point(*(float(np.float32(t)) for t in rng.uniform(1.0, [40.0, 40.0, 9.0, 360.0])))


def alone(rules: Composites) -> oracle.Cluster:
    """Return how the distances of one pair are clustered, in every way there is."""

    def cluster(distances: list[float]) -> list[list[int]]:
        labels = rules.clustering.cluster(np.array([0, len(distances)]), np.asarray(distances))
        return [
            np.flatnonzero(way == label).tolist()
            for way in labels.T
            for label in range(int(way.max()) + 1)
        ]

    return cluster


def new_of(candidates: Proposal, row: int) -> Counter[Feature]:
    """Return the new features that a percept is said to exhibit."""
    columns = candidates.incidence.row(row).tolist()
    return Counter(
        candidates.new[n - candidates.n_known] for n in columns if n >= candidates.n_known
    )


def assert_same_composites(proposed: Sequence[Feature], expected: list[Composite]) -> None:
    """Match the ones with the others, whatever their order."""
    rest = list(proposed)
    for one in expected:
        same = [o for o in rest if isinstance(o, Composite) and oracle.is_same(o, one)]
        assert same, one
        rest.remove(same[0])
    assert not rest


def assert_same_proposal(one: Proposal, other: Proposal) -> None:
    assert list(one.new) == list(other.new)
    assert one.incidence.n_features == other.incidence.n_features
    for name in ("indptr", "indices"):
        ours, theirs = getattr(one.incidence, name), getattr(other.incidence, name)
        np.testing.assert_array_equal(ours, theirs, strict=True)


# Candidates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cameras", [("",), ("left", "right")], ids=["one", "two"])
@pytest.mark.parametrize("clustering", list(clusterings))
def test_composites_are_those_of_algorithm_6(clustering: str, cameras: tuple[str, ...]) -> None:
    n_checked: Counter[int] = Counter()
    n_empty = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        case = Case.draw(rng, cameras)
        rules = Composites(
            clustering=clusterings.make(clustering), height=1 + seed % 2,
            support=float(rng.choice([0.0, 0.4, 0.55])),
            deviation=float(rng.choice([0.1, 1.0, 2.0])), likelihood=0.3, **WIDE,
        )  # fmt: skip
        proposed = case.propose(rules)
        singles = [case.propose(rules, [c]) for c in range(case.n_classes)]
        assert Counter(proposed.new) == Counter(itertools.chain(*(one.new for one in singles)))
        for c, one in enumerate(singles):
            try:
                expected = case.expected(rules, c)
            except (TooCloseError, oracle.TooManyError):
                continue
            assert_same_composites(one.new, expected)
            n_empty += not expected
            n_checked[rules.height] += len(expected)
            for row, visual_class in enumerate(case.classes):
                if visual_class == c:
                    assert new_of(proposed, row) == new_of(one, row)
                else:
                    assert not new_of(one, row)
    assert n_checked[1] > 40
    assert n_checked[2] > 100
    assert n_empty > 0


@pytest.mark.parametrize(
    ("use_angle", "use_scale"), [(True, False), (False, True), (True, True)], ids=str
)
def test_angles_and_ratios_are_those_of_the_cluster(use_angle: bool, use_scale: bool) -> None:
    n_checked = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        case = Case.draw(rng, ("",), turned=True)
        rules = Composites(use_angle=use_angle, use_scale=use_scale, height=1 + seed % 2, **WIDE)
        for c in range(case.n_classes):
            try:
                expected = case.expected(rules, c)
            except (TooCloseError, oracle.TooManyError):
                continue
            assert_same_composites(case.propose(rules, [c]).new, expected)
            n_checked += len(expected)
    assert n_checked > 300


def test_angles_are_circular() -> None:
    images: list[list[tuple[float, ...]]] = [
        [(0, 0, 0, 1, 10), (1, 10, 0, 2, 0)],  # -10 degrees
        [(0, 0, 0, 1, 355), (1, 0, 11, 2, 5)],  # 10, or -350
        [(0, 0, 0, 1, 100), (1, 40, 0, 4, 290)],  # 190
        [(0, 0, 0, 1, 300), (1, 0, 41, 4, 110)],  # 170, or -190
    ]
    case = Case.of(images)
    rules = Composites(clustering=CompleteLinkage(levels=1), use_angle=True, use_scale=True)
    proposed = case.propose(rules)
    near, far = (one for one in proposed.new if isinstance(one, Composite))
    assert (near.mean, far.mean) == (10.5, 40.5)
    assert (near.ratio, far.ratio) == (1.0, 2.0)
    assert near.turn == pytest.approx(0.0, abs=1e-9)
    assert abs(far.turn or 0.0) == pytest.approx(180.0)
    # To second order that of two angles, each ten degrees from the mean.
    expected = math.degrees(math.sqrt(-2.0 * math.log(math.cos(math.radians(10.0)))))
    assert near.turn_deviation == pytest.approx(expected)
    assert far.turn_deviation == pytest.approx(expected)
    assert expected == pytest.approx(10.0, abs=0.1)
    assert [list(new_of(proposed, row)) for row in range(4)] == [[near], [near], [far], [far]]


@dataclass(frozen=True)
class Twos:
    """Every two numbers are a cluster."""

    def cluster(self, begin: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.concatenate([np.arange(n) // 2 for n in np.diff(begin)])[:, None]


@pytest.mark.parametrize(
    ("use_angle", "use_scale", "n"),
    [(False, False, 1), (True, False, 3), (False, True, 2), (True, True, 4)],
)
def test_another_angle_or_scale_makes_another_composite(
    use_angle: bool, use_scale: bool, n: int
) -> None:
    # Of the first part, the angle; of the second, angle and scale. Half a turn has no side.
    near = [(0, 0, 1), (0, 90, 1), (0, 0, 4), (0, 180, 1), (180, 0, 1)]
    images: list[list[tuple[float, ...]]] = [
        [(0, 0, 0, 1, turn), (1, 20, 0, scale, other), (1, 0, 20, scale, other)]
        for turn, other, scale in near
    ]
    images.append([(0, 0, 0, 1, 0), (1, 50, 0, 1, 0), (1, 0, 50, 1, 0)])
    rules = Composites(clustering=Twos(), use_angle=use_angle, use_scale=use_scale)
    proposed = [one for one in Case.of(images).propose(rules).new if one.parts == (0, 1)]
    means = [one.mean for one in proposed if isinstance(one, Composite)]
    assert sorted(means) == [20.0] * n + [50.0]


def test_equal_distances_make_one_composite_however_they_are_rounded() -> None:
    # The mean of three equal numbers is not always that number.
    images: list[list[tuple[float, ...]]] = [
        [(0, x, 0), (1, x + apart, 1)] for x, apart in itertools.product(range(11), (2, 20))
    ]
    proposed = Case.of(images).propose(Composites(clustering=CompleteLinkage())).new
    means = [one.mean for one in proposed if isinstance(one, Composite)]
    assert means == [pytest.approx(math.sqrt(5)), pytest.approx(math.sqrt(401))]


@pytest.mark.parametrize(("deviation", "n"), [(1.0, 2), (1.01, 0), (0.5, 2)])
def test_distances_must_spread(deviation: float, n: int) -> None:
    case = Case.of([[(0, 1, 1), (1, 11 + 4 * (i % 2), 1)] for i in range(4)])
    rules = Composites(deviation=deviation, clustering=CompleteLinkage())
    assert len(case.propose(rules).new) == n


def test_the_share_of_images_that_must_show_both_is_not_rounded_up() -> None:
    # In floating point, 0.28 times 25 is more than 7.
    images: list[list[tuple[float, ...]]] = [
        [(0, 1, 1), (1, 1, 5 + 8 * (i % 4))] if i < 7 else [(0, 1, 1)] for i in range(25)
    ]
    case = Case.of(images)
    assert len(case.propose(Composites(support=0.28)).new) > 0
    assert len(case.propose(Composites(support=0.29)).new) == 0


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(seed=seeds)
def test_known_features_come_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = Case.draw(rng, ("",) if seed % 2 else ("left", "right"))
    everything = np.ones(case.n_classes, np.bool_)
    apart, together = (Composites(together=flag, grid=1) for flag in (False, True))

    def attempts(rules: Composites) -> list[Proposal]:
        composer, proposals = rules.start(), list[Proposal]()
        while True:
            one = propose(composer, case.index, case.classes, everything, len(proposals))
            if one is None:
                return proposals
            proposals.append(one)

    known, new = attempts(apart)
    assert_same_proposal(known, Proposal(case.index.incidence, ()))
    (both,) = attempts(together)
    assert list(both.new) == list(new.new)
    assert known.n_known == new.n_known == both.n_known == len(case.graph)
    for row in range(len(case.classes)):
        rows = [one.incidence.row(row).tolist() for one in (known, new, both)]
        assert rows[0] + rows[1] == rows[2]
        assert rows[2] == sorted(set(rows[2]))


# What percepts are said to exhibit ---------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(seed=seeds)
def test_percepts_exhibit_what_is_found_on_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    turned = bool(rng.random() < 0.5)
    case = Case.draw(rng, ("",) if rng.random() < 0.5 else ("left", "right"), turned, most=10)
    rules = Composites(
        use_angle=turned and bool(rng.random() < 0.7), use_scale=bool(rng.random() < 0.5),
        grid=int(rng.integers(0, 4)), pairs=int(rng.choice([0, 3, 100])),
        together=bool(rng.random() < 0.5), height=int(rng.integers(1, 5)),
        support=float(rng.choice([0.0, 0.5])), deviation=float(rng.choice([0.1, 1.0])),
        likelihood=float(rng.uniform(0.05, 0.95)), images=int(rng.choice([2, 100])),
    )  # fmt: skip
    wanted = np.flatnonzero(rng.random(case.n_classes) < 0.8).tolist()
    proposed = case.propose(rules, wanted)
    assert_same_proposal(case.propose(rules, wanted, threads=2), proposed)
    n_proposed = 0
    for c in range(case.n_classes):
        one = case.propose(rules, [c])
        n_proposed += len(one.new) * (c in wanted)
        found, numbers = case.index.add(one.new)
        for row, visual_class in enumerate(case.classes):
            if visual_class == c:
                exhibited = set(found.incidence.row(row).tolist())
                true = Counter(f for f, n in zip(one.new, numbers, strict=True) if n in exhibited)
                assert new_of(one, row) == true
                assert new_of(proposed, row) == (true if c in wanted else Counter())
            else:
                assert not new_of(one, row)
    assert len(proposed.new) == n_proposed


def test_new_features_can_be_asked_for_in_any_order() -> None:
    case = Case.draw(np.random.default_rng(0), ("left", "right"))
    new = case.propose(Composites(grid=1)).new
    listed = list(new)
    assert len(listed) == len(new) > 2
    assert [new[n] for n in reversed(range(len(new)))] == listed[::-1]
    assert [new[n - len(new)] for n in range(len(new))] == listed
    for number in (len(new), -len(new) - 1):
        with pytest.raises(IndexError):
            new[number]
    nothing = case.propose(Composites(), []).new
    assert list(nothing) == []
    with pytest.raises(IndexError):
        nothing[-1]


# Limits ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """Clusters as usual, and writes down the distances of each pair that it was given."""

    given: list[list[list[float]]] = field(default_factory=list)

    @property
    def lengths(self) -> list[list[int]]:
        return [[len(distances) for distances in pairs] for pairs in self.given]

    def cluster(self, begin: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.int64]:
        pairs = itertools.pairwise(begin.tolist())
        self.given.append([values[first:last].tolist() for first, last in pairs])
        return CompleteLinkage().cluster(begin, values)


def crowded(seed: int, n_images: int = 6, n_symbols: int = 5, most: int = 4) -> Case:
    """Draw images that show many symbols, some of them more often than others."""
    rng = np.random.default_rng(seed)
    images: list[list[tuple[float, ...]]] = []
    for _ in range(n_images):
        n_each = rng.integers(0, most + 1, n_symbols)
        n_each[0] = max(n_each[0], 1)
        symbols = np.repeat(np.arange(n_symbols), n_each)
        xy = rng.uniform(0.0, 64.0, (len(symbols), 2)).astype(np.float32).tolist()
        images.append([(int(s), *at) for s, at in zip(symbols, xy, strict=True)])
    return Case.of(images)


def capped(rules: Composites, **caps: Any) -> Composites:
    return dataclasses.replace(rules, **caps)


WIDELY = Composites(clustering=CompleteLinkage(), support=0.3, height=1, **WIDE)


@pytest.mark.parametrize("most", [2, 3, 5])
def test_some_images_are_searched(most: int) -> None:
    for seed in range(6):
        case = crowded(seed)
        rules = capped(WIDELY, images=most)
        new = case.propose(rules).new
        found = [one for one in new if isinstance(one, Composite)]
        assert len(found) == len(new)
        (camera,) = case.scene.cameras
        some = [
            oracle.generator(case.graph.features, images, rules, alone(rules))
            for images in itertools.combinations(case.shown(0, camera), most)
        ]
        assert any(
            len(one) == len(found) and all(any(oracle.is_same(o, e) for o in found) for e in one)
            for one in some
        )


@pytest.mark.parametrize("most", [2, 3, 4])
def test_the_most_frequent_features_are_paired(most: int) -> None:
    for seed in range(6):
        case = crowded(seed)
        frequent = oracle.features(case.graph.features, case.shown(0, ""), WIDELY)[:most]
        expected = [one for one in case.expected(WIDELY, 0) if {*one.parts} <= {*frequent}]
        assert_same_composites(case.propose(capped(WIDELY, features=most)).new, expected)


@pytest.mark.parametrize("most", [0, 1, 2, 5])
def test_the_most_frequent_pairs_are_clustered(most: int) -> None:
    for seed in range(6):
        case = crowded(seed)
        images = case.shown(0, "")
        O = {  # noqa: E741
            v: [oracle.occurrences(case.graph.features, v, s) for s in images]
            for v in range(len(case.graph))
        }
        count = {
            (v, w): oracle.together(O[v], O[w], v == w)
            for v, w in oracle.pairs(case.graph.features, images, WIDELY)
        }
        proposed = case.propose(capped(WIDELY, pairs=most)).new
        taken = {one.parts for one in proposed}
        best = sorted(count.values(), reverse=True)
        assert sorted((count[one] for one in taken), reverse=True) == best[:most]  # type: ignore[index]
        expected = [one for one in case.expected(WIDELY, 0) if one.parts in taken]
        assert_same_composites(proposed, expected)


@pytest.mark.parametrize("most", [2, 3, 8])
def test_no_more_distances_and_pairs_are_clustered_than_allowed(most: int) -> None:
    for seed in range(6):
        case = crowded(seed)
        counted = Counted()
        proposed = case.propose(dataclasses.replace(WIDELY, clustering=counted, distances=most))
        (lengths,) = counted.lengths
        assert len(lengths) > 5
        assert max(lengths) == most
        at_most = sum(most // 2 for _ in range(CompleteLinkage().levels))
        assert all(n <= at_most for n in Counter(one.parts for one in proposed.new).values())


@pytest.mark.parametrize("most", [4, 10, 33])
def test_every_image_has_its_share_of_the_distances(most: int) -> None:
    for seed in range(6):
        case, counted = crowded(seed, n_symbols=2, most=9), Counted()
        case.propose(dataclasses.replace(WIDELY, clustering=counted, distances=most))
        images = case.shown(0, "")
        (given,) = counted.given
        expected = oracle.pairs(case.graph.features, images, WIDELY).keys()
        assert len(given) == len(expected) == 3
        n_checked = 0
        for v, w in expected:
            measured = [
                {
                    oracle.apart(one, other)
                    for i, one in enumerate(oracle.occurrences(case.graph.features, v, s))
                    for j, other in enumerate(oracle.occurrences(case.graph.features, w, s))
                    if v != w or i < j
                }
                for s in images
            ]
            total = sum(map(len, measured))
            (ours,) = (one for one in given if {*one} <= set.union(*measured))
            assert len(set(ours)) == len(ours) == min(total, most)
            for distances in measured:
                share = len(ours) * len(distances) / total
                assert math.floor(share) <= len(distances & {*ours}) <= math.ceil(share)
                n_checked += 0 < share < len(distances)
        assert n_checked > 0


@pytest.mark.parametrize("most", [1, 2, 7, 50])
def test_the_number_of_candidates_is_limited(most: int) -> None:
    for seed in range(4):
        case = Case.draw(np.random.default_rng(seed), ("left", "right"), most=8)
        rules = Composites(support=0.0, grid=2, **WIDE)
        cut = capped(rules, candidates=most)
        for c in range(case.n_classes):
            everything, some = case.propose(rules, [c]), case.propose(cut, [c])
            expected = []
            for camera, kind in itertools.product(case.scene.cameras, (Composite, InCell)):
                ours = [one for one in everything.new if isinstance(one, kind)]
                ours = [one for one in ours if case.graph.camera[one.parts[0]] == camera]
                expected += ours[:most]
            assert list(some.new) == expected
            for row in range(len(case.classes)):
                kept = new_of(everything, row).keys() & {*expected}
                assert new_of(some, row) == Counter(kept)


SAID = {
    "images": "1 classes have more images than are searched; see the option images.",
    "features": "1 classes have more features than are paired; see the option features.",
    "pairs": "1 classes have more pairs of features than are compared; see the option pairs.",
    "distances": (
        "1 pairs of features have more distances than are clustered; see the option distances."
    ),
    "candidates": "1 classes have more new candidates than are tried; see the option candidates.",
}


@pytest.mark.parametrize("name", list(SAID))
@pytest.mark.parametrize("threads", [1, 2])
def test_the_log_says_which_limit_was_exceeded(
    name: str, threads: int, caplog: pytest.LogCaptureFixture
) -> None:
    for seed in range(4):
        case = crowded(seed)
        images = case.shown(0, "")
        relations = oracle.pairs(case.graph.features, images, WIDELY)
        *_, least, most = sorted(map(len, relations.values()))
        assert least < most
        there_are = {
            "images": len(images),
            "features": len(oracle.features(case.graph.features, images, WIDELY)),
            "pairs": len(relations),
            "distances": most,
            "candidates": len(case.expected(WIDELY, 0)),
        }
        with caplog.at_level(logging.INFO, "rlvc.learning.generation.composites"):
            case.propose(WIDELY, threads=threads)
            case.propose(capped(WIDELY, **there_are), threads=threads)
            assert caplog.messages == []
            case.propose(capped(WIDELY, **{name: there_are[name] - 1}), threads=threads)
        assert caplog.messages == [SAID[name]]
        assert {record.name for record in caplog.records} == {"rlvc.learning.generation.composites"}
        caplog.clear()


def test_the_log_counts_cells_as_candidates(caplog: pytest.LogCaptureFixture) -> None:
    case = crowded(0)
    with caplog.at_level(logging.INFO, "rlvc.learning.generation.composites"):
        n_cells = len(case.propose(Composites(grid=1, pairs=0)).new)
        case.propose(Composites(grid=1, pairs=0, candidates=n_cells))
        assert caplog.messages == []
        case.propose(Composites(grid=1, pairs=0, candidates=n_cells - 1))
    assert caplog.messages == [SAID["candidates"]]


def test_pairs_that_stay_as_far_apart_are_not_searched_without_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Sixteen symbols stand still, on all images: 120 pairs. Two more move, on most of them.
    still = [(symbol, 3.0 * symbol, 7.0 * (symbol % 3)) for symbol in range(16)]
    moving = [[(20, 1.0, 60.0), (21, 1.0 + 15.0 * i, 60.0)] for i in range(4)]
    case = Case.of([[*still, *(moving[i] if i < 4 else [])] for i in range(5)])
    with caplog.at_level(logging.INFO, "rlvc.learning.generation.composites"):
        found = case.propose(Composites(pairs=50)).new
        assert (20, 21) in {one.parts for one in found}
        assert caplog.messages == []
        for most in (1, 120 // TRIES):
            assert not case.propose(Composites(pairs=most)).new
            assert caplog.messages == [SAID["pairs"]]
            caplog.clear()


@pytest.mark.parametrize("caps", [{"images": 3}, {"pairs": 2}], ids=["images", "pairs"])
def test_the_same_seed_gives_the_same_candidates_and_another_may_not(caps: dict[str, int]) -> None:
    rules = capped(WIDELY, **caps)
    proposals = set()
    for seed in range(8):
        case, again = crowded(1), crowded(1)
        one, other = case.propose(capped(rules, seed=seed)), again.propose(capped(rules, seed=seed))
        assert_same_proposal(one, other)
        assert len(one.new) > 0
        proposals.add(frozenset(one.new))
    assert len(proposals) > 1
    assert len(crowded(1).propose(capped(rules, seed=10**30)).new) > 0


def test_large_limits_take_no_memory() -> None:
    case = crowded(2)
    huge = dict.fromkeys(WIDE, 10**15)
    assert_same_proposal(case.propose(capped(WIDELY, **huge)), case.propose(WIDELY))


# What is kept between stages ---------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(seed=seeds)
def test_a_run_proposes_what_a_fresh_start_would(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cameras = ("",) if rng.random() < 0.5 else ("left", "right")
    case = Case.draw(rng, cameras)
    caps: dict[str, Any] = {"images": 3, "features": 3, "pairs": 2, "distances": 5}
    rules = Composites(
        support=0.0, grid=int(rng.integers(0, 2)), together=bool(rng.random() < 0.3),
        height=int(rng.integers(1, 4)), **(caps if rng.random() < 0.5 else {}),
    )  # fmt: skip
    run = rules.start()
    trail = [case.classes]
    for _ in range(12):
        step, classes = rng.random(), trail[-1].copy()
        if step < 0.4:  # split a class
            ours = np.flatnonzero(classes == rng.choice(classes))
            classes[ours[rng.random(len(ours)) < 0.5]] = classes.max() + 1
        elif step < 0.6:  # go back
            classes = trail[int(rng.integers(len(trail)))]
        elif step < 0.75:  # other numbers for the same classes
            classes = rng.permutation(classes.max() + 1)[classes]
        elif step < 0.9:  # features that may be parts, or not
            new = list(case.propose(rules).new)
            if new:
                chosen = [new[int(n)] for n in rng.integers(0, len(new), 2)]
                case = dataclasses.replace(case, index=case.index.add(chosen)[0])
        elif rng.random() < 0.5:  # the same percepts, extracted again
            case = dataclasses.replace(case, index=case.scene.see(case.graph))
        else:  # others
            other = Case.draw(rng, cameras)
            case = dataclasses.replace(other, index=other.scene.see(case.graph))
            classes, trail = case.classes, []
        classes = np.unique(classes, return_inverse=True)[1]
        case = dataclasses.replace(case, classes=classes)
        trail.append(classes)
        wanted = np.flatnonzero(rng.random(case.n_classes) < 0.7).tolist()
        for _ in range(int(rng.integers(1, 3))):
            kept = case.propose(rules, wanted, int(rng.integers(1, 3)), run)
            assert_same_proposal(kept, case.propose(rules, wanted))


def test_what_did_not_change_is_not_composed_again() -> None:
    counted = Counted()
    rules = dataclasses.replace(WIDELY, clustering=counted)
    case, run = crowded(3, n_images=9), rules.start()

    def n_pairs(classes: list[int], wanted: list[int]) -> int:
        counted.given.clear()
        now = dataclasses.replace(case, classes=np.array(classes))
        now.propose(rules, wanted, composer=run)
        return sum(map(len, counted.lengths))

    whole = n_pairs([0] * 9, [0])
    assert whole > 5
    assert n_pairs([0] * 9, [0]) == 0
    assert n_pairs([0] * 5 + [1] * 4, [0]) > 0
    assert n_pairs([0] * 5 + [1] * 4, [0]) == 0
    assert n_pairs([0] * 5 + [1] * 4, [0, 1]) > 0
    assert n_pairs([1] * 5 + [0] * 4, [0, 1]) == 0
    assert n_pairs([1] * 5 + [0] * 2 + [2] * 2, [1]) == 0
    # A composite that may not be a part changes nothing; one that may does.
    composite = next(iter(case.propose(WIDELY).new))
    case = dataclasses.replace(case, index=case.index.add([composite])[0])
    assert n_pairs([1] * 5 + [0] * 2 + [2] * 2, [1]) == 0
    high = dataclasses.replace(rules, height=2)
    case, run, rules = crowded(3, n_images=9), high.start(), high
    low = n_pairs([0] * 9, [0])
    case = dataclasses.replace(case, index=case.index.add([composite])[0])
    assert n_pairs([0] * 9, [0]) > low == whole


# Input that is poor ------------------------------------------------------------------------------

EVERYTHING = Composites(together=False, support=0.0, grid=2, use_scale=True)


@pytest.mark.parametrize(
    "images",
    [
        [[(0, 1, 1), (0, 9, 9), (1, 5, 30)]],
        [[], [], []],
        [[(0, 1, 1)], [(0, 1, 1)]],
        [[(0, 1, 1), (1, 20, 20)]] * 5,
        [[(0, 1, 1), (1, 20, 20)], [(0, 1, 1)], [(1, 50, 50)]],
    ],
    ids=["one percept", "nothing to see", "one point", "all alike", "never together twice"],
)
def test_there_may_be_nothing_to_pair(images: list[list[tuple[float, ...]]]) -> None:
    case = Case.of(images)
    for threads in (1, 2):
        for rules in (EVERYTHING, capped(EVERYTHING, grid=0)):
            proposed = case.propose(rules, threads=threads)
            assert not any(isinstance(one, Composite) for one in proposed.new)
            assert proposed.incidence.n_percepts == len(images)
            assert proposed.n_known == len(case.graph)


def test_classes_may_be_of_one_percept_or_of_none() -> None:
    images: list[list[tuple[float, ...]]] = [[(0, 1, 1), (1, 1, 1 + 12 * i)] for i in range(4)]
    case = Case.of([*images, [], [], images[0]], [1, 1, 1, 1, 3, 3, 5])
    composer = EVERYTHING.start()
    for n_classes in (6, 8):  # the last are numbers of no percept
        is_aliased = np.ones(n_classes, np.bool_)
        for threads in (1, 2, 3):
            proposed = propose(composer, case.index, case.classes, is_aliased, 1, threads)
            assert proposed is not None
            assert_same_proposal(proposed, case.propose(EVERYTHING, [1]))
            assert len(proposed.new) > 2
    nobody = np.array([True, False, True, False, True, False, True])
    proposed = propose(EVERYTHING.start(), case.index, case.classes, nobody, 1)
    assert proposed is not None
    assert len(proposed.new) == 0


def test_a_part_may_be_missing_on_some_images() -> None:
    images: list[list[tuple[float, ...]]] = [
        [(0, 1, 1), (1, 1, 11)], [(0, 1, 1), (1, 1, 31)], [(0, 1, 1)], [(1, 1, 1)], [],
        [(0, 1, 1), (1, 1, 12), (1, 1, 32)],
    ]  # fmt: skip
    case = Case.of(images)
    proposed = case.propose(Composites(clustering=CompleteLinkage(levels=1), support=0.5))
    near, far = (one for one in proposed.new if isinstance(one, Composite))
    assert (near.mean, far.mean) == (10.5, 30.5)
    shown = [set(new_of(proposed, row)) for row in range(6)]
    assert shown == [{near}, {far}, set(), set(), set(), {near, far}]
    assert not case.propose(Composites(support=0.51)).new


def test_points_may_coincide() -> None:
    images: list[list[tuple[float, ...]]] = [
        [(0, 5, 5), (0, 5, 5), (1, 5, 5)], [(0, 5, 5), (0, 5, 5), (1, 5, 5)],
        [(0, 5, 5), (0, 5, 25), (1, 45, 5)],
    ]  # fmt: skip
    case = Case.of(images)
    for deviation in (1e-6, 1.0):
        rules = Composites(clustering=CompleteLinkage(), deviation=deviation, **WIDE)
        proposed = case.propose(rules)
        assert_same_composites(proposed.new, case.expected(rules, 0))
        heaps = [one for one in proposed.new if isinstance(one, Composite) and one.mean == 0.0]
        assert {one.parts for one in heaps} == {(0, 0), (0, 1)}
        assert {one.deviation for one in heaps} == {deviation}


def test_what_all_percepts_show_in_the_same_way_is_no_candidate() -> None:
    case = Case.draw(np.random.default_rng(1), ("left", "right"))
    scene = Scene(case.scene.views, case.scene.table[:1])
    alike = Case(scene, scene.see(case.graph), np.zeros(1, np.int64))
    proposed = alike.propose(EVERYTHING)
    assert len(proposed.new) == 0
    assert proposed.incidence.indptr.tolist() == [0, 0]


@pytest.mark.parametrize("n_symbols", [1, 2, 8])
def test_thousands_of_points_do_not_take_long(n_symbols: int) -> None:
    rng = np.random.default_rng(0)
    images: list[list[tuple[float, ...]]] = []
    for _ in range(2):
        xy = rng.uniform(0.0, 640.0, (3000, 2)).astype(np.float32).tolist()
        symbols = rng.integers(0, n_symbols, 3000)
        images.append([(int(s), *at) for s, at in zip(symbols, xy, strict=True)])
    case = Case.of(images, size=(640, 640))
    counted = Counted()
    rules = dataclasses.replace(EVERYTHING, clustering=counted, height=1)
    proposed = case.propose(rules)
    composites = [one for one in proposed.new if isinstance(one, Composite)]
    assert composites
    (lengths,) = counted.lengths
    assert len(lengths) <= rules.pairs
    assert max(lengths) <= rules.distances
    found, numbers = case.index.add(composites)
    for row in range(2):
        exhibited = set(found.incidence.row(row).tolist())
        true = {one for one, n in zip(composites, numbers, strict=True) if n in exhibited}
        assert {one for one in new_of(proposed, row) if isinstance(one, Composite)} == true


def test_angles_need_a_detector_that_gives_them() -> None:
    case = crowded(0)
    rules = Composites(together=False, use_angle=True)
    composer = rules.start()
    everything = np.ones(1, np.bool_)
    assert propose(composer, case.index, case.classes, everything, 0) is not None
    with pytest.raises(ValueError, match="use_angle of Composites needs a detector"):
        propose(composer, case.index, case.classes, everything, 1)
    with pytest.raises(ValueError, match="sift or orb"):
        RLVC(detector=Harris(), generator=rules, threads=1).learn(
            act([one.picture for one in DRAWN], RIGHT)
        )


# What is learned ---------------------------------------------------------------------------------

DRAWN = draw_all(7, 6)
RIGHT = [one.right for one in DRAWN]
PICTURES = np.stack([one.picture for one in DRAWN])


def learn(rules: Composites, **parts: Any) -> Policy:
    return RLVC(generator=rules, threads=1, **parts).learn(act(list(PICTURES), RIGHT))


def test_known_and_new_features_may_be_tried_together() -> None:
    policy = learn(Composites(together=True))
    assert policy.predict(PICTURES)[0].tolist() == RIGHT
    assert any(isinstance(one, Composite) for one in policy.features)


@pytest.mark.parametrize(
    ("use_angle", "use_scale"), [(True, False), (False, True), (True, True)], ids=str
)
def test_angles_and_scales_are_learned_and_kept(
    use_angle: bool, use_scale: bool, tmp_path: Path
) -> None:
    # A mark has points of four orientations, so that there are many distances on every image.
    policy = learn(Composites(use_angle=use_angle, use_scale=use_scale), detector=Sift())
    composites = [one for one in policy.features if isinstance(one, Composite)]
    assert composites
    for one in composites:
        assert (one.turn is not None) == (one.turn_deviation is not None) == use_angle
        assert (one.ratio is not None) == (one.ratio_deviation is not None) == use_scale
    assert policy.predict(PICTURES)[0].tolist() == RIGHT
    policy.save(tmp_path / "policy")
    loaded = Policy.load(tmp_path / "policy")
    assert loaded.features == policy.features
    assert loaded.predict(PICTURES)[0].tolist() == RIGHT


# Custom clusterings ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wrong:
    """A clustering that does not do as it should."""

    kind: str

    def cluster(self, begin: NDArray[np.int64], values: NDArray[np.float64]) -> Any:
        n = len(values)
        return {
            "short": np.zeros((max(n - 1, 0), 1), np.int64),
            "flat": np.zeros(n, np.int64),
            "high": np.full((n, 1), n, np.int64),
            "low": np.full((n, 1), -2, np.int64),
            "real": np.zeros((n, 1)),
            "list": [[0]] * n,
        }[self.kind]


@pytest.mark.parametrize("kind", ["short", "flat", "high", "low", "real", "list"])
def test_labels_that_are_unsafe_for_compiled_code_are_refused(kind: str) -> None:
    views = [
        oracle.View(200, 50, [(0, oracle.Point(0, 0, 1, 0)), (1, oracle.Point(20.0 * i, 0, 1, 0))])
        for i in range(6)
    ]
    graph = FeatureGraph((Primitive("", 0), Primitive("", 1)))
    index = Scene({"": views}, [(i,) for i in range(6)]).see(graph)
    state = Composites(clustering=Wrong(kind), together=False).start()
    with pytest.raises(ValueError, match=r"^Wrong\.cluster must return an array of int64 of shape"):
        propose(state, index, np.zeros(6, np.int64), np.array([True]), 1)


@pytest.mark.parametrize(
    ("clustering", "message"),
    [
        (
            Tails,
            r"got <class 'rlvc\.learning\.generation\.clustering\.Tails'>\. Write Tails\(\)\.$",
        ),
        (
            "tails",
            r"^clustering of Composites must be an object with a method cluster; got 'tails'",
        ),
    ],
)
def test_what_is_no_clustering_is_refused_at_once(clustering: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Composites(clustering=clustering)
