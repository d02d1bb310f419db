"""The campus: the tree and its compaction, learned from the same interactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, PrefixedStore
from rlvc._core.params import as_json
from rlvc.classifiers.base import Classifier
from rlvc.data.collect import collect
from rlvc.data.images import Image
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.data.spaces import shapes_of
from rlvc.envs.campus.graph_world import CAMPUS, GraphWorld
from rlvc.envs.photos.views import DIVISIONS, Views, campus_views
from rlvc.features.incidence import Incidence
from rlvc.learning.compaction import Compaction, Keep, PostProcess
from rlvc.learning.database import Database
from rlvc.learning.mdp import MappedSequence, estimate
from rlvc.learning.rlvc import RLVC, Stage
from rlvc.learning.solvers.base import Solver
from rlvc.policies.forest import AnyPolicy, ForestPolicy
from rlvc.policies.policy import Policy
from rlvc.policies.values import greedy
from rlvc.runs.callbacks import NEW, Callbacks, PhaseTimer, learn_stages, versions
from rlvc.runs.forests import learn_forest, values_of
from rlvc.runs.resources import estimate_collection
from rlvc.tasks.neighbours import vote
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.keypoints import Keypoints

ENV_ID: Final = "rlvc/Campus-v0"
DRAWN: Final = ("photos", "places")  # pictures of which every seed makes other views
ERRORS: Final = {"learn": "train_error", "test": "test_error"}
PAPER: Final[dict[str, Any]] = {
    "distinct": 13367,
    "basic": {"classes": 281, "features": 264, "train_error": 0.001, "test_error": 0.08},
    "compact": {"classes": 59, "features": 171, "train_error": 0.0, "test_error": 0.045},
}


def base_learner() -> RLVC:
    """Return the learner of the campus: the usual one, with the discount factor of the task."""
    return RLVC(gamma=CAMPUS.gamma)


@dataclass(frozen=True, slots=True)
class Sights:
    """The views of one division, and what they show.

    Attributes:
        state: (n,) the state that each view shows.
        shown: Which view exhibits which feature.
    """

    state: NDArray[np.int64]
    shown: Incidence

    def is_optimal(self, classifier: Classifier, actions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each view whether the action of its class is optimal."""
        return CAMPUS.is_optimal(actions[classifier.classify(self.shown)], self.state)

    def optimal_by_state(self, stage: Stage) -> NDArray[np.float64]:
        """Return the (n_states,) share of views on which the action of a stage is optimal."""
        is_optimal = self.is_optimal(stage.classifier, stage.actions())
        return share_by_state(is_optimal, self.state)


@dataclass(frozen=True, slots=True)
class Division:
    """The views of one division, and what an eye saw on them.

    Attributes:
        state: (n,) the state that each view shows.
        number: (n,) which of the percepts it is.
        percepts: The distinct views.
        keypoints: What the eye saw.
    """

    state: NDArray[np.int64]
    number: NDArray[np.int64]
    percepts: Percepts
    keypoints: Keypoints

    def sights(self, database: Database) -> Sights:
        """Return what the views show of the features that a database knows."""
        shown = database.index_of(self.percepts, keypoints=[self.keypoints]).incidence
        return Sights(self.state, shown.take(self.number))

    def is_optimal(self, forest: ForestPolicy, database: Database) -> NDArray[np.bool_]:
        """Return for each view whether the action of a forest is optimal."""
        actions = greedy(
            *values_of(forest, database.index_of(self.percepts, keypoints=[self.keypoints]))
        )
        return CAMPUS.is_optimal(actions[self.number], self.state)


@dataclass(frozen=True, slots=True)
class CampusRun:
    """All that a run found: what is written, drawn and reported.

    Attributes:
        result: What goes to ``result.json``.
        policies: The policy of each version.
        views: The pictures.
        spots: The campus.
        optimal: For each version, and for the forest, the (n_states,) share of test views on which
            its action is optimal.
        forest: The policy of a forest, learned from the same interactions.
    """

    result: dict[str, Any]
    policies: dict[str, Policy]
    views: Views
    spots: GraphWorld
    optimal: dict[str, NDArray[np.float64]]
    forest: ForestPolicy | None = None

    @property
    def best(self) -> AnyPolicy:
        """The policy to act with: the forest if there is one."""
        return self.forest or self.policies["compact"]


