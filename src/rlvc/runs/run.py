"""A run: collect, extract, learn, grow a forest, evaluate; the same for every task."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Generic

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, PrefixedStore
from rlvc._core.params import as_json
from rlvc.data.interactions import Interactions
from rlvc.learning.database import Database
from rlvc.learning.forest import Forest
from rlvc.learning.rlvc import RLVC
from rlvc.learning.stage import Stage
from rlvc.policies.forest import AnyPolicy, ForestPolicy
from rlvc.policies.policy import Policy
from rlvc.runs.callbacks import Callback, CallbackList, PhaseTimer
from rlvc.runs.checkpoint import Checkpoint
from rlvc.runs.forest import GrownForest
from rlvc.runs.task import E, Task
from rlvc.vision.cache import ExtractionCache

POLICY: Final = "policy.rlvc"
PACKAGES: Final = (
    "rlvc", "gymnasium", "numpy", "scipy", "numba", "opencv-python-headless", "scikit-image",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome(Generic[E]):
    """The outcome of a run, from which files, figures and reports are made.

    Attributes:
        task: The task.
        result: The contents of ``result.json``.
        interactions: The interactions that were learned from.
        policies: The policies of the variants that are saved.
        evaluation: What the task measured.
        forest: The policy of a forest, grown from the same interactions.
    """

    task: Task[E]
    result: dict[str, Any]
    interactions: Interactions
    policies: dict[str, Policy]
    evaluation: E
    forest: ForestPolicy | None = None

    @property
    def policy(self) -> Policy:
        """The policy of one classifier."""
        return self.policies[self.task.main]

    @property
    def best(self) -> AnyPolicy:
        """The policy to act with: the forest if there is one."""
        return self.forest or self.policy


class Run(Generic[E]):
    """Learn a task and evaluate the policies.

    Args:
        task: The task.
        learner: The learner; that of the task unless given.
        seed: Seed of the exploration, the environment, the forest and the evaluation.
        trees: How many trees of a forest to grow as well; 0 for none.
        callbacks: Callbacks that follow the run.
        checkpoint: Where completed work is saved; work that is found there is not repeated.

    Attributes:
        timer: Announces and times the phases.
        cache: The extracted keypoints.
        variants: The learners of the last round, with all that was chosen from the percepts.
        database: The database that they learned from.
        stages: The stages of each variant.
        policies: The policies of the variants that are saved.
        rounds: The numbers of every round of exploration.
        forest: The forest, if one was grown.
    """

    def __init__(
        self,
        task: Task[E],
        learner: RLVC | None = None,
        *,
        seed: int = 0,
        trees: int = 0,
        callbacks: Iterable[Callback] = (),
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.task, self.seed, self.trees = task, int(seed), trees
        self.learner = learner or task.base_learner()
        self.callback = CallbackList(callbacks)
        self.timer = PhaseTimer(self.callback)
        self.checkpoint = checkpoint
        self.store: CheckpointStore = NULL_STORE if checkpoint is None else checkpoint
        self.cache = ExtractionCache(PrefixedStore(self.store, "extract"))
        self.variants: dict[str, RLVC] = {}
        self.database: Database
        self.stages: dict[str, list[Stage]] = {}
        self.policies: dict[str, Policy] = {}
        self.rounds: list[dict[str, Any]] = []
        self.forest: GrownForest | None = None

    def execute(self, folder: Path | None = None) -> Outcome[E]:
        """Do all phases; save the policy in a folder before the evaluation, which may take long."""
        self.task.collect(self)
        if self.trees:
            self._grow_forest()
        forest = self.forest.policy if self.forest else None
        if folder is not None:
            (forest or self.policies[self.task.main]).save(folder / POLICY)
        evaluation, interactions = self.task.evaluate(self), self.database.interactions
        result = {
            "task": self.task.name,
            **self.task.facts,
            "seed": self.seed,
            "interactions": len(interactions),
            "percepts": len(interactions.percepts),
            "seconds": self.timer.seconds,
            **evaluation.numbers,
            "parameters": as_json(self.variants[self.task.main]),
            "versions": versions(),
        }
        return Outcome(self.task, result, interactions, self.policies, evaluation, forest)

    def learn(self, data: Interactions | Database, round_number: int | None = None) -> Policy:
        """Extract features, learn all variants, and return the policy of the main one.

        Args:
            data: What to learn from; keypoints that were extracted before are reused.
            round_number: The round of exploration, if there are several.
        """
        suffix = "" if round_number is None else f" {round_number}"
        begin, learner = partial(self.timer.begin, f"extract{suffix}"), self.learner
        if isinstance(data, Interactions):
            data = learner.extract(data, self.cache, self.callback.on_step, on_begin=begin)
            learner = learner.with_extractor(data.extractor)
        else:
            begin(0)
        self.database, self.variants = data, self.task.variants(learner)
        saved = (self.task.main, *self.task.extra_files)
        for name, variant in self.variants.items():
            with self.timer.phase(f"{name}{suffix}"):
                self.stages[name] = []
                store = PrefixedStore(self.store, f"{name}{suffix}")
                for stage in variant.stages(self.database, store):
                    self.stages[name].append(stage)
                    self.callback.on_stage(stage)
                if name in saved:
                    policy = self.stages[name][-1].policy()
                    about = self.task.about(self.seed, name)
                    self.policies[name] = replace(policy, about=about)
        return self.policies[self.task.main]

    def _grow_forest(self) -> None:
        """Grow a forest beside the classifier."""
        learner, store = self.variants[self.task.forest_base], PrefixedStore(self.store, "forest")
        forest = Forest(learner=learner, trees=self.trees, seed=self.seed)
        with self.timer.phase("forest", self.trees):
            policy = forest.learn(self.database, self.callback.on_step, store=store)
        policy = replace(policy, about=self.task.about(self.seed, "forest"))
        self.forest = GrownForest(forest, policy, self.timer.seconds.pop("forest"))


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    found = {"python": platform.python_version(), **dict.fromkeys(PACKAGES, "unknown")}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):  # it may be installed under another name
            found[name] = metadata.version(name)
    return found
