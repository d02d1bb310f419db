"""The image files that a table names, as percepts; and percepts as image files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc.images import Image, as_image
from rlvc.percepts import SINGLE, Percepts
from rlvc.sources.problems import Problems
from rlvc.sources.seal import CHANGED, CURE, Seal, Sealing
from rlvc.sources.table import Table, camera_column

log = logging.getLogger(__name__)

FOLDER = "images"
OnImage = Callable[[], None] | None


def read_percepts(
    table: Table,
    rows: NDArray[np.int64],
    folder: Path,
    seal: Seal,
    problems: Problems,
    on_image: OnImage,
) -> tuple[Percepts, NDArray[np.int64]]:
    """Return the percepts of some rows, in the order in which they are met, and each row's number.

    The images of the other rows are looked at too: whatever is wrong with an image is noted.
    """
    cameras = [
        _Camera(name, column, table.columns[column], folder, seal, on_image)
        for name, column in table.cameras.items()
    ]
    percepts = Percepts()
    numbers: dict[tuple[str, ...], int] = {}
    shown = [tuple(camera.files[row] for camera in cameras) for row in rows.tolist()]
    with _quiet():
        for row, files in zip(rows.tolist(), shown, strict=True):
            if files in numbers:
                continue
            parts = {camera.name: camera.image(row, percepts) for camera in cameras}
            if any(image is None for image in parts.values()):
                continue
            number = percepts.add(parts[SINGLE] if list(parts) == [SINGLE] else parts)
            numbers[files] = number
            for camera in cameras:
                camera.numbers.setdefault(camera.files[row], number)
        for camera in cameras:
            for row in range(table.n_rows):
                camera.read(row)
    for camera in cameras:
        camera.report(problems)
    if any(camera.has_alpha for camera in cameras):
        log.warning("Some images have an alpha channel, which is left out.")
    return percepts, np.array([numbers.get(files, -1) for files in shown], np.int64)


def write_frames(
    percepts: Percepts,
    used: NDArray[np.int64],
    folder: Path,
    sealing: Sealing,
    on_image: OnImage,
) -> dict[str, dict[int, str]]:
    """Write each distinct image of some percepts once; return each column's file per percept."""
    columns = {}
    table = percepts.table()[used]
    for camera, images, numbers in zip(percepts.cameras, percepts.images, table.T, strict=True):
        # Any text may be the name of a camera, but not of a folder.
        place = f"{FOLDER}/{quote(camera, safe=' ').replace('.', '%2E')}".removesuffix("/")
        (folder / place).mkdir(parents=True, exist_ok=True)
        distinct, which = np.unique(numbers, return_inverse=True)
        for number, image in enumerate(distinct.tolist()):
            sealing.write(f"{place}/{number:06d}.png", _encode(images[image]))
            if on_image is not None:
                on_image()
        columns[camera_column(camera)] = {
            percept: f"{place}/{number:06d}.png"
            for percept, number in zip(used.tolist(), which.tolist(), strict=True)
        }
    return columns


class _Camera:
    """The image files of one column: each is read once, and all must be alike."""

    def __init__(
        self, name: str, column: str, files: list[str], folder: Path, seal: Seal, on_image: OnImage
    ) -> None:
        self.name, self.files, self.numbers = name, files, dict[str, int]()
        self.has_alpha = False
        self._column, self._on_image = column, on_image
        self._folder, self._seal = folder, seal
        self._first: tuple[tuple[int, ...], int] | None = None  # the shape of all, and its row
        self._seen = {""}
        self._wrong: dict[tuple[str, str], list[int]] = {}

    def image(self, row: int, percepts: Percepts) -> Image | None:
        """Return the image of a row, from a percept that shows it already if there is one."""
        number = self.numbers.get(self.files[row])
        if number is None:
            return self.read(row)
        percept = percepts[number]
        return percept[self.name] if isinstance(percept, Mapping) else percept

    def read(self, row: int) -> Image | None:
        """Return the image of a row if its file was not read before and is fit for use."""
        file = self.files[row]
        if file in self._seen:
            return None
        self._seen.add(file)
        try:
            image = self._checked(_decode(self._folder, file, self._seal), row)
        except _UnfitError as error:
            self._wrong.setdefault((error.fact, error.cure), []).append(row)
            image = None
        if self._on_image is not None:
            self._on_image()
        return image

    def _checked(self, image: NDArray[np.generic], row: int) -> Image:
        if image.dtype != np.uint8:
            raise _UnfitError(
                f"is of type {image.dtype}, not uint8,",
                "Scale the images to 0..255 and save them with 8 bits.",
            )
        if image.ndim == 3 and image.shape[2] == 4:
            self.has_alpha = True
            image = image[:, :, :3]
        if image.ndim == 3 and image.shape[2] != 3:
            raise _UnfitError(f"has {image.shape[2]} channels", "Save it in grey or in colour.")
        checked = as_image(image if image.ndim == 2 else image[:, :, ::-1])  # OpenCV's are BGR
        self._first = self._first or (checked.shape, row)
        if checked.shape != self._first[0]:
            raise _UnfitError(
                f"has shape {checked.shape}, not {self._first[0]} as row {self._first[1] + 1},",
                "Bring the images to one size, all in grey or all in colour.",
            )
        return checked

    def report(self, problems: Problems) -> None:
        """Note what is wrong, with the first row of each file."""
        empty = [row for row, file in enumerate(self.files) if not file]
        problems.at(f"{self._column} is empty", empty)
        for (fact, cure), rows in self._wrong.items():
            files = [self.files[row] for row in sorted(rows)]
            problems.at(f"{self._column} {fact}", sorted(rows), files, cure=cure)


class _UnfitError(Exception):
    """An image file that cannot be used: a fact about it, and the cure."""

    def __init__(self, fact: str, cure: str) -> None:
        super().__init__(fact, cure)
        self.fact, self.cure = fact, cure


def _decode(folder: Path, name: str, seal: Seal) -> NDArray[np.generic]:
    file, data = folder / name, None
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise OSError("it is no ordinary file")  # a pipe would wait for ever
        data = file.read_bytes()
    except FileNotFoundError as error:
        raise _UnfitError(
            "names a file that is not there", "Paths start from the folder of the table."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _UnfitError(
            f"names a file that cannot be read ({reason})",
            "Check that it is a file that may be read.",
        ) from error
    finally:
        is_sound = seal.fits(name, data)
    if not is_sound:
        raise _UnfitError(f"names a file that is damaged: it {CHANGED},", CURE)
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        image = None
    if image is None:
        raise _UnfitError(
            "names a file that is damaged, or is no image that OpenCV can read,",
            "Save it again as PNG, JPEG, BMP, TIFF or WebP.",
        )
    return image


def _encode(image: Image) -> bytes:
    return bytes(cv2.imencode(".png", np.ascontiguousarray(image[:, :, ::-1]))[1])


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep OpenCV from printing what is wrong with a file: it is said in other words."""
    level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)
