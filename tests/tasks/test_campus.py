from __future__ import annotations

import copy
import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console

from rlvc import RLVC, Interactions, Percepts, Policy
from rlvc._core.params import as_json
from rlvc.classifiers import Diagrams, Tree
from rlvc.cli.progress import show_summary
from rlvc.envs.campus.graph_world import CAMPUS
from rlvc.envs.photos.views import Views, campus_views
from rlvc.learning import Compaction, Keep
from rlvc.learning.solvers.dynamic import ValueIteration
from rlvc.runs import evaluate_policy, write_run
from rlvc.runs.task import NEW_SEED
from rlvc.tasks import CampusOutcome, CampusTask, vote
from rlvc.tasks.campus import metrics as campus_measures
from rlvc.tasks.campus.figures import draw_errors, draw_figures, draw_map, draw_sizes
from rlvc.tasks.campus.metrics import ERRORS, direct_error
from rlvc.vision import ExtractionCache, InterestPoints, Keypoints
from tests.support.builders import database
from tests.support.commands import read
from tests.support.tasks import (
    CAMPUS_LEARNER,
    N_VIEWS,
    SHAPE,
    Draw,
    RecordingCallback,
    photograph,
    run_campus,
    texts,
    write_photographs,
)

PHOTOGRAPHS = Percepts()
for state in range(10):
    PHOTOGRAPHS.add(photograph(state, 0))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photographs(tmp_path_factory.mktemp("campus") / "photographs")


@pytest.fixture(scope="module")
def done(photographs: Path) -> CampusOutcome:
    return run_campus(photographs)


def literal_optimum() -> list[set[int]]:
    """Return the actions of each state that none is better than, by repeated Bellman updates."""
    value = [0.0] * CAMPUS.n_states
    for _ in range(200):
        q = [
            [
                CAMPUS.reward[s, a]
                + (0.0 if CAMPUS.terminated[s, a] else 0.8 * value[CAMPUS.next_state[s, a]])
                for a in range(3)
            ]
            for s in range(CAMPUS.n_states)
        ]
        value = [max(row) for row in q]
    return [{a for a in range(3) if max(row) - row[a] < 1e-6} for row in q]


def wrong_views(policy: Policy, views: Views, division: str) -> list[int]:
    """Ask a policy view by view; return how many decisions are wrong in each state."""
    best = literal_optimum()
    return [
        sum(int(policy.predict(views.image(state, view))[0]) not in best[state] for view in numbers)
        for state, numbers in enumerate(views.division(division))
    ]


def views_of(photographs: Path, seed: int = 0) -> Views:
    return CampusTask(pictures=str(photographs)).views(seed)


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    kept = copy.deepcopy(result)
    for part in (kept, kept["basic"], kept["compact"]):
        del part["seconds"]
    return kept


# What a run finds --------------------------------------------------------------------------------


def test_a_result_has_all_its_numbers(done: CampusOutcome, photographs: Path) -> None:
    result = done.result
    assert set(result) == {
        "task", "pictures", "seed", "interactions", "percepts", "features", "basic", "compact",
        "ceiling", "direct", "seconds", "paper", "parameters", "versions",
    }  # fmt: skip
    assert (result["task"], result["pictures"]) == ("campus", str(photographs))
    assert (result["seed"], result["interactions"]) == (0, 500)
    assert result["percepts"] == 44 * 3
    assert result["paper"] == CampusTask.paper
    assert set(result["seconds"]) == {"collect", "extract", "learn", "evaluate"}
    assert json.loads(json.dumps(result)) == result
    for version in ("basic", "compact"):
        found = result[version]
        assert set(found) == {
            "classes", "features", "stages", "seconds", "train_error", "test_error", "history",
        }  # fmt: skip
        assert [line["stage"] for line in found["history"]] == list(range(found["stages"] + 1))
        for line in found["history"]:
            assert set(line) == {
                "stage", "classes", "features", "train_error", "test_error", "residual", "aliased",
            }  # fmt: skip
            assert line["residual"] >= 0.0
            assert 0 <= line["aliased"] <= line["classes"]
            assert 0.0 <= line["train_error"] <= 1.0
            assert 0.0 <= line["test_error"] <= 1.0
        last = found["history"][-1]
        for key in ("classes", "features", "train_error", "test_error"):
            assert found[key] == last[key]
        assert found["history"][0]["classes"] == 1
        assert 0.0 < found["train_error"] < found["history"][0]["train_error"]


