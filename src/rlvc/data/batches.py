"""What an agent is given to look at: one percept or a batch of them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlvc.data.images import Image, as_image
from rlvc.data.observations import frame_of
from rlvc.data.percepts import SINGLE

Shapes = Mapping[str, tuple[int, ...]]  # of each camera's images


def split_percepts(observation: Any, shapes: Shapes) -> tuple[list[dict[str, Image]], bool]:
    """Return the percepts of an observation, camera by camera, and whether it is a batch of them.

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
    split = {name: _images(name, part, shapes[name]) for name, part in parts.items()}
    batches = {is_batch for _, is_batch in split.values()}
    lengths = {len(images) for images, _ in split.values()}
    if len(batches) != 1 or len(lengths) != 1:
        raise ValueError("The cameras of an observation must have as many images each.")
    n = lengths.pop()
    return [{name: split[name][0][i] for name in split} for i in range(n)], batches.pop()


def _by_camera(observation: Any, shapes: Shapes) -> dict[str, Any]:
    """Return what each camera shows; entries of a dict that are no cameras are left out."""
    if sorted(shapes) == [SINGLE]:
        return {SINGLE: observation}
    parts: dict[str, Any] = {}
    for camera in shapes:
        frame = frame_of(camera)
        if isinstance(observation, Mapping) and camera in observation:
            parts[camera] = observation[camera]
        elif frame and frame[0] == SINGLE and isinstance(observation, np.ndarray):
            parts[camera] = _frame(observation, camera, shapes)
        elif frame and isinstance(observation, Mapping) and frame[0] in observation:
            parts[camera] = _frame(observation[frame[0]], camera, shapes)
        else:
            got = sorted(observation) if isinstance(observation, Mapping) else type(observation)
            raise ValueError(f"The cameras of this policy are {sorted(shapes)}; got {got}.")
    return parts


def _frame(stack: Any, camera: str, shapes: Shapes) -> Any:
    """Return a frame of a stack, or of each stack of a batch."""
    name, number = frame_of(camera) or (camera, 1)
    n = sum((frame_of(other) or (None,))[0] == name for other in shapes)
    height, width, channels = shapes[camera]
    size = [height, width, channels]
    got, grey = list(np.shape(stack)), [height, width] if channels == 1 else None
    if got[-4:] == [n, *size] and len(got) <= 5:
        return stack[..., number - 1, :, :, :]
    if grey and got[-3:] == [n, *grey] and len(got) <= 4:
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


def _images(camera: str, part: Any, known: tuple[int, ...]) -> tuple[list[Image], bool]:
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
