"""Image files: decoding, encoding, and a store whose images stay in their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc.data.images import Image, as_image
from rlvc.data.io.checksums import CHANGED, CURE, Checksums
from rlvc.data.percepts import Images, digest_of
from rlvc.errors import ImageError


class FileImages(Images):
    """The distinct images of one camera, which stay in their files.

    Each is read when it is needed, and must be unchanged since it was added.

    Args:
        camera: The name of the camera.
        folder: The folder that paths are relative to.
        shape: The shape of the images, if it is known already.
        digests: Those of the images that are known already.

    Attributes:
        folder: The folder that paths are relative to.
        paths: The file of each image; None where it has none.
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
        self._digests = list(digests)
        self._numbers = {digest: number for number, digest in enumerate(self._digests)}

    def add(self, array: object) -> int:
        """Return the number of an image; the path of a new one must be added next."""
        number = super().add(array)
        if number == len(self._digests):
            self._digests.append(next(reversed(self._numbers)))
        return number

    def subset(self, numbers: Sequence[int]) -> FileImages:
        """Return the images with the given numbers; another process can read their files."""
        digests = [self._digests[number] for number in numbers]
        paths = [self.paths[number] for number in numbers]
        return FileImages(self.camera, self.folder.resolve(), self.shape, digests, paths)

    def _store(self, number: int, image: Image) -> None:
        """Store nothing, as the file exists."""

    def __getitem__(self, number: int) -> Image:
        if not 0 <= number < len(self):
            raise IndexError(f"The store holds {len(self)} images; there is no number {number}.")
        path = self.paths[number]
        if path is None:
            raise ImageError(
                f"Image {number} of {self.whose} is in no file. Make the dataset from images."
            )
        file = self.folder / path
        try:
            image, _ = to_image(decode(self.folder, path, Checksums(self.folder, {})))
        except UnfitError as error:
            raise ImageError(
                f"Image {number} of {self.whose} {error.fact.rstrip(',')}: {file}. Bring the file "
                "back to where it was, or make the dataset again."
            ) from error
        if image.shape != self.shape or digest_of(image) != self._digests[number]:
            raise ImageError(
                f"{file} has changed since image {number} of {self.whose} was added. "
                "Bring the file back as it was, or make the dataset again."
            )
        return image


class UnfitError(Exception):
    """An image file that cannot be used: the fact, and the cure."""

    def __init__(self, fact: str, cure: str) -> None:
        super().__init__(fact, cure)
        self.fact, self.cure = fact, cure


def decode(folder: Path, name: str, checksums: Checksums) -> NDArray[np.generic]:
    """Return the contents of an image file as OpenCV decodes it."""
    file, data = folder / name, None
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise OSError("it is no ordinary file")  # a pipe would block
        data = file.read_bytes()
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
    finally:
        is_sound = checksums.fits(name, data)
    if not is_sound:
        raise UnfitError(f"names a file that is damaged: it {CHANGED},", CURE)
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        image = None
    if image is None:
        raise UnfitError(
            "names a file that is damaged, or is no image that OpenCV can read,",
            "Save it again as PNG, JPEG, BMP, TIFF or WebP.",
        )
    return image


def to_image(image: NDArray[np.generic]) -> tuple[Image, bool]:
    """Return a decoded image as RGB or grey, and whether an alpha channel was left out."""
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


def encode(image: Image) -> bytes:
    """Return the bytes of a PNG file, without loss."""
    return bytes(cv2.imencode(".png", np.ascontiguousarray(image[:, :, ::-1]))[1])


@contextmanager
def quiet() -> Iterator[None]:
    """Keep OpenCV from printing problems of files, which are reported in other words."""
    level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)
