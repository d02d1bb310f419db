"""The car on the hill, learned with composite features and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc.data.collect import Env
from rlvc.data.images import Image
from rlvc.envs.hill.dynamics import ACTION_NAMES, HILL
from rlvc.envs.hill.env import HillEnv
from rlvc.learning.generation.base import Canonical
from rlvc.learning.rlvc import RLVC
from rlvc.learning.stage import Stage
from rlvc.policies.forest import AnyPolicy
from rlvc.policies.policy import Policy
from rlvc.policies.values import greedy
from rlvc.report.web.scene import Scene
from rlvc.runs.callbacks import Callback
from rlvc.runs.curves import describe_sizes, history_line
from rlvc.runs.direct_perception import TabularPolicy
from rlvc.runs.examples import Examples
from rlvc.runs.resources import ResourceEstimate, estimate_collection
from rlvc.runs.run import Outcome, Run
from rlvc.runs.summary import (
    Summary,
    SummaryTable,
    forest_text,
    format_mean,
    format_share,
    format_sizes,
    table_of_agents,
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
    compare,
    learn_states,
    measure,
    optimal_action,
    starts,
)
from rlvc.tasks.hill.scene import draw_scene
from rlvc.tasks.paper_task import PaperTask

START = (-0.5, 0.0)  # the state of the sample percept: at rest in the valley


@dataclass(frozen=True, slots=True)
class HillEvaluation(TaskEvaluation):
    """What was measured on the hill.

    Attributes:
        env: The environment.
        index: Which image exhibits which of the policy's features.
        actions: (361, 1025) the actions of the forest if there is one, else of the policy; rows by
            velocity, columns by position.
        values: (361, 1025) the values of these actions.
        direct: The policy of direct perception on the paper's grid.
    """

    env: HillEnv
    index: HillIndex = field(repr=False)
    actions: Ints = field(repr=False)
    values: Floats = field(repr=False)
    direct: TabularPolicy


HillOutcome = Outcome[HillEvaluation]


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
        return HillEnv(self.pictures)

    def settings(self, preset: str) -> list[str]:
        """Return composite features for the paper's preset, as the paper uses them on the hill."""
        return ["generator=composites"] if preset == "paper" else []

    def variants(self, learner: RLVC) -> dict[str, RLVC]:
        """Return the learner and, if it makes composite features, one without them."""
        if isinstance(learner.generator, Canonical):
            return {"learn": learner}
        return {"learn": learner, "primitive": replace(learner, generator=Canonical())}

    def estimate(self, run: Run[HillEvaluation], env: Env) -> ResourceEstimate:
        """Return what a run needs; there are few distinct images."""
        space, n = env.observation_space, self.interactions
        return estimate_collection(space, n, run.learner, run.trees, images=N_IMAGES)

    def evaluate(self, run: Run[HillEvaluation]) -> HillEvaluation:
        """Measure all stages with composite features and without, tables, and the optimum."""
        data, learner = run.database.interactions, run.variants["learn"]
        stages, policy = run.stages["learn"], run.policies["learn"]
        n_steps = N_IMAGES + sum(map(len, run.stages.values()))
        with run.timer.phase("evaluate", n_steps):
            graph = stages[-1].database.graph
            images = index_hill(
                run.database.extractor, graph, self.env.strip, learner.threads, run.callback.on_step
            )
            start = starts(run.seed, self.episodes or TRIALS)
            history = _measure_stages(stages, HillIndex.of(images, graph), start, run.callback)
            numbers = describe_sizes(stages[-1]) | {
                "images": {one.camera: len(one) for one in data.percepts.images},
                "measures": _measures(history[-1]),
                "direct": compare(data, policy.n_classes, learner, start),
                "optimum": measure(optimal_action, start),
            }
            numbers["features"] |= _count_composites(policy)
            primitive, alone = stages, history
            if "primitive" in run.stages:  # its features have other numbers
                primitive = run.stages["primitive"]
                other = HillIndex.of(images, primitive[-1].database.graph)
                alone = _measure_stages(primitive, other, start, run.callback)
            index = HillIndex.of(images, policy.graph)
            classes = index.classify(policy.classifier, learner.threads)
            actions, values = policy.actions[classes], policy.values[classes]
            if run.forest is not None:
                q, is_tried = values_of_forest(run.forest.policy, images, learner.threads)
                actions, values = greedy(q, is_tried), np.where(is_tried, q, -np.inf).max(axis=2)
                numbers["forest"] = run.forest.describe(measure(actor(actions), start))
        seconds = run.timer.seconds
        numbers["primitive_only"] = describe_sizes(primitive[-1]) | {
            "features": len(primitive[-1].classifier.features),
            "seconds": seconds.pop("primitive", seconds["learn"]),
            "measures": _measures(alone[-1]),
            "history": alone,
        }
        numbers |= {"paper": self.paper, "history": history}
        direct = learn_states(data, PAPER_SIDE, learner)
        return HillEvaluation(numbers, self.env, index, actions, values, direct)

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
        return measure(act, starts(seed, self.episodes or TRIALS))

    def figures(self, outcome: HillOutcome) -> Iterator[tuple[str, bytes]]:
        """Yield the trials, values, actions, composite features, and features."""
        from rlvc.tasks.hill.figures import draw_figures

        return draw_figures(outcome)

    def sample_percept(self, outcome: HillOutcome) -> dict[str, Image]:
        """Return the percept at rest in the valley."""
        return dict(self.env.percept(START))

    def percept_file(self, camera: str) -> str:
        """Return a file name after the camera."""
        return f"{camera}.png"

    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return all positions and velocities."""
        return draw_scene(self.env.strip)

    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return the measures beside those without composites, of tables and of the optimum."""

        def cells_of(found: Mapping[str, Any]) -> list[str]:
            return [format_share(found.get("missed")), format_mean(found.get("mean_steps"))]

        others = []
        if alone := result.get("primitive_only"):
            others.append(("without composite features", alone["measures"], format_sizes(alone)))
        return table_of_agents(result, ["missed", "steps"], cells_of, others)

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
            "trials.png": "missed trials and their lengths, by stage",
            "values.png": "learned, tabular and optimal values",
            "policy.png": "the action in every state",
            "composites.png": "the composite features that it tests most",
            "features.png": "the features that it tests",
        }
        return Summary([*forest_text(result), text], figures)


def _measure_stages(
    stages: list[Stage], index: HillIndex, start: Floats, callback: Callback
) -> list[dict[str, Any]]:
    """Return a line of the history for each stage; all are measured with the same trials."""
    lines = []
    for stage in stages:
        actions = stage.actions()[index.classify(stage.classifier)]
        composite = sum(map(index.graph.is_arranged, stage.classifier.features.tolist()))
        measures = measure(actor(actions), start)
        lines.append(history_line(stage, composite=composite, **measures))
        callback.on_step()
    return lines


def _measures(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("missed", "mean_steps")}


def _count_composites(policy: Policy) -> dict[str, Any]:
    """Return how many composite features are tested, in all and by camera."""
    tested, graph = policy.classifier.features.tolist(), policy.graph
    cameras = [graph.camera[number] for number in tested if graph.is_arranged(number)]
    by_camera = {name: cameras.count(name) for name in (GROUND, GAUGE)}
    return {"composite": len(cameras), "composite_by_camera": by_camera}
