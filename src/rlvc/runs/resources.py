"""What a run will need of memory and disk, said beforehand, and refused where it cannot fit.

Counted from what is kept of every image, point and symbol, and compared with runs by
``benchmarks/memory.py --estimate``: rather too much than too little.
"""

from __future__ import annotations

import errno
import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from rlvc._core.jit import n_threads
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import IN_MEMORY, Images, Percepts
from rlvc.learning.rlvc import RLVC
from rlvc.runs.free_resources import FreeResources, resident
from rlvc.vision.auto import CAMERA, CONFIGS, DRAWN, ExtractorConfig
from rlvc.vision.extractor import SIDE
from rlvc.vision.keypoints import unique_rows

MB: Final = 10**6
PROGRAM: Final = 430 * MB  # rlvc and the libraries that it needs, compiled kernels, figures
WORK: Final = 400  # bytes for each pixel that a thread looks at: SIFT's pyramid needs most
IMAGE: Final = 700  # bytes of what is known of each image, beside itself
POINT: Final = 28  # bytes of an interest point
ROW: Final = 20  # bytes beside each distinct descriptor, to find it again
SYMBOL: Final = 400  # bytes of a symbol beside its descriptor
SEEN: Final = 80  # bytes for each symbol on each image: where it is, and what is learned from it
NEAR: Final = 2.5  # symbols that a point may stand for, as a descriptor may lie between some
STAGE: Final = 60  # bytes for each interaction in every stage, as stages are kept
WORKER: Final = 150 * MB  # what a process that grows trees does not share with others
RESULTS: Final = 20 * MB  # policies, pictures and tables of a finished run
SAMPLE: Final = 50  # images that are looked at to know what the others are like
DENSE: Final = 300  # pixels for each point, where the detector has no limit and no image is there


@dataclass(frozen=True, slots=True)
class ResourceEstimate:
    """What a run will need, in bytes.

    Attributes:
        memory: Of all its processes together.
        disk: In the folder of the run: what is kept so that it can be gone on with, and results.
        spool: In the folder for temporary files: images, and what symbols look like, beyond those
            in memory.

    >>> print(ResourceEstimate(800 * MB, 300 * MB).tell())
    This needs about 0.8 GB of memory and 0.3 GB of disk.
    """

    memory: int
    disk: int
    spool: int = 0

    def tell(
        self,
        folder: Path | None = None,
        room: FreeResources | None = None,
        *,
        at_most: bool = False,
    ) -> str:
        """Return a sentence for people.

        Args:
            folder: That of the run.
            room: What is free.
            at_most: Whether it may need much less, as where percepts may come back.
        """
        memory, disk = f"{_words(self.memory)} of memory", f"{_words(self.disk)} of disk"
        if room is not None and room.memory is not None:
            memory += f" ({_words(room.memory + resident())} are free)"
        if folder is not None:
            disk += f" in {folder}"
        if self.spool >= 50 * MB:
            disk += f", and {_words(self.spool)} in {tempfile.gettempdir()} for a while"
        return f"This needs {'at most' if at_most else 'about'} {memory} and {disk}."


@dataclass(frozen=True, slots=True)
class Sight:
    """What the images of one camera are like.

    Attributes:
        shape: (height, width, channels).
        images: How many distinct ones there are.
        points: Interest points of an image.
        fresh: The share of points whose descriptor no other has.
        width: Bytes of a descriptor.
        packed: Bytes of an image in a PNG file.
    """

    shape: tuple[int, ...]
    images: int
    points: float
    fresh: float
    width: int
    packed: float

    @property
    def n_bytes(self) -> int:
        """Bytes of an image."""
        return int(np.prod(self.shape))

    @property
    def n_symbols(self) -> float:
        """How many symbols there will be: the more descriptors are known, the fewer are new.

        Views of a dozen panoramas had 45,000 symbols in 120,000 descriptors, 83,000 in 360,000.
        """
        distinct = self.images * self.points * self.fresh
        return min(distinct, 64.0 * math.pow(distinct, 0.56))


