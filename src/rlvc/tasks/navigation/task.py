"""Navigation: the maze and the subway, measured by walking and on a dense grid of positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc.data.collect import Env, collect
from rlvc.data.images import Image
from rlvc.data.percepts import SINGLE, Percepts
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import MAZE, MOVES, SUBWAY, PlanarWorld
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.learning.database import Database
from rlvc.learning.stage import Stage
from rlvc.policies.forest import AnyPolicy
from rlvc.policies.values import greedy
from rlvc.report.web.scene import Scene
from rlvc.runs.curves import describe_sizes, history_line
from rlvc.runs.direct_perception import Actor
from rlvc.runs.examples import Examples
from rlvc.runs.forest import forest_values
from rlvc.runs.resources import SAMPLE, ResourceEstimate, estimate_collection
from rlvc.runs.run import Outcome, Run
from rlvc.runs.summary import (
    Summary,
    SummaryTable,
    forest_text,
    format_mean,
    format_share,
    table_of_agents,
)
from rlvc.runs.task import TaskEvaluation
from rlvc.tasks.navigation.metrics import (
    EPISODES,
    Grid,
    compare,
    grid_over,
    measure,
    optimal_actor,
    policy_actor,
)
from rlvc.tasks.navigation.scene import draw_scene
from rlvc.tasks.paper_task import PaperTask


@dataclass(frozen=True, slots=True)
class NavigationEvaluation(TaskEvaluation):
    """What was measured in a world.

    Attributes:
        env: The environment.
        grid: The positions at which the policy was evaluated.
        actions: (n,) the actions there, of the forest if there is one, else of the policy.
        values: (n,) the values of these actions.
    """

    env: PictureEnv
    grid: Grid
    actions: Ints
    values: Floats


NavigationOutcome = Outcome[NavigationEvaluation]


@dataclass(frozen=True, kw_only=True)
class NavigationTask(PaperTask[NavigationEvaluation]):
    """A planar world with a picture on the ground.

    Attributes:
        world: Its dynamics.
    """

    state = "position"
    n_actions = len(MOVES)
    world: ClassVar[PlanarWorld]

    @cached_property
    def env(self) -> PictureEnv:
        """The environment without wrappers."""
        env = self.make_env().unwrapped
        assert isinstance(env, PictureEnv)
        return env

    @property
    def grid(self) -> Grid:
        """The positions at which decisions are measured."""
        return grid_over(self.world)

    def estimate(self, run: Run[NavigationEvaluation], env: Env) -> ResourceEstimate:
        """Return what a run needs, estimated from its first percepts."""
        space, n = env.observation_space, self.interactions
        sample = collect(env, min(SAMPLE, n), seed=run.seed)
        return estimate_collection(space, n, run.learner, run.trees, sample=sample)

    def evaluate(self, run: Run[NavigationEvaluation]) -> NavigationEvaluation:
        """Measure all stages, the policy, direct perception and the optimum."""
        stages, policy, seed = run.stages[self.main], run.policies[self.main], run.seed
        learner, last, grid = run.variants[self.main], stages[-1], self.grid
        data, n_episodes = run.database.interactions, self.episodes or EPISODES
        with run.timer.phase("evaluate"):
            index = index_of_grid(self.env, grid, last.database, learner.threads)
            history = [self._measure_stage(stage, index.incidence, seed) for stage in stages]
            suboptimal = history[-1]["suboptimal"]  # of the same percepts
            numbers = describe_sizes(last) | {
                "measures": self.measure_policy(policy, seed, suboptimal),
                "direct": compare(grid, data, policy.n_classes, learner, seed, n_episodes),
                "optimum": self._measure(optimal_actor(self.world), seed),
            }
            classes = last.classifier.classify(index.incidence)
            actions, values = policy.actions[classes], policy.q.max(axis=1)[classes]
            if run.forest is not None:
                q, is_tried = forest_values(run.forest.policy, index)
                actions, values = greedy(q, is_tried), np.where(is_tried, q, -np.inf).max(axis=1)
                suboptimal = grid.suboptimal(actions)
                measures = self.measure_policy(run.forest.policy, seed, suboptimal)
                numbers["forest"] = run.forest.describe(measures)
        numbers |= {"paper": self.paper, "history": history}
        return NavigationEvaluation(numbers, self.env, grid, actions, values)

    def _measure(self, act: Actor, seed: int, suboptimal: float | None = None) -> dict[str, Any]:
        return measure(self.grid, act, seed, self.episodes or EPISODES, suboptimal)

    def _measure_stage(self, stage: Stage, shown: Incidence, seed: int) -> dict[str, Any]:
        """Return a line of the history.

        Its success is that of an agent that perceives the percept of the nearest position of the
        grid: a good approximation that is fast enough for every stage.
        """
        actions, grid = stage.actions()[stage.classifier.classify(shown)], self.grid
        act: Actor = lambda positions: actions[grid.nearest(positions)]  # noqa: E731
        return history_line(stage, **self._measure(act, seed, grid.suboptimal(actions)))

    def measure_policy(
        self, policy: AnyPolicy, seed: int, suboptimal: float | None = None
    ) -> dict[str, Any]:
        """Return the measures of a policy on the percepts at its exact positions."""
        return self._measure(policy_actor(self.env, policy), seed, suboptimal)

    def figures(self, outcome: NavigationOutcome) -> Iterator[tuple[str, bytes]]:
        """Yield the policy and its values on the map, the learning, and the features."""
        from rlvc.tasks.navigation.figures import draw_figures

        return draw_figures(outcome)

    def sample_percept(self, outcome: NavigationOutcome) -> dict[str, Image]:
        """Return the percept in the middle of the world."""
        return {SINGLE: self.env.percept((self.world.width / 2, self.world.height / 2))}

    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return a grid of positions on the picture of the world."""
        return draw_scene(self.world, self.env, is_draft=is_draft)

    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return the measures beside direct perception, the optimum and the paper."""

        def cells_of(found: Mapping[str, Any]) -> list[str]:
            success, steps = found.get("success"), found.get("mean_steps")
            optimal = 1 - found["suboptimal"] if found else None
            return [format_share(success), format_mean(steps), format_share(optimal)]

        return table_of_agents(result, ["success", "steps", "optimal decisions"], cells_of)

    def summary(self, result: dict[str, Any]) -> Summary:
        """Return the sizes beside those of the paper."""
        features, paper = result["features"], result["paper"]
        text = (
            f"{result['classes']} classes by {features['selected']} tests for some of "
            f"{features['distinct']} features, in {result['stages']} stages (the paper: "
            f"{paper['classes']} by {paper['selected']} of {paper['distinct']} in "
            f"{paper['stages']}). Learning took {result['seconds']['learn']:.1f} s."
        )
        figures = {
            "policy.png": "the action at every position",
            "values.png": "learned and optimal values",
            "learning.png": "learning curves",
            "features.png": "the features that it tests",
        }
        return Summary([*forest_text(result), text], figures)


def index_of_grid(
    env: PictureEnv, grid: Grid, database: Database, threads: int = 0
) -> FeatureIndex:
    """Return the index of the percepts at the grid's positions, row by row."""
    percepts = Percepts()
    numbers = [percepts.add(env.percept(position)) for position in grid.positions]
    index = database.index_of(percepts, threads)
    return index.of_percepts(index.table[numbers])


@dataclass(frozen=True, kw_only=True)
class MazeTask(NavigationTask):
    """The paper's maze.

    >>> MazeTask().base_learner().gamma
    0.9
    """

    name = "maze"
    lead = (
        "An agent walks over a carpet of photographs among walls of glass, sees only the window "
        "around it, and looks for an exit."
    )
    env_id = "rlvc/Maze-v0"
    world = MAZE
    gamma = MAZE.gamma
    paper: ClassVar = {"classes": 205, "selected": 200, "distinct": 2298, "stages": 84}


@dataclass(frozen=True, kw_only=True)
class SubwayTask(NavigationTask):
    """The paper's subway station, a long and narrow maze."""

    name = "subway"
    lead = (
        "An agent walks along a strip of photographs among walls of glass, sees only the window "
        "around it, and looks for an exit."
    )
    env_id = "rlvc/Subway-v0"
    world = SUBWAY
    gamma = SUBWAY.gamma
    paper: ClassVar = {"classes": 149, "selected": 144, "distinct": 3739, "stages": 101}
