"""Ray workers that hold the shards of databases.

A worker that is lost is replaced. The new one gets the same shards from Ray's object store, or from
their files, and is asked the same question again, so the result does not change.
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

from rlvc._core.registry import import_extra
from rlvc.distributed.disk.format import FILE, FileInfo
from rlvc.distributed.disk.read import read_shard
from rlvc.distributed.disk.tables import describe_file
from rlvc.errors import DamagedFileError
from rlvc.learning.shard import Shard

P = ParamSpec("P")
R = TypeVar("R")

MAX_LOSSES: Final = 100  # times that a worker is replaced, or a piece of work tried again
TIMEOUT: Final = 5.0  # seconds to wait for a cluster to answer

_NUMBERS = itertools.count()  # of databases, by which workers tell them apart

ShardSource = Callable[[], Shard]  # called by each worker that needs the shard


def store_shard(shard: Shard) -> ShardSource:
    """Put a shard into Ray's object store, which outlives the workers that use it.

    It is pickled, since the arrays that Ray itself shares are read-only, and kernels would be
    compiled again for these.
    """
    return partial(_get_shard, import_ray().put(pickle.dumps(shard, pickle.HIGHEST_PROTOCOL)))


def _get_shard(reference: Any) -> Shard:
    shard: Shard = pickle.loads(import_ray().get(reference))  # noqa: S301 - our own
    return shard


def load_shard(folder: str, number: int, stamp: FileInfo) -> Shard:
    """Return a shard of a dataset on disk.

    The folder has the same path on all machines. The stamp describes ``dataset.json``: another one
    means that another dataset has been written to the folder.
    """
    try:
        found = describe_file(Path(folder) / FILE)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"A worker found no dataset at {folder}. The path must be the same on all machines: "
            "move the dataset to a shared folder."
        ) from error
    if found != stamp:
        raise DamagedFileError(
            f"{folder} has been replaced since it was opened. Open it again and restart learning."
        )
    data = read_shard(folder, number)
    return Shard(data.interactions, data.index, data.numbers)


class Worker:
    """A process that holds shards of databases; a shard is loaded when it is first asked."""

    def __init__(self) -> None:
        self._shards: defaultdict[int, dict[int, Shard]] = defaultdict(dict)  # of each database

    def answer(
        self,
        database: int,
        sources: dict[int, ShardSource],
        threads: int,
        question: str,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> list[Any]:
        """Return the answers of some shards of a database to a question."""
        args, kwargs = arguments
        shards = self._shards[database]
        for number, source in sources.items():
            if number not in shards:
                shards[number] = source()
                shards[number].threads = threads
        return [getattr(shards[number], question)(*args, **kwargs) for number in sources]

    def forget(self, database: int) -> None:
        """Drop the shards of a database that is no longer used."""
        self._shards.pop(database, None)


class RayShards:
    """Asks the shards of a database that workers hold.

    Args:
        sources: Where a worker gets each shard from.
        workers: The number of workers that share them.
        threads: The number of threads of each worker; 0 for one.
        n_base: The number of features that every shard has from the start.
        gather: Returns one shard in this process that has everything.
    """

    shard = None  # there is none in this process

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
        self._number, self._threads = next(_NUMBERS), threads or 1
        self.n_base, self.gather = n_base, gather
        weakref.finalize(self, _release, self._workers, self._connection, self._number)

    def ask(
        self, question: Callable[Concatenate[Shard, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> list[R]:
        """Return the answer of each shard, in order."""
        ray = import_ray()
        if connection() != self._connection:
            raise ConnectionError(
                "The workers that held this database ended when Ray was shut down. Start learning "
                "from the interactions or the dataset again."
            )
        arguments = ray.put((args, kwargs))
        waiting = [
            worker.answer.remote(self._number, sources, self._threads, question.__name__, arguments)
            for worker, sources in zip(self._workers, self._sources, strict=True)
        ]
        answers: dict[int, R] = {}
        for sources, found in zip(self._sources, fetch(waiting), strict=True):
            answers |= zip(sources, found, strict=True)
        return [answers[number] for number in sorted(answers)]


Connection = tuple[str, str]  # the ids of a node of a cluster and of the job that is this process
addresses: dict[Connection | None, str] = {}  # of the clusters, as the user named them
_workers: dict[Connection, list[Any]] = {}  # reused, as starting one takes longer than a stage


def connection() -> Connection | None:
    """Return the current connection to a cluster; None if there is none."""
    ray = import_ray()
    if not ray.is_initialized():
        return None
    here = ray.get_runtime_context()
    return here.get_node_id(), here.get_job_id()


def get_workers(n: int) -> list[Any]:
    """Return ``n`` workers, of which those that do not exist yet are started."""
    ray, here = import_ray(), connection()
    assert here is not None  # Ray.start has connected
    known = _workers.setdefault(here, [])
    make = ray.remote(Worker).options(
        max_restarts=MAX_LOSSES, max_task_retries=MAX_LOSSES, scheduling_strategy="SPREAD"
    )
    known += [make.remote() for _ in range(n - len(known))]
    return known[:n]


def _release(workers: Sequence[Any], then: Connection | None, database: int) -> None:
    """Let workers forget a database, unless Ray was shut down since they were started."""
    if connection() == then:
        for worker in workers:
            worker.forget.remote(database)


def import_ray() -> Any:
    """Import Ray and return it; the error says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # fetch raises the first one
    return import_extra("ray", "ray")


def check_address(address: str) -> None:
    """Raise an OSError unless a server listens at an address; Ray itself waits much longer."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), TIMEOUT).close()


def fetch(asked: Any) -> Any:
    """Wait for results and return them; raise the exception of a worker here."""
    ray = import_ray()
    try:
        return ray.get(asked)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayActorError):
            _workers.clear()  # they do not come back; new ones are started next time
        raise OSError(
            f"Ray could not finish the work: {error} If workers ran out of memory, use more "
            "machines, or fewer workers (engine.workers)."
        ) from error
