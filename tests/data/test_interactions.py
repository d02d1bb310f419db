from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc import Interactions, Percepts, collect
from rlvc.data.observations import rows_of
from rlvc.data.validation import check_episodes
from tests.oracle import rlvc as oracle
from tests.support.builders import percept_store, pictures
from tests.support.worlds import Walk


def test_returns_end_with_the_episode() -> None:
    images = pictures(2, shape=(4, 4, 3))
    data = Interactions.from_arrays(
        images[[0, 1] * 3], [0] * 6, [1, 2, 4, 8, 16, 32],
        [False, True, False, False, False, False], [False, False, False, True, False, False],
        next_observations=images[[1, 0] * 3],
    )  # fmt: skip
    assert data.episode.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.is_last.tolist() == [False, True, False, True, False, True]
    assert data.returns(0.5).tolist() == [2, 2, 8, 8, 32, 32]
    assert data.returns(0.0).tolist() == data.reward.tolist()


@given(seed=st.integers(0, 2**32 - 1))
def test_stuck_actions_agree_with_the_oracle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    start, end, action = rng.integers(0, 3, (3, n))
    terminated = rng.random(n) < 0.1
    data = Interactions(
        percept_store(3), start, action, np.zeros(n), end, np.arange(n), terminated, terminated, 3
    )
    sequence = [
        oracle.Interaction(*row)
        for row in zip(
            start.tolist(), action.tolist(), [Fraction(0)] * n, end.tolist(), terminated.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    assert data.is_stuck.tolist() == [oracle.is_stuck(one, sequence) for one in sequence]


UNEVEN = {"a": pictures(2, shape=(4, 4)), "b": pictures(1, shape=(4, 4))}


def rows(**changed: Any) -> Interactions:
    """Return two interactions, with some columns replaced."""
    images = pictures(2, shape=(4, 4, 3))
    given: dict[str, Any] = {
        "observations": images, "actions": [0, 1], "rewards": [0.0, 1.0],
        "terminated": [False, True], "next_observations": images[::-1],
    }  # fmt: skip
    return Interactions.from_arrays(**{**given, **changed})


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32, np.uint64])
def test_actions_are_counted_from_their_start(dtype: type[np.integer[Any]]) -> None:
    data = rows(actions=np.array([5, 7], dtype), action_start=5, n_actions=4)
    assert (data.action.tolist(), data.action_start, data.n_actions) == ([0, 2], 5, 4)
    assert data.action.dtype == np.int64


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"actions": [0]}, r"^action of Interactions must have 2 entries; got 1\.$"),
        ({"rewards": [0, 1, 2]}, r"^reward of Interactions must have 2 entries; got 3\.$"),
        (
            {"actions": [0, -1]},
            r"^action of Interactions must be in 0\.\.0; got -1 in row 1\. Correct it, or the "
            r"number of actions\.$",
        ),
        (
            {
                "observations": [], "actions": [], "rewards": [], "terminated": [],
                "next_observations": [],
            },
            r"^Interactions must hold at least one interaction; got none\.$",
        ),
        ({"actions": [0.3, 0.9]}, r"^actions of from_arrays must be integers, the .* 0\.3\.$"),
        ({"actions": [[0], [1]]}, r"^action of .* must have 2 entries; got shape \(2, 1\)\.$"),
        (
            {"next_observations": pictures(3, shape=(4, 4, 3))},
            r"^observations, next_observations must have the same number of rows; observations "
            r"ends after 2\.$",
        ),
        (
            {"next_observations": pictures(1, shape=(4, 4, 3))},
            r"^observations, next_observations must have the same number of rows; "
            r"next_observations ends after 1\.$",
        ),
        (
            dict.fromkeys(("observations", "next_observations"), UNEVEN),
            r"^a, b must have the same number of rows; b ends after 1\.$",
        ),
    ],
)  # fmt: skip
def test_a_database_explains_what_is_wrong(changed: dict[str, Any], message: str) -> None:
    is_type = message.startswith("^actions of from_arrays")
    with pytest.raises(TypeError if is_type else ValueError, match=message):
        rows(**changed)


def test_percepts_are_checked_too() -> None:
    percepts = Percepts()
    percepts.add(np.zeros((4, 4, 3), np.uint8))
    zero, flag = np.zeros(1, np.int64), np.zeros(1, np.bool_)
    with pytest.raises(ValueError, match=r"^end of Interactions must be in 0\.\.0; got 1 in row 0"):
        Interactions(percepts, zero, zero, np.zeros(1), zero + 1, zero, flag, flag, 1)


def test_a_row_that_starts_elsewhere_does_not_continue_the_episode() -> None:
    images = pictures(3, shape=(4, 4, 3))
    data = Interactions.from_arrays(
        images[[0, 2, 1]], [0] * 3, [1, 2, 4], [False] * 3, next_observations=images[[1, 1, 0]]
    )
    assert data.is_last.tolist() == [True, False, True]
    assert data.returns(0.5).tolist() == [1, 4, 4]
    assert data.to_d3rlpy()["timeouts"].tolist() == [1.0, 0.0, 1.0]


# All that is wrong, at once ----------------------------------------------------------------------


