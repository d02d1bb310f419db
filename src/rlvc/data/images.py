"""Images: the arrays that are accepted as such."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # (H, W, 3) RGB or (H, W, 1) grey


def as_image(array: object, whose: str = "the image") -> Image:
    """Return an image as a contiguous (H, W, C) array of bytes with one or three channels.

    >>> as_image(np.zeros((4, 5), np.uint8)).shape
    (4, 5, 1)
    >>> as_image(np.zeros((4, 5, 3)), "the percept")
    Traceback (most recent call last):
    TypeError: The dtype of the percept must be uint8; got float64. Scale it to 0..255 and ...
    """
    if not isinstance(array, np.ndarray):
        cure = " Unpack what env.reset() returns first." if isinstance(array, tuple) else ""
        raise TypeError(f"The type of {whose} must be an array; got {type(array).__name__}.{cure}")
    if array.dtype != np.uint8:
        raise TypeError(
            f"The dtype of {whose} must be uint8; got {array.dtype}. "
            "Scale it to 0..255 and convert it with .astype(numpy.uint8)."
        )
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.ndim != 3 or array.shape[2] not in (1, 3) or 0 in array.shape:
        raise ValueError(
            f"The shape of {whose} must be (height, width), (height, width, 1) or "
            f"(height, width, 3); got {array.shape}."
        )
    return np.ascontiguousarray(array)
