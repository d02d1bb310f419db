"""All cores of this machine: threads over compiled kernels, forked processes for trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rlvc._core.parallel import run_processes
from rlvc.data.percepts import Images
from rlvc.learning.database import Database
from rlvc.learning.engine import engines
from rlvc.vision.descriptors import ImageKeypoints
from rlvc.vision.extractor import FeatureExtractor, extract_in_threads

if TYPE_CHECKING:
    from rlvc.distributed.disk import Dataset

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """Do all work in the memory of this machine, with as many threads as the learner may use."""

    def start(self) -> None:
        """Be there: all is ready."""

    def extract(
        self, extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
    ) -> Iterator[ImageKeypoints]:
        """Yield what an eye sees on some images, in their order."""
        return extract_in_threads(extractor, images, numbers, threads)

    def spread(self, database: Database, threads: int) -> Database:
        """Return the database as it is."""
        return database

    def open(self, dataset: Dataset, threads: int) -> Database:
        """Return a dataset of shards, read into memory."""
        return dataset.database()

    def run(self, work: Callable[[T], R], pieces: Sequence[T], threads: int) -> Iterator[R]:
        """Yield ``work(piece)`` for every piece, in order."""
        return run_processes(work, pieces, threads)


engines.register("local", Local)
