"""Load many mutated files: each must load and work, or be refused.

    python benchmarks/fuzz.py [--files 240000] [--seed 0] [--kind policy ...] [--out offenders]

Every file is a mutation of a small intact one (see ``tests/support/mutations.py``), determined by
the seed. Files that load are used. An offender is a file that raises anything but DamagedFileError
or InvalidFileError, takes more than 2 seconds, needs more than 500 MB or ends the process; it is
written to the folder of offenders. Files are loaded in a separate process, which is restarted only
if it dies.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the kinds and the mutator of the tests

from tests.support.file_kinds import Kind, Memory, all_kinds
from tests.support.mutations import Mutator

SECONDS = 2.0
BYTES = 500 * 10**6
PATIENCE = 20.0  # seconds without a result until a process is killed that ignores the alarm


class TooSlowError(BaseException):
    """A file took too long; no ``except Exception`` catches this."""


@dataclass
class Outcomes:
    """The outcomes so far."""

    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    memory: int = 0
    offenders: list[str] = field(default_factory=list)


def main() -> int:
    """Print the counts; return 1 if there are offenders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--files", type=int, default=240_000, help="number of files, of all kinds together"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first file")
    parser.add_argument("--kind", nargs="*", help="only these kinds")
    parser.add_argument("--out", type=Path, default=Path("offenders"), help="folder of offenders")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kinds = all_kinds(Path(folder))
        chosen = [kind for kind in kinds if not options.kind or kind.name in options.kind]
        others = [data for kind in kinds for data in kind.files]
        begin, total = time.perf_counter(), Counter[str]()
        n = options.files // len(chosen)
        print(f"{'':12}{'files':>9}{'loaded':>9}{'damaged':>9}{'invalid':>9}{'other':>7}"
              f"{'slowest':>10}{'memory':>9}")  # fmt: skip
        worst = Outcomes()
        for kind in chosen:
            seeds = range(options.seed, options.seed + n)
            tally = run(kind, Mutator(kind.files, others), seeds, Path(folder), options.out)
            show(kind.name, tally)
            total += tally.counts
            worst.slowest = max(worst.slowest, tally.slowest)
            worst.memory = max(worst.memory, tally.memory)
            worst.offenders += tally.offenders
        worst.counts = total
        show("all", worst)
    print(f"{time.perf_counter() - begin:.0f} s")
    for offender in worst.offenders:
        print(offender)
    return 1 if worst.offenders else 0


def show(name: str, tally: Outcomes) -> None:
    """Print a line of the table."""
    counts = tally.counts
    print(f"{name:12}{counts.total():9}{counts['loaded']:9}{counts['damaged']:9}"
          f"{counts['invalid']:9}{counts['other']:7}{tally.slowest:8.2f} s"
          f"{tally.memory / 1e6:6.0f} MB", flush=True)  # fmt: skip


def run(kind: Kind, mutator: Mutator, seeds: range, folder: Path, out: Path) -> Outcomes:
    """Load the files of some seeds in another process, and in a new one each time it dies."""
    tally, context = Outcomes(), multiprocessing.get_context("fork")
    at = seeds.start
    while at < seeds.stop:
        ours, theirs = context.Pipe()
        worker = context.Process(
            target=work, args=(kind, mutator, range(at, seeds.stop), folder / "broken", theirs)
        )
        worker.start()
        theirs.close()
        with contextlib.suppress(EOFError):
            while at < seeds.stop:
                if not ours.poll(PATIENCE):
                    break
                outcome, why, seconds, memory = ours.recv()
                tally.counts[outcome] += 1
                tally.slowest = max(tally.slowest, seconds)
                tally.memory = max(tally.memory, memory)
                if outcome == "other":
                    keep(kind, mutator, at, why, out, tally)
                at += 1
        if at < seeds.stop:
            worker.kill()
            worker.join()
            tally.counts["other"] += 1
            keep(kind, mutator, at, f"ended by {worker.exitcode}", out, tally)
            at += 1
        worker.join()
    return tally


def keep(kind: Kind, mutator: Mutator, seed: int, why: str, out: Path, tally: Outcomes) -> None:
    """Write an offender to its folder, with the reason."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{kind.name}-{seed}.rlvc"
    path.write_bytes(mutator.mutate(seed))
    path.with_suffix(".txt").write_text(why)
    tally.offenders.append(f"{path}: {why.strip().splitlines()[-1][:200]}")


def work(kind: Kind, mutator: Mutator, seeds: range, path: Path, pipe: Connection) -> None:
    """Load file after file, and send the outcome, the reason, the seconds and the memory."""
    warnings.simplefilter("ignore")
    for data in kind.files:  # compile and import everything first
        path.write_bytes(data)
        assert kind.outcome(path) == "loaded"

    def stop(*_: Any) -> None:
        raise TooSlowError

    signal.signal(signal.SIGALRM, stop)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for seed in seeds:
        path.write_bytes(mutator.mutate(seed))
        memory, begin, why = Memory(), time.perf_counter(), ""
        try:
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            outcome = kind.outcome(path)
        except (Exception, TooSlowError):
            outcome, why = "other", traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        seconds, growth = time.perf_counter() - begin, memory.growth
        if growth > BYTES:
            outcome, why = "other", f"{growth} bytes"
        pipe.send((outcome, why, seconds, growth))
    pipe.close()


if __name__ == "__main__":
    raise SystemExit(main())
