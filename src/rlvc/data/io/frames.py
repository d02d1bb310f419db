"""Percepts from the image files that a table names, and image files from percepts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from rlvc.data.images import Image
from rlvc.data.io.checksums import Checksums, ChecksumWriter
from rlvc.data.io.image_files import FileImages, UnfitError, decode, encode, quiet, to_image
from rlvc.data.io.table import RawTable, camera_column
from rlvc.data.percepts import SINGLE, Percepts
from rlvc.data.validation import ProblemCollector

log = logging.getLogger(__name__)

FOLDER = "images"
OnImage = Callable[[], None] | None


def read_percepts(
    table: RawTable,
    rows: NDArray[np.int64],
    folder: Path,
    checksums: Checksums,
    problems: ProblemCollector,
    on_image: OnImage,
    *,
    lazy: bool = False,
) -> tuple[Percepts, NDArray[np.int64]]:
    """Return the percepts of rows, in the order of their first occurrence, and each row's number.

    The images of other rows are read too, so that all problems of images are added. With ``lazy``,
    images stay in their files and are read when needed.
    """
    cameras = [
        _ImageColumn(name, column, table.columns[column], folder, checksums, on_image)
        for name, column in table.cameras.items()
    ]
    percepts = Percepts(new_images=partial(FileImages, folder=folder) if lazy else None)
    numbers: dict[tuple[str, ...], int] = {}
    names = [camera.name for camera in cameras]
    row_files = [tuple(camera.files[row] for camera in cameras) for row in rows.tolist()]
    with quiet():
        for row, files in zip(rows.tolist(), row_files, strict=True):
            if files in numbers:
                continue
            parts = {camera.name: camera.image(row, percepts) for camera in cameras}
            if any(image is None for image in parts.values()):
                continue
            number = percepts.add(parts[SINGLE] if list(parts) == [SINGLE] else parts)
            numbers[files] = number
            for images in percepts.images:
                if isinstance(images, FileImages) and len(images) > len(images.paths):
                    images.paths.append(files[names.index(images.camera)])
            for camera in cameras:
                camera.numbers.setdefault(camera.files[row], number)
        for camera in cameras:
            for row in range(table.n_rows):
                camera.read(row)
    for camera in cameras:
        camera.report(problems)
    if any(camera.has_alpha for camera in cameras):
        log.warning("Some images have an alpha channel, which is left out.")
    return percepts, np.array([numbers.get(files, -1) for files in row_files], np.int64)


def write_frames(
    percepts: Percepts,
    used: NDArray[np.int64],
    folder: Path,
    writer: ChecksumWriter,
    on_image: OnImage,
) -> dict[str, dict[int, str]]:
    """Write each distinct image of the percepts used; return each column's file per percept."""
    columns = {}
    table = percepts.table()[used]
    for camera, images, numbers in zip(percepts.cameras, percepts.images, table.T, strict=True):
        place = image_folder(FOLDER, camera)
        (folder / place).mkdir(parents=True, exist_ok=True)
        distinct, which = np.unique(numbers, return_inverse=True)
        for number, image in enumerate(distinct.tolist()):
            writer.write(f"{place}/{number:06d}.png", encode(images[image]))
            if on_image is not None:
                on_image()
        columns[camera_column(camera)] = {
            percept: f"{place}/{number:06d}.png"
            for percept, number in zip(used.tolist(), which.tolist(), strict=True)
        }
    return columns


def image_folder(folder: str, camera: str) -> str:
    """Return the folder of a camera's images; characters that no folder may have are quoted.

    >>> image_folder("images", ""), image_folder("images", "../x")
    ('images', 'images/%2E%2E%2Fx')
    """
    return f"{folder}/{quote(camera, safe=' ').replace('.', '%2E')}".removesuffix("/")


class _ImageColumn:
    """The image files of one column: each is read once, and all must have one shape."""

    def __init__(
        self,
        name: str,
        column: str,
        files: list[str],
        folder: Path,
        checksums: Checksums,
        on_image: OnImage,
    ) -> None:
        self.name, self.files, self.numbers = name, files, dict[str, int]()
        self.has_alpha = False
        self._column, self._on_image = column, on_image
        self._folder, self._checksums = folder, checksums
        self._first: tuple[tuple[int, ...], int] | None = None  # the shape of all, and its row
        self._read = {""}
        self._errors: dict[tuple[str, str], list[int]] = {}

    def image(self, row: int, percepts: Percepts) -> Image | None:
        """Return the image of a row, from a percept if one has it already."""
        number = self.numbers.get(self.files[row])
        if number is None:
            return self.read(row)
        percept = percepts[number]
        return percept[self.name] if isinstance(percept, Mapping) else percept

    def read(self, row: int) -> Image | None:
        """Return the image of a row, or None if its file was read before or cannot be used."""
        file = self.files[row]
        if file in self._read:
            return None
        self._read.add(file)
        try:
            image = self._checked(decode(self._folder, file, self._checksums), row)
        except UnfitError as error:
            self._errors.setdefault((error.fact, error.cure), []).append(row)
            image = None
        if self._on_image is not None:
            self._on_image()
        return image

    def _checked(self, decoded: NDArray[np.generic], row: int) -> Image:
        checked, has_alpha = to_image(decoded)
        self.has_alpha |= has_alpha
        self._first = self._first or (checked.shape, row)
        if checked.shape != self._first[0]:
            raise UnfitError(
                f"has shape {checked.shape}, not {self._first[0]} as row {self._first[1] + 1},",
                "Bring the images to one size, all in grey or all in colour.",
            )
        return checked

    def report(self, problems: ProblemCollector) -> None:
        """Add the problems of the files, with the first row of each."""
        empty = [row for row, file in enumerate(self.files) if not file]
        problems.at(f"{self._column} is empty", empty)
        for (fact, cure), rows in self._errors.items():
            files = [self.files[row] for row in sorted(rows)]
            problems.at(f"{self._column} {fact}", sorted(rows), files, cure=cure)
