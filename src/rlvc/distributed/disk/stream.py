"""Write a dataset in a stream: neither images nor their keypoints need fit in memory.

Keypoints are extracted from a group of images at a time, and go to disk. The vocabulary grows group
by group, in their order; then each group is quantized and written. The interactions, less than a
kilobyte for each distinct image, and the vocabulary stay in memory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.atomic import Pathlike
from rlvc._core.folders import atomic_folder
from rlvc._core.jit import run_threads
from rlvc.data.images import Image
from rlvc.data.interactions import Interactions
from rlvc.data.io.folder import check_new_folder
from rlvc.data.io.frames import image_folder
from rlvc.data.io.image_files import FileImages, encode
from rlvc.data.io.table import import_pyarrow
from rlvc.data.percepts import Images
from rlvc.distributed.disk.format import FRAMES, GROUP, VOCABULARY, DatasetInfo
from rlvc.distributed.disk.tables import describe_file
from rlvc.distributed.disk.unique import sample_unique
from rlvc.distributed.disk.write import GroupSymbols, ShardWriter, as_written
from rlvc.learning.shard import cut_episodes
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import ExtractionBackend, FeatureExtractor, extract_in_threads
from rlvc.vision.io import save_vocabulary
from rlvc.vision.keypoints import KeypointBuffer, Keypoints, UniqueRows
from rlvc.vision.metrics import SAMPLE, Euclidean, Hamming, Mahalanobis, Metric
from rlvc.vision.vocabulary import Vocabulary

HIDDEN = ".keypoints"  # the folder of keypoints that are not quantized yet
KEYPOINTS = "rlvc-keypoints"


def write_dataset(
    interactions: Interactions,
    folder: Pathlike,
    shards: int,
    extractor: FeatureExtractor,
    *,
    threads: int = 0,
    on_phase: Callable[[str, int | None], None] = lambda phase, total: None,
    on_step: Callable[[], None] = lambda: None,
    backend: ExtractionBackend = extract_in_threads,
) -> DatasetInfo:
    """Extract the keypoints of all images, and write interactions and symbols as shards.

    The write is atomic. What is learned from the dataset does not depend on the number of shards.
    True states are not written. A metric that is fitted to all descriptors costs more: Mahalanobis
    another copy of them on disk, a custom one all distinct descriptors in memory.

    Args:
        interactions: The interactions; :func:`rlvc.read_folder` with ``lazy`` leaves the images in
            their files.
        folder: A new or an empty folder.
        shards: The number of shards; each has whole episodes, and about as many interactions.
        extractor: A new extractor, such as :meth:`rlvc.RLVC.new_extractor` returns.
        threads: How many threads to use, 0 for all cores; the result does not depend on it.
        on_phase: Called with each phase that begins and its number of steps.
        on_step: Called after each of these steps.
        backend: The execution backend of the extraction.

    >>> import tempfile, rlvc
    >>> from rlvc.distributed.disk import open_dataset
    >>> images = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    >>> data = rlvc.Interactions.from_arrays(
    ...     images[:3], [0, 1, 0], [0, 0, 1], [False, True, True], next_observations=images[1:]
    ... )
    >>> extractor = rlvc.RLVC().new_extractor(data.percepts)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     info = write_dataset(data, f"{folder}/log", 2, extractor)
    ...     database = open_dataset(f"{folder}/log").database()
    >>> database.interactions.end.tolist(), len(database.graph) == database.extractor.n_symbols
    ([1, 2, 3], True)
    """
    cut = cut_episodes(interactions.episode, shards)
    import_pyarrow()
    check_new_folder(folder, "write_dataset")
    if extractor.vocabularies:
        raise ValueError("extractor of write_dataset must be new; got one with symbols.")
    percepts = interactions.percepts
    with atomic_folder(folder) as place:
        writer = ShardWriter(place, sum(map(len, percepts.images)))
        for images in percepts.images:
            _write_camera(writer, place, extractor, images, threads, on_phase, on_step, backend)
        save_vocabulary(extractor, place / VOCABULARY)
        file = describe_file(place / VOCABULARY)
        return writer.finish(interactions, percepts.table(), cut, extractor, file)


def _write_camera(
    writer: ShardWriter,
    folder: Path,
    extractor: FeatureExtractor,
    images: Images,
    threads: int,
    on_phase: Callable[[str, int | None], None],
    on_step: Callable[[], None],
    backend: ExtractionBackend,
) -> None:
    """Write the images and the symbols of a camera."""
    hidden = folder / HIDDEN
    hidden.mkdir()
    stream = _CameraStream(extractor, images, hidden, threads)
    on_phase("extract", len(images))
    stream.extract(backend, on_step)
    on_phase("learn", stream.n_groups)
    stream.learn(on_step)
    on_phase("write", len(images))
    groups = stream.quantize(_paths(images, folder, threads), on_step)
    n_symbols = extractor.vocabularies[images.camera].n_symbols
    writer.add_camera(images.camera, images.shape, n_symbols, groups)
    shutil.rmtree(hidden)


class _CameraStream:
    """The keypoints of the images of one camera, in files of GROUP images each."""

    def __init__(
        self, extractor: FeatureExtractor, images: Images, folder: Path, threads: int
    ) -> None:
        self._extractor, self._images, self._folder, self._threads = (
            extractor,
            images,
            folder,
            threads,
        )
        self._first = range(0, len(images), GROUP)
        self.n_groups = len(self._first)

    def extract(self, backend: ExtractionBackend, on_image: Callable[[], None]) -> None:
        """Extract the keypoints of each image once."""
        extractor, images, kind = self._extractor, self._images, None
        keypoints = backend(extractor, images, range(len(images)), self._threads)
        for number, first in enumerate(self._first):
            buffer = KeypointBuffer()
            for _ in range(first, min(first + GROUP, len(images))):
                points, rows = next(keypoints)
                if len(rows):
                    kind = kind or (rows.dtype, rows.shape[1])
                    _check_rows(kind, rows)
                as_written(_places(points))  # refused now, not after all images
                buffer.add([len(points)], points, rows)
                on_image()
            _write_keypoints(self._folder / f"{number}.rlvc", buffer.finish())

    def learn(self, on_group: Callable[[], None]) -> None:
        """Learn the vocabulary, as if from all descriptors at once."""
        extractor, camera = self._extractor, self._images.camera
        metric = self._fit(extractor.metric)
        words = Vocabulary(
            metric or extractor.metric, extractor.threshold, is_fitted=metric is not None
        )
        extractor.vocabularies[camera] = words
        for first, keypoints in self._groups():
            extractor.learn(_ImagesFrom(self._images, first), keypoints, self._threads)
            on_group()

    def quantize(
        self, paths: Iterator[str | None], on_image: Callable[[], None]
    ) -> Iterator[GroupSymbols]:
        """Yield the symbols of each group."""
        camera, digests = self._images.camera, self._images.digests(0, len(self._images))
        for first, keypoints in self._groups():
            seen = self._extractor.quantize(camera, keypoints, self._threads)
            count = np.diff(seen.begin)
            image = np.repeat(np.arange(len(count)), count)
            order = np.lexsort((seen.symbol, image))
            place = as_written(_places(seen.points)[seen.point[order]])
            files = list[str | None]()
            for _ in range(len(count)):
                files.append(next(paths))
                on_image()
            known = digests[first : first + len(count)]
            yield GroupSymbols(count, seen.symbol[order], place, files, known)

    def _groups(self) -> Iterator[tuple[int, Keypoints]]:
        """Yield the number of the first image of each group, and its keypoints."""
        for number, first in enumerate(self._first):
            yield first, _read_keypoints(self._folder / f"{number}.rlvc")

    def _rows(self) -> Iterator[Descriptors]:
        """Yield the descriptors of each group."""
        return (keypoints.descriptors for _, keypoints in self._groups())

    def _fit(self, metric: Metric) -> Metric | None:
        """Return the metric fitted to all distinct descriptors; None if there are none."""
        if isinstance(metric, (Euclidean, Hamming)):  # they have nothing to learn
            rows = next((group for group in self._rows() if len(group)), None)
        elif isinstance(metric, Mahalanobis):
            rows = sample_unique(self._rows, SAMPLE, self._folder)
        else:
            rows = _distinct(self._rows())
        return None if rows is None else metric.fit(rows)


def _places(points: InterestPoints) -> NDArray[np.floating]:
    """Return the (n, 4) positions, scales and angles of points."""
    return np.column_stack([points.xy, points.scale, points.angle])


class _ImagesFrom(Images):
    """The images of a camera from one on, numbered from 0."""

    def __init__(self, images: Images, first: int) -> None:
        super().__init__(images.camera)
        self.shape, self._all, self._begin = images.shape, images, first

    def __len__(self) -> int:
        return len(self._all) - self._begin

    def __getitem__(self, number: int) -> Image:
        return self._all[self._begin + number]


def _paths(images: Images, folder: Path, threads: int) -> Iterator[str | None]:
    """Yield the file of each image; write those that have none."""
    if isinstance(images, FileImages):
        for path in images.paths:
            # A relative path would depend on the working directory.
            yield None if path is None else os.path.abspath(images.folder / path)  # noqa: PTH100
        return
    place = image_folder(FRAMES, images.camera)
    (folder / place).mkdir(parents=True, exist_ok=True)

    def write(number: int) -> str:
        path = f"{place}/{number:06d}.png"
        (folder / path).write_bytes(encode(images[number]))
        return path

    yield from run_threads(write, range(len(images)), threads)


def _distinct(groups: Iterator[Descriptors]) -> Descriptors | None:
    """Return all distinct rows in the order of their first occurrence."""
    distinct: UniqueRows | None = None
    for rows in groups:
        if len(rows):
            distinct = distinct or UniqueRows(rows)
            distinct.add(rows)
    return None if distinct is None else distinct.finish()


def _check_rows(kind: tuple[np.dtype[np.generic], int], rows: Descriptors) -> None:
    """Raise an error unless rows are like those before."""
    if rows.shape[1] != kind[1]:
        raise ValueError(
            f"Descriptors must have {kind[1]} numbers each, as before; got {rows.shape[1]}."
        )
    if rows.dtype != kind[0]:
        raise TypeError(f"Descriptors must be of {kind[0]}, as before; got {rows.dtype}.")


def _write_keypoints(path: Path, keypoints: Keypoints) -> None:
    points = keypoints.points
    arrays: dict[str, NDArray[Any]] = {
        "begin": keypoints.begin, "xy": points.xy, "scale": points.scale, "angle": points.angle,
        "octave": points.octave, "descriptors": keypoints.descriptors, "row": keypoints.row,
    }  # fmt: skip
    write_archive(path, {"format": KEYPOINTS, "version": 1}, arrays)


def _read_keypoints(path: Path) -> Keypoints:
    arrays = read_archive(path, KEYPOINTS, 1)[1]
    points = InterestPoints(*(arrays[name] for name in ("xy", "scale", "angle", "octave")))
    return Keypoints(arrays["begin"], points, arrays["descriptors"], arrays["row"])
