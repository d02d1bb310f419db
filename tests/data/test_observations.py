from __future__ import annotations

import logging
import re
from typing import Any

import gymnasium
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Policy, collect, evaluate
from rlvc.data import as_percept, check_spaces
from rlvc.data.observations import frame_name, frame_of
from rlvc.data.spaces import RENDER, SUPPORTED, warn_of_ignored_entries
from rlvc.policies import check_compatible
from rlvc.report.video import play
from tests.support.builders import pictures
from tests.support.worlds import (
    BEST,
    GREYS,
    KINDS,
    N_CELLS,
    PICTURES,
    REAR,
    SIDE,
    Corridor,
    space_of,
)

SEEN = [kind for kind in KINDS if kind != "vector"]
FRAMES = [kind for kind in SEEN if kind.startswith(("first", "last", "nested"))]
PAIRS = [(now, now) for now in range(N_CELLS)] + [(1, 0), (0, 1), (3, 4), (4, 3)]


def expected(kind: str, before: int, now: int) -> dict[str, Any]:
    """Return by hand what each camera should show; grey images may have their channel or not."""
    return {
        "colour": {"": PICTURES[now]},
        "grey": {"": GREYS[now]},
        "plane": {"": GREYS[now]},
        "cameras": {"front": PICTURES[now], "rear": GREYS[REAR]},
        "told": {"image": PICTURES[now]},
        "first": {"frame 1": GREYS[before], "frame 2": GREYS[now]},
        "first colour": {"frame 1": PICTURES[before], "frame 2": PICTURES[now]},
        "last": {"frame 1": GREYS[before], "frame 2": GREYS[now]},
        "last colour": {"frame 1": PICTURES[before], "frame 2": PICTURES[now]},
        "nested": {
            "front frame 1": PICTURES[before], "front frame 2": PICTURES[now],
            "rear frame 1": GREYS[before], "rear frame 2": GREYS[now],
        },
    }[kind]  # fmt: skip


def frames_of(percept: Any) -> list[NDArray[np.uint8]]:
    return list(percept.values()) if isinstance(percept, dict) else [percept]


def batch_of(observations: list[Any]) -> Any:
    """Return observations as a vector environment stacks them."""
    if isinstance(observations[0], dict):
        return {name: np.stack([one[name] for one in observations]) for name in observations[0]}
    return np.stack(observations)


@pytest.fixture(scope="module")
def policies() -> dict[str, Policy]:
    """A policy that was learned from each kind of observation."""
    learner = RLVC(gamma=0.5, threads=1)
    return {kind: learner.learn(collect(Corridor(kind=kind), 300)) for kind in SEEN}


# What is perceived -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SEEN)
def test_every_kind_of_observation_shows_its_images(kind: str) -> None:
    for before, now in PAIRS:
        percept = as_percept(KINDS[kind](before, now))
        parts = percept if isinstance(percept, dict) else {"": percept}
        wanted = expected(kind, before, now)
        assert list(parts) == list(wanted)
        for camera, image in wanted.items():
            shown = np.asarray(parts[camera])
            assert shown.dtype == np.uint8
            assert np.array_equal(shown.reshape(image.shape), image)


@given(
    n=st.integers(1, 16), n_channels=st.sampled_from([0, 1, 3]), seed=st.integers(0, 2**32 - 1),
    height=st.integers(17, 40), width=st.integers(17, 40),
)  # fmt: skip
def test_frames_of_a_first_axis_are_kept_in_order(
    n: int, n_channels: int, seed: int, height: int, width: int
) -> None:
    stack = pictures(n, seed, (height, width, n_channels) if n_channels else (height, width))
    percept = as_percept(stack)
    frames = frames_of(percept)
    assert len(frames) == n
    assert all(np.array_equal(a, b) for a, b in zip(frames, stack, strict=True))
    if isinstance(percept, dict):
        assert list(percept) == sorted(percept)  # as percepts order their cameras


@given(n=st.integers(1, 16), seed=st.integers(0, 2**32 - 1))
def test_no_plane_of_a_last_axis_is_lost(n: int, seed: int) -> None:
    image = pictures(1, seed, (18, 20, n))[0]
    percept = as_percept(image)
    frames = frames_of(percept)
    assert {frame.shape[2] for frame in frames} == {3 if n % 3 == 0 else 1}
    assert np.array_equal(np.concatenate(frames, axis=2), image)


def test_frames_have_names_that_sort() -> None:
    names = [frame_name("front", i, 12) for i in range(1, 13)]
    assert names == sorted(names)
    assert [frame_of(name) for name in names] == [("front", i) for i in range(1, 13)]
    assert frame_of("my frame") is None
    assert frame_of("frame x") is None


def test_entries_beside_the_images_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        collect(Corridor(kind="nested"), 30)
    assert caplog.messages == ["Only images are learned from; left out: speed."]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        collect(Corridor(kind="first"), 30)
    assert caplog.messages == []


