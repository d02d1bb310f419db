"""The costs of rlvc relative to their lower bounds, on a maze database of 10,000 interactions.

Times on a shared machine mean little, so each line is a ratio of two times that are measured in
turn in the same run:

* Stage: the split search over all classes, actions and features, over the three ``numpy.bincount``
  passes (count, sum, sum of squares) on the same index array.
* Extraction: all steps from percepts to symbols, over the bare calls of the detector and the
  descriptor on each distinct percept.
* Decision: ``policy.predict`` on one percept, over the bare calls on that percept.

Run it with ``python benchmarks/floors.py [--interactions N] [--pictures P] [--seed N]``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np

from rlvc import RLVC, Database, Interactions, Policy, Stage, collect
from rlvc._core.jit import run_threads
from rlvc.data import Image, Images
from rlvc.learning.aliasing import Residuals, bellman_residuals
from rlvc.learning.mdp import map_interactions
from rlvc.learning.selection.selector import Samples

STAGES = 5  # stages of the run that are measured, evenly spread


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratio(
    work: Callable[[], object], floor: Callable[[], object], repeats: int
) -> tuple[float, float]:
    """Return the best times of some work and of its lower bound, measured in turn."""
    work(), floor()  # compile kernels, fill caches
    pairs = [(seconds(work), seconds(floor)) for _ in range(repeats)]
    return min(w for w, _ in pairs), min(f for _, f in pairs)


def stage_ratio(
    learner: RLVC, database: Database, stage: Stage, threads: int
) -> tuple[float, float]:
    """Measure the split search of one stage."""
    interactions, symbols = database.interactions, database.incidence
    sequence = map_interactions(interactions, stage.classifier.classify(symbols))
    residuals: Residuals = bellman_residuals(sequence, stage.q, learner.gamma)
    everything = np.ones(stage.classifier.n_classes, np.bool_)
    samples = Samples(residuals, interactions.start, symbols, everything, threads)
    length = np.diff(symbols.indptr)[interactions.start]
    row = symbols.take(interactions.start)
    index = np.repeat(residuals.group, length) * symbols.n_features + row.indices
    delta = np.repeat(residuals.values, length)
    square = delta * delta

    def passes() -> None:
        np.bincount(index)
        np.bincount(index, weights=delta)
        np.bincount(index, weights=square)

    def search() -> None:
        learner.selector.choose([learner.selector.measure(samples)], residuals.sums)

    return ratio(search, passes, repeats=7)


def print_extraction(
    learner: RLVC, interactions: Interactions, bare: Callable[[Image], object]
) -> float:
    """Print the ratios of extraction; return its seconds with two threads."""
    images = interactions.percepts.images[0]

    def bare_one(number: int) -> None:
        bare(images[number])

    for threads in (1, 2):
        work, floor = ratio(
            partial(replace(learner, threads=threads).extract, interactions),
            lambda threads=threads: list(run_threads(bare_one, range(len(images)), threads)),  # type: ignore[misc]
            repeats=1,
        )
        print(
            f"extraction, {threads} thread(s): {work:.2f} s over {floor:.2f} s of bare calls: "
            f"ratio {work / floor:.3f}"
        )
    return work


def print_stages(learner: RLVC, database: Database, stages: list[Stage]) -> None:
    """Print the ratios of some stages, and the worst."""
    chosen = [stages[i] for i in np.linspace(0, len(stages) - 1, STAGES).round().astype(int)]
    for threads in (1, 2):
        ratios = []
        for stage in chosen:
            work, floor = stage_ratio(learner, database, stage, threads)
            ratios.append(work / floor)
            print(
                f"stage {stage.number} ({stage.classifier.n_classes} classes), "
                f"{threads} thread(s): {work * 1e3:.2f} ms over {floor * 1e3:.2f} ms of bincount: "
                f"ratio {work / floor:.3f}"
            )
        print(f"stage, {threads} thread(s), worst of {STAGES}: ratio {max(ratios):.3f}")


def print_decisions(policy: Policy, images: Images, bare: Callable[[Image], object]) -> None:
    """Print the ratio of decisions on some percepts."""
    pairs = []
    for k, number in enumerate(np.linspace(0, len(images) - 1, 300).astype(int).tolist()):
        percept = images[number]
        whole, floor = seconds(partial(policy.predict, percept)), seconds(partial(bare, percept))
        if k >= 20:  # after warming up
            pairs.append((whole, floor))
    work, floor = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(
        f"decision: {work * 1e3:.3f} ms over {floor * 1e3:.3f} ms of bare calls (medians of "
        f"{len(pairs)} percepts): ratio {work / floor:.3f}"
    )


def main() -> None:
    """Print the three ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--interactions", type=int, default=10_000)
    parser.add_argument("--pictures", default="photos")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    env = gymnasium.make("rlvc/Maze-v0", pictures=options.pictures, disable_env_checker=True)
    interactions = collect(env, options.interactions, seed=options.seed)
    learner = RLVC().fitted(interactions.percepts)
    images = interactions.percepts.images[0]
    detector, descriptor = learner.detector, learner.descriptor
    assert detector is not None
    assert descriptor is not None

    def bare(image: Image) -> None:
        descriptor.describe(image, detector.detect(image))

    print(f"maze, {len(interactions)} interactions, {len(images)} distinct percepts")
    extraction = print_extraction(learner, interactions, bare)
    database = learner.extract(interactions)
    begin = time.perf_counter()
    stages = list(learner.stages(database))
    learning = time.perf_counter() - begin
    print(
        f"learning: {learning:.2f} s for {stages[-1].number} stages over {extraction:.2f} s of "
        f"extraction: ratio {learning / extraction:.3f}"
    )
    print_stages(learner, database, stages)
    print_decisions(stages[-1].policy(), images, bare)


if __name__ == "__main__":
    main()
