"""The Ray execution backend: workers extract keypoints, hold shards and grow trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import cv2
import numpy as np

from rlvc._core.jit import n_threads, results_in_order
from rlvc._core.params import Checked, param
from rlvc.data.images import Image
from rlvc.data.percepts import Images
from rlvc.distributed.disk.dataset import Dataset
from rlvc.distributed.disk.format import FILE
from rlvc.distributed.disk.tables import describe_file
from rlvc.distributed.partition import split
from rlvc.distributed.workers import (
    MAX_LOSSES,
    RayShards,
    addresses,
    check_address,
    connection,
    fetch,
    import_ray,
    load_shard,
    store_shard,
)
from rlvc.features.graph import FeatureGraph
from rlvc.learning.database import Database
from rlvc.vision.descriptors import ImageKeypoints
from rlvc.vision.extractor import FeatureExtractor

R = TypeVar("R")
T = TypeVar("T")

BATCH: Final = 2**22  # bytes of images that are sent to a worker at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Ray(Checked):
    """Do the work on a Ray cluster, or in processes that Ray starts on this machine.

    The policy is that of the local engine, byte for byte.
    """

    address: str = param(
        "", "of a cluster, or auto for the one on this machine; if empty, one is started here"
    )
    workers: int = param(0, "number of workers; 0 for one per core of the cluster", low=0)
    shards: int = param(0, "number of shards; 0 for one per worker", low=0)

    def start(self) -> Any:
        """Connect to the cluster, or start one here, and return the module of Ray."""
        ray = import_ray()
        connected_to = addresses.get(connection(), self.address)
        if self.address not in ("", "auto", connected_to):
            raise ConnectionError(
                f"This process is connected to another Ray cluster than {self.address}. "
                "Disconnect it first, with ray.shutdown()."
            )
        if not ray.is_initialized():
            quiet = {"log_to_driver": False, "logging_level": "ERROR"}
            if self.address:
                try:
                    check_address(self.address)
                    ray.init(address=self.address, **quiet)
                except (OSError, RuntimeError, ValueError) as error:
                    raise ConnectionError(
                        f"No Ray cluster answers at {self.address} ({error}). Start one there with "
                        "`ray start --head`; if it asks for a token, set RAY_AUTH_MODE=token here."
                    ) from error
            else:
                n_cpus = self.workers or n_threads(0)
                ray.init("local", num_cpus=n_cpus, include_dashboard=False, **quiet)
            addresses[connection()] = self.address
        return ray

    def extract(
        self, extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
    ) -> Iterator[ImageKeypoints]:
        """Yield the keypoints of some images, in order; workers extract them."""
        fresh = FeatureExtractor(
            extractor.detector, extractor.descriptor, extractor.metric, extractor.threshold
        )
        size = max(1, min(64, BATCH // math.prod(images.shape or (1,))))
        batches = (images.subset(numbers[i : i + size]) for i in range(0, len(numbers), size))
        for batch in self.run(partial(_extract, fresh), batches, threads):
            yield from batch

    def distribute(self, database: Database, threads: int) -> Database:
        """Return a database of this process in shards that workers hold.

        Each worker uses ``threads`` threads; 0 for one.
        """
        self.start()
        whole = database.client.gather()
        n_episodes = 1 + int(np.count_nonzero(np.diff(database.interactions.episode)))
        n_shards = min(self.shards or self.n_workers, n_episodes)
        sources, n_workers = map(store_shard, split(whole, n_shards)), min(self.n_workers, n_shards)
        client = RayShards(sources, n_workers, threads, database.client.n_base, lambda: whole)
        return replace(database, client=client)

    def open(self, dataset: Dataset, threads: int) -> Database:
        """Return a dataset on disk as a database, of which each worker reads its own shards.

        Its path must be the same on all machines. Each worker uses ``threads`` threads; 0 for one.
        """
        self.start()
        extractor, interactions = dataset.extractor(), dataset.interactions()
        graph, n_shards = FeatureGraph().add_symbols(extractor), len(dataset.info.shards)
        folder, stamp = str(dataset.folder.resolve()), describe_file(dataset.folder / FILE)
        sources = [partial(load_shard, folder, number, stamp) for number in range(n_shards)]
        client = RayShards(
            sources, min(self.n_workers, n_shards), threads, len(graph),
            lambda: dataset.database().client.gather(),
        )  # fmt: skip
        return Database(interactions, extractor, graph, client)

    def run(self, work: Callable[[T], R], pieces: Iterable[T], threads: int) -> Iterator[R]:
        """Yield ``work(piece)`` for every piece, in order.

        The work is sent once; at most two pieces per worker are sent ahead.
        """
        ray = self.start()
        shared = ray.put(work)
        call = ray.remote(_call).options(max_retries=MAX_LOSSES)
        asked = (call.remote(shared, piece) for piece in pieces)
        return results_in_order(asked, 2 * self.n_workers, fetch, partial(ray.cancel, force=True))

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        return self.workers or max(1, int(self.start().cluster_resources().get("CPU", 1)))


def _extract(extractor: FeatureExtractor, images: Images | list[Image]) -> list[ImageKeypoints]:
    """Return the keypoints of some images."""
    return list(map(extractor.extract_image, images))


def _call(work: Callable[[T], R], piece: T) -> R:
    cv2.setNumThreads(1)  # there is a worker for every core
    return work(piece)
