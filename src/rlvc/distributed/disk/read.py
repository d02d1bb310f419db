"""Read one shard of a dataset as arrays, with the symbols of its own images alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Ints
from rlvc._core.atomic import Pathlike
from rlvc._core.validate import explain_invalid, require
from rlvc.data.io.table import camera_column
from rlvc.data.validation import check_flaws, find_bad_rewards
from rlvc.distributed.disk.format import DatasetInfo, file_of, read_info
from rlvc.distributed.disk.tables import INTERACTIONS, PLACE, SYMBOLS, percepts_kinds, read_table
from rlvc.features.occurrences import OccurrenceTable
from rlvc.vision.keypoints import GrowableArray

DTYPES = {"image": "int64", "symbol": "int32", **dict.fromkeys(PLACE, "float32")}  # of symbols


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

    def occurrences(self, numbers: NDArray[np.int32]) -> OccurrenceTable:
        """Return where the symbols occur as features, given their numbers in ascending order."""
        return OccurrenceTable(self.begin, numbers[self.symbol], self.marks, self.size)


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
    found = read_table(path, INTERACTIONS, piece, list(INTERACTIONS))
    with explain_invalid(path, "shard"):
        columns = {name: np.array(column) for name, column in found.items()}
        columns["action"] = columns["action"].astype(np.int64)
        require(_is_within(columns["action"], info.n_actions), "actions")
        for name in ("start", "end"):
            require(_is_within(columns[name], info.percepts), "percepts")
        reward = columns["reward"]
        for error in check_flaws("reward", reward, find_bad_rewards(reward)):
            raise error
        require(reward.min() >= info.lowest and np.abs(reward).max() <= info.largest, "rewards")
    return columns


def read_percepts(folder: Path, number: int, info: DatasetInfo) -> tuple[Ints, Ints, Bools]:
    """Return the percepts of a shard, the images of each, and which are in no shard before."""
    path, piece = folder / file_of("percepts", number), info.shards[number].percepts
    kinds = percepts_kinds(info.cameras)
    found = read_table(path, kinds, piece, list(kinds))
    with explain_invalid(path, "shard"):
        percept = np.array(found["percept"])
        require(_is_within(percept, info.percepts) and (np.diff(percept) > 0).all(), "percepts")
        table = np.column_stack([found[camera_column(one.name)] for one in info.cameras])
        for camera, images in zip(info.cameras, table.T, strict=True):
            require(_is_within(images, camera.images), "images")
    return percept, table, np.array(found["is_first"])


def read_symbols(folder: Path, camera: int, info: DatasetInfo, wanted: Ints) -> ShardImages:
    """Return the symbols of images of a camera; read only the blocks that have them.

    Args:
        folder: The folder of the dataset.
        camera: The number of the camera.
        info: The content of ``dataset.json``.
        wanted: The numbers of the images, in ascending order.
    """
    one = info.cameras[camera]
    columns = {name: GrowableArray(np.empty(0, dtype)) for name, dtype in DTYPES.items()}
    for number, first, block in info.blocks_of(camera):
        n = block.images.rows
        here = wanted[slice(*np.searchsorted(wanted, [first, first + n]))]
        if len(here):
            path = folder / file_of("symbols", number)
            rows = read_table(path, SYMBOLS, block.symbols, list(columns))
            with explain_invalid(path, "block of symbols"):
                require(_is_within(rows["image"] - first, n), "images")
            is_wanted = np.isin(rows["image"], here)
            for name, column in columns.items():
                column.add(rows[name][is_wanted])
    found = {name: column.finish() for name, column in columns.items()}
    image, symbol = found.pop("image"), found["symbol"]
    with explain_invalid(folder, "sound dataset"):
        require(_is_within(symbol, one.symbols), "symbols")
        step = np.diff(image)
        require(((step > 0) | ((step == 0) & (np.diff(symbol) >= 0))).all(), "symbols")
        require(all(np.isfinite(found[name]).all() for name in ("x", "y", "scale")), "symbols")
    begin, size = np.searchsorted(image, np.append(wanted, one.images)), one.shape[1::-1]
    return ShardImages(wanted, begin, **found, n_symbols=one.symbols, size=size)


def _is_within(numbers: NDArray[Any], n: int) -> bool:
    return len(numbers) == 0 or bool(numbers.min() >= 0 and numbers.max() < n)
