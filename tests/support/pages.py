"""Pages about small runs, and what the policy itself says of what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rlvc import RLVC, Policy, load_policy
from rlvc.classifiers import Split, Tree
from rlvc.features import FeatureGraph, Primitive
from rlvc.learning.generation.composites import Composites
from rlvc.policies import AnyPolicy
from rlvc.report import render
from rlvc.report.web import PageBuilder
from rlvc.runs import Run, write_run
from rlvc.tasks import HillTask
from rlvc.vision import Euclidean, FeatureExtractor, Harris, Invariants, Vocabulary
from rlvc.vision.extractor import SIDE
from tests.support.builders import pictures
from tests.support.tasks import (
    run_campus,
    run_custom,
    run_small,
    small_task,
    without_figures,
    write_photographs,
)

KINDS = ("maze", "forest", "campus", "hill", "own")


@dataclass(frozen=True)
class Page:
    """A run in a folder, its page, and the data of the page."""

    kind: str
    folder: Path
    data: dict[str, Any]
    file: Path

    @property
    def policy(self) -> AnyPolicy:
        return load_policy(self.folder / "policy.rlvc")

    @property
    def url(self) -> str:
        return self.file.as_uri()


def write_page(kind: str, folder: Path) -> Page:
    """Learn a small task, and write the page of the run."""
    folder.mkdir(parents=True)
    with without_figures():
        RUNS[kind](folder)
    return page_of(kind, folder)


def page_of(kind: str, folder: Path) -> Page:
    """Write the page of a run that is in a folder."""
    with known(kind):
        data = PageBuilder().describe(folder)
    file = folder / "report.html"
    file.write_text(render(data), encoding="utf-8")
    return Page(kind, folder, data, file)


@contextmanager
def known(kind: str) -> Iterator[None]:
    """Let the small maze be known by its name."""
    if kind not in ("maze", "forest"):
        yield
        return
    with small_task():
        yield


def _maze(folder: Path, trees: int = 0) -> None:
    with small_task():
        write_run(run_small(RLVC(threads=1), interactions=400, trees=trees), folder)


def _campus(folder: Path) -> None:
    photographs = write_photographs(folder / "photographs")
    write_run(run_campus(photographs, interactions=800), folder)


def _hill(folder: Path) -> None:
    learner = RLVC(gamma=0.75, generator=Composites(), max_stages=8)
    write_run(Run(HillTask(interactions=400, episodes=20), learner).execute(), folder)


def _own(folder: Path) -> None:
    env = gymnasium.make(
        "tests.support.worlds:Corridor-v0", kind="cameras", disable_env_checker=True
    )
    run = run_custom(
        env, RLVC(threads=1), interactions=300, rounds=2, episodes=5, source="corridor"
    )
    write_run(run, folder)


RUNS: dict[str, Callable[[Path], None]] = {
    "maze": _maze,
    "forest": lambda folder: _maze(folder, trees=3),
    "campus": _campus,
    "hill": _hill,
    "own": _own,
}


def large_policy(n_classes: int, seed: int = 0) -> Policy:
    """Return a policy that nobody learned, with so many classes."""
    rng = np.random.default_rng(seed)
    tree = Tree()
    n_features = n_classes // 2
    while tree.n_classes < n_classes:
        # As in real ones, most of what is left goes on to the next test.
        which = int(rng.integers(0, min(3, tree.n_classes)))
        tree = tree.refine([Split(which, int(rng.integers(0, n_features)))])
    extractor = FeatureExtractor(Harris(), Invariants(), Euclidean(), 0.0)
    centres = rng.normal(size=(n_features, 8)).astype(np.float32)
    extractor.vocabularies[""] = Vocabulary(extractor.metric, 0.1, centres, is_fitted=True)
    graph, numbers = FeatureGraph(tuple(Primitive("", k) for k in range(n_features))).only(
        tree.features
    )
    return Policy(
        extractor=extractor, graph=graph, classifier=tree.renumber(numbers),
        q=rng.normal(size=(n_classes, 4)),
        count=rng.integers(1, 50, (n_classes, 4)), usage=np.ones(len(graph), np.int64),
        patches=pictures(len(graph), seed, (SIDE, SIDE, 3)), shapes={"": (SIDE, SIDE, 3)},
        gamma=0.9, action_names=("up", "right", "down", "left"),
    )  # fmt: skip
