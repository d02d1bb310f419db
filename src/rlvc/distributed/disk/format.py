"""What is where in a folder of shards, and what its ``dataset.json`` says of it.

::

    dataset.json                 counts, actions, cameras, and a checksum of each file
    interactions/00000.parquet   a shard: episode, start, action, reward, end, flags; whole episodes
    percepts/00000.parquet       the percepts that this shard mentions, and which images they are
    images/00000.parquet         a block of images: where each one is, and how many symbols it shows
    symbols/00000.parquet        the symbols of this block, and where they are: image by image
    frames/                      images that had no file of their own, as PNG
    vocabulary.rlvc              the eye: what the symbols are

The path of an image starts from the folder, unless it is absolute; its digest is BLAKE2b, of 16
bytes, of its pixels. Percepts and images have the numbers that they have in the whole dataset.
Shards are cut by episodes, blocks by images: what is seen on an image is there once, however many
shards mention it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rlvc._core.atomic import Pathlike, atomic_write
from rlvc._core.validate import as_int, as_number, as_text, explain_invalid, require
from rlvc.data.validation import MOST_ACTIONS
from rlvc.errors import DamagedFileError, FileFormatError, InvalidFileError

FILE: Final = "dataset.json"
VOCABULARY: Final = "vocabulary.rlvc"
FRAMES: Final = "frames"
FORMAT, VERSION = "rlvc-shards", 1
BLOCK: Final = 1024  # images of a block
GROUP: Final = 256  # images whose symbols are read or written at a time
LONGEST: Final = 2**27  # bytes of dataset.json
MOST_IMAGES: Final = 2**29  # of a dataset; more blocks would make dataset.json longer
MOST: Final = 2**40  # of anything that is counted
MOST_CAMERAS: Final = 256
CURE: Final = "Copy the dataset again from where it is whole, or make it again."


@dataclass(frozen=True, slots=True)
class Piece:
    """A file: how many rows it has, how many bytes, and their CRC-32."""

    rows: int
    bytes: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Camera:
    """What a camera shows.

    Attributes:
        name: Empty where percepts are single images.
        shape: (height, width, channels) of its images.
        images: How many distinct ones there are.
        symbols: How many symbols its vocabulary has.
    """

    name: str
    shape: tuple[int, int, int]
    images: int
    symbols: int


@dataclass(frozen=True, slots=True)
class Shard:
    """The files of one shard."""

    interactions: Piece
    percepts: Piece


@dataclass(frozen=True, slots=True)
class Block:
    """The files of some images of one camera, which is given by number.

    Attributes:
        camera: Which camera.
        first: The number of its first image.
        images: The file that tells where the images are.
        symbols: The file of what they show.
    """

    camera: int
    first: int
    images: Piece
    symbols: Piece


@dataclass(frozen=True, slots=True)
class About:
    """All that ``dataset.json`` says.

    Attributes:
        interactions: How many there are.
        episodes: How many episodes they make up.
        percepts: How many distinct percepts they mention.
        n_actions: How many actions there are.
        action_start: The first action as the environment numbers them.
        action_names: How to call them, if they have names.
        lowest: The lowest reward.
        largest: The largest absolute reward.
        cameras: In alphabetical order.
        shards: In the order of the interactions.
        blocks: Camera by camera, in the order of the images.
        extractor: Detector, descriptor, metric and threshold of the symbols; None if a part of it
            has no name.
        vocabulary: The file of the eye, which is not there where only workers read.
    """

    interactions: int
    episodes: int
    percepts: int
    n_actions: int
    action_start: int
    action_names: tuple[str, ...]
    lowest: float
    largest: float
    cameras: tuple[Camera, ...]
    shards: tuple[Shard, ...]
    blocks: tuple[Block, ...]
    extractor: Mapping[str, Any] | None
    vocabulary: Piece | None = None

    def blocks_of(self, camera: int) -> list[tuple[int, Block]]:
        """Return the blocks of a camera, each with the number of its files."""
        return [(n, block) for n, block in enumerate(self.blocks) if block.camera == camera]


def file_of(kind: str, number: int) -> str:
    """Return the name of a file in the folder.

    >>> file_of("symbols", 12)
    'symbols/00012.parquet'
    """
    return f"{kind}/{number:05d}.parquet"


def is_shards(path: Pathlike) -> bool:
    """Tell whether a path is a folder of shards, by the format that it says it has."""
    try:
        return _parse(Path(path) / FILE).get("format") == FORMAT
    except (OSError, ValueError, RecursionError):
        return False


def write_about(folder: Path, about: About) -> None:
    """Write ``dataset.json``, the last of all files."""
    told = {"format": FORMAT, "version": VERSION, **asdict(about)}
    told = json.loads(json.dumps(told))  # tuples are lists from now on
    text = json.dumps({**told, "checksum": checksum(told)}, indent=1, ensure_ascii=False)
    atomic_write(folder / FILE, f"{text}\n".encode())


def read_about(folder: Pathlike) -> About:
    """Return what ``dataset.json`` says, once it makes sense.

    Raises:
        DamagedFileError: It changed since it was written.
        InvalidFileError: It is of another format or version, or does not make sense.
        FileFormatError: There is none.
    """
    source = Path(folder) / FILE
    try:
        told = _parse(source)
    except FileNotFoundError as error:
        raise FileFormatError(
            f"There is no file {source}. Name a folder that rlvc wrote shards to."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{source} is damaged: it is no JSON. {CURE}") from error
    if told.get("format") != FORMAT:
        raise InvalidFileError(
            f"{source} does not tell of shards: it says format {str(told.get('format'))[:40]!r}. "
            "Name a folder that rlvc wrote shards to."
        )
    version = told.get("version")
    if type(version) is not int or version != VERSION:
        raise InvalidFileError(
            f"{source} has version {str(version)[:20]} of the format; this rlvc reads version "
            f"{VERSION}. Update with: pip install --upgrade rlvc"
        )
    if told.pop("checksum", None) != checksum(told):
        raise DamagedFileError(f"{source} is damaged: its checksum does not fit. {CURE}")
    with explain_invalid(source, "dataset of shards"):
        about = _about(told)
        _check(about)
        return about


def _parse(source: Path) -> dict[str, Any]:
    if source.exists() and not source.is_file():
        raise ValueError("it is no ordinary file")
    with source.open("rb") as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ValueError("it is too long")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def _about(told: Mapping[str, Any]) -> About:
    """Return what is told, each value of its type."""
    extractor = told["extractor"]
    require(extractor is None or isinstance(extractor, dict), "extractor")
    vocabulary = told["vocabulary"]
    return About(
        interactions=_count(told["interactions"]),
        episodes=_count(told["episodes"]),
        percepts=_count(told["percepts"]),
        n_actions=_count(told["n_actions"]),
        action_start=as_int(told["action_start"]),
        action_names=tuple(as_text(name) for name in _listed(told["action_names"])),
        lowest=as_number(told["lowest"]),
        largest=as_number(told["largest"]),
        cameras=tuple(_camera(one) for one in _listed(told["cameras"])),
        shards=tuple(
            Shard(_piece(one["interactions"]), _piece(one["percepts"]))
            for one in _listed(told["shards"])
        ),
        blocks=tuple(
            Block(
                _count(one["camera"]),
                _count(one["first"]),
                _piece(one["images"]),
                _piece(one["symbols"]),
            )
            for one in _listed(told["blocks"])
        ),
        extractor=extractor,
        vocabulary=None if vocabulary is None else _piece(vocabulary),
    )


def _listed(value: Any) -> Sequence[Any]:
    require(isinstance(value, list), "lists")
    found: list[Any] = value
    return found


def _count(value: Any) -> int:
    require(0 <= as_int(value) <= MOST, "counts")
    return int(value)


def _piece(told: Mapping[str, Any]) -> Piece:
    return Piece(_count(told["rows"]), _count(told["bytes"]), _count(told["crc32"]))


def _camera(told: Mapping[str, Any]) -> Camera:
    height, width, channels = (_count(n) for n in _listed(told["shape"]))
    counts = _count(told["images"]), _count(told["symbols"])
    return Camera(as_text(told["name"]), (height, width, channels), *counts)


def _check(about: About) -> None:
    """Raise a ValueError unless the counts fit each other, so that arrays can be made of them."""
    require(1 <= about.n_actions <= MOST_ACTIONS, "actions")
    require(not about.action_names or len(about.action_names) == about.n_actions, "actions")
    require(about.largest >= abs(about.lowest), "rewards")
    require(1 <= len(about.cameras) <= MOST_CAMERAS, "cameras")
    names = [camera.name for camera in about.cameras]
    require(names == sorted(set(names)), "cameras")
    for camera in about.cameras:
        require(0 not in camera.shape and camera.shape[2] in (1, 3), "cameras")
        require(camera.symbols < 2**31, "symbols")
    require(1 <= len(about.shards) <= about.episodes <= about.interactions, "shards")
    rows = [shard.interactions.rows for shard in about.shards]
    require(min(rows) > 0 and sum(rows) == about.interactions, "shards")
    for shard in about.shards:
        require(0 < shard.percepts.rows <= about.percepts, "shards")
    require(about.percepts <= sum(shard.percepts.rows for shard in about.shards), "percepts")
    next_one = [0] * len(about.cameras)
    last = 0
    for block in about.blocks:
        require(last <= block.camera < len(about.cameras), "blocks")
        require(block.first == next_one[block.camera] and block.images.rows > 0, "blocks")
        next_one[block.camera] += block.images.rows
        last = block.camera
    require(next_one == [camera.images for camera in about.cameras], "blocks")


def checksum(about: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what JSON can hold.

    >>> checksum({"a": 1, "b": [2]}) == checksum({"b": [2], "a": 1})
    True
    """
    text = json.dumps(about, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
