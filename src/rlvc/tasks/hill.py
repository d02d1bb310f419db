"""The car on the hill: composite features, and what is learned without them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Floats
from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, PrefixedStore
from rlvc._core.params import as_json
from rlvc.data.collect import collect
from rlvc.data.spaces import shapes_of
from rlvc.envs.hill.dynamics import ACTION_NAMES, HILL
from rlvc.envs.hill.env import HillEnv
from rlvc.learning.generation.base import Canonical
from rlvc.learning.rlvc import RLVC, Stage
from rlvc.policies.forest import AnyPolicy, ForestPolicy
from rlvc.policies.policy import Policy
from rlvc.policies.values import greedy
from rlvc.runs.callbacks import NEW, Callbacks, PhaseTimer, learn_stages, versions
from rlvc.runs.forests import learn_forest
from rlvc.runs.resources import estimate_collection
from rlvc.tasks.hill_index import (
    GAUGE,
    GROUND,
    N_IMAGES,
    Sights,
    actions_of,
    actor,
    see_hill,
    values_of_forest,
)
from rlvc.tasks.hill_metrics import (
    PAPER_SIDE,
    TRIALS,
    Table,
    as_dict,
    compare,
    optimal_action,
    starts,
)
from rlvc.tasks.hill_metrics import trials as drive
from rlvc.vision.cache import ExtractionCache

ENV_ID: Final = "rlvc/Hill-v0"
PAPER: Final = {
    "distinct": 88,
    "selected": 91,
    "classes": 157,
    "stages": 38,
    "cells": PAPER_SIDE**2,
}


def base_learner() -> RLVC:
    """Return the learner of the hill: the usual one, with the discount factor of the task."""
    return RLVC(gamma=HILL.gamma)


@dataclass(frozen=True, slots=True)
class HillRun:
    """All that a run found: what is written, drawn and reported.

    Attributes:
        result: What goes to ``result.json``.
        policy: The policy of one classifier.
        env: The environment.
        sights: What every image shows of the policy's features.
        actions: (361, 1025) what the car does, rows by velocity, columns by position: the forest if
            there is one, or else the classifier.
        values: (361, 1025) the values of these actions.
        direct: What direct perception learned on the paper's grid.
        forest: The policy of a forest, learned from the same interactions.
    """

    result: dict[str, Any]
    policy: Policy
    env: HillEnv
    sights: Sights = field(repr=False)
    actions: NDArray[np.int64] = field(repr=False)
    values: Floats = field(repr=False)
    direct: Table
    forest: ForestPolicy | None = None

    @property
    def best(self) -> AnyPolicy:
        """The policy to act with: the forest if there is one."""
        return self.forest or self.policy


def run(
    *,
    pictures: str = "photos",
    seed: int = 0,
    interactions: int = 10_000,
    trials: int = TRIALS,
    trees: int = 0,
    learner: RLVC | None = None,
    callbacks: Callbacks | None = None,
    store: CheckpointStore = NULL_STORE,
) -> HillRun:
    """Collect, look, learn with composite features and without, measure every stage.

    Args:
        pictures: What the ground looks like.
        seed: Of the exploration, of the environment and of the trials that are measured.
        interactions: How many random interactions to learn from.
        trials: How many trials from rest to measure every stage with.
        trees: How many trees of a forest to learn as well; 0 for none.
        learner: With which parameters to learn.
        callbacks: Who is told how it goes on.
        store: Who keeps what was done, so that it need not be done again after a stop.
    """
    callbacks = callbacks or Callbacks()
    learner = learner or base_learner()
    seed = int(seed)
    timer = PhaseTimer(callbacks)
    episodic = gymnasium.make(ENV_ID, pictures=pictures, disable_env_checker=True)
    env = episodic.unwrapped
    assert isinstance(env, HillEnv)
    shapes = shapes_of(env.observation_space).values()
    needs = estimate_collection(shapes, interactions, learner, trees, images=N_IMAGES)
    callbacks.on_needs(needs, None)
    with timer.phase("collect", interactions):
        data = collect(episodic, interactions, seed=seed, state="state", on_step=callbacks.on_step)
    with timer.phase("extract", sum(map(len, data.percepts.images))):
        learner = learner.fitted(data.percepts)
        memory = ExtractionCache(PrefixedStore(store, "look"))
        database = learner.extract(data, memory, callbacks.on_step)
    with timer.phase("learn"):
        stages = learn_stages(learner, database, callbacks, PrefixedStore(store, "learn"))
    simple = stages
    if not isinstance(learner.generator, Canonical):
        with timer.phase("primitive"):
            plain, kept = replace(learner, generator=Canonical()), PrefixedStore(store, "primitive")
            simple = learn_stages(plain, database, callbacks, kept)
    about = {"task": "hill", "pictures": str(pictures)}
    grown = learn_forest(trees, learner, database, seed, about, timer, callbacks, store)
    n_steps = len(stages) + (0 if simple is stages else len(simple))
    with timer.phase("evaluate", N_IMAGES + n_steps):
        last = stages[-1]
        graph = last.database.graph
        seen = see_hill(database.extractor, graph, env.strip, learner.threads, callbacks.on_step)
        sights, begin = Sights.of_sightings(seen), starts(seed, trials)
        history = alone = _history(stages, sights, begin, callbacks)
        if simple is not stages:  # what it tests has other numbers
            others = Sights.of_sightings(seen, simple[-1].database.graph)
            alone = _history(simple, others, begin, callbacks)
        direct = compare(data, last.classifier.n_classes, learner.solver, learner.gamma, begin)
        optimum = as_dict(*drive(optimal_action, begin))
        policy = replace(last.policy(), about=about)
        shown = sights.only(last.classifier.features.tolist())
        classes = shown.classify(policy.classifier, learner.threads)
        actions, values = policy.actions[classes], policy.values[classes]
        more = {}
        if grown is not None:
            q, is_tried = values_of_forest(grown.policy, seen, learner.threads)
            actions, values = greedy(q, is_tried), np.where(is_tried, q, -np.inf).max(axis=2)
            more["forest"] = grown.describe(as_dict(*drive(actor(actions), begin)))
    seconds = timer.seconds
    unaided = seconds.pop("primitive", seconds["learn"])
    result = {
        "task": "hill",
        "pictures": str(pictures),
        "seed": seed,
        "interactions": interactions,
        "percepts": len(data.percepts),
        "images": {images.camera: len(images) for images in data.percepts.images},
        "stages": last.number,
        "classes": policy.n_classes,
        "features": _count(policy, database.extractor.n_symbols),
        "seconds": seconds,
        "measures": _measures(history[-1]),
        "direct": direct,
        "optimum": optimum,
        "primitive_only": {
            "stages": simple[-1].number,
            "classes": simple[-1].classifier.n_classes,
            "features": len(simple[-1].classifier.features),
            "seconds": unaided,
            "measures": _measures(alone[-1]),
            "history": alone,
        },
        **more,
        "paper": PAPER,
        "history": history,
        "parameters": as_json(learner),
        "versions": versions(),
    }
    table = Table.learn(data, PAPER_SIDE, learner.solver, learner.gamma)
    voting = grown.policy if grown else None
    return HillRun(result, policy, env, shown, actions, values, table, voting)


def _history(
    stages: Iterable[Stage], sights: Sights, begin: Floats, callbacks: Callbacks
) -> list[dict[str, Any]]:
    """Return what is reported of every stage; the same trials measure all of them."""
    graph = sights.graph
    is_composite = np.array([graph.is_arranged(number) for number in range(len(graph))])
    lines = []
    for stage in stages:
        features = stage.classifier.features
        actions = stage.actions()[sights.classify(stage.classifier)]
        lines.append(
            {
                "stage": stage.number,
                "classes": stage.classifier.n_classes,
                "features": len(features),
                "composite": int(is_composite[features].sum()),
                "residual": stage.residual,
                "aliased": stage.n_aliased,
                **as_dict(*drive(actor(actions), begin)),
            }
        )
        callbacks.on_step()
    return lines


def _measures(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("missed", "mean_steps")}


def _count(policy: Policy, distinct: int) -> dict[str, Any]:
    """Return how many features there are, are tested, and are composite, by camera as well."""
    tested, graph = policy.classifier.features.tolist(), policy.graph
    cameras = [graph.camera[number] for number in tested if graph.is_arranged(number)]
    return {
        "distinct": distinct,
        "selected": len(tested),
        "composite": len(cameras),
        "composite_by_camera": {name: cameras.count(name) for name in (GROUND, GAUGE)},
    }


def evaluate_policy(
    policy: AnyPolicy, *, pictures: str | None = None, seed: int = NEW, trials: int = TRIALS
) -> dict[str, Any]:
    """Return the measures of a policy, in trials from rest that it is new to."""
    if sorted(policy.shapes) != sorted((GROUND, GAUGE)):
        cameras = ", ".join(filter(None, sorted(policy.shapes))) or "a single one"
        raise ValueError(
            f"The cameras of the policy must be those of the hill, {GAUGE} and {GROUND}; "
            f"got {cameras}."
        )
    if policy.n_actions != len(ACTION_NAMES):
        raise ValueError(
            f"The actions of the policy must be those of the hill, {len(ACTION_NAMES)}; "
            f"got {policy.n_actions}."
        )
    own = policy.about if policy.about.get("task") == "hill" else {}
    shown = pictures or own.get("pictures", "photos")
    env = gymnasium.make(ENV_ID, pictures=shown, disable_env_checker=True).unwrapped
    assert isinstance(env, HillEnv)
    found = drive(actor(actions_of(policy, env.strip)), starts(seed, trials))
    return {"task": "hill", "pictures": shown, **as_dict(*found)}