@pytest.mark.parametrize("version", ["basic", "compact"])
def test_errors_are_those_of_a_literal_recount(
    done: CampusOutcome, version: str, photographs: Path, tmp_path: Path
) -> None:
    done.policies[version].save(tmp_path / "policy.rlvc")
    policy, found = Policy.load(tmp_path / "policy.rlvc"), done.result[version]
    wrong = wrong_views(policy, views_of(photographs), "test")
    assert found["test_error"] == pytest.approx(sum(wrong) / 44)
    assert done.evaluation.optimal[version] == pytest.approx(1 - np.array(wrong))  # of one view
    wrong = wrong_views(policy, views_of(photographs), "learn")
    assert found["train_error"] == pytest.approx(sum(wrong) / (3 * 44))
    assert policy.n_classes == found["classes"]
    assert len(policy.classifier.features) == found["features"]
    assert dict(policy.about) == {
        "task": "campus", "pictures": done.result["pictures"], "seed": "0", "version": version,
    }  # fmt: skip


def test_compaction_leaves_fewer_classes(done: CampusOutcome) -> None:
    basic, compact = done.result["basic"], done.result["compact"]
    assert compact["classes"] < basic["classes"]
    assert isinstance(done.policies["basic"].classifier, Tree)
    assert isinstance(done.policies["compact"].classifier, Diagrams)
    before, after = (line["classes"] for line in compact["history"][-2:])
    assert after < before  # by the last merge


@pytest.mark.slow
def test_the_same_seed_gives_the_same_result(done: CampusOutcome, photographs: Path) -> None:
    learner = dataclasses.replace(CAMPUS_LEARNER, threads=2)
    again = run_campus(photographs, learner=learner)
    first, second = without_seconds(done.result), without_seconds(again.result)
    assert first["parameters"].pop("threads") != second["parameters"].pop("threads")
    assert first == second
    other = run_campus(photographs, seed=1)
    assert without_seconds(other.result)["compact"] != first["compact"]
    assert views_of(photographs, 1).test != views_of(photographs).test


@pytest.mark.slow
def test_both_versions_learn_from_the_parameters_given(photographs: Path) -> None:
    plain = dataclasses.replace(CAMPUS_LEARNER, post_process=Keep())
    given = CampusTask().variants(CAMPUS_LEARNER)["compact"]
    assert given.post_process == CAMPUS_LEARNER.post_process
    found = run_campus(photographs, 200, plain)
    expected = as_json(dataclasses.replace(plain.fitted(PHOTOGRAPHS), post_process=Compaction()))
    assert found.result["parameters"] == expected
    assert expected["detector"]["type"] == "Sift"


@pytest.mark.slow
@pytest.mark.parametrize("interactions", [1, 30])
def test_few_interactions_will_do(photographs: Path, interactions: int) -> None:
    found = run_campus(photographs, interactions)
    for version in ("basic", "compact"):
        assert found.result[version]["classes"] >= 1
        wrong = wrong_views(found.policies[version], views_of(photographs), "learn")
        assert found.result[version]["train_error"] == pytest.approx(sum(wrong) / (3 * 44))
    assert found.result["percepts"] == 44 * 3  # measured whether they were met or not


@pytest.mark.slow
def test_callbacks_follow_a_run(photographs: Path) -> None:
    recorded = RecordingCallback()
    found = run_campus(photographs, 300, callbacks=[recorded])
    assert recorded.phases == [
        ("collect", 300), ("extract", 132), ("basic", None), ("compact", None), ("test", 44),
        ("vote", None),
    ]  # fmt: skip
    assert recorded.steps == {"collect": 300, "extract": 132, "test": 44}
    for version in ("basic", "compact"):
        assert len(recorded.stages[version]) == found.result[version]["stages"] + 1


