"""A custom task: an environment to explore in rounds, or data that was collected before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import gymnasium

from rlvc._core.arrays import Ints
from rlvc.data.collect import EPSILON, INTERACTIONS, ROUNDS, ExplorationCallback, Round, explore
from rlvc.data.images import Image
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import images_of
from rlvc.learning.database import Database
from rlvc.learning.rlvc import CHOSEN, RLVC
from rlvc.policies.evaluate import evaluate
from rlvc.policies.policy import Policy
from rlvc.report.web.scene import Scene
from rlvc.runs.curves import describe_sizes, describe_stage
from rlvc.runs.examples import Examples
from rlvc.runs.resources import ResourceEstimate, estimate_collection, estimate_learning
from rlvc.runs.run import Outcome, Run
from rlvc.runs.summary import BEST, NONE, Summary, SummaryTable, format_mean
from rlvc.runs.task import NEW_SEED, Task, TaskEvaluation
from rlvc.tasks.custom.scene import draw_scene
from rlvc.vision.extractor import FeatureExtractor

Env = gymnasium.Env[Any, Any]
BYTES: Final = 300  # bytes of an interaction while it is collected
EPISODES: Final = 100  # of the evaluation by default
MEASURES: Final = {  # their names in tables
    "return": "return",
    "length": "steps",
    "terminated": "ended by the task",
    "rewarded": "return above 0",
    "success": "success",
}


@dataclass(frozen=True, slots=True)
class CustomEvaluation(TaskEvaluation):
    """What was measured of a custom task.

    Attributes:
        classes: (n_percepts,) the visual classes of the percepts.
    """

    classes: Ints


CustomOutcome = Outcome[CustomEvaluation]


@dataclass(frozen=True)
class CustomTask(Task[CustomEvaluation]):
    """An environment, or data.

    Attributes:
        name: The name of the task.
        data: An environment, interactions, or a database of them.
        source: Their source, as given on the command line.
        interactions: How many interactions to collect in an environment.
        rounds: In how many rounds; all but the first follow the policy learned so far.
        epsilon: The share of random actions in these.
        episodes: How many episodes to evaluate with in an environment; 0 for none.
    """

    name: str
    data: Interactions | Database | Env | None = None
    source: str | None = None
    interactions: int = INTERACTIONS
    rounds: int = ROUNDS
    epsilon: float = EPSILON
    episodes: int = EPISODES

    has_examples = True

    @property
    def facts(self) -> dict[str, Any]:
        """The source."""
        return {} if self.source is None else {"source": self.source}

    def collect(self, run: Run[CustomEvaluation]) -> None:
        """Explore the environment and learn in rounds, or learn from the data."""
        if isinstance(self.data, gymnasium.Env):
            run.callback.on_needs(*self._needs(self.data, run))
            callback = ExplorationCallback(
                on_round=lambda number, n: run.timer.begin(f"collect {number}", n),
                on_step=run.callback.on_step,
            )
            for one in explore(
                self.data, lambda data: run.learn(data, len(run.rounds) + 1),
                interactions=self.interactions, rounds=self.rounds, epsilon=self.epsilon,
                seed=run.seed, callback=callback,
                store=run.checkpoint.rounds if run.checkpoint else None,
            ):  # fmt: skip
                run.rounds.append(describe_round(one))
                run.callback.on_round(run.rounds[-1])
        elif isinstance(self.data, Interactions):
            run.callback.on_needs(estimate_learning(self.data, run.learner, run.trees), None)
            run.learn(self.data)
        elif isinstance(self.data, Database):  # its features are extracted already
            run.learner = match_extractor(run.learner, self.data.extractor)
            run.learn(self.data)
        else:
            raise TypeError(
                "data of CustomTask must be a Gymnasium environment, Interactions or a Database; "
                f"got {type(self.data).__name__}."
            )
        # A forest begins with the composites that the classifier found.
        run.database = run.stages[self.main][-1].database

    def _needs(
        self, env: Env, run: Run[CustomEvaluation]
    ) -> tuple[ResourceEstimate, ResourceEstimate]:
        """Return what exploring needs at most and at least.

        It depends on how many distinct images the environment shows, which is not known yet.
        """
        space, n = env.observation_space, self.interactions
        most = estimate_collection(space, n, run.learner, run.trees, keeps_images=True)
        least = estimate_collection(space, n, run.learner, images=1)
        return most, replace(least, memory=least.memory + n * BYTES)

    def evaluate(self, run: Run[CustomEvaluation]) -> CustomEvaluation:
        """Measure the policy in episodes, if there is an environment."""
        measures = None
        best = run.forest.policy if run.forest else run.policies[self.main]
        if isinstance(self.data, gymnasium.Env) and self.episodes:
            with run.timer.phase("evaluate", self.episodes):
                measures = evaluate(
                    best, self.data, episodes=self.episodes, seed=run.seed + NEW_SEED,
                    on_episode=run.callback.on_step,
                ).summary()  # fmt: skip
        stages, data = run.stages[self.main], run.database.interactions
        stage = stages[-1]
        numbers: dict[str, Any] = {
            "episodes": int(data.episode[-1]) + 1,
            "actions": data.n_actions,
            **describe_sizes(stage),
            "measures": measures,
            "rounds": run.rounds,
            "history": [describe_stage(one) for one in stages],
        }
        if run.forest is not None:
            numbers["forest"] = run.forest.describe(measures or {})
        return CustomEvaluation(numbers, stage.database.classes(stage.classifier))

    def figures(self, outcome: CustomOutcome) -> Iterator[tuple[str, bytes]]:
        """Yield the learning, the features, and examples of the classes."""
        from rlvc.tasks.custom.figures import draw_figures

        return draw_figures(outcome)

    def sample_percept(self, outcome: CustomOutcome) -> dict[str, Image]:
        """Return the first percept."""
        first = outcome.interactions.percepts[int(outcome.interactions.start[0])]
        return dict(images_of(first))

    def examples(self, outcome: CustomOutcome) -> Examples:
        """Return percepts of all classes; with a forest, they have no single class."""
        chosen = Examples.choose(outcome.interactions, outcome.evaluation.classes)
        return chosen if outcome.forest is None else replace(chosen, classes=None)

    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return a strip of percepts."""
        return draw_scene(examples)

    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return the measures with their confidence intervals."""
        measures = result.get("measures") or {}
        return measures_table(measures) if "episodes" in measures else None

    def summary(self, result: dict[str, Any]) -> Summary:
        """Return the rounds, the sizes and the time."""
        features, seconds = result["features"], result["seconds"]
        text = (
            f"{result['classes']} classes by {features['selected']} tests, from "
            f"{features['distinct']} distinct features on {result['percepts']} percepts in "
            f"{result['interactions']} interactions. Extraction took {seconds['extract']:.1f} s, "
            f"learning {seconds['learn']:.1f} s."
        )
        figures = {
            "classes.png": "percepts of each class, and its action",
            "learning.png": "learning curves",
            "features.png": "the features that it tests",
        }
        rounds = rounds_table(result["rounds"]) if result["rounds"] else None
        return Summary([text], figures, rounds)


def match_extractor(learner: RLVC, extractor: FeatureExtractor) -> RLVC:
    """Return a learner with the parts of the extractor that a dataset was made with.

    Raises:
        ValueError: The learner was given other parts.
    """
    found: dict[str, Any] = {name: getattr(extractor, name) for name in (*CHOSEN, "threshold")}
    for name, part in found.items():
        given = getattr(learner, name)
        if given and given != part:
            raise ValueError(
                f"{name} of RLVC must be {part}, which this dataset was made with; got {given}. "
                "Leave it out, or make the dataset again with it."
            )
    return replace(learner, **found)


def describe_round(one: Round[Policy]) -> dict[str, Any]:
    """Return the numbers of a round; means are None if no episode ended."""
    is_any = len(one.returns) > 0
    return {
        "round": one.number,
        "interactions": len(one.interactions),
        "episodes": len(one.returns),
        "return": float(one.returns.mean()) if is_any else None,
        "length": float(one.lengths.mean()) if is_any else None,
        "classes": one.policy.n_classes,
    }


def rounds_table(rounds: list[dict[str, Any]]) -> SummaryTable:
    """Return a table of the rounds of exploration."""
    keys = ("round", "interactions", "classes", "episodes")
    rows = []
    for one in rounds:
        mean = NONE if one["return"] is None else f"{one['return']:.2f}"
        rows.append([*(str(one[key]) for key in keys), mean, format_mean(one["length"])])
    caption = "Returns while exploring; the first round is random."
    return SummaryTable([*keys, "return", "steps"], rows, {}, caption)


def measures_table(measures: Mapping[str, Any]) -> SummaryTable:
    """Return a table of the measures with their confidence intervals."""
    rows, styles = list[list[str]](), dict[int, str]()
    for key, name in MEASURES.items():
        if key in measures:
            form = "{:.2f}" if key in ("return", "length") else "{:.1%}"
            mean, low, high = (
                NONE if measures[key][which] is None else form.format(measures[key][which])
                for which in ("mean", "low", "high")
            )
            if key in ("return", "success"):
                styles[len(rows)] = BEST
            rows.append([name, mean, NONE if low == NONE else f"{low} to {high}"])
    columns = [f"{measures['episodes']} episodes", "mean", "95% confidence"]
    return SummaryTable(columns, rows, styles, "Episodes that it did not learn from")