def test_all_errors_of_a_database_are_raised_at_once() -> None:
    nan, inf = float("nan"), float("inf")
    images = pictures(9, shape=(4, 4, 3))
    with pytest.raises(ValueError, match=r"^action_names") as caught:
        Interactions.from_arrays(
            images, [5, 6, 4, 9, 5, 5, 5, 5, 5], [nan, inf, 0, 1e200, nan, nan, nan, nan, nan],
            np.zeros(9), next_observations=images, n_actions=2, action_start=5,
            action_names=("a", "b", "c"),
        )  # fmt: skip
    assert str(caught.value).split("\n") == [
        "action_names of Interactions must name 2 actions; got 3. Name all or none.",
        "reward of Interactions must be finite; got nan in row 0, inf in row 1, nan in row 4, "
        "nan in row 5, nan in row 6 and 2 more. Correct it, or leave the episode out.",
        "reward of Interactions must be 0 or between 1e-100 and 1e100 in size; got 1e+200 in "
        "row 3. Scale the rewards: policies do not change.",
        "action of Interactions must be in 5..6; got 4 in row 2, 9 in row 3. Correct it, or the "
        "number of actions.",
    ]


def test_rows_of_a_dict_are_dicts() -> None:
    front, rear = pictures(3, shape=(4, 4, 3)), pictures(3, 1, (4, 4))
    inner = {"x": np.arange(3), "y": ["a", "b", "c"]}
    found = list(rows_of({"front": front, "rear": rear, "inner": inner}))
    assert len(found) == 3
    for number, row in enumerate(found):
        assert list(row) == ["front", "rear", "inner"]
        assert np.array_equal(row["front"], front[number])
        assert np.array_equal(row["rear"], rear[number])
        assert row["inner"] == {"x": number, "y": "abc"[number]}
    assert [np.array_equal(a, b) for a, b in zip(rows_of(front), front, strict=True)] == [True] * 3
    assert list(rows_of(iter([1, 2]))) == [1, 2]


@pytest.mark.parametrize("is_batched", [False, True])
def test_observations_may_be_dicts_or_a_dict(is_batched: bool) -> None:
    front, rear = pictures(3, shape=(16, 16, 3)), pictures(3, 1, (16, 16))
    told = {"front": front, "rear": rear, "speed": np.arange(3.0)}
    given: Any = told if is_batched else list(rows_of(told))
    data = Interactions.from_arrays(given, [0, 1, 0], [0, 0, 1], [0, 0, 1], next_observations=given)
    assert data.percepts.cameras == ("front", "rear")
    assert data.start.tolist() == data.end.tolist() == [0, 1, 2]


# Whole episodes ----------------------------------------------------------------------------------


def episodes(start: list[int], end: list[int], episode: list[int], ends: list[int]) -> Interactions:
    n = len(start)
    column = np.array
    return Interactions(
        percept_store(4), column(start), np.zeros(n, np.int64), np.zeros(n), column(end),
        column(episode), np.zeros(n, np.bool_), column(ends, np.bool_), 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (([0, 1, 3], [1, 2, 0], [0, 0, 1], [0, 1, 1]), []),
        (([0], [0], [0], [1]), []),
        (
            ([0], [0], [7], [0]),
            ["episode 7 has no end: row 0 is neither terminated nor truncated."],
        ),
        (
            ([0, 2, 3, 0], [1, 2, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0]),
            [
                "episode 0 has no end: row 1 is neither terminated nor truncated.",
                "episode 1 has no end: row 3 is neither terminated nor truncated.",
                "row 1 does not start where row 0 ended, in the same episode.",
                "episode 1 continues after its end in row 2.",
            ],
        ),
    ],
)
def test_what_keeps_episodes_from_being_whole(given: Any, problems: list[str]) -> None:
    assert check_episodes(episodes(*given)) == problems


# For d3rlpy --------------------------------------------------------------------------------------


def test_flat_arrays_for_d3rlpy() -> None:
    data = collect(Walk(start=3, limit=7), 60, seed=1)
    flat = data.to_d3rlpy()
    assert {name: (array.shape, str(array.dtype)) for name, array in flat.items()} == {
        "observations": ((60, 3, 64, 64), "uint8"),
        "actions": ((60, 1), "int64"),
        "rewards": ((60, 1), "float64"),
        "terminals": ((60,), "float32"),
        "timeouts": ((60,), "float32"),
    }
    for t in range(60):
        seen = np.asarray(data.percepts[int(data.start[t])])
        assert np.array_equal(flat["observations"][t].transpose(1, 2, 0), seen)
    assert flat["actions"][:, 0].tolist() == data.action.tolist()  # it counts from 0
    assert flat["rewards"][:, 0].tolist() == data.reward.tolist()
    assert flat["terminals"].tolist() == data.terminated.tolist()
    assert flat["timeouts"].tolist() == data.truncated.tolist()
    assert data.truncated.any()
    assert (flat["terminals"] + flat["timeouts"])[-1] == 1.0  # whole episodes


def test_cameras_are_planes_for_d3rlpy() -> None:
    front, rear = pictures(2, shape=(16, 20, 3)), pictures(2, 1, (16, 20, 1))
    both = [{"rear": rear[i], "front": front[i]} for i in range(2)]
    data = Interactions.from_arrays(both, [0, 1], [0, 1], [0, 1], next_observations=both[::-1])
    planes = data.to_d3rlpy()["observations"]
    assert planes.shape == (2, 4, 16, 20)
    assert np.array_equal(planes[:, :3].transpose(0, 2, 3, 1), front)
    assert np.array_equal(planes[:, 3], rear[..., 0])


def test_cameras_of_several_sizes_are_not_for_d3rlpy() -> None:
    both = [{"a": np.zeros((16, 16), np.uint8), "b": np.zeros((16, 20), np.uint8)}]
    data = Interactions.from_arrays(both, [0], [1], [True], next_observations=both)
    with pytest.raises(
        ValueError,
        match=r"^The images of all cameras must have one size for d3rlpy; got "
        r"\{'a': \(16, 16, 1\), 'b': \(16, 20, 1\)\}\. Resize them, or export the interactions "
        r"of one camera\.$",
    ):
        data.to_d3rlpy()