@pytest.mark.slow
def test_photographs_in_which_nothing_can_be_told_are_learned_all_the_same(tmp_path: Path) -> None:
    learned_from = Views(photograph, SHAPE, [N_VIEWS] * 44, seed=0).learn
    blank = np.zeros(SHAPE, np.uint8)

    def only_when_learning(state: int, view: int) -> NDArray[np.uint8]:
        return photograph(state, view) if view in learned_from[state] else blank + state

    def only_when_testing(state: int, view: int) -> NDArray[np.uint8]:
        return blank + state if view in learned_from[state] else photograph(state, view)

    draws: tuple[Draw, ...] = (only_when_learning, only_when_testing, lambda s, v: blank + s)
    for number, draw in enumerate(draws):
        root = write_photographs(tmp_path / str(number), draw)
        found = run_campus(root, 200)
        best = literal_optimum()
        (action,) = best[0]  # the vote takes every view for one of state 0
        wrong = sum(action not in actions for actions in best)
        assert found.result["ceiling"] == pytest.approx(wrong / 44)


def test_knowing_the_state_is_tabular_learning() -> None:
    """Try every action in every state once: all is known then, since all is certain."""
    states, actions = np.divmod(np.arange(44 * 3), 3)

    def known(kept: NDArray[np.bool_]) -> Interactions:
        n = int(kept.sum())
        percepts = Percepts()
        percepts.add(np.zeros((1, 1, 3), np.uint8))
        s, a = states[kept], actions[kept]
        nothing = np.zeros(n, np.int64)
        return Interactions(
            percepts=percepts, start=nothing, action=a, reward=CAMPUS.reward[s, a], end=nothing,
            episode=np.arange(n), terminated=CAMPUS.terminated[s, a],
            truncated=np.zeros(n, np.bool_), n_actions=3,
            state=s[:, None].astype(float),
            next_state=CAMPUS.next_state[s, a][:, None].astype(float),
        )  # fmt: skip

    learner = RLVC(solver=ValueIteration(), gamma=0.8)
    assert direct_error(known(np.ones(44 * 3, np.bool_)), learner) == 0.0
    never_forward = direct_error(known(actions != 2), learner)
    assert never_forward == pytest.approx(
        np.mean([0 not in best for best in literal_optimum()])  # all the same, so the first
    )


# The vote of nearest neighbours ------------------------------------------------------------------


def keypoints_of(images: list[list[tuple[int, ...]]], width: int) -> Keypoints:
    """Return the keypoints of images, given the descriptors of their points."""
    points = [descriptor for image in images for descriptor in image]
    distinct = list(dict.fromkeys(points))
    return Keypoints(
        begin=np.cumsum([0, *map(len, images)]),
        points=InterestPoints.at(np.zeros((len(points), 2), np.float32), 1.0),
        descriptors=np.array(distinct, np.uint8).reshape(len(distinct), width),
        row=np.array([distinct.index(point) for point in points], np.int64),
    )


def literal_vote(
    images: list[list[tuple[int, ...]]], labels: list[int], asked: list[list[tuple[int, ...]]]
) -> list[int]:
    answers = []
    for image in asked:
        votes = [0] * (max(labels) + 1)
        for point in image:
            nearest, winner = None, None
            for known, label in zip(images, labels, strict=True):
                for other in known:
                    gap = sum((a - b) ** 2 for a, b in zip(point, other, strict=True))
                    if nearest is None or gap < nearest:
                        nearest, winner = gap, label
            if winner is not None:
                votes[winner] += 1
        answers.append(votes.index(max(votes)))
    return answers


