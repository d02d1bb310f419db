"""Read one shard of a dataset, with the symbols of its own images only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Ints, Ints32
from rlvc._core.atomic import Pathlike
from rlvc._core.validate import explain_invalid, require
from rlvc.data.interactions import Interactions
from rlvc.data.io.table import camera_column
from rlvc.data.percepts import PerceptPlaceholders
from rlvc.data.validation import check_flaws, find_bad_rewards
from rlvc.distributed.disk.format import DatasetInfo, file_of, read_info
from rlvc.distributed.disk.tables import INTERACTIONS, PLACE, SYMBOLS, percepts_kinds, read_table
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import Primitive
from rlvc.features.occurrences import OccurrenceTable
from rlvc.learning.shard import ShardNumbers
from rlvc.vision.keypoints import GrowableArray

DTYPES = {"image": "int64", "symbol": "int32", **dict.fromkeys(PLACE, "float32")}  # of symbols


@dataclass(frozen=True, slots=True)
class ShardData:
    """The interactions of some episodes, and the symbols of their percepts.

    Percepts and images are numbered within the shard, in the order of the whole dataset.

    Attributes:
        interactions: The interactions, without the images of their percepts.
        index: The images that make up each percept, and where symbols occur on them.
        numbers: The numbers that percepts and images have in the whole dataset.
    """

    interactions: Interactions
    index: FeatureIndex
    numbers: ShardNumbers


def read_shard(folder: Pathlike, number: int) -> ShardData:
    """Read a shard, counted from 0.

    All numbers are checked to be in range, since compiled code does not check them.

    Raises:
        DamagedFileError: Bytes of a file changed or are missing.
        InvalidFileError: The content of a file is invalid.
        FileFormatError: A file is missing.
    """
    place, info = Path(folder), read_info(folder)
    if not 0 <= number < len(info.shards):
        raise IndexError(f"{place} has {len(info.shards)} shards; there is no shard {number}.")
    percept, images, is_first = read_percepts(place, number, info)
    columns: dict[str, Any] = read_interactions(place, number, info)
    with explain_invalid(place / file_of("interactions", number), "shard"):
        for name in ("start", "end"):
            where = np.searchsorted(percept, columns[name])
            require(where.max() < len(percept), "percepts")
            require(np.array_equal(percept[where], columns[name]), "percepts")
            columns[name] = where
        stuck, percepts = columns.pop("stuck"), PerceptPlaceholders(len(percept))
        interactions = Interactions(percepts, n_actions=info.n_actions, **columns)
    local = (np.unique(column, return_inverse=True) for column in images.T)
    wanted, which = zip(*local, strict=True)
    table = np.column_stack(which).astype(np.int64, copy=False)
    n_images = tuple(camera.images for camera in info.cameras)
    numbers = ShardNumbers(percept, is_first, wanted, n_images, stuck, len(info.shards))
    return ShardData(interactions, read_index(place, info, wanted, table), numbers)


def read_interactions(folder: Path, number: int, info: DatasetInfo) -> dict[str, NDArray[Any]]:
    """Return the columns of a shard; percepts are numbered within the whole dataset."""
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
    """Return the percepts of a shard, their images, and which are in no shard before."""
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


def read_index(
    folder: Path, info: DatasetInfo, wanted: Sequence[Ints], table: Ints
) -> FeatureIndex:
    """Return the index of all symbols on percepts; read only the blocks with their images.

    ``wanted`` are the numbers of the images of each camera, in ascending order; ``table`` has the
    (n_percepts, n_cameras) images of each percept, as indices into these.
    """
    names = tuple(camera.name for camera in info.cameras)
    symbols = (Primitive(one.name, symbol) for one in info.cameras for symbol in range(one.symbols))
    graph = FeatureGraph(tuple(symbols))
    places = tuple(
        _read_symbols(folder, camera, info, images, graph.symbols(names[camera]))
        for camera, images in enumerate(wanted)
    )
    return FeatureIndex.from_occurrences(graph, names, places, table)


def _read_symbols(
    folder: Path, camera: int, info: DatasetInfo, wanted: Ints, numbers: Ints32
) -> OccurrenceTable:
    """Return where symbols occur on images of a camera, given the feature number of each symbol."""
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
    image, symbol = found["image"], found["symbol"]
    with explain_invalid(folder, "valid dataset"):
        require(_is_within(symbol, one.symbols), "symbols")
        step = np.diff(image)
        require(((step > 0) | ((step == 0) & (np.diff(symbol) >= 0))).all(), "symbols")
        require(all(np.isfinite(found[name]).all() for name in ("x", "y", "scale")), "symbols")
    begin, size = np.searchsorted(image, np.append(wanted, one.images)), one.shape[1::-1]
    marks = np.column_stack([found[name] for name in PLACE]).astype(np.float64)
    return OccurrenceTable(begin, numbers[symbol], marks, size)


def _is_within(numbers: NDArray[Any], n: int) -> bool:
    return len(numbers) == 0 or bool(numbers.min() >= 0 and numbers.max() < n)
