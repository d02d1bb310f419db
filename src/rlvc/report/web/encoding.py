"""Encode arrays and images as text for a page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc.data.images import Image

LONGEST: Final = 320  # pixels of the longer side of an image that is shrunk
QUALITY: Final = 82  # WebP quality of images that are shrunk
LOSSLESS: Final = 101  # OpenCV's WebP quality for lossless encoding
TALLEST: Final = 16_000  # pixels of a sheet
LONGEST_WEBP: Final = 16_384  # a side of a WebP image must be shorter
MAX_LOSSLESS: Final = 6_000_000  # pixels of all images of a camera up to which they are lossless

Json = dict[str, Any]


def encode_array(array: NDArray[Any]) -> Json:
    """Return the bytes of an array in the smallest type that holds it; see ``numbers`` in model.js.

    >>> encode_array(np.array([1, 2]))
    {'dtype': '<u2', 'data': 'AQACAA=='}
    """
    dtype = "<f4"
    if array.dtype.kind in "biu":
        fits = not array.size or (array.min() >= 0 and array.max() < 2**16)
        dtype = "<u2" if fits else "<i4"
    data = np.ascontiguousarray(array.ravel(), dtype)
    return {"dtype": dtype, "data": base64.b64encode(data.tobytes()).decode()}


def encode_image(image: Image, quality: int = LOSSLESS) -> Json:
    """Return an encoded image for the page, lossless by default."""
    colour = image if image.shape[2] == 1 else cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    height, width = image.shape[:2]
    kind = "webp" if max(height, width) < LONGEST_WEBP else "png"
    is_done, coded = cv2.imencode(f".{kind}", colour, [cv2.IMWRITE_WEBP_QUALITY, quality])
    if not is_done:
        raise ValueError(f"an image of {width} × {height} pixels cannot be shown")
    data = base64.b64encode(coded.tobytes()).decode()
    return {"type": f"image/{kind}", "data": data, "width": width, "height": height}


def encode_images(
    camera: str, images: Sequence[Image], first: int, max_lossless: float = MAX_LOSSLESS
) -> tuple[list[Json], Json]:
    """Encode the images of a camera; return the files, and the place of each image in them.

    Small images are put on common sheets, lossless; many large ones are shrunk.

    Args:
        camera: Its name.
        images: All of one shape, at least one.
        first: The number that the first file will have in the page.
        max_lossless: Pixels of all images up to which they are encoded without loss.
    """
    height, width, channels = images[0].shape
    where: Json = {"name": camera, "width": width, "height": height}
    if len(images) * height * width > max_lossless or max(height, width) > TALLEST:
        zoom = min(1.0, LONGEST / max(height, width))
        size = max(1, round(width * zoom)), max(1, round(height * zoom))
        small = [cv2.resize(one, size, interpolation=cv2.INTER_AREA) for one in images]
        shape = *size[::-1], channels  # OpenCV drops a single channel
        files = [encode_image(np.asarray(one, np.uint8).reshape(shape), QUALITY) for one in small]
        numbers = np.arange(first, first + len(files))
        return files, {**where, "file": encode_array(numbers), "zoom": zoom}
    per_sheet = max(1, TALLEST // height)
    sheets = [np.concatenate(images[i : i + per_sheet]) for i in range(0, len(images), per_sheet)]
    file, row = np.divmod(np.arange(len(images)), per_sheet)
    where |= {"file": encode_array(first + file), "y": encode_array(row * height), "zoom": 1.0}
    return [encode_image(sheet) for sheet in sheets], where
