from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc import RLVC, Forest, ForestPolicy, Interactions
from rlvc.classifiers import Diagrams, Split
from rlvc.features import Primitive
from rlvc.learning import Compaction
from rlvc.learning.forest import draw_share, draw_symbols, out_of_bag_error
from rlvc.learning.forest_trees import GrownTree
from rlvc.learning.selection.selector import Selector
from tests.support.builders import (
    COLOUR,
    GREY,
    N_ACTIONS,
    N_PLACES,
    RIGHT,
    Problem,
    database,
    literal,
    pictures,
)

PLAIN = literal()

# What a tree may use -----------------------------------------------------------------------------


def test_a_part_of_the_index_keeps_all_numbers() -> None:
    extracted = RLVC(threads=1).extract(database(COLOUR))
    *_, last = RLVC(threads=1).stages(extracted)
    index = last.database.index  # with features that have parts
    assert any(one.parts for one in index.graph.features)
    kept = draw_symbols(index.graph, 0.5, np.random.default_rng(0))
    part, n_higher = index.only(kept), 0
    assert part.graph is index.graph
    assert part.table is index.table
    for number, feature in enumerate(index.graph.features):
        primitives = index.graph.primitives(number)
        there, before = part.incidence.counts([np.array([number])])[0], part.find(number)
        if all(kept[one] for one in primitives):
            assert np.array_equal(there, index.incidence.counts([np.array([number])])[0])
            for one, other in zip(before, index.find(number), strict=True):
                assert np.array_equal(one, other, equal_nan=True)
        else:
            n_higher += len(feature.parts) > 0
            assert not there.any()
            assert isinstance(feature, Primitive) <= (len(before[0]) == 0)
    assert n_higher > 0
    for less, more in zip(part.shown, index.shown, strict=True):
        assert less.indptr[-1] == len(less.indices) < len(more.indices)


def test_interactions_of_some_episodes() -> None:
    data = Problem.draw(3).interactions
    some, percepts = data.of_episodes([5, 2])
    assert np.unique(some.episode).tolist() == [2, 5]
    rows = np.flatnonzero((data.episode == 2) | (data.episode == 5))
    assert np.array_equal(some.reward, data.reward[rows])
    assert np.array_equal(some.is_last, data.is_last[rows])
    assert np.array_equal(percepts[some.start], data.start[rows])
    assert np.array_equal(percepts[some.end], data.end[rows])
    assert len(some.percepts) == len(percepts) < len(data.percepts)
    for number, percept in enumerate(some.percepts):
        assert np.array_equal(np.asarray(percept), np.asarray(data.percepts[percepts[number]]))
    assert [some.percepts.add(percept) for percept in some.percepts] == list(range(len(percepts)))
    assert np.array_equal(some.returns(0.9), data.returns(0.9)[rows])


def test_a_share_is_at_least_one_and_never_twice() -> None:
    rng = np.random.default_rng(0)
    assert draw_share(np.arange(0), 0.5, rng).tolist() == []
    assert draw_share(np.array([7]), 0.1, rng).tolist() == [7]
    assert sorted(draw_share(np.arange(9), 1.0, rng).tolist()) == list(range(9))
    assert len(set(draw_share(np.arange(100), 0.8, rng).tolist())) == 80


