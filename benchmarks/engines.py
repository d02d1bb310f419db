"""Compare the Ray engine with the local one: the policies, also after lost workers, and the speed.

Run it with ``python benchmarks/engines.py same|kills|extraction|stages``; it needs Ray: ``pip
install 'rlvc[ray]'``.

* ``same``: learns the maze, the campus and the hill from the command line, with the local engine
  and with two Ray workers on 1, 2 and 4 shards; compares the policy files byte for byte.
* ``kills``: repeatedly learns one classifier and a small forest on two workers, and each time kills
  (SIGKILL) one of the busy processes at a random moment; compares the files.
* ``extraction``: times extraction with two workers and with one, in turn.
* ``stages``: times the stages of a million interactions (from ``large_mazes.py``) with two workers
  and with two threads, in turn.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from large_mazes import Scene, make, maze
from rlvc import RLVC, Database, Forest, Interactions, collect
from rlvc.distributed import Ray
from rlvc.learning import Local
from rlvc.learning.generation.base import Canonical

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the workers that tests kill

from tests.support.lost_workers import worker_processes

TASKS = ("maze", "campus", "hill")


def main() -> None:
    """Run one of the four benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    same = commands.add_parser("same")
    same.add_argument("--tasks", nargs="*", default=list(TASKS))
    same.add_argument("--interactions", type=int, default=10_000)
    same.add_argument("--trees", type=int, default=2)
    same.add_argument("--pictures", default="photos")
    kills = commands.add_parser("kills")
    kills.add_argument("--kills", type=int, default=20)
    kills.add_argument("--seed", type=int, default=0)
    kills.add_argument("--interactions", type=int, default=1500)
    extraction = commands.add_parser("extraction")
    extraction.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    extraction.add_argument("--images", type=int, default=2000)
    extraction.add_argument("--repeats", type=int, default=3)
    stages = commands.add_parser("stages")
    stages.add_argument("--interactions", type=float, default=1e6)
    stages.add_argument("--stages", type=int, default=20)
    stages.add_argument("--repeats", type=int, default=2)
    options = vars(parser.parse_args())
    {
        "same": check_same,
        "kills": check_kills,
        "extraction": time_extraction,
        "stages": time_stages,
    }[options.pop("command")](**options)


def check_same(tasks: list[str], interactions: int, trees: int, pictures: str) -> None:
    """Compare the policy files of the two engines."""
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        for task in tasks:
            common = ["run", task, "--pictures", pictures, "--interactions", str(interactions)]
            common += ["--trees", str(trees)]
            if task != "campus":
                common += ["--episodes", "100"]
            local = Path(place, task, "local")
            spent = rlvc(*common, "--out", str(local))
            files = sorted(path.name for path in local.glob("*.rlvc"))
            print(f"{task}: local, {spent:.0f} s: {', '.join(files)}", flush=True)
            for shards in (1, 2, 4):
                out = Path(place, task, f"ray-{shards}")
                more = ["--set", "engine.workers=2", "--set", f"engine.shards={shards}"]
                spent = rlvc(*common, "--engine", "ray", *more, "--out", str(out))
                others = [name for name in files if differ(local / name, out / name)]
                wrong += len(others)
                verdict = f"DIFFERENT: {', '.join(others)}" if others else "the same"
                print(f"{task}: Ray, {shards} shards, {spent:.0f} s: {verdict}", flush=True)
    print(f"files that differ: {wrong}")
    sys.exit(wrong > 0)


def differ(one: Path, other: Path) -> bool:
    """Return whether two files differ."""
    return one.read_bytes() != other.read_bytes()


