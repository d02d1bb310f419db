from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc import register_envs
from rlvc.envs.hill.dynamics import HILL, Hill
from rlvc.envs.hill.env import HillEnv
from rlvc.envs.hill.scene import gauge_column, gauge_face, gauge_image, ground_column, ground_image
from rlvc.vision import Harris, InterestPoints, Invariants
from tests.support.photographs import write_color

register_envs()
places = st.floats(-1, 1, exclude_max=True)
velocities = st.floats(-3, 3)


def literal_move(p: float, s: float, a: float) -> tuple[float, float, float, bool]:
    """The paper's formulas for one car, with a the force of the engine."""
    if p < 0:
        slope = 2 * p + 1
    else:  # the derivative of p / √(1 + 5p²), by the rule of the quotient
        root = sqrt(1 + 5 * p**2)
        slope = (root - p * 5 * p / root) / root**2
    acceleration = a / (1 * sqrt(1 + slope**2)) - 9.81 * slope / (1 + slope**2)
    next_p = p + 0.1 * s + 0.1**2 * acceleration / 2
    next_s = s + 0.1 * acceleration
    if next_p >= 1 and abs(next_s) <= 3:
        return next_p, next_s, 100, True
    return next_p, next_s, 0, next_p >= 1 or next_p < -1 or abs(next_s) > 3


def look(image: Any) -> tuple[InterestPoints, list[tuple[float, ...]]]:
    """The interest points of an image and, in an order of their own, what is seen there."""
    points, rows = Invariants().describe(image, Harris().detect(image))
    return points, sorted(map(tuple, rows.tolist()))


@given(st.lists(st.tuples(places, velocities, st.integers(0, 1)), min_size=1, max_size=8))
def test_cars_move_as_the_formulas_say(cars: list[tuple[float, float, int]]) -> None:
    states, reward, terminated = HILL.move([car[:2] for car in cars], [car[2] for car in cars])
    assert states.shape == (len(cars), 2)
    for row, (p, s, action) in enumerate(cars):
        next_p, next_s, earned, ends = literal_move(p, s, (-4, 4)[action])
        assert states[row] == pytest.approx([next_p, next_s], abs=1e-12)
        if min(abs(abs(next_p) - 1), abs(abs(next_s) - 3)) > 1e-9:
            assert (reward[row], terminated[row]) == (earned, ends)


def test_slope_is_the_derivative_of_the_height() -> None:
    p = np.linspace(-1.2, 1.2, 101)
    numeric = (HILL.height(p + 1e-6) - HILL.height(p - 1e-6)) / 2e-6
    np.testing.assert_allclose(HILL.slope(p), numeric, atol=1e-5)


def test_where_an_episode_ends_and_what_it_earns() -> None:
    flat = Hill(gravity=1e-300, thrust=1e-300)  # without forces, only the velocity moves the car
    states = [
        [0.75, 2.5],  # arrives exactly at the top
        [0.7, 3.0],  # exactly as fast as is allowed
        [0.7, 3.0 + 1e-9],
        [0.6, 3.0],
        [-0.75, -2.5],  # exactly at the left end
        [-0.8, -2.5],
        [0.0, -3.0],
        [0.0, -3.0 - 1e-9],
    ]
    end, reward, terminated = flat.move(states, [0, 1] * 4)
    np.testing.assert_allclose(end[:, 1], np.array(states)[:, 1])
    assert reward.tolist() == [100, 100, 0, 0, 0, 0, 0, 0]
    assert terminated.tolist() == [True, True, True, False, False, True, False, True]


def test_the_engine_cannot_climb_straight_out_of_the_valley() -> None:
    state, highest = np.array([[-0.5, 0.0]]), -0.5
    while state[0, 1] >= 0:  # until it rolls back
        state, _, terminated = HILL.move(state, [1])
        highest = max(highest, float(state[0, 0]))
        assert not terminated[0]
    assert highest < 0.2


