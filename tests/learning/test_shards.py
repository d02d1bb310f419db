"""A database in shards: the policy is that of a single shard, bit for bit."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlvc import RLVC, Database, Interactions, collect
from rlvc._core.arrays import Bools
from rlvc._core.fixed_point import Scale
from rlvc.classifiers import Tree
from rlvc.distributed.partition import split
from rlvc.features import Composite, FeatureGraph, FeatureIndex, InCell
from rlvc.learning import Compaction, Surrogates, View
from rlvc.learning.generation.base import Candidates, Canonical, GeneratorState
from rlvc.learning.generation.composites import Composites
from rlvc.learning.generation.sampling import ImageQuery
from rlvc.learning.selection.selector import Selector
from rlvc.learning.shard import KnownFeatures, Shard, ViewSpec
from rlvc.learning.solvers.base import solvers
from rlvc.policies.io import describe_policy


@dataclass
class SeveralShards:
    """Asks several shards in this process; some are lost and made again, as on a cluster."""

    whole: Shard
    n_shards: int
    lose: int = 0  # number of answers after which a shard forgets its caches; 0 for never
    shard: Shard | None = None
    asked: int = 0

    def __post_init__(self) -> None:
        self.shards = list(split(self.whole, self.n_shards))

    @property
    def n_base(self) -> int:
        return len(self.whole.base.graph)

    def ask(self, question: Any, *args: Any, **kwargs: Any) -> list[Any]:
        answers = []
        for number in range(self.n_shards):
            self.asked += 1
            if self.lose and self.asked % self.lose == 0:
                self.shards[number] = copy(self.shards[number])
            answers.append(question(self.shards[number], *args, **kwargs))
        return answers

    def gather(self) -> Shard:
        return self.whole


def spread(database: Database, n_shards: int, lose: int = 0) -> Database:
    return replace(database, client=SeveralShards(database.client.gather(), n_shards, lose))


def extract(env_id: str, n: int, learner: RLVC, seed: int = 0) -> Database:
    env = gymnasium.make(env_id, disable_env_checker=True)
    return learner.extract(collect(env, n, seed=seed))


def same(one: Any, other: Any) -> None:
    (manifest, arrays), (told, found) = describe_policy(one), describe_policy(other)
    assert manifest == told
    assert arrays.keys() == found.keys()
    for name, array in arrays.items():
        assert array.dtype == found[name].dtype
        assert array.tobytes() == found[name].tobytes(), name


LEARNERS = {
    "default": RLVC(max_stages=12),
    "canonical": RLVC(generator=Canonical(), max_stages=15, absorbing_self_loops=False),
    "grid": RLVC(generator=Composites(grid=2), max_stages=5),
    "high": RLVC(generator=Composites(height=2, together=False), max_stages=8, max_splits=0),
    "alone": RLVC(surrogates=Surrogates(features=1), max_stages=6),
    "compact": RLVC(post_process=Compaction(every=3), max_stages=10),
    "welch": RLVC(selector=Selector(test="welch", min_samples=3), max_stages=6),
    "sarsa": RLVC(solver=solvers.make("sarsa", sweeps=3), generator=Canonical(), max_stages=4),
}


@pytest.fixture(scope="module")
def maze() -> Database:
    return extract("rlvc/Maze-v0", 600, RLVC())


@pytest.fixture(scope="module")
def hill() -> Database:
    return extract("rlvc/Hill-v0", 500, RLVC(gamma=0.75))


def walk(seed: int) -> Database:
    """A walk along a few places, where moves often fail: all parts have most percepts."""
    rng = np.random.default_rng(seed)
    whole = np.repeat(np.repeat(rng.integers(0, 256, (8, 50, 3), np.uint8), 8, 0), 8, 1)
    shots = [np.ascontiguousarray(whole[:, 10 * i : 10 * i + 64]) for i in range(30)]
    n, at = 500, [15]
    action, fails = rng.integers(0, 2, n), rng.random(n) < 0.4
    for one, is_no_move in zip(action, fails, strict=True):
        at.append(min(max(at[-1] + (0 if is_no_move else 2 * int(one) - 1), 0), 29))
    start, end = np.asarray(at[:-1]), np.asarray(at[1:])
    ends = np.arange(1, n + 1) % 20 == 0
    data = Interactions.from_arrays(
        [shots[i] for i in start], action, (end > 20) + rng.normal(0.0, 0.5, n), np.zeros(n, bool),
        ends, next_observations=[shots[i] for i in end],
    )  # fmt: skip
    return RLVC().extract(data)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["default", "grid", "compact", "welch"])
def test_shards_that_share_percepts_count_them_once(name: str, seed: int) -> None:
    learner, strip = LEARNERS[name], walk(seed)
    stages = list(learner.stages(strip))
    assert stages[-1].number > 2
    parts = spread(strip, 5)
    shared = sum(len(shard.base.table) for shard in split(strip.client.gather(), 5))
    assert shared > 2 * len(strip.interactions.percepts)
    others = list(learner.stages(parts))
    assert [one.residual for one in others] == [one.residual for one in stages]
    same(stages[-1].policy(), others[-1].policy())


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_shards_give_the_policy_of_a_single_one(name: str, maze: Database) -> None:
    learner = LEARNERS[name]
    stages = list(learner.stages(maze))
    assert stages[-1].number > 2
    for shards in (1, 3):
        others = list(learner.stages(spread(maze, shards)))
        assert [one.residual for one in others] == [one.residual for one in stages]
        assert [one.n_refinable for one in others] == [one.n_refinable for one in stages]
        same(stages[-1].policy(), others[-1].policy())
        assert np.array_equal(
            stages[-1].database.classes(stages[-1].classifier),
            others[-1].database.classes(others[-1].classifier),
        )


@pytest.mark.parametrize("name", ["default", "canonical"])
def test_two_cameras_share_images_between_shards(name: str, hill: Database) -> None:
    learner = replace(LEARNERS[name], gamma=0.75)
    policy = learner.learn(hill)
    assert policy.n_classes > 5
    same(policy, learner.learn(spread(hill, 4)))


def test_several_learners_may_share_shards(maze: Database) -> None:
    parts = spread(maze, 2)
    again = replace(parts)
    for learner in (
        RLVC(max_stages=4),
        RLVC(generator=Composites(seed=1, images=8), max_stages=4, absorbing_self_loops=False),
        RLVC(generator=Composites(grid=1, likelihood=0.5), max_stages=4),
    ):
        for one in (parts, again):
            same(learner.learn(maze), learner.learn(one))


def test_shards_tell_composites_of_one_learner_from_as_many_of_another(maze: Database) -> None:
    (used,), (data,) = split(maze.client.gather(), 1), split(maze.client.gather(), 1)
    scale, n_symbols = Scale.of(maze.interactions.reward), len(maze.graph)
    often = np.argsort(-np.bincount(maze.incidence.indices), kind="stable")[:3].tolist()
    for number, second in enumerate(often[1:]):
        composite = Composite(
            first=often[0], second=second, mean=50.0, deviation=50.0, likelihood=0.2
        )
        known = KnownFeatures(maze.graph.add([composite])[0], n_symbols)
        spec = ViewSpec(number, known, Tree(), None, scale, 1)
        query = ImageQuery([0], camera=0, height=2)
        one, other = (shard.sample(spec, query).places for shard in (used, copy(data)))
        assert (other.feature == n_symbols).any()
        for name in ("begin", "feature", "marks"):
            assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)


def test_a_shard_finds_features_once(maze: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    shard, added, extend = copy(maze.client.gather()), list[int](), FeatureIndex.extend

    def count(self: FeatureIndex, graph: FeatureGraph) -> FeatureIndex:
        added.append(len(graph) - len(self.graph))
        return extend(self, graph)

    monkeypatch.setattr(FeatureIndex, "extend", count)
    some = [Composite(first=0, second=n, mean=50.0, deviation=9.0, likelihood=0.2) for n in (1, 2)]
    for n in (0, 1, 2, 1, 2, 0, 2):  # policies of earlier stages may be asked for at any time
        graph = maze.graph.add(some[:n])[0]
        index = shard.index_of(KnownFeatures(graph, len(maze.graph)))
        assert index.graph == graph
        expected = maze.client.gather().base.add(some[:n])[0]
        assert np.array_equal(index.incidence.indices, expected.incidence.indices)
    assert sum(added) == 2 + 8  # the second is what is expected
    other = shard.index_of(KnownFeatures(maze.graph.add(some[1:])[0], len(maze.graph)))
    assert other.graph.features[-1] == some[1]


def test_what_needs_all_percepts_asks_for_one_shard(maze: Database) -> None:
    learner, parts = RLVC(max_stages=2), spread(maze, 3)
    with pytest.raises(
        ValueError, match="test of Selector must be student or welch where interactions"
    ):
        replace(learner, selector=Selector(test="ks")).learn(parts)
    with pytest.raises(TypeError, match=r"in shards elsewhere, .* Choose the engine local, or"):
        replace(learner, generator=Quarters()).learn(parts)
    assert replace(learner, generator=Quarters()).learn(maze).n_classes > 1


@dataclass(frozen=True)
class Quarters:
    """The most frequent symbols, in the left half of the frame; it asks for the index."""

    def start(self) -> GeneratorState:
        return self

    def generate(self, view: View, is_aliased: Bools, attempt: int) -> Candidates | None:
        if attempt:
            return None
        often = np.argsort(-np.bincount(view.index.incidence.indices), kind="stable")[:9].tolist()
        half = [InCell(part=n, level=1, column=0, line=line) for n in often for line in (0, 1)]
        return Candidates(new=[one for one in half if one not in view.graph.numbers])


def test_a_lost_shard_is_made_again(maze: Database) -> None:
    learner = LEARNERS["default"]
    policy = learner.learn(maze)
    for lose in (2, 3, 7):
        same(policy, learner.learn(spread(maze, 2, lose)))
