"""Workers on many machines, by Ray: they hold parts of the database, and hand back sums.

A worker that is lost is replaced. The new one reads the same shards and is asked the same question
again, so that nothing changes but the time that it takes.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import cv2
import numpy as np

from rlvc._core.jit import n_threads
from rlvc._core.params import check, param
from rlvc.data.percepts import Images, ImageSequence
from rlvc.distributed.disk import Dataset, read_about, read_shard, write_shards
from rlvc.distributed.disk.format import FILE
from rlvc.errors import DamagedFileError
from rlvc.features.graph import FeatureGraph
from rlvc.learning.database import Database
from rlvc.learning.shard import Facts, Part
from rlvc.learning.spread import Spread
from rlvc.vision.descriptors import ImageKeypoints
from rlvc.vision.extractor import FeatureExtractor

R = TypeVar("R")
T = TypeVar("T")

BATCH: Final = 2**22  # bytes of images that are sent at a time
LOSSES: Final = 100  # times that a worker may be lost before it is given up
PATIENCE: Final = 5.0  # seconds until a cluster must answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Ray:
    """Do the work on a Ray cluster, or in processes of this machine that Ray keeps.

    The policy is that of the local engine, byte for byte.
    """

    address: str = param(
        "", "of a cluster, or auto for the one on this machine; if empty, one is started here"
    )
    workers: int = param(0, "how many workers; 0 for one for each core of the cluster", low=0)
    shards: int = param(0, "how many parts; 0 for as many as there are workers", low=0)
    folder: str = param(
        "", "where shards are written for the workers: on several machines, one that all of them "
        "have under this name; if empty, a temporary one",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check(self)

    def start(self) -> None:
        """Connect to the cluster, or start one here."""
        if self.folder and not Path(self.folder).is_dir():
            raise FileNotFoundError(
                f"folder of Ray must be there; got {self.folder}. Make it where all workers see it."
            )
        self._connect()

    def extract(
        self, extractor: FeatureExtractor, images: Images, numbers: Sequence[int], threads: int
    ) -> Iterator[ImageKeypoints]:
        """Yield what an eye sees on some images, in their order; workers look."""
        ray = self._connect()
        fresh = ray.put(
            FeatureExtractor(
                extractor.detector, extractor.descriptor, extractor.metric, extractor.threshold
            )
        )
        look = ray.remote(_look).options(max_retries=LOSSES)
        size = 1
        if images.shape is not None:
            height, width, channels = images.shape
            size = max(1, min(64, BATCH // (height * width * channels)))
        batches = (numbers[i : i + size] for i in range(0, len(numbers), size))
        asked = (look.remote(fresh, images.subset(batch)) for batch in batches)
        for batch in self._in_order(asked):
            yield from batch

    def spread(self, database: Database, threads: int) -> Spread:
        """Return the database in parts, which workers hold.

        Args:
            database: What to spread.
            threads: How many threads each worker uses; 0 for one.
        """
        self.start()
        interactions = database.interactions
        symbols = FeatureGraph().add_symbols(database.extractor).features
        if database.graph.features[: len(symbols)] != symbols:
            raise ValueError(
                "The first features of a database must be its symbols for it to be spread over "
                "workers. Look at the interactions anew: RLVC().extract(interactions)."
            )
        place = str(Path(self.folder).resolve()) if self.folder else None
        folder = tempfile.mkdtemp(prefix="rlvc-shards-", dir=place)
        n_episodes = 1 + int(np.count_nonzero(np.diff(interactions.episode)))
        shards = min(self.shards or self.n_workers, n_episodes)
        try:
            write_shards(database, folder, shards)
            team = RayTeam(folder, shards, min(self.n_workers, shards), threads or 1)
        except BaseException:
            _remove(folder)
            raise
        weakref.finalize(team, _remove, folder)
        return Spread(
            interactions, database.extractor, database.graph, team, len(symbols), lambda: database
        )

    def open(self, dataset: Dataset, threads: int) -> Spread:
        """Return a dataset of shards on disk, which workers read for themselves.

        Args:
            dataset: One that all machines have under the same name.
            threads: How many threads each worker uses; 0 for one.
        """
        self._connect()
        extractor, interactions = dataset.extractor(), dataset.interactions()
        graph, shards = FeatureGraph().add_symbols(extractor), len(dataset.about.shards)
        workers = min(self.n_workers, shards)
        team = RayTeam(str(dataset.folder.resolve()), shards, workers, threads or 1)
        return Spread(interactions, extractor, graph, team, len(graph), dataset.database)

    def run(self, work: Callable[[T], R], pieces: Sequence[T], threads: int) -> Iterator[R]:
        """Yield ``work(piece)`` for every piece, in order; workers get the work once."""
        ray = self._connect()
        shared = ray.put(work)
        call = ray.remote(_call).options(max_retries=LOSSES)
        return self._in_order(call.remote(shared, piece) for piece in pieces)

    @property
    def n_workers(self) -> int:
        """How many workers there are."""
        return self.workers or max(1, int(self._connect().cluster_resources().get("CPU", 1)))

    def _in_order(self, asked: Iterable[Any]) -> Iterator[Any]:
        """Yield results in order, with a few more on their way than there are workers."""
        room = 2 * self.n_workers
        waiting: deque[Any] = deque()
        try:
            for one in asked:
                waiting.append(one)
                if len(waiting) >= room:
                    yield fetch(waiting.popleft())
            while waiting:
                yield fetch(waiting.popleft())
        finally:
            for one in waiting:
                import_ray().cancel(one, force=True)

    def _connect(self) -> Any:
        """Return Ray, connected to the cluster or started here."""
        ray = import_ray()
        here = connection()
        if self.address not in ("", "auto", _reached.get(here, self.address)):
            raise ConnectionError(
                f"This process works with another Ray cluster than {self.address} already. End "
                "that first, with ray.shutdown()."
            )
        if not ray.is_initialized():
            quiet = {"log_to_driver": False, "logging_level": "ERROR"}
            if self.address:
                try:
                    knock(self.address)
                    ray.init(address=self.address, **quiet)
                except (OSError, RuntimeError, ValueError) as error:
                    raise ConnectionError(
                        f"No Ray cluster answers at {self.address} ({error}). Start one there with "
                        "`ray start --head`; if it asks for a token, set RAY_AUTH_MODE=token here."
                    ) from error
            else:
                n_cpus = self.workers or n_threads(0)
                ray.init("local", num_cpus=n_cpus, include_dashboard=False, **quiet)
            _reached[connection()] = self.address
        return ray


class RayTeam:
    """Workers that hold the parts of a database.

    Args:
        folder: Where the shards are.
        shards: How many there are.
        workers: How many workers share them.
        threads: How many threads each worker uses.
    """

    def __init__(self, folder: str, shards: int, workers: int, threads: int) -> None:
        self._workers, self._connection = hire(workers), connection()
        self._theirs = [list(range(shards))[i::workers] for i in range(workers)]
        self._about = folder, stamp_of(folder), threads
        self._shards = shards
        weakref.finalize(self, _dismiss, self._workers, self._connection, folder)

    def ask(self, question: str, *more: Any) -> list[Any]:
        """Return what each part answers, in the order of the parts."""
        ray = import_ray()
        if connection() != self._connection:
            raise ConnectionError(
                "The workers that hold this database are gone, as Ray was shut down. Learn from "
                "the interactions or from the dataset again."
            )
        told = ray.put(more)
        asked = [
            worker.answer.remote(*self._about, numbers, question, told)
            for worker, numbers in zip(self._workers, self._theirs, strict=True)
        ]
        answers: list[Any] = [None] * self._shards
        for numbers, found in zip(self._theirs, fetch(asked), strict=True):
            for number, answer in zip(numbers, found, strict=True):
                answers[number] = answer
        return answers


class Worker:
    """A process that holds parts of databases; they are read when they are first asked."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, int], Facts] = {}
        self._parts: dict[tuple[str, int, int], Part] = {}

    def answer(
        self,
        folder: str,
        stamp: int,
        threads: int,
        numbers: list[int],
        question: str,
        more: tuple[Any, ...],
    ) -> list[Any]:
        """Return what some parts answer, given where their shards are."""
        parts = [self._part(folder, stamp, number, threads) for number in numbers]
        return [getattr(part, question)(*more) for part in parts]

    def _part(self, folder: str, stamp: int, number: int, threads: int) -> Part:
        name = folder, stamp, number
        if name not in self._parts:
            self._check(folder, stamp)
            about = read_about(folder)
            facts = self._facts.setdefault((folder, stamp), Facts.of(about))
            data = read_shard(folder, number, about)
            self._parts[name] = Part(data, facts, threads)
        return self._parts[name]

    def _check(self, folder: str, stamp: int) -> None:
        """Raise an error unless a folder has the shards that are asked about."""
        try:
            found = stamp_of(folder)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"A worker finds no shards in {folder}. All machines must have them under this "
                "name: choose a shared folder with engine.folder, or for the dataset."
            ) from error
        if found != stamp:
            raise DamagedFileError(
                f"{folder} was written anew since it was opened. Start learning again."
            )

    def forget(self, folder: str) -> None:
        """Forget the parts of a database that nobody needs any more."""
        self._facts = {name: one for name, one in self._facts.items() if name[0] != folder}
        self._parts = {name: one for name, one in self._parts.items() if name[0] != folder}


