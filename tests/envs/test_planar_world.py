from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc.envs.optimum import optimal_values
from rlvc.envs.planar_world import ACTION_NAMES, MAZE, MOVES, SUBWAY, PlanarWorld

WORLDS = pytest.mark.parametrize("world", [MAZE, SUBWAY], ids=["maze", "subway"])
seeds = st.integers(0, 2**32 - 1)
whole = st.integers(-2, 12)  # small whole numbers make touching and collinear cases common
points = st.tuples(whole, whole)
Points = tuple[int, int]


def world_of(**changed: Any) -> PlanarWorld:
    """A world without walls, exits and noise, but for what is given."""
    plain = {"width": 10, "height": 10, "step": 1, "noise": 0, "window": 3}
    return PlanarWorld(**{**plain, "walls": (), "exits": (), **changed})


def segments_meet(a: Points, b: Points, c: Points, d: Points) -> bool:
    """Solve a + s(b - a) = c + t(d - c) in exact arithmetic, literally."""
    rx, ry, qx, qy = b[0] - a[0], b[1] - a[1], d[0] - c[0], d[1] - c[1]
    cross = rx * qy - ry * qx
    if cross:
        s = Fraction((c[0] - a[0]) * qy - (c[1] - a[1]) * qx, cross)
        t = Fraction((c[0] - a[0]) * ry - (c[1] - a[1]) * rx, cross)
        return 0 <= s <= 1 and 0 <= t <= 1
    # Parallel segments, or a point, meet where an end of one lies on the other.
    return any(
        (end[0] - start[0]) * (p[1] - start[1]) == (end[1] - start[1]) * (p[0] - start[0])
        and min(start[0], end[0]) <= p[0] <= max(start[0], end[0])
        and min(start[1], end[1]) <= p[1] <= max(start[1], end[1])
        for p, start, end in [(a, c, d), (b, c, d), (c, a, b), (d, a, b)]
    )


@given(
    st.lists(st.tuples(points, points), min_size=1, max_size=8), st.lists(st.tuples(points, points))
)
def test_blocked_agrees_with_exact_geometry(
    moves: list[tuple[Points, Points]], walls: list[tuple[Points, Points]]
) -> None:
    world = world_of(walls=tuple(walls))
    expected = [
        not (0 <= b[0] <= 10 and 0 <= b[1] <= 10) or any(segments_meet(a, b, *w) for w in walls)
        for a, b in moves
    ]
    start, end = np.array(moves, dtype=float).swapaxes(0, 1)
    assert world.blocked(start, end).tolist() == expected


@WORLDS
@settings(max_examples=25)
@given(seed=seeds)
def test_moves_stay_inside_and_on_their_side_of_walls(world: PlanarWorld, seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = world.random_starts(64, rng)
    actions = rng.integers(4, size=64)
    target = start + world.step * MOVES[actions]
    noise = np.random.default_rng(seed + 1).normal(0, world.noise, (64, 2))
    end, exited = world.move(start, actions, np.random.default_rng(seed + 1))
    stayed = (end == start).all(axis=1)
    assert (stayed == world.blocked(start, target + noise)).all()
    assert (end[~stayed] == (target + noise)[~stayed]).all()
    assert world.inside(end).all()
    assert not world.blocked(start[~stayed], end[~stayed]).any()
    assert (exited == world.in_exit(end)).all()


@WORLDS
def test_random_starts_are_uniform_outside_the_exits(world: PlanarWorld) -> None:
    starts = world.random_starts(20_000, np.random.default_rng(0))
    assert not world.in_exit(starts).any()
    assert world.inside(starts).all()
    area = world.width * world.height - sum((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in world.exits)
    in_band = (starts[:, 0] > 200) & (starts[:, 0] < 900) & (starts[:, 1] < 100)
    assert in_band.mean() == pytest.approx(700 * 100 / area, abs=0.01)


def test_actions_have_the_directions_of_their_names() -> None:
    world = world_of(width=100, height=100, step=10)
    ends, _ = world.move(np.full((4, 2), 50.0), range(4), np.random.default_rng(0))
    directions = dict(zip(ACTION_NAMES, ends.tolist(), strict=True))
    assert directions == {"up": [50, 40], "right": [60, 50], "down": [50, 60], "left": [40, 50]}


def test_exits_include_their_edges() -> None:
    positions = [[154, 154], [155, 100], [1152, 1280], [1151, 1200]]
    assert MAZE.in_exit(positions).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("width", 0, "width of PlanarWorld must be above 0; got 0"),
        ("step", -1.0, "step of PlanarWorld must be above 0"),
        ("noise", -1.0, "noise of PlanarWorld must be at least 0"),
        ("gamma", 1.0, r"gamma of PlanarWorld must be in \[0, 1\); got 1.0"),
    ],
)
def test_bad_parameters(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world_of(**{name: value})


@WORLDS
def test_optimum_is_what_its_greedy_policy_earns(world: PlanarWorld) -> None:
    optimum = optimal_values(world, cell=25.6, n_nodes=12)
    rng = np.random.default_rng(5)
    starts = positions = world.random_starts(600, rng)
    returns = np.zeros(len(starts))
    going = np.arange(len(starts))
    for step in range(100):
        actions = optimum.q(positions).argmax(axis=1)
        positions, exited = world.move(positions, actions, rng)
        returns[going[exited]] = world.reward * world.gamma**step
        positions, going = positions[~exited], going[~exited]
        if not len(going):
            break
    error = returns - optimum.q(starts).max(axis=1)
    assert len(going) == 0
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(error)) + 0.3


@pytest.mark.slow
def test_optimum_is_stable_under_refinement() -> None:
    exits, walls = ((520, 320, 600, 400),), (((300, 100), (300, 400)),)
    world = world_of(width=600, height=400, step=100, noise=20, exits=exits, walls=walls)
    positions = world.random_starts(300, np.random.default_rng(0))
    coarse = optimal_values(world).q(positions)
    fine = optimal_values(world, cell=6.4, n_nodes=24).q(positions)
    assert np.abs(coarse - fine).mean() < 0.5
    assert np.abs(coarse - fine).max() < 3


def test_optimum_without_noise_counts_steps() -> None:
    exits, walls = ((90, 0, 100, 20),), (((50, 0), (50, 20)),)
    world = world_of(width=100, height=20, step=10, exits=exits, walls=walls)
    positions = np.array([[85.0, 5.0], [75.0, 5.0], [55.5, 5.0], [45.0, 5.0]])
    optimum = optimal_values(world, cell=2)
    assert optimum.q(positions).max(axis=1) == pytest.approx([100, 90, 72.9, 0])
    # Up is blocked, so the agent stays and then takes the best move of where it is.
    assert optimum.q(positions[:1])[0] == pytest.approx([90, 100, 90, 81])


def test_optimum_is_kept_and_checks_its_arguments() -> None:
    world = world_of(noise=1, exits=((0, 0, 5, 5),))
    assert optimal_values(world) is optimal_values(world)
    with pytest.raises(ValueError, match="cell of optimal_values must be above 0; got 0"):
        optimal_values(world, cell=0)