def run(
    *,
    pictures: str = "photos",
    seed: int = 0,
    interactions: int = 10_000,
    trees: int = 0,
    learner: RLVC | None = None,
    callbacks: Callbacks | None = None,
    store: CheckpointStore = NULL_STORE,
) -> CampusRun:
    """Collect, look, learn with the tree and with compaction, measure on views not seen before.

    Args:
        pictures: What the campus looks like.
        seed: Of the views, of their division, of the exploration and of the environment.
        interactions: How many random interactions to learn from.
        trees: How many trees of a forest to learn as well; 0 for none.
        learner: With which parameters to learn; its post-processing is that of the compact version.
        callbacks: Who is told how it goes on.
        store: Who keeps what was done, so that it need not be done again after a stop.
    """
    callbacks = callbacks or Callbacks()
    learner = learner or base_learner()
    seed = int(seed)
    timer = PhaseTimer(callbacks)
    views = campus_views(pictures, seed)
    env = gymnasium.make(ENV_ID, pictures=pictures, views_seed=seed, disable_env_checker=True)
    shapes = shapes_of(env.observation_space).values()
    n_views = sum(map(len, views.division("learn")))  # all of them, whether they are met or not
    needs = estimate_collection(shapes, max(interactions, n_views), learner, trees, images=n_views)
    callbacks.on_needs(needs, None)
    with timer.phase("collect", interactions):
        data = collect(env, interactions, seed=seed, state="state", on_step=callbacks.on_step)
    learner, database, looked, voted = _look(views, data, learner, timer, callbacks, store)
    learners = {
        "basic": replace(learner, post_process=Keep()),
        "compact": compact_learner(learner),
    }
    found: dict[str, dict[str, Any]] = {}
    policies: dict[str, Policy] = {}
    optimal: dict[str, NDArray[np.float64]] = {}
    about = {"task": "campus", "pictures": str(pictures), "seed": str(seed)}
    for version, one in learners.items():
        with timer.phase(version):
            stages = learn_stages(one, database, callbacks, PrefixedStore(store, version))
            sights = {name: at.sights(stages[-1].database) for name, at in looked.items()}
        lines = [_line(stage, sights) for stage in stages]
        policies[version] = replace(stages[-1].policy(), about={**about, "version": version})
        optimal[version] = sights["test"].optimal_by_state(stages[-1])
        found[version] = {
            **lines[-1],
            "stages": stages[-1].number,
            "seconds": timer.seconds[version],
            "history": [
                {
                    "stage": stage.number,
                    **line,
                    "residual": stage.residual,
                    "aliased": stage.n_aliased,
                }
                for stage, line in zip(stages, lines, strict=True)
            ],
        }
    as_forest = {**about, "version": "forest"}
    grown = learn_forest(
        trees, learners["basic"], database, seed, as_forest, timer, callbacks, store
    )
    if grown is not None:
        is_optimal = {name: at.is_optimal(grown.policy, database) for name, at in looked.items()}
        optimal["forest"] = share_by_state(is_optimal["test"], looked["test"].state)
        errors = {ERRORS[name]: float(1.0 - right.mean()) for name, right in is_optimal.items()}
        found["forest"] = grown.describe(errors)
    best = CAMPUS.optimal_q().argmax(axis=1)
    seconds = timer.seconds
    result = {
        "task": "campus",
        "pictures": str(pictures),
        "seed": seed,
        "interactions": interactions,
        "percepts": len(data.percepts),
        "features": {"distinct": database.extractor.n_symbols},
        **found,
        "ceiling": error_of(best[voted], looked["test"].state),
        "direct": direct_error(data, learner.solver, learner.gamma),
        "seconds": {
            "collect": seconds["collect"],
            "extract": seconds["extract"],
            "learn": seconds["basic"] + seconds["compact"],
            "evaluate": seconds["test"] + seconds["vote"],
        },
        "paper": PAPER,
        "parameters": as_json(learners["compact"]),
        "versions": versions(),
    }
    voting = grown.policy if grown else None
    return CampusRun(result, policies, views, CAMPUS, optimal, voting)


