"""The maze and the subway, end to end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc.envs.picture import PictureEnv
from rlvc.envs.world import MAZE, SUBWAY, World
from rlvc.errors import unknown
from rlvc.experiments.direct import compare
from rlvc.experiments.measures import (
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
from rlvc.experiments.running import Clock, Watcher, versions
from rlvc.incidence import Incidence
from rlvc.interactions import collect
from rlvc.learner import RLVC, Database, Stage
from rlvc.mdp import greedy
from rlvc.parameters import as_json
from rlvc.percepts import Percepts
from rlvc.policy import Policy


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
    world: World
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
        raise unknown("task", name, TASKS)
    return TASKS[name]


@dataclass(frozen=True, slots=True)
class Run:
    """All that a run found: what is written, drawn and reported.

    Attributes:
        result: What goes to ``result.json``.
        policy: The policy.
        env: The environment.
        grid: The positions at which the policy was sampled.
        actions: (n,) its actions there.
        values: (n,) its values there.
    """

    result: dict[str, Any]
    policy: Policy
    env: PictureEnv
    grid: Grid
    actions: NDArray[np.int64]
    values: NDArray[np.float64]


def run(
    task: Task,
    *,
    pictures: str = "photos",
    seed: int = 0,
    interactions: int = 10_000,
    episodes: int = EPISODES,
    learner: RLVC | None = None,
    watcher: Watcher | None = None,
) -> Run:
    """Collect, look, learn, measure, compare.

    Args:
        task: The task.
        pictures: What the ground looks like.
        seed: Of the exploration, of the environment and of the episodes that are measured.
        interactions: How many random interactions to learn from.
        episodes: How many episodes to measure with.
        learner: With which parameters to learn.
        watcher: Who is told how it goes on.
    """
    watcher = watcher or Watcher()
    learner = learner or RLVC(gamma=task.world.gamma)
    clock = Clock(watcher)
    episodic = gymnasium.make(task.env_id, pictures=pictures, disable_env_checker=True)
    env = episodic.unwrapped
    assert isinstance(env, PictureEnv)
    with clock.phase("collect", interactions):
        data = collect(episodic, interactions, seed=seed, state="position", on_step=watcher.on_step)
    with clock.phase("extract", sum(map(len, data.percepts.images))):
        learner = learner.fitted(data.percepts)
        database = learner.look(data, watcher.on_step)
    stages: list[Stage] = []
    with clock.phase("learn"):
        for stage in learner.stages(database):
            stages.append(stage)
            watcher.on_stage(stage)
        policy = stages[-1].policy()
    policy = replace(policy, about={"task": task.name, "pictures": pictures})
    with clock.phase("evaluate"):
        grid = grid_over(task.world)
        shown = look_at_grid(env, grid, stages[-1].database, learner.threads)
        history = [_history(stage, grid, shown, seed, episodes) for stage in stages]
        found = {
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
    result = {
        "task": task.name,
        "pictures": pictures,
        "seed": seed,
        "interactions": interactions,
        "percepts": len(data.percepts),
        "stages": last.number,
        "classes": policy.n_classes,
        "features": {
            "distinct": database.eye.n_symbols,
            "selected": len(policy.classifier.features),
        },
        "seconds": clock.seconds,
        **found,
        "paper": task.paper,
        "history": history,
        "parameters": as_json(learner),
        "versions": versions(),
    }
    classes = last.classifier.classify(shown)
    return Run(result, policy, env, grid, policy.actions[classes], last.q.max(axis=1)[classes])


def look_at_grid(env: PictureEnv, grid: Grid, database: Database, threads: int = 0) -> Incidence:
    """Return the known features that the percepts at the grid's positions exhibit, row by row."""
    percepts = Percepts()
    numbers = [percepts.add(env.percept(position)) for position in grid.positions]
    return database.see(percepts, threads).incidence.take(np.asarray(numbers))


def measure_policy(
    grid: Grid, env: PictureEnv, policy: Policy, seed: int, episodes: int = EPISODES
) -> Measures:
    """Return the measures of a policy that looks at every percept on its way."""
    return measure(grid, policy_actor(env, policy), _rng(seed), episodes)


def evaluate_policy(
    policy: Policy,
    *,
    task: str | None = None,
    pictures: str | None = None,
    seed: int = 0,
    episodes: int = EPISODES,
) -> dict[str, Any]:
    """Return the measures of a policy on the task that it was learned on, or on another."""
    name = task or policy.about.get("task")
    if name is None:
        raise ValueError("The policy does not say which task it is for; name one with --task.")
    chosen = find_task(name)
    own = policy.about if policy.about.get("task") == name else {}
    shown = pictures or own.get("pictures", "photos")
    env = gymnasium.make(chosen.env_id, pictures=shown, disable_env_checker=True).unwrapped
    assert isinstance(env, PictureEnv)
    if policy.q.shape[1] != len(env.action_names):
        raise ValueError(
            f"The actions of the policy must be those of the {name}, {len(env.action_names)}; "
            f"got {policy.q.shape[1]}."
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
    actions = greedy(stage.q, stage.mdp.is_tried)[stage.classifier.classify(shown)]
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
