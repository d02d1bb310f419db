"""The Ray engine learns the same policy as the local one, even if workers are lost."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlvc import RLVC, Database, Dataset, Forest, Interactions, collect, open_dataset, write_dataset
from rlvc.distributed import Ray
from rlvc.distributed.disk.format import FileInfo
from rlvc.distributed.workers import get_workers, load_shard
from rlvc.errors import DamagedFileError
from rlvc.learning import Compaction, Local
from rlvc.learning.selection.selector import Selector
from rlvc.vision import ExtractionCache
from tests.support.lost_workers import worker_processes
from tests.support.policies import bytes_of

pytestmark = pytest.mark.ray

RAY = Ray(workers=2, shards=3)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    assert list(RAY.run(abs, [-1], 1)) == [1]
    yield
    ray.shutdown()


def collected(n: int, env_id: str = "rlvc/Maze-v0") -> Interactions:
    return collect(gymnasium.make(env_id, disable_env_checker=True), n, seed=0)


@pytest.fixture(scope="module")
def maze() -> Database:
    return RLVC().extract(collected(400))


def test_workers_extract_the_same_keypoints_as_threads() -> None:
    data = collected(60)
    learner = RLVC().fitted(data.percepts)
    extractor = learner.new_extractor(data.percepts)
    (one,) = ExtractionCache().extract(extractor, data.percepts)
    (other,) = ExtractionCache().extract(extractor, data.percepts, backend=RAY.extract)
    assert len(one.begin) == len(data.percepts) + 1
    for name in ("begin", "descriptors", "row"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    for name in ("xy", "scale", "angle", "octave"):
        assert np.array_equal(
            getattr(one.points, name), getattr(other.points, name), equal_nan=True
        )


@pytest.mark.parametrize(
    "learner", [RLVC(max_stages=8), RLVC(post_process=Compaction(every=3), max_stages=6)]
)
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_the_policy_is_the_local_one(learner: RLVC, shards: int, maze: Database) -> None:
    policy = learner.learn(maze)
    assert policy.n_classes > 5
    engine = replace(RAY, shards=shards)
    assert bytes_of(replace(learner, engine=engine).learn(maze)) == bytes_of(policy)


def test_an_environment_is_learned_in_rounds() -> None:
    learner = RLVC(max_stages=4)
    made = [
        replace(learner, engine=engine).learn(
            gymnasium.make("rlvc/Hill-v0", disable_env_checker=True), interactions=150, rounds=2
        )
        for engine in (Local(), RAY)
    ]
    assert made[0].n_classes > 2
    assert bytes_of(made[0]) == bytes_of(made[1])


def test_trees_grow_in_parallel(maze: Database) -> None:
    learner = RLVC(max_stages=6)
    done: list[None] = []
    forests = [
        Forest(learner=replace(learner, engine=engine), trees=3).learn(
            maze, lambda: done.append(None)
        )
        for engine in (Local(), RAY)
    ]
    assert len(done) == 6
    assert forests[0].patches.any()
    assert bytes_of(forests[0]) == bytes_of(forests[1])


def test_a_dataset_on_disk_is_not_read_into_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, data = RLVC(max_stages=6), collected(200)
    expected = bytes_of(learner.learn(data))
    write_dataset(data, tmp_path / "shards", 3, learner.new_extractor(data.percepts))
    opened = RAY.open(open_dataset(tmp_path / "shards"), 1)
    assert opened.client.shard is None
    with monkeypatch.context() as patch:
        patch.delattr(Dataset, "database")
        patch.delattr("rlvc.distributed.disk.dataset.read_index")
        assert bytes_of(learner.learn(opened)) == expected
    trees = [Forest(learner=learner, trees=1).learn(one) for one in (opened, learner.extract(data))]
    assert bytes_of(trees[0]) == bytes_of(trees[1])


def test_lost_workers_are_replaced(maze: Database) -> None:
    learner = RLVC(max_stages=10)
    expected = bytes_of(learner.learn(maze))
    killed: list[int] = []
    is_over = threading.Event()

    def kill() -> None:
        rng = np.random.default_rng(0)
        while not is_over.wait(float(rng.uniform(0.5, 1.5))) and len(killed) < 3:
            if found := worker_processes():
                killed.append(found[int(rng.integers(len(found)))][0])
                os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        while len(killed) < 3:
            policy = replace(learner, engine=RAY).learn(maze)
            assert bytes_of(policy) == expected
    finally:
        is_over.set()
        thread.join()


def test_workers_that_cannot_be_restarted_are_not_used_again(maze: Database) -> None:
    import ray

    learner = RLVC(max_stages=2)
    parts = RAY.distribute(maze, 1)
    for worker in get_workers(2):
        ray.kill(worker)
    with pytest.raises(OSError, match="Ray could not finish the work"):
        learner.learn(parts)
    policy = replace(learner, engine=RAY).learn(maze)
    assert bytes_of(policy) == bytes_of(learner.learn(maze))


def test_a_replaced_dataset_is_noticed(tmp_path: Path) -> None:
    learner, folder, opened = RLVC(max_stages=3), tmp_path / "shards", list[Database]()
    for n in (60, 90, 120):
        data = collected(n)
        write_dataset(data, folder, 1, learner.new_extractor(data.percepts))
        opened.append(RAY.open(open_dataset(folder), 1))
        if n > 60:  # the first one is not asked before it is gone
            assert bytes_of(learner.learn(opened[-1])) == bytes_of(learner.learn(data))
        shutil.rmtree(folder)
    write_dataset(data, folder, 1, learner.new_extractor(data.percepts))
    with pytest.raises(DamagedFileError, match="has been replaced since it was opened"):
        learner.learn(opened[0])


def test_a_worker_without_the_dataset_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="The path must be the same on all machines"):
        load_shard(str(tmp_path / "nowhere"), 0, FileInfo(0, 0, 0))


def test_a_connection_to_another_cluster_is_refused() -> None:
    with pytest.raises(ConnectionError, match="is connected to another Ray cluster than head:6379"):
        list(Ray(address="head:6379").run(abs, [-1], 1))
    assert list(Ray(address="auto", workers=2).run(abs, [-1], 1)) == [1]


def test_parts_that_need_all_percepts_are_refused(maze: Database) -> None:
    learner = RLVC(engine=RAY, max_stages=2, selector=Selector(test="ks"))
    with pytest.raises(ValueError, match="test of Selector must be student or welch where "):
        learner.learn(maze)
    with pytest.raises(TypeError, match=r"are in shards elsewhere, .* Choose the engine local, or"):
        RAY.distribute(maze, 1).index  # noqa: B018


def test_the_error_says_how_to_install_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "rlvc\[ray\]"'):
        Ray().run(str, [1], 1)


def test_a_missing_cluster_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{one.getsockname()[1]}"
        with pytest.raises(
            ConnectionError, match=f"No Ray cluster answers at {address} .*ray start"
        ):
            Ray(address=address).start()


def test_errors_of_workers_are_raised_unchanged() -> None:
    with pytest.raises(ValueError, match=r"^invalid literal for int\(\) with base 10: 'x'$"):
        list(RAY.run(int, ["x"], 1))


def test_the_command_line_chooses_the_engine(call: Any, tmp_path: Path) -> None:
    common = ["run", "hill", "--interactions", "80", "--episodes", "2", "--trees", "1"]
    common += ["--set", "max_stages=4"]
    workers = ("--set", "engine.workers=2")
    for name, more in (("a", ()), ("b", ("--engine", "ray", *workers))):
        done = call(*common, "--out", str(tmp_path / name), *more)
        assert done.code == 0, done.err
    for name in ("policy.rlvc", "one.rlvc"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    done = call(*common, "--out", str(tmp_path / "c"), "--address", "auto")
    assert (done.code, done.err) == (
        2, "rlvc: --address is that of a Ray cluster; add --engine ray.\n",
    )  # fmt: skip