def _look(
    views: Views,
    data: Interactions,
    learner: RLVC,
    timer: PhaseTimer,
    callbacks: Callbacks,
    store: CheckpointStore,
) -> tuple[RLVC, Database, dict[str, Division], NDArray[np.int64]]:
    """Look at all views; return the fitted learner, the database, both divisions, and a vote."""
    # With few interactions the agent may miss some views; that is no reason not to measure on them.
    state, images = _division(views, "learn")
    number = np.asarray([data.percepts.add(image) for image in images])
    with timer.phase("extract", len(data.percepts)):
        learner = learner.fitted(data.percepts)
        extractor = learner.new_extractor(data.percepts)
        memory = ExtractionCache(PrefixedStore(store, "look"))
        how = learner.threads, callbacks.on_step, learner.engine.extract
        (keypoints,) = memory.extract(extractor, data.percepts, *how)
        database = learner.extract(data, memory, extractor=extractor)
    test_state, images = _division(views, "test")
    test = Percepts()
    test_number = np.asarray([test.add(image) for image in images])
    with timer.phase("test", len(test)):
        memory = ExtractionCache(PrefixedStore(store, "test"))
        (test_looks,) = memory.extract(extractor, test, *how)
    with timer.phase("vote"):
        state_of_image = np.zeros(len(data.percepts), np.int64)
        state_of_image[number] = state
        voted = vote(keypoints, state_of_image, test_looks)[test_number]
    looked = {
        "learn": Division(state, number, data.percepts, keypoints),
        "test": Division(test_state, test_number, test, test_looks),
    }
    return learner, database, looked, voted


def compact_learner(learner: RLVC) -> RLVC:
    """Return the learner of the compact version."""
    return replace(learner, post_process=compaction_of(learner))


def compaction_of(learner: RLVC) -> PostProcess:
    """Return the post-processing of the compact version: the learner's own, if it has one."""
    return Compaction() if isinstance(learner.post_process, Keep) else learner.post_process


def share_by_state(is_optimal: NDArray[np.bool_], state: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the (n_states,) share of the views of each state on which an action is optimal."""
    return np.bincount(state, is_optimal) / np.bincount(state)


def error_of(actions: NDArray[np.int64], states: NDArray[np.int64]) -> float:
    """Return the share of actions that are not optimal in the state beside them."""
    return float(1.0 - CAMPUS.is_optimal(actions, states).mean())


def _division(views: Views, name: str) -> tuple[NDArray[np.int64], Iterator[Image]]:
    """Return the states of the views of one division, and the views."""
    pairs = [(s, view) for s, numbers in enumerate(views.division(name)) for view in numbers]
    states = np.asarray([state for state, _ in pairs], np.int64)
    return states, (views.image(state, view) for state, view in pairs)


def _line(stage: Stage, sights: dict[str, Sights]) -> dict[str, Any]:
    """Return what is reported of a stage."""
    actions = stage.actions()  # solved once for both divisions
    right = {name: at.is_optimal(stage.classifier, actions) for name, at in sights.items()}
    return {
        "classes": stage.classifier.n_classes,
        "features": len(stage.classifier.features),
        "train_error": float(1.0 - right["learn"].mean()),
        "test_error": float(1.0 - right["test"].mean()),
    }


def direct_error(data: Interactions, solver: Solver, gamma: float) -> float:
    """Return the share of states in which tabular learning on the state itself goes wrong."""
    assert data.state is not None
    assert data.next_state is not None
    sequence = MappedSequence(
        data.state.astype(np.int64).ravel(), data.action, data.reward,
        data.next_state.astype(np.int64).ravel(), data.terminated, data.is_last,
    )  # fmt: skip
    mdp = estimate(sequence, CAMPUS.n_states, data.n_actions)
    actions = greedy(solver.solve(mdp, gamma), mdp.is_tried)
    return error_of(actions, np.arange(CAMPUS.n_states))


def evaluate_policy(
    policy: AnyPolicy, *, pictures: str | None = None, seed: int | None = None
) -> dict[str, Any]:
    """Return the error of a policy on both divisions of the views that a seed gives.

    Views that are drawn are new, in both divisions, unless it was learned with the same seed.
    Photographs in a folder stay the same, so unless told otherwise they are divided as they were to
    learn from.
    """
    own = policy.about if policy.about.get("task") == "campus" else {}
    pictures = pictures or own.get("pictures", "photos")
    if seed is None:
        seed = NEW if pictures in DRAWN else int(own.get("seed", 0))
    if policy.n_actions != CAMPUS.reward.shape[1]:
        raise ValueError(
            f"The actions of the policy must be those of the campus, {CAMPUS.reward.shape[1]}; "
            f"got {policy.n_actions}."
        )
    views = campus_views(pictures, seed)
    errors = {}
    for name in DIVISIONS:
        states, images = _division(views, name)
        actions = np.asarray([int(policy.predict(image)[0]) for image in images])
        errors[ERRORS[name]] = error_of(actions - policy.action_start, states)
    return {"task": "campus", "pictures": pictures, "seed": seed, **errors}