def needs_of_data(data: Interactions, learner: RLVC, trees: int = 0) -> ResourceEstimate:
    """Return what it needs to learn from interactions; some of their images are looked at.

    Args:
        data: The interactions. Their images are in memory or in a temporary file already.
        learner: Who will learn.
        trees: How many trees of a forest will be learned as well.
    """
    sense = _sense(learner, data.percepts)
    sights = [cost_of_images(sense, images, len(images)) for images in data.percepts.images]
    needs = count(sights, len(data), n_threads(learner.threads), trees)
    return replace(needs, spool=needs.spool - _beyond_memory(sights))


def needs_to_collect(
    shapes: Iterable[tuple[int, ...]],
    interactions: int,
    learner: RLVC,
    trees: int = 0,
    *,
    images: int | None = None,
    sample: Interactions | None = None,
    keeps_images: bool = False,
) -> ResourceEstimate:
    """Return what it needs to collect interactions and learn from them, if all percepts differ.

    Where what to see with is not known yet, it is what needs most. An environment that shows the
    same percepts again and again needs much less, so this is to be told, and refused only for as
    many images as there surely are.

    Args:
        shapes: Those of the images of every camera; see :func:`rlvc.data.spaces.shapes_of`.
        interactions: How many will be collected.
        learner: Who will learn.
        trees: How many trees of a forest will be learned as well.
        images: How many distinct images each camera may show, if that is known.
        sample: Some interactions to judge images by; without them, these are taken to be full of
            points that all differ.
        keeps_images: Whether images are kept in the folder of the run as well.

    >>> needs = needs_to_collect([(230, 230, 3)], 10_000, RLVC(threads=2))
    >>> needs.spool > 10_000 * 230 * 230 * 3 - IN_MEMORY
    True
    """
    n = percepts = interactions + interactions // 20 + 1  # an episode has one more than actions
    n = n if images is None else min(n, images)
    threads = n_threads(learner.threads)
    if sample is not None:
        sense = _sense(learner, sample.percepts)
        sights = [[cost_of_images(sense, some, n) for some in sample.percepts.images]]
    else:
        sights = [[_guess(sense, shape, n) for shape in shapes] for sense in _senses(learner)]
    found = [count(one, percepts, threads, trees, keeps_images=keeps_images) for one in sights]
    return ResourceEstimate(
        max(one.memory for one in found),
        max(one.disk for one in found),
        max(one.spool for one in found),
    )


