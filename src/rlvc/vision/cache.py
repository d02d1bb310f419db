"""A cache of extracted keypoints: no image is processed twice, even if a run is resumed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, require_same
from rlvc.data.percepts import Images, Percepts
from rlvc.vision.descriptors import Descriptor, Descriptors
from rlvc.vision.detectors import Detector, InterestPoints
from rlvc.vision.extractor import ExtractionBackend, FeatureExtractor, extract_in_threads
from rlvc.vision.keypoints import KeypointBuffer, Keypoints

SAVE_INTERVAL: Final = 2.0  # seconds between chunks; an interruption loses about as much work
Chunk = tuple[list[int], InterestPoints, Descriptors]  # the number of points per image, and these
COLUMNS: Final[dict[str, tuple[int, list[type]]]] = {  # arrays of a chunk: dimensions and types
    "count": (1, [np.int64]), "rows": (2, [np.float32, np.uint8]), "xy": (2, [np.float32]),
    "scale": (1, [np.float32]), "angle": (1, [np.float32]), "octave": (1, [np.int32]),
}  # fmt: skip


class ExtractionCache:
    """Extract keypoints, and keep them for the next call.

    If percepts are added between two calls of :meth:`extract`, only new images are processed.

    Args:
        store: Where keypoints are saved during extraction, to resume after an interruption.

    >>> from rlvc.vision.auto import DRAWN
    >>> cache, extractor, percepts = ExtractionCache(), DRAWN.new_extractor(), Percepts()
    >>> number = percepts.add(np.zeros((64, 64), np.uint8))
    >>> keypoints = cache.extract(extractor, percepts)
    >>> number = percepts.add(np.ones((64, 64), np.uint8))
    >>> cache.n_new(extractor, percepts)
    1
    """

    def __init__(self, store: CheckpointStore = NULL_STORE) -> None:
        self._store = store
        self._keypoints: list[Keypoints] = []
        self._parts: tuple[Detector, Descriptor] | None = None  # what extracted them

    def extract(
        self,
        extractor: FeatureExtractor,
        percepts: Percepts,
        threads: int = 1,
        on_image: Callable[[], None] | None = None,
        backend: ExtractionBackend = extract_in_threads,
    ) -> list[Keypoints]:
        """Return the keypoints of all images of percepts, camera by camera.

        Args:
            extractor: Detects and describes; the cache is emptied if its detector or descriptor
                differs from that of the last call.
            percepts: Those of the last call, and perhaps more.
            threads: How many threads to use; the result does not depend on it.
            on_image: Called after each new image.
            backend: What processes the images.
        """
        on_image = on_image or (lambda: None)
        keypoints, known = list[Keypoints](), self._known(extractor)
        parts = extractor.detector, extractor.descriptor
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=4).hexdigest()
        for camera, images in enumerate(percepts.images):
            before = known[camera] if known else None
            if before is not None and before.n_images == len(images):
                keypoints.append(before)
                continue
            buffer = KeypointBuffer(before)
            chunks = CacheChunks(self._store, f"{digest}-{camera}", images, buffer.n_images)
            for counts, points, rows in chunks.restore():
                buffer.add(counts, points, rows)
                for _ in counts:
                    on_image()
            numbers = range(buffer.n_images, len(images))
            try:
                for points, rows in backend(extractor, images, numbers, threads):
                    buffer.add([len(points)], points, rows)
                    chunks.add(points, rows)
                    on_image()
            finally:
                chunks.flush()
            keypoints.append(buffer.finish())
        self._keypoints, self._parts = keypoints, parts
        return keypoints

    def n_new(self, extractor: FeatureExtractor, percepts: Percepts) -> int:
        """Return how many images :meth:`extract` would process."""
        n_known = sum(one.n_images for one in self._known(extractor))
        return sum(map(len, percepts.images)) - n_known

    def _known(self, extractor: FeatureExtractor) -> list[Keypoints]:
        is_same = self._parts == (extractor.detector, extractor.descriptor)
        return self._keypoints if is_same else []


class CacheChunks:
    """Save the keypoints of one camera's images in chunks, in order.

    The names of chunks begin with ``name``, ``first`` is the number of the first image whose
    keypoints are not known, and ``now`` returns the time in seconds.
    """

    def __init__(
        self,
        store: CheckpointStore,
        name: str,
        images: Images,
        first: int,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store, self._name, self._images, self._first = store, name, images, first
        self._pending = list[tuple[InterestPoints, Descriptors]]()
        self._now, self._next = now, now() + SAVE_INTERVAL

    def restore(self) -> Iterator[Chunk]:
        """Yield the saved chunks from the first image on, up to a gap or the last image.

        Chunks beyond the last image belong to percepts that will be added later.
        """
        while self._first < len(self._images):
            found = self._store.load(f"{self._name}-{self._first}")
            if found is None:
                return
            manifest, arrays = found
            chunk = _check_chunk(arrays)
            last = self._first + len(chunk[0])
            is_same = manifest.get("images") == self._images.fingerprint(self._first, last)
            require_same(is_same and last <= len(self._images), "images")
            self._first = last
            yield chunk

    def add(self, points: InterestPoints, rows: Descriptors) -> None:
        """Add the keypoints of the next image."""
        self._pending.append((points, rows))
        if self._now() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Save the keypoints added since the last chunk."""
        if self._pending:
            pending, self._pending = self._pending, []
            points = InterestPoints.concatenate([one for one, _ in pending])
            last = self._first + len(pending)
            arrays: dict[str, NDArray[Any]] = {
                "count": np.asarray([len(one) for one, _ in pending], np.int64),
                "rows": np.concatenate([rows for _, rows in pending]),
                **dict(zip(InterestPoints.__slots__, points.columns, strict=True)),
            }
            manifest = {"images": self._images.fingerprint(self._first, last)}
            self._store.save(f"{self._name}-{self._first}", manifest, arrays)
            self._first = last
        self._next = self._now() + SAVE_INTERVAL


def _check_chunk(arrays: dict[str, NDArray[Any]]) -> Chunk:
    """Return the contents of a saved chunk; raise an error if they are inconsistent."""
    is_valid = arrays.keys() == COLUMNS.keys() and all(
        arrays[name].ndim == n_dimensions and arrays[name].dtype in dtypes
        for name, (n_dimensions, dtypes) in COLUMNS.items()
    )
    require_same(is_valid, "keypoints")
    count, rows = arrays["count"], arrays["rows"]
    points = InterestPoints(*(arrays[name] for name in InterestPoints.__slots__))
    n = len(points)
    require_same(len(count) > 0 and count.min() >= 0, "keypoints")
    require_same(count.max() <= n == count.sum(), "keypoints")
    require_same(all(len(column) == n for column in (rows, *points.columns)), "keypoints")
    require_same(points.xy.shape[1] == 2 and rows.shape[1] > 0, "keypoints")
    require_same(np.isfinite(points.xy).all() and np.isfinite(rows).all(), "keypoints")
    return count.tolist(), points, rows
