from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlvc.envs.maze import MazeEnv
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import MAZE, PlanarWorld

SMALL = PlanarWorld(
    width=40, height=30, step=8, noise=1, window=9,
    walls=(((20, 0), (20, 20)),), exits=((34, 24, 40, 30),),
)  # fmt: skip
PICTURE = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)


@pytest.mark.parametrize("side", [8, 9])
def test_window_is_cut_from_the_reflected_picture(side: int) -> None:
    world = replace(SMALL, window=side)
    env = PictureEnv(world, PICTURE)
    reflected = np.pad(PICTURE, ((20, 20), (20, 20), (0, 0)), mode="reflect")
    for x, y in [(0.0, 0.0), (40.0, 30.0), (12.4, 7.6), (12.5, 7.5), (39.9, 0.2), (0.0, 29.5)]:
        column, row = int(x + 0.5) + 20 - side // 2, int(y + 0.5) + 20 - side // 2
        expected = reflected[row : row + side, column : column + side]
        np.testing.assert_array_equal(env.percept((x, y)), expected)


def test_entering_an_exit_earns_the_reward_and_terminates() -> None:
    env = PictureEnv(SMALL, PICTURE)
    env.reset(seed=0, options={"position": (29, 27)})
    _, reward, terminated, truncated, info = env.step(1)
    assert (reward, terminated, truncated) == (100.0, True, False)
    assert SMALL.in_exit(info["position"][None])[0]


def test_a_wall_of_glass_stops_the_agent_where_it_is() -> None:
    env = PictureEnv(SMALL, PICTURE)
    env.reset(seed=0, options={"position": (17, 10)})
    *_, info = env.step(1)
    assert info["position"].tolist() == [17, 10]


def test_render_shows_walls_exits_agent_and_window() -> None:
    env = MazeEnv(render_mode="rgb_array")
    scene = env.render()
    assert scene is not None
    changed = (scene != env.picture).any(axis=2)
    assert changed[300, 380:388].all()  # a wall
    assert changed[100:154, 20:154].mean() > 0.9  # an exit
    assert not changed[800:900, 400:600].any()
    env.reset(options={"position": (500.0, 900.0)})
    agent = env.render()
    assert agent is not None
    moved = (agent != scene).any(axis=2)
    assert moved[895:905, 495:505].all()
    assert moved[785, 390:612].any()
    rows, columns = np.nonzero(moved)
    assert 780 <= rows.min() <= rows.max() <= 1020
    assert 380 <= columns.min() <= columns.max() <= 620


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ((-1, 5), r"must be \(x, y\) with 0 <= x <= 40 and 0 <= y <= 30; got \(-1, 5\)"),
        ((5, float("nan")), r"must be \(x, y\)"),
        ((1, 2, 3), r"must be \(x, y\)"),
        ("here", r"must be \(x, y\)"),
        ((36, 26), "must be outside the exits and off the walls"),
        ((20, 10), "must be outside the exits and off the walls"),
    ],
)
def test_bad_places_to_start(position: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PictureEnv(SMALL, PICTURE).reset(options={"position": position})


def test_picture_of_another_size_or_type() -> None:
    with pytest.raises(ValueError, match=r"must be uint8 of shape \(1280, 1280, 3\); got uint8"):
        PictureEnv(MAZE, PICTURE)
    with pytest.raises(ValueError, match="must be uint8 of shape"):
        PictureEnv(SMALL, PICTURE.astype(np.float64))
