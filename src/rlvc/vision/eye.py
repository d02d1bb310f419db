"""The eye: what it takes to turn percepts into symbols, camera by camera."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc.compiled import compiled, run_threads
from rlvc.images import Image
from rlvc.incidence import Incidence
from rlvc.percepts import Images, Percepts
from rlvc.vision.descriptors import Descriptor, Descriptors, JointDescriptor
from rlvc.vision.detectors import Detector, Points
from rlvc.vision.metrics import Metric
from rlvc.vision.search import Search
from rlvc.vision.vocabulary import Vocabulary

SIDE = 32  # pixels of a patch
OnLook = Callable[[Points, Descriptors], None]


@dataclass(frozen=True, slots=True)
class Looks:
    """What was seen on many images of one camera, row by row.

    Attributes:
        begin: (n_images + 1,) where the points of each image begin.
        points: All interest points.
        descriptors: (n_distinct, d) their distinct descriptors, in the order of their first points.
        row: (n_points,) which of these each point has.
    """

    begin: NDArray[np.int64]
    points: Points
    descriptors: Descriptors
    row: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Where each symbol is seen on each image of one camera.

    Attributes:
        begin: (n_images + 1,) where the occurrences of each image begin.
        symbol: The symbols of the camera's vocabulary.
        points: The interest points that show them.
    """

    begin: NDArray[np.int64]
    symbol: NDArray[np.int32]
    points: Points


class Eye:
    """Detector, descriptor and one vocabulary per camera.

    Attributes:
        vocabularies: One per camera.
        patches: For each camera, what each symbol looked like where it was first met,
            SIDE × SIDE × 3.
    """

    def __init__(
        self, detector: Detector, descriptor: Descriptor, metric: Metric, threshold: float
    ) -> None:
        self.detector = detector
        self.descriptor = descriptor
        self.metric = metric
        self.threshold = threshold
        self.vocabularies: dict[str, Vocabulary] = {}
        self.patches: dict[str, list[NDArray[np.uint8]]] = {}

    @property
    def n_symbols(self) -> int:
        """How many symbols there are over all cameras."""
        return sum(words.n_symbols for words in self.vocabularies.values())

    def look_at(self, image: Image) -> tuple[Points, Descriptors]:
        """Detect and describe the interest points of one image."""
        if isinstance(self.descriptor, JointDescriptor):
            points, rows = self.descriptor.detect_and_describe(image, self.detector)
        else:
            points, rows = self.descriptor.describe(image, self.detector.detect(image))
        if rows.ndim != 2 or len(rows) != len(points) or not np.isfinite(rows).all():
            raise ValueError(
                f"{type(self.descriptor).__name__} must return one row of finite numbers for each "
                f"of its {len(points)} points; got an array of shape {rows.shape}."
            )
        return points, rows

    def look(
        self,
        images: Images,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        before: Looks | None = None,
        on_look: OnLook | None = None,
    ) -> Looks:
        """Look once at each image; no more than a few are in memory at a time.

        Args:
            images: What to look at.
            threads: How many threads to use; the result does not depend on it.
            on_image: Called after each image.
            before: What was seen on the first of these images already, not to look again.
            on_look: Called with what was seen on each image, in their order.
        """
        n_known = 0 if before is None else len(before.begin) - 1
        if before is not None and n_known == len(images):
            return before
        xy: list[Points] = []
        rows: list[Descriptors] = []
        for points, descriptors in run_threads(
            lambda number: self.look_at(images[number]), range(n_known, len(images)), threads
        ):
            xy.append(points)
            rows.append(descriptors)
            if on_look is not None:
                on_look(points, descriptors)
            if on_image is not None:
                on_image()
        begin = np.concatenate([[0], np.cumsum([len(points) for points in xy])]).astype(np.int64)
        if before is not None:
            begin = np.concatenate([before.begin, before.begin[-1] + begin[1:]])
            xy.insert(0, before.points)
            rows.insert(0, before.descriptors[before.row])
        return Looks(begin, Points.concatenate(xy), *distinct_rows(np.concatenate(rows)))

    def look_at_all(
        self,
        percepts: Percepts,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        before: list[Looks] | None = None,
    ) -> list[Looks]:
        """Look once at each distinct image of each camera; see :meth:`look`."""
        known: list[Looks | None] = [*before] if before else [None] * len(percepts.images)
        return [
            self.look(images, threads, on_image, one)
            for images, one in zip(percepts.images, known, strict=True)
        ]

    def learn(self, images: Images, looks: Looks, threads: int = 1) -> None:
        """Extend the vocabulary of a camera by what it saw on its images."""
        camera = images.camera
        words = self.vocabularies.setdefault(camera, Vocabulary(self.metric, self.threshold))
        patches = self.patches.setdefault(camera, [])
        added = words.extend(looks.descriptors, threads)
        first = np.unique(looks.row, return_index=True)[1][added]  # the points that show them
        numbers = np.searchsorted(looks.begin, first, side="right") - 1
        for number, group in itertools.groupby(zip(numbers, first, strict=True), lambda at: at[0]):
            image = images[int(number)]  # once, as it may have to come from a file
            patches += [cut_patch(image, looks.points, int(point)) for _, point in group]

    def quantize(self, camera: str, looks: Looks, threads: int = 1) -> Occurrences:
        """Return the symbols that the images of a camera exhibit, and where."""
        by_row = Incidence(*self.vocabularies[camera].quantize(looks.descriptors, threads), 0)
        by_point = by_row.take(looks.row)
        point = np.repeat(np.arange(len(looks.row)), np.diff(by_point.indptr))
        begin = by_point.indptr[looks.begin]
        return Occurrences(begin, by_point.indices, looks.points.take(point))

    def see(
        self,
        percepts: Percepts,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        *,
        learn: bool = True,
        looks: list[Looks] | None = None,
    ) -> list[Occurrences]:
        """Look at all percepts, and return which symbols are where, camera by camera.

        Args:
            percepts: What to look at; each distinct image is looked at once.
            threads: How many threads to use; the result does not depend on it.
            on_image: Called after each image.
            learn: Whether descriptors not met before become new symbols.
            looks: What :meth:`look_at_all` saw on these percepts, not to look again.
        """
        seen: list[Occurrences] = []
        for i, images in enumerate(percepts.images):
            if not learn and images.camera not in self.vocabularies:
                known = ", ".join(sorted(self.vocabularies))
                raise ValueError(f"This eye has cameras {known}; got {images.camera!r}.")
            look = looks[i] if looks else self.look(images, threads, on_image)
            if learn:
                self.learn(images, look, threads)
            seen.append(self.quantize(images.camera, look, threads))
        return seen

    def snapshot(self) -> Eye:
        """Return an eye that knows what this one knows now, whatever this one learns later."""
        eye = Eye(self.detector, self.descriptor, self.metric, self.threshold)
        for camera, words in self.vocabularies.items():
            eye.vocabularies[camera] = replace(words)
        return eye


