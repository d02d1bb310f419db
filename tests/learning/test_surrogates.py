from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Database, Interactions
from rlvc._core.arrays import Bools
from rlvc.classifiers import Split, Tree
from rlvc.features import (
    AtLeast,
    Composite,
    Feature,
    FeatureGraph,
    FeatureIndex,
    InCell,
    Incidence,
    OccurrenceTable,
    Primitive,
)
from rlvc.learning import Surrogates
from rlvc.learning.selection.selector import Selector, SplitChoice
from rlvc.learning.surrogates import best_threshold, tally
from rlvc.learning.view import SplitStatistics
from tests.oracle import rlvc as oracle
from tests.support.builders import Problem, blind_extractor, index_of, literal, percept_store

seeds = st.integers(0, 2**32 - 1)


def index_with(dense: Bools, more: list[Feature], shown: Bools, camera: str = "") -> FeatureIndex:
    """Return the index of symbols and of some more features, which occur where one says."""
    n_percepts, n_symbols = dense.shape
    graph, numbers = FeatureGraph(tuple(Primitive(camera, n) for n in range(n_symbols))).add(more)
    assert numbers == list(range(n_symbols, n_symbols + len(more)))
    incidence = Incidence.from_dense(np.hstack([dense, shown]))
    begin = np.zeros(n_percepts + 1, np.int64)
    nowhere = OccurrenceTable(begin, np.empty(0, np.int32), np.empty((0, 4)), (1, 1))
    table = np.arange(n_percepts)[:, None]
    return FeatureIndex(graph, (camera,), (nowhere,), table, (incidence,), incidence)


def extend(
    rules: Surrogates, index: FeatureIndex, feature: int, start: NDArray[np.int64],
    delta: NDArray[np.int64], min_samples: int = 1,
) -> AtLeast | None:  # fmt: skip
    """Return what to test instead of a feature in the one class that there is."""
    n = len(start)
    data = Interactions(
        percept_store(len(index.table)), start, np.zeros(n, np.int64), delta.astype(float), start,
        np.arange(n), np.ones(n, np.bool_), np.zeros(n, np.bool_), 1,
    )  # fmt: skip
    view = Database.of(data, index, blind_extractor(0)).view(Tree())
    statistics = SplitStatistics(view, view.database, view.residuals(np.zeros((1, 1)), 0.0))
    one = np.array([feature])
    choice = SplitChoice(one, np.zeros(1, np.int64), np.zeros(1), np.ones(1, np.int64))
    (test,) = rules.extend([Split(0, feature)], choice, statistics, min_samples)
    return test


def draw(rng: np.random.Generator) -> tuple[Bools, NDArray[np.int64], NDArray[np.int64]]:
    """Draw what percepts show of features that agree more or less, and interactions."""
    n_percepts, n_features = int(rng.integers(2, 30)), int(rng.integers(1, 12))
    truth = rng.random(n_percepts) < rng.uniform(0.2, 0.8)
    wrong = rng.random((n_percepts, n_features)) < rng.uniform(0.0, 0.4, n_features)
    dense = truth[:, None] ^ wrong
    start = rng.integers(0, n_percepts, int(rng.integers(2, 60)))
    delta = 100 * truth[start] + rng.integers(-40, 41, len(start))
    return dense, start, delta


# Against the oracle ------------------------------------------------------------------------------


@pytest.mark.slow
def test_tests_are_those_of_a_literal_transcription() -> None:
    n_checked = n_several = n_alone = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        dense, start, delta = draw(rng)
        rules = Surrogates(
            features=int(rng.integers(2, 9)), agreement=float(rng.choice([0.0, 0.3, 0.5, 0.7, 0.9]))
        )
        min_samples, feature = int(rng.integers(1, 6)), int(rng.integers(dense.shape[1]))
        found = extend(
            rules, index_of(Incidence.from_dense(dense)), feature, start, delta, min_samples
        )
        shows = [set(np.flatnonzero(row).tolist()) for row in dense]
        known = oracle.Known(shows)
        known.n_symbols = dense.shape[1]
        sequence = [oracle.Interaction(s, 0, Fraction(0), s, False) for s in start.tolist()]
        fractions = [Fraction(d) for d in delta.tolist()]
        stage = oracle.Stage([0] * len(shows), {}, 1, 1, [(0, feature)], [0], fractions)
        literally = oracle.Rules(
            most_parts=rules.features, agreement=rules.agreement, min_samples=min_samples,
            close=1e-9,
        )  # fmt: skip
        try:
            expected = oracle.several(0, feature, 0, sequence, stage, known, literally)
        except oracle.TooCloseError:
            continue
        got = None if found is None else oracle.AtLeast(found.parts, found.least)
        assert got == expected
        n_checked += 1
        n_several += found is not None
        n_alone += found is None and rules.agreement < 0.5
    assert n_checked > 300
    assert n_several > 50
    assert n_alone > 20


