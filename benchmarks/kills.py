"""Kill runs at random moments and resume them; they must end like runs that were not killed.

Each task is run once without interruption. Then it is started again, killed (SIGKILL) after a
random part of its time, resumed by the same command with ``--resume``, and killed again, until it
finishes or was killed often enough; and so on, until the number of kills is reached. In the end the
policies must be the same, byte for byte, and the folder must hold the same files and nothing else;
nothing may be left in the folder of temporary files, and no process may still run.

    python benchmarks/kills.py --kills 100
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TASKS = {
    "maze, with a forest": [
        "run", "maze", "--interactions", "2000", "--episodes", "10", "--trees", "3",
    ],
    "hill, two cameras, compacted": [
        "run", "hill", "--interactions", "1500", "--episodes", "50", "--compact",
    ],
    "custom environment, in rounds": [
        "learn", "rlvc:rlvc/Maze-v0", "--interactions", "800", "--rounds", "3", "--episodes", "2",
        "--trees", "2",
    ],
}  # fmt: skip
MOST, SHARE = 10, 0.7  # kills of one run, and the share of its time until each, at most
PATIENCE = 2.0  # seconds until forked processes must have ended


def main() -> int:
    """Kill, resume and compare runs; return 0 if all are the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="number of kills, over all tasks")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    edges = [options.kills * i // len(TASKS) for i in range(len(TASKS) + 1)]
    shares = [last - first for first, last in itertools.pairwise(edges)]
    n_kills, is_well = 0, True
    with tempfile.TemporaryDirectory() as name:
        for (task, words), wanted in zip(TASKS.items(), shares, strict=True):
            found = kill_often(task, words, wanted, rng, Path(name))
            n_kills += found[0]
            is_well &= found[1]
    print(f"{n_kills} kills; {'all runs ended as without them' if is_well else 'FAILED'}.")
    return 0 if is_well else 1


def kill_often(
    task: str, words: list[str], wanted: int, rng: random.Random, place: Path
) -> tuple[int, bool]:
    """Kill runs of a task; return the number of kills, and whether all ended the same."""
    whole, temporary = place / "whole", place / "temporary"
    shutil.rmtree(whole, ignore_errors=True)
    temporary.mkdir(exist_ok=True)
    start(words, whole, temporary).wait()  # compiles kernels, if necessary
    shutil.rmtree(whole)
    begin = time.perf_counter()
    if start(words, whole, temporary).wait() != 0:
        print(f"{task}: the run fails")
        return 0, False
    seconds = time.perf_counter() - begin
    print(f"{task}: {seconds:.1f} s without interruption", flush=True)
    n_kills, n_runs, is_well = 0, 0, True
    when: collections.Counter[str] = collections.Counter()
    while n_kills < wanted:
        stopped, n_here = place / f"stopped-{n_runs}", 0
        while True:
            process, begin = start(words, stopped, temporary), time.time()
            try:
                is_enough = n_kills == wanted or n_here == MOST
                process.wait(None if is_enough else rng.uniform(0.0, SHARE * seconds))
                break
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                n_kills, n_here = n_kills + 1, n_here + 1
                when[moment(stopped, begin)] += 1
        n_runs += 1
        faults = list(compare(whole, stopped, temporary, process))
        is_well &= not faults
        verdict = "; ".join(faults) or "the same policy, nothing left behind"
        print(f"  run {n_runs}: killed {n_here} times; {verdict}", flush=True)
        shutil.rmtree(stopped, ignore_errors=True)
    last = ", ".join(f"{name} {n}" for name, n in when.most_common())
    print(f"  {n_kills} kills in {n_runs} runs; saved last: {last}", flush=True)
    return n_kills, is_well


def start(words: list[str], folder: Path, temporary: Path) -> subprocess.Popen[bytes]:
    """Start a run, or resume it: the command is the same."""
    return subprocess.Popen(
        [sys.executable, "-m", "rlvc", *words, "--resume", str(folder)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    )


def moment(folder: Path, begin: float) -> str:
    """Return the kind of the last record that a run saved between its start and its end."""
    saved = [
        (path.stat().st_mtime, path.name)
        for path in (folder / "rlvc-checkpoint").glob("[!.]*")
        if path.stat().st_mtime > begin and path.name != "run.rlvc"
    ]
    if not saved:
        return "nothing"
    name = max(saved)[1]
    return next((kind for kind in ("tree", "stage", "round") if kind in name), "keypoints")


def compare(
    whole: Path, stopped: Path, temporary: Path, process: subprocess.Popen[bytes]
) -> list[str]:
    """Return the differences from a run that was not killed."""
    faults = []
    if process.returncode != 0:
        faults.append(f"exit status {process.returncode}")
    names = [sorted(str(p.relative_to(f)) for p in f.rglob("*")) for f in (whole, stopped)]
    if names[0] != names[1]:
        faults.append(f"other files: {sorted(set(names[0]) ^ set(names[1]))}")
    for policy in whole.glob("*.rlvc"):
        other = stopped / policy.name
        if not other.exists() or policy.read_bytes() != other.read_bytes():
            faults.append(f"another {policy.name}")
    if left := [path.name for path in temporary.iterdir()]:
        faults.append(f"left in the temporary folder: {left}")
    time.sleep(PATIENCE)
    if alive := [pid for pid in processes() if str(stopped) in pid[1]]:
        faults.append(f"processes that still run: {alive}")
    return faults


def processes() -> list[tuple[int, str]]:
    """Return the number and the command line of every visible process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append((int(path.parent.name), path.read_bytes().replace(b"\0", b" ").decode()))
        except OSError:  # it ended meanwhile
            continue
    return found


if __name__ == "__main__":
    raise SystemExit(main())
