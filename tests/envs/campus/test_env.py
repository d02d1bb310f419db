from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlvc import collect, register_envs
from rlvc.envs.campus.env import CampusEnv
from rlvc.envs.campus.graph_world import CAMPUS
from tests.support.photographs import write_views

register_envs()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs of one colour each, which tells the state and the view."""
    return write_views(tmp_path_factory.mktemp("campus"))


def make(folder: Path, **arguments: Any) -> CampusEnv:
    return CampusEnv(pictures=str(folder), **arguments)


def told(percept: Any) -> tuple[int, int]:
    """The state and the view that a percept shows."""
    assert (percept == percept[0, 0]).all()
    state, view, _ = percept[0, 0].tolist()
    return state, view


def test_spaces_and_names(folder: Path) -> None:
    env = CampusEnv()
    assert env.observation_space == gymnasium.spaces.Box(0, 255, (480, 640, 3), np.uint8)
    assert env.action_space == gymnasium.spaces.Discrete(3)
    assert env.action_names == ("turn left", "turn right", "forward")
    assert make(folder).observation_space.shape == (12, 16, 3)


def test_every_action_follows_the_dynamics_and_shows_the_state(folder: Path) -> None:
    env = make(folder)
    for state in range(44):
        for action in range(3):
            percept, info = env.reset(seed=state, options={"state": state})
            assert info == {"state": state}
            assert told(percept)[0] == state
            percept, reward, terminated, truncated, info = env.step(action)
            assert info == {"state": CAMPUS.next_state[state, action]}
            assert type(info["state"]) is int
            assert told(percept)[0] == info["state"]
            assert reward == CAMPUS.reward[state, action]
            assert (terminated, truncated) == (CAMPUS.terminated[state, action], False)
            assert percept in env.observation_space


@pytest.mark.parametrize("division", ["learn", "test"])
def test_all_views_of_the_division_and_no_others_are_perceived(folder: Path, division: str) -> None:
    env = make(folder, views=division, views_seed=3)
    seen: dict[int, set[int]] = {state: set() for state in range(44)}
    env.reset(seed=0, options={"state": 6})  # at spot 1, facing south, where no way goes on
    for _ in range(60):
        state, view = told(env.step(2)[0])
        assert state == 6
        seen[state].add(view)
    assert seen[6] == set(env.views.division(division)[6])
    assert len(seen[6]) == (3 if division == "learn" else 1)


def test_starts_are_uniform_over_the_states(folder: Path) -> None:
    env = make(folder)
    env.reset(seed=0)
    counts = np.bincount([env.reset()[1]["state"] for _ in range(4400)], minlength=44)
    assert counts.min() > 60
    assert counts.max() < 150


def test_interactions_can_be_collected_with_the_true_state(folder: Path) -> None:
    env = gymnasium.make("rlvc/Campus-v0", pictures=str(folder), disable_env_checker=True)
    data = collect(env, 300, state="state", seed=1)
    assert data.action_names == ("turn left", "turn right", "forward")
    assert len(data.percepts) <= 44 * 3
    assert data.state is not None
    for number, state in zip(data.start, data.state.ravel(), strict=True):
        assert told(data.percepts[int(number)])[0] == state


def test_no_view_is_drawn_before_it_is_perceived(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def draw(state: int, rng: np.random.Generator) -> Any:
        asked.append(state)
        return rng.integers(0, 256, (480, 640, 3), np.uint8)

    monkeypatch.setattr("rlvc.envs.photos.views.draw_facade", draw)
    env = CampusEnv(views_seed=12345)
    assert asked == []
    env.reset(seed=0, options={"state": 9})
    assert asked == [9]
    for _ in range(100):
        env.reset(options={"state": 9})
    assert asked.count(9) <= 18  # a view that was drawn is kept


@pytest.mark.slow
def test_render_shows_the_map_and_the_percept() -> None:
    env = CampusEnv(render_mode="rgb_array")
    empty = env.render()
    assert empty is not None
    percept, _ = env.reset(seed=0, options={"state": 4 * 9})
    north = env.render()
    assert north is not None
    assert north.shape == empty.shape == (480, 480 + 640, 3)
    np.testing.assert_array_equal(north[:, 480:], percept)
    rows, columns = np.nonzero((north[:400, :480] != empty[:400, :480]).any(axis=2))
    # Spot 9 is in the middle of the upper row.
    assert 220 <= columns.mean() <= 260
    assert 90 <= rows.mean() <= 160
    env.reset(options={"state": 4 * 9 + 2})
    south = env.render()
    assert south is not None
    assert not np.array_equal(north[:, :480], south[:, :480])


def test_render_scales_other_sizes(folder: Path) -> None:
    env = make(folder, render_mode="rgb_array")
    env.reset(seed=0, options={"state": 40})
    scene = env.render()
    assert scene is not None
    assert scene.shape == (480, 480 + 640, 3)
    assert (scene[:, 480:, 0] == 40).all()


@pytest.mark.parametrize("state", [44, -1, 1.5, "10E", None])
def test_bad_states_to_start_in(folder: Path, state: Any) -> None:
    message = r"state of CampusEnv\.reset must be a whole number from 0 to 43; got"
    with pytest.raises(ValueError, match=message):
        make(folder).reset(options={"state": state})


def test_unknown_divisions(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"Unknown views 'tests'\. Did you mean 'test'\? Known"):
        make(folder, views="tests")