def count(
    sights: Sequence[Sight],
    percepts: int,
    threads: int,
    trees: int = 0,
    *,
    keeps_images: bool = False,
) -> ResourceEstimate:
    """Return what it needs to look at images and to learn from them, item by item.

    Args:
        sights: What the images of every camera are like.
        percepts: How many percepts these make up; with several cameras there may be many more.
        threads: How many look at images, or grow trees.
        trees: How many trees of a forest will be learned.
        keeps_images: Whether images are kept in the folder of the run as well.

    >>> sight = Sight((480, 640, 3), 20_000, 120.0, 1.0, 128, 0.0)
    >>> print(count([sight], 20_000, threads=2).tell())
    This needs about ... GB of memory and ... GB of disk, and ... GB in ... for a while.
    """
    memory = disk = seen = 0.0
    for one in sights:
        points = one.images * one.points
        memory += min(one.images * one.n_bytes, IN_MEMORY // len(sights)) + one.images * IMAGE
        memory += points * (POINT + one.fresh * (one.width + ROW))
        memory += one.n_symbols * (one.width + SYMBOL)
        seen += points * NEAR * SEEN
        disk += points * (POINT + one.width) + one.images * 8
        disk += one.images * one.packed if keeps_images else 0.0
    stages = min(20 + percepts / 50, 1000)  # the paper's tasks have fewer
    several = sum(one.points for one in sights) * percepts * 8 if len(sights) > 1 else 0.0
    memory += stages * percepts * STAGE + several
    work = max((one.shape[0] * one.shape[1] for one in sights), default=0) * WORK * threads
    memory += PROGRAM + work + seen + min(trees, threads) * (WORKER + seen)
    patches = int(sum(one.n_symbols for one in sights)) * SIDE * SIDE * 3
    return ResourceEstimate(int(memory), int(disk) + RESULTS, _beyond_memory(sights) + patches)


def check(needs: ResourceEstimate, folder: Path, room: FreeResources | None = None) -> None:
    """Raise a MemoryError or an OSError if a run cannot fit, with what to do about it.

    Args:
        needs: What it needs.
        folder: Where it keeps what it does; it need not exist yet.
        room: What is free; that of this machine unless given.
    """
    room = room or FreeResources.of(folder)
    held = resident()
    if room.memory is not None and needs.memory - held > room.memory:
        raise MemoryError(
            f"This needs about {_words(needs.memory)} of memory; {_words(room.memory + held)} are "
            "free. Take fewer interactions, smaller images (--size), fewer trees (--trees), or "
            "fewer threads (--set threads=1)."
        )
    disk, spool = needs.disk, needs.spool
    if room.is_one_disk:
        disk = spool = disk + spool
    if room.disk is not None and disk > room.disk:
        raise OSError(
            errno.ENOSPC,
            f"This needs about {_words(disk)} of disk; {_words(room.disk)} are free. Take fewer "
            "interactions, smaller images (--size), or a folder on another disk (--out)",
            str(folder),
        )
    if room.spool is not None and spool > room.spool:
        raise OSError(
            errno.ENOSPC,
            f"This needs about {_words(spool)} for temporary files; {_words(room.spool)} are free. "
            "Take fewer interactions, smaller images (--size), or name a folder on another disk in "
            "TMPDIR",
            tempfile.gettempdir(),
        )


def cost_of_images(sense: ExtractorConfig, images: Images, n: int) -> Sight:
    """Return what the images of a camera are like, judged by some that are evenly spread.

    Args:
        sense: What to see them with.
        images: Those that are there, at least one.
        n: How many there will be.
    """
    extractor = sense.new_extractor()
    numbers = np.unique(np.linspace(0, len(images) - 1, SAMPLE).astype(np.int64)).tolist()
    rows = [extractor.extract_image(images[number])[1] for number in numbers]
    total = sum(map(len, rows))
    fresh = len(unique_rows(np.concatenate(rows))[0]) / total if total else 0.0
    packed = [len(cv2.imencode(".png", images[number])[1]) for number in numbers[:5]]
    width = rows[0].shape[1] * rows[0].dtype.itemsize
    shape = images.shape or (0, 0)
    return Sight(shape, n, total / len(rows), fresh, width, float(np.mean(packed)))


def _guess(sense: ExtractorConfig, shape: tuple[int, ...], n: int) -> Sight:
    """Return what the images of a camera may be like, of which none was seen yet."""
    most = getattr(sense.detector, "max_points", 0) or shape[0] * shape[1] / DENSE
    width = _WIDTHS.get(type(sense.descriptor).__name__, 512)
    return Sight(shape, n, most, 1.0, width, float(np.prod(shape)))


_WIDTHS = {"Invariants": 32, "SiftDescriptor": 128, "OrbDescriptor": 32}


def _sense(learner: RLVC, percepts: Percepts) -> ExtractorConfig:
    """Return what a learner will see percepts with."""
    one = learner.fitted(percepts)
    assert one.detector is not None
    assert one.descriptor is not None
    assert one.metric is not None
    return ExtractorConfig(detector=one.detector, descriptor=one.descriptor, metric=one.metric)


def _senses(learner: RLVC) -> list[ExtractorConfig]:
    """Return what a learner may see with: what it was given, else whatever it may choose."""
    given = {
        name: part
        for name in ("detector", "descriptor", "metric")
        if (part := getattr(learner, name)) is not None
    }
    usual = [
        one for one in CONFIGS if any(type(getattr(one, n)) is type(p) for n, p in given.items())
    ]
    return [replace(one, **given) for one in usual[:1] or (DRAWN, CAMERA)]


def _beyond_memory(sights: Sequence[Sight]) -> int:
    """Return the bytes of images that are not kept in memory."""
    room = IN_MEMORY // max(len(sights), 1)
    return sum(max(one.images * one.n_bytes - room, 0) for one in sights)


def _words(n_bytes: int) -> str:
    """Return a size for people.

    >>> _words(4 * MB), _words(812 * MB), _words(21_400 * MB)
    ('4 MB', '0.8 GB', '21 GB')
    """
    size = n_bytes / 10**9
    if size < 0.1:
        return f"{n_bytes / MB:.0f} MB"
    return f"{size:.0f} GB" if size >= 10 else f"{size:.1f} GB"
