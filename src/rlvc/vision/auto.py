"""The choice of detector, descriptor, metric and threshold from the images.

In rendered images, a point looks the same to the last bit whenever it recurs; colour corners with a
few numbers each then tell more points apart than anything else, and are fast. A real camera never
gives the same numbers twice; SIFT then finds again what colour corners lose. SIFT is also better
where little is drawn, such as one figure on an empty board: it describes larger neighbourhoods,
which differ wherever the figure is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlvc.data.percepts import Images, Percepts
from rlvc.vision.descriptors import (
    Descriptor,
    Descriptors,
    Invariants,
    OrbDescriptor,
    SiftDescriptor,
)
from rlvc.vision.detectors import Detector, Harris, Orb, Sift
from rlvc.vision.extractor import FeatureExtractor, extract_in_threads
from rlvc.vision.keypoints import unique_rows
from rlvc.vision.metrics import Euclidean, Hamming, Mahalanobis, Metric

N_RUNS, RUN_LENGTH = 16, 4  # the runs of consecutive images that are sampled
MIN_IMAGES = 8  # with fewer images, colour corners are the default
MIN_RECURRENCE = 0.25  # share of descriptors that recur: 0.5 to 1 if rendered, 0 from a camera
MIN_DISTINCTNESS = 0.5  # share of images that corners must tell apart, if SIFT tells more
NEAR_PAIRS = 5e-4  # share of the pairs of descriptors that a chosen threshold makes one symbol
MAX_ROWS = 1000  # descriptors of a camera between which distances are measured


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractorConfig:
    """A detector, a descriptor, a metric and a threshold that suit each other."""

    detector: Detector
    descriptor: Descriptor
    metric: Metric
    threshold: float = 0.0  # distance up to which descriptors are the same symbol; 0 to choose it

    def new_extractor(self) -> FeatureExtractor:
        """Return an extractor without any symbols."""
        return FeatureExtractor(self.detector, self.descriptor, self.metric, self.threshold)


DRAWN = ExtractorConfig(
    detector=Harris(), descriptor=Invariants(), metric=Mahalanobis(), threshold=0.2
)
CAMERA = ExtractorConfig(
    detector=Sift(), descriptor=SiftDescriptor(), metric=Euclidean(), threshold=160.0
)
BINARY = ExtractorConfig(detector=Orb(), descriptor=OrbDescriptor(), metric=Hamming())
CONFIGS = (DRAWN, CAMERA, BINARY)


def choose_extractor(
    percepts: Percepts,
    *,
    detector: Detector | None = None,
    descriptor: Descriptor | None = None,
    metric: Metric | None = None,
    threshold: float = 0.0,
    threads: int = 1,
) -> ExtractorConfig:
    """Complete the given parts with parts that suit them and the percepts.

    A part of rlvc determines the others that go with it. If none is given, a sample of the images
    decides: colour corners if these recur exactly and differ on most images, else SIFT. With few
    images, colour corners are chosen unless they find nothing.

    Args:
        percepts: A few images of each camera are sampled.
        detector: The detector; None to choose it.
        descriptor: The descriptor; None to choose it.
        metric: The metric; None to choose it.
        threshold: Distance up to which descriptors are the same symbol; 0 to choose it.
        threads: How many threads to use; the result does not depend on it.

    >>> rng = np.random.default_rng(0)
    >>> scene = rng.integers(0, 256, (64, 640, 3), dtype=np.uint8)
    >>> drawn, filmed = Percepts(), Percepts()
    >>> for x in range(0, 500, 8):
    ...     window = scene[:, x : x + 64]
    ...     noise = rng.integers(0, 9, window.shape, dtype=np.uint8)
    ...     numbers = drawn.add(window), filmed.add(window // 2 + noise)
    >>> choose_extractor(drawn).detector
    Harris(sigma=1.0, integration=2.0, k=0.04, radius=5, threshold=1e-06)
    >>> choose_extractor(filmed).descriptor
    SiftDescriptor(root=False)
    """
    if detector is None or descriptor is None or metric is None:
        default = _find_config(descriptor=descriptor, detector=detector, metric=metric)
        default = default or _choose_config(percepts, detector or DRAWN.detector, threads)
        if descriptor is not None and type(descriptor) is not type(default.descriptor):
            default = replace(default, metric=Euclidean())  # for a custom descriptor
        detector = detector or default.detector
        descriptor = descriptor or default.descriptor
        metric = metric or default.metric
    config = ExtractorConfig(
        detector=detector, descriptor=descriptor, metric=metric, threshold=threshold
    )
    if threshold > 0.0:
        return config
    return replace(config, threshold=_threshold(config, percepts, threads))


def _find_config(**parts: object) -> ExtractorConfig | None:
    """Return the configuration to which the first part of rlvc belongs; None if there is none."""
    for name, part in parts.items():
        for config in CONFIGS:
            if type(part) is type(getattr(config, name)):
                return config
    return None


def _choose_config(percepts: Percepts, detector: Detector, threads: int) -> ExtractorConfig:
    """Return the configuration for percepts: CAMERA if any of theirs is a real camera."""
    corners, sift = replace(DRAWN, detector=detector).new_extractor(), CAMERA.new_extractor()
    samples = [list(_sample(corners, images, threads)) for images in percepts.images]
    if not any(len(row) for rows in samples for row in rows):
        return CAMERA
    many = [rows for rows in samples if len(rows) >= MIN_IMAGES and any(map(len, rows))]
    if any(recurrence(rows) < MIN_RECURRENCE for rows in many):
        return CAMERA
    distinct = max(map(distinctness, many), default=1.0)
    if distinct >= MIN_DISTINCTNESS:
        return DRAWN
    by_sift = (distinctness(list(_sample(sift, images, threads))) for images in percepts.images)
    return CAMERA if any(one > distinct for one in by_sift) else DRAWN


def distinctness(rows: list[Descriptors]) -> float:
    """Return the number of distinct sets of descriptors divided by the number of images.

    >>> distinctness([np.float32([[1], [2]]), np.float32([[2], [1], [1]]), np.float32([[1]])])
    0.6666666666666666
    """
    return len({frozenset(map(bytes, one)) for one in rows}) / len(rows)


def recurrence(rows: list[Descriptors]) -> float:
    """Return the share of the descriptors that occur on another image as well.

    >>> recurrence([np.float32([[1], [2]]), np.float32([[2], [3]])])
    0.5
    """
    image = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    _, which = unique_rows(np.concatenate(rows))
    shown = np.unique(np.column_stack([which, image]), axis=0)
    return float((np.bincount(shown[:, 0])[which] > 1).mean())


def _sample(extractor: FeatureExtractor, images: Images, threads: int) -> Iterator[Descriptors]:
    """Yield the descriptors of short runs of images, as consecutive images may overlap."""
    first = np.linspace(0, max(len(images) - RUN_LENGTH, 0), N_RUNS).astype(np.int64)
    numbers = np.unique(np.minimum(first[:, None] + np.arange(RUN_LENGTH), len(images) - 1))
    found = extract_in_threads(extractor, images, numbers.tolist(), threads)
    return (rows for _, rows in found)


def _threshold(config: ExtractorConfig, percepts: Percepts, threads: int) -> float:
    """Return the threshold for a descriptor and a metric: a known one, else a low quantile."""
    for known in CONFIGS:
        if (
            type(config.descriptor) is type(known.descriptor)
            and config.descriptor == known.descriptor
            and type(config.metric) is type(known.metric)
            and known.threshold > 0.0
        ):
            return known.threshold
    extractor, distances = config.new_extractor(), [np.empty(0)]
    for images in percepts.images:
        rows = np.concatenate(list(_sample(extractor, images, threads)))
        distances.append(_distances(config.metric, rows))
    return low_quantile(np.concatenate(distances), NEAR_PAIRS)


def _distances(metric: Metric, rows: Descriptors) -> NDArray[np.float64]:
    """Return the distances between the distinct descriptors of a camera, or a sample of them."""
    rows, _ = unique_rows(rows)
    if len(rows) == 0:
        return np.empty(0)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MAX_ROWS)).astype(np.int64)]
    distances = metric.fit(rows).distances(rows, rows)
    return np.asarray(distances[np.triu_indices(len(rows), 1)], np.float64)


def low_quantile(values: NDArray[np.float64], share: float) -> float:
    """Return a low quantile of the values; half the least value if there are too few for it.

    >>> low_quantile(np.arange(1.0, 101.0), 0.02), low_quantile(np.array([3.0, 4.0]), 0.02)
    (2.0, 1.5)
    """
    if len(values) == 0:
        return 0.0
    values = np.sort(values)
    n = int(share * len(values))
    return float(values[n - 1] if n else values[0] / 2.0)