@settings(deadline=None)
@given(seed=seeds)
def test_the_best_threshold_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, most = int(rng.integers(1, 40)), int(rng.integers(1, 8))
    shown, delta = rng.integers(0, most + 1, n), rng.integers(-9, 10, n)
    min_samples = int(rng.integers(1, 5))
    least, reduction = best_threshold(*tally(shown, delta, most), min_samples)
    rules = oracle.Rules(min_samples=min_samples, close=0.0)
    fractions = [Fraction(d) for d in delta.tolist()]
    expected, best = oracle.best_count(shown.tolist(), fractions, most, rules)
    assert reduction == pytest.approx(float(best), abs=1e-9)
    if best > 0:  # else any that leaves enough on both sides
        assert 1 <= least <= most
        again = oracle.best_count([int(s >= least) for s in shown], fractions, 1, rules)[1]
        assert float(again) == pytest.approx(float(best))
    if best < 0:
        assert (least, expected) == (1, 1)


# Properties --------------------------------------------------------------------------------------


@settings(deadline=None)
@given(seed=seeds, min_samples=st.integers(1, 6))
def test_enough_interactions_stay_on_either_side(seed: int, min_samples: int) -> None:
    rng = np.random.default_rng(seed)
    dense, start, delta = draw(rng)
    index = index_of(Incidence.from_dense(dense))
    for feature in range(dense.shape[1]):
        n_shown = int(dense[start, feature].sum())
        if not min_samples <= n_shown <= len(start) - min_samples:
            continue  # the selector would not have it
        test = extend(Surrogates(agreement=0.3), index, feature, start, delta, min_samples)
        if test is not None:
            enough = dense[start][:, list(test.parts)].sum(axis=1) >= test.least
            assert min_samples <= enough.sum() <= len(start) - min_samples


@settings(deadline=None)
@given(seed=seeds)
def test_parts_agree_and_the_best_is_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense, start, delta = draw(rng)
    rules = Surrogates(features=5, agreement=0.6)
    for feature in range(dense.shape[1]):
        test = extend(rules, index_of(Incidence.from_dense(dense)), feature, start, delta)
        if test is None:
            continue
        assert test.parts[0] == feature
        assert 2 <= len(test.parts) == len(set(test.parts)) <= 5
        assert 1 <= test.least <= len(test.parts)
        phi = [np.corrcoef(dense[:, feature], dense[:, part])[0, 1] for part in test.parts[1:]]
        assert min(phi) >= 0.6 - 1e-9
        assert phi == pytest.approx(sorted(phi, reverse=True))


def test_surrogates_can_be_turned_off() -> None:
    problem = Problem.draw(0, n_copies=3)
    selector = Selector(alpha=0.05, correction="none", min_samples=5, relevant=False)
    alone, several = (
        literal(selector=selector, surrogates=Surrogates(features=n)).learn(problem.database)
        for n in (1, 7)
    )
    assert alone.n_classes > 2
    assert all(isinstance(feature, Primitive) for feature in alone.features)
    assert any(isinstance(feature, AtLeast) for feature in several.features)


def twins(n: int) -> Interactions:
    """Return interactions in two places, of which the action must be the number."""
    place, action = np.divmod(np.arange(n) % 4, 2)
    return Interactions(
        percept_store(8), place * 4 + np.arange(n) // 4 % 4, action,
        (place == action).astype(float),
        np.zeros(n, np.int64), np.arange(n), np.ones(n, np.bool_), np.zeros(n, np.bool_), 2,
    )  # fmt: skip


