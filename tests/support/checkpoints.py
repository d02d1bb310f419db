"""The records of a small run, and how to resume from each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc import RLVC, Database, Interactions
from rlvc._core.archive import read_archive
from rlvc._core.checkpoint_store import CheckpointStore, Record
from rlvc.classifiers import Tree
from rlvc.learning import forest_trees
from rlvc.learning.decisions import Decision, Decisions
from rlvc.runs.checkpoint import FORMAT, VERSION
from rlvc.vision import ExtractionCache, Harris, Invariants, Keypoints, Mahalanobis

Parts = dict[str, tuple[dict[str, Any], dict[str, NDArray[Any]]]]


class Recorder(CheckpointStore):
    """Keep records in memory, some of them from the start."""

    def __init__(self, parts: Mapping[str, Record] | None = None) -> None:
        self.parts: Parts = dict(parts or {})

    def load(self, name: str) -> Record | None:
        return self.parts.get(name)

    def save(
        self, name: str, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Keep a record as it would be written."""
        copied = {key: np.array(one) for key, one in arrays.items()}
        self.parts[name] = {**manifest, "format": FORMAT, "version": VERSION}, copied


class OneFile(CheckpointStore):
    """Load one record from a file, and no others."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path

    def load(self, name: str) -> Record | None:
        """Return the record, once."""
        path, self._path = self._path, None
        return None if path is None else read_archive(path, FORMAT, VERSION)


LEARNER = RLVC(
    detector=Harris(), descriptor=Invariants(), metric=Mahalanobis(), threshold=1.0, threads=1
)


@cache
def database() -> Database:
    """Return a few interactions, with the features of their percepts."""
    coarse = np.random.default_rng(3).integers(0, 256, (4, 6, 6, 3), dtype=np.uint8)
    images = coarse.repeat(8, axis=1).repeat(8, axis=2)
    place, action = np.arange(48) % 4, np.arange(48) // 4 % 3
    views = images[place]
    data = Interactions.from_arrays(
        views, action, place % 3 == action, np.ones(48, bool), next_observations=views
    )
    return LEARNER.extract(data)


@cache
def parts() -> Parts:
    """Return the records of a run: its settings, a stage, a tree, and keypoints."""
    recorder, data = Recorder(), database()
    recorder.save("run", {"command": ["learn", "maze"], "seed": 3, "packages": {"rlvc": "1"}}, {})
    *_, last = LEARNER.stages(data, recorder)
    ExtractionCache(recorder).extract(
        LEARNER.new_extractor(data.interactions.percepts), data.interactions.percepts
    )
    classes = last.classifier.classify(last.database.incidence)
    policy = last.policy()
    policy = replace(policy, patches=policy.patches[:, :2, :2])  # small, to be broken elsewhere
    grown = forest_trees.GrownTree(policy, classes, np.ones(len(data.interactions), bool))
    forest_trees.save_tree(recorder, 0, grown)
    return recorder.parts


def keypoints_record() -> Record:
    """Return the record of the keypoints."""
    (part,) = (part for part in parts().values() if "xy" in part[1])
    return part


def load_run(path: Path) -> dict[str, Any]:
    """Return the settings of a run."""
    return read_archive(path, FORMAT, VERSION)[0]


def load_stage(path: Path) -> Decision:
    """Resume from the decision of the first stage."""
    view = database().view(Tree(), LEARNER.absorbing_gamma)
    q = LEARNER.solver.solve(view.mdp, LEARNER.gamma)
    residuals, is_aliased = view.residuals(q, LEARNER.gamma), np.ones(1, np.bool_)
    return Decisions(OneFile(path), _refuse)(0, view, residuals, is_aliased)


def _refuse(*_: Any) -> Decision:
    raise AssertionError("a stage that was saved must not be decided again")


def load_tree(path: Path) -> forest_trees.GrownTree:
    """Resume from a tree."""
    found = forest_trees.load_tree(OneFile(path), 0, database())
    assert found is not None
    return found


def load_keypoints(path: Path) -> list[Keypoints]:
    """Resume from keypoints."""
    percepts = database().interactions.percepts
    return ExtractionCache(OneFile(path)).extract(LEARNER.new_extractor(percepts), percepts)


def split(decision: Decision) -> None:
    """Split the one class of all percepts."""
    tree = Tree().refine(decision.splits)
    assert len(tree.classify(decision.database.incidence)) == len(database().interactions.percepts)


def see(keypoints: list[Keypoints]) -> None:
    """Learn symbols from keypoints."""
    percepts = database().interactions.percepts
    extractor = LEARNER.new_extractor(percepts)
    extractor.find_symbols(percepts, keypoints)
    assert extractor.n_symbols > 0