Connection = tuple[str, str]  # a node of a cluster, and this process as it knows it
_reached: dict[Connection | None, str] = {}  # by which address
_hired: dict[Connection, list[Any]] = {}  # starting a process takes longer than a stage


def connection() -> Connection | None:
    """Return what tells a connection to a cluster from one before; None if there is none."""
    ray = import_ray()
    if not ray.is_initialized():
        return None
    here = ray.get_runtime_context()
    return here.get_node_id(), here.get_job_id()


def stamp_of(folder: str) -> int:
    """Return what tells a dataset from another one in the same folder."""
    return zlib.crc32((Path(folder) / FILE).read_bytes())


def hire(n: int) -> list[Any]:
    """Return so many workers: those that are there, and new ones if they are too few."""
    ray, here = import_ray(), connection()
    assert here is not None  # an engine connects before it hires
    known = _hired.setdefault(here, [])
    make = ray.remote(Worker).options(
        max_restarts=LOSSES, max_task_retries=LOSSES, scheduling_strategy="SPREAD"
    )
    known += [make.remote() for _ in range(n - len(known))]
    return known[:n]


def _dismiss(workers: list[Any], whose: Connection | None, folder: str) -> None:
    """Let workers forget a database, if they are still there."""
    if connection() == whose:
        for worker in workers:
            worker.forget.remote(folder)


