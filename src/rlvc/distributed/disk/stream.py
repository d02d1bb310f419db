"""A dataset made in a stream: neither images nor what is seen on them need fit in memory.

Images are looked at a group at a time, and what is seen goes to disk. The vocabulary grows group by
group, in their order; then each group is put in its words, and written. What stays in memory are
the interactions, less than a kilobyte for each distinct image, and the vocabulary.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from rlvc.distributed.disk.format import FRAMES, GROUP, VOCABULARY, About
from rlvc.distributed.disk.tables import sum_up
from rlvc.distributed.disk.unique import sample_unique
from rlvc.distributed.disk.write import Seen, ShardWriter, as_written
from rlvc.learning.shard import cut_episodes
from rlvc.vision.descriptors import Descriptors
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import ExtractionBackend, FeatureExtractor, extract_in_threads
from rlvc.vision.io import save_vocabulary
from rlvc.vision.keypoints import KeypointBuffer, Keypoints, UniqueRows
from rlvc.vision.metrics import SAMPLE, Euclidean, Hamming, Mahalanobis, Metric
from rlvc.vision.vocabulary import Vocabulary

HIDDEN = ".looks"  # what was seen, until it is written
LOOKS = "rlvc-looks"


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told how it goes on.

    Attributes:
        on_phase: Called with the phase that begins and its number of steps.
        on_step: Called after each of these steps.
    """

    on_phase: Callable[[str, int | None], None] = lambda phase, total: None
    on_step: Callable[[], None] = lambda: None


def write_dataset(
    interactions: Interactions,
    folder: Pathlike,
    shards: int,
    extractor: FeatureExtractor,
    *,
    threads: int = 0,
    telling: Telling | None = None,
    backend: ExtractionBackend = extract_in_threads,
) -> About:
    """Look at the images of interactions and write all of it as shards, in a stream.

    The folder appears whole or not at all. Images that have a file are named by it; the others are
    written as PNG. What is learned from the dataset is what would be learned from the interactions,
    to the last bit, however many shards there are. The true states are not written.

    A metric that is fitted to all descriptors costs more: Mahalanobis' one more copy of them on
    disk; one that is not of rlvc, all distinct ones in memory.

    Args:
        interactions: What to write; :func:`rlvc.read_folder` with ``lazy`` leaves the images in
            their files.
        folder: One that does not exist yet, or is empty.
        shards: In how many; each has whole episodes, and about as many interactions as the others.
        extractor: Who looks, and has seen nothing yet: :meth:`rlvc.RLVC.new_extractor` makes one.
        threads: How many threads to use, 0 for all cores; the result does not depend on it.
        telling: Who is told how it goes on.
        backend: Who looks at the images.

    >>> import tempfile, rlvc
    >>> from rlvc.distributed.disk import open_dataset
    >>> images = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    >>> data = rlvc.Interactions.from_arrays(
    ...     images[:3], [0, 1, 0], [0, 0, 1], [False, True, True], next_observations=images[1:]
    ... )
    >>> extractor = rlvc.RLVC().new_extractor(data.percepts)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     about = write_dataset(data, f"{folder}/log", 2, extractor)
    ...     database = open_dataset(f"{folder}/log").database()
    >>> database.interactions.end.tolist(), len(database.graph) == database.extractor.n_symbols
    ([1, 2, 3], True)
    """
    telling = telling or Telling()
    cut = cut_episodes(interactions.episode, shards)
    import_pyarrow()
    check_new_folder(folder, "write_dataset")
    if extractor.vocabularies:
        raise ValueError("eye of write_dataset must be new; got one that knows symbols.")
    percepts = interactions.percepts
    with atomic_folder(folder) as place:
        writer, hidden = ShardWriter(place, sum(map(len, percepts.images))), place / HIDDEN
        for images in percepts.images:
            hidden.mkdir()
            stream = _Stream(extractor, images, hidden, threads)
            telling.on_phase("extract", len(images))
            stream.extract(backend, telling.on_step)
            telling.on_phase("learn", stream.n_groups)
            stream.learn(telling.on_step)
            telling.on_phase("write", len(images))
            paths = _paths(images, place, threads)
            n_symbols = extractor.vocabularies[images.camera].n_symbols
            seen = stream.quantize(paths, telling.on_step)
            writer.add_camera(images.camera, images.shape, n_symbols, seen)
            shutil.rmtree(hidden)
        save_vocabulary(extractor, place / VOCABULARY)
        return writer.finish(
            interactions, percepts.table(), cut, extractor, sum_up(place / VOCABULARY)
        )


