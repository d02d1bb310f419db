from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, collect
from rlvc.envs.planar_world import MAZE, MOVES, SUBWAY, PlanarWorld
from rlvc.learning.solvers.dynamic import PolicyIteration
from rlvc.runs import evaluate_policy, tasks
from rlvc.runs.direct_perception import Actor
from rlvc.tasks import Grid, NavigationOutcome, grid_over, measure, walk
from rlvc.tasks.navigation import metrics as navigation
from rlvc.tasks.navigation.metrics import (
    MAX_STEPS,
    compare,
    learn_positions,
    optimal_actor,
    policy_actor,
)
from rlvc.tasks.navigation.task import index_of_grid
from tests.support.builders import COLOUR, database, percept_store
from tests.support.tasks import SMALL, RecordingCallback, SmallEnv, run_small

STILL = dataclasses.replace(SMALL, noise=0.0)
TABULAR = RLVC(gamma=0.9, solver=PolicyIteration())
WORLDS = pytest.mark.parametrize("world", [SMALL, MAZE, SUBWAY], ids=["small", "maze", "subway"])


@pytest.fixture(scope="module")
def env() -> SmallEnv:
    return SmallEnv()


@pytest.fixture(scope="module")
def data() -> Interactions:
    env = gymnasium.wrappers.TimeLimit(SmallEnv(), 100)
    return collect(env, 300, seed=0, state="position")


# Walking -----------------------------------------------------------------------------------------


def crosses(world: PlanarWorld, start: tuple[float, float], end: tuple[float, float]) -> bool:
    """Return whether a move along an axis leaves the picture or meets one of the upright walls."""
    (x, y), (u, v) = start, end
    if not (0 <= u <= world.width and 0 <= v <= world.height):
        return True
    return any(
        min(x, u) <= wall_x <= max(x, u) and max(y, v) >= top and min(y, v) <= bottom
        for (wall_x, top), (_, bottom) in world.walls
    )