# What a policy looks at --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SEEN)
def test_a_policy_takes_what_the_environment_shows(kind: str, policies: dict[str, Policy]) -> None:
    policy = policies[kind]
    observations = [KINDS[kind](*pair) for pair in PAIRS]
    wanted = [expected(kind, *pair) for pair in PAIRS]
    by_camera = [one.get("", one) for one in wanted]
    actions = [int(policy.predict(one)[0]) for one in by_camera]
    assert actions[:2] + actions[3:N_CELLS] == BEST[:2] + BEST[3:]
    for one, action in zip(observations, actions, strict=True):
        found, state = policy.predict(one, state="mine")
        assert (found.shape, str(found.dtype), int(found), state) == ((), "int64", action, "mine")
        assert policy.explain(one).action == action
    for n in (1, 2, len(PAIRS)):
        assert policy.predict(batch_of(observations[:n]))[0].tolist() == actions[:n]
        assert policy.predict(batch_of(by_camera[:n]))[0].tolist() == actions[:n]


@pytest.mark.parametrize("kind", ["cameras", "told", "nested"])
def test_other_entries_of_a_dict_do_not_matter(kind: str, policies: dict[str, Policy]) -> None:
    observation = KINDS[kind](0, 1)
    action = policies[kind].predict(observation)[0]
    del observation["speed"]
    assert policies[kind].predict(observation)[0] == action
    observation |= {"note": "hello", "deep": {"x": 1}, "small": np.zeros((2, 2), np.uint8)}
    assert policies[kind].predict(observation)[0] == action


def test_frames_may_come_in_any_order_of_axes(policies: dict[str, Policy]) -> None:
    first, last = KINDS["first"](0, 1), KINDS["last"](0, 1)
    plane = first[..., None]
    for kind in ("first", "last"):
        for one in (first, last, plane):
            assert policies[kind].predict(one)[0] == 1
        for many in (first, last, plane):
            assert policies[kind].predict(np.stack([many] * 3))[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "observation", "message"),
    [
        (
            "first colour", PICTURES[0],
            "The frames of this policy are 2 of shape (48, 48, 3), such as (2, 48, 48, 3); got an "
            "observation of shape (48, 48, 3).",
        ),
        (
            "first", np.zeros((3, SIDE, SIDE), np.uint8),
            "The frames of this policy are 2 of shape (48, 48, 1), such as (2, 48, 48, 1); got an "
            "observation of shape (3, 48, 48).",
        ),
        (
            "cameras", {"front": PICTURES[0]},
            "The cameras of this policy are ['front', 'rear']; got ['front'].",
        ),
        (
            "cameras", {"front": PICTURES[:2], "rear": GREYS[REAR]},
            "The cameras of an observation must have the same number of images.",
        ),
        (
            "colour", GREYS[0],
            "The channels of the observation must be 3, as in learning; got shape (48, 48).",
        ),
    ],
)  # fmt: skip
def test_an_observation_that_does_not_fit(
    kind: str, observation: Any, message: str, policies: dict[str, Policy]
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        policies[kind].predict(observation)


class Odd(Corridor):
    """The corridor, with one more axis in front, or with the colours first."""

    def __init__(self, kind: str, how: str) -> None:
        super().__init__(kind=kind)
        look = self._look
        if how == "one":
            self._look = lambda before, now: look(before, now)[None]
        else:
            self._look = lambda before, now: np.moveaxis(look(before, now), 2, 0).copy()
        self.observation_space = space_of(self._look(0, 0))


@pytest.mark.parametrize(
    ("kind", "how", "cameras"),
    [
        ("colour", "one", ("frame 1",)),
        ("grey", "one", ("frame 1",)),
        ("colour", "planes", ("frame 1", "frame 2", "frame 3")),
    ],
)
def test_a_stack_of_one_frame_and_planes_of_colour(
    kind: str, how: str, cameras: tuple[str, ...]
) -> None:
    env = Odd(kind, how)
    policy = RLVC(gamma=0.5, threads=1).learn(env, interactions=150, rounds=2)
    assert tuple(policy.shapes) == cameras
    check_compatible(policy, env)
    assert evaluate(policy, env, episodes=10).terminated.all()
    assert collect(env, 40, policy=policy, epsilon=0.0).terminated.sum() >= 15
    assert len(list(play(policy, env, fps=1.0))) >= 3
    observation, _ = env.reset(seed=1)
    assert policy.predict(observation)[0].shape == ()
    assert policy.predict(np.stack([observation] * 2))[0].shape == (2,)
    assert policy.explain(observation).action == policy.predict(observation)[0]


def test_small_entries_are_left_out_beside_an_image(caplog: pytest.LogCaptureFixture) -> None:
    class Beside(Corridor):
        def __init__(self) -> None:
            super().__init__()
            look = self._look
            self._look = lambda before, now: {
                "front": look(before, now), "map": np.zeros((7, 7, 3), np.uint8)
            }  # fmt: skip
            self.observation_space = space_of(self._look(0, 0))

    policy = RLVC(gamma=0.5, threads=1).learn(Beside(), interactions=100, rounds=1)
    assert list(policy.shapes) == ["front"]
    assert "Only images are learned from; left out: map." in caplog.messages
    assert evaluate(policy, Beside(), episodes=3).terminated.all()


@pytest.mark.parametrize(("shape", "n"), [((3, 64, 64), 3), ((64, 64, 4), 4)])
def test_frames_that_may_be_colours_are_warned_of(
    shape: tuple[int, ...], n: int, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_ignored_entries(spaces.Box(0, 255, shape, np.uint8))
    assert caplog.messages == [
        f"Observations of shape {shape} are read as {n} grey frames. If they are the colours of "
        "one image, convert them to (H, W, 3)."
    ]


# What cannot be perceived ------------------------------------------------------------------------


def refuse(seen: spaces.Space[Any], message: str, actions: Any = None) -> None:
    env = Corridor()
    env.observation_space = seen
    env.action_space = actions or env.action_space
    for reject in (lambda: check_spaces(env), lambda: collect(env, 1), lambda: RLVC().learn(env)):
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            reject()


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (spaces.Box(-1.0, 1.0, (4,)), "Box(-1.0, 1.0, (4,), float32)"),
        (spaces.Box(0.0, 1.0, (64, 64, 3)), "Box(0.0, 1.0, (64, 64, 3), float32)"),
        (spaces.Box(0, 255, (128,), np.uint8), "Box(0, 255, (128,), uint8)"),
        (spaces.Box(0, 255, (64, 64, 0), np.uint8), "Box([], [], (64, 64, 0), uint8)"),
        (spaces.Box(0, 255, (64, 64, 17), np.uint8), "Box(0, 255, (64, 64, 17), uint8)"),
        (spaces.Box(0, 255, (17, 64, 64), np.uint8), "Box(0, 255, (17, 64, 64), uint8)"),
        (spaces.Box(0, 255, (2, 2, 64, 64, 3), np.uint8), "Box(0, 255, (2, 2, 64, 64, 3), uint8)"),
        (spaces.Discrete(7), "Discrete(7)"),
        (
            spaces.Dict({"speed": spaces.Box(-1.0, 1.0, (1,)), "gear": spaces.Discrete(5)}),
            "Dict('gear': Discrete(5), 'speed': Box(-1.0, 1.0, (1,), float32))",
        ),
        (
            spaces.Tuple([spaces.Box(0, 255, (64, 64), np.uint8)]),
            "Tuple(Box(0, 255, (64, 64), uint8))",
        ),
        (
            spaces.Dict({f"sensor {i}": spaces.Discrete(5) for i in range(30)}),
            f"{str(spaces.Dict({f'sensor {i}': spaces.Discrete(5) for i in range(30)}))[:200]} …",
        ),
    ],
    ids=lambda one: str(one)[:20],
)
def test_observations_without_images_are_refused(seen: spaces.Space[Any], text: str) -> None:
    refuse(
        seen,
        f"The observations of the environment must be images; got {text}. {SUPPORTED} {RENDER}",
    )


