"""The campus: the tree and its compaction, learned from the same interactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import gymnasium
import numpy as np

from rlvc._core.arrays import Floats
from rlvc._core.checkpoint_store import PrefixedStore
from rlvc.data.collect import Env
from rlvc.data.images import Image
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import SINGLE, Percepts
from rlvc.envs.campus.graph_world import CAMPUS
from rlvc.envs.photos.views import DIVISIONS, Views, campus_views
from rlvc.features.incidence import Incidence
from rlvc.learning.compaction import Compaction, Keep
from rlvc.learning.rlvc import RLVC
from rlvc.learning.stage import Stage
from rlvc.policies.forest import AnyPolicy
from rlvc.report.web.scene import Scene
from rlvc.runs.curves import history_line
from rlvc.runs.examples import Examples
from rlvc.runs.resources import ResourceEstimate, estimate_collection
from rlvc.runs.run import Outcome, Run
from rlvc.runs.summary import (
    BEST,
    DIM,
    NONE,
    Summary,
    SummaryTable,
    forest_rows,
    forest_text,
    format_share,
    format_sizes,
)
from rlvc.runs.task import TaskEvaluation
from rlvc.tasks.campus.metrics import (
    ERRORS,
    Division,
    direct_error,
    division_of,
    error_of,
    share_by_state,
    vote,
)
from rlvc.tasks.campus.scene import draw_scene
from rlvc.tasks.paper_task import PaperTask
from rlvc.vision.cache import ExtractionCache

DRAWN: Final = ("photos", "places")  # pictures whose views depend on the seed
VIEWS: Final = 4  # views of each state on a page, from either division


@dataclass(frozen=True, slots=True)
class CampusEvaluation(TaskEvaluation):
    """What was measured on the campus.

    Attributes:
        optimal: The (n_states,) share of test views on which the action is optimal, for each
            version and for the forest.
    """

    optimal: dict[str, Floats]


CampusOutcome = Outcome[CampusEvaluation]


@dataclass(frozen=True, kw_only=True)
class CampusTask(PaperTask[CampusEvaluation]):
    """The paper's campus: spots to walk between and to turn on, and views of each.

    >>> CampusTask().base_learner().gamma
    0.8
    """

    name = "campus"
    lead = (
        "An agent walks from spot to spot, turns, sees only what is in front of it, and looks for "
        "a building."
    )
    main, forest_base, classifier_file = "compact", "basic", "compact.rlvc"
    extra_files: ClassVar = {"basic": "basic.rlvc"}
    env_id = "rlvc/Campus-v0"
    gamma = CAMPUS.gamma
    n_actions = CAMPUS.reward.shape[1]
    paper: ClassVar = {
        "distinct": 13367,
        "basic": {"classes": 281, "features": 264, "train_error": 0.001, "test_error": 0.08},
        "compact": {"classes": 59, "features": 171, "train_error": 0.0, "test_error": 0.045},
    }

    def variants(self, learner: RLVC) -> dict[str, RLVC]:
        """Return the learner of the tree and that of its compaction."""
        is_plain = isinstance(learner.post_process, Keep)
        compaction = Compaction() if is_plain else learner.post_process
        return {
            "basic": replace(learner, post_process=Keep()),
            "compact": replace(learner, post_process=compaction),
        }

    def about(self, seed: int, variant: str | None = None) -> dict[str, str]:
        """Return the task, the pictures, the seed of the views, and the version."""
        about = {**super().about(seed), "seed": str(seed)}
        return about if variant is None else {**about, "version": variant}

    def make_env(self, seed: int = 0) -> Env:
        """Return a new environment with the views of a seed."""
        return gymnasium.make(
            self.env_id, pictures=self.pictures, views_seed=seed, disable_env_checker=True
        )

    def views(self, seed: int) -> Views:
        """Return the views of a seed, divided into those to learn from and to test with."""
        return campus_views(self.pictures, seed)

    def estimate(self, run: Run[CampusEvaluation], env: Env) -> ResourceEstimate:
        """Return what a run needs; all views are extracted, whether the agent meets them or not."""
        space, n_views = env.observation_space, sum(map(len, self.views(run.seed).learn))
        return estimate_collection(space, n_views, run.learner, run.trees, images=n_views)

    def complete(self, data: Interactions, seed: int) -> None:
        """Add the views that the agent missed."""
        for image in division_of(self.views(seed), "learn")[1]:
            data.percepts.add(image)

    def evaluate(self, run: Run[CampusEvaluation]) -> CampusEvaluation:
        """Measure both versions and the forest, on the views learned from and on new ones."""
        data, seconds = run.database.interactions, run.timer.seconds
        divisions = self._divisions(run)
        learn, test = divisions["learn"], divisions["test"]
        with run.timer.phase("vote"):
            state_of_image = np.zeros(len(data.percepts), np.int64)
            state_of_image[learn.number] = learn.state
            voted = vote(learn.keypoints, state_of_image, test.keypoints)[test.number]
        numbers: dict[str, Any] = {"features": {"distinct": run.database.extractor.n_symbols}}
        optimal: dict[str, Floats] = {}
        for version, stages in run.stages.items():
            last = stages[-1]
            shown = {name: one.incidence(last.database) for name, one in divisions.items()}
            history = [_measure_stage(stage, divisions, shown) for stage in stages]
            actions = last.actions()[last.classifier.classify(shown["test"])]
            optimal[version] = share_by_state(CAMPUS.is_optimal(actions, test.state), test.state)
            sizes = {key: history[-1][key] for key in ("classes", "features", *ERRORS.values())}
            numbers[version] = sizes | {
                "stages": last.number, "seconds": seconds[version], "history": history,
            }  # fmt: skip
        if run.forest is not None:
            policy = run.forest.policy
            right = {name: one.is_optimal(policy, run.database) for name, one in divisions.items()}
            optimal["forest"] = share_by_state(right["test"], test.state)
            errors = {ERRORS[name]: float(1.0 - one.mean()) for name, one in right.items()}
            numbers["forest"] = run.forest.describe(errors)
        numbers |= {
            "ceiling": error_of(CAMPUS.optimal_q().argmax(axis=1)[voted], test.state),
            "direct": direct_error(data, run.learner),
            "seconds": {
                "collect": seconds["collect"],
                "extract": seconds["extract"],
                "learn": seconds["basic"] + seconds["compact"],
                "evaluate": seconds["test"] + seconds["vote"],
            },
            "paper": self.paper,
        }
        return CampusEvaluation(numbers, optimal)

    def _divisions(self, run: Run[CampusEvaluation]) -> dict[str, Division]:
        """Return both divisions; the keypoints of the views learned from are in the cache."""
        views, data = self.views(run.seed), run.database.interactions
        learner, extractor = run.variants[self.main], run.database.extractor
        settings = learner.threads, run.callback.on_step, learner.engine.extract
        state, images = division_of(views, "learn")
        number = np.asarray([data.percepts.add(image) for image in images])
        (keypoints,) = run.cache.extract(extractor, data.percepts, *settings)
        learn = Division(state, number, data.percepts, keypoints)
        test, (state, images) = Percepts(), division_of(views, "test")
        number = np.asarray([test.add(image) for image in images])
        with run.timer.phase("test", len(test)):
            cache = ExtractionCache(PrefixedStore(run.store, "test"))
            (keypoints,) = cache.extract(extractor, test, *settings)
        return {"learn": learn, "test": Division(state, number, test, keypoints)}

    def new_seed(self, policy: AnyPolicy) -> int:
        """Return the seed of new views, or that of the division of a folder of photographs.

        Views that are drawn are new, in both divisions, unless the policy was learned with the same
        seed. Photographs stay the same, so they are divided as for learning.
        """
        if self.pictures in DRAWN:
            return super().new_seed(policy)
        is_its_own = policy.about.get("task") == self.name
        return int(policy.about.get("seed", 0)) if is_its_own else 0

    def measure_policy(self, policy: AnyPolicy, seed: int) -> dict[str, Any]:
        """Return the seed of the views, and the errors on both divisions of them."""
        views, measures = self.views(seed), dict[str, Any](seed=seed)
        for name in DIVISIONS:
            states, images = division_of(views, name)
            actions = np.asarray([int(policy.predict(image)[0]) for image in images])
            measures[ERRORS[name]] = error_of(actions - policy.action_start, states)
        return measures

    def figures(self, outcome: CampusOutcome) -> Iterator[tuple[str, bytes]]:
        """Yield the map, the errors and the sizes by stage, and the features."""
        from rlvc.tasks.campus.figures import draw_figures

        return draw_figures(outcome)

    def sample_percept(self, outcome: CampusOutcome) -> dict[str, Image]:
        """Return a new view of the first state."""
        views = self.views(outcome.result["seed"])
        return {SINGLE: views.image(0, views.test[0][0])}

    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return views of every state."""
        return draw_scene(self.views(result["seed"]), 1 if is_draft else VIEWS)

    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return both versions beside the paper's, the vote of neighbours and direct perception."""
        if "compact" not in result:
            return None
        paper = result["paper"]
        versions = {
            "the tree": result["basic"],
            "compacted": result["compact"],
            "the paper's tree": paper["basic"],
            "the paper's, compacted": paper["compact"],
        }
        rows = [(name, found, format_sizes(found)) for name, found in versions.items()]
        rows[2:2] = forest_rows(result)
        cells = [
            [name, *(format_share(found[key]) for key in ERRORS.values()), *sizes]
            for name, found, sizes in rows
        ]
        cells += [
            ["vote of neighbours", NONE, format_share(result["ceiling"]), *[NONE] * 3],
            ["state known", format_share(result["direct"]), NONE, "44", NONE, NONE],
        ]
        columns = ["agent", "error: learned", "new views", "classes", "features", "stages"]
        n = len(rows)  # the last two are the paper's
        styles = dict.fromkeys(range(1, n - 2), BEST) | dict.fromkeys((n - 2, n - 1), DIM)
        return SummaryTable(columns, cells, styles, "Wrong decisions, beside the paper")

    def summary(self, result: dict[str, Any]) -> Summary:
        """Return the number of features and the time."""
        paper, basic, compact = result["paper"], result["basic"], result["compact"]
        text = (
            f"From {result['features']['distinct']} distinct features (the paper: "
            f"{paper['distinct']}). Extraction took {result['seconds']['extract']:.0f} s, learning "
            f"{basic['seconds']:.1f} s with the tree and {compact['seconds']:.1f} s with "
            "compaction."
        )
        figures = {
            "map.png": "the action in every state",
            "errors.png": "errors on training and on new views, by stage",
            "sizes.png": "classes and features, by stage",
            "features.png": "the features that it tests",
        }
        return Summary([*forest_text(result), text], figures)


def _measure_stage(
    stage: Stage, divisions: dict[str, Division], shown: dict[str, Incidence]
) -> dict[str, Any]:
    """Return a line of the history."""
    actions = stage.actions()  # solved once for both divisions
    errors = {
        ERRORS[name]: error_of(actions[stage.classifier.classify(shown[name])], one.state)
        for name, one in divisions.items()
    }
    return history_line(stage, **errors)
