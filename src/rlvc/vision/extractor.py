"""The eye: what it takes to turn percepts into symbols, camera by camera."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit, run_threads
from rlvc.data.images import Image
from rlvc.data.percepts import Images, Percepts
from rlvc.vision.descriptors import Descriptor, Descriptors, ImageKeypoints, JointDescriptor
from rlvc.vision.detectors import Detector, InterestPoints
from rlvc.vision.keypoints import GrowableArray, UniqueRows
from rlvc.vision.metrics import Metric
from rlvc.vision.patches import Patch, Patches
from rlvc.vision.vocabulary import Vocabulary

SIDE = 32  # pixels of a patch
OnLook = Callable[[InterestPoints, Descriptors], None]


@dataclass(frozen=True, slots=True)
class Keypoints:
    """What was seen on many images of one camera, row by row.

    Attributes:
        begin: (n_images + 1,) where the points of each image begin.
        points: All interest points.
        descriptors: (n_distinct, d) their distinct descriptors, in the order of their first points.
        row: (n_points,) which of these each point has.
    """

    begin: NDArray[np.int64]
    points: InterestPoints
    descriptors: Descriptors
    row: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SymbolOccurrences:
    """Where each symbol is seen on each image of one camera.

    Attributes:
        begin: (n_images + 1,) where the occurrences of each image begin.
        symbol: (n,) the symbols of the camera's vocabulary.
        point: (n,) which interest point shows each.
        points: The interest points of all images.
    """

    begin: NDArray[np.int64]
    symbol: NDArray[np.int32]
    point: NDArray[np.int32]
    points: InterestPoints


class ExtractionBackend(Protocol):
    """Who looks at many images."""

    def __call__(
        self, extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
    ) -> Iterator[ImageKeypoints]:
        """Yield what an eye sees on some images, in their order."""
        ...


def extract_in_threads(
    extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
) -> Iterator[ImageKeypoints]:
    """Yield what an eye sees on some images, in their order, looking with some threads."""
    return run_threads(lambda number: extractor.extract_image(images[number]), numbers, threads)


class KeypointBuffer:
    """What is being seen on images, one after the other.

    Args:
        before: What was seen already; it stays as it is.
    """

    def __init__(self, before: Keypoints | None = None) -> None:
        self._begin = [0]
        self._points: list[GrowableArray] | None = None
        self._row = GrowableArray(np.empty(0, np.int32))
        self._distinct: UniqueRows | None = None
        self._empty: Descriptors | None = None
        if before is not None:
            self._begin = before.begin.tolist()
            self._add(before.points)
            self._empty = before.descriptors[:0]
            if len(before.descriptors):
                self._distinct = UniqueRows(before.descriptors)
                self._distinct.add(before.descriptors)
                self._row.add(before.row)

    def add(self, counts: Sequence[int], points: InterestPoints, rows: Descriptors) -> None:
        """Add what was seen on some images: how many points on each, and these."""
        self._begin += (self._begin[-1] + np.cumsum(counts, dtype=np.int64)).tolist()
        self._add(points)
        if self._empty is None:
            self._empty = rows[:0]
        if len(rows):
            if self._distinct is None:  # what has no rows does not tell of what kind they are
                self._distinct = UniqueRows(rows)
            self._row.add(self._distinct.add(rows))

    def _add(self, points: InterestPoints) -> None:
        columns = points.xy, points.scale, points.angle, points.octave
        if self._points is None:
            self._points = [GrowableArray(column) for column in columns]
        for grown, column in zip(self._points, columns, strict=True):
            grown.add(column)

    def finish(self) -> Keypoints:
        """Return what was seen on all images, at least one; none may be added any more."""
        assert self._points is not None
        assert self._empty is not None
        rows = self._empty if self._distinct is None else self._distinct.finish()
        points = InterestPoints(*(column.finish() for column in self._points))
        return Keypoints(np.asarray(self._begin, np.int64), points, rows, self._row.finish())


class FeatureExtractor:
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
        self.patches: dict[str, Sequence[Patch]] = {}

    @property
    def n_symbols(self) -> int:
        """How many symbols there are over all cameras."""
        return sum(words.n_symbols for words in self.vocabularies.values())

    def extract_image(self, image: Image) -> ImageKeypoints:
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

    def extract(
        self,
        images: Images,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        before: Keypoints | None = None,
        on_look: OnLook | None = None,
        backend: ExtractionBackend = extract_in_threads,
    ) -> Keypoints:
        """Look once at each image; no more than a few are in memory at a time.

        Args:
            images: What to look at.
            threads: How many threads to use; the result does not depend on it.
            on_image: Called after each image.
            before: What was seen on the first of these images already, not to look again.
            on_look: Called with what was seen on each image, in their order.
            backend: Who does it.
        """
        n_known = 0 if before is None else len(before.begin) - 1
        if before is not None and n_known == len(images):
            return before
        gathering = KeypointBuffer(before)
        for points, descriptors in backend(self, images, range(n_known, len(images)), threads):
            gathering.add([len(points)], points, descriptors)
            if on_look is not None:
                on_look(points, descriptors)
            if on_image is not None:
                on_image()
        return gathering.finish()

    def extract_all(
        self,
        percepts: Percepts,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        before: list[Keypoints] | None = None,
        backend: ExtractionBackend = extract_in_threads,
    ) -> list[Keypoints]:
        """Look once at each distinct image of each camera; see :meth:`look`."""
        known: list[Keypoints | None] = [*before] if before else [None] * len(percepts.images)
        return [
            self.extract(images, threads, on_image, one, backend=backend)
            for images, one in zip(percepts.images, known, strict=True)
        ]

    def learn(self, images: Images, keypoints: Keypoints, threads: int = 1) -> None:
        """Extend the vocabulary of a camera by what it saw on its images."""
        camera = images.camera
        words = self.vocabularies.setdefault(camera, Vocabulary(self.metric, self.threshold))
        known = self.patches.get(camera, ())
        patches = known if isinstance(known, Patches) else Patches(known)
        self.patches[camera] = patches
        added = words.extend(keypoints.descriptors, threads)
        first = first_points(keypoints.row)[added]  # the points that show them
        numbers = np.searchsorted(keypoints.begin, first, side="right") - 1
        for number, group in itertools.groupby(zip(numbers, first, strict=True), lambda at: at[0]):
            image = images[int(number)]  # once, as it may have to come from a file
            patches.extend(cut_patch(image, keypoints.points, int(point)) for _, point in group)

    def quantize(self, camera: str, keypoints: Keypoints, threads: int = 1) -> SymbolOccurrences:
        """Return the symbols that the images of a camera exhibit, and where."""
        by_row = self.vocabularies[camera].quantize(keypoints.descriptors, threads)
        return SymbolOccurrences(
            *_expand(keypoints.begin, keypoints.row, *by_row), keypoints.points
        )

    def find_symbols(
        self,
        percepts: Percepts,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        *,
        learn: bool = True,
        keypoints: list[Keypoints] | None = None,
    ) -> list[SymbolOccurrences]:
        """Look at all percepts, and return which symbols are where, camera by camera.

        Args:
            percepts: What to look at; each distinct image is looked at once.
            threads: How many threads to use; the result does not depend on it.
            on_image: Called after each image.
            learn: Whether descriptors not met before become new symbols.
            keypoints: What :meth:`look_at_all` saw on these percepts, not to look again.
        """
        seen: list[SymbolOccurrences] = []
        for i, images in enumerate(percepts.images):
            if not learn and images.camera not in self.vocabularies:
                known = ", ".join(sorted(self.vocabularies))
                raise ValueError(f"This eye has cameras {known}; got {images.camera!r}.")
            look = keypoints[i] if keypoints else self.extract(images, threads, on_image)
            if learn:
                self.learn(images, look, threads)
            seen.append(self.quantize(images.camera, look, threads))
        return seen

    def snapshot(self) -> FeatureExtractor:
        """Return an eye that knows what this one knows now, whatever this one learns later."""
        extractor = FeatureExtractor(self.detector, self.descriptor, self.metric, self.threshold)
        for camera, words in self.vocabularies.items():
            extractor.vocabularies[camera] = replace(words)
        return extractor


@jit
def _expand(
    begin: NDArray[np.int64],
    row: NDArray[np.int32],
    indptr: NDArray[np.int64],
    symbols: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return where the occurrences of each image begin, their symbols and their points."""
    out = np.zeros(len(begin), np.int64)
    for image in range(len(begin) - 1):
        out[image + 1] = out[image]
        for point in range(begin[image], begin[image + 1]):
            out[image + 1] += indptr[row[point] + 1] - indptr[row[point]]
    symbol, where = np.empty(out[-1], np.int32), np.empty(out[-1], np.int32)
    n = 0
    for point in range(len(row)):
        for i in range(indptr[row[point]], indptr[row[point] + 1]):
            symbol[n], where[n] = symbols[i], point
            n += 1
    return out, symbol, where


def first_points(row: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first point that has each distinct descriptor; they are numbered as they are met.

    >>> first_points(np.int32([0, 1, 0, 2, 1])).tolist()
    [0, 1, 3]
    """
    met = np.maximum.accumulate(row)
    return np.flatnonzero(np.diff(met, prepend=np.int32(-1)))


def cut_patch(image: Image, points: InterestPoints, row: int) -> Patch:
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
