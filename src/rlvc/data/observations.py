"""From what an environment shows to percepts: images, dicts of images, stacked frames.

A percept is one image, or a dict of images by camera. The frames of a stack become cameras of their
own, ``frame 1`` (the oldest), ``frame 2`` …, or ``NAME frame 1`` … in a dict. What is in a dict
beside images is left out: this method sees, and is told nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlvc.data.images import Image, as_image
from rlvc.data.percepts import SINGLE, Percept, Percepts
from rlvc.data.validation import ErrorCollector, name_rows

log = logging.getLogger(__name__)

DEEP = 16  # most frames of a stack; a longer side is that of an image
SMALLEST = 12  # pixels of an image in which something can be seen

SUPPORTED = (
    "Supported are images of bytes, Box(0, 255, uint8) with shape (H, W), (H, W, 1) or (H, W, 3), "
    "stacked frames (n, H, W), (n, H, W, 3) or (H, W, n), and a Dict with some of these."
)
RENDER = (
    "If the environment can draw itself, learn from its drawings: add --render, or in Python wrap "
    "it in gymnasium.wrappers.AddRenderObservation."
)


def as_percept(observation: Any) -> Percept:
    """Return the percept that an observation shows; an image, or a dict of images by camera.

    >>> frames = np.zeros((4, 84, 84), np.uint8)
    >>> sorted(as_percept({"front": frames, "speed": np.float32(3.0)}))
    ['front frame 1', 'front frame 2', 'front frame 3', 'front frame 4']
    """
    if not isinstance(observation, Mapping):
        shown: Percept = observation
        return _named(SINGLE, observation) if _is_stack(observation) else shown
    cameras: dict[str, Image] = {}
    whole: Percept = observation  # who keeps it says what is wrong with it, if nothing is seen
    for name, part in observation.items():
        if _is_seen(part):
            cameras |= _named(str(name), part)
    return cameras or whole


def rows_of(observations: Any) -> Iterator[Any]:
    """Yield observations one by one; those of a dict of arrays as dicts.

    >>> [sorted(row) for row in rows_of({"front": np.zeros((2, 8, 8)), "rear": np.ones((2, 8, 8))})]
    [['front', 'rear'], ['front', 'rear']]
    """
    if not isinstance(observations, Mapping):
        yield from observations
        return
    over = object()
    columns = zip_longest(*map(rows_of, observations.values()), fillvalue=over)
    for number, parts in enumerate(columns):
        row = dict(zip(observations, parts, strict=True))
        if short := [name for name, part in row.items() if part is over]:
            raise ValueError(
                f"{', '.join(row)} must have as many rows; {', '.join(short)} ends after {number}."
            )
        yield row


def see_rows(
    both: Mapping[str, Any], wrong: ErrorCollector
) -> tuple[Percepts, NDArray[np.int64], bool]:
    """Return percepts, the (n, 2) numbers of what is seen before and after, and if it is as many.

    All rows are looked at, one by one; what is wrong with them is noted, the same in many rows
    once.
    """
    percepts, pairs, is_even = Percepts(), list[list[int]](), True
    unfit: dict[tuple[str, type[Exception], str], list[int]] = {}

    def number_of(name: str, observation: Any) -> int:
        try:
            return percepts.add(as_percept(observation))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            unfit.setdefault((name, kind, str(error)), []).append(len(pairs))
            return -1

    try:
        for row in rows_of(both):
            pairs.append([number_of(name, one) for name, one in row.items()])
    except (TypeError, ValueError) as error:
        wrong.add(error)
        is_even = False
    wrong.add(
        *(
            kind(f"{name} in {name_rows(rows)}: {fact}")
            for (name, kind, fact), rows in unfit.items()
        )
    )
    return percepts, np.asarray(pairs, np.int64).reshape(-1, 2), is_even


def frame_name(name: str, frame: int, n_frames: int) -> str:
    """Return how the camera of a frame is called, counted from 1.

    >>> frame_name("", 3, 12), frame_name("front", 1, 4)
    ('frame 03', 'front frame 1')
    """
    return f"{name} frame {frame:0{len(str(n_frames))}}".strip()


def frame_of(camera: str) -> tuple[str, int] | None:
    """Return the name and the frame of a camera, if it is one of a stack.

    >>> frame_of("front frame 2"), frame_of("frame 3"), frame_of("front")
    (('front', 2), ('', 3), None)
    """
    found = re.fullmatch(r"(?:(.*) )?frame (\d+)", camera)
    return (found[1] or SINGLE, int(found[2])) if found else None


def check_spaces(env: gymnasium.Env[Any, Any]) -> spaces.Discrete:
    """Raise a TypeError unless the agent can see and choose; return the space of its actions."""
    actions = env.action_space
    if not isinstance(actions, spaces.Discrete):
        raise TypeError(
            f"The action space of the environment must be Discrete; got {actions}. "
            "Wrap the environment so that it offers a list of actions."
        )
    check_images(env.observation_space, "environment", RENDER)
    return actions


def check_images(space: gymnasium.Space[Any], whose: str, cure: str = "") -> None:
    """Raise a TypeError unless there are images in a space, in which something can be seen."""
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {SINGLE: space}
    if any(map(shows, parts.values())):
        return
    for name, part in parts.items():
        blank = _blank(part)
        if blank is not None and blank.ndim in (2, 3, 4) and _axis(blank.shape):
            height, width = _frames(blank)[0].shape[:2]
            which = f"observation {name!r}" if name else "the observation"
            raise TypeError(
                f"The images of {which} must have at least {SMALLEST} × {SMALLEST} pixels; got "
                f"{height} × {width}, in which no feature can be seen. {cure}".rstrip()
            )
    raise TypeError(
        f"The observations of the {whose} must be images; got {_short(space)}. "
        f"{SUPPORTED} {cure}".rstrip()
    )


def shapes_of(space: gymnasium.Space[Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of the images of each camera that observations of a space show.

    >>> shapes_of(spaces.Dict({"front": spaces.Box(0, 255, (84, 84), np.uint8)}))
    {'front': (84, 84, 1)}
    """
    parts = space.spaces if isinstance(space, spaces.Dict) else {SINGLE: space}
    blank = {name: _blank(one) for name, one in parts.items() if shows(one)}
    if not blank:
        return {}
    shown = as_percept(blank if isinstance(space, spaces.Dict) else blank[SINGLE])
    images = shown if isinstance(shown, Mapping) else {SINGLE: shown}
    return {camera: as_image(image).shape for camera, image in sorted(images.items())}


