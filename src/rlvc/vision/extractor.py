"""The feature extractor: from images to keypoints, and from keypoints to symbols."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import run_threads, take_rows
from rlvc.data.images import Image
from rlvc.data.percepts import Images, Percepts
from rlvc.vision.descriptors import Descriptor, ImageKeypoints, JointDescriptor
from rlvc.vision.detectors import Detector, InterestPoints
from rlvc.vision.keypoints import Keypoints, first_points
from rlvc.vision.metrics import Metric
from rlvc.vision.patches import Patch, Patches
from rlvc.vision.vocabulary import Vocabulary

SIDE = 32  # width and height of a patch, pixels


@dataclass(frozen=True, slots=True)
class SymbolOccurrences:
    """Where symbols occur on the images of one camera.

    Attributes:
        begin: (n_images + 1,) where the occurrences of each image begin.
        symbol: (n,) the symbol of each occurrence, a number of the camera's vocabulary.
        point: (n,) the interest point of each occurrence.
        points: The interest points of all images.
    """

    begin: NDArray[np.int64]
    symbol: NDArray[np.int32]
    point: NDArray[np.int32]
    points: InterestPoints


class FeatureExtractor:
    """A detector, a descriptor and one vocabulary per camera.

    Attributes:
        vocabularies: One per camera.
        patches: For each camera, a picture (SIDE, SIDE, 3) of each symbol, at its first occurrence.

    >>> from rlvc.vision import ExtractionCache, Euclidean, Harris, Invariants
    >>> extractor = FeatureExtractor(Harris(), Invariants(), Euclidean(), 0.1)
    >>> image, percepts = np.zeros((64, 64, 3), np.uint8), Percepts()
    >>> image[30:, 30:] = 255
    >>> number, keypoints = percepts.add(image), ExtractionCache().extract(extractor, percepts)
    >>> (symbols,) = extractor.find_symbols(percepts, keypoints)
    >>> extractor.n_symbols, symbols.points.xy.tolist()
    (1, [[31.0, 31.0]])
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
        """The number of symbols of all cameras."""
        return sum(vocabulary.n_symbols for vocabulary in self.vocabularies.values())

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

    def find_symbols(
        self,
        percepts: Percepts,
        keypoints: Sequence[Keypoints],
        threads: int = 1,
        *,
        learn: bool = True,
    ) -> list[SymbolOccurrences]:
        """Return which symbols occur where on the images of percepts, camera by camera.

        Args:
            percepts: The percepts.
            keypoints: Those of each camera; see :meth:`rlvc.vision.cache.ExtractionCache.extract`.
            threads: How many threads to use; the result does not depend on it.
            learn: Whether descriptors that are near no symbol become new symbols.
        """
        found = list[SymbolOccurrences]()
        for images, extracted in zip(percepts.images, keypoints, strict=True):
            if learn:
                self.learn(images, extracted, threads)
            elif images.camera not in self.vocabularies:
                known = ", ".join(sorted(self.vocabularies))
                raise ValueError(f"The extractor has cameras {known}; got {images.camera!r}.")
            found.append(self.quantize(images.camera, extracted, threads))
        return found

    def learn(
        self, images: Images, keypoints: Keypoints, threads: int = 1, first_image: int = 0
    ) -> None:
        """Add the new symbols among the keypoints of a camera's images to its vocabulary.

        The keypoints are those of ``images`` from the number ``first_image`` on.
        """
        camera = images.camera
        vocabulary = self.vocabularies.setdefault(camera, Vocabulary(self.metric, self.threshold))
        known = self.patches.get(camera, ())
        patches = known if isinstance(known, Patches) else Patches(known)
        self.patches[camera] = patches
        added = vocabulary.extend(keypoints.descriptors, threads)
        first = first_points(keypoints.row)[added]
        numbers = np.searchsorted(keypoints.begin, first, side="right") - 1
        pairs = zip(numbers.tolist(), first.tolist(), strict=True)
        for number, group in itertools.groupby(pairs, lambda pair: pair[0]):
            image = images[first_image + number]  # once, as it may have to be read from a file
            patches.extend(cut_patch(image, keypoints.points, point) for _, point in group)

    def quantize(self, camera: str, keypoints: Keypoints, threads: int = 1) -> SymbolOccurrences:
        """Return where the known symbols of a camera occur on its images."""
        by_row = self.vocabularies[camera].quantize(keypoints.descriptors, threads)
        begin, symbols = take_rows(*by_row, keypoints.row)
        point = np.repeat(np.arange(len(keypoints.row), dtype=np.int32), np.diff(begin))
        return SymbolOccurrences(begin[keypoints.begin], symbols, point, keypoints.points)

    def snapshot(self) -> FeatureExtractor:
        """Return an extractor with the current symbols, which does not grow with this one."""
        extractor = FeatureExtractor(self.detector, self.descriptor, self.metric, self.threshold)
        extractor.vocabularies = {name: replace(one) for name, one in self.vocabularies.items()}
        return extractor


def extract_in_threads(
    extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
) -> Iterator[ImageKeypoints]:
    """Yield the keypoints of the images with the given numbers, in order.

    No more than a few images are in memory at a time.
    """
    return run_threads(lambda number: extractor.extract_image(images[number]), numbers, threads)


# A function like :func:`extract_in_threads`.
ExtractionBackend = Callable[
    [FeatureExtractor, Images, Sequence[int], int], Iterator[ImageKeypoints]
]


def cut_patch(image: Image, points: InterestPoints, row: int) -> Patch:
    """Return the neighbourhood of a point as a colour picture of SIDE × SIDE pixels."""
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