def test_every_camera_keeps_its_share() -> None:
    views = [{"front": COLOUR[i % 3], "rear": GREY[i // 3]} for i in range(N_PLACES)]
    graph = RLVC(threads=1).extract(database(views)).index.graph
    kept = draw_symbols(graph, 0.25, np.random.default_rng(0))
    for camera in ("front", "rear"):
        ours = np.asarray([one == camera for one in graph.camera])
        assert kept[ours].sum() == round(0.25 * ours.sum()) > 0
    least = draw_symbols(graph, 1e-6, np.random.default_rng(0))
    assert sorted(graph.camera[n] for n in np.flatnonzero(least)) == ["front", "rear"]


def test_a_tree_uses_only_its_own_symbols() -> None:
    learner = RLVC(threads=1)
    extracted = learner.extract(database(COLOUR))
    forest = Forest(learner=learner, trees=6, symbols=0.3, episodes=0.5, seed=4)
    episodes = np.unique(extracted.interactions.episode)
    drawn = []
    for number in range(forest.trees):
        rng = np.random.default_rng([4, number])
        kept = draw_symbols(extracted.index.graph, 0.3, rng)
        known = draw_share(episodes, 0.5, rng)
        one = forest.grow(extracted, number)
        primitives = [f for f in one.policy.features if isinstance(f, Primitive)]
        assert primitives
        assert all(kept[extracted.index.graph.numbers[f]] for f in primitives)
        assert np.array_equal(one.is_known, np.isin(extracted.interactions.episode, known))
        assert one.policy.count.sum() == one.is_known.sum()
        drawn.append((kept.tobytes(), known.tobytes()))
    assert len(set(drawn)) == forest.trees


def test_what_a_tree_knows_does_not_depend_on_the_other_episodes() -> None:
    learner = RLVC(threads=1)
    data = database([{"front": COLOUR[i // 2], "rear": GREY[i % 2]} for i in range(N_PLACES)])
    extracted = learner.extract(data)
    one = Forest(learner=learner, symbols=0.3, episodes=0.02).grow(extracted, 0)
    assert one.is_known.sum() == 8
    known = np.unique(data.start[one.is_known])
    assert 1 < len(known) < len(data.percepts)
    views: Any = list(data.percepts)
    batch = {name: np.stack([view[name] for view in views]) for name in ("front", "rear")}
    assert one.policy.classify(batch).tolist() == one.classes.tolist()


# How trees are learned ---------------------------------------------------------------------------


def saved(policy: ForestPolicy, path: Path) -> bytes:
    policy.save(path)
    return path.read_bytes()


def test_a_forest_learns_what_a_tree_does() -> None:
    called = []
    policy = Forest(trees=4).learn(database(COLOUR), lambda: called.append(1))
    assert len(called) == len(policy.trees) == 4
    assert policy.predict(COLOUR)[0].tolist() == RIGHT
    assert policy.n_actions == N_ACTIONS
    assert policy.out_of_bag is not None
    assert 0.0 <= policy.out_of_bag < 0.5


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    learner = RLVC(threads=1)
    extracted = learner.extract(database(COLOUR))
    one = Forest(learner=learner, trees=5, seed=2)
    alone = saved(one.learn(extracted), tmp_path / "one")
    for threads in (2, 3):
        many = replace(one, learner=replace(learner, threads=threads))
        assert saved(many.learn(extracted), tmp_path / "many") == alone
    assert saved(one.learn(database(COLOUR)), tmp_path / "again") == alone
    assert saved(replace(one, seed=3).learn(extracted), tmp_path / "other") != alone


def test_the_first_trees_do_not_depend_on_how_many_follow() -> None:
    learner = RLVC(threads=1)
    extracted = learner.extract(database(COLOUR))
    few, many = (Forest(learner=learner, trees=n).learn(extracted) for n in (2, 4))
    for one, other in zip(few.trees, many.trees, strict=False):
        assert np.array_equal(one.q, other.q)
        assert np.array_equal(one.classifier.features, other.classifier.features)


def test_the_parts_of_the_learner_are_used() -> None:
    learner = RLVC(threads=1, post_process=Compaction(every=0), gamma=0.5)
    policy = Forest(learner=learner, trees=2).learn(database(COLOUR))
    assert {type(one.classifier) for one in policy.trees} == {Diagrams}
    assert policy.gamma == 0.5
    assert policy.predict(COLOUR)[0].tolist() == RIGHT


def test_max_splits_is_that_of_the_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    refined: list[int] = []
    refine = Diagrams.refine

    def watch(self: Diagrams, splits: list[Split]) -> Diagrams:
        refined.append(len(splits))
        return refine(self, splits)

    monkeypatch.setattr(Diagrams, "refine", watch)
    learner = literal(classifier=Diagrams(), max_splits=5, selector=Selector(relevant=False))
    problem = Problem.draw(0, n=2000)
    for max_splits in (1, 0):
        refined.clear()
        for number in range(2):
            Forest(learner=learner, max_splits=max_splits).grow(problem.database, number)
        assert (max(refined) == 1) == (max_splits == 1)


# The error on what was left out ------------------------------------------------------------------


def literal_error(grown: list[GrownTree], data: Interactions, learner: RLVC) -> float | None:
    """Follow the definition, one interaction at a time."""
    gamma, gaps = learner.gamma, []

    def value(t: int, percept: int, action: int) -> float | None:
        known = [
            float(one.policy.q[one.classes[percept], action])
            for one in grown
            if not one.is_known[t] and one.policy.count[one.classes[percept], action] > 0
        ]
        return sum(known) / len(known) if known else None

    for t in range(len(data)):
        start, action, end = int(data.start[t]), int(data.action[t]), int(data.end[t])
        here, reward = value(t, start, action), float(data.reward[t])
        alike = [u for u in range(len(data)) if data.start[u] == start and data.action[u] == action]
        stuck = all(data.end[u] == start and not data.terminated[u] for u in alike)
        if here is None:
            continue
        if learner.absorbing_self_loops and stuck:
            gaps.append(reward / (1 - gamma) - here)
        elif data.terminated[t]:
            gaps.append(reward - here)
        else:
            ahead = [v for a in range(data.n_actions) if (v := value(t, end, a)) is not None]
            if ahead:
                gaps.append(reward + gamma * max(ahead) - here)
    if not gaps:
        return None
    rms = math.sqrt(sum(gap * gap for gap in gaps) / len(gaps))
    return rms / float(np.std(data.returns(gamma)))


@pytest.mark.parametrize("absorbing_self_loops", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_error_follows_its_definition(seed: int, absorbing_self_loops: bool) -> None:
    problem = Problem.draw(seed, n=90, n_percepts=12)
    learner = replace(PLAIN, absorbing_self_loops=absorbing_self_loops)
    forest = Forest(learner=learner, trees=4, episodes=0.6, seed=seed)
    grown = [forest.grow(problem.database, number) for number in range(4)]
    found = out_of_bag_error(grown, problem.interactions, learner)
    expected = literal_error(grown, problem.interactions, learner)
    assert found is not None
    assert expected is not None
    assert found == pytest.approx(expected, rel=1e-9)


def test_there_is_no_error_where_nothing_was_left_out() -> None:
    data = database(COLOUR)
    whole = replace(data, episode=np.zeros(len(data), np.int64))
    policy = Forest(trees=2).learn(whole)
    assert policy.out_of_bag is None
    assert policy.predict(COLOUR)[0].tolist() == RIGHT
    assert Forest(trees=2, episodes=1.0).learn(data).out_of_bag is None
    two, _ = data.of_episodes([0, 1])
    assert Forest(trees=2).learn(two).out_of_bag is None


def test_more_data_leaves_less_error() -> None:
    learner = RLVC(threads=1)
    extracted = learner.extract(database(COLOUR))
    blank = replace(learner, max_stages=0)
    errors = [Forest(learner=one, trees=4).learn(extracted).out_of_bag for one in (blank, learner)]
    assert errors[0] is not None
    assert errors[1] is not None
    assert errors[0] > 2 * errors[1]


# What is refused ---------------------------------------------------------------------------------


def test_bad_types_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^learner of Forest must be an RLVC; got None\.$"):
        Forest(learner=None)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError,
        match=r"^data of Forest must be Interactions, a Database or a Gymnasium environment; "
        r"got function\.$",
    ):
        Forest().learn(lambda k, policy: database(COLOUR))  # type: ignore[arg-type]


def test_a_forest_that_sees_nothing_still_acts(tmp_path: Path) -> None:
    blank = np.zeros((N_PLACES, 64, 64, 3), np.uint8)
    policy = Forest(trees=3).learn(database(blank))
    assert len(policy.graph) == 0
    assert policy.predict(pictures(9))[0].shape == (9,)
    assert saved(policy, tmp_path / "p") == saved(ForestPolicy.load(tmp_path / "p"), tmp_path / "q")
    assert policy.explain(blank[0]).decisive == ()
