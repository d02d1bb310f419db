"""From observations to percepts: images, dicts of images, stacked frames.

A percept is one image, or a dict of images by camera. The frames of a stack become cameras, named
``frame 1`` (the oldest), ``frame 2`` …, or ``NAME frame 1`` … in a dict. Entries of a dict that are
not images are left out: the method learns from images alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc.data.images import Image, as_image
from rlvc.data.percepts import SINGLE, Percept, Percepts
from rlvc.data.validation import name_rows

Shapes = Mapping[str, tuple[int, ...]]  # of each camera's images

MAX_FRAMES = 16  # of a stack; a longer axis is a side of an image
MIN_SIDE = 12  # pixels; in smaller images no feature can be found


def as_percept(observation: Any) -> Percept:
    """Return the percept of an observation: an image, or a dict of images by camera.

    >>> frames = np.zeros((4, 84, 84), np.uint8)
    >>> sorted(as_percept({"front": frames, "speed": np.float32(3.0)}))
    ['front frame 1', 'front frame 2', 'front frame 3', 'front frame 4']
    """
    if not isinstance(observation, Mapping):
        frames = _by_frame(SINGLE, observation)
        shown: Percept = frames.get(SINGLE, frames)
        return shown
    cameras: dict[str, Image] = {}
    for name, part in observation.items():
        if is_image(part):
            cameras |= _by_frame(str(name), part)
    return cameras or dict(observation)  # without images, Percepts.add raises the error


def rows_of(observations: Any) -> Iterator[Any]:
    """Yield observations one by one; those of a dict of arrays as dicts.

    >>> [sorted(row) for row in rows_of({"front": np.zeros((2, 8, 8)), "rear": np.ones((2, 8, 8))})]
    [['front', 'rear'], ['front', 'rear']]
    """
    if not isinstance(observations, Mapping):
        yield from observations
        return
    missing = object()
    columns = zip_longest(*map(rows_of, observations.values()), fillvalue=missing)
    for number, parts in enumerate(columns):
        row = dict(zip(observations, parts, strict=True))
        if short := [name for name, part in row.items() if part is missing]:
            raise ValueError(
                f"{', '.join(row)} must have the same number of rows; "
                f"{', '.join(short)} ends after {number}."
            )
        yield row


def add_observations(
    percepts: Percepts, columns: Mapping[str, Any], errors: list[Exception], unit: str = "row"
) -> tuple[Ints, bool]:
    """Add the observations of each row to a store, such as those before and after an action.

    Rows are read one by one, and all of them; an error of many rows is added once.

    Returns:
        The (n, n_columns) numbers of the percepts, and whether all columns are equally long.
    """
    numbers, is_even = list[list[int]](), True
    found: dict[tuple[str, type[Exception], str], list[int]] = {}

    def number_of(name: str, observation: Any) -> int:
        try:
            return percepts.add(as_percept(observation))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            found.setdefault((name, kind, str(error)), []).append(len(numbers))
            return -1

    try:
        for row in rows_of(columns):
            numbers.append([number_of(name, one) for name, one in row.items()])
    except (TypeError, ValueError) as error:
        errors.append(error)
        is_even = False
    for (name, kind, fact), rows in found.items():
        errors.append(kind(f"{name} in {name_rows(rows, unit=unit)}: {fact}"))
    return np.asarray(numbers, np.int64).reshape(-1, len(columns)), is_even


def frame_name(name: str, frame: int, n_frames: int) -> str:
    """Return the name of the camera that shows a frame, counted from 1.

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


def is_image(part: object) -> bool:
    """Return whether an entry of a dict is an image that is large enough, or a stack of these."""
    if not isinstance(part, np.ndarray) or part.dtype != np.uint8 or not image_layout(part.shape):
        return False
    return bool(min(size_of(part)) >= MIN_SIDE)


def image_layout(shape: tuple[int, ...]) -> str:
    """Return ``image``, or which axis of a stack has its frames, ``first`` or ``last``; else ""."""
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)):
        return "image"
    if len(shape) == 3 and 0 < shape[2] <= MAX_FRAMES < min(shape[:2]):
        return "last"
    is_stack = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
    return "first" if is_stack and 0 < shape[0] <= MAX_FRAMES else ""


def split_frames(part: object) -> list[Any]:
    """Return the frames of a stack, the oldest first; none for anything else."""
    layout = image_layout(part.shape) if isinstance(part, np.ndarray) else ""
    if not isinstance(part, np.ndarray) or layout not in ("first", "last"):
        return []
    if layout == "first":
        return list(part)
    step = 3 if part.shape[2] % 3 == 0 else 1
    return [part[:, :, i : i + step] for i in range(0, part.shape[2], step)]