@pytest.mark.parametrize("features", [1, 5])
def test_a_percept_that_misses_a_feature_goes_the_same_way(features: int) -> None:
    dense = np.zeros((8, 5), np.bool_)
    dense[4:] = True  # five features tell the second place from the first
    database = Database.of(twins(80), index_of(Incidence.from_dense(dense)), blind_extractor(5))
    stage = list(RLVC(threads=1, surrogates=Surrogates(features=features)).stages(database))[-1]
    graph, tree = stage.database.graph, stage.classifier
    (number,) = tree.features.tolist()

    def right(shown: set[int]) -> bool:
        """Tell whether a percept that shows some of the five is taken for the second place."""

        def exhibits(feature: int) -> bool:
            test = graph[feature]
            if isinstance(test, AtLeast):
                return len(shown & set(test.parts)) >= test.least
            return feature in shown

        return bool(stage.q[tree.walk(exhibits)[1]].argmax() == 1)

    assert right({0, 1, 2, 3, 4})
    assert not right(set())
    if features == 1:
        assert graph[number] == Primitive("", 0)
        assert not right({1, 2, 3, 4})  # all but one say so, in vain
    else:
        assert graph[number] == AtLeast(parts=(0, 1, 2, 3, 4), least=1)
        assert all(right({0, 1, 2, 3, 4} - {missed}) for missed in range(5))


# Features that may be surrogates -----------------------------------------------------------------

ALIKE = np.repeat([True, False], 10)[:, None]
START = np.arange(20)
DELTA = np.where(ALIKE[:, 0], 50, -50)


def test_composites_and_located_features_may_be_surrogates() -> None:
    pair = Composite(first=0, second=1, mean=9.0, deviation=1.0, likelihood=0.5)
    more: list[Feature] = [pair, InCell(part=0, level=1, column=0, line=0)]
    shown = np.hstack([ALIKE, ~ALIKE])
    both = index_with(shown, more, np.hstack([ALIKE, ALIKE]))
    assert extend(Surrogates(), both, 0, START, DELTA) == AtLeast(parts=(0, 2, 3), least=1)
    assert extend(Surrogates(), both, 3, START, DELTA) == AtLeast(parts=(3, 0, 2), least=1)


def test_at_least_features_neither_are_nor_have_surrogates() -> None:
    several = AtLeast(parts=(0, 1), least=1)
    index = index_with(np.hstack([ALIKE, ALIKE]), [several], ALIKE)
    assert extend(Surrogates(), index, 0, START, DELTA) == AtLeast(parts=(0, 1), least=1)
    assert extend(Surrogates(), index, 2, START, DELTA) is None


def test_features_of_another_camera_are_no_surrogates() -> None:
    both = np.hstack([ALIKE] * 4)
    one = index_of(Incidence.from_dense(both))
    graph = FeatureGraph(tuple(Primitive(name, n) for name in ("left", "right") for n in (0, 1)))
    two = FeatureIndex(graph, one.cameras, one.places, one.table, one.shown, one.incidence)
    assert extend(Surrogates(), one, 1, START, DELTA) == AtLeast(parts=(1, 0, 2, 3), least=1)
    assert extend(Surrogates(), two, 1, START, DELTA) == AtLeast(parts=(1, 0), least=1)
    assert extend(Surrogates(), two, 2, START, DELTA) == AtLeast(parts=(2, 3), least=1)


def test_features_that_split_worse_are_no_surrogates() -> None:
    # The second agrees with the first, but the percept on which it differs is met all the time.
    other = ALIKE.copy()
    other[0] = False
    index = index_of(Incidence.from_dense(np.hstack([ALIKE, other])))
    test = extend(Surrogates(agreement=0.7), index, 0, START, DELTA)
    assert test == AtLeast(parts=(0, 1), least=1)
    both = np.hstack([ALIKE, other, other])
    worse = np.where(other[:, 0], 50, -50)  # then the two that agree are right, not the first
    test = extend(Surrogates(), index_of(Incidence.from_dense(both)), 0, START, worse)
    assert test == AtLeast(parts=(0, 1, 2), least=2)


def test_two_cameras_are_learned_with() -> None:
    rng = np.random.default_rng(0)
    walls = rng.integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    seen, said = rng.integers(0, 2, (300, 2)), rng.integers(0, 2, 300)
    views = [{"left": walls[a], "right": walls[2 + b]} for a, b in seen]
    data = Interactions.from_arrays(
        views, said, seen.max(axis=1) == said, np.ones(300, np.bool_), next_observations=views
    )
    policy = RLVC(threads=1).learn(data)
    tests = [policy.graph[n] for n in policy.classifier.features]
    assert all(isinstance(test, AtLeast) for test in tests), tests
    cameras = {frozenset(policy.graph.camera[part] for part in test.parts) for test in tests}
    assert cameras == {frozenset(["left"]), frozenset(["right"])}
    for a, b in np.ndindex(2, 2):
        assert policy.predict({"left": walls[a], "right": walls[2 + b]})[0] == max(a, b)
