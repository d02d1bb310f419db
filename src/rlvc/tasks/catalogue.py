"""The tasks by name: what the command line runs."""

from __future__ import annotations

from typing import Any

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore
from rlvc.errors import unknown_name
from rlvc.learning.rlvc import RLVC
from rlvc.policies.forest import AnyPolicy
from rlvc.runs.callbacks import NEW, Callbacks
from rlvc.runs.metrics import EPISODES
from rlvc.tasks import campus, hill, navigation
from rlvc.tasks.campus import CampusRun
from rlvc.tasks.hill import HillRun
from rlvc.tasks.hill_metrics import TRIALS
from rlvc.tasks.navigation import Run


def base_learner(task: str) -> RLVC:
    """Return the learner that a task is learned with unless told otherwise.

    Only the discount factor belongs to the task.

    >>> base_learner("campus").gamma
    0.8
    """
    _check(task)
    if task == "campus":
        return campus.base_learner()
    if task == "hill":
        return hill.base_learner()
    return RLVC(gamma=navigation.find_task(task).world.gamma)


def settings_of(task: str, preset: str) -> list[str]:
    """Return what a preset sets for a task, before anything else: the paper's hill has composites.

    >>> settings_of("hill", "paper")
    ['generator=composites']
    """
    _check(task)
    return ["generator=composites"] if (task, preset) == ("hill", "paper") else []


def run(
    task: str,
    *,
    pictures: str = "photos",
    seed: int = 0,
    interactions: int = 10_000,
    episodes: int | None = None,
    trees: int = 0,
    learner: RLVC | None = None,
    callbacks: Callbacks | None = None,
    store: CheckpointStore = NULL_STORE,
) -> Run | CampusRun | HillRun:
    """Learn a task and measure what was learned.

    ``episodes`` are for the maze, the subway and the hill; each has a number of its own unless they
    are given. With ``trees``, a forest of so many is learned as well. What the ``store`` has of
    the run already is not done again.
    """
    _check(task)
    learner = learner or base_learner(task)
    if task == "campus":
        return campus.run(
            pictures=pictures, seed=seed, interactions=interactions, trees=trees,
            learner=learner, callbacks=callbacks, store=store,
        )  # fmt: skip
    if task == "hill":
        return hill.run(
            pictures=pictures, seed=seed, interactions=interactions, trials=episodes or TRIALS,
            trees=trees, learner=learner, callbacks=callbacks, store=store,
        )  # fmt: skip
    return navigation.run(
        navigation.find_task(task), pictures=pictures, seed=seed, interactions=interactions,
        episodes=episodes or EPISODES, trees=trees, learner=learner, callbacks=callbacks,
        store=store,
    )  # fmt: skip


def evaluate_policy(
    policy: AnyPolicy,
    *,
    task: str | None = None,
    pictures: str | None = None,
    seed: int | None = None,
    episodes: int | None = None,
) -> dict[str, Any]:
    """Return the measures of a policy on the task that it was learned on, or on another.

    Unless a seed is given, episodes and views are such as it did not learn from.
    """
    name = task or policy.about.get("task")
    if name is not None:
        _check(name)
    if name == "campus":
        return campus.evaluate_policy(policy, pictures=pictures, seed=seed)
    seed = NEW if seed is None else seed
    if name == "hill":
        return hill.evaluate_policy(policy, pictures=pictures, seed=seed, trials=episodes or TRIALS)
    return navigation.evaluate_policy(
        policy, task=task, pictures=pictures, seed=seed, episodes=episodes or EPISODES
    )


def _check(task: str) -> None:
    names = [*navigation.TASKS, "campus", "hill"]
    if task not in names:
        raise unknown_name("task", task, names)