def walk_alone(
    world: PlanarWorld, start: NDArray[np.float64], act: Callable[[float, float], int]
) -> int | None:
    """Return after how many steps one agent reaches an exit, literally; None if it never does."""
    x, y = start.tolist()
    for t in range(1, MAX_STEPS + 1):
        dx, dy = MOVES[act(x, y)].tolist()
        u, v = x + world.step * dx, y + world.step * dy
        if not crosses(world, (x, y), (u, v)):
            x, y = u, v
        if any(x0 <= x <= x1 and y0 <= y <= y1 for x0, y0, x1, y1 in world.exits):
            return t
    return None


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), coarse=st.integers(5, 120), wise=st.booleans())
def test_walking_together_is_walking_alone(seed: int, coarse: int, wise: bool) -> None:
    def scalar(x: float, y: float) -> int:
        if wise and y > 115:  # below the wall
            return 1 if x < 204 else 2
        return int(x // coarse * 7 + y // coarse * 3 + seed) % 4

    def actor(positions: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.array([scalar(x, y) for x, y in positions.tolist()], np.int64)

    n = 12
    starts = STILL.random_starts(n, np.random.default_rng(seed))
    steps = [walk_alone(STILL, start, scalar) for start in starts]
    done = [t for t in steps if t is not None]
    success, mean_steps = walk(STILL, actor, np.random.default_rng(seed), n)
    assert success == len(done) / n
    assert mean_steps == pytest.approx(np.mean(done)) if done else np.isnan(mean_steps)


def test_an_agent_that_did_not_move_is_not_asked_again() -> None:
    asked: list[NDArray[np.float64]] = []

    def up(positions: NDArray[np.float64]) -> NDArray[np.int64]:
        asked.append(positions.copy())
        return np.zeros(len(positions), np.int64)

    success, mean_steps = walk(STILL, up, np.random.default_rng(3), 20)
    assert success == 0.0
    assert np.isnan(mean_steps)
    assert len(asked) <= 1 + int(STILL.height // STILL.step)  # then all stand at the border
    every = np.concatenate(asked)
    assert len(np.unique(every, axis=0)) == len(every)


def test_an_agent_is_asked_again_after_every_move() -> None:
    asked: list[NDArray[np.float64]] = []

    def right(positions: NDArray[np.float64]) -> NDArray[np.int64]:
        asked.append(positions.copy())
        return np.ones(len(positions), np.int64)

    free = dataclasses.replace(STILL, walls=(), exits=((204, 0, 256, 205),))
    success, mean_steps = walk(free, right, np.random.default_rng(0), 1)
    assert (success, mean_steps) == (1.0, len(asked))
    assert np.diff(np.concatenate(asked)[:, 0]) == pytest.approx(STILL.step)


def test_an_episode_ends_after_a_hundred_steps() -> None:
    moves = 0

    def to_and_fro(positions: NDArray[np.float64]) -> NDArray[np.int64]:
        nonlocal moves
        moves += 1
        return np.where(positions[:, 0] < 60, 1, 3)

    open_world = dataclasses.replace(STILL, walls=(), exits=())
    assert walk(open_world, to_and_fro, np.random.default_rng(0), 1)[0] == 0.0
    assert moves == MAX_STEPS == 100


# The grid ----------------------------------------------------------------------------------------


@pytest.mark.slow
@WORLDS
def test_the_grid_covers_the_world_but_its_exits(world: PlanarWorld) -> None:
    grid = grid_over(world)
    n_rows, n_columns = grid.cells.shape
    assert abs(world.width / n_columns - 25.6) < 1
    assert abs(world.height / n_rows - 25.6) < 1
    number = 0
    for row in range(n_rows):
        for column in range(n_columns):
            x = (column + 0.5) * world.width / n_columns
            y = (row + 0.5) * world.height / n_rows
            if any(x0 <= x <= x1 and y0 <= y <= y1 for x0, y0, x1, y1 in world.exits):
                assert grid.cells[row, column] == -1
            else:
                assert grid.cells[row, column] == number
                assert grid.positions[number] == pytest.approx((x, y))
                number += 1
    assert len(grid.positions) == len(grid.optimal_q) == number
    assert grid_over(world) is grid


def test_the_grid_of_the_maze_has_fifty_cells_a_side() -> None:
    assert grid_over(MAZE).cells.shape == (50, 50)


@pytest.mark.slow
@WORLDS
def test_nearest_is_the_nearest_position(world: PlanarWorld) -> None:
    grid = grid_over(world)
    rng = np.random.default_rng(0)
    corners = [[0, 0], [world.width, 0], [0, world.height], [world.width, world.height]]
    edge = np.array([c for c in corners if not world.in_exit([c])[0]], np.float64)
    points = np.concatenate([world.random_starts(300, rng), edge])
    found = grid.nearest(points)
    size = np.array([world.width / grid.cells.shape[1], world.height / grid.cells.shape[0]])
    for point, number in zip(points, found.tolist(), strict=True):
        distance = np.abs(grid.positions - point) / size
        assert number == int((distance**2).sum(axis=1).argmin())
        assert (distance[number] <= 0.5 + 1e-9).all()


@pytest.mark.slow
@WORLDS
def test_no_place_outside_the_exits_is_without_a_position(world: PlanarWorld) -> None:
    starts = world.random_starts(20_000, np.random.default_rng(1))
    assert (grid_over(world).nearest(starts) >= 0).all()


@WORLDS
def test_painted_values_lie_where_their_positions_are(world: PlanarWorld) -> None:
    grid = grid_over(world)
    values = np.random.default_rng(0).random(len(grid.positions))
    image = grid.paint(values)
    assert image.shape == grid.cells.shape
    assert np.isnan(image).sum() == (grid.cells < 0).sum() > 0
    for (x, y), value in zip(grid.positions.tolist(), values.tolist(), strict=True):
        row = int(y * image.shape[0] / world.height)
        column = int(x * image.shape[1] / world.width)
        assert image[row, column] == value


def test_an_action_is_optimal_up_to_two_percent() -> None:
    q = np.array([[100.0, 98.0, 97.9, 0.0], [50.0, 49.1, 48.9, 51.0], [0.0, 0.0, 0.0, 0.0]])
    grid = Grid(SMALL, np.zeros((3, 2)), np.array([[0, 1, 2]]), q)
    for a in range(4):
        actions = np.full(3, a)
        expected = [bool(row[a] >= 0.98 * max(row)) for row in q.tolist()]
        assert grid.is_optimal(actions).tolist() == expected
        assert grid.suboptimal(actions) == expected.count(False) / 3
    assert grid.is_optimal(np.array([1, 0, 3])).tolist() == [True, True, True]


@pytest.mark.parametrize("world", [SMALL, STILL, MAZE], ids=["small", "still", "maze"])
def test_the_optimum_is_optimal_and_always_gets_out(world: PlanarWorld) -> None:
    found = measure(grid_over(world), optimal_actor(world), 0, 200)
    assert found["suboptimal"] == 0.0
    assert found["success"] == 1.0
    assert 1 <= found["mean_steps"] < 15


def test_measures_that_do_not_exist_are_null() -> None:
    up: Actor = lambda positions: np.zeros(len(positions), np.int64)  # noqa: E731
    grid = grid_over(STILL)
    share = grid.suboptimal(up(grid.positions))
    expected = {"success": 0.0, "mean_steps": None, "suboptimal": share}
    assert measure(grid, up, 3, 20) == expected
    assert measure(grid, up, 3, 20, 0.25) == expected | {"suboptimal": 0.25}


# Direct perception -------------------------------------------------------------------------------


def test_direct_perception_on_a_handful_of_transitions() -> None:
    world = dataclasses.replace(STILL, width=200, height=100, walls=(), exits=())
    rows = [  # from cell 0, right pays 1 half of the time and down always leads to cell 1
        ((10, 10), 1, 1.0, (20, 20), True), ((30, 10), 1, 0.0, (20, 20), True),
        ((10, 10), 2, 0.0, (150, 40), False), ((150, 40), 3, 2.0, (10, 10), True),
        ((150, 40), 0, 0.0, (150, 40), False),
    ]  # fmt: skip
    start, action, reward, end, terminated = zip(*rows, strict=True)
    n = len(rows)
    numbers = np.arange(n)
    data = Interactions(
        percepts=percept_store(n), start=numbers, action=np.array(action), reward=np.array(reward),
        end=numbers, episode=numbers, terminated=np.array(terminated),
        truncated=~np.array(terminated), n_actions=4,
        state=np.array(start, np.float64), next_state=np.array(end, np.float64),
    )  # fmt: skip
    places = np.array([[0.0, 0.0], [200.0, 0.0], [0.0, 99.0]])
    # Worth of the first cell: right 0.5, down 2γ. Nothing is known of the third cell.
    assert learn_positions(world, data, 2, TABULAR).act(places).tolist() == [2, 3, 0]
    greedy = dataclasses.replace(TABULAR, gamma=0.2)
    assert learn_positions(world, data, 2, greedy).act(places).tolist() == [1, 3, 0]
    blind = dataclasses.replace(data, state=None)
    with pytest.raises(
        ValueError, match=r"^Direct perception needs interactions that carry the state\.$"
    ):
        learn_positions(world, blind, 2, TABULAR)


def test_the_best_grid_is_the_most_successful_one(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {2: (0.5, 0.1), 3: (0.75, 0.4), 4: (0.75, 0.3), 5: (0.75, 0.3), 6: (0.2, 0.0)}
    names = ("success", "suboptimal")
    monkeypatch.setattr(navigation, "SIDES", range(3, 7))
    learned = lambda world, data, side, *_: SimpleNamespace(act=side)  # noqa: E731
    monkeypatch.setattr(navigation, "learn_positions", learned)
    measured = lambda grid, side, *_: dict(zip(names, found[side], strict=True))  # noqa: E731
    monkeypatch.setattr(navigation, "measure", measured)
    both = compare(grid_over(SMALL), data, 5, TABULAR, seed=0)
    assert both == {
        "equal": {"cells": 4, "success": 0.5, "suboptimal": 0.1},
        "best": {"cells": 16, "success": 0.75, "suboptimal": 0.3},
    }


def test_every_grid_is_measured_with_the_same_episodes(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(navigation, "SIDES", range(2, 7))
    grid = grid_over(SMALL)
    both = compare(grid, data, 9, TABULAR, seed=4, episodes=40)
    alone = {}
    for side in range(2, 7):
        actor = learn_positions(SMALL, data, side, TABULAR).act
        alone[side] = measure(grid, actor, 4, 40)
    assert both["equal"] == {"cells": 9, **alone[3]}
    best = max(range(2, 7), key=lambda s: (alone[s]["success"], -alone[s]["suboptimal"], -s))
    assert both["best"] == {"cells": best**2, **alone[best]}
    assert compare(grid, data, 1, TABULAR, seed=4, episodes=2)["equal"]["cells"] == 1


# Whole runs --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run() -> NavigationOutcome:
    return run_small(RLVC(threads=1))


def test_the_grid_is_evaluated_as_by_the_policy_one_by_one(
    small_run: NavigationOutcome,
) -> None:
    policy, found = small_run.policy, small_run.evaluation
    env, grid = found.env, found.grid
    assert policy.n_classes > 5
    for position, action, value in zip(grid.positions, found.actions, found.values, strict=True):
        percept = env.percept(position)
        visual_class = int(policy.classify(percept))
        assert policy.predict(percept)[0] == policy.actions[visual_class] == action
        assert policy.q[visual_class].max() == value


def test_the_index_of_the_grid_gives_the_classes_of_the_policy(
    env: SmallEnv, data: Interactions
) -> None:
    learner = RLVC(threads=2)
    extracted = learner.extract(data)
    known = extracted.extractor.n_symbols
    grid = grid_over(SMALL)
    n_seen = 0
    for stage in learner.stages(extracted):
        shown = index_of_grid(env, grid, stage.database, threads=2).incidence
        assert extracted.extractor.n_symbols == known  # it learns no symbols
        classes = stage.classifier.classify(shown)
        policy = stage.policy()
        one_by_one = [int(policy.classify(env.percept(p))) for p in grid.positions[::2]]
        assert classes[::2].tolist() == one_by_one
        n_seen = max(n_seen, len(set(one_by_one)))
    assert n_seen > 3


def test_an_actor_acts_on_the_percepts_of_its_positions(small_run: NavigationOutcome) -> None:
    positions = SMALL.random_starts(11, np.random.default_rng(0))
    env, policy = small_run.evaluation.env, small_run.policy
    expected = [int(policy.predict(env.percept(p))[0]) for p in positions]
    assert policy_actor(env, policy, batch=4)(positions).tolist() == expected
    shifted = dataclasses.replace(policy, action_start=3)
    assert policy_actor(env, shifted)(positions).tolist() == expected


def test_the_result_is_about_the_run(small_run: NavigationOutcome) -> None:
    result, policy = small_run.result, small_run.policy
    history = result["history"]
    assert [line["stage"] for line in history] == list(range(result["stages"] + 1))
    last = history[-1]
    assert last["classes"] == result["classes"] == policy.n_classes == len(policy.q)
    n_tests = len(policy.classifier.features)
    assert last["features"] == result["features"]["selected"] == n_tests
    assert result["features"]["distinct"] == policy.extractor.n_symbols > n_tests
    assert history[0] | {"residual": 0, "aliased": 0} == history[0] | {
        "stage": 0, "classes": 1, "features": 0, "residual": 0, "aliased": 0
    }  # fmt: skip
    classes = [line["classes"] for line in history]
    assert classes == sorted(set(classes))
    assert last["suboptimal"] == result["measures"]["suboptimal"]
    assert last["suboptimal"] == small_run.evaluation.grid.suboptimal(small_run.evaluation.actions)
    assert dict(policy.about) == {"task": "small", "pictures": "photos"}
    assert result["direct"]["equal"]["cells"] == round(policy.n_classes**0.5) ** 2
    assert result["optimum"]["suboptimal"] == 0.0
    assert result["parameters"]["threads"] == 1
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.usefixtures("small")
def test_callbacks_follow_a_run() -> None:
    recorded = RecordingCallback()
    done = run_small(RLVC(threads=1), interactions=60, episodes=2, callbacks=[recorded])
    images = done.result["percepts"]
    assert recorded.phases == [
        ("collect", 60), ("extract", images), ("learn", None), ("evaluate", None)
    ]  # fmt: skip
    assert recorded.steps == {"collect": 60, "extract": images}
    stages = recorded.stages["learn"]
    assert [stage.number for stage in stages] == list(range(done.result["stages"] + 1))
    assert list(done.result["seconds"]) == ["collect", "extract", "learn", "evaluate"]
    assert all(seconds >= 0 for seconds in done.result["seconds"].values())


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_seed_another(
    small: None, small_run: NavigationOutcome, tmp_path: Path
) -> None:
    again = run_small(RLVC(threads=2))
    assert again.result["parameters"].pop("threads") == 2
    expected = json.loads(json.dumps(small_run.result))
    del expected["parameters"]["threads"], expected["seconds"], again.result["seconds"]
    assert again.result == expected
    assert np.array_equal(again.evaluation.actions, small_run.evaluation.actions)
    assert np.array_equal(again.evaluation.values, small_run.evaluation.values)
    again.policy.save(tmp_path / "again")
    small_run.policy.save(tmp_path / "first")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "first").read_bytes()
    other = run_small(seed=1)
    assert other.result["seed"] == 1
    assert other.result["history"][0]["residual"] != expected["history"][0]["residual"]
    other.policy.save(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() != (tmp_path / "first").read_bytes()


def test_seeds_of_exploration_and_of_measures_are_passed_on(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def fake_collect(env: Any, n: int, **options: Any) -> Interactions:
        seen.update(options)
        return collect(env, n, **options)

    def fake_walk(
        world: PlanarWorld, act: Actor, rng: np.random.Generator, episodes: int
    ) -> tuple[float, float]:
        seen.setdefault("walks", []).append((rng.random(), episodes))
        return 0.5, 2.0

    monkeypatch.setattr("rlvc.tasks.paper_task.collect", fake_collect)
    monkeypatch.setattr(navigation, "walk", fake_walk)
    run_small(seed=9, interactions=30, episodes=3)
    assert seen["seed"] == 9
    assert set(seen["walks"]) == {(np.random.default_rng([9, 2]).random(), 3)}


@pytest.mark.parametrize("interactions", [1, 2])
def test_a_run_on_next_to_nothing_is_a_run(interactions: int, small: None) -> None:
    done = run_small(interactions=interactions, episodes=2)
    assert done.result["classes"] >= 1
    assert done.result["direct"]["equal"]["cells"] == 1
    json.dumps(done.result, allow_nan=False)


@pytest.mark.usefixtures("small")
def test_a_policy_is_evaluated_where_it_was_learned(small_run: NavigationOutcome) -> None:
    found = evaluate_policy(small_run.policy, seed=0, episodes=20)
    assert found == {"task": "small", "pictures": "photos", **small_run.result["measures"]}
    stranger = dataclasses.replace(small_run.policy, about={})
    with pytest.raises(
        ValueError,
        match=r"^The policy does not say which task it is for; give the id of its environment, or ",
    ):
        evaluate_policy(stranger, episodes=1)
    assert evaluate_policy(stranger, task="small", seed=0, episodes=20) == found


def test_a_policy_with_other_actions_is_not_evaluated(small: None) -> None:
    policy = RLVC(threads=1).learn(database(COLOUR))
    with pytest.raises(
        ValueError, match=r"^The actions of the policy must be those of the small, 4; got 3\.$"
    ):
        evaluate_policy(policy, task="small", episodes=1)


@pytest.mark.parametrize("name", ["maze", "subway", "campus", "hill"])
def test_an_unfinished_run_has_no_measures(name: str) -> None:
    assert tasks.make(name).measures({"task": name, "pictures": "photos"}) is None


def test_an_unknown_task_is_explained() -> None:
    assert tasks.make("subway").base_learner().gamma == SUBWAY.gamma
    with pytest.raises(
        ValueError,
        match=r"^Unknown task 'Maze'\. Did you mean 'maze'\? Known: campus, hill, maze, ",
    ):
        tasks.make("Maze")
