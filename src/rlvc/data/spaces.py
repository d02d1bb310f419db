"""Spaces of environments: check that observations are images and actions discrete; names."""

from __future__ import annotations

import inspect
import logging
from enum import Enum
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlvc.data.images import as_image
from rlvc.data.observations import (
    MIN_SIDE,
    as_percept,
    image_layout,
    is_image,
    size_of,
    split_frames,
)
from rlvc.data.percepts import SINGLE, images_of

log = logging.getLogger(__name__)

SUPPORTED = (
    "Supported are images of bytes, Box(0, 255, uint8) with shape (H, W), (H, W, 1) or (H, W, 3), "
    "stacked frames (n, H, W), (n, H, W, 3) or (H, W, n), and a Dict with some of these."
)
RENDER = (
    "If the environment can render itself, learn from what it renders: add --render, or in Python "
    "wrap it in gymnasium.wrappers.AddRenderObservation."
)


def check_spaces(env: gymnasium.Env[Any, Any]) -> spaces.Discrete:
    """Return the discrete action space of an environment whose observations are images.

    Raises:
        TypeError: The actions are not discrete, or the observations are not images.
    """
    actions = env.action_space
    if not isinstance(actions, spaces.Discrete):
        raise TypeError(
            f"The action space of the environment must be Discrete; got {actions}. "
            "Wrap the environment so that it offers a list of actions."
        )
    check_images(env.observation_space, "environment", RENDER)
    return actions


def names_of_actions(env: gymnasium.Env[Any, Any]) -> tuple[str, ...]:
    """Return the names of an environment's actions, if it has them and no wrapper changes actions.

    There are different conventions: a list of ``action_names``, a method
    ``get_action_meanings`` (Atari), or an enumeration ``actions`` (MiniGrid).
    """
    inner: Any = env.unwrapped
    names: Any = getattr(inner, "action_names", None)
    if names is None and callable(meanings := getattr(inner, "get_action_meanings", None)):
        names = meanings()
    kind = getattr(inner, "actions", None)
    if names is None and inspect.isclass(kind) and issubclass(kind, Enum):
        names = [one.name for one in sorted(kind, key=lambda one: one.value)]
    if not isinstance(names, (list, tuple)) or not isinstance(env.action_space, spaces.Discrete):
        return ()
    return tuple(map(str, names)) if len(names) == env.action_space.n else ()


def parts_of(space: gymnasium.Space[Any]) -> dict[str, gymnasium.Space[Any]]:
    """Return the spaces of a dict by name; any other space has the name of a single camera."""
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {SINGLE: space}


def check_images(space: gymnasium.Space[Any], whose: str, cure: str = "") -> None:
    """Raise a TypeError unless a space has images that are large enough."""
    parts = parts_of(space)
    if any(map(is_image_space, parts.values())):
        return
    for name, part in parts.items():
        blank = _blank(part)
        if blank is not None and image_layout(blank.shape):
            height, width = size_of(blank)
            which = f"observation {name!r}" if name else "the observation"
            raise TypeError(
                f"The images of {which} must have at least {MIN_SIDE} × {MIN_SIDE} pixels; got "
                f"{height} × {width}, which is too small for any feature. {cure}".rstrip()
            )
    text = str(space)
    got = text if len(text) <= 200 else f"{text[:200]} …"
    raise TypeError(
        f"The observations of the {whose} must be images; got {got}. {SUPPORTED} {cure}".rstrip()
    )


def shapes_of(space: gymnasium.Space[Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each camera's images in observations of a space.

    >>> shapes_of(spaces.Dict({"front": spaces.Box(0, 255, (84, 84), np.uint8)}))
    {'front': (84, 84, 1)}
    """
    blank = {name: _blank(part) for name, part in parts_of(space).items() if is_image_space(part)}
    images = sorted(images_of(as_percept(blank)).items())
    return {camera: as_image(image).shape for camera, image in images}


def warn_of_ignored_entries(space: gymnasium.Space[Any]) -> None:
    """Warn of entries of observations that are ignored because they are not images."""
    parts = parts_of(space)
    left_out = sorted(
        name for name, part in parts.items() if name != SINGLE and not is_image_space(part)
    )
    if left_out:
        log.warning("Only images are learned from; left out: %s.", ", ".join(left_out))
    for part in parts.values():
        shape = (part.shape or ()) if is_image_space(part) else ()
        if len(shape) == 3 and split_frames(_blank(part)) and (shape[0] == 3 or shape[2] == 4):
            log.warning(
                "Observations of shape %s are read as %d grey frames. If they are the colours of "
                "one image, convert them to (H, W, 3).", shape, min(shape),
            )  # fmt: skip


def is_image_space(space: gymnasium.Space[Any]) -> bool:
    """Return whether the elements of a space are images or stacks of frames."""
    return is_image(_blank(space))


def _blank(space: gymnasium.Space[Any]) -> NDArray[np.uint8] | None:
    """Return a black observation of a space of bytes; None for other spaces."""
    is_box = isinstance(space, spaces.Box) and space.dtype == np.uint8
    return np.zeros(space.shape or (), np.uint8) if is_box else None
