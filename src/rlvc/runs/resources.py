"""A rough estimate of the memory and disk that a run needs, to refuse what surely cannot fit."""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from gymnasium import spaces

from rlvc._core.jit import n_threads
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import IN_MEMORY
from rlvc.data.spaces import shapes_of
from rlvc.learning.rlvc import RLVC
from rlvc.vision.extractor import SIDE
from rlvc.vision.keypoints import unique_rows

MB: Final = 10**6
PROGRAM: Final = 430 * MB  # rlvc, its libraries and its compiled kernels
RESULTS: Final = 20 * MB  # policies, figures and tables of a finished run
PIXEL: Final = 400  # bytes for each pixel of an image while a thread extracts its keypoints
POINT: Final = 600  # bytes of an interest point, its descriptor and what is learned from it
SAMPLE: Final = 50  # images to estimate from
DENSE: Final = 300  # pixels for each interest point, if no image is known


def usable_memory(root: Path = Path("/")) -> int:
    """Return the memory that this process may use in total, within all limits on it.

    Control groups limit containers and jobs; their usage includes cached files that can be freed.

    Args:
        root: The folder that contains ``proc`` and ``sys``.
    """
    free = [psutil.virtual_memory().available]
    if sys.platform == "linux" and (limit := psutil.Process().rlimit(psutil.RLIMIT_AS)[0]) >= 0:
        free.append(limit - psutil.Process().memory_info().vms)
    groups = root / "proc/self/cgroup"
    lines = groups.read_text().splitlines() if groups.exists() else []
    group = next((line[3:] for line in lines if line.startswith("0::")), "")
    path = root / "sys/fs/cgroup" / group.strip("/")
    for one in (path, *path.parents):
        try:
            limit, used = (int((one / f"memory.{name}").read_text()) for name in ("max", "current"))
            stat = dict(line.split() for line in (one / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # without a limit, it reads "max"
            continue
        free.append(limit - used + int(stat.get("inactive_file", 0)))
    return int(max(0, min(free)) + psutil.Process().memory_info().rss)


@dataclass(frozen=True, slots=True)
class ResourceEstimate:
    """What a run needs, in bytes.

    Attributes:
        memory: Memory of all its processes together.
        disk: Disk in the folder of the run, for checkpoints and results.
        temporary: Disk in the folder for temporary files, for images and patches of symbols.

    >>> print(ResourceEstimate(800 * MB, 300 * MB).describe())
    This needs about 0.8 GB of memory and 0.3 GB of disk.
    """

    memory: int
    disk: int
    temporary: int = 0

    def describe(self, folder: Path | None = None, *, at_most: bool = False) -> str:
        """Return a sentence on it; with ``at_most``, the run may need much less."""
        memory, disk = f"{_size(self.memory)} of memory", f"{_size(self.disk)} of disk"
        if folder is not None:
            memory += f" ({_size(usable_memory())} are free)"
            disk += f" in {folder}"
        if self.temporary >= 50 * MB:
            disk += f", and {_size(self.temporary)} in {tempfile.gettempdir()} for a while"
        return f"This needs {'at most' if at_most else 'about'} {memory} and {disk}."

    def check(self, folder: Path) -> None:
        """Raise a MemoryError or an OSError that says what to do, if a run cannot fit."""
        if self.memory > (free := usable_memory()):
            raise MemoryError(
                f"This needs about {_size(self.memory)} of memory; {_size(free)} are free. Take "
                "fewer interactions, smaller images (--size), fewer trees (--trees), or fewer "
                "threads (--set threads=1)."
            )
        other = Path(tempfile.gettempdir())
        is_one_disk = folder.stat().st_dev == other.stat().st_dev
        disk = self.disk + self.temporary * is_one_disk
        elsewhere = "name a folder on another disk in TMPDIR"
        for place, need, what, cure in (
            (folder, disk, "of disk", "a folder on another disk (--out)"),
            (other, self.temporary, "for temporary files", elsewhere),
        ):
            if need > (free := shutil.disk_usage(place).free):
                raise OSError(
                    f"This needs about {_size(need)} {what}; {_size(free)} are free. Take fewer "
                    f"interactions, smaller images (--size), or {cure}: {place}."
                )


@dataclass(frozen=True, slots=True)
class CameraStatistics:
    """What the images of one camera are like.

    Attributes:
        shape: (height, width, channels).
        images: How many distinct images there are.
        points: Interest points per image.
        unique: Distinct descriptors per point, at most 1.
    """

    shape: tuple[int, ...]
    images: int
    points: float
    unique: float = 1.0


def estimate_learning(data: Interactions, learner: RLVC, trees: int = 0) -> ResourceEstimate:
    """Return what learning from interactions needs, estimated from a sample of their images.

    Args:
        data: The interactions; their images are in memory or in a temporary file already.
        learner: The learner.
        trees: How many trees to grow as well.
    """
    cameras, threads = _sample(learner, data), n_threads(learner.threads)
    return estimate_resources(cameras, threads, trees, has_images=True)


def estimate_collection(
    space: spaces.Space[Any],
    interactions: int,
    learner: RLVC,
    trees: int = 0,
    *,
    images: int | None = None,
    sample: Interactions | None = None,
    keeps_images: bool = False,
) -> ResourceEstimate:
    """Return what collecting interactions and learning from them needs, if all percepts differ.

    Args:
        space: The observation space of the environment.
        interactions: How many will be collected.
        learner: The learner.
        trees: How many trees to grow as well.
        images: The most distinct images that each camera can show, if known.
        sample: Interactions with typical images; without them, images are assumed to be full of
            points that all differ.
        keeps_images: Whether images are saved in the folder of the run.

    >>> space = spaces.Box(0, 255, (230, 230, 3), np.uint8)
    >>> needs = estimate_collection(space, 10_000, RLVC(threads=2))
    >>> needs.temporary > 10_000 * 230 * 230 * 3 - IN_MEMORY
    True
    """
    n = interactions + interactions // 20 + 1  # an episode has one percept more than actions
    n = n if images is None else min(n, images)
    if sample is not None:
        cameras = [replace(one, images=n) for one in _sample(learner, sample)]
    else:
        most, shapes = getattr(learner.detector, "max_points", 0), shapes_of(space).values()
        cameras = [CameraStatistics(s, n, most or s[0] * s[1] / DENSE) for s in shapes]
    return estimate_resources(cameras, n_threads(learner.threads), trees, keeps_images=keeps_images)


def estimate_resources(
    cameras: Sequence[CameraStatistics],
    threads: int,
    trees: int = 0,
    *,
    keeps_images: bool = False,
    has_images: bool = False,
) -> ResourceEstimate:
    """Return what extracting keypoints and learning from them needs.

    Images may be saved in the folder of the run, or be in memory and temporary files already.

    >>> camera = CameraStatistics((480, 640, 3), images=20_000, points=120.0)
    >>> print(estimate_resources([camera], threads=2).describe())
    This needs about ... GB of memory and ... GB of disk, and ... GB in ... for a while.
    """
    images = [one.images * math.prod(one.shape) for one in cameras]
    in_memory = sum(min(size, IN_MEMORY // len(cameras)) for size in images)
    points = sum(one.images * one.points for one in cameras)
    unique = sum(one.images * one.points * one.unique for one in cameras)
    symbols = min(unique, 64.0 * unique**0.56)  # the more are known, the fewer are new
    pixels = max((one.shape[0] * one.shape[1] for one in cameras), default=0)
    learned = POINT * (points + unique) / 2 * (1 + min(trees, threads) / 3)
    disk = points * POINT / 4 + sum(images) * keeps_images / 2  # as PNG
    temporary = symbols * SIDE * SIDE * 3 + (sum(images) - in_memory) * (not has_images)
    return ResourceEstimate(
        memory=int(PROGRAM + PIXEL * pixels * threads + learned + in_memory),
        disk=int(disk) + RESULTS,
        temporary=int(temporary),
    )


def _sample(learner: RLVC, data: Interactions) -> list[CameraStatistics]:
    """Return what the images of each camera are like, estimated from an evenly spaced sample."""
    extractor, cameras = learner.new_extractor(data.percepts), []
    for images in data.percepts.images:
        numbers = np.unique(np.linspace(0, len(images) - 1, SAMPLE).astype(np.int64)).tolist()
        rows = [extractor.extract_image(images[number])[1] for number in numbers]
        total = sum(map(len, rows))
        unique = len(unique_rows(np.concatenate(rows))[0]) / total if total else 0.0
        found = CameraStatistics(images.shape or (0, 0), len(images), total / len(rows), unique)
        cameras.append(found)
    return cameras


def _size(n_bytes: int) -> str:
    """Format a number of bytes.

    >>> _size(4 * MB), _size(812 * MB), _size(21_400 * MB)
    ('4 MB', '0.8 GB', '21 GB')
    """
    size = n_bytes / 10**9
    if size < 0.1:
        return f"{n_bytes / MB:.0f} MB"
    return f"{size:.0f} GB" if size >= 10 else f"{size:.1f} GB"