class _Stream:
    """What is seen on the images of one camera, in files of GROUP images each."""

    def __init__(
        self, extractor: FeatureExtractor, images: Images, folder: Path, threads: int
    ) -> None:
        self._eye, self._images, self._folder, self._threads = extractor, images, folder, threads
        self._first = range(0, len(images), GROUP)
        self.n_groups = len(self._first)

    def extract(self, backend: ExtractionBackend, on_image: Callable[[], None]) -> None:
        """Look once at each image."""
        extractor, images, kind = self._eye, self._images, None
        keypoints = backend(extractor, images, range(len(images)), self._threads)
        for number, first in enumerate(self._first):
            gathering = KeypointBuffer()
            for _ in range(first, min(first + GROUP, len(images))):
                points, rows = next(keypoints)
                if len(rows):
                    kind = kind or (rows.dtype, rows.shape[1])
                    _check_kind(kind, rows)
                as_written(_places(points))  # refused now, not when all is seen
                gathering.add([len(points)], points, rows)
                on_image()
            _keep(self._folder / f"{number}.rlvc", gathering.finish())

    def learn(self, on_group: Callable[[], None]) -> None:
        """Let the vocabulary grow, as if all descriptors were shown to it at once."""
        extractor, camera = self._eye, self._images.camera
        metric = self._fit(extractor.metric)
        words = Vocabulary(
            metric or extractor.metric, extractor.threshold, is_fitted=metric is not None
        )
        extractor.vocabularies[camera] = words
        for first, keypoints in self._groups():
            extractor.learn(_Rest(self._images, first), keypoints, self._threads)
            on_group()

    def quantize(self, paths: Iterator[str | None], on_image: Callable[[], None]) -> Iterator[Seen]:
        """Yield what each group shows, put in words."""
        camera, digests = self._images.camera, self._images.digests(0, len(self._images))
        for first, keypoints in self._groups():
            seen = self._eye.quantize(camera, keypoints, self._threads)
            count = np.diff(seen.begin)
            image = np.repeat(np.arange(len(count)), count)
            order = np.lexsort((seen.symbol, image))
            place = as_written(_places(seen.points)[seen.point[order]])
            files = list[str | None]()
            for _ in range(len(count)):
                files.append(next(paths))
                on_image()
            there = digests[first : first + len(count)]
            yield Seen(count, seen.symbol[order], place, files, there)

    def _groups(self) -> Iterator[tuple[int, Keypoints]]:
        """Yield the number of the first image of each group, and what was seen."""
        for number, first in enumerate(self._first):
            yield first, _restore(self._folder / f"{number}.rlvc")

    def _rows(self) -> Iterator[Descriptors]:
        """Yield the descriptors of each group."""
        return (keypoints.descriptors for _, keypoints in self._groups())

    def _fit(self, metric: Metric) -> Metric | None:
        """Return the metric fitted to all distinct descriptors; None if there are none."""
        if isinstance(metric, (Euclidean, Hamming)):  # they have nothing to learn
            some = next((rows for rows in self._rows() if len(rows)), None)
        elif isinstance(metric, Mahalanobis):
            some = sample_unique(self._rows, SAMPLE, self._folder)
        else:
            some = _distinct(self._rows())
        return None if some is None else metric.fit(some)


def _places(points: InterestPoints) -> NDArray[np.floating]:
    """Return the (n, 4) positions, scales and angles of points."""
    return np.column_stack([points.xy, points.scale, points.angle])


class _Rest(Images):
    """The images of a camera from one on, by numbers of their own."""

    def __init__(self, images: Images, first: int) -> None:
        super().__init__(images.camera)
        self.shape, self._whole, self._begin = images.shape, images, first

    def __len__(self) -> int:
        return len(self._whole) - self._begin

    def __getitem__(self, number: int) -> Image:
        return self._whole[self._begin + number]


def _paths(images: Images, folder: Path, threads: int) -> Iterator[str | None]:
    """Yield the file of each image; one that has none is written."""
    if isinstance(images, FileImages):
        for path in images.paths:
            # A path that depends on where a program was started would mean nothing to the next one.
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
    """Return all distinct rows in the order in which they are met."""
    distinct: UniqueRows | None = None
    for rows in groups:
        if len(rows):
            distinct = distinct or UniqueRows(rows)
            distinct.add(rows)
    return None if distinct is None else distinct.finish()


def _check_kind(kind: tuple[np.dtype[np.generic], int], rows: Descriptors) -> None:
    """Raise an error unless rows are like those before: they go to different files."""
    if rows.shape[1] != kind[1]:
        raise ValueError(
            f"Descriptors must have {kind[1]} numbers each, as before; got {rows.shape[1]}."
        )
    if rows.dtype != kind[0]:
        raise TypeError(f"Descriptors must be of {kind[0]}, as before; got {rows.dtype}.")


def _keep(path: Path, keypoints: Keypoints) -> None:
    points = keypoints.points
    arrays: dict[str, NDArray[Any]] = {
        "begin": keypoints.begin, "xy": points.xy, "scale": points.scale, "angle": points.angle,
        "octave": points.octave, "descriptors": keypoints.descriptors, "row": keypoints.row,
    }  # fmt: skip
    write_archive(path, {"format": LOOKS, "version": 1}, arrays)


def _restore(path: Path) -> Keypoints:
    arrays = read_archive(path, LOOKS, 1)[1]
    points = InterestPoints(*(arrays[name] for name in ("xy", "scale", "angle", "octave")))
    return Keypoints(arrays["begin"], points, arrays["descriptors"], arrays["row"])
