"""Execution backends: the cores of this machine, or workers on many machines.

An engine extracts keypoints from images, holds the shards that compute the sums of every stage, and
grows the trees of a forest. All engines learn the same policy: a stage needs sums of integers only,
which do not depend on how they are distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from rlvc._core.parallel import run_processes
from rlvc._core.registry import Registry
from rlvc.data.percepts import Images
from rlvc.learning.database import Database
from rlvc.vision.descriptors import ImageKeypoints
from rlvc.vision.extractor import FeatureExtractor, extract_in_threads

if TYPE_CHECKING:
    from rlvc.distributed.disk.dataset import Dataset

R = TypeVar("R")
T = TypeVar("T")


class Engine(Protocol):
    """An execution backend: a frozen dataclass that can be registered by name."""

    def start(self) -> None:
        """Get ready to work, or raise an error that says what is missing."""
        ...

    def extract(
        self, extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
    ) -> Iterator[ImageKeypoints]:
        """Yield the keypoints of some images, in their order.

        Args:
            extractor: The extractor.
            images: The images of one camera.
            numbers: Which of them.
            threads: How many threads to use; 0 for all cores.
        """
        ...

    def distribute(self, database: Database, threads: int) -> Database:
        """Return a database in memory with its shards where their sums are computed."""
        ...

    def open(self, dataset: Dataset, threads: int) -> Database:
        """Return a dataset of shards on disk as a database."""
        ...

    def run(self, work: Callable[[T], R], pieces: Sequence[T], threads: int) -> Iterator[R]:
        """Yield ``work(piece)`` for every piece, in order: for pieces that take seconds each."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """Do all work on this machine, with as many threads as the learner may use.

    Threads run compiled kernels; the trees of a forest grow in forked processes.

    >>> list(Local().run(abs, [-1, 2], threads=1))
    [1, 2]
    """

    def start(self) -> None:
        """Do nothing: this backend is always ready."""

    def extract(
        self, extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
    ) -> Iterator[ImageKeypoints]:
        """Yield the keypoints of some images, in their order."""
        return extract_in_threads(extractor, images, numbers, threads)

    def distribute(self, database: Database, threads: int) -> Database:
        """Return the database as it is: one shard in this process."""
        return database

    def open(self, dataset: Dataset, threads: int) -> Database:
        """Return a dataset of shards, read into memory."""
        return dataset.database()

    def run(self, work: Callable[[T], R], pieces: Sequence[T], threads: int) -> Iterator[R]:
        """Yield ``work(piece)`` for every piece, in order."""
        return run_processes(work, pieces, threads)


engines: Registry[Engine] = Registry("engine")
engines.register("local", Local)
engines.register("ray", "rlvc.distributed.ray:Ray")
