"""The files of a dataset of shards, and its description ``dataset.json``.

::

    dataset.json                 counts, actions, cameras, and a checksum of each file
    interactions/00000.parquet   a shard: episode, start, action, reward, end, flags; whole episodes
    percepts/00000.parquet       the percepts of this shard, and the images of each
    images/00000.parquet         a block of images: the file of each, and its number of symbols
    symbols/00000.parquet        the symbols of this block and their places, image by image
    frames/                      images that had no file, as PNG
    vocabulary.rlvc              the feature extractor and its symbols

The path of an image is absolute or relative to the folder; its digest is the 16-byte BLAKE2b of its
pixels. Percepts and images are numbered within the whole dataset. Shards are cut by episodes and
blocks by images: each image is stored once, however many shards refer to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rlvc._core.archive import check_format
from rlvc._core.atomic import Pathlike, atomic_write
from rlvc._core.validate import Count, explain_invalid, from_json, require
from rlvc.data.validation import MAX_ACTIONS
from rlvc.errors import DamagedFileError, FileFormatError
from rlvc.vision.io import MAX_CAMERAS

FILE: Final = "dataset.json"
VOCABULARY: Final = "vocabulary.rlvc"
FRAMES: Final = "frames"
FORMAT, VERSION = "rlvc-shards", 1
BLOCK: Final = 256  # images of a block; the keypoints of one block are in memory at a time
MAX_BYTES: Final = 2**28  # bytes of dataset.json
MAX_IMAGES: Final = 2**28  # of a dataset; with more, dataset.json would exceed MAX_BYTES
CURE: Final = "Copy the dataset again from an intact copy, or make it again."


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The number of rows and of bytes of a file, and its CRC-32."""

    rows: Count
    bytes: Count
    crc32: Count


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """The files of one shard."""

    interactions: FileInfo
    percepts: FileInfo


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """The files of a block of images: of their paths and digests, and of their symbols."""

    images: FileInfo
    symbols: FileInfo


@dataclass(frozen=True, slots=True)
class CameraInfo:
    """The distinct images of one camera.

    Attributes:
        name: The name of the camera; empty if percepts are single images.
        shape: (height, width, channels) of its images.
        symbols: The number of symbols of its vocabulary.
        blocks: The blocks, in the order of the images.
    """

    name: str
    shape: tuple[Count, Count, Count]
    symbols: Count
    blocks: tuple[ImageBlock, ...]

    @property
    def images(self) -> int:
        """The number of distinct images."""
        return sum(block.images.rows for block in self.blocks)


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """The content of ``dataset.json``.

    Attributes:
        interactions: The number of interactions.
        episodes: The number of episodes.
        percepts: The number of distinct percepts.
        n_actions: The number of actions.
        action_start: The first action as the environment numbers them.
        action_names: The names of the actions, if they have any.
        lowest: The lowest reward.
        largest: The largest absolute reward.
        cameras: The cameras, in alphabetical order.
        shards: The shards, in the order of the interactions.
        extractor: The detector, descriptor, metric and threshold of the symbols.
        vocabulary: The file of the vocabulary.
    """

    interactions: Count
    episodes: Count
    percepts: Count
    n_actions: Count
    action_start: int
    action_names: tuple[str, ...]
    lowest: float
    largest: float
    cameras: tuple[CameraInfo, ...]
    shards: tuple[ShardFiles, ...]
    extractor: Mapping[str, Any]
    vocabulary: FileInfo

    def blocks_of(self, camera: int) -> Iterator[tuple[int, int, ImageBlock]]:
        """Yield the number of each block of a camera, the number of its first image, and it."""
        before, first = sum(len(one.blocks) for one in self.cameras[:camera]), 0
        for number, block in enumerate(self.cameras[camera].blocks, before):
            yield number, first, block
            first += block.images.rows


def file_of(kind: str, number: int) -> str:
    """Return the name of a file in the folder.

    >>> file_of("symbols", 12)
    'symbols/00012.parquet'
    """
    return f"{kind}/{number:05d}.parquet"


def is_shards(path: Pathlike) -> bool:
    """Tell whether a path is a folder of shards, by its ``dataset.json``."""
    try:
        return _parse(Path(path) / FILE).get("format") == FORMAT
    except (OSError, ValueError, RecursionError):
        return False


def write_info(folder: Path, info: DatasetInfo) -> None:
    """Write ``dataset.json``, the last of all files."""
    content = {"format": FORMAT, "version": VERSION, **asdict(info)}
    text = json.dumps({**content, "checksum": checksum(content)}, indent=1, ensure_ascii=False)
    atomic_write(folder / FILE, f"{text}\n".encode())


def read_info(folder: Pathlike) -> DatasetInfo:
    """Read and check ``dataset.json``.

    Raises:
        DamagedFileError: The file changed since it was written.
        InvalidFileError: The file has another format or version, or invalid content.
        FileFormatError: There is no such file.
    """
    source = Path(folder) / FILE
    try:
        content = _parse(source)
    except FileNotFoundError as error:
        raise FileFormatError(
            f"There is no file {source}. Name a folder to which rlvc wrote shards."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{source} is damaged: it is not JSON. {CURE}") from error
    check_format(source, content, FORMAT, VERSION, {})
    if content.pop("checksum", None) != checksum(content):
        raise DamagedFileError(f"{source} is damaged: its checksum does not match. {CURE}")
    with explain_invalid(source, "dataset of shards"):
        info: DatasetInfo = from_json(DatasetInfo, content)
        _check(info)
        return info


def _parse(source: Path) -> dict[str, Any]:
    if source.exists() and not source.is_file():
        raise ValueError("it is not a regular file")
    with source.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError("it is too long")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def _check(info: DatasetInfo) -> None:
    """Raise a ValueError unless the counts are consistent, before arrays are allocated."""
    require(1 <= info.n_actions <= MAX_ACTIONS, "actions")
    require(not info.action_names or len(info.action_names) == info.n_actions, "actions")
    require(info.largest >= abs(info.lowest), "rewards")
    require(1 <= len(info.cameras) <= MAX_CAMERAS, "cameras")
    names = [camera.name for camera in info.cameras]
    require(names == sorted(set(names)), "cameras")
    for camera in info.cameras:
        require(0 not in camera.shape and camera.shape[2] in (1, 3), "cameras")
        require(camera.symbols < 2**31, "symbols")
        require(all(block.images.rows for block in camera.blocks), "blocks")
    require(1 <= len(info.shards) <= info.episodes <= info.interactions, "shards")
    rows = [shard.interactions.rows for shard in info.shards]
    require(min(rows) > 0 and sum(rows) == info.interactions, "shards")
    for shard in info.shards:
        require(0 < shard.percepts.rows <= info.percepts, "shards")
    require(info.percepts <= sum(shard.percepts.rows for shard in info.shards), "percepts")


def checksum(info: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, whatever the order of its keys.

    >>> checksum({"a": 1, "b": [2]}) == checksum({"b": [2], "a": 1})
    True
    """
    text = json.dumps(info, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
