from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc.envs.campus.graph_world import ACTION_NAMES, CAMPUS, GraphWorld

PLACES = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)]
NORTH, EAST, SOUTH, WEST = range(4)
LEFT, RIGHT, FORWARD = range(3)


def literally(spot: int, heading: int, action: int) -> tuple[tuple[int, int], float, bool]:
    """The task in the words of its definition: where one comes to, what one earns, the end."""
    if action == LEFT:
        return (spot, {NORTH: WEST, WEST: SOUTH, SOUTH: EAST, EAST: NORTH}[heading]), -5.0, False
    if action == RIGHT:
        return (spot, {NORTH: EAST, EAST: SOUTH, SOUTH: WEST, WEST: NORTH}[heading]), -5.0, False
    if (spot, heading) == (10, EAST):
        return (spot, heading), 100.0, True
    x, y = PLACES[spot]
    x += {EAST: 1, WEST: -1}.get(heading, 0)
    y += {NORTH: 1, SOUTH: -1}.get(heading, 0)
    if (x, y) in PLACES:
        ahead = PLACES.index((x, y))
        if {spot, ahead} not in ({1, 5}, {2, 6}):
            return (ahead, heading), -10.0, False
    return (spot, heading), -10.0, False


def test_every_action_does_what_the_task_says() -> None:
    assert CAMPUS.n_states == 44
    for state in range(44):
        for action in range(3):
            (spot, heading), reward, ends = literally(state // 4, state % 4, action)
            assert CAMPUS.next_state[state, action] == 4 * spot + heading
            assert CAMPUS.reward[state, action] == reward
            assert CAMPUS.terminated[state, action] == ends


def test_tables_are_read_only_and_actions_have_names() -> None:
    for table in (CAMPUS.next_state, CAMPUS.reward, CAMPUS.terminated):
        assert table.shape == (44, 3)
        assert not table.flags.writeable
    assert ACTION_NAMES == ("turn left", "turn right", "forward")
    assert [CAMPUS.name(state) for state in (0, 5, 41, 43)] == ["0N", "1E", "10E", "10W"]
    assert (CAMPUS.gamma, len(CAMPUS.links)) == (0.8, 13)


def test_optimal_values_near_the_goal_by_hand() -> None:
    value = CAMPUS.optimal_q().max(axis=1)
    assert value[4 * 10 + EAST] == pytest.approx(100)
    assert value[4 * 10 + NORTH] == pytest.approx(-5 + 0.8 * 100)
    assert value[4 * 10 + WEST] == pytest.approx(-5 + 0.8 * 75)
    assert value[4 * 9 + EAST] == pytest.approx(-10 + 0.8 * 100)


@given(st.floats(0, 0.97))
def test_optimal_values_solve_the_bellman_equation(gamma: float) -> None:
    q = replace(CAMPUS, gamma=gamma).optimal_q()
    onward = np.where(CAMPUS.terminated, 0.0, q.max(axis=1)[CAMPUS.next_state])
    np.testing.assert_allclose(q, CAMPUS.reward + gamma * onward, atol=1e-9)


def test_the_optimal_policy_reaches_the_goal_from_everywhere() -> None:
    best = CAMPUS.optimal_q().argmax(axis=1)
    for start in range(44):
        state = start
        for _ in range(11):
            if CAMPUS.terminated[state, best[state]]:
                break
            state = int(CAMPUS.next_state[state, best[state]])
        assert state == 41


def test_equally_good_actions_are_all_optimal() -> None:
    states = np.repeat(np.arange(44), 3).reshape(44, 3)
    table = CAMPUS.is_optimal(np.tile([0, 1, 2], (44, 1)), states)
    assert table.any(axis=1).all()
    assert table[4 * 10 + WEST].tolist() == [True, True, False]
    assert table[4 * 10 + EAST].tolist() == [False, False, True]
    assert table[4 * 10 + SOUTH].tolist() == [True, False, False]
    q = CAMPUS.optimal_q()
    np.testing.assert_array_equal(table, q >= q.max(axis=1, keepdims=True) - 1e-9)
    # Without a future only the next reward counts, and a turn is cheaper than a step.
    assert replace(CAMPUS, gamma=0.0).is_optimal([0, 1, 2], 0).tolist() == [True, True, False]


@pytest.mark.parametrize("gamma", [1.0, -0.1, float("nan")])
def test_gamma_must_be_below_one(gamma: float) -> None:
    with pytest.raises(ValueError, match=r"gamma of GraphWorld must be in \[0, 1\); got"):
        GraphWorld(places=((0, 0),), links=(), goal=(0, 0), gamma=gamma)


@pytest.mark.parametrize("link", [(0, 2), (0, 5), (-1, 0), (1, 1)])
def test_links_join_neighbours(link: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="links of GraphWorld must join spots one step apart; got"):
        GraphWorld(places=((0, 0), (1, 0), (2, 0)), links=(link,), goal=(0, 0))


@pytest.mark.parametrize("goal", [(1, 0), (0, 4), (-1, 0)])
def test_goal_is_a_spot_and_a_heading(goal: tuple[int, int]) -> None:
    message = "goal of GraphWorld must be a spot from 0 to 0 and a heading"
    with pytest.raises(ValueError, match=message):
        GraphWorld(places=((0, 0),), links=(), goal=goal)
