"""Pictures for the tasks: from photographs in an installed package, local data, or the user's.

The default ``photos`` needs no download: it is assembled from photographs in scikit-image, which
are all in the public domain or CC0 according to their docstrings:

- astronaut: Eileen Collins, NASA Great Images; public domain.
- coffee: Rachel Michetti, courtesy of Pikolo Espresso Bar; CC0.
- hubble_deep_field: Hubble eXtreme Deep Field, NASA; public domain.
- chelsea: Chelsea the cat, Stefan van der Walt; CC0.
- rocket: launch of DSCOVR on Falcon 9, SpaceX; public domain.
- camera: Lav Varshney; CC0.
- brick, gravel: CC0Textures (Bricks25, Gravel04); CC0.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from rlvc._core.arrays import frozen
from rlvc.data.images import Image
from rlvc.envs.photos.download import expand, find_folder
from rlvc.errors import ImageError, unknown_name

TILE = 128
TILES_PER_SIDE = 10
MAZE_SIDE = TILE * TILES_PER_SIDE

# How many tiles the montage takes of each photograph: all but the flattest. The strip takes the
# photographs in this order. The montage keeps like from like only while no count is above 30.
PHOTOGRAPHS = {
    "astronaut.png": 16,
    "coffee.png": 11,
    "hubble_deep_field.jpg": 30,
    "chelsea.png": 6,
    "rocket.jpg": 9,
    "camera.png": 11,
    "brick.png": 11,
    "gravel.png": 6,
}
SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
Files = Path | tuple[Path, ...]
"""One image that fills a picture, or several side by side."""


def maze_picture(pictures: str | Path = "photos") -> Image:
    """Return the (1280, 1280, 3) picture of the maze; it is read-only and made once per process.

    Args:
        pictures: ``photos``, a 10×10 montage of 128-pixel tiles of photographs; ``coil``, one of
            the objects of COIL-100 in ``RLVC_DATA``; an image file, scaled to cover the square
            and cropped centrally; or a folder of images, a montage in the order of their names.

    Raises:
        ValueError: An unknown name that is not a path.
        ImageError: A file is missing or is not an image.

    >>> maze_picture("photos").shape
    (1280, 1280, 3)
    """
    files = _find_files(pictures, {"photos": _photos, "coil": _coil})
    return _photo_montage() if pictures == "photos" else _maze_picture(files)


def strip_picture(pictures: str | Path = "photos", width: int = 3041, height: int = 384) -> Image:
    """Return a (height, width, 3) strip of pictures; it is read-only and made once per process.

    Args:
        pictures: ``photos``, photographs side by side; ``street``, the middle band of the
            photograph of a street in ``RLVC_DATA`` or from ``rlvc data get street``; an image
            file, scaled to cover the strip and cropped centrally; or a folder of images, side by
            side in the order of their names.
        width: Pixels, at least 1.
        height: Pixels, at least 1.

    Raises:
        ValueError: An unknown name that is not a path, or a size below 1.
        ImageError: A file is missing or is not an image.

    >>> strip_picture("photos", width=640, height=64).shape
    (64, 640, 3)
    """
    for side, size in {"width": width, "height": height}.items():
        if size < 1:
            raise ValueError(f"{side} of strip_picture must be at least 1; got {size}.")
    files = _find_files(pictures, {"photos": _photos, "street": _street})
    return _strip_picture(files, width, height)


def ground_picture(pictures: str | Path = "photos") -> Image:
    """Return the (128, 1280, 3) ground of the hill; it is read-only and made once per process.

    Args:
        pictures: As for :func:`strip_picture`, or ``coil``, the first ten objects of COIL-100 in
            ``RLVC_DATA`` side by side.

    >>> ground_picture("photos").shape
    (128, 1280, 3)
    """
    files = _find_files(pictures, {"photos": _photos, "coil": _coil, "street": _street})
    return _strip_picture(files, MAZE_SIDE, TILE)


def _find_files(pictures: str | Path, known: Mapping[str, Callable[[], Files]]) -> Files:
    """Return the files of a name or a folder, or the one file that must fill the picture."""
    if isinstance(pictures, str) and pictures in known:
        return known[pictures]()
    path = expand(pictures)
    if path.is_dir():
        if files := list_images(path.resolve()):
            return tuple(files)
        raise ImageError(
            f"Folder {path} holds no image ({', '.join(sorted(SUFFIXES))}). "
            "Name a folder with images in it, or use --pictures photos."
        )
    if path.exists():
        return path.resolve()
    if isinstance(pictures, Path) or path.suffix or len(path.parts) > 1:
        raise ImageError(
            f"Pictures {str(pictures)!r} are neither an image file nor a folder. "
            "Check the path, or use --pictures photos."
        )
    raise unknown_name("pictures", pictures, [*known, "the path to an image or a folder of images"])


def _photos() -> tuple[Path, ...]:
    return tuple(photograph_folder() / file for file in PHOTOGRAPHS)


def _coil() -> tuple[Path, ...]:
    root = os.environ.get("RLVC_DATA")
    folder = expand(root or ".") / "coil100"
    if root and folder.is_dir():
        return tuple(folder.resolve() / f"obj{n + 1}__0.png" for n in range(TILES_PER_SIDE**2))
    fact = f"it is not in {root}" if root else "RLVC_DATA is not set"
    raise ImageError(
        f"Pictures 'coil' need the folder coil100 in RLVC_DATA; {fact}. "
        "Set RLVC_DATA to a folder that holds coil100, or use --pictures photos."
    )


def _street() -> Path:
    return find_folder("street") / "charles-street.jpg"


def photograph_folder() -> Path:
    """Return the folder of scikit-image's photographs."""
    # Only the folder of scikit-image is needed, and importing it is slow.
    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise ImageError(
            "Pictures 'photos' need scikit-image, which is not installed; "
            "install it with: pip install scikit-image."
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def list_images(folder: Path) -> list[Path]:
    """Return the images in a folder in the order of their names."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)


@lru_cache(maxsize=1)
def _photo_montage() -> Image:
    counts = zip(_photos(), PHOTOGRAPHS.values(), strict=True)
    tiles = [tile for file, n in counts for tile in richest_tiles(read_image(file), n)]
    # Neighbours in a row are 37 apart in the list and neighbours in a column 370, that is 30
    # the other way round a list of 100: no photograph of at most 30 tiles touches itself.
    return frozen(_montage([tiles[37 * cell % len(tiles)] for cell in range(len(tiles))]))


@lru_cache(maxsize=8)
def _maze_picture(files: Files) -> Image:
    if isinstance(files, Path):
        return frozen(_cover(read_image(files), MAZE_SIDE, MAZE_SIDE))
    shown = files[: TILES_PER_SIDE**2]  # there is no place for more
    return frozen(_montage([_cover(read_image(file), TILE, TILE) for file in shown]))


@lru_cache(maxsize=8)
def _strip_picture(files: Files, width: int, height: int) -> Image:
    if isinstance(files, Path):
        return frozen(_cover(read_image(files), width, height))
    parts: list[Image] = []
    for image in map(read_image, files):
        parts.append(scale_to(image, max(1, round(image.shape[1] * height / len(image))), height))
        if sum(part.shape[1] for part in parts) >= width:
            break
    # Too few images are repeated.
    return frozen(np.take(np.concatenate(parts, axis=1), range(width), axis=1, mode="wrap"))


def read_image(file: Path) -> Image:
    """Read an image as RGB; OpenCV's own reader would print warnings and hide the reason."""
    try:
        data = np.frombuffer(file.read_bytes(), dtype=np.uint8)
    except OSError as error:
        raise ImageError(
            f"Picture {file} cannot be read: {error.strerror}. "
            "Check that the file is there and may be read."
        ) from error
    try:
        image = cv2.imdecode(data, cv2.IMREAD_COLOR)
    except cv2.error:
        image = None
    if image is None:
        raise ImageError(
            f"Picture {file} is not an image that OpenCV can read. "
            "Give a PNG, JPEG, BMP, TIFF or WebP file."
        )
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def richest_tiles(photograph: Image, n: int) -> list[Image]:
    """Return the ``n`` tiles with the strongest second derivatives, in reading order.

    The tiles lie on a grid centred on the photograph, so no two overlap; ties go to the first.
    """
    height, width = photograph.shape[:2]
    tiles = [
        photograph[y : y + TILE, x : x + TILE]
        for y in range(height % TILE // 2, height - TILE + 1, TILE)
        for x in range(width % TILE // 2, width - TILE + 1, TILE)
    ]
    grays = [cv2.cvtColor(tile, cv2.COLOR_RGB2GRAY) for tile in tiles]
    detail = np.array([cv2.Laplacian(gray, cv2.CV_64F).std() for gray in grays])
    return [tiles[i] for i in sorted(np.argsort(-detail, kind="stable")[:n])]


def _montage(tiles: Sequence[Image]) -> Image:
    """Lay the tiles out row by row; too few are repeated."""
    grid = np.resize(tiles, (TILES_PER_SIDE, TILES_PER_SIDE, TILE, TILE, 3))
    return grid.swapaxes(1, 2).reshape(MAZE_SIDE, MAZE_SIDE, 3)


def _cover(image: Image, width: int, height: int) -> Image:
    """Cut the largest central part of the right aspect ratio and scale it."""
    full_height, full_width = image.shape[:2]
    cut_width = max(1, min(full_width, round(full_height * width / height)))
    cut_height = max(1, min(full_height, round(full_width * height / width)))
    x, y = (full_width - cut_width) // 2, (full_height - cut_height) // 2
    return scale_to(image[y : y + cut_height, x : x + cut_width], width, height)


def scale_to(image: Image, width: int, height: int) -> Image:
    """Return an image scaled to another size."""
    shrinks = height < image.shape[0] or width < image.shape[1]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, (width, height), interpolation=method), np.uint8)
