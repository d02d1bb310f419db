"""A task of one's own, end to end: an environment to act in, or data that was collected before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, PrefixedStore
from rlvc._core.params import as_json
from rlvc.data.explore import EPSILON, INTERACTIONS, ROUNDS, CachedPolicy, Round, explore
from rlvc.data.interactions import Interactions
from rlvc.data.io.folder import read_folder
from rlvc.data.io.minari import read_minari
from rlvc.data.io.npz import read_arrays
from rlvc.data.spaces import shapes_of
from rlvc.learning.database import Database
from rlvc.learning.rlvc import CHOSEN, RLVC, Stage
from rlvc.policies.evaluate import evaluate
from rlvc.policies.forest import AnyPolicy, ForestPolicy
from rlvc.policies.policy import Policy
from rlvc.runs.callbacks import NEW, Callbacks, PhaseTimer, learn_stages, versions
from rlvc.runs.checkpoint import Checkpoint
from rlvc.runs.curves import describe_stage
from rlvc.runs.forests import learn_forest
from rlvc.runs.resources import ResourceEstimate, estimate_collection, estimate_learning
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.extractor import FeatureExtractor

MINARI = "minari:"
ROW = 300  # bytes of an interaction while it is collected
EPISODES = 100  # to measure with, unless told otherwise


@dataclass(frozen=True, slots=True)
class CustomRun:
    """All that came of learning a task of one's own.

    Attributes:
        result: What goes to ``result.json``.
        policy: The policy of one classifier.
        interactions: What it was learned from.
        classes: (n_percepts,) the visual classes of the percepts.
        forest: The policy of a forest, learned from the same interactions.
    """

    result: dict[str, Any]
    policy: Policy
    interactions: Interactions
    classes: NDArray[np.int64]
    forest: ForestPolicy | None = None

    @property
    def best(self) -> AnyPolicy:
        """The policy to act with: the forest if there is one."""
        return self.forest or self.policy


def is_data(source: str) -> bool:
    """Tell whether a source names data, and not an environment.

    >>> [is_data(source) for source in ("minari:maze/random-v0", "log.npz", "logs/", "CartPole-v1")]
    [True, True, True, False]
    """
    begins, ends = (MINARI, "/", "./", "../", "~"), ("/", *DATA_FILES)
    return source.startswith(begins) or source.endswith(ends) or Path(source).exists()


DATA_FILES = (".npz", ".csv", ".parquet")


def read_data(
    source: str,
    *,
    n_actions: int | None = None,
    action_start: int | None = None,
    action_names: tuple[str, ...] = (),
    callbacks: Callbacks | None = None,
    lazy: bool = False,
) -> Interactions:
    """Return the interactions of a Minari dataset, a folder with a table, or a file of arrays.

    With ``lazy``, images that are in files of their own stay there.

    Raises:
        DataError: With all that is wrong with them.
    """
    callbacks = callbacks or Callbacks()
    callbacks.on_phase("read", None)
    if source.startswith(MINARI):
        return read_minari(source.removeprefix(MINARI), on_episode=callbacks.on_step)
    known: dict[str, Any] = {"n_actions": n_actions, "action_names": action_names}
    if source.endswith(".npz"):
        return read_arrays(source, action_start=action_start or 0, **known)
    return read_folder(
        source, on_image=callbacks.on_step, action_start=action_start, lazy=lazy, **known
    )


def seen_with(learner: RLVC, extractor: FeatureExtractor) -> RLVC:
    """Return a learner that sees with what an eye looked with, unless it was told otherwise."""
    found: dict[str, Any] = {name: getattr(extractor, name) for name in (*CHOSEN, "threshold")}
    for name, part in found.items():
        given = getattr(learner, name)
        if given and given != part:
            raise ValueError(
                f"{name} of RLVC must be {part}, which this dataset was made with; got {given}. "
                "Leave it out, or make the dataset again with it."
            )
    return replace(learner, **found)


def learn_task(
    task: str,
    data: Interactions | Database | gymnasium.Env[Any, Any],
    *,
    learner: RLVC | None = None,
    interactions: int = INTERACTIONS,
    rounds: int = ROUNDS,
    epsilon: float = EPSILON,
    seed: int = 0,
    episodes: int = EPISODES,
    trees: int = 0,
    callbacks: Callbacks | None = None,
    keep: Path | None = None,
    checkpoint: Checkpoint | None = None,
) -> CustomRun:
    """Collect and learn in rounds, or learn from data; measure if there is an environment.

    Args:
        task: How to call it.
        data: An environment, or interactions, or what was seen on their images already.
        learner: With which parameters to learn.
        interactions: How many to collect in an environment.
        rounds: In how many rounds; each but the first follows what was learned so far.
        epsilon: The share of random actions in these.
        seed: Of the exploration, of the environment and of a forest.
        episodes: How many to measure with in an environment; 0 for none.
        trees: How many trees of a forest to learn as well; 0 for none.
        callbacks: Who is told how it goes on.
        keep: Where to write the policy before it is measured, which may take long.
        checkpoint: Where to keep what was done, so that it need not be done again after a stop.
    """
    callbacks = callbacks or Callbacks()
    store: CheckpointStore = NULL_STORE if checkpoint is None else checkpoint
    learner, looked = learner or RLVC(), None
    if isinstance(data, Database):
        learner, looked = seen_with(learner, data.extractor), data
        data = data.interactions
    if isinstance(data, Interactions):
        learner = learner.fitted(data.percepts)
    if looked is None:  # what was seen already is there
        callbacks.on_needs(*_needs(data, learner, interactions, trees))
    trainer, history = RoundTrainer(learner, callbacks, store, looked), list[dict[str, Any]]()
    if isinstance(data, gymnasium.Env):
        for one in explore(
            data, trainer.learn, interactions=interactions, rounds=rounds, epsilon=epsilon,
            seed=seed, on_round=trainer.begin_round, on_step=callbacks.on_step,
            store=checkpoint.rounds if checkpoint else None,
        ):  # fmt: skip
            history.append(describe_round(one))
            callbacks.on_round(history[-1])
        met = one.interactions
    else:
        met = data
        trainer.learn(met)
    stage, timer = trainer.stages[-1], trainer.timer
    policy = stage.policy()
    grown = learn_forest(trees, trainer.fitted, stage.database, seed, {}, timer, callbacks, store)
    best = grown.policy if grown else policy
    if keep is not None:
        best.save(keep)
    measures = None
    if isinstance(data, gymnasium.Env) and episodes:
        with timer.phase("evaluate", episodes):
            found = evaluate(
                CachedPolicy(best),
                data,
                episodes=episodes,
                seed=seed + NEW,
                on_episode=callbacks.on_step,
            )
        measures = found.summary()
    result: dict[str, Any] = {
        "task": task,
        "seed": seed,
        "interactions": len(met),
        "episodes": int(met.episode[-1]) + 1,
        "percepts": len(met.percepts),
        "actions": met.n_actions,
        "stages": stage.number,
        "classes": policy.n_classes,
        "features": {
            "distinct": stage.database.extractor.n_symbols,
            "selected": len(policy.classifier.features),
        },
        "seconds": timer.seconds,
        "measures": measures,
        "rounds": history,
        "history": [describe_stage(one) for one in trainer.stages],
        "parameters": as_json(trainer.fitted),
        "versions": versions(),
    }
    if grown is not None:
        result["forest"] = grown.describe(measures or {})
    classes = stage.database.classes(stage.classifier)
    return CustomRun(result, policy, met, classes, grown.policy if grown else None)


def _needs(
    data: Interactions | gymnasium.Env[Any, Any], learner: RLVC, interactions: int, trees: int
) -> tuple[ResourceEstimate, ResourceEstimate | None]:
    """Return what it needs to learn from data, or to collect them: at most, and in any case.

    Nobody knows beforehand how many different images an environment will show.
    """
    if isinstance(data, Interactions):
        return estimate_learning(data, learner, trees), None
    shapes = shapes_of(data.observation_space).values()
    most = estimate_collection(shapes, interactions, learner, trees, keeps_images=True)
    least = estimate_collection(shapes, interactions, learner, images=1)
    return most, replace(least, memory=least.memory + interactions * ROW)


class RoundTrainer:
    """Learn from more and more interactions, and tell how it goes.

    Attributes:
        timer: What took how long.
        fitted: The learner, with all that was chosen from the percepts.
        stages: What was learned last.
    """

    def __init__(
        self,
        learner: RLVC,
        callbacks: Callbacks,
        store: CheckpointStore = NULL_STORE,
        looked: Database | None = None,
    ) -> None:
        self.timer, self.fitted, self.stages = PhaseTimer(callbacks), learner, list[Stage]()
        self._looked = looked  # what was seen on the only interactions there will be
        self._learner, self._watcher, self._keeper = learner, callbacks, store
        self._memory = ExtractionCache(PrefixedStore(store, "look"))
        self._which = ""

    def begin_round(self, number: int, n: int) -> None:
        """Say that a round begins, which collects so many interactions."""
        self._which = f" {number}"
        self.timer.begin(f"collect{self._which}", n)

    def learn(self, met: Interactions) -> Policy:
        """Return what ``RLVC.learn`` would; only percepts that are new are looked at."""
        self.fitted = self._learner.fitted(met.percepts)
        extractor = self.fitted.new_extractor(met.percepts)
        n_new = 0 if self._looked else self._memory.n_new(extractor, met.percepts)
        with self.timer.phase(f"extract{self._which}", n_new):
            database = self._looked or self.fitted.extract(
                met, self._memory, self._watcher.on_step, extractor=extractor
            )
        name = f"learn{self._which}"
        with self.timer.phase(name):
            store = PrefixedStore(self._keeper, name)
            self.stages = learn_stages(self.fitted, database, self._watcher, store)
            return self.stages[-1].policy()


def describe_round(one: Round[Policy]) -> dict[str, Any]:
    """Return the numbers of a round; there are no means if no episode came to an end."""
    is_any = len(one.returns) > 0
    return {
        "round": one.number,
        "interactions": len(one.interactions),
        "episodes": len(one.returns),
        "return": float(one.returns.mean()) if is_any else None,
        "length": float(one.lengths.mean()) if is_any else None,
        "classes": one.policy.n_classes,
    }
