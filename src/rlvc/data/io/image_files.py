"""The image files of a folder: reading those that a table names, writing them, a lazy store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import cv2
import numpy as np

from rlvc._core.arrays import Ints
from rlvc.data.images import Image, as_image
from rlvc.data.io.checksums import CHANGED, CURE, CheckedFolder, ChecksumWriter
from rlvc.data.io.table import RawTable, camera_column
from rlvc.data.percepts import IN_MEMORY, Images, Percepts, digest_of
from rlvc.data.validation import ProblemCollector
from rlvc.errors import ImageError

log = logging.getLogger(__name__)

FOLDER = "images"
OnImage = Callable[[], None]


class FileImages(Images):
    """The distinct images of one camera, which stay in their files.

    Each is read when it is needed, and must be unchanged since it was added. Shape, digests and
    paths describe images that are known already.

    Attributes:
        folder: The folder that paths are relative to.
        paths: The file of each image; None if it has no file.
    """

    def __init__(
        self,
        camera: str,
        folder: Path,
        shape: tuple[int, ...] | None = None,
        digests: Iterable[bytes] = (),
        paths: Iterable[str | None] = (),
    ) -> None:
        super().__init__(camera)
        self.folder, self.shape = folder, shape
        self.paths: list[str | None] = list(paths)
        self.digests = list(digests)
        self._numbers = {digest: number for number, digest in enumerate(self.digests)}

    def subset(self, numbers: Sequence[int]) -> FileImages:
        """Return the images with the given numbers; another process can read their files."""
        digests = [self.digests[number] for number in numbers]
        paths = [self.paths[number] for number in numbers]
        return FileImages(self.camera, self.folder.resolve(), self.shape, digests, paths)

    def _store(self, number: int, image: Image, file: str | None) -> None:
        self.paths.append(file)

    def _load(self, number: int) -> Image:
        path = self.paths[number]
        if path is None:
            raise ImageError(
                f"Image {number} of {self.whose} has no file. Make the dataset from images."
            )
        file = self.folder / path
        try:
            image, _ = read_image(CheckedFolder(self.folder, {}), path)
        except UnfitError as error:
            raise ImageError(
                f"Image {number} of {self.whose} {error.fact.rstrip(',')}: {file}. Put the file "
                "back, or make the dataset again."
            ) from error
        if image.shape != self.shape or digest_of(image) != self.digests[number]:
            raise ImageError(
                f"{file} has changed since image {number} of {self.whose} was added. "
                "Restore the file, or make the dataset again."
            )
        return image


def read_percepts(
    table: RawTable,
    rows: Ints,
    folder: CheckedFolder,
    problems: ProblemCollector,
    on_image: OnImage,
    *,
    lazy: bool,
) -> tuple[Percepts, Ints]:
    """Return the percepts of rows, in the order of their first occurrence, and each row's number.

    The images of other rows are read too, so that their problems are added. With ``lazy``, images
    stay in their files and are read when needed.
    """
    cameras = sorted(table.cameras.items())
    columns = []
    for camera, name in cameras:
        images = Images(camera, in_memory=IN_MEMORY // len(cameras))
        store = FileImages(camera, folder.folder) if lazy else images
        columns.append(_ImageColumn(name, table.columns[name], store, folder, on_image))
    with quiet():
        keys = [column.read(rows.tolist()) for column in columns]
    for column in columns:
        column.report(problems)
    if any(column.has_alpha for column in columns):
        log.warning("Some images have an alpha channel, which is left out.")
    numbers: dict[tuple[int, ...], int] = {}
    which = [numbers.setdefault(key, len(numbers)) for key in zip(*keys, strict=True)]
    percepts = Percepts.of([column.images for column in columns], np.array(list(numbers)))
    return percepts, np.array(which, np.int64)


class _ImageColumn:
    """The image files of one camera: each is read once, and all must have the same shape."""

    def __init__(
        self, name: str, files: list[str], images: Images, folder: CheckedFolder, on_image: OnImage
    ) -> None:
        self.images, self.has_alpha = images, False
        self._name, self._files = name, files
        self._folder, self._on_image = folder, on_image
        self._first: tuple[tuple[int, ...], int] | None = None  # a shape and its row
        self._errors: dict[tuple[str, str], list[int]] = {}

    def read(self, rows: list[int]) -> list[int]:
        """Add the images of rows, and return their numbers; read those of other rows too."""
        used, numbers = {self._files[row] for row in rows}, {"": -1}
        for row in (*rows, *range(len(self._files))):
            file = self._files[row]
            if file in numbers:
                continue
            numbers[file] = -1
            try:
                image = self._read_file(row)
                if file in used:
                    numbers[file] = self.images.add(image, file)
            except UnfitError as error:
                self._errors.setdefault((error.fact, error.cure), []).append(row)
            self._on_image()
        return [numbers[self._files[row]] for row in rows]

    def _read_file(self, row: int) -> Image:
        image, has_alpha = read_image(self._folder, self._files[row])
        self.has_alpha |= has_alpha
        self._first = self._first or (image.shape, row)
        if image.shape != self._first[0]:
            raise UnfitError(
                f"has shape {image.shape}, not {self._first[0]} as row {self._first[1] + 1},",
                "Resize the images to one size, all in grey or all in colour.",
            )
        return image

    def report(self, problems: ProblemCollector) -> None:
        """Add the problems of files, each with its first row."""
        empty = [row for row, file in enumerate(self._files) if not file]
        problems.at(f"{self._name} is empty", empty)
        for (fact, cure), rows in self._errors.items():
            files = [self._files[row] for row in sorted(rows)]
            problems.at(f"{self._name} {fact}", sorted(rows), files, cure=cure)


class UnfitError(Exception):
    """An image file that cannot be used; a fact and a cure say why, and what to do."""

    def __init__(self, fact: str, cure: str) -> None:
        super().__init__(fact, cure)
        self.fact, self.cure = fact, cure


def read_image(folder: CheckedFolder, name: str) -> tuple[Image, bool]:
    """Return an image file as RGB or grey, and whether an alpha channel was left out."""
    try:
        data, is_sound = folder.read(name)
    except FileNotFoundError as error:
        raise UnfitError(
            "names a file that is not there", "Paths start from the folder of the table."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnfitError(
            f"names a file that cannot be read ({reason})",
            "Check that it is a file that may be read.",
        ) from error
    if not is_sound:
        raise UnfitError(f"names a file that is damaged: it {CHANGED},", CURE)
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        image = None
    if image is None:
        raise UnfitError(
            "names a file that is damaged, or is not an image that OpenCV can read,",
            "Save it again as PNG, JPEG, BMP, TIFF or WebP.",
        )
    if image.dtype != np.uint8:
        raise UnfitError(
            f"is of type {image.dtype}, not uint8,",
            "Scale the images to 0..255 and save them with 8 bits.",
        )
    has_alpha = image.ndim == 3 and image.shape[2] == 4
    if has_alpha:
        image = image[:, :, :3]
    if image.ndim == 3 and image.shape[2] != 3:
        raise UnfitError(f"has {image.shape[2]} channels", "Save it in grey or in colour.")
    # OpenCV's are BGR.
    return as_image(image if image.ndim == 2 else image[:, :, ::-1]), has_alpha


@contextmanager
def quiet() -> Iterator[None]:
    """Keep OpenCV from printing messages about files: their problems are reported anyway."""
    level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)


def write_images(
    percepts: Percepts, used: Ints, folder: Path, writer: ChecksumWriter, on_image: OnImage
) -> dict[str, dict[int, str]]:
    """Write each distinct image of these percepts; return the files of each column by percept."""
    columns = {}
    table = percepts.table()[used]
    for camera, images, numbers in zip(percepts.cameras, percepts.images, table.T, strict=True):
        place = image_folder(FOLDER, camera)
        (folder / place).mkdir(parents=True, exist_ok=True)
        distinct, which = np.unique(numbers, return_inverse=True)
        files = [f"{place}/{number:06d}.png" for number in range(len(distinct))]
        for file, image in zip(files, distinct.tolist(), strict=True):
            writer.write(file, encode(images[image]))
            on_image()
        shown = (files[number] for number in which)
        columns[camera_column(camera)] = dict(zip(used.tolist(), shown, strict=True))
    return columns


def image_folder(folder: str, camera: str) -> str:
    """Return the folder of a camera's images; characters that a folder cannot have are quoted.

    >>> image_folder("images", ""), image_folder("images", "../x")
    ('images', 'images/%2E%2E%2Fx')
    """
    return f"{folder}/{quote(camera, safe=' ').replace('.', '%2E')}".removesuffix("/")


def encode(image: Image) -> bytes:
    """Return an image as the bytes of a PNG file, without loss."""
    return bytes(cv2.imencode(".png", np.ascontiguousarray(image[:, :, ::-1]))[1])
