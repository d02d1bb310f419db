"""What to see with, chosen from the images.

Where images are drawn by a program, a point looks the same to the last bit whenever it comes back,
and colour corners with a few numbers each tell more points apart than anything else, in no time. A
camera never gives the same numbers twice; there SIFT finds again what colour corners lose. SIFT is
also better where little is drawn, such as one figure on an empty board: it looks at larger pieces,
which look different wherever the figure stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import run_threads
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

RUNS, RUN = 16, 4  # of the images of a camera, so many runs of so many consecutive ones are tried
FEW = 8  # images that are too few to tell
RECURRENCE = 0.25  # least share of descriptors that come back; 0.5 to 1 if drawn, 0 from a camera
APART = 0.5  # least share of images that corners must tell apart, if SIFT tells more
RARE = 5e-4  # share of the pairs of descriptors that are one symbol, where nothing else is known
ROWS = 1000  # descriptors of a camera whose pairs are measured


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractorConfig:
    """Parts that go together.

    Attributes:
        detector: Where to look.
        descriptor: What is seen there.
        metric: How far apart descriptors are.
        threshold: Distance up to which they are the same symbol; 0 if that must be chosen.
    """

    detector: Detector
    descriptor: Descriptor
    metric: Metric
    threshold: float = 0.0

    def new_extractor(self) -> FeatureExtractor:
        """Return an eye that has seen nothing yet."""
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
    """Return what to see percepts with: what is given, and for the rest what suits it and them.

    A part that comes with rlvc brings the others that go with it. If none is given, the percepts
    tell which: colour corners if these come back exactly and are not the same on most images, else
    SIFT. Few images do not tell, and get colour corners, unless these find nothing.

    Args:
        percepts: A few images of each camera are looked at.
        detector: Where to look, if that is known.
        descriptor: What is seen there.
        metric: How far apart descriptors are.
        threshold: Distance up to which they are the same symbol; 0 to choose it.
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
        usual = _that_goes_with(descriptor=descriptor, detector=detector, metric=metric)
        usual = usual or _that_suits(percepts, detector or DRAWN.detector, threads)
        if descriptor is not None and type(descriptor) is not type(usual.descriptor):
            usual = replace(usual, metric=Euclidean())  # of one that is not known here
        detector = detector or usual.detector
        descriptor = descriptor or usual.descriptor
        metric = metric or usual.metric
    sense = ExtractorConfig(
        detector=detector, descriptor=descriptor, metric=metric, threshold=threshold
    )
    if threshold > 0.0:
        return sense
    return replace(sense, threshold=_threshold(sense, percepts, threads))


def _that_goes_with(**parts: object) -> ExtractorConfig | None:
    """Return the sense that a part belongs to: the first part that is known here decides."""
    for name, part in parts.items():
        for sense in CONFIGS:
            if type(part) is type(getattr(sense, name)):
                return sense
    return None


def _that_suits(percepts: Percepts, detector: Detector, threads: int) -> ExtractorConfig:
    """Return the sense for what percepts show: that of a camera if any of theirs is one."""
    corners = replace(DRAWN, detector=detector)
    seen = [_sample(corners.new_extractor(), images, threads) for images in percepts.images]
    if not any(len(row) for rows in seen for row in rows):
        return CAMERA
    many = [rows for rows in seen if len(rows) >= FEW and any(map(len, rows))]
    if any(recurrence(rows) < RECURRENCE for rows in many):
        return CAMERA
    told = max(map(told_apart, many), default=1.0)
    if told >= APART:
        return DRAWN
    others = (_sample(CAMERA.new_extractor(), images, threads) for images in percepts.images)
    return CAMERA if max(map(told_apart, others)) > told else DRAWN


def told_apart(rows: list[Descriptors]) -> float:
    """Return how many sets of descriptors some images have, in proportion to the images.

    >>> told_apart([np.float32([[1], [2]]), np.float32([[2], [1], [1]]), np.float32([[1]])])
    0.6666666666666666
    """
    return len({frozenset(map(bytes, one)) for one in rows}) / len(rows)


def recurrence(rows: list[Descriptors]) -> float:
    """Return the share of the descriptors of some images that another of them has as well.

    >>> recurrence([np.float32([[1], [2]]), np.float32([[2], [3]])])
    0.5
    """
    image = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    _, which = unique_rows(np.concatenate(rows))
    shown = np.unique(np.column_stack([which, image]), axis=0)
    return float((np.bincount(shown[:, 0])[which] > 1).mean())


def _sample(extractor: FeatureExtractor, images: Images, threads: int) -> list[Descriptors]:
    """Return the descriptors of a few images: short runs, as neighbours in time may overlap."""
    first = np.linspace(0, max(len(images) - RUN, 0), RUNS).astype(np.int64)
    numbers = np.unique(np.minimum(first[:, None] + np.arange(RUN), len(images) - 1))
    return [
        rows
        for _, rows in run_threads(
            lambda number: extractor.extract_image(images[number]), numbers.tolist(), threads
        )
    ]


def _threshold(sense: ExtractorConfig, percepts: Percepts, threads: int) -> float:
    """Return the threshold for a descriptor and a metric: a known one, else what few pairs keep."""
    for known in CONFIGS:
        is_known = type(sense.descriptor) is type(known.descriptor)
        is_known = is_known and sense.descriptor == known.descriptor
        if is_known and type(sense.metric) is type(known.metric) and known.threshold > 0.0:
            return known.threshold
    extractor = sense.new_extractor()
    gaps = [
        _gaps(sense.metric, np.concatenate(_sample(extractor, images, threads)))
        for images in percepts.images
    ]
    return low_quantile(np.concatenate([np.empty(0), *gaps]), RARE)


def _gaps(metric: Metric, rows: Descriptors) -> NDArray[np.float64]:
    """Return the distances between the distinct descriptors of a camera, or some of them."""
    rows, _ = unique_rows(rows)
    if len(rows) == 0:
        return np.empty(0)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), ROWS)).astype(np.int64)]
    gaps = metric.fit(rows).distances(rows, rows)
    return np.asarray(gaps[np.triu_indices(len(rows), 1)], np.float64)


def low_quantile(values: NDArray[np.float64], share: float) -> float:
    """Return what at most a share of values lie below or at; below all if they are few.

    >>> low_quantile(np.arange(1.0, 101.0), 0.02), low_quantile(np.array([3.0, 4.0]), 0.02)
    (2.0, 1.5)
    """
    if len(values) == 0:
        return 0.0
    values = np.sort(values)
    n = int(share * len(values))
    return float(values[n - 1] if n else values[0] / 2.0)
