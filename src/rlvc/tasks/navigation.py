"""The maze and the subway, end to end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore, PrefixedStore
from rlvc._core.params import as_json
from rlvc.data.collect import collect
from rlvc.data.percepts import Percepts
from rlvc.data.spaces import shapes_of
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import MAZE, SUBWAY, PlanarWorld
from rlvc.errors import unknown_name
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.learning.database import Database
from rlvc.learning.rlvc import RLVC, Stage
from rlvc.policies.forest import AnyPolicy, ForestPolicy
from rlvc.policies.policy import Policy
from rlvc.policies.values import greedy
from rlvc.runs.callbacks import Callbacks, PhaseTimer, learn_stages, versions
from rlvc.runs.direct_perception import compare
from rlvc.runs.forests import learn_forest, values_of
from rlvc.runs.metrics import (
    EPISODES,
    Actor,
    Grid,
    Measures,
    grid_over,
    measure,
    optimal_actor,
    policy_actor,
    walk,
)
from rlvc.runs.resources import SAMPLE, estimate_collection
from rlvc.vision.cache import ExtractionCache


@dataclass(frozen=True, slots=True)
class Task:
    """A task that is pinned, so that numbers compare.

    Attributes:
        name: How the command line calls it.
        env_id: How Gymnasium calls it.
        world: Its dynamics.
        paper: What the paper reports: classes, selected features, distinct features, stages.
    """

    name: str
    env_id: str
    world: PlanarWorld
    paper: dict[str, int] = field(default_factory=dict)


TASKS: Final = {
    "maze": Task(
        "maze",
        "rlvc/Maze-v0",
        MAZE,
        {"classes": 205, "selected": 200, "distinct": 2298, "stages": 84},
    ),
    "subway": Task(
        "subway",
        "rlvc/Subway-v0",
        SUBWAY,
        {"classes": 149, "selected": 144, "distinct": 3739, "stages": 101},
    ),
}


def find_task(name: str) -> Task:
    """Return a task by name, or suggest the nearest."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


@dataclass(frozen=True, slots=True)
class Run:
    """All that a run found: what is written, drawn and reported.

    Attributes:
        result: What goes to ``result.json``.
        policy: The policy of one classifier.
        env: The environment.
        grid: The positions at which the policy was sampled.
        actions: (n,) what the agent does there: the forest if there is one, or else the classifier.
        values: (n,) the values of these actions.
        forest: The policy of a forest, learned from the same interactions.
    """

    result: dict[str, Any]
    policy: Policy
    env: PictureEnv
    grid: Grid
    actions: NDArray[np.int64]
    values: NDArray[np.float64]
    forest: ForestPolicy | None = None

    @property
    def best(self) -> AnyPolicy:
        """The policy to act with: the forest if there is one."""
        return self.forest or self.policy


def run(
    task: Task,
    *,
    pictures: str = "photos",
    seed: int = 0,
    interactions: int = 10_000,
    episodes: int = EPISODES,
    trees: int = 0,
    learner: RLVC | None = None,
    callbacks: Callbacks | None = None,
    store: CheckpointStore = NULL_STORE,
) -> Run:
    """Collect, look, learn, measure, compare.

    Args:
        task: The task.
        pictures: What the ground looks like.
        seed: Of the exploration, of the environment and of the episodes that are measured.
        interactions: How many random interactions to learn from.
        episodes: How many episodes to measure with.
        trees: How many trees of a forest to learn as well; 0 for none.
        learner: With which parameters to learn.
        callbacks: Who is told how it goes on.
        store: Who keeps what was done, so that it need not be done again after a stop.
    """
    callbacks = callbacks or Callbacks()
    learner = learner or RLVC(gamma=task.world.gamma)
    timer = PhaseTimer(callbacks)
    episodic = gymnasium.make(task.env_id, pictures=pictures, disable_env_checker=True)
    env = episodic.unwrapped
    assert isinstance(env, PictureEnv)
    shapes = shapes_of(env.observation_space).values()
    sample = collect(episodic, min(SAMPLE, interactions), seed=seed)
    needs = estimate_collection(shapes, interactions, learner, trees, sample=sample)
    callbacks.on_needs(needs, None)
    with timer.phase("collect", interactions):
        data = collect(
            episodic, interactions, seed=seed, state="position", on_step=callbacks.on_step
        )
    with timer.phase("extract", sum(map(len, data.percepts.images))):
        learner = learner.fitted(data.percepts)
        memory = ExtractionCache(PrefixedStore(store, "look"))
        database = learner.extract(data, memory, callbacks.on_step)
    with timer.phase("learn"):
        stages = learn_stages(learner, database, callbacks, PrefixedStore(store, "learn"))
        policy = stages[-1].policy()
    about = {"task": task.name, "pictures": pictures}
    policy = replace(policy, about=about)
    grown = learn_forest(trees, learner, database, seed, about, timer, callbacks, store)
    with timer.phase("evaluate"):
        grid = grid_over(task.world)
        seen = see_grid(env, grid, stages[-1].database, learner.threads)
        shown = seen.incidence
        history = [_history(stage, grid, shown, seed, episodes) for stage in stages]
        found: dict[str, Any] = {
            "measures": Measures(
                *walk(task.world, policy_actor(env, policy), _rng(seed), episodes),
                history[-1]["suboptimal"],  # of the same percepts, looked at already
            ).as_dict(),
            "direct": compare(
                grid, data, policy.n_classes, learner.solver, learner.gamma, seed, episodes
            ),
            "optimum": measure(grid, optimal_actor(task.world), _rng(seed), episodes).as_dict(),
        }
        last = stages[-1]
        classes = last.classifier.classify(shown)
        actions, values = policy.actions[classes], policy.q.max(axis=1)[classes]
        if grown is not None:
            q, is_tried = values_of(grown.policy, seen)
            actions, values = greedy(q, is_tried), np.where(is_tried, q, -np.inf).max(axis=1)
            walked = walk(task.world, policy_actor(env, grown.policy), _rng(seed), episodes)
            measures = Measures(*walked, grid.suboptimal(actions))
            found["forest"] = grown.describe(measures.as_dict())
    result = {
        "task": task.name,
        "pictures": pictures,
        "seed": seed,
        "interactions": interactions,
        "percepts": len(data.percepts),
        "stages": last.number,
        "classes": policy.n_classes,
        "features": {
            "distinct": database.extractor.n_symbols,
            "selected": len(policy.classifier.features),
        },
        "seconds": timer.seconds,
        **found,
        "paper": task.paper,
        "history": history,
        "parameters": as_json(learner),
        "versions": versions(),
    }
    voting = grown.policy if grown else None
    return Run(result, policy, env, grid, actions, values, voting)


