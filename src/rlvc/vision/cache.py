"""What was seen on images, so that none is looked at twice: neither later nor after a stop."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, fits
from rlvc.data.percepts import Images, Percepts
from rlvc.vision.descriptors import Descriptor, Descriptors
from rlvc.vision.detectors import Detector, InterestPoints
from rlvc.vision.extractor import (
    ExtractionBackend,
    FeatureExtractor,
    KeypointBuffer,
    Keypoints,
    extract_in_threads,
)

PAUSE: Final = 2.0  # seconds of looking that may be lost
Part = tuple[list[int], InterestPoints, Descriptors]  # how many points each image has, and these


class ExtractionCache:
    """What was seen on images, so that when there are more only the new ones are looked at.

    The store of percepts must be the one that was looked at before, or one that begins like it.

    Args:
        store: Who keeps what is seen while looking goes on.
    """

    def __init__(self, store: CheckpointStore = NULL_STORE) -> None:
        self._keeper = store
        self._looks: list[Keypoints] | None = None
        self._seen_with: tuple[Detector, Descriptor] | None = None

    def extract(
        self,
        extractor: FeatureExtractor,
        percepts: Percepts,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        backend: ExtractionBackend = extract_in_threads,
    ) -> list[Keypoints]:
        """Return what an eye sees on all percepts; an eye of another kind looks at all of them."""
        seen_with = extractor.detector, extractor.descriptor
        before = self._looks if self._seen_with == seen_with else None
        self._looks = [
            self._look(
                extractor, images, threads, on_image, before[i] if before else None, i, backend
            )
            for i, images in enumerate(percepts.images)
        ]
        self._seen_with = seen_with
        return self._looks

    def n_new(self, extractor: FeatureExtractor, percepts: Percepts) -> int:
        """Return how many images the eye would look at."""
        known = (
            self._looks if self._seen_with == (extractor.detector, extractor.descriptor) else None
        )
        n_known = sum(len(one.begin) - 1 for one in known or [])
        return sum(map(len, percepts.images)) - n_known

    def _look(
        self,
        extractor: FeatureExtractor,
        images: Images,
        threads: int,
        on_image: Callable[[], None] | None,
        before: Keypoints | None,
        camera: int,
        backend: ExtractionBackend,
    ) -> Keypoints:
        """Return what an eye sees on all images of a camera, given what it saw on the first."""
        first = 0 if before is None else len(before.begin) - 1
        album = CacheChunk(self._keeper, f"{_kind_of(extractor)}-{camera}", images, first)
        kept = KeypointBuffer(before)
        for part in album.restore():
            kept.add(*part)
            for _ in part[0]:
                if on_image is not None:
                    on_image()
        if album.first > first:
            before = kept.finish()
        del kept  # it is large
        try:
            return extractor.extract(images, threads, on_image, before, album.take, backend)
        finally:  # whatever stops it: what was seen is not lost
            album.flush()


class CacheChunk:
    """Keep what is seen on the images of one camera, part by part, in their order.

    Args:
        store: Who keeps the parts.
        name: What their names begin with.
        images: The images.
        first: The number of the first image that is not known already; it goes on with them.
        now: Tell the time in seconds.
    """

    def __init__(
        self,
        store: CheckpointStore,
        name: str,
        images: Images,
        first: int,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._keeper, self._name, self._images, self.first = store, name, images, first
        self._waiting = list[tuple[InterestPoints, Descriptors]]()
        self._now, self._next = now, now() + PAUSE

    def restore(self) -> Iterator[Part]:
        """Yield the parts that were kept, as far as they go on from each other.

        Parts beyond the images that there are belong to what will be met later.
        """
        while self.first < len(self._images):
            found = self._keeper.find(f"{self._name}-{self.first}")
            if found is None:
                return
            manifest, arrays = found
            counts, points, rows = _read(arrays)
            last = self.first + len(counts)
            is_same = manifest.get("images") == self._images.fingerprint(self.first, last)
            fits(is_same and last <= len(self._images), "images")
            self.first = last
            yield counts.tolist(), points, rows

    def take(self, points: InterestPoints, rows: Descriptors) -> None:
        """Take what was seen on the next image."""
        self._waiting.append((points, rows))
        if self._now() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Bring what waits into safety."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            points = InterestPoints.concatenate([one for one, _ in waiting])
            last = self.first + len(waiting)
            arrays: dict[str, NDArray[Any]] = {
                "count": np.asarray([len(one) for one, _ in waiting], np.int64),
                "xy": points.xy,
                "scale": points.scale,
                "angle": points.angle,
                "octave": points.octave,
                "rows": np.concatenate([rows for _, rows in waiting]),
            }
            manifest = {"images": self._images.fingerprint(self.first, last)}
            self._keeper.keep(f"{self._name}-{self.first}", manifest, arrays)
            self.first = last
        self._next = self._now() + PAUSE


def _kind_of(extractor: FeatureExtractor) -> str:
    """Return a short name for what an eye looks with."""
    kind = repr((extractor.detector, extractor.descriptor))
    return hashlib.blake2b(kind.encode(), digest_size=4).hexdigest()


def _read(arrays: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int64], InterestPoints, Descriptors]:
    """Return a part that was kept, once it makes sense."""
    shapes = {"count": 1, "xy": 2, "scale": 1, "angle": 1, "octave": 1, "rows": 2}
    is_there = arrays.keys() == shapes.keys()
    fits(is_there and all(arrays[name].ndim == n for name, n in shapes.items()), "looks")
    count, rows, xy = arrays["count"], arrays["rows"], arrays["xy"]
    fits(count.dtype == np.int64 and len(count) > 0 and count.min() >= 0, "looks")
    points = InterestPoints(xy, arrays["scale"], arrays["angle"], arrays["octave"])
    n = len(xy)
    fits(xy.shape == (n, 2) and rows.shape[1] > 0 and count.max() <= n == count.sum(), "looks")
    fits(all(len(arrays[name]) == n for name in ("scale", "angle", "octave", "rows")), "looks")
    fits(all(arrays[name].dtype == np.float32 for name in ("xy", "scale", "angle")), "looks")
    fits(points.octave.dtype == np.int32 and rows.dtype in (np.float32, np.uint8), "looks")
    fits(np.isfinite(xy).all() and np.isfinite(rows).all(), "looks")
    return count, points, rows
