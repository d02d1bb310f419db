"""Who does the work: the cores of this machine, or workers on many machines.

An engine looks at images, does the sums of every stage, and grows the trees of a forest. Whoever
does it, the policy is the same: what a stage needs are sums of whole numbers, and these do not
depend on who added up what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from rlvc._core.registry import Registry
from rlvc.data.percepts import Images
from rlvc.learning.database import Database, Learnable
from rlvc.vision.descriptors import ImageKeypoints
from rlvc.vision.extractor import FeatureExtractor

if TYPE_CHECKING:
    from rlvc.distributed.disk import Dataset

R = TypeVar("R")
T = TypeVar("T")


class Engine(Protocol):
    """Do the work of learning somewhere; a frozen dataclass that can be registered by name."""

    def start(self) -> None:
        """Be ready to work, or raise an error that says what is missing."""
        ...

    def extract(
        self, extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
    ) -> Iterator[ImageKeypoints]:
        """Yield what an eye sees on some images, in their order.

        Args:
            extractor: Who looks.
            images: The images of one camera.
            numbers: Which of them.
            threads: How many threads to use; 0 for all cores.
        """
        ...

    def spread(self, database: Database, threads: int) -> Learnable:
        """Return the database where its sums are done: here, or in parts elsewhere."""
        ...

    def open(self, dataset: Dataset, threads: int) -> Learnable:
        """Return a dataset of shards on disk where its sums are done."""
        ...

    def run(self, work: Callable[[T], R], pieces: Sequence[T], threads: int) -> Iterator[R]:
        """Yield ``work(piece)`` for every piece, in order: for pieces that take seconds each."""
        ...


engines: Registry[Engine] = Registry("engine")
engines.register("ray", "rlvc.distributed.ray:Ray")