def rlvc(*arguments: str) -> float:
    """Run a command, and return its seconds."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "rlvc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begin


def check_kills(kills: int, seed: int, interactions: int) -> None:
    """Kill one worker in every run, and compare the policies."""
    rng = np.random.default_rng(seed)
    data = collect_maze(interactions)
    engine = Ray(workers=2, shards=3)
    learner = RLVC(max_stages=25)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected = learn(learner, data, folder, lambda phase: None)
        learn(replace(learner, engine=engine), data, folder, lambda phase: None)  # processes start
        begin = time.perf_counter()
        learn(replace(learner, engine=engine), data, folder, lambda phase: None)
        usual = time.perf_counter() - begin
        print(f"{interactions} interactions; a run without a loss takes {usual:.1f} s", flush=True)
        wrong, done = 0, 0
        while done < kills:
            now: list[str] = [""]
            with killing(float(rng.uniform(0.0, usual)), rng, now) as killed:
                begin = time.perf_counter()
                found = learn(
                    replace(learner, engine=engine),
                    data,
                    folder,
                    lambda p: now.__setitem__(0, p),  # noqa: B023
                )
                spent = time.perf_counter() - begin
            if not killed:
                continue  # the run was over before
            done += 1
            wrong += found != expected
            verdict = "the same" if found == expected else "ANOTHER POLICY"
            print(f"{done}: {killed[0]}; {spent:.1f} s: {verdict}", flush=True)
    print(f"{done} kills; runs that ended differently: {wrong}")
    sys.exit(wrong > 0)


def learn(
    learner: RLVC, data: Interactions, folder: Path, on_phase: Callable[[str], None]
) -> list[bytes]:
    """Extract, learn and grow a few trees; return the files of the policies."""
    on_phase("extraction")
    database = learner.extract(data)
    on_phase("the stages")
    policies = [learner.learn(database)]
    on_phase("the forest")
    policies.append(Forest(learner=learner, trees=3).learn(database))
    found = []
    for policy in policies:
        policy.save(folder / "policy.rlvc")
        found.append((folder / "policy.rlvc").read_bytes())
    return found


@contextmanager
def killing(after: float, rng: np.random.Generator, now: list[str]) -> Iterator[list[str]]:
    """Kill one of the busy processes after some seconds; yield a list with a description of it."""
    killed: list[str] = []
    is_over = threading.Event()

    def wait() -> None:
        is_over.wait(after)
        while not is_over.is_set() and not killed:
            found = worker_processes()
            if found:
                pid, name = found[int(rng.integers(len(found)))]
                os.kill(pid, signal.SIGKILL)
                killed.append(f"after {after:.2f} s, during {now[0]}, {name} was killed")
            time.sleep(0.002)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()


def collect_maze(n: int) -> Interactions:
    """Return random interactions with the maze."""
    return collect(gymnasium.make("rlvc/Maze-v0", disable_env_checker=True), n, seed=0)


def time_extraction(workers: int, images: int, repeats: int) -> None:
    """Time extraction with one worker and with two, each in its own process."""
    if workers:
        data = collect_maze(images)
        learner = replace(RLVC().fitted(data.percepts), engine=Ray(workers=workers))
        learner.extract(collect_maze(100))  # processes start
        for _ in sys.stdin:
            begin = time.perf_counter()
            learner.extract(data)
            print(time.perf_counter() - begin, flush=True)
        return
    command = [sys.executable, __file__, "extraction", "--images", str(images), "--workers"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    asked = {n: subprocess.Popen([*command, str(n)], **pipes) for n in (1, 2)}
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(repeats):
        for n, process in asked.items():
            process.stdin.write("again\n")
            process.stdin.flush()
            seconds[n].append(float(process.stdout.readline()))
            print(f"extraction of {images} interactions, {n} workers: {seconds[n][-1]:.2f} s")
    for process in asked.values():
        process.stdin.close()
        process.wait()
    ratio = min(seconds[1]) / min(seconds[2])
    print(f"extraction: two workers are {ratio:.2f} times as fast as one (best of {repeats} each)")


def time_stages(interactions: float, stages: int, repeats: int) -> None:
    """Time the stages of many interactions in threads and on workers."""
    learner, env = maze()
    learner = replace(learner, generator=Canonical(), threads=2)
    scene = Scene.extract(learner, env)
    database = make(scene, int(interactions), 0, with_places=True)
    parts = database.interactions, database.index, database.extractor
    engines = {"local, 2 threads": Local(), "Ray, 2 workers": Ray(workers=2, shards=2)}
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    warm = make(scene, 3000, with_places=True)
    n_classes = []
    for _ in range(repeats):
        for name, engine in engines.items():
            one = replace(learner, engine=engine)
            run(one, engine.distribute(warm, 1), 5)
            begin = time.perf_counter()
            distributed = engine.distribute(Database.of(*parts), 1)  # new shards, without caches
            distributed.variance(0.9)  # workers load their shards
            between = time.perf_counter()
            n_classes.append(run(one, distributed, stages))
            seconds[name].append(time.perf_counter() - between)
            print(
                f"{name}: {int(interactions):,} interactions distributed in "
                f"{between - begin:.1f} s, {stages} stages in {seconds[name][-1]:.2f} s",
                flush=True,
            )
            del distributed
    assert len(set(n_classes)) == 1
    local, ray = (min(some) for some in seconds.values())
    print(f"stages: Ray is {ray / local:.2f} times as slow as threads (best of {repeats} each)")


def run(learner: RLVC, database: Any, n: int) -> int:
    """Learn some stages, and return the number of classes."""
    for stage in learner.stages(database):
        if stage.number + 1 == n:
            break
    return stage.classifier.n_classes


if __name__ == "__main__":
    main()
