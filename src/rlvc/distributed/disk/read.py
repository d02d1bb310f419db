"""Read one shard of a dataset as arrays, with the symbols of its own images alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Ints
from rlvc._core.atomic import Pathlike
from rlvc._core.validate import explain_invalid, require
from rlvc.data.io.table import camera_column
from rlvc.data.validation import check_rewards
from rlvc.distributed.disk.format import DatasetInfo, ImageBlock, file_of, read_info
from rlvc.distributed.disk.tables import (
    IMAGES,
    INTERACTIONS,
    SYMBOLS,
    Columns,
    TableReader,
    percepts_kinds,
)

PLACE = ("x", "y", "scale", "angle")


@dataclass(frozen=True, slots=True)
class ShardImages:
    """The symbols of images of one camera, in the order of an ``OccurrenceTable``.

    Attributes:
        numbers: (n_images,) their numbers in the whole dataset, in ascending order.
        begin: (n_images + 1,) where the symbols of each image begin.
        symbol: (n,) the symbols of the camera's vocabulary, in ascending order on every image.
        x: (n,) their columns, pixels.
        y: (n,) their rows, pixels.
        scale: (n,) their scales, pixels.
        angle: (n,) their orientations, degrees; NaN where unknown.
        n_symbols: The number of symbols of the vocabulary.
        size: The width and height of the images.
    """

    numbers: Ints
    begin: Ints
    symbol: NDArray[np.int32]
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    scale: NDArray[np.float32]
    angle: NDArray[np.float32]
    n_symbols: int
    size: tuple[int, int]

    @property
    def marks(self) -> NDArray[np.float64]:
        """(n, 4) x, y, scale and angle, as in an ``OccurrenceTable``."""
        return np.column_stack([self.x, self.y, self.scale, self.angle]).astype(np.float64)


@dataclass(frozen=True, slots=True)
class ShardData:
    """N interactions of whole episodes, their percepts, and the symbols of these.

    Percepts and images are numbered within the shard, in the order of the whole dataset.

    Attributes:
        start: (N,) the percept s_t.
        action: (N,) the action, counted from 0.
        reward: (N,) the reward.
        end: (N,) the percept s_{t+1}.
        episode: (N,) the number of the episode in the whole dataset.
        terminated: (N,) whether s_{t+1} is terminal.
        truncated: (N,) whether the episode was cut after it.
        stuck: (N,) whether that action in that percept never led to another, in the whole dataset.
        percepts: (n,) the numbers of the percepts in the whole dataset, in ascending order.
        is_first: (n,) whether no shard before this one has the percept.
        table: (n, n_cameras) the images that make up each percept.
        images: One for each camera.
    """

    start: Ints
    action: Ints
    reward: NDArray[np.float64]
    end: Ints
    episode: Ints
    terminated: Bools
    truncated: Bools
    stuck: Bools
    percepts: Ints
    is_first: Bools
    table: Ints
    images: tuple[ShardImages, ...]

    def __len__(self) -> int:
        return len(self.start)


def read_shard(folder: Pathlike, number: int, info: DatasetInfo | None = None) -> ShardData:
    """Read a shard, and check that all numbers are in range, as compiled code does not.

    Args:
        folder: The folder of the dataset.
        number: The number of the shard, from 0.
        info: The content of ``dataset.json``, if it was read already.

    Raises:
        DamagedFileError: Bytes of a file changed or are missing.
        InvalidFileError: A file does not make sense.
        FileFormatError: A file is not there.
    """
    place, info = Path(folder), info or read_info(folder)
    if not 0 <= number < len(info.shards):
        raise IndexError(f"{place} has {len(info.shards)} shards; there is no number {number}.")
    percept, images, is_first = read_percepts(place, number, info)
    columns = read_interactions(place, number, info)
    local = [np.unique(column, return_inverse=True) for column in images.T]
    file = place / file_of("interactions", number)
    with explain_invalid(file, "shard"):
        ends = {name: np.searchsorted(percept, columns[name]) for name in ("start", "end")}
        for name, where in ends.items():
            require(where.max() < len(percept), "percepts")
            require(np.array_equal(percept[where], columns[name]), "percepts")
    return ShardData(
        **{**columns, **ends},
        percepts=percept,
        is_first=is_first,
        table=np.column_stack([which for _, which in local]).astype(np.int64, copy=False),
        images=tuple(
            read_symbols(place, camera, info, numbers) for camera, (numbers, _) in enumerate(local)
        ),
    )


def read_interactions(folder: Path, number: int, info: DatasetInfo) -> dict[str, NDArray[Any]]:
    """Return the columns of a shard, with the numbers of percepts in the whole dataset."""
    path, piece = folder / file_of("interactions", number), info.shards[number].interactions
    found = TableReader(path, INTERACTIONS, piece).read(list(INTERACTIONS))
    with explain_invalid(path, "shard"):
        columns = {name: np.array(column) for name, column in found.items()}
        columns["action"] = columns["action"].astype(np.int64)
        require(_is_within(columns["action"], info.n_actions), "actions")
        for name in ("start", "end"):
            require(_is_within(columns[name], info.percepts), "percepts")
        for error in check_rewards(columns["reward"]):
            raise error
        reward = columns["reward"]
        require(reward.min() >= info.lowest and np.abs(reward).max() <= info.largest, "rewards")
    return columns


def read_percepts(folder: Path, number: int, info: DatasetInfo) -> tuple[Ints, Ints, Bools]:
    """Return the percepts of a shard, the images of each, and which are in no shard before."""
    path, piece = folder / file_of("percepts", number), info.shards[number].percepts
    names = [camera_column(camera.name) for camera in info.cameras]
    kinds = percepts_kinds([camera.name for camera in info.cameras])
    found = TableReader(path, kinds, piece).read(list(kinds))
    with explain_invalid(path, "shard"):
        percept = np.array(found["percept"])
        require(_is_within(percept, info.percepts) and (np.diff(percept) > 0).all(), "percepts")
        table = np.column_stack([found[name] for name in names])
        for camera, images in zip(info.cameras, table.T, strict=True):
            require(_is_within(images, camera.images), "images")
    return percept, table, np.array(found["is_first"])


def read_symbols(folder: Path, camera: int, info: DatasetInfo, wanted: Ints) -> ShardImages:
    """Return the symbols of images of a camera; read only the blocks and groups that have them.

    Args:
        folder: The folder of the dataset.
        camera: The number of the camera.
        info: The content of ``dataset.json``.
        wanted: The numbers of the images, in ascending order.
    """
    one, parts = info.cameras[camera], list[_BlockRows]()
    count = np.zeros(len(wanted), np.int64)
    for number, block in info.blocks_of(camera):
        first, last = np.searchsorted(wanted, [block.first, block.first + block.images.rows])
        if first < last:
            counts = _read_counts(folder, number, block)
            is_wanted = np.zeros(len(counts), np.bool_)
            is_wanted[wanted[first:last] - block.first] = True
            count[first:last] = counts[is_wanted]
            parts.append(_BlockRows(number, block, np.repeat(is_wanted, counts)))
    begin = np.concatenate([[0], np.cumsum(count)])
    symbol = np.empty(begin[-1], np.int32)
    place = {name: np.empty(begin[-1], np.float32) for name in PLACE}
    n = 0
    for part in parts:
        for rows in part.read(folder):
            end = n + len(rows["symbol"])
            symbol[n:end] = rows["symbol"]
            for name in PLACE:
                place[name][n:end] = rows[name]
            n = end
    with explain_invalid(folder, "sound dataset"):
        require(n == len(symbol) and _is_within(symbol, one.symbols), "symbols")
        climbs = np.diff(symbol) >= 0
        climbs[begin[(begin > 0) & (begin < n)] - 1] = True  # another image
        require(climbs.all(), "symbols")
        for name in ("x", "y", "scale"):
            require(np.isfinite(place[name]).all(), "symbols")
    size = one.shape[1], one.shape[0]
    return ShardImages(wanted, begin, symbol, **place, n_symbols=one.symbols, size=size)


@dataclass(frozen=True, slots=True)
class _BlockRows:
    """The rows of a block that are read."""

    number: int
    block: ImageBlock
    is_wanted: Bools

    def read(self, folder: Path) -> Iterator[Columns]:
        """Yield the rows, a group of images at a time."""
        path = folder / file_of("symbols", self.number)
        reader = TableReader(path, SYMBOLS, self.block.symbols)
        for group, (first, last) in enumerate(itertools.pairwise(reader.begin.tolist())):
            is_wanted = self.is_wanted[first:last]
            if is_wanted.any():
                rows = reader.read(["symbol", *PLACE], group)
                is_all = is_wanted.all()
                yield {name: one if is_all else one[is_wanted] for name, one in rows.items()}


def _read_counts(folder: Path, number: int, block: ImageBlock) -> Ints:
    """Return the number of symbols of each image of a block."""
    path = folder / file_of("images", number)
    count = TableReader(path, IMAGES, block.images).read(["symbols"])["symbols"].astype(np.int64)
    with explain_invalid(path, "block of images"):
        require(count.min() >= 0 and count.sum() == block.symbols.rows, "symbols")
    return count


def _is_within(numbers: NDArray[Any], n: int) -> bool:
    return len(numbers) == 0 or bool(numbers.min() >= 0 and numbers.max() < n)
