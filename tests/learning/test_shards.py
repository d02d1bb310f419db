"""A database in parts: whoever has them, the policy is that of the whole, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlvc import RLVC, Database, Interactions, collect
from rlvc._core.fixed_point import Scale
from rlvc.classifiers import Tree
from rlvc.distributed.disk import read_shard, write_shards
from rlvc.features import Composite
from rlvc.learning.compaction import Compaction
from rlvc.learning.generation.base import Canonical
from rlvc.learning.generation.composites import Composites
from rlvc.learning.selection.selector import Selector
from rlvc.learning.shard import Facts, Glass, Part
from rlvc.learning.solvers.base import solvers
from rlvc.learning.spread import Spread
from rlvc.learning.surrogates import Surrogates
from rlvc.policies.io import describe_policy


@dataclass(frozen=True)
class Here:
    """A team in this process; parts that are lost are made again, as on a cluster."""

    folder: Path
    facts: Facts
    n: int
    lose: int = 0  # every so many answers, a part forgets all that it knew

    def ask(self, question: str, *more: Any) -> list[Any]:
        parts = KEPT.setdefault(str(self.folder), {})
        answers = []
        for number in range(self.n):
            COUNT[0] += 1
            if number not in parts or (self.lose and COUNT[0] % self.lose == 0):
                parts[number] = Part(read_shard(self.folder, number), self.facts, threads=2)
            answers.append(getattr(parts[number], question)(*more))
        return answers


KEPT: dict[str, dict[int, Part]] = {}
COUNT = [0]


def spread(database: Database, folder: Path, shards: int, lose: int = 0) -> Spread:
    facts = Facts.of(write_shards(database, folder, shards))
    team = Here(folder, facts, shards, lose)
    known = len(database.graph)
    return Spread(
        database.interactions, database.extractor, database.graph, team, known, lambda: database
    )


def look(env_id: str, n: int, learner: RLVC, seed: int = 0) -> Database:
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
    return look("rlvc/Maze-v0", 600, RLVC())


@pytest.fixture(scope="module")
def hill() -> Database:
    return look("rlvc/Hill-v0", 500, RLVC(gamma=0.75))


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
def test_parts_that_share_percepts_count_them_once(name: str, seed: int, tmp_path: Path) -> None:
    learner, strip = LEARNERS[name], walk(seed)
    stages = list(learner.stages(strip))
    assert stages[-1].number > 2
    parts = spread(strip, tmp_path / "parts", 5)
    shared = sum(len(read_shard(tmp_path / "parts", n).percepts) for n in range(5))
    assert shared > 2 * len(strip.interactions.percepts)
    others = list(learner.stages(parts))
    assert [one.residual for one in others] == [one.residual for one in stages]
    same(stages[-1].policy(), others[-1].policy())


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_parts_teach_what_the_whole_does(name: str, maze: Database, tmp_path: Path) -> None:
    learner = LEARNERS[name]
    stages = list(learner.stages(maze))
    assert stages[-1].number > 2
    for shards in (1, 3):
        others = list(learner.stages(spread(maze, tmp_path / str(shards), shards)))
        assert [one.residual for one in others] == [one.residual for one in stages]
        assert [one.n_refinable for one in others] == [one.n_refinable for one in stages]
        same(stages[-1].policy(), others[-1].policy())
        assert np.array_equal(
            stages[-1].database.classes(stages[-1].classifier),
            others[-1].database.classes(others[-1].classifier),
        )


@pytest.mark.parametrize("name", ["default", "canonical"])
def test_two_cameras_share_images_between_parts(name: str, hill: Database, tmp_path: Path) -> None:
    learner = replace(LEARNERS[name], gamma=0.75)
    policy = learner.learn(hill)
    assert policy.n_classes > 5
    same(policy, learner.learn(spread(hill, tmp_path / "parts", 4)))


def test_several_may_learn_from_the_same_parts(maze: Database, tmp_path: Path) -> None:
    parts = spread(maze, tmp_path / "parts", 2)
    again = replace(parts)
    for learner in (
        RLVC(max_stages=4),
        RLVC(generator=Composites(seed=1, images=8), max_stages=4, absorbing_self_loops=False),
        RLVC(generator=Composites(grid=1, likelihood=0.5), max_stages=4),
    ):
        for one in (parts, again):
            same(learner.learn(maze), learner.learn(one))


def test_parts_tell_composites_of_one_learner_from_as_many_of_another(
    maze: Database, tmp_path: Path
) -> None:
    facts = Facts.of(write_shards(maze, tmp_path / "parts", 1))
    data = read_shard(tmp_path / "parts", 0)
    used, scale = Part(data, facts), Scale.of(data.reward)
    often = np.argsort(-np.bincount(maze.incidence.indices), kind="stable")[:3].tolist()
    for number, second in enumerate(often[1:]):
        composite = Composite(
            first=often[0], second=second, mean=50.0, deviation=50.0, likelihood=0.2
        )
        glass = Glass(number, (composite,), Tree(), None, scale)
        one, other = (
            part.sample(glass, [0], 0, 0, 600, 2).places for part in (used, Part(data, facts))
        )
        assert (other.feature == len(facts.features)).any()
        for name in ("begin", "feature", "marks"):
            assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)


def test_parts_remember_what_earlier_stages_knew(
    maze: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = Facts.of(write_shards(maze, tmp_path / "parts", 1))
    part = Part(read_shard(tmp_path / "parts", 0), facts)
    added, known = list[int](), Database.add

    def add(self: Database, features: Any) -> Any:
        many = list(features)
        added.append(len(many))
        return known(self, many)

    monkeypatch.setattr(Database, "add", add)
    extra = tuple(
        Composite(first=0, second=n, mean=50.0, deviation=9.0, likelihood=0.2) for n in (1, 2)
    )
    for n in (0, 1, 2, 1, 2, 0, 2):  # policies of earlier stages may be asked for at any time
        part.usage(extra[:n], Tree())
    assert added == [1, 1]


def test_a_part_that_is_lost_is_made_again(maze: Database, tmp_path: Path) -> None:
    learner = LEARNERS["default"]
    policy = learner.learn(maze)
    for lose in (2, 3, 7):
        same(policy, learner.learn(spread(maze, tmp_path / str(lose), 2, lose)))
