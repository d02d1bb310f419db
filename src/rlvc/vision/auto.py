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

from rlvc.data.images import Image
from rlvc.data.percepts import Images, Percepts
from rlvc.vision.descriptors import (
    Descriptor,
    Descriptors,
    Invariants,
    OrbDescriptor,
    SiftDescriptor,
)
from rlvc.vision.detectors import Detector, Harris, Orb, Sift
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.keypoints import unique_rows
from rlvc.vision.metrics import Euclidean, Hamming, Mahalanobis, Metric

RUNS, RUN = 16, 4  # number and length of the runs of consecutive images that are sampled
FEW = 8  # with fewer images, colour corners are the default
RECURRENCE = 0.25  # least share of descriptors that recur; 0.5 to 1 if rendered, 0 from a camera
APART = 0.5  # least share of images that corners must tell apart, if SIFT tells more
RARE = 5e-4  # share of the pairs of descriptors that a chosen threshold makes one symbol
ROWS = 1000  # descriptors of a camera whose distances are measured


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractorConfig:
    """A detector, a descriptor, a metric and a threshold that suit each other.

    Attributes:
        detector: The detector.
        descriptor: The descriptor.
        metric: The metric.
        threshold: Distance up to which descriptors are the same symbol; 0 to choose it.
    """

    detector: Detector
    descriptor: Descriptor
    metric: Metric
    threshold: float = 0.0

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
) -> ExtractorConfig:
    """Return the parts that are given, and for the rest those that suit them and the percepts.

    A part of rlvc determines the others that go with it. If none is given, a sample of the images
    decides: colour corners if these recur exactly and differ on most images, else SIFT. With few
    images it is colour corners, unless these find nothing.

    Args:
        percepts: A few images of each camera are sampled.
        detector: The detector; None to choose it.
        descriptor: The descriptor; None to choose it.
        metric: The metric; None to choose it.
        threshold: Distance up to which descriptors are the same symbol; 0 to choose it.

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
        default = default or _choose_config(percepts, detector or DRAWN.detector)
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
    return replace(config, threshold=_threshold(config, percepts))


def _find_config(**parts: object) -> ExtractorConfig | None:
    """Return the configuration that a part belongs to; the first part of rlvc decides."""
    for name, part in parts.items():
        for config in CONFIGS:
            if type(part) is type(getattr(config, name)):
                return config
    return None


def _choose_config(percepts: Percepts, detector: Detector) -> ExtractorConfig:
    """Return the configuration for percepts: CAMERA if any of theirs is a real camera."""
    corners = replace(DRAWN, detector=detector).new_extractor()
    samples = [
        [corners.extract_image(image)[1] for image in _sample(images)] for images in percepts.images
    ]
    if not any(len(row) for rows in samples for row in rows):
        return CAMERA
    many = [rows for rows in samples if len(rows) >= FEW and any(map(len, rows))]
    if any(recurrence(rows) < RECURRENCE for rows in many):
        return CAMERA
    distinct = max(map(distinctness, many), default=1.0)
    if distinct >= APART:
        return DRAWN
    sift = CAMERA.new_extractor()
    for images in percepts.images:
        if distinctness([sift.extract_image(one)[1] for one in _sample(images)]) > distinct:
            return CAMERA
    return DRAWN


def distinctness(rows: list[Descriptors]) -> float:
    """Return the number of distinct sets of descriptors, in proportion to the images.

    >>> distinctness([np.float32([[1], [2]]), np.float32([[2], [1], [1]]), np.float32([[1]])])
    0.6666666666666666
    """
    return len({frozenset(map(bytes, one)) for one in rows}) / len(rows)


def recurrence(rows: list[Descriptors]) -> float:
    """Return the share of the descriptors that another image has as well.

    >>> recurrence([np.float32([[1], [2]]), np.float32([[2], [3]])])
    0.5
    """
    image = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    _, which = unique_rows(np.concatenate(rows))
    shown = np.unique(np.column_stack([which, image]), axis=0)
    return float((np.bincount(shown[:, 0])[which] > 1).mean())


def _sample(images: Images) -> Iterator[Image]:
    """Yield short runs of images, as consecutive images may overlap."""
    first = np.linspace(0, max(len(images) - RUN, 0), RUNS).astype(np.int64)
    numbers = np.unique(np.minimum(first[:, None] + np.arange(RUN), len(images) - 1))
    return (images[number] for number in numbers.tolist())


def _threshold(config: ExtractorConfig, percepts: Percepts) -> float:
    """Return the threshold for a descriptor and a metric: a known one, else a low quantile."""
    for known in CONFIGS:
        is_known = type(config.descriptor) is type(known.descriptor)
        is_known = is_known and config.descriptor == known.descriptor
        if is_known and type(config.metric) is type(known.metric) and known.threshold > 0.0:
            return known.threshold
    extractor, distances = config.new_extractor(), [np.empty(0)]
    for images in percepts.images:
        rows = np.concatenate([extractor.extract_image(one)[1] for one in _sample(images)])
        distances.append(_distances(config.metric, rows))
    return low_quantile(np.concatenate(distances), RARE)


def _distances(metric: Metric, rows: Descriptors) -> NDArray[np.float64]:
    """Return the distances between the distinct descriptors of a camera, or a sample of them."""
    rows, _ = unique_rows(rows)
    if len(rows) == 0:
        return np.empty(0)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), ROWS)).astype(np.int64)]
    distances = metric.fit(rows).distances(rows, rows)
    return np.asarray(distances[np.triu_indices(len(rows), 1)], np.float64)


def low_quantile(values: NDArray[np.float64], share: float) -> float:
    """Return a bound that at most a share of the values do not exceed; below all if they are few.

    >>> low_quantile(np.arange(1.0, 101.0), 0.02), low_quantile(np.array([3.0, 4.0]), 0.02)
    (2.0, 1.5)
    """
    if len(values) == 0:
        return 0.0
    values = np.sort(values)
    n = int(share * len(values))
    return float(values[n - 1] if n else values[0] / 2.0)