def see_grid(env: PictureEnv, grid: Grid, database: Database, threads: int = 0) -> FeatureIndex:
    """Return what the percepts at the grid's positions show of the known features, row by row."""
    percepts = Percepts()
    numbers = [percepts.add(env.percept(position)) for position in grid.positions]
    seen = database.index_of(percepts, threads)
    return seen.of_percepts(seen.table[numbers])


def look_at_grid(env: PictureEnv, grid: Grid, database: Database, threads: int = 0) -> Incidence:
    """Return the known features that the percepts at the grid's positions exhibit, row by row."""
    return see_grid(env, grid, database, threads).incidence


def measure_policy(
    grid: Grid, env: PictureEnv, policy: AnyPolicy, seed: int, episodes: int = EPISODES
) -> Measures:
    """Return the measures of a policy that looks at every percept on its way."""
    return measure(grid, policy_actor(env, policy), _rng(seed), episodes)


def evaluate_policy(
    policy: AnyPolicy,
    *,
    task: str | None = None,
    pictures: str | None = None,
    seed: int = 0,
    episodes: int = EPISODES,
) -> dict[str, Any]:
    """Return the measures of a policy on the task that it was learned on, or on another."""
    name = task or policy.about.get("task")
    if name is None:
        raise ValueError(
            "The policy does not say which task it is for; give the id of its environment, or name "
            "a task of `rlvc run` with --task."
        )
    chosen = find_task(name)
    own = policy.about if policy.about.get("task") == name else {}
    shown = pictures or own.get("pictures", "photos")
    env = gymnasium.make(chosen.env_id, pictures=shown, disable_env_checker=True).unwrapped
    assert isinstance(env, PictureEnv)
    if policy.n_actions != len(env.action_names):
        raise ValueError(
            f"The actions of the policy must be those of the {name}, {len(env.action_names)}; "
            f"got {policy.n_actions}."
        )
    measures = measure_policy(grid_over(chosen.world), env, policy, seed, episodes)
    return {"task": name, "pictures": shown, **measures.as_dict()}


def _history(
    stage: Stage, grid: Grid, shown: Incidence, seed: int, episodes: int
) -> dict[str, Any]:
    """Return a line of the history.

    Its success is that of an agent who perceives, wherever it is, the percept of the nearest
    position of the grid: close to the truth, and affordable for every stage.
    """
    actions = stage.actions()[stage.classifier.classify(shown)]
    act: Actor = lambda positions: actions[grid.nearest(positions)]  # noqa: E731
    success, mean_steps = walk(grid.world, act, _rng(seed), episodes)
    return {
        "stage": stage.number,
        "classes": stage.classifier.n_classes,
        "features": len(stage.classifier.features),
        "residual": stage.residual,
        "aliased": stage.n_aliased,
        "success": success,
        "mean_steps": mean_steps if np.isfinite(mean_steps) else None,
        "suboptimal": grid.suboptimal(actions),
    }


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 2])  # apart from the exploration's
