"""The store of distinct percepts: each image is stored and processed once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlvc._core.arrays import Ints
from rlvc._core.spool import SpooledArrays
from rlvc.data.images import Image, as_image

Percept = Image | Mapping[str, Image]
SINGLE = ""  # the name of the camera of percepts that are one image
IN_MEMORY = 64 * 2**20  # bytes of images kept in memory; the rest goes to a temporary file


def images_of(percept: object) -> Mapping[str, Any]:
    """Return the images of a percept by camera."""
    return percept if isinstance(percept, Mapping) else {SINGLE: percept}


class Images:
    """The distinct images of one camera, numbered in the order in which they were added."""

    def __init__(self, camera: str = SINGLE, *, in_memory: int = IN_MEMORY) -> None:
        self.camera = camera
        self.shape: tuple[int, ...] | None = None
        self.digests: list[bytes] = []  # of each image, by number
        self._numbers: dict[bytes, int] = {}
        self._arrays = SpooledArrays(in_memory)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def whose(self) -> str:
        """How error messages call these images."""
        return f"camera {self.camera!r}" if self.camera else "the percept"

    def add(self, array: object, file: str | None = None) -> int:
        """Return the number of an image; store it, or the file that it is in, if it is new."""
        image = as_image(array, self.whose)
        if self.shape is None:
            self.shape = image.shape
        if image.shape != self.shape:
            raise ValueError(
                f"The shape of {self.whose} must be {self.shape}, as before; got {image.shape}. "
                "Resize the images to one size."
            )
        digest = digest_of(image)
        if digest not in self._numbers:
            number = len(self)
            self._store(number, image, file)
            self._numbers[digest] = number  # only now, as a full disk may refuse the image
            self.digests.append(digest)
        return self._numbers[digest]

    def subset(self, numbers: Sequence[int]) -> Images | list[Image]:
        """Return the images with these numbers, to send them to another process."""
        return [self[number] for number in numbers]

    def fingerprint(self, first: int, last: int) -> str:
        """Return a digest of the images from ``first`` up to ``last``, in this order."""
        digests = b"".join(self.digests[first:last])
        return hashlib.blake2b(digests, digest_size=16).hexdigest()

    def _store(self, number: int, image: Image, file: str | None) -> None:
        self._arrays.append(image, f"image {number} of {self.whose}")

    def __getitem__(self, number: int) -> Image:
        if not 0 <= number < len(self):
            raise IndexError(f"The store holds {len(self)} images; there is no number {number}.")
        return self._load(number)

    def __iter__(self) -> Iterator[Image]:
        return (self[number] for number in range(len(self)))

    def _load(self, number: int) -> Image:
        return self._arrays.read(number, f"Image {number} of {self.whose}")


def digest_of(image: Image) -> bytes:
    """Return the digest of an image: BLAKE2b of its bytes."""
    return hashlib.blake2b(image.data, digest_size=16).digest()


class ImagePlaceholders(Images):
    """Images that are not in this process; only their number and shape are known."""

    def __init__(self, images: Images) -> None:
        super().__init__(images.camera)
        self.shape, self._n = images.shape, len(images)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, number: int) -> Image:
        raise LookupError(f"Image {number} of {self.whose} is not in this process.")


class Percepts:
    """The distinct percepts of a database, each an image or a dict of images.

    >>> store = Percepts()
    >>> image = np.zeros((8, 8, 3), np.uint8)
    >>> store.add(image), store.add(image + 1), store.add(image)
    (0, 1, 0)
    >>> len(store), store[1].max()
    (2, np.uint8(1))
    """

    def __init__(self, *, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._images: list[Images] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._keys: list[tuple[int, ...]] = []

    @classmethod
    def of(cls, images: Sequence[Images], table: Ints) -> Percepts:
        """Return a store of distinct percepts, given the images of the cameras in their order.

        Row i of the (n, n_cameras) table has the numbers of the images that make up percept i.
        """
        store = cls()
        store._images = list(images)
        store._keys = [tuple(key) for key in table.tolist()]
        store._numbers = {key: number for number, key in enumerate(store._keys)}
        return store

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def cameras(self) -> tuple[str, ...]:
        """The names of the cameras in alphabetical order; ``("",)`` where percepts are images."""
        return tuple(images.camera for images in self._images)

    @property
    def images(self) -> tuple[Images, ...]:
        """The distinct images of every camera."""
        return tuple(self._images)

    def add(self, percept: object) -> int:
        """Return the number of a percept; store it if it is new."""
        parts = images_of(percept)
        cameras = tuple(sorted(parts))
        if not self._images:
            if not cameras:
                raise ValueError("A percept must have at least one image; got an empty dict.")
            limit = self._in_memory // len(cameras)
            self._images = [Images(name, in_memory=limit) for name in cameras]
        if cameras != self.cameras:
            raise ValueError(
                f"The cameras of a percept must be {list(self.cameras)}, as before; "
                f"got {list(cameras)}."
            )
        key = tuple(images.add(parts[images.camera]) for images in self._images)
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def table(self) -> Ints:
        """Return the (n, n_cameras) numbers of the images that make up each percept."""
        return np.asarray(self._keys, np.int64).reshape(len(self), len(self.cameras))

    def take(self, numbers: Ints) -> Percepts:
        """Return a store of the given percepts, in this order, with the same images."""
        table = np.array([self._keys[number] for number in numbers.tolist()], np.int64)
        return Percepts.of(self._images, table)

    def without_images(self) -> Percepts:
        """Return the same percepts without their images, to send them to other processes."""
        return Percepts.of([ImagePlaceholders(images) for images in self._images], self.table())

    @property
    def has_images(self) -> bool:
        """Whether the images are in this process."""
        return not any(isinstance(images, ImagePlaceholders) for images in self._images)

    def __getitem__(self, number: int) -> Percept:
        if not 0 <= number < len(self):
            raise IndexError(f"The store holds {len(self)} percepts; there is no number {number}.")
        numbers = zip(self._images, self._keys[number], strict=True)
        parts = {images.camera: images[i] for images, i in numbers}
        return parts[SINGLE] if self.cameras == (SINGLE,) else parts

    def __iter__(self) -> Iterator[Percept]:
        return (self[number] for number in range(len(self)))


class PerceptPlaceholders(Percepts):
    """Percepts that are not in this process; only their number is known."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n

    def __len__(self) -> int:
        return self._n