def tell_left_out(space: gymnasium.Space[Any]) -> None:
    """Warn of what an environment tells beside images, and the agent will not know."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {}
    if left_out := sorted(name for name, part in parts.items() if not shows(part)):
        log.warning("Only images are looked at; left out: %s.", ", ".join(left_out))
    for part in parts.values() if parts else [space]:
        shape = (part.shape or ()) if shows(part) else ()
        if len(shape) == 3 and _is_stack(_blank(part)) and (shape[0] == 3 or shape[2] == 4):
            log.warning(
                "Observations of shape %s are taken for %d grey frames. If they are the colours of "
                "one image, bring them to (H, W, 3).", shape, min(shape),
            )  # fmt: skip


def shows(space: gymnasium.Space[Any]) -> bool:
    """Tell whether what is in a space are images, or stacks of frames."""
    blank = _blank(space)
    return blank is not None and _is_seen(blank)


def _blank(space: gymnasium.Space[Any]) -> NDArray[np.uint8] | None:
    """Return a black observation of a space of bytes; None for other spaces."""
    is_box = isinstance(space, spaces.Box) and space.dtype == np.uint8
    return np.zeros(space.shape or (), np.uint8) if is_box else None


def _short(space: gymnasium.Space[Any]) -> str:
    text = str(space)
    return text if len(text) <= 200 else f"{text[:200]} …"


def _is_seen(part: object) -> bool:
    """Tell whether a part of a dict is an image that shows something, or a stack of frames."""
    if not isinstance(part, np.ndarray) or part.dtype != np.uint8:
        return False
    if part.ndim not in (2, 3, 4) or not _axis(part.shape):
        return False
    return bool(min(_frames(part)[0].shape[:2]) >= SMALLEST)


def _axis(shape: tuple[int, ...]) -> str:
    """Return where the frames of a stack are: first, last, or none as it is one image."""
    if len(shape) == 2 or (len(shape) == 3 and shape[-1] in (1, 3)):
        return "none"
    if len(shape) == 3 and shape[2] <= DEEP < min(shape[:2]):
        return "last"
    is_stack = shape[0] <= DEEP and (len(shape) == 3 or shape[-1] in (1, 3))
    return "first" if is_stack else ""


def _frames(observation: Any) -> list[Any]:
    """Return the frames of a stack, the oldest first; what is no stack comes back as it is."""
    if not isinstance(observation, np.ndarray) or observation.ndim not in (3, 4):
        return [observation]  # an image, or something that will be refused where it is kept
    axis = _axis(observation.shape)
    if axis == "first":
        return list(observation)
    if axis == "last":
        channels = 3 if observation.shape[2] % 3 == 0 else 1
        return list(_split_channels(observation, channels))
    return [observation]


def _split_channels(image: NDArray[Any], channels: int) -> Iterator[NDArray[Any]]:
    for first in range(0, image.shape[2], channels):
        yield image[:, :, first : first + channels]


def _is_stack(part: object) -> bool:
    if not isinstance(part, np.ndarray) or part.ndim not in (3, 4):
        return False
    return _axis(part.shape) in ("first", "last")


def _named(name: str, part: Any) -> dict[str, Any]:
    """Return the images of a part of an observation by camera: its frames if it is a stack."""
    if not _is_stack(part):
        return {name: part}
    frames = _frames(part)
    return {frame_name(name, i, len(frames)): frame for i, frame in enumerate(frames, 1)}