@settings(deadline=None, max_examples=150)
@given(data=st.data(), width=st.integers(1, 3), block=st.sampled_from([1, 2, 5, 256]))
def test_the_vote_is_that_of_a_double_loop(data: st.DataObject, width: int, block: int) -> None:
    point = st.tuples(*[st.integers(0, 3)] * width)  # few values, so that there are many ties
    some_images = st.lists(st.lists(point, max_size=5), min_size=1, max_size=6)
    images, asked = data.draw(some_images), data.draw(some_images)
    labels = data.draw(st.lists(st.integers(0, 4), min_size=len(images), max_size=len(images)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(campus_measures, "BLOCK", block)
        found = vote(keypoints_of(images, width), np.array(labels), keypoints_of(asked, width))
    assert found.tolist() == literal_vote(images, labels, asked)


def test_ties_in_a_vote_go_to_the_first_descriptor_and_to_the_lowest_label() -> None:
    images: list[list[tuple[int, ...]]] = [[(4,), (0,)], [(8,)], [(4,)]]
    labels = np.array([2, 1, 0])
    asked: list[list[tuple[int, ...]]] = [[(4,)], [(6,)], [(9,), (1,)], []]
    found = vote(keypoints_of(images, 1), labels, keypoints_of(asked, 1))
    assert found.tolist() == [2, 2, 1, 0]


def test_the_ceiling_is_the_error_of_the_vote(done: CampusOutcome, photographs: Path) -> None:
    views, extractor = views_of(photographs), CAMPUS_LEARNER.new_extractor(PHOTOGRAPHS)
    seen = {}
    for division in ("learn", "test"):
        percepts = Percepts()
        for state, numbers in enumerate(views.division(division)):
            for view in numbers:
                percepts.add(views.image(state, view))
        (seen[division],) = ExtractionCache().extract(extractor, percepts)
    voted = vote(seen["learn"], np.arange(44).repeat(3), seen["test"])
    best, q = literal_optimum(), CAMPUS.optimal_q()
    wrong = [q[state].argmax() not in best[shown] for shown, state in enumerate(voted.tolist())]
    # The views of the last four states look like those of the first four.
    assert sum(voted != np.arange(44)) >= 2
    assert done.result["ceiling"] == pytest.approx(np.mean(wrong))


# Evaluating --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_policy_is_evaluated_on_both_divisions(done: CampusOutcome, photographs: Path) -> None:
    policy, compact = done.policies["compact"], done.result["compact"]
    found = evaluate_policy(policy, pictures=str(photographs), seed=0)
    assert found == {
        "task": "campus",
        "pictures": str(photographs),
        "seed": 0,
        "train_error": pytest.approx(compact["train_error"]),
        "test_error": pytest.approx(compact["test_error"]),
    }
    # A folder is divided as for learning, unless a seed is given.
    assert evaluate_policy(policy) == found
    other = evaluate_policy(policy, seed=5)
    views = campus_views(str(photographs), 5)
    for division, n in (("learn", 3 * 44), ("test", 44)):
        wrong = sum(wrong_views(policy, views, division))
        assert other[ERRORS[division]] == pytest.approx(wrong / n)


def test_views_that_are_drawn_are_new_and_a_folder_is_divided_as_it_was(
    done: CampusOutcome, photographs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    two = Views(photograph, SHAPE, [2], seed=0)

    def remember(pictures: str, seed: int) -> Views:
        asked.append((pictures, seed))
        return two  # what they show does not matter

    monkeypatch.setattr("rlvc.tasks.campus.task.campus_views", remember)
    policy = done.policies["compact"]
    learned = dataclasses.replace(policy, about={**policy.about, "seed": "7"})
    stranger = dataclasses.replace(policy, about={"task": "maze", "pictures": "coil", "seed": "7"})
    for one, pictures in (
        (learned, None), (learned, "photos"), (learned, "places"), (stranger, None),
        (stranger, str(photographs)),
    ):  # fmt: skip
        evaluate_policy(one, task="campus", pictures=pictures)
    folder = str(photographs)
    new = NEW_SEED
    assert asked == [(folder, 7), ("photos", new), ("places", new), ("photos", new), (folder, 0)]


def test_actions_may_be_numbered_from_one(done: CampusOutcome, photographs: Path) -> None:
    policy = done.policies["basic"]
    from_one = dataclasses.replace(policy, action_start=1)
    assert evaluate_policy(from_one, pictures=str(photographs), seed=0) == (
        evaluate_policy(policy, pictures=str(photographs), seed=0)
    )


def test_a_policy_of_something_else_can_be_tried_on_the_campus(photographs: Path) -> None:
    images = np.stack([photograph(state, 0) for state in range(6)])
    policy = RLVC(threads=1).learn(database(images))
    found = evaluate_policy(policy, task="campus", pictures=str(photographs))
    assert 0.0 < found["test_error"] <= 1.0


# Figures and files -------------------------------------------------------------------------------


FIGURES = {"map.png", "errors.png", "sizes.png", "features.png"}
FILES = FIGURES | {"policy.rlvc", "basic.rlvc", "percept.png", "result.json"}


def check_folder(folder: Path) -> dict[str, Any]:
    assert {path.name for path in folder.iterdir()} - {"stages.csv"} == FILES
    for name in FIGURES:
        image = read(folder / name)
        assert 200 <= min(image.shape[:2]) <= max(image.shape[:2]) <= 3000
        assert len(np.unique(image @ (1, 256, 65536))) > 50  # colours
    result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    for version, name in (("compact", "policy.rlvc"), ("basic", "basic.rlvc")):
        policy = Policy.load(folder / name)
        assert policy.about["version"] == version
        assert policy.n_classes == result[version]["classes"]
    return result


@pytest.mark.slow
def test_a_run_is_written_and_reads_as_it_was(
    done: CampusOutcome, photographs: Path, tmp_path: Path
) -> None:
    write_run(done, tmp_path)
    assert check_folder(tmp_path) == done.result
    shown = read(tmp_path / "percept.png")[:, :, ::-1]
    views = views_of(photographs)
    assert np.array_equal(shown, views.image(0, views.test[0][0]))


def test_lines_are_those_of_the_history(done: CampusOutcome) -> None:
    figures = {
        ("train_error", "test_error"): draw_errors(done.result),
        ("classes", "features"): draw_sizes(done.result),
    }
    for keys, figure in figures.items():
        for axes, key in zip(figure.axes, keys, strict=True):
            for line, version in zip(axes.lines, ("basic", "compact"), strict=False):
                history = done.result[version]["history"]
                assert np.asarray(line.get_xdata()).tolist() == [h["stage"] for h in history]
                assert np.asarray(line.get_ydata()).tolist() == [h[key] for h in history]
    words = texts(figures["train_error", "test_error"])
    assert f"the tree: {done.result['basic']['test_error']:.1%} at the end" in words
    assert f"compacted: {done.result['compact']['test_error']:.1%} at the end" in words
    assert f"a vote of nearest neighbours, {done.result['ceiling']:.1%}" in words
    words = texts(figures["classes", "features"])
    assert f"compacted: {done.result['compact']['classes']} at the end" in words


def test_the_map_shows_what_is_best_in_every_state(done: CampusOutcome) -> None:
    figure = draw_map(done)
    letters = [note.get_text() for note in figure.axes[0].texts]
    expected = ["/".join("LRF"[a] for a in sorted(best)) for best in literal_optimum()]
    assert letters[-44:] == expected
    assert letters[:12] == ["goal", *map(str, range(11))]
    compact = done.result["compact"]
    assert f"with {compact['classes']} visual classes" in texts(figure)
    assert f"{1 - compact['test_error']:.1%} of its decisions" in texts(figure)


@pytest.mark.slow
def test_figures_of_one_stage_can_be_drawn(photographs: Path) -> None:
    found = run_campus(photographs, 1)
    assert found.result["basic"]["stages"] == 0
    assert {name for name, _ in draw_figures(found)} == FIGURES
    assert all(line.get_marker() == "o" for line in draw_sizes(found.result).axes[0].lines)


def test_the_summary_compares_the_versions(done: CampusOutcome, tmp_path: Path) -> None:
    console = Console(width=100, force_terminal=False)
    for name in FIGURES:
        (tmp_path / name).touch()
    with console.capture() as capture:
        show_summary(console, done, tmp_path)
    check_summary(capture.get(), done.result, tmp_path)


def check_summary(text: str, result: dict[str, Any], folder: Path) -> None:
    basic, compact = result["basic"], result["compact"]
    for name, found in (("the tree", basic), ("compacted", compact)):
        row = re.search(rf"^{name} +(.*)$", text, re.M)
        assert row is not None
        assert row[1].split() == [
            f"{found['train_error']:.1%}", f"{found['test_error']:.1%}", str(found["classes"]),
            str(found["features"]), str(found["stages"]),
        ]  # fmt: skip
    assert re.search(rf"^vote of neighbours +– +{result['ceiling']:.1%} ", text, re.M)
    assert re.search(rf"^state known +{result['direct']:.1%} ", text, re.M)
    assert re.search(r"^the paper's, compacted +0\.0% +4\.5% +59 +171 +–$", text, re.M)
    assert f"From {result['features']['distinct']} distinct features" in text
    for name in FIGURES:
        assert f"  {folder / name}  " in text
    assert f"rlvc explain {folder / 'policy.rlvc'} {folder / 'percept.png'}\n" in text


# The command line --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_campus_from_its_run_to_an_explanation(
    call: Any, photographs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = ("run", "campus", "--pictures", photographs, "--out", out)
    printed = call.succeed(*run, "--interactions", 200)
    for phase in ("explore", "extract", "test", "vote", "learn", "compact"):
        assert re.search(rf"^{phase} .* s\b", printed, re.M), phase
    result = check_folder(out)
    assert (result["interactions"], result["seed"]) == (200, 0)
    assert result["pictures"] == str(photographs)
    learner = CampusTask().base_learner().fitted(PHOTOGRAPHS)
    assert result["parameters"] == as_json(dataclasses.replace(learner, post_process=Compaction()))
    check_summary(printed, result, out)

    found = json.loads(call.succeed("evaluate", out / "policy.rlvc", "--seed", 0, "--json"))
    assert list(found) == ["task", "pictures", "seed", "train_error", "test_error"]
    assert found["test_error"] == pytest.approx(result["compact"]["test_error"])
    printed = call.succeed("evaluate", out / "basic.rlvc", "--seed", 0)
    train_error = result["basic"]["train_error"]
    assert re.search(rf"^train_error +{train_error:.3f}\s*$", printed, re.M)

    printed = call.succeed(
        "explain", out / "policy.rlvc", out / "percept.png", "--out", tmp_path / "x.png"
    )
    assert re.search(r"^so the action is (turn left|turn right|forward)$", printed, re.M)
    assert "add --overwrite" in call.fail(2, *run, "--interactions", 20)


def test_compaction_on_the_campus_takes_settings(
    call: Any, photographs: Path, tmp_path: Path, unpainted: None
) -> None:
    call.succeed(
        "run", "campus", "--pictures", photographs, "--out", tmp_path, "--interactions", 100,
        "--compact", "--set", "post_process.every=2", "--set", "detector=harris", "--set",
        "descriptor=invariants", "--set", "threshold=0.1", "--seed", 3,
    )  # fmt: skip
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result["parameters"]["post_process"]["every"] == 2
    assert result["parameters"]["detector"]["type"] == "Harris"
    assert result["seed"] == 3


def test_a_bad_photograph_is_a_failure(call: Any, photographs: Path, tmp_path: Path) -> None:
    root, out = tmp_path / "photographs", tmp_path / "out"
    shutil.copytree(photographs, root)
    (root / "03-E" / "1.png").write_text("no image")
    done = call("run", "campus", "--pictures", root, "--interactions", 50, "--out", out)
    assert (done.code, done.err) == (
        1,
        f"rlvc: Picture {root}/03-E/1.png is not an image that OpenCV can read. Give a PNG, JPEG, "
        "BMP, TIFF or WebP file.\n",
    )
    assert list(out.iterdir()) == []