@pytest.mark.parametrize(
    ("shape", "size"), [((7, 7, 3), "7 × 7"), ((11, 64), "11 × 64"), ((4, 64, 8), "64 × 8")]
)
def test_tiny_images_are_refused(shape: tuple[int, ...], size: str) -> None:
    tiny = spaces.Box(0, 255, shape, np.uint8)
    tail = f"must have at least 12 × 12 pixels; got {size}, which is too small for any feature. "
    refuse(tiny, f"The images of the observation {tail}{RENDER}")
    refuse(spaces.Dict({"eye": tiny}), f"The images of observation 'eye' {tail}{RENDER}")


def test_symbolic_observations_of_minigrid_are_refused() -> None:
    env = gymnasium.make("MiniGrid-Empty-5x5-v0", disable_env_checker=True)
    with pytest.raises(TypeError, match=r"^The images of observation 'image' must .* got 7 × 7, "):
        check_spaces(env)


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        (spaces.Box(-1.0, 1.0, (2,)), "Box(-1.0, 1.0, (2,), float32)"),
        (spaces.MultiDiscrete([3, 2]), "MultiDiscrete([3 2])"),
        (spaces.MultiBinary(3), "MultiBinary(3)"),
    ],
)
def test_actions_that_are_no_list_are_refused(actions: spaces.Space[Any], text: str) -> None:
    refuse(
        Corridor().observation_space,
        f"The action space of the environment must be Discrete; got {text}. "
        "Wrap the environment so that it offers a list of actions.",
        actions,
    )


def test_an_image_of_another_shape_than_the_first_is_refused() -> None:
    class Growing(Corridor):
        def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            seen, reward, ends, cut, info = super().step(action)
            return np.pad(seen, ((0, 1), (0, 0), (0, 0))), reward, ends, cut, info

    with pytest.raises(
        ValueError,
        match=r"^The shape of the percept must be \(48, 48, 3\), as before; got \(49, 48, 3\)\. "
        r"Resize the images to one size\.$",
    ):
        collect(Growing(), 5)
