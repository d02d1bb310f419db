"""Environments from a configuration: an id, arguments, wrappers, an image size, frames."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium import wrappers

from rlvc._core.registry import load
from rlvc.data.collect import Env
from rlvc.data.spaces import is_image_space, warn_of_ignored_entries
from rlvc.errors import EnvError

NAME_THE_MODULE = (
    " If a package provides it, name its module as well, such as minigrid:MiniGrid-Empty-8x8-v0."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvConfig:
    """The configuration of an environment.

    Attributes:
        env_id: Its Gymnasium id, with the module that registers it if need be.
        arguments: Its keyword arguments.
        wraps: Wrappers, the innermost first, as ``module:Name`` or ``module:Name(option=value)``.
        render: Whether observations are the rendered images.
        size: Width and height to which the images are resized.
        frames: How many of the last images are stacked in an observation.

    >>> from rlvc.envs import register_envs
    >>> register_envs()
    >>> EnvConfig(env_id="rlvc/Maze-v0", size=(64, 48)).make().observation_space.shape
    (48, 64, 3)
    """

    env_id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    wraps: Sequence[str] = ()
    render: bool = False
    size: tuple[int, int] | None = None
    frames: int = 1

    def make(self, **more: Any) -> Env:
        """Return a new environment; arguments are added to those of the configuration."""
        arguments = {**self.arguments, **more}
        if self.render:
            arguments["render_mode"] = "rgb_array"
        env = _make(self.env_id, arguments)
        for text in self.wraps:
            env = _wrap(env, text)
        if self.render:
            env = wrappers.AddRenderObservation(env)
        if self.size is not None:
            env = _resize(env, self.size)
        return env if self.frames == 1 else _stack(env, self.frames)


def _make(env_id: str, arguments: dict[str, Any]) -> Env:
    module, colon, _ = env_id.partition(":")
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **arguments)
    except ModuleNotFoundError as error:
        missing = error.name or getattr(error.__cause__, "name", None)  # set by Gymnasium
        if colon and missing and f"{module}.".startswith(f"{missing}."):
            raise ValueError(
                f"The module {module!r} of the environment {env_id!r} is not installed, nor is it "
                "in this folder; install the package that provides it, for example: "
                f"pip install {module.partition('.')[0]}."
            ) from error
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        raise ValueError(f"{env_id} cannot be made: {error}") from error
    except gymnasium.error.Error as error:
        fact = str(error).rstrip(".")
        end = "" if fact.endswith("?") else "."
        raise ValueError(f"{fact}{end}{'' if colon else NAME_THE_MODULE}") from error
    except TypeError as error:
        given = f"these arguments ({', '.join(arguments) or 'none'})"
        raise ValueError(f"{env_id} cannot be made with {given}: {error}.") from error
    except Exception as error:
        raise EnvError(f"{env_id} cannot be made: {type(error).__name__}: {error}") from error


def _wrap(env: Env, text: str) -> Env:
    """Return an environment in the wrapper that a text names."""
    name, options = _call(text)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(
            "A wrapper must read MODULE:NAME, such as minigrid.wrappers:RGBImgObsWrapper; "
            f"got {text!r}."
        )
    try:
        wrapper = load(name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"The module of the wrapper {text!r} is not installed: {error}."
        ) from error
    except AttributeError as error:
        raise ValueError(f"There is no wrapper {attribute!r} in {module}.") from error
    try:
        wrapped = wrapper(env, **options)
    except (TypeError, AssertionError, gymnasium.error.Error) as error:
        raise ValueError(f"The wrapper {text!r} does not fit the environment: {error}.") from error
    if not isinstance(wrapped, gymnasium.Env):
        raise ValueError(f"{text!r} must make an environment; got {type(wrapped).__name__}.")
    return wrapped


def _call(text: str) -> tuple[str, dict[str, Any]]:
    """Return a name and the options after it; these are literals, and no code is run.

    >>> _call("minigrid.wrappers:RGBImgObsWrapper(tile_size=16)")
    ('minigrid.wrappers:RGBImgObsWrapper', {'tile_size': 16})
    """
    name, bracket, rest = text.partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError("options must be named")
        if None in [one.arg for one in call.keywords]:
            raise ValueError("options cannot be unpacked")
        return name, {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"The options of a wrapper must be (NAME=VALUE, …) with literal values; got {text!r}."
        ) from error


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """Parse arguments such as ``frame_skip=4``; a value that is not a literal is a string.

    >>> parse_arguments(["frame_skip=4", "map_name=8x8", "is_slippery=False"])
    {'frame_skip': 4, 'map_name': '8x8', 'is_slippery': False}
    """
    arguments: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"An argument must read NAME=VALUE; got {text!r}.")
        try:
            arguments[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            arguments[name] = value
    return arguments


def parse_size(text: str) -> tuple[int, int]:
    """Parse a width and a height such as ``160x120``.

    >>> parse_size("160x120")
    (160, 120)
    """
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) > 0 and int(height) > 0):
        raise ValueError(f"A size must read WIDTHxHEIGHT, such as 160x120; got {text!r}.")
    return int(width), int(height)


def _stack(env: Env, n: int) -> Env:
    """Return an environment whose observations are its last images."""
    space = env.observation_space
    if isinstance(space, gymnasium.spaces.Dict):
        images = [name for name, part in space.spaces.items() if is_image_space(part)]
        if not images:
            return env  # check_spaces raises the error
        warn_of_ignored_entries(space)
        env = wrappers.FilterObservation(env, images)
    return wrappers.FrameStackObservation(env, n)


def _resize(env: Env, size: tuple[int, int]) -> Env:
    width, height = size
    space = env.observation_space
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) not in (2, 3):
        raise ValueError(
            f"Only observations that are one image can be resized; got {str(space)[:200]}. "
            "Wrap the environment so that it resizes its images itself."
        )
    return wrappers.ResizeObservation(env, (height, width))
