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
from rlvc.distributed.disk import Dataset
from rlvc.distributed.disk.format import FILE
from rlvc.distributed.disk.tables import describe_file
from rlvc.distributed.workers import (
    LOSSES,
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

BATCH: Final = 2**22  # bytes of images that are sent at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Ray(Checked):
    """Do the work on a Ray cluster, or in processes of this machine that Ray keeps.

    The policy is that of the local engine, byte for byte.
    """

    address: str = param(
        "", "of a cluster, or auto for the one on this machine; if empty, one is started here"
    )
    workers: int = param(0, "how many workers; 0 for one for each core of the cluster", low=0)
    shards: int = param(0, "how many parts; 0 for as many as there are workers", low=0)

    def start(self) -> Any:
        """Connect to the cluster, or start one here; return the module of Ray."""
        ray = import_ray()
        here = connection()
        if self.address not in ("", "auto", addresses.get(here, self.address)):
            raise ConnectionError(
                f"This process works with another Ray cluster than {self.address} already. End "
                "that first, with ray.shutdown()."
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
        """Yield the keypoints of some images, in their order; workers extract them."""
        fresh = FeatureExtractor(
            extractor.detector, extractor.descriptor, extractor.metric, extractor.threshold
        )
        size = max(1, min(64, BATCH // math.prod(images.shape or ())))
        batches = (images.subset(numbers[i : i + size]) for i in range(0, len(numbers), size))
        for batch in self.run(partial(_extract, fresh), batches, threads):
            yield from batch

    def distribute(self, database: Database, threads: int) -> Database:
        """Return a database of this process in shards, which workers hold.

        Each worker uses so many threads; 0 for one.
        """
        self.start()
        whole, episode = database.client.gather(), database.interactions.episode
        shards = min(self.shards or self.n_workers, 1 + int(np.count_nonzero(np.diff(episode))))
        sources, workers = map(store_shard, whole.split(shards)), min(self.n_workers, shards)
        client = RayShards(sources, workers, threads, database.client.n_base, lambda: whole)
        return replace(database, client=client)

    def open(self, dataset: Dataset, threads: int) -> Database:
        """Return a dataset of shards on disk, which workers read for themselves.

        All machines have it under the same name. Each worker uses so many threads; 0 for one.
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
        """Yield ``work(piece)`` for every piece, in order; workers get the work once.

        A few more pieces than there are workers are on their way.
        """
        ray = self.start()
        shared = ray.put(work)
        call = ray.remote(_call).options(max_retries=LOSSES)
        asked = (call.remote(shared, piece) for piece in pieces)
        return results_in_order(asked, 2 * self.n_workers, fetch, partial(ray.cancel, force=True))

    @property
    def n_workers(self) -> int:
        """How many workers there are."""
        return self.workers or max(1, int(self.start().cluster_resources().get("CPU", 1)))


def _extract(extractor: FeatureExtractor, images: Images | list[Image]) -> list[ImageKeypoints]:
    """Return the keypoints of some images, in a worker."""
    return [extractor.extract_image(images[i]) for i in range(len(images))]


def _call(work: Callable[[T], R], piece: T) -> R:
    cv2.setNumThreads(1)  # there is a worker for every core
    return work(piece)
