"""Write the tables of a dataset."""

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
from rlvc._core.fixed_point import Scale
from rlvc.data.interactions import Interactions
from rlvc.data.io.table import camera_column
from rlvc.distributed.disk.format import (
    BLOCK,
    GROUP,
    MAX_IMAGES,
    CameraInfo,
    DatasetInfo,
    FileInfo,
    ImageBlock,
    ShardFiles,
    file_of,
    write_info,
)
from rlvc.distributed.disk.tables import (
    IMAGES,
    INTERACTIONS,
    SYMBOLS,
    percepts_kinds,
    table_writer,
    write_table,
)
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.io import describe_extractor


@dataclass(frozen=True, slots=True)
class GroupSymbols:
    """The symbols of a group of images of a camera, in the order of an ``OccurrenceTable``.

    Attributes:
        count: (n_images,) the number of symbols of each image.
        symbol: (n,) the symbols, in ascending order on every image.
        place: (n, 4) x, y, scale and angle.
        paths: The file of each image; None if it has none.
        digests: The digest of each image.
    """

    count: Ints
    symbol: NDArray[np.int32]
    place: NDArray[np.float32]
    paths: Sequence[str | None]
    digests: Sequence[bytes]


class ShardWriter:
    """Write the files of a dataset one after the other into a folder.

    Args:
        folder: An empty folder.
        n_images: The number of images of all cameras.
    """

    def __init__(self, folder: Path, n_images: int) -> None:
        if n_images > MAX_IMAGES:
            raise ValueError(
                f"A dataset of shards may have at most {MAX_IMAGES:,} images; got {n_images:,}. "
                "Write several datasets."
            )
        self._folder = folder
        self._cameras: list[CameraInfo] = []
        self._blocks: list[ImageBlock] = []
        for kind in ("interactions", "percepts", "images", "symbols"):
            (folder / kind).mkdir()

    def add_camera(
        self, name: str, shape: tuple[int, ...] | None, symbols: int, groups: Iterable[GroupSymbols]
    ) -> None:
        """Write the symbols of the images of a camera.

        Args:
            name: The name of the camera.
            shape: The shape of its images.
            symbols: The number of symbols of its vocabulary.
            groups: The symbols of GROUP images each; the last group may be smaller.
        """
        rest, first = iter(groups), 0
        for head in rest:
            block = itertools.chain([head], itertools.islice(rest, BLOCK // GROUP - 1))
            first += self._add_block(name, first, block)
        height, width, channels = shape or (1, 1, 1)
        self._cameras.append(CameraInfo(name, (height, width, channels), first, symbols))

    def _add_block(self, camera: str, first: int, groups: Iterable[GroupSymbols]) -> int:
        """Write a block; return its number of images."""
        number, n = len(self._blocks), 0
        with (
            table_writer(self._folder / file_of("images", number), IMAGES) as images,
            table_writer(self._folder / file_of("symbols", number), SYMBOLS) as symbols,
        ):
            for group in groups:
                image = first + n + np.arange(len(group.count))
                digest = [one.hex() for one in group.digests]
                about = {"image": image, "path": group.paths, "digest": digest}
                images.add({"camera": camera, **about, "symbols": group.count})
                places = dict(zip(("x", "y", "scale", "angle"), group.place.T, strict=True))
                shown = {"image": np.repeat(image, group.count), "symbol": group.symbol}
                symbols.add({"camera": camera, **shown, **places})
                n += len(image)
            block = ImageBlock(len(self._cameras), first, images.close(), symbols.close())
        self._blocks.append(block)
        return n

    def finish(
        self,
        interactions: Interactions,
        table: Ints,
        cut: Ints,
        extractor: FeatureExtractor,
        vocabulary: FileInfo,
    ) -> DatasetInfo:
        """Write the shards, and ``dataset.json``.

        Args:
            interactions: All interactions.
            table: (n_percepts, n_cameras) the images that make up each percept.
            cut: What :func:`cut_episodes` returns.
            extractor: The extractor of the symbols.
            vocabulary: The file of the vocabulary.
        """
        scale = Scale.of(interactions.reward)
        info = DatasetInfo(
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
        write_info(self._folder, info)
        return info

    def _add_shards(
        self, interactions: Interactions, table: Ints, cut: Ints
    ) -> Iterator[ShardFiles]:
        stuck, is_known = interactions.is_stuck, np.zeros(len(table), np.bool_)
        kinds = percepts_kinds([camera.name for camera in self._cameras])
        for number, (first, last) in enumerate(itertools.pairwise(cut.tolist())):
            rows = slice(first, last)
            names = [name for name in INTERACTIONS if name != "stuck"]
            columns = {name: getattr(interactions, name)[rows] for name in names}
            is_used = np.zeros(len(table), np.bool_)
            is_used[columns["start"]] = is_used[columns["end"]] = True
            if number == len(cut) - 2:
                is_used |= ~is_known  # percepts of no interaction are in the last shard
            percept = np.flatnonzero(is_used)
            images = zip(self._cameras, table[percept].T, strict=True)
            yield ShardFiles(
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
            is_known |= is_used


def as_written(marks: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return (n, 4) positions, scales and angles as float32, if that loses nothing."""
    place = marks.astype(np.float32)
    if not np.array_equal(place, marks, equal_nan=True) or not np.isfinite(place[:, :3]).all():
        raise ValueError(
            "The positions, scales and angles of interest points must be float32, and positions "
            "and scales finite, to be written; got others. Convert what the detector returns."
        )
    return place


def _describe(extractor: FeatureExtractor) -> dict[str, Any] | None:
    """Return the parts of an extractor; None if one of them has no name."""
    with suppress(TypeError, ValueError):
        manifest, _ = describe_extractor(extractor, [])
        return {name: manifest[name] for name in ("detector", "descriptor", "metric", "threshold")}
    return None
