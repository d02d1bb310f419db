"""Shards of what is in memory: what workers need to learn together, each from its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.atomic import Pathlike
from rlvc._core.fixed_point import Scale
from rlvc._core.folders import atomic_folder
from rlvc.data.interactions import Interactions
from rlvc.data.io.folder import check_new_folder
from rlvc.data.io.table import camera_column, import_pyarrow
from rlvc.data.percepts import Images
from rlvc.distributed.disk.format import (
    BLOCK,
    GROUP,
    MOST_IMAGES,
    About,
    Block,
    Camera,
    Piece,
    Shard,
    file_of,
    write_about,
)
from rlvc.distributed.disk.tables import (
    IMAGES,
    INTERACTIONS,
    SYMBOLS,
    percepts_kinds,
    table_writer,
    write_table,
)
from rlvc.features.occurrences import OccurrenceTable
from rlvc.learning.database import Database
from rlvc.learning.shard import cut_episodes
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.io import describe_extractor


@dataclass(frozen=True, slots=True)
class Seen:
    """The symbols of some images of a camera, in the order of an ``OccurrenceTable``.

    Attributes:
        count: (n_images,) how many symbols each image shows.
        symbol: (n,) which; in ascending order on every image.
        place: (n, 4) x, y, scale and angle.
        paths: Where each image is; None where it has no file.
        digests: What tells each image from any other.
    """

    count: Ints
    symbol: NDArray[np.int32]
    place: NDArray[np.float32]
    paths: Sequence[str | None]
    digests: Sequence[bytes]


def write_shards(database: Database, folder: Pathlike, shards: int) -> About:
    """Write interactions and the symbols of their percepts as shards, for workers that learn.

    The folder appears whole or not at all. Neither images nor the vocabulary are written; nor are
    features made of symbols, if any are known.

    Args:
        database: What to write.
        folder: One that does not exist yet, or is empty.
        shards: In how many; each has whole episodes, and about as many interactions as the others.

    >>> import tempfile, rlvc
    >>> from rlvc.distributed.disk.read import read_shard
    >>> images = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    >>> data = rlvc.Interactions.from_arrays(
    ...     images[:3], [0, 1, 0], [0, 0, 1], [False, True, True], next_observations=images[1:]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     about = write_shards(rlvc.RLVC().extract(data), f"{folder}/shards", 2)
    ...     shard = read_shard(f"{folder}/shards", 1)
    >>> shard.percepts.tolist(), shard.start.tolist(), shard.is_first.tolist()
    ([2, 3], [0], [False, True])
    """
    interactions, index = database.interactions, database.index
    cut = cut_episodes(interactions.episode, shards)
    import_pyarrow()
    check_new_folder(folder, "write_shards")
    with atomic_folder(folder) as place:
        writer = ShardWriter(place, sum(one.n_images for one in index.places))
        for images, places in zip(interactions.percepts.images, index.places, strict=True):
            symbols = index.graph.symbols(images.camera)
            seen = _seen(places, symbols, images)
            writer.add_camera(images.camera, images.shape, len(symbols), seen)
        return writer.finish(interactions, index.table, cut, database.extractor)


class ShardWriter:
    """The files of a dataset, written one after the other into a folder.

    Args:
        folder: Where; it must be there, and empty.
        n_images: How many images of all cameras there will be.
    """

    def __init__(self, folder: Path, n_images: int) -> None:
        if n_images > MOST_IMAGES:
            raise ValueError(
                f"A dataset of shards may have at most {MOST_IMAGES:,} images; got {n_images:,}. "
                "Write several datasets."
            )
        self._folder = folder
        self._cameras: list[Camera] = []
        self._blocks: list[Block] = []
        for kind in ("interactions", "percepts", "images", "symbols"):
            (folder / kind).mkdir()

    def add_camera(
        self, name: str, shape: tuple[int, ...] | None, symbols: int, seen: Iterable[Seen]
    ) -> None:
        """Write what the images of a camera show.

        Args:
            name: Of the camera.
            shape: Of its images.
            symbols: How many its vocabulary has.
            seen: GROUP images at a time, and the rest; they are asked for one after the other.
        """
        groups, first = iter(seen), 0
        for head in groups:
            block = itertools.chain([head], itertools.islice(groups, BLOCK // GROUP - 1))
            first += self._add_block(name, first, block)
        height, width, channels = shape or (1, 1, 1)
        self._cameras.append(Camera(name, (height, width, channels), first, symbols))

    def _add_block(self, camera: str, first: int, groups: Iterable[Seen]) -> int:
        """Write a block; return how many images it has."""
        number, n = len(self._blocks), 0
        with (
            table_writer(self._folder / file_of("images", number), IMAGES) as images,
            table_writer(self._folder / file_of("symbols", number), SYMBOLS) as symbols,
        ):
            for seen in groups:
                image = first + n + np.arange(len(seen.count))
                digest = [one.hex() for one in seen.digests]
                told = {"image": image, "path": seen.paths, "digest": digest}
                images.add({"camera": camera, **told, "symbols": seen.count})
                places = dict(zip(("x", "y", "scale", "angle"), seen.place.T, strict=True))
                shown = {"image": np.repeat(image, seen.count), "symbol": seen.symbol}
                symbols.add({"camera": camera, **shown, **places})
                n += len(image)
            block = Block(len(self._cameras), first, images.close(), symbols.close())
        self._blocks.append(block)
        return n

    def finish(
        self,
        interactions: Interactions,
        table: Ints,
        cut: Ints,
        extractor: FeatureExtractor,
        vocabulary: Piece | None = None,
    ) -> About:
        """Write the shards, and ``dataset.json``.

        Args:
            interactions: All of them.
            table: (n_percepts, n_cameras) the images that make up each percept.
            cut: See :func:`cut_episodes`.
            extractor: What the symbols were seen with.
            vocabulary: The file of the eye, if it was written.
        """
        scale = Scale.of(interactions.reward)
        about = About(
            interactions=len(interactions),
            episodes=len(np.unique(interactions.episode)),
            percepts=len(table),
            n_actions=interactions.n_actions,
            action_start=interactions.action_start,
            action_names=interactions.action_names,
            lowest=scale.lowest,
            largest=scale.largest,
            cameras=tuple(self._cameras),
            shards=tuple(self._add_shards(interactions, table, cut)),
            blocks=tuple(self._blocks),
            extractor=_describe(extractor),
            vocabulary=vocabulary,
        )
        write_about(self._folder, about)
        return about

    def _add_shards(self, interactions: Interactions, table: Ints, cut: Ints) -> Iterator[Shard]:
        stuck, is_known = interactions.is_stuck, np.zeros(len(table), np.bool_)
        kinds = percepts_kinds([camera.name for camera in self._cameras])
        for number, (first, last) in enumerate(itertools.pairwise(cut.tolist())):
            rows = slice(first, last)
            names = [name for name in INTERACTIONS if name != "stuck"]
            columns = {name: getattr(interactions, name)[rows] for name in names}
            is_here = np.zeros(len(table), np.bool_)
            is_here[columns["start"]] = is_here[columns["end"]] = True
            if number == len(cut) - 2:
                is_here |= ~is_known  # what no interaction mentions is there as well, once
            percept = np.flatnonzero(is_here)
            images = zip(self._cameras, table[percept].T, strict=True)
            yield Shard(
                write_table(
                    self._folder / file_of("interactions", number),
                    INTERACTIONS,
                    {**columns, "stuck": stuck[rows]},
                ),
                write_table(
                    self._folder / file_of("percepts", number),
                    kinds,
                    {"percept": percept, "is_first": ~is_known[percept]}
                    | {camera_column(camera.name): image for camera, image in images},
                ),
            )
            is_known |= is_here


def _seen(places: OccurrenceTable, symbols: NDArray[np.int32], images: Images) -> Iterator[Seen]:
    """Yield what the images of a camera show, GROUP images at a time."""
    digests = images.digests(0, len(images)) or [b""] * places.n_images
    for first in range(0, places.n_images, GROUP):
        begin = places.begin[first : first + GROUP + 1]
        rows = slice(begin[0], begin[-1])
        symbol = np.searchsorted(symbols, places.feature[rows]).astype(np.int32)
        place = as_written(places.marks[rows])
        count, there = np.diff(begin), digests[first : first + GROUP]
        yield Seen(count, symbol, place, [None] * len(count), there)


def as_written(marks: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return (n, 4) positions, scales and angles as shards have them, if nothing is lost by it."""
    place = marks.astype(np.float32)
    if not np.array_equal(place, marks, equal_nan=True) or not np.isfinite(place[:, :3]).all():
        raise ValueError(
            "The positions, scales and angles of interest points must be float32, and positions "
            "and scales finite, to be written; got others. Convert what the detector returns."
        )
    return place


def _describe(extractor: FeatureExtractor) -> dict[str, Any] | None:
    """Return what an eye sees with; None if a part of it has no name."""
    with suppress(TypeError, ValueError):
        told, _ = describe_extractor(extractor, [])
        return {name: told[name] for name in ("detector", "descriptor", "metric", "threshold")}
    return None
