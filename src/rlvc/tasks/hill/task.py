"""The car on the hill: composite features, and what is learned without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Floats
from rlvc.data.images import Image
from rlvc.data.spaces import shapes_of
from rlvc.envs.hill.dynamics import ACTION_NAMES, HILL
from rlvc.envs.hill.env import HillEnv
from rlvc.learning.generation.base import Canonical
from rlvc.learning.rlvc import RLVC, Stage
from rlvc.policies.forest import AnyPolicy
from rlvc.policies.policy import Policy
from rlvc.policies.values import greedy
from rlvc.runs.callbacks import Callback
from rlvc.runs.direct_perception import TabularPolicy
from rlvc.runs.examples import Examples
from rlvc.runs.resources import ResourceEstimate, estimate_collection
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
from rlvc.tasks.hill.index import (
    GAUGE,
    GROUND,
    N_IMAGES,
    HillIndex,
    actions_of,
    actor,
    index_hill,
    values_of_forest,
)
from rlvc.tasks.hill.metrics import (
    PAPER_SIDE,
    TRIALS,
    as_dict,
    compare,
    learn_states,
    optimal_action,
    starts,
    trials,
)
from rlvc.tasks.paper_task import Env, PaperTask

if TYPE_CHECKING:
    from rlvc.report.web.scene import Scene
    from rlvc.runs.run import Outcome, Run

START = (-0.5, 0.0)  # the state of the sample percept: at rest in the valley


@dataclass(frozen=True, slots=True)
class HillEvaluation(TaskEvaluation):
    """What was measured on the hill.

    Attributes:
        env: The environment.
        index: Which image exhibits which of the policy's features.
        actions: (361, 1025) what the car does, rows by velocity, columns by position: the forest if
            there is one, or else the classifier.
        values: (361, 1025) the values of these actions.
        direct: What direct perception learned on the paper's grid.
    """

    env: HillEnv
    index: HillIndex = field(repr=False)
    actions: NDArray[np.int64] = field(repr=False)
    values: Floats = field(repr=False)
    direct: TabularPolicy


@dataclass(frozen=True, kw_only=True)
class HillTask(PaperTask[HillEvaluation]):
    """The paper's car on the hill, with a camera on the ground and one on a gauge.

    >>> HillTask().settings("paper")
    ['generator=composites']
    """

    name = "hill"
    lead = (
        "A car whose engine is too weak to climb a hill straight away sees the ground underneath "
        "and a gauge of its velocity, and wants to reach the top."
    )
    env_id = "rlvc/Hill-v0"
    gamma = HILL.gamma
    n_actions = len(ACTION_NAMES)
    paper: ClassVar = {
        "distinct": 88, "selected": 91, "classes": 157, "stages": 38, "cells": PAPER_SIDE**2,
    }  # fmt: skip

    @cached_property
    def env(self) -> HillEnv:
        """The environment without wrappers."""
        env = self.make_env().unwrapped
        assert isinstance(env, HillEnv)
        return env

    @property
    def n_trials(self) -> int:
        """How many trials from rest measure every stage."""
        return self.episodes or TRIALS

    def settings(self, preset: str) -> list[str]:
        """Return composite features for the paper's preset: the paper has them on the hill."""
        return ["generator=composites"] if preset == "paper" else []

    def variants(self, learner: RLVC) -> dict[str, RLVC]:
        """Return the learner, and one without composite features unless it has none itself."""
        if isinstance(learner.generator, Canonical):
            return {"learn": learner}
        return {"learn": learner, "primitive": replace(learner, generator=Canonical())}

    def estimate(self, run: Run[HillEvaluation], env: Env) -> ResourceEstimate:
        """Return what a run needs: there are few distinct images."""
        shapes = shapes_of(env.observation_space).values()
        return estimate_collection(
            shapes, self.interactions, run.learner, run.trees, images=N_IMAGES
        )

    def evaluate(self, run: Run[HillEvaluation]) -> HillEvaluation:
        """Measure every stage with composite features and without, tables, and the optimum."""
        data, learner = run.database.interactions, run.variants["learn"]
        stages, policy = run.stages["learn"], run.policies["learn"]
        n_steps = N_IMAGES + sum(map(len, run.stages.values()))
        with run.timer.phase("evaluate", n_steps):
            graph, extractor = stages[-1].database.graph, run.database.extractor
            on_step = run.callback.on_step
            found = index_hill(extractor, graph, self.env.strip, learner.threads, on_step)
            index, begin = HillIndex.of(found), starts(run.seed, self.n_trials)
            history = _measure_stages(stages, index, begin, run.callback)
            numbers: dict[str, Any] = {
                "images": {images.camera: len(images) for images in data.percepts.images},
                "stages": stages[-1].number,
                "classes": policy.n_classes,
                "features": _count(policy, extractor.n_symbols),
                "measures": _measures(history[-1]),
                "direct": compare(data, policy.n_classes, learner.solver, learner.gamma, begin),
                "optimum": as_dict(*trials(optimal_action, begin)),
            }
            primitive, alone = stages, history
            if "primitive" in run.stages:  # its features have other numbers
                primitive = run.stages["primitive"]
                other = HillIndex.of(found, primitive[-1].database.graph)
                alone = _measure_stages(primitive, other, begin, run.callback)
            shown = index.only(stages[-1].classifier.features.tolist())
            classes = shown.classify(policy.classifier, learner.threads)
            actions, values = policy.actions[classes], policy.values[classes]
            if run.forest is not None:
                q, is_tried = values_of_forest(run.forest.policy, found, learner.threads)
                actions, values = greedy(q, is_tried), np.where(is_tried, q, -np.inf).max(axis=2)
                measures = as_dict(*trials(actor(actions), begin))
                numbers["forest"] = run.forest.describe(measures)
        seconds = run.timer.seconds
        numbers["primitive_only"] = {
            "stages": primitive[-1].number,
            "classes": primitive[-1].classifier.n_classes,
            "features": len(primitive[-1].classifier.features),
            "seconds": seconds.pop("primitive", seconds["learn"]),
            "measures": _measures(alone[-1]),
            "history": alone,
        }
        numbers |= {"paper": self.paper, "history": history}
        direct = learn_states(data, PAPER_SIDE, learner.solver, learner.gamma)
        return HillEvaluation(numbers, self.env, shown, actions, values, direct)

    def check_policy(self, policy: AnyPolicy) -> None:
        """Refuse a policy that has other cameras or actions."""
        if sorted(policy.shapes) != sorted((GROUND, GAUGE)):
            cameras = ", ".join(filter(None, sorted(policy.shapes))) or "a single one"
            raise ValueError(
                f"The cameras of the policy must be those of the hill, {GAUGE} and {GROUND}; "
                f"got {cameras}."
            )
        super().check_policy(policy)

    def measure_policy(self, policy: AnyPolicy, seed: int) -> dict[str, Any]:
        """Return the measures of a policy in trials from rest."""
        act = actor(actions_of(policy, self.env.strip))
        return as_dict(*trials(act, starts(seed, self.n_trials)))

    def figures(self, outcome: Outcome[HillEvaluation]) -> Iterator[tuple[str, bytes]]:
        """Yield the trials, values, actions, composite features, and features."""
        from rlvc.tasks.hill.figures import draw_figures

        return draw_figures(outcome)

    def sample_percept(self, outcome: Outcome[HillEvaluation]) -> dict[str, Image]:
        """Return the percept at rest in the valley."""
        return dict(self.env.percept(START))

    def percept_file(self, camera: str) -> str:
        """Return a file name after the camera."""
        return f"{camera}.png"

    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return all positions and velocities."""
        from rlvc.tasks.hill.scene import draw_scene

        return draw_scene(self.env.strip)

    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return the measures beside those without composites, direct perception, the optimum."""
        if "optimum" not in result:
            return None
        alone = result["primitive_only"]
        rows = [
            ("rlvc, from images", result["measures"], sizes_of(result)),
            *forest_rows(result),
            ("without composite features", alone["measures"], sizes_of(alone)),
            *direct_rows(result),
            ("the paper", {}, sizes_of(result["paper"])),
        ]
        columns = ["agent", "missed", "steps", "classes", "tests", "stages"]
        cells = [
            [name, format_share(found.get("missed")), format_mean(found.get("mean_steps")), *sizes]
            for name, found, sizes in rows
        ]
        styles = {**dict.fromkeys(range(len(forest_rows(result)) + 1), BEST), len(rows) - 1: DIM}
        return SummaryTable(columns, cells, styles, "Measures beside agents that know the state")

    def summary(self, result: dict[str, Any]) -> Summary:
        """Return the numbers of features beside those of the paper."""
        paper = result["paper"]
        features = result["features"]
        cameras = features["composite_by_camera"]
        text = (
            f"{result['classes']} classes by {features['selected']} tests in {result['stages']} "
            f"stages; {features['composite']} of them are composite "
            f"({', '.join(f'{n} of the {camera}' for camera, n in cameras.items())}), the others "
            f"are among {features['distinct']} primitive ones (the paper: {paper['classes']} from "
            f"{paper['selected']} in {paper['stages']}, {paper['distinct']} primitive ones). "
            f"Learning took {result['seconds']['learn']:.1f} s."
        )
        figures = {
            "trials.png": "trials missed and their lengths, stage by stage",
            "values.png": "learned, tabular and optimal values",
            "policy.png": "which way it thrusts, everywhere",
            "composites.png": "the composite features that it looks for most",
            "features.png": "what it looks for",
        }
        return Summary([*forest_text(result), text], figures)


def _measure_stages(
    stages: list[Stage], index: HillIndex, begin: Floats, callback: Callback
) -> list[dict[str, Any]]:
    """Return a line of the history for every stage; the same trials measure all of them."""
    graph = index.graph
    is_composite = np.array([graph.is_arranged(number) for number in range(len(graph))])
    lines = []
    for stage in stages:
        features = stage.classifier.features
        actions = stage.actions()[index.classify(stage.classifier)]
        lines.append(
            {
                "stage": stage.number,
                "classes": stage.classifier.n_classes,
                "features": len(features),
                "composite": int(is_composite[features].sum()),
                "residual": stage.residual,
                "aliased": stage.n_aliased,
                **as_dict(*trials(actor(actions), begin)),
            }
        )
        callback.on_step()
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
