"""The benefit of composite features with few symbols, and the cost of composing them.

``python benchmarks/composites.py coarse`` learns the maze with a vocabulary so coarse that its
symbols alone distinguish little, and prints the success of three learners: with the usual
vocabulary, with the coarse one, and with the coarse one and composites.

``python benchmarks/composites.py cost`` learns the hill and prints, over all stages, the time to
generate new features over that to select among the known ones, both of the same run. The first
line is for a generator that caches the composites of unchanged classes, the second for one that is
restarted at every stage.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc import RLVC, collect
from rlvc.features import Incidence
from rlvc.learning import View
from rlvc.learning.aliasing import ResidualSums
from rlvc.learning.generation.base import Candidates, Generator, GeneratorState
from rlvc.learning.generation.composites import Composites
from rlvc.learning.selection.selector import FeatureSums, Samples, Selector, SplitChoice
from rlvc.learning.shard import ShardFeatures
from rlvc.runs import Run, make_learner
from rlvc.tasks import HillTask, MazeTask

MOST_SYMBOLS = 60  # of a coarse vocabulary
BOUND = 5.0  # of generation over selection


def coarse(options: argparse.Namespace) -> None:
    """Print the success on the maze with the usual vocabulary, a coarse one, and composites."""
    task = MazeTask(pictures=options.pictures)
    usual = RLVC(gamma=task.world.gamma)
    small = replace(usual, threshold=options.threshold)
    learners = {
        "usual": usual,
        "coarse": small,
        "coarse, composites": make_learner(
            "default", options.set, replace(small, generator=Composites())
        ),
    }
    print(
        "| run | vocabulary | symbols | success | steps | classes | selected | stages | learn s |"
    )
    print("|---" * 9 + "|")
    success = defaultdict[str, list[float]](list)
    for seed in options.seeds:
        for name, learner in learners.items():
            result = Run(task, learner, seed=seed).execute().result
            n_symbols = result["features"]["distinct"]
            if name != "usual" and n_symbols > MOST_SYMBOLS:
                raise SystemExit(
                    f"A coarse vocabulary must have at most {MOST_SYMBOLS} symbols; got "
                    f"{n_symbols}. Raise --threshold."
                )
            success[name].append(result["measures"]["success"])
            print(f"| seed {seed} | {name} | {_cells(result)} |", flush=True)
    mean = {name: float(np.mean(values)) for name, values in success.items()}
    for name, value in mean.items():
        print(f"mean success, {name}: {value:.3f}")
    lost = mean["usual"] - mean["coarse"]
    recovered = mean["coarse, composites"] - mean["coarse"]
    share = f", {recovered / lost:.0%}" if lost > 0 else ""
    print(f"lost by the coarse vocabulary: {lost:.3f}; recovered by composites: ", end="")
    print(f"{recovered:.3f}{share}")


def _cells(result: dict[str, Any]) -> str:
    measures, features = result["measures"], result["features"]
    steps = measures["mean_steps"]
    return (
        f"{features['distinct']} | {measures['success']:.3f} | "
        f"{'–' if steps is None else f'{steps:.1f}'} | {result['classes']} | "
        f"{features['selected']} | {result['stages']} | {result['seconds']['learn']:.1f}"
    )


@dataclass
class Times:
    """Seconds of every stage of one run.

    Attributes:
        generation: To generate new features.
        selection: To select among the known ones.
    """

    generation: list[float] = field(default_factory=list)
    selection: list[float] = field(default_factory=list)


@dataclass
class TimedGenerator:
    """A generator that measures its own time.

    Attributes:
        inner: The generator.
        is_restarted: Whether it is restarted at every stage, and so has no cache.
        times: The seconds.
        n_known: The number of features that are known at this stage.
        attempt: The number of earlier calls at this stage.
    """

    inner: Generator
    is_restarted: bool
    times: Times
    n_known: int = 0
    attempt: int = 0

    def start(self) -> GeneratorState:
        """Start the inner generator, and return itself."""
        self._state = self.inner.start()
        return self

    def generate(
        self, view: View, is_aliased: NDArray[np.bool_], attempt: int
    ) -> Candidates | None:
        """Return the candidates of the inner generator."""
        if attempt == 0:
            self.times.generation.append(0.0)
            if self.is_restarted:
                self._state = self.inner.start()
        self.n_known, self.attempt = len(view.graph), attempt
        begin = time.perf_counter()
        found = self._state.generate(view, is_aliased, attempt)
        self.times.generation[-1] += time.perf_counter() - begin
        return found


@dataclass
class TimedSelector:
    """A selector that measures its time to select among known features.

    Attributes:
        inner: The selector.
        generator: The generator of the same run.
    """

    inner: Selector
    generator: TimedGenerator

    @property
    def min_samples(self) -> int:
        """The least number of samples on each side."""
        return self.inner.min_samples

    def measure(self, samples: Samples) -> FeatureSums:
        """Return the sums of the inner selector."""
        if self.generator.attempt == 0:
            known = samples.incidence.first(self.generator.n_known)
            residuals = samples.residuals.sums
            begin = time.perf_counter()
            self.inner.choose([self.inner.measure(replace(samples, incidence=known))], residuals)
            self.generator.times.selection.append(time.perf_counter() - begin)
        return self.inner.measure(samples)

    def choose(self, measured: Sequence[FeatureSums], residuals: ResidualSums) -> SplitChoice:
        """Return the choice of the inner selector."""
        return self.inner.choose(measured, residuals)


@contextlib.contextmanager
def timing_exhibits(times: Times) -> Iterator[None]:
    """Count the search for the percepts that exhibit new features as generation."""
    exhibit = ShardFeatures.exhibit

    def timed(*asked: Any) -> list[Incidence]:
        begin = time.perf_counter()
        found = exhibit(*asked)
        times.generation[-1] += time.perf_counter() - begin
        return found

    ShardFeatures.exhibit = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        ShardFeatures.exhibit = exhibit  # type: ignore[method-assign]


def cost(options: argparse.Namespace) -> None:
    """Print generation over selection on the hill."""
    learner = make_learner("default", options.set, HillTask().base_learner())
    env = gymnasium.make(HillTask.env_id, pictures=options.pictures, disable_env_checker=True)
    database = learner.extract(collect(env, 10_000, seed=options.seed))
    stages = list(learner.stages(database))  # compiles kernels
    last = stages[-1]
    print(
        f"hill, {options.pictures}, seed {options.seed}: {last.number} stages, "
        f"{last.classifier.n_classes} classes"
    )
    for is_restarted, name in ((False, "cached"), (True, "restarted at every stage")):
        runs = []
        for _ in range(options.repeats):
            runs.append(Times())
            generator = TimedGenerator(learner.generator, is_restarted, runs[-1])
            selector = TimedSelector(learner.selector, generator)
            timed = replace(learner, generator=generator, selector=selector)
            with timing_exhibits(runs[-1]):
                list(timed.stages(database))
        generation = np.min([one.generation for one in runs], axis=0)
        selection = np.min([one.selection for one in runs], axis=0)
        ratios = (generation / selection).tolist()
        whole, part = generation.sum(), selection.sum()
        print(
            f"{name}: generation {whole:.3f} s over selection {part:.3f} s (at each stage the best "
            f"of {options.repeats}): ratio {whole / part:.2f}, median stage "
            f"{statistics.median(ratios):.2f}, worst stage {max(ratios):.2f} (number "
            f"{int(np.argmax(ratios))}); bound {BOUND:g}",
            flush=True,
        )


def main() -> None:
    """Run one of the two benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(required=True, metavar="coarse|cost")
    one = parts.add_parser("coarse", help="the maze with a coarse vocabulary")
    one.add_argument("--threshold", type=float, default=5.5)
    one.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    one.set_defaults(part=coarse)
    other = parts.add_parser("cost", help="generation over selection, on the hill")
    other.add_argument("--seed", type=int, default=0)
    other.add_argument("--repeats", type=int, default=3)
    other.set_defaults(part=cost)
    for parser_of_part in (one, other):
        parser_of_part.add_argument("--pictures", default="photos")
        parser_of_part.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    options.part(options)


if __name__ == "__main__":
    main()