def test_random_starts_are_uniform() -> None:
    starts = HILL.random_starts(20_000, np.random.default_rng(0))
    assert starts.min(axis=0) == pytest.approx([-1, -3], abs=0.01)
    assert starts.max(axis=0) == pytest.approx([1, 3], abs=0.01)
    for share, limit in ((0.25, (-0.5, -1.5)), (0.5, (0, 0)), (0.75, (0.5, 1.5))):
        assert (starts < limit).mean(axis=0) == pytest.approx([share, share], abs=0.02)
    at_rest = HILL.random_starts(20_000, np.random.default_rng(0), at_rest=True)
    np.testing.assert_array_equal(at_rest[:, 0], starts[:, 0])
    assert (at_rest[:, 1] == 0).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mass", 0.0, r"mass of Hill must be in \(0, inf\); got 0\.0"),
        ("step", -0.1, r"step of Hill must be in \(0, inf\)"),
        ("max_speed", float("nan"), r"max_speed of Hill must be in \(0, inf\); got nan"),
        ("gamma", 1.0, r"gamma of Hill must be in \[0, 1\); got 1\.0"),
    ],
)
def test_bad_parameters(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hill(**{name: value})


def test_columns_are_whole_and_stop_at_the_limits() -> None:
    assert ground_column([-2, -1, -0.999, 0, 0.1, 1, 2]).tolist() == [0, 0, 1, 512, 563, 1024, 1024]
    assert gauge_column([-4, -3, -2.99, 0, 0.5, 3, 4]).tolist() == [0, 0, 1, 180, 210, 360, 360]
    assert len(np.unique(ground_column(np.linspace(-1, 1, 10_001)))) == 1025
    assert len(np.unique(gauge_column(np.linspace(-3, 3, 10_001)))) == 361
    assert ground_column(0.25).shape == gauge_column(0.25).shape == ()


def test_the_ground_slides_over_the_strip() -> None:
    strip = np.random.default_rng(0).integers(0, 256, (128, 1280, 3), np.uint8)
    np.testing.assert_array_equal(ground_image(strip, 0), strip[:, :256])
    np.testing.assert_array_equal(ground_image(strip, 1024), strip[:, 1024:])
    assert ground_image(strip, 3).flags.owndata


def test_the_cursor_points_at_the_digit_of_the_velocity() -> None:
    for s in range(-3, 4):
        changed = (gauge_image(int(gauge_column(s))) != gauge_face()).any(axis=2)
        rows, columns = np.nonzero(changed)
        assert 60 <= rows.min() <= rows.max() <= 84
        assert columns.mean() == 45 + 60 * (s + 3)
        assert columns[rows == rows.min()].mean() == 45 + 60 * (s + 3)  # its tip


def test_there_is_room_between_the_digits_and_the_cursor() -> None:
    face = gauge_face()[4:-4, 4:-4]
    rows, columns = np.nonzero((face != face[0, 0]).any(axis=2))
    assert rows.max() + 4 <= 44
    assert rows.min() + 4 >= 16
    digits = np.unique((columns + 4 - 15) // 60)
    assert digits.tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_the_gauge_shows_the_same_features_at_every_velocity() -> None:
    points, features = look(gauge_image(0))
    on_cursor = points.xy[:, 1] > 50
    assert 18 <= len(points) <= 28
    assert on_cursor.sum() >= 3
    assert len(np.unique((points.xy[~on_cursor, 0] - 15) // 60)) == 7  # every digit has some
    for column in range(361):
        moved, same = look(gauge_image(column))
        assert same == features
        shift = np.where(moved.xy[:, 1] > 50, column, 0)
        np.testing.assert_array_equal(moved.xy[:, 0] - shift, points.xy[:, 0])


def test_spaces_and_names() -> None:
    env = HillEnv()
    assert env.observation_space == gymnasium.spaces.Dict(
        ground=gymnasium.spaces.Box(0, 255, (128, 256, 3), np.uint8),
        gauge=gymnasium.spaces.Box(0, 255, (100, 450, 3), np.uint8),
    )
    assert env.action_space == gymnasium.spaces.Discrete(2)
    assert env.action_names == ("left", "right")


@pytest.mark.parametrize("action", [0, 1])
def test_steps_follow_the_dynamics_and_show_the_state(action: int) -> None:
    env = HillEnv()
    for state in [(-0.9, 1.0), (0.95, 1.0), (0.95, 2.99), (-0.99, -1.0), (0.2, -0.3)]:
        percept, info = env.reset(options={"state": state})
        assert info["state"].tolist() == list(state)
        expected, reward, terminated = HILL.move([state], [action])
        after = env.step(action)
        assert after[1:4] == (reward[0], terminated[0], False)
        assert (type(after[1]), type(after[2])) == (float, bool)
        np.testing.assert_array_equal(after[4]["state"], expected[0])
        for shown, (p, s) in ((percept, state), (after[0], expected[0])):
            assert shown in env.observation_space
            ground = ground_image(env.strip, int(ground_column(p)))
            np.testing.assert_array_equal(shown["ground"], ground)
            np.testing.assert_array_equal(shown["gauge"], gauge_image(int(gauge_column(s))))


def test_starts_may_all_be_at_rest() -> None:
    moving, at_rest = HillEnv(), HillEnv(at_rest=True)
    for env in (moving, at_rest):
        env.reset(seed=5)
    a, b = (np.array([env.reset()[1]["state"] for _ in range(20)]) for env in (moving, at_rest))
    assert (b[:, 1] == 0).all()
    assert (a[:, 1] != 0).all()
    assert len(np.unique(b[:, 0])) == 20


def test_objects_of_coil_lie_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 11):
        color = (number, number, number)
        write_color(tmp_path / "coil100" / f"obj{number}__0.png", color, (128, 128))
    monkeypatch.setenv("RLVC_DATA", str(tmp_path))
    strip = HillEnv(pictures="coil").strip
    assert strip[64, 64::128, 0].tolist() == list(range(1, 11))


def test_render_shows_the_hill_the_car_and_both_cameras() -> None:
    env = HillEnv(render_mode="rgb_array")
    empty = env.render()
    assert empty is not None
    assert empty.shape == (720, 1280, 3)
    np.testing.assert_array_equal(empty[448:576], env.strip)
    percept, _ = env.reset(options={"state": (-0.5, 1.5)})
    scene = env.render()
    assert scene is not None
    column = int(ground_column(-0.5))
    rows, columns = np.nonzero((scene[:448] != empty[:448]).any(axis=2))
    assert columns.mean() == pytest.approx(column + 128, abs=4)  # the car is above its window
    assert 340 < rows.min() < rows.max() < 430
    np.testing.assert_array_equal(
        scene[458:566, column + 10 : column + 246], percept["ground"][10:-10, 10:-10]
    )
    assert (scene[452, column + 5 : column + 250] != env.strip[4, column + 5 : column + 250]).any()
    np.testing.assert_array_equal(scene[598:698, 415:865], percept["gauge"])


@pytest.mark.parametrize("state", [(-1.01, 0), (1, 0), (0, 3.01), (0, -4)])
def test_states_beyond_the_limits(state: Any) -> None:
    env = HillEnv()
    message = r"state of HillEnv\.reset must be \(p, s\) with -1 <= p < 1 and \|s\| <= 3"
    with pytest.raises(ValueError, match=message):
        env.reset(options={"state": state})
    assert env.percept(state) in env.observation_space  # such a state may end an episode


@pytest.mark.parametrize("state", [(0,), (0, 0, 0), "here", None, (0, float("nan"))])
def test_bad_states(state: Any) -> None:
    env = HillEnv()
    for ask in (env.percept, lambda start: env.reset(options={"state": start})):
        with pytest.raises(ValueError, match=r"state of HillEnv must be \(p, s\), two numbers"):
            ask(state)