def distinct_rows(rows: Descriptors) -> tuple[Descriptors, NDArray[np.int64]]:
    """Return the distinct rows in the order in which they are met, and which one each row is.

    A camera that moves over a scene sees the same point again and again.

    >>> distinct_rows(np.uint8([[5, 5], [1, 1], [5, 5]]))[1].tolist()
    [0, 1, 0]
    """
    width = rows.shape[1] * rows.dtype.itemsize
    whole = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), width)
    first, which = _distinct_rows(whole)
    return rows[first], which


@compiled
def _distinct_rows(rows: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number rows in a hash table with open addressing, comparing whole rows where hashes meet."""
    n, width = rows.shape
    size = 1
    while size < 2 * n + 1:
        size *= 2
    table = np.full(size, -1, np.int64)
    first = np.empty(n, np.int64)
    which = np.empty(n, np.int64)
    n_distinct = 0
    for i in range(n):
        key = np.uint64(14695981039346656037)  # Fowler, Noll and Vo's hash
        for c in range(width):
            key = (key ^ np.uint64(rows[i, c])) * np.uint64(1099511628211)
        slot = np.int64((key ^ (key >> np.uint64(32))) & np.uint64(size - 1))
        while True:
            met = table[slot]
            if met == -1:
                table[slot] = n_distinct
                first[n_distinct] = i
                which[i] = n_distinct
                n_distinct += 1
                break
            j = first[met]
            same = True
            for c in range(width):
                if rows[i, c] != rows[j, c]:
                    same = False
                    break
            if same:
                which[i] = met
                break
            slot = (slot + 1) & (size - 1)
    return first[:n_distinct].copy(), which


def cut_patch(image: Image, points: Points, row: int) -> NDArray[np.uint8]:
    """Return the neighbourhood of a point as a small colour picture of a fixed size."""
    size = max(float(points.scale[row]), 9.0)
    zoom = size / SIDE
    x, y = points.xy[row].tolist()
    middle = (SIDE - 1) / 2
    window = np.array([[zoom, 0.0, x - zoom * middle], [0.0, zoom, y - zoom * middle]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    patch = cv2.warpAffine(
        image, window, (SIDE, SIDE), flags=flags, borderMode=cv2.BORDER_CONSTANT,
        borderValue=(255, 255, 255),
    )  # fmt: skip
    return np.broadcast_to(patch.reshape(SIDE, SIDE, -1), (SIDE, SIDE, 3)).astype(np.uint8)


class Glance:
    """One percept as a policy sees it: each camera is looked at only when a test asks for it."""

    def __init__(self, eye: Eye, percept: dict[str, Image]) -> None:
        self._eye = eye
        self._percept = percept
        self._seen: dict[str, tuple[Points, NDArray[Any], Search]] = {}

    def _look(self, camera: str) -> tuple[Points, NDArray[Any], Search]:
        points, descriptors = self._eye.look_at(self._percept[camera])
        search = self._eye.vocabularies[camera].search
        self._seen[camera] = points, search.prepare(descriptors), search
        return self._seen[camera]

    def size(self, camera: str) -> tuple[int, int]:
        """Return the width and height of a camera's image."""
        height, width = self._percept[camera].shape[:2]
        return width, height

    def find(self, camera: str, symbol: int) -> Points:
        """Return the interest points that show a symbol."""
        points, rows, search = self._seen.get(camera) or self._look(camera)
        return points.take(search.matches(rows, symbol))

    def exhibits(self, camera: str, symbol: int) -> bool:
        """Tell whether a symbol is seen: the cost of one test at work."""
        _, rows, search = self._seen.get(camera) or self._look(camera)
        return search.has_match(rows, symbol)