def size_of(part: NDArray[Any]) -> tuple[int, int]:
    """Return the height and width of an image, or of the frames of a stack."""
    height, width, *_ = (split_frames(part) or [part])[0].shape
    return height, width


def _by_frame(name: str, part: Any) -> dict[str, Any]:
    """Return the images of an observation's entry by camera: its frames if it is a stack."""
    frames = split_frames(part)
    named = {frame_name(name, i, len(frames)): frame for i, frame in enumerate(frames, 1)}
    return named or {name: part}


def split_percepts(observation: Any, shapes: Shapes) -> tuple[list[dict[str, Image]], bool]:
    """Return the percepts of an observation, images by camera, and whether it is a batch.

    >>> percepts, is_batch = split_percepts(np.zeros((5, 8, 8, 3), np.uint8), {"": (8, 8, 3)})
    >>> len(percepts), is_batch
    (5, True)
    """
    if isinstance(observation, tuple):
        raise TypeError(
            "observation of predict must be an image or a dict of images; got a tuple. "
            "env.reset() returns (observation, info): unpack it first."
        )
    parts = _by_camera(observation, shapes)
    split = [_split_images(name, part, shapes[name]) for name, part in parts.items()]
    images, is_batch = zip(*split, strict=True)
    if len(set(is_batch)) != 1 or len(set(map(len, images))) != 1:
        raise ValueError("The cameras of an observation must have the same number of images.")
    return [dict(zip(parts, row, strict=True)) for row in zip(*images, strict=True)], is_batch[0]


def _by_camera(observation: Any, shapes: Shapes) -> dict[str, Any]:
    """Return the observation of each camera; other entries of a dict are left out."""
    if sorted(shapes) == [SINGLE]:
        return {SINGLE: observation}
    is_dict, is_array = isinstance(observation, Mapping), isinstance(observation, np.ndarray)
    given = observation if is_dict else {SINGLE: observation} if is_array else {}
    parts: dict[str, Any] = {}
    for camera in shapes:
        name, number = frame_of(camera) or (camera, 0)
        if camera in given:
            parts[camera] = given[camera]
        elif number and name in given:
            parts[camera] = _take_frame(given[name], camera, shapes)
        else:
            got = sorted(observation) if is_dict else type(observation)
            raise ValueError(f"The cameras of this policy are {sorted(shapes)}; got {got}.")
    return parts


def _take_frame(stack: Any, camera: str, shapes: Shapes) -> Any:
    """Return a frame of a stack, or of each stack of a batch."""
    name, number = frame_of(camera) or (camera, 1)
    n = sum((frame_of(other) or (None,))[0] == name for other in shapes)
    height, width, channels = shapes[camera]
    size, got = [height, width, channels], list(np.shape(stack))
    if got[-4:] == [n, *size] and len(got) <= 5:
        return stack[..., number - 1, :, :, :]
    if channels == 1 and got[-3:] == [n, height, width] and len(got) <= 4:
        return stack[..., number - 1, :, :]
    if got[-3:] == [height, width, n * channels] and len(got) <= 4:
        return stack[..., (number - 1) * channels : number * channels]
    raise ValueError(
        f"The frames of this policy are {n} of shape {tuple(size)}, such as {(n, *size)}; got an "
        f"observation of shape {tuple(got)}."
    )


def one_percept(observation: Any, shapes: Shapes) -> dict[str, Image]:
    """Return the images of one percept; a batch is refused."""
    percepts, is_batch = split_percepts(observation, shapes)
    if is_batch:
        raise ValueError("explain takes one percept; got a batch. Call it for each percept.")
    return percepts[0]


def _split_images(camera: str, part: Any, known: tuple[int, ...]) -> tuple[list[Image], bool]:
    whose = f"camera {camera!r}" if camera else "the observation"
    *size, channels = known
    shape = np.shape(part)
    # A grey image may come without its channel, so the known size tells (n, H, W) from (H, W).
    is_grey_batch = channels == 1 and len(shape) == 3 and list(shape[1:]) == size
    is_batch = len(shape) == 4 or is_grey_batch
    images = [as_image(row, whose) for row in (part if is_batch else [part])]
    for image in images:
        if image.shape[2] != channels:
            raise ValueError(
                f"The channels of {whose} must be {channels}, as in learning; got shape {shape}."
            )
    return images, is_batch
