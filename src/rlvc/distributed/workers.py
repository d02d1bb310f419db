"""Ray workers that hold the shards of databases.

A worker that is lost is replaced. The new one gets the same shards from Ray's object store, or from
their files, and is asked the same question again, so that nothing changes but the time it takes.
"""

from __future__ import annotations

import itertools
import os
import pickle
import socket
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from rlvc.distributed.disk.format import FILE, FileInfo
from rlvc.distributed.disk.read import read_shard
from rlvc.distributed.disk.tables import describe_file
from rlvc.errors import DamagedFileError
from rlvc.learning.shard import Shard

P = ParamSpec("P")
R = TypeVar("R")

LOSSES: Final = 100  # times that a worker may be lost before it is given up
PATIENCE: Final = 5.0  # seconds until a cluster must answer

_NAMES = itertools.count()  # of databases, so that workers can tell one from another

ShardSource = Callable[[], Shard]  # gets a shard, as often as a worker needs it


def store_shard(shard: Shard) -> ShardSource:
    """Put a shard into Ray's object store, which outlives the worker that uses it.

    It is pickled: arrays that Ray shares are read-only, for which kernels would be compiled again.
    """
    return partial(_get_shard, import_ray().put(pickle.dumps(shard, pickle.HIGHEST_PROTOCOL)))


def _get_shard(reference: Any) -> Shard:
    shard: Shard = pickle.loads(import_ray().get(reference))  # noqa: S301 - our own
    return shard


def load_shard(folder: str, number: int, stamp: FileInfo) -> Shard:
    """Return a shard of a dataset on disk, or raise an error unless the dataset is there.

    All machines have the folder under the same name. The stamp is that of ``dataset.json``, which
    tells the dataset from another one in the same folder.
    """
    try:
        found = describe_file(Path(folder) / FILE)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"A worker finds no shards in {folder}. All machines must have them under this name: "
            "move the dataset to a shared folder."
        ) from error
    if found != stamp:
        raise DamagedFileError(
            f"{folder} was written anew since it was opened. Start learning again."
        )
    data = read_shard(folder, number)
    return Shard(data.interactions, data.index, data.numbers)


class Worker:
    """A process that holds shards of databases; it loads them when they are first asked."""

    def __init__(self) -> None:
        self._shards: defaultdict[int, dict[int, Shard]] = defaultdict(dict)  # of each database

    def answer(
        self,
        database: int,
        sources: dict[int, ShardSource],
        threads: int,
        question: str,
        asked: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> list[Any]:
        """Return what some shards of a database answer."""
        args, kwargs = asked
        shards = self._shards[database]
        for number, source in sources.items():
            if number not in shards:
                shards[number] = source()
                shards[number].threads = threads
        return [getattr(shards[number], question)(*args, **kwargs) for number in sources]

    def forget(self, database: int) -> None:
        """Forget the shards of a database that is no longer used."""
        self._shards.pop(database, None)


class RayShards:
    """Asks the shards of a database, which workers hold.

    Args:
        sources: Where a worker gets each shard from.
        workers: How many workers share them.
        threads: How many threads each worker uses; 0 for one.
        n_base: How many features every shard has from the start.
        gather: Brings all of them into this process.
    """

    shard = None  # none that has everything is in this process

    def __init__(
        self,
        sources: Iterable[ShardSource],
        workers: int,
        threads: int,
        n_base: int,
        gather: Callable[[], Shard],
    ) -> None:
        self._workers, self._connection = get_workers(workers), connection()
        numbered = list(enumerate(sources))
        self._sources = [dict(numbered[i::workers]) for i in range(workers)]
        self._name, self._threads = next(_NAMES), threads or 1
        self.n_base, self.gather = n_base, gather
        weakref.finalize(self, _release, self._workers, self._connection, self._name)

    def ask(
        self, question: Callable[Concatenate[Shard, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> list[R]:
        """Return what each shard answers, in the order of the shards."""
        ray = import_ray()
        if connection() != self._connection:
            raise ConnectionError(
                "The workers that hold this database are gone, as Ray was shut down. Learn from "
                "the interactions or from the dataset again."
            )
        asked = ray.put((args, kwargs))
        waiting = [
            worker.answer.remote(self._name, sources, self._threads, question.__name__, asked)
            for worker, sources in zip(self._workers, self._sources, strict=True)
        ]
        answers: dict[int, R] = {}
        for sources, found in zip(self._sources, fetch(waiting), strict=True):
            answers |= zip(sources, found, strict=True)
        return [answers[number] for number in sorted(answers)]


Connection = tuple[str, str]  # a node of a cluster, and this process as it knows it
addresses: dict[Connection | None, str] = {}  # of the clusters
_workers: dict[Connection, list[Any]] = {}  # kept, as starting a process takes longer than a stage


def connection() -> Connection | None:
    """Return what tells a connection to a cluster from one before; None if there is none."""
    ray = import_ray()
    if not ray.is_initialized():
        return None
    here = ray.get_runtime_context()
    return here.get_node_id(), here.get_job_id()


def get_workers(n: int) -> list[Any]:
    """Return ``n`` workers; those that do not exist yet are started."""
    ray, here = import_ray(), connection()
    assert here is not None  # an engine connects before it asks for workers
    known = _workers.setdefault(here, [])
    make = ray.remote(Worker).options(
        max_restarts=LOSSES, max_task_retries=LOSSES, scheduling_strategy="SPREAD"
    )
    known += [make.remote() for _ in range(n - len(known))]
    return known[:n]


def _release(workers: Sequence[Any], used: Connection | None, database: int) -> None:
    """Let workers forget a database, unless Ray was shut down since they were started."""
    if connection() == used:
        for worker in workers:
            worker.forget.remote(database)


def import_ray() -> Any:
    """Return Ray, or say how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no statistics
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first one is raised
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "The engine ray needs Ray. Install it with: pip install 'rlvc[ray]'"
        ) from error
    return ray


def check_address(address: str) -> None:
    """Raise an OSError if no server listens at an address; Ray itself would wait for very long."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), PATIENCE).close()


def fetch(asked: Any) -> Any:
    """Wait for results and return them; an exception in a worker is raised here."""
    ray = import_ray()
    try:
        return ray.get(asked)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayActorError):
            _workers.clear()  # lost for good; others are started next time
        raise OSError(
            f"Ray could not finish the work: {error} If workers run out of memory, use more "
            "machines, or fewer workers on each: engine.workers says how many."
        ) from error
