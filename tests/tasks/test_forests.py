"""Forests in whole runs: what is measured, written, shown and drawn of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc import RLVC, Forest, ForestPolicy, Policy, load_policy
from rlvc.envs.hill.scene import gauge_image, ground_image
from rlvc.learning import Compaction
from rlvc.report.figures import draw_explanation
from rlvc.runs import Run, evaluate_policy, write_run
from rlvc.tasks import CampusOutcome, HillOutcome, HillTask
from rlvc.tasks.campus.figures import draw_errors, draw_map
from rlvc.tasks.hill.figures import draw_state_values, draw_trials
from rlvc.tasks.hill.index import GAUGE, GROUND
from tests.cli.test_cli import FILES
from tests.support.builders import COLOUR, GREY, N_PLACES, database
from tests.support.commands import SMALL_RUN, contents, read, strict
from tests.support.tasks import CAMPUS_LEARNER, run_campus, texts, without_figures
from tests.tasks import test_campus

pytestmark = pytest.mark.slow

photographs = test_campus.photographs
KEYS = {"trees", "measures", "out_of_bag", "classes", "features", "seconds", "parameters"}


def check_forest(found: dict[str, Any], trees: int, measures: set[str]) -> None:
    assert set(found) == KEYS
    assert found["trees"] == found["parameters"]["trees"] == trees
    assert set(found["measures"]) == measures
    assert found["out_of_bag"] is None or 0.0 <= found["out_of_bag"] < math.inf
    assert found["classes"] >= 1
    assert found["seconds"] > 0


# The small maze, from the command line -----------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_a_run_with_trees_from_the_command_line(call: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = call(*SMALL_RUN, "--trees", 2, "--seed", 3, "--out", folder)
    assert done.code == 0
    assert "a forest of 2" in done.out
    assert "error on episodes left out" in " ".join(done.out.split())
    assert set(contents(folder)) == FILES | {"one.rlvc"}
    result = strict((folder / "result.json").read_text(encoding="utf-8"))
    check_forest(result["forest"], 2, {"success", "mean_steps", "suboptimal"})
    assert result["forest"]["parameters"]["seed"] == 3
    forest, one = load_policy(folder / "policy.rlvc"), load_policy(folder / "one.rlvc")
    assert isinstance(forest, ForestPolicy)
    assert isinstance(one, Policy)
    assert len(forest.trees) == 2
    assert dict(forest.about) == dict(one.about) == {"task": "small", "pictures": "photos"}
    found = call("evaluate", folder / "policy.rlvc", "--seed", 3, "--episodes", 5, "--json")
    assert strict(found.out) == {
        "task": "small", "pictures": "photos", **result["forest"]["measures"],
    }  # fmt: skip
    why = tmp_path / "why.png"
    told = call("explain", folder / "policy.rlvc", folder / "percept.png", "--out", why)
    assert told.out.startswith("2 trees vote: ")
    assert read(why).std() > 10

    with without_figures():
        again = call(*SMALL_RUN, "--seed", 3, "--out", folder, "--overwrite")
    assert again.code == 0
    assert "a forest" not in again.out
    assert set(contents(folder)) == FILES  # what was there of the forest is gone
    alone = strict((folder / "result.json").read_text(encoding="utf-8"))
    assert "forest" not in alone
    assert alone["measures"] == result["measures"]  # a forest changes nothing beside it


def test_trees_are_a_number(call: Any, tmp_path: Path) -> None:
    assert call("run", "maze", "--trees", -1, "--out", tmp_path).code == 2


# The hill ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_the_hill() -> HillOutcome:
    learner = RLVC(gamma=0.75, max_stages=4)
    return Run(HillTask(interactions=200, episodes=20), learner, trees=2).execute()


def test_a_forest_on_the_hill_is_measured(on_the_hill: HillOutcome, tmp_path: Path) -> None:
    check_forest(on_the_hill.result["forest"], 2, {"missed", "mean_steps"})
    assert json.loads(json.dumps(on_the_hill.result)) == on_the_hill.result
    assert "forest" not in on_the_hill.result["seconds"]
    found = evaluate_policy(on_the_hill.best, seed=0, episodes=20)
    measures = on_the_hill.result["forest"]["measures"]
    assert {key: found[key] for key in measures} == measures
    write_run(on_the_hill, tmp_path)
    assert isinstance(load_policy(tmp_path / "policy.rlvc"), ForestPolicy)
    assert isinstance(load_policy(tmp_path / "one.rlvc"), Policy)
    assert "2 trees" in texts(draw_trials(on_the_hill.result))
    assert "From images, 2 trees" in texts(draw_state_values(on_the_hill))


def test_a_forest_does_the_same_in_bulk_as_alone(on_the_hill: HillOutcome) -> None:
    forest, rng = on_the_hill.best, np.random.default_rng(0)
    assert isinstance(forest, ForestPolicy)
    for row, column in zip(rng.integers(0, 361, 12), rng.integers(0, 1025, 12), strict=True):
        percept = {
            GROUND: ground_image(on_the_hill.evaluation.env.strip, int(column)),
            GAUGE: gauge_image(int(row)),
        }
        assert forest.predict(percept)[0] == on_the_hill.evaluation.actions[row, column]
        value = forest.explain(percept).q.max()
        assert on_the_hill.evaluation.values[row, column] == pytest.approx(value)


# The campus --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_the_campus(photographs: Path) -> CampusOutcome:
    learner = replace(CAMPUS_LEARNER, post_process=Compaction(every=0))
    return run_campus(photographs, 300, learner, trees=2)


def test_a_forest_on_the_campus_is_measured(on_the_campus: CampusOutcome, tmp_path: Path) -> None:
    result = on_the_campus.result
    check_forest(result["forest"], 2, {"train_error", "test_error"})
    found = evaluate_policy(on_the_campus.best)
    assert {key: found[key] for key in ("train_error", "test_error")} == pytest.approx(
        result["forest"]["measures"]
    )
    assert on_the_campus.best.about["version"] == "forest"
    share = on_the_campus.evaluation.optimal["forest"]
    assert share.mean() == pytest.approx(1 - result["forest"]["measures"]["test_error"])
    write_run(on_the_campus, tmp_path)
    assert isinstance(load_policy(tmp_path / "policy.rlvc"), ForestPolicy)
    for name in ("compact", "basic"):
        loaded = load_policy(tmp_path / f"{name}.rlvc")
        assert isinstance(loaded, Policy)
        assert loaded.about["version"] == name
    assert "a forest: " in texts(draw_errors(result))
    assert "with 2 trees of" in texts(draw_map(on_the_campus))


# Pictures of a vote ------------------------------------------------------------------------------


def test_a_vote_is_drawn_with_what_decided() -> None:
    views = [{"front": COLOUR[i // 2], "rear": GREY[i % 2]} for i in range(N_PLACES)]
    for images in (COLOUR, GREY, views):
        forest = Forest(trees=3).learn(database(images))
        vote = forest.explain(images[1])
        shown = texts(draw_explanation(forest, images[1], vote))
        assert "The most decisive features" in shown
        assert "of 3 trees" in shown
        for rank, one in vote.shown():
            assert f"{rank}. " in shown
            assert f"{one.gain:+.1f}, {one.n_trees} tree" in shown


def test_half_of_what_is_shown_was_seen() -> None:
    forest = Forest(trees=3).learn(database(COLOUR))
    vote = forest.explain(COLOUR[1])
    seen = [one for one in vote.decisive if one.test.exhibited and one.gain > 0]
    rest = [one for one in vote.decisive if not (one.test.exhibited and one.gain > 0)]
    assert seen
    many = replace(vote, decisive=tuple(rest[:1] * 20 + seen[:1] * 20))
    assert [rank for rank, _ in many.shown(6)] == [1, 2, 3, 21, 22, 23]
    assert [rank for rank, _ in replace(vote, decisive=tuple(seen[:1] * 4)).shown(3)] == [1, 2, 3]
    assert replace(vote, decisive=()).shown() == []
