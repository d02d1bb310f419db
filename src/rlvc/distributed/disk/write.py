"""Write a dataset in a stream: neither images nor their keypoints need fit in memory.

Keypoints are extracted from one block of images at a time and written to disk. The vocabulary grows
block by block, in order; then each block is quantized and written. The interactions, the vocabulary
and less than a kilobyte for each distinct image stay in memory.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.atomic import Pathlike, atomic_folder
from rlvc._core.fixed_point import Scale
from rlvc._core.jit import run_threads
from rlvc.data.interactions import Interactions
from rlvc.data.io.folder import check_new_folder
from rlvc.data.io.image_files import FileImages, encode, image_folder
from rlvc.data.io.table import camera_column, import_pyarrow
from rlvc.data.percepts import Images
from rlvc.distributed.disk.format import (
    BLOCK,
    FRAMES,
    MAX_IMAGES,
    VOCABULARY,
    CameraInfo,
    DatasetInfo,
    ImageBlock,
    ShardFiles,
    file_of,
    write_info,
)
from rlvc.distributed.disk.tables import (
    IMAGES,
    INTERACTIONS,
    PLACE,
    SYMBOLS,
    Columns,
    describe_file,
    percepts_kinds,
    write_table,
)
from rlvc.distributed.disk.unique import fit_metric
from rlvc.distributed.partition import cut_episodes, cut_percepts
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import ExtractionBackend, FeatureExtractor, extract_in_threads
from rlvc.vision.io import describe_extractor, save_vocabulary
from rlvc.vision.keypoints import KeypointBuffer, Keypoints, UniqueRows
from rlvc.vision.vocabulary import Vocabulary

HIDDEN = ".keypoints"  # the temporary folder of keypoints


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
    True states are not written. Metrics that are fitted cost more: Mahalanobis, another copy of all
    descriptors on disk; a custom metric, all distinct descriptors in memory.

    Args:
        interactions: The interactions; :func:`rlvc.read_folder` with ``lazy`` leaves the images in
            their files.
        folder: A new or empty folder.
        shards: The number of shards; each has whole episodes, and about as many interactions.
        extractor: A new extractor, such as :meth:`rlvc.RLVC.new_extractor` returns.
        threads: The number of threads, 0 for all cores; the result does not depend on it.
        on_phase: Called at the start of each phase with its name and its number of steps.
        on_step: Called after each step of a phase.
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
    _check(interactions, folder, extractor)
    with atomic_folder(folder) as place:
        cameras = list[CameraInfo]()
        for images in interactions.percepts.images:
            writer = _CameraWriter(extractor, images, place, threads, on_step)
            on_phase("extract", len(images))
            writer.extract(backend)
            on_phase("learn", writer.n_blocks)
            writer.learn()
            on_phase("write", len(images))
            cameras.append(writer.write(first_block=sum(len(one.blocks) for one in cameras)))
        save_vocabulary(extractor, place / VOCABULARY)
        return _write_shards(interactions, place, cut, cameras, extractor)


def _check(interactions: Interactions, folder: Pathlike, extractor: FeatureExtractor) -> None:
    """Raise an error unless a dataset can be written."""
    import_pyarrow()
    check_new_folder(folder, "write_dataset")
    if extractor.vocabularies:
        raise ValueError("extractor of write_dataset must be new; got one with symbols.")
    n_images = sum(map(len, interactions.percepts.images))
    if n_images > MAX_IMAGES:
        raise ValueError(
            f"A dataset of shards may have at most {MAX_IMAGES:,} images; got {n_images:,}. "
            "Write several datasets."
        )


class _CameraWriter:
    """Write the images of one camera; the keypoints of each block are kept in a temporary file."""

    def __init__(
        self,
        extractor: FeatureExtractor,
        images: Images,
        folder: Path,
        threads: int,
        on_step: Callable[[], None],
    ) -> None:
        self._extractor, self._images, self._threads = extractor, images, threads
        self._folder, self._hidden, self._on_step = folder, folder / HIDDEN, on_step
        self._first = range(0, len(images), BLOCK)
        self.n_blocks = len(self._first)

    def extract(self, backend: ExtractionBackend) -> None:
        """Extract the keypoints of each image once."""
        self._hidden.mkdir()
        images, like = self._images, None
        keypoints = backend(self._extractor, images, range(len(images)), self._threads)
        for number in range(self.n_blocks):
            buffer = KeypointBuffer()
            for points, rows in itertools.islice(keypoints, BLOCK):
                if len(rows):
                    like = like or UniqueRows(rows)
                    like.check(rows)
                _places(points)  # to raise its error now, not after all images
                buffer.add([len(points)], points, rows)
                self._on_step()
            found = buffer.finish()
            columns = found.begin, found.descriptors, found.row, *found.points.columns
            np.savez(self._hidden / f"{number}.npz", *columns)

    def learn(self) -> None:
        """Learn the vocabulary, as if from all descriptors at once."""
        extractor, camera = self._extractor, self._images.camera
        fitted = fit_metric(
            extractor.metric, lambda: (one.descriptors for _, one in self._blocks()), self._hidden
        )
        extractor.vocabularies[camera] = Vocabulary(
            fitted or extractor.metric, extractor.threshold, is_fitted=fitted is not None
        )
        for first, keypoints in self._blocks():
            extractor.learn(self._images, keypoints, self._threads, first)
            self._on_step()

    def write(self, first_block: int) -> CameraInfo:
        """Write the images and symbols of each block; blocks are numbered from ``first_block``."""
        images, folder, written = self._images, self._folder, list[ImageBlock]()
        camera, paths = images.camera, self._paths()
        for number, (first, keypoints) in enumerate(self._blocks(), first_block):
            seen = self._extractor.quantize(camera, keypoints, self._threads)
            image = first + np.arange(keypoints.n_images)
            count = np.diff(seen.begin)
            image_of = np.repeat(image, count)
            order = np.lexsort((seen.symbol, image_of))
            files = list[str | None]()
            for _ in image:
                files.append(next(paths))
                self._on_step()
            about: Columns = {
                "camera": [camera] * len(image),
                "image": image,
                "path": files,
                "digest": [images.digests[one].hex() for one in image],
                "symbols": count,
            }
            shown: Columns = {
                "camera": [camera] * len(order),
                "image": image_of,
                "symbol": seen.symbol[order],
                **dict(zip(PLACE, _places(seen.points)[seen.point[order]].T, strict=True)),
            }
            written.append(
                ImageBlock(
                    write_table(folder / file_of("images", number), IMAGES, about),
                    write_table(folder / file_of("symbols", number), SYMBOLS, shown),
                )
            )
        shutil.rmtree(self._hidden)
        height, width, channels = images.shape or (1, 1, 1)
        words = self._extractor.vocabularies[camera]
        return CameraInfo(camera, (height, width, channels), words.n_symbols, tuple(written))

    def _blocks(self) -> Iterator[tuple[int, Keypoints]]:
        """Yield the number of the first image of each block, and the keypoints of the block."""
        for number, first in enumerate(self._first):
            with np.load(self._hidden / f"{number}.npz") as arrays:
                begin, descriptors, row, *points = arrays.values()
            yield first, Keypoints(begin, InterestPoints(*points), descriptors, row)

    def _paths(self) -> Iterator[str | None]:
        """Yield the file of each image; write those that have none."""
        images = self._images
        if isinstance(images, FileImages):
            for path in images.paths:
                # A relative path would depend on the working directory.
                yield None if path is None else os.path.abspath(images.folder / path)  # noqa: PTH100
            return
        place = image_folder(FRAMES, images.camera)
        (self._folder / place).mkdir(parents=True, exist_ok=True)

        def write(number: int) -> str:
            path = f"{place}/{number:06d}.png"
            (self._folder / path).write_bytes(encode(images[number]))
            return path

        yield from run_threads(write, range(len(images)), self._threads)


def _write_shards(
    interactions: Interactions,
    folder: Path,
    cut: Ints,
    cameras: Sequence[CameraInfo],
    extractor: FeatureExtractor,
) -> DatasetInfo:
    """Write the interactions, their percepts, and ``dataset.json``."""
    table, scale = interactions.percepts.table(), Scale.of(interactions.reward)
    about, _ = describe_extractor(extractor, [])
    del about["cameras"]
    columns = {name: getattr(interactions, name) for name in INTERACTIONS if name != "stuck"}
    columns["stuck"] = interactions.is_stuck
    shards = list[ShardFiles]()
    for number, (rows, percept, is_first) in enumerate(cut_percepts(interactions, cut)):
        taken = {name: column[rows] for name, column in columns.items()}
        images = zip(cameras, table[percept].T, strict=True)
        shown = {camera_column(camera.name): image for camera, image in images}
        shown |= {"percept": percept, "is_first": is_first}
        shards.append(
            ShardFiles(
                write_table(folder / file_of("interactions", number), INTERACTIONS, taken),
                write_table(folder / file_of("percepts", number), percepts_kinds(cameras), shown),
            )
        )
    info = DatasetInfo(
        interactions=len(interactions),
        episodes=len(np.unique(interactions.episode)),
        percepts=len(interactions.percepts),
        n_actions=interactions.n_actions,
        action_start=interactions.action_start,
        action_names=interactions.action_names,
        lowest=scale.lowest,
        largest=scale.largest,
        cameras=tuple(cameras),
        shards=tuple(shards),
        extractor=about,
        vocabulary=describe_file(folder / VOCABULARY),
    )
    write_info(folder, info)
    return info


def _places(points: InterestPoints) -> NDArray[np.float32]:
    """Return the (n, 4) positions, scales and angles of points, which must be float32."""
    places = np.column_stack([points.xy, points.scale, points.angle])
    written = places.astype(np.float32)
    if not np.array_equal(written, places, equal_nan=True) or not np.isfinite(written[:, :3]).all():
        raise ValueError(
            "The positions, scales and angles of interest points must be float32, and positions "
            "and scales finite, to be written to shards. Convert what the detector returns."
        )
    return written
