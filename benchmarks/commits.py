"""Compare what this checkout learns, and how fast, with another commit.

Run it with ``python benchmarks/commits.py same|time COMMIT``, where COMMIT is anything that git
knows or the folder of another checkout.

* ``same``: runs the paper's tasks, compaction, forests and a custom environment from the command
  line with both versions, then lets each version load its policies and act on the same percepts.
  Compares the decisions, and ``result.json`` without times and versions.
* ``time``: times ``RLVC.stages`` on the maze, the campus and the hill in processor seconds, with
  both versions in turn, in processes that stay alive. Prints the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
CUSTOM = ["learn", "rlvc:rlvc/Maze-v0", "--rounds", "3", "--episodes", "5"]
RUNS = {
    "maze": ["run", "maze"],
    "maze, forest": ["run", "maze", "--trees", "4"],
    "maze, paper's choices": ["run", "maze", "--preset", "paper"],
    "subway": ["run", "subway"],
    "campus": ["run", "campus"],
    "campus, forest": ["run", "campus", "--trees", "4"],
    "hill": ["run", "hill"],
    "hill, compacted": ["run", "hill", "--compact"],
    "hill, paper's choices": ["run", "hill", "--preset", "paper"],
    "custom environment": CUSTOM,
    "custom environment, forest": [*CUSTOM, "--trees", "3"],
}
ENVS = {"maze": "Maze", "subway": "Subway", "campus": "Campus", "hill": "Hill", "custom": "Maze"}
GAMMA = {"maze": 0.9, "campus": 0.8, "hill": 0.75}
VOLATILE = ("seconds", "versions", "parameters", "command", "history", "rounds")


def main() -> None:
    """Compare two versions, or do a job as one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)
    same = commands.add_parser("same")
    same.add_argument("commit")
    same.add_argument("--interactions", type=int, default=10_000)
    same.add_argument("--percepts", type=int, default=10_000, help="number of percepts to act on")
    same.add_argument("--runs", nargs="*", default=list(RUNS), choices=list(RUNS))
    timed = commands.add_parser("time")
    timed.add_argument("commit")
    timed.add_argument("--interactions", type=int, default=10_000)
    timed.add_argument("--repeats", type=int, default=7)
    timed.add_argument("--tasks", nargs="*", default=list(GAMMA), choices=list(GAMMA))
    worker = commands.add_parser("worker")  # what each version runs
    worker.add_argument("job", choices=("decide", "learn"))
    worker.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    if options.what == "worker":
        {"decide": decide, "learn": learn}[options.job](*options.arguments)
        return
    with tempfile.TemporaryDirectory() as place:
        before = check_out(options.commit, Path(place))
        try:
            if options.what == "same":
                wrong = compare(before, options.interactions, options.percepts, options.runs)
                print(f"runs that differ: {wrong}")
                sys.exit(wrong > 0)
            compare_times(before, options.interactions, options.repeats, options.tasks)
        finally:
            if not Path(options.commit).is_dir():
                git("worktree", "remove", "--force", str(before))


def check_out(commit: str, place: Path) -> Path:
    """Return the folder of another version, checked out if necessary."""
    if Path(commit).is_dir():
        return Path(commit).resolve()
    git("worktree", "add", "--detach", str(place / "before"), commit)
    return place / "before"


def git(*arguments: str) -> None:
    """Run git on this checkout."""
    subprocess.run(["git", "-C", str(HERE), *arguments], check=True, capture_output=True)


def environment(version: Path) -> dict[str, str]:
    """Return the variables with which Python finds a version of the package."""
    return os.environ | {"PYTHONPATH": str(version / "src"), "NO_COLOR": "1"}


def worker(*arguments: str) -> list[str]:
    """Return the command that does a job, with the version that the environment names."""
    return [sys.executable, str(Path(__file__).resolve()), "worker", *arguments]


