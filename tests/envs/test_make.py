from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlvc.data import as_percept, check_spaces
from rlvc.envs import make as environments
from rlvc.envs.make import EnvConfig, parse_arguments, parse_size
from tests.support.worlds import PICTURES, SIDE, Corridor

CORRIDOR = "tests.support.worlds:Corridor-v0"
MINIGRID = "minigrid:MiniGrid-Empty-5x5-v0"


class Bright(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Add something to every pixel, and remember in which order wrappers were put on."""

    def __init__(self, env: Any, by: int = 1, *, note: str = "") -> None:
        super().__init__(env)
        self.by, self.note = by, note

    def observation(self, observation: Any) -> Any:
        return observation + np.uint8(self.by)


def not_an_environment(env: Any) -> str:
    return "nothing"


def fails(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def first_of(config: EnvConfig) -> Any:
    env = config.make()
    check_spaces(env)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    return observation


def test_an_id_is_enough() -> None:
    env = EnvConfig(env_id=CORRIDOR).make()
    assert isinstance(env.unwrapped, Corridor)
    assert env.render_mode is None
    assert any(np.array_equal(first_of(EnvConfig(env_id=CORRIDOR)), one) for one in PICTURES)


def test_arguments_go_to_the_environment() -> None:
    config = EnvConfig(env_id=CORRIDOR, arguments={"kind": "grey", "start": 4, "limit": 2})
    env = config.make()
    assert env.action_space == spaces.Discrete(2, start=4)
    assert env.observation_space.shape == (SIDE, SIDE)
    assert config.make(limit=1, render_mode="rgb_array").render_mode == "rgb_array"
    assert config.arguments == {"kind": "grey", "start": 4, "limit": 2}


def test_wrappers_go_on_from_the_inside() -> None:
    wraps = [f"{__name__}:Bright(by=2, note='a (b), c=d')", f"{__name__}:Bright"]
    env: Any = EnvConfig(env_id=CORRIDOR, wraps=wraps).make()
    assert (env.by, env.note) == (1, "")
    assert (env.env.by, env.env.note) == (2, "a (b), c=d")
    plain = first_of(EnvConfig(env_id=CORRIDOR))
    assert np.array_equal(first_of(EnvConfig(env_id=CORRIDOR, wraps=wraps)), plain + np.uint8(3))


def test_a_wrapper_of_a_package() -> None:
    for wrap, side in (("RGBImgObsWrapper", 40), ("RGBImgObsWrapper(tile_size=12)", 60)):
        config = EnvConfig(env_id=MINIGRID, wraps=[f"minigrid.wrappers:{wrap}"])
        seen = as_percept(first_of(config))
        assert isinstance(seen, dict)
        assert seen["image"].shape == (side, side, 3)


def test_what_is_drawn_can_be_what_is_seen() -> None:
    config = EnvConfig(env_id=CORRIDOR, arguments={"kind": "vector"}, render=True)
    seen = first_of(config)
    assert seen.shape == (2 * SIDE, 2 * SIDE, 3)
    assert any(np.array_equal(seen[::2, ::2], one) for one in PICTURES)


def test_sizes_are_width_by_height() -> None:
    assert first_of(EnvConfig(env_id=CORRIDOR, size=(30, 20))).shape == (20, 30, 3)
    grey = EnvConfig(env_id=CORRIDOR, size=(30, 20), arguments={"kind": "grey"})
    assert first_of(grey).shape == (20, 30)
    both = EnvConfig(env_id=CORRIDOR, arguments={"kind": "vector"}, render=True, size=(32, 24))
    assert first_of(both).shape == (24, 32, 3)


def test_frames_are_the_last_ones() -> None:
    env = EnvConfig(env_id=CORRIDOR, size=(32, 24), frames=3).make()
    first, _ = env.reset(seed=1)
    assert first.shape == (3, 24, 32, 3)
    second, *_ = env.step(np.int64(1))
    assert np.array_equal(second[:2], first[1:])
    percept = as_percept(second)
    assert isinstance(percept, dict)
    assert list(percept) == ["frame 1", "frame 2", "frame 3"]
    cameras = EnvConfig(env_id=CORRIDOR, arguments={"kind": "cameras"}, frames=2).make()
    percept = as_percept(cameras.reset(seed=0)[0])
    assert isinstance(percept, dict)
    assert list(percept) == ["front frame 1", "front frame 2", "rear frame 1", "rear frame 2"]


def test_only_images_are_stacked(caplog: pytest.LogCaptureFixture) -> None:
    wraps = ["minigrid.wrappers:RGBImgObsWrapper"]
    env = EnvConfig(env_id=MINIGRID, wraps=wraps, frames=2).make()
    assert isinstance(env.observation_space, spaces.Dict)
    assert env.observation_space["image"].shape == (2, 40, 40, 3)
    assert list(env.observation_space) == ["image"]
    assert caplog.messages == ["Only images are learned from; left out: direction, mission."]
    assert isinstance(as_percept(env.reset(seed=0)[0]), dict)
    blind: Any = Corridor()
    blind.observation_space = spaces.Dict({"speed": spaces.Discrete(3)})
    assert environments._stack(blind, 2) is blind
    with pytest.raises(TypeError, match=r"^The observations of the environment must be images; "):
        check_spaces(blind)


# What is written on a command line ---------------------------------------------------------------


def test_arguments_are_plain_values_or_texts() -> None:
    texts = ["a=4", "b=4.5", "c=True", "d=None", "e=[1, 2]", "f=left", "g='4'", "h=", "i=x=y"]
    assert parse_arguments(texts) == {
        "a": 4, "b": 4.5, "c": True, "d": None, "e": [1, 2], "f": "left", "g": "4", "h": "",
        "i": "x=y",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a", "=4", "a b=4", "4=a", ""])
def test_an_argument_needs_a_name(text: str) -> None:
    fails(lambda: parse_arguments([text]), f"An argument must read NAME=VALUE; got {text!r}.")


def test_code_in_an_argument_is_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "__import__('os').mkdir('ran')"
    assert parse_arguments([f"a={code}"]) == {"a": code}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["160", "160x", "x120", "0x5", "-1x5", "1.5x2", "axb", "1x2x3"])
def test_a_size_that_is_none(text: str) -> None:
    told = f"A size must read WIDTHxHEIGHT, such as 160x120; got {text!r}."
    fails(lambda: parse_size(text), told)
    assert parse_size("160X120") == (160, 120)


# What goes wrong ---------------------------------------------------------------------------------


CURE = " If a package provides it, name its module as well, such as minigrid:MiniGrid-Empty-8x8-v0."
MISSING = {
    "CartPol-v1": f"Environment `CartPol` doesn't exist. Did you mean: `CartPole`?{CURE}",
    "Nowhere-v0": f"Environment `Nowhere` doesn't exist.{CURE}",
    "tests.support.worlds:Corridr-v0": "Environment `Corridr` doesn't exist. Did you mean: "
    "`Corridor`?",
    "nowhere/Maze-v0": "Namespace nowhere not found. Have you installed the proper package for "
    f"nowhere?{CURE}",
}


@pytest.mark.parametrize(("env_id", "message"), MISSING.items())
def test_an_environment_that_is_not_there(env_id: str, message: str) -> None:
    fails(EnvConfig(env_id=env_id).make, message)


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.deep"])
def test_a_module_that_is_not_there(module: str) -> None:
    fails(
        EnvConfig(env_id=f"{module}:Maze-v0").make,
        f"The module '{module}' of the environment '{module}:Maze-v0' is not installed, nor is it "
        "in this folder; install the package that provides it, for example: "
        "pip install no_such_package.",
    )


def test_a_module_that_lacks_another_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wanting.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_package'"):
        EnvConfig(env_id="wanting:Maze-v0").make()


def test_a_dependency_of_an_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_: Any, **__: Any) -> None:
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed, run ...")

    monkeypatch.setattr(gymnasium, "make", make)
    told = "Car-v0 cannot be made: pygame is not installed, run ..."
    fails(EnvConfig(env_id="Car-v0").make, told)


def test_arguments_that_do_not_fit() -> None:
    message = (
        r"^tests\.support\.worlds:Corridor-v0 cannot be made with these arguments "
        r"\(colour, start\): .* unexpected keyword argument 'colour'.*\.$"
    )
    with pytest.raises(ValueError, match=message):
        EnvConfig(env_id=CORRIDOR, arguments={"colour": 1, "start": 2}).make()


UNFIT = {
    "RGBImgObsWrapper": "A wrapper must read MODULE:NAME, such as "
    "minigrid.wrappers:RGBImgObsWrapper; got 'RGBImgObsWrapper'.",
    "no_such.wrappers:Gray": "The module of the wrapper 'no_such.wrappers:Gray' is not installed: "
    "No module named 'no_such'.",
    "gymnasium.wrappers:Gray": "There is no wrapper 'Gray' in gymnasium.wrappers.",
    f"{__name__}:not_an_environment": f"'{__name__}:not_an_environment' must make an environment; "
    "got str.",
    f"{__name__}:Bright(to=3)": f"The wrapper '{__name__}:Bright(to=3)' does not fit the "
    "environment: Bright.__init__() got an unexpected keyword argument 'to'.",
}


@pytest.mark.parametrize(("wrap", "message"), UNFIT.items())
def test_a_wrapper_that_does_not_fit(wrap: str, message: str) -> None:
    fails(EnvConfig(env_id=CORRIDOR, wraps=[wrap]).make, message)


@pytest.mark.parametrize(
    "options",
    [
        "(by=__import__('os').mkdir('ran'))", "(by=[i for i in range(9)])", "(3)", "(**{'by': 3})",
        "(by=3", "(by=3) + f(by=4)", "(by=3)(note='x')", "(by=1 + x)", "(*[1])", "(by=)",
        "(by=lambda: 3)",
    ],
)  # fmt: skip
def test_options_are_not_run(options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"{__name__}:Bright{options}"
    fails(
        EnvConfig(env_id=CORRIDOR, wraps=[text]).make,
        f"The options of a wrapper must be (NAME=VALUE, …) with literal values; got {text!r}.",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["vector", "cameras", "first colour"])
def test_only_one_image_is_resized(kind: str) -> None:
    message = (
        r"^Only observations that are one image can be resized; got .*\. "
        r"Wrap the environment so that it resizes its images itself\.$"
    )
    with pytest.raises(ValueError, match=message):
        EnvConfig(env_id=CORRIDOR, arguments={"kind": kind}, size=(40, 40)).make()