def import_ray() -> Any:
    """Return Ray, or say how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told that it is used
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first of them is told
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "The engine ray needs Ray. Install it with: pip install 'rlvc[ray]'"
        ) from error
    return ray


def knock(address: str) -> None:
    """Raise an OSError if nobody listens at an address; Ray itself would wait for very long."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), PATIENCE).close()


def fetch(asked: Any) -> Any:
    """Return results, once they are there; what went wrong elsewhere went wrong here."""
    ray = import_ray()
    try:
        return ray.get(asked)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayActorError):
            _hired.clear()  # who was lost for good does not come back; hire others next time
        raise OSError(
            f"Ray could not finish the work: {error} If workers run out of memory, use more "
            "machines, or fewer workers on each: engine.workers says how many."
        ) from error


def _look(extractor: FeatureExtractor, images: ImageSequence) -> list[ImageKeypoints]:
    """Return what an eye sees on some images, in a worker."""
    cv2.setNumThreads(1)  # there is a worker for every core
    return [extractor.extract_image(images[i]) for i in range(len(images))]


def _call(work: Callable[[T], R], piece: T) -> R:
    cv2.setNumThreads(1)
    return work(piece)


def _remove(folder: str) -> None:
    """Remove a folder of shards, if it is still there."""
    shutil.rmtree(Path(folder), ignore_errors=True)