def compare(before: Path, interactions: int, percepts: int, runs: list[str]) -> int:
    """Return the number of runs whose outcomes differ."""
    wrong = 0
    for name in runs:
        with tempfile.TemporaryDirectory() as place:
            found = [
                outcome(version, name, Path(place) / which, interactions, percepts)
                for version, which in ((before, "before"), (HERE, "after"))
            ]
        differ = [key for key in found[0] | found[1] if found[0].get(key) != found[1].get(key)]
        wrong += bool(differ)
        what = f"DIFFER in {', '.join(differ)}" if differ else "the same"
        print(f"{name}: {what} ({len(found[0]['actions'])} decisions)", flush=True)
    return wrong


def outcome(
    version: Path, name: str, folder: Path, interactions: int, percepts: int
) -> dict[str, Any]:
    """Return the results of a run with a version, and the decisions of its policies."""
    command = [sys.executable, "-m", "rlvc", *RUNS[name], "--interactions", str(interactions)]
    subprocess.run(
        [*command, "--seed", "11", "--out", str(folder)],
        env=environment(version), check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    answer = subprocess.run(
        worker("decide", str(folder), ENVS[name.split()[0].strip(",")], str(percepts)),
        env=environment(version), check=True, capture_output=True, text=True,
    )  # fmt: skip
    result = json.loads((folder / "result.json").read_text())
    numbers = {key: value for key, value in result.items() if key not in VOLATILE}
    numbers = json.loads(json.dumps(numbers), object_hook=without_times)
    return numbers | json.loads(answer.stdout)


def without_times(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of a result without values that differ between equal runs."""
    return {key: value for key, value in entry.items() if key not in VOLATILE}


def decide(folder: str, env: str, percepts: str) -> None:
    """Print the actions of the policies in a folder on the percepts of random walks."""
    import gymnasium
    import numpy as np

    import rlvc

    found = rlvc.collect(gymnasium.make(f"rlvc/{env}-v0"), int(percepts), seed=1234).percepts
    table = found.table()
    answers: dict[str, Any] = {"actions": []}
    for path in sorted(Path(folder).glob("*.rlvc")):
        if path.stem == "examples":
            continue
        policy = rlvc.load_policy(path)
        for begin in range(0, len(table), 256):
            numbers = range(begin, min(begin + 256, len(table)))
            batch: Any = [found[number] for number in numbers]
            if isinstance(batch[0], dict):
                batch = {name: np.stack([one[name] for one in batch]) for name in batch[0]}
            else:
                batch = np.stack(batch)
            answers["actions"] += policy.predict(batch)[0].tolist()
    print(json.dumps(answers))


def compare_times(before: Path, interactions: int, repeats: int, tasks: list[str]) -> None:
    """Print the processor time of the stages, and its ratio to that of the other version."""
    for task in tasks:
        both = [
            subprocess.Popen(
                worker("learn", task, str(interactions)),
                env=environment(version), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for version in (before, HERE)
        ]  # fmt: skip
        times: list[list[float]] = [[], []]
        for turn in range(repeats + 1):
            for which in (0, 1) if turn % 2 else (1, 0):
                seconds = ask(both[which])
                if turn:  # the first compiles kernels
                    times[which].append(seconds)
        for process in both:
            process.communicate()
        old, new = map(statistics.median, times)
        ratios = [b / a for a, b in zip(*times, strict=True)]
        print(
            f"{task}: {new:.2f} s over {old:.2f} s of the processor = {new / old:.3f}; "
            f"turn by turn {min(ratios):.3f} to {max(ratios):.3f}",
            flush=True,
        )


def ask(process: subprocess.Popen[str]) -> float:
    """Return the processor seconds in which a version learns once."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("again\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def learn(task: str, interactions: str) -> None:
    """Learn once for each line of the input, and print the processor seconds of the stages."""
    import gymnasium

    import rlvc

    data = rlvc.collect(gymnasium.make(f"rlvc/{ENVS[task]}-v0"), int(interactions), seed=3)
    learner = rlvc.RLVC(gamma=GAMMA[task], threads=1)
    extract = getattr(learner, "extract", None) or learner.look  # its name in old versions
    database = extract(data)
    for _ in sys.stdin:
        begin = time.process_time()
        for _stage in learner.stages(database):
            pass
        print(time.process_time() - begin, flush=True)


if __name__ == "__main__":
    main()
