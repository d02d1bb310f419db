"""The cost of compaction, as ratios of times that are measured in turn in the same run.

* Classification of 10,000 percepts with the compacted classifier, over the same with the tree.
* Post-processing, over the whole time of learning.

Run it with ``python benchmarks/compaction.py [--task maze|campus] [--pictures P] [--seed N]``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace

import gymnasium
import numpy as np

from floors import ratio, seconds
from rlvc import collect
from rlvc.classifiers import Classifier
from rlvc.learning import Compaction, Keep
from rlvc.learning.compaction import Solve, Step
from rlvc.runs import tasks

ENVS = {"maze": "rlvc/Maze-v0", "subway": "rlvc/Subway-v0", "campus": "rlvc/Campus-v0"}
PERCEPTS = 10_000


@dataclass
class Timed:
    """A post-process that measures its own time."""

    inner: Compaction
    seconds: float = 0.0
    calls: int = 0

    def start(self) -> Step:
        """Return the step of the inner post-process, timed."""
        step = self.inner.start()

        def timed(
            number: int, classifier: Classifier, solve: Solve, *, is_last: bool
        ) -> Classifier:
            begin = time.perf_counter()
            found = step(number, classifier, solve, is_last=is_last)
            self.seconds += time.perf_counter() - begin
            self.calls += found is not classifier
            return found

        return timed


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", default="maze", choices=sorted(ENVS))
    parser.add_argument("--pictures", default="photos")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    env = gymnasium.make(ENVS[options.task], pictures=options.pictures, disable_env_checker=True)
    learner = tasks.make(options.task).base_learner()
    database = learner.extract(collect(env, 10_000, seed=options.seed))
    tree = list(replace(learner, post_process=Keep()).stages(database))[-1].classifier
    shares, totals = [], []
    for _ in range(5):
        timer = Timed(Compaction())
        stages: list[object] = []
        compacting = replace(learner, post_process=timer)
        totals.append(seconds(lambda: stages.extend(compacting.stages(database))))  # noqa: B023
        shares.append(timer.seconds)
    compacted = stages[-1].classifier  # type: ignore[attr-defined]
    rows = np.resize(np.arange(database.incidence.n_percepts), PERCEPTS)
    percepts = database.incidence.take(rows)
    work, floor = ratio(
        lambda: compacted.classify(percepts), lambda: tree.classify(percepts), repeats=21
    )
    print(
        f"{options.task}, {options.pictures}, seed {options.seed}: tree of {tree.n_classes} "
        f"classes, compacted to {compacted.n_classes} by {timer.calls} mergings"
    )
    print(
        f"classifying {PERCEPTS} percepts: {work * 1e3:.2f} ms compacted over {floor * 1e3:.2f} ms "
        f"with the tree: ratio {work / floor:.3f}"
    )
    print(
        f"compaction: {min(shares):.3f} s of {min(totals):.3f} s of learning (best of "
        f"{len(totals)}): ratio {min(shares) / min(totals):.3f}"
    )


if __name__ == "__main__":
    main()
