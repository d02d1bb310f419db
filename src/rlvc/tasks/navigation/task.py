"""Navigation: the maze and the subway, measured by walking and on a dense grid of positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlvc.data.collect import collect
from rlvc.data.images import Image
from rlvc.data.percepts import SINGLE, Percepts
from rlvc.data.spaces import shapes_of
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import MOVES, PlanarWorld
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.learning.database import Database
from rlvc.learning.rlvc import Stage
from rlvc.policies.forest import AnyPolicy
from rlvc.policies.values import greedy
from rlvc.runs.direct_perception import compare
from rlvc.runs.examples import Examples
from rlvc.runs.forest import forest_values
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
from rlvc.runs.resources import SAMPLE, ResourceEstimate, estimate_collection
from rlvc.runs.summary import (
    BEST,
    DIM,
    Summary,
    SummaryTable,
    direct_rows,
    forest_rows,
    forest_text,
    format_mean,
    format_share,
    sizes_of,
)
from rlvc.runs.task import TaskEvaluation
from rlvc.tasks.paper_task import Env, PaperTask

if TYPE_CHECKING:
    from rlvc.report.web.scene import Scene
    from rlvc.runs.run import Outcome, Run


@dataclass(frozen=True, slots=True)
class NavigationEvaluation(TaskEvaluation):
    """What was measured in a world.

    Attributes:
        env: The environment.
        grid: The positions at which the policy was sampled.
        actions: (n,) what the agent does there: the forest if there is one, or else the classifier.
        values: (n,) the values of these actions.
    """

    env: PictureEnv
    grid: Grid
    actions: NDArray[np.int64]
    values: NDArray[np.float64]


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
        """Return what a run needs, judged by its first percepts."""
        shapes = shapes_of(env.observation_space).values()
        sample = collect(env, min(SAMPLE, self.interactions), seed=run.seed)
        return estimate_collection(shapes, self.interactions, run.learner, run.trees, sample=sample)

    def evaluate(self, run: Run[NavigationEvaluation]) -> NavigationEvaluation:
        """Measure every stage, the policy, direct perception and the optimum."""
        stages, policy, seed = run.stages[self.main], run.policies[self.main], run.seed
        learner, last, grid = run.variants[self.main], stages[-1], self.grid
        with run.timer.phase("evaluate"):
            index = index_of_grid(self.env, grid, last.database, learner.threads)
            history = [self._measure_stage(stage, index.incidence, seed) for stage in stages]
            suboptimal = history[-1]["suboptimal"]  # of the same percepts
            numbers: dict[str, Any] = {
                "stages": last.number,
                "classes": policy.n_classes,
                "features": {
                    "distinct": run.database.extractor.n_symbols,
                    "selected": len(policy.classifier.features),
                },
                "measures": self._measure(policy, seed, suboptimal),
                "direct": compare(
                    grid, run.database.interactions, policy.n_classes, learner.solver,
                    learner.gamma, seed, self.n_episodes,
                ),
                "optimum": measure(
                    grid, optimal_actor(self.world), _rng(seed), self.n_episodes
                ).as_dict(),
            }  # fmt: skip
            classes = last.classifier.classify(index.incidence)
            actions, values = policy.actions[classes], policy.q.max(axis=1)[classes]
            if run.forest is not None:
                q, is_tried = forest_values(run.forest.policy, index)
                actions, values = greedy(q, is_tried), np.where(is_tried, q, -np.inf).max(axis=1)
                measures = self._measure(run.forest.policy, seed, grid.suboptimal(actions))
                numbers["forest"] = run.forest.describe(measures)
        numbers |= {"paper": self.paper, "history": history}
        return NavigationEvaluation(numbers, self.env, grid, actions, values)

    @property
    def n_episodes(self) -> int:
        """How many episodes to measure with."""
        return self.episodes or EPISODES

    def _measure(self, policy: AnyPolicy, seed: int, suboptimal: float) -> dict[str, Any]:
        walked = walk(self.world, policy_actor(self.env, policy), _rng(seed), self.n_episodes)
        return Measures(*walked, suboptimal).as_dict()

    def _measure_stage(self, stage: Stage, shown: Incidence, seed: int) -> dict[str, Any]:
        """Return a line of the history.

        Its success is that of an agent who perceives, wherever it is, the percept of the nearest
        position of the grid: close to the truth, and affordable for every stage.
        """
        actions = stage.actions()[stage.classifier.classify(shown)]
        act: Actor = lambda positions: actions[self.grid.nearest(positions)]  # noqa: E731
        success, mean_steps = walk(self.world, act, _rng(seed), self.n_episodes)
        return {
            "stage": stage.number,
            "classes": stage.classifier.n_classes,
            "features": len(stage.classifier.features),
            "residual": stage.residual,
            "aliased": stage.n_aliased,
            "success": success,
            "mean_steps": mean_steps if np.isfinite(mean_steps) else None,
            "suboptimal": self.grid.suboptimal(actions),
        }

    def measure_policy(self, policy: AnyPolicy, seed: int) -> dict[str, Any]:
        """Return the measures of a policy that perceives wherever it is."""
        act = policy_actor(self.env, policy)
        return measure(self.grid, act, _rng(seed), self.n_episodes).as_dict()

    def figures(self, outcome: Outcome[NavigationEvaluation]) -> Iterator[tuple[str, bytes]]:
        """Yield the policy and its values on the map, the learning, and the features."""
        from rlvc.tasks.navigation.figures import draw_figures

        return draw_figures(outcome)

    def sample_percept(self, outcome: Outcome[NavigationEvaluation]) -> dict[str, Image]:
        """Return the percept in the middle of the world."""
        return {SINGLE: self.env.percept((self.world.width / 2, self.world.height / 2))}

    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return a grid of positions on the picture of the world."""
        from rlvc.tasks.navigation.scene import draw_scene

        return draw_scene(self.world, self.env, is_draft=is_draft)

    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return the measures beside direct perception, the optimum and the paper."""
        if "optimum" not in result:
            return None
        rows = [
            ("rlvc, from images", result["measures"], sizes_of(result)),
            *forest_rows(result),
            *direct_rows(result),
            ("the paper", {}, sizes_of(result["paper"])),
        ]
        columns = ["agent", "success", "steps", "optimal decisions", "classes", "tests", "stages"]
        cells = [
            [name, format_share(found.get("success")), format_mean(found.get("mean_steps")),
             format_share(1 - found["suboptimal"] if found else None), *sizes]
            for name, found, sizes in rows
        ]  # fmt: skip
        styles = {0: BEST, len(rows) - 1: DIM}
        return SummaryTable(columns, cells, styles, "Measures beside agents that know the state")

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
            "policy.png": "what the agent does, everywhere",
            "values.png": "learned and optimal values",
            "learning.png": "how it got there",
            "features.png": "what it looks for",
        }
        return Summary([*forest_text(result), text], figures)


def index_of_grid(
    env: PictureEnv, grid: Grid, database: Database, threads: int = 0
) -> FeatureIndex:
    """Return which known features the percepts at the grid's positions exhibit, row by row."""
    percepts = Percepts()
    numbers = [percepts.add(env.percept(position)) for position in grid.positions]
    index = database.index_of(percepts, threads)
    return index.of_percepts(index.table[numbers])


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 2])  # apart from the exploration's
