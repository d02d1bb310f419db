from __future__ import annotations

import copy
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console

from rlvc import RLVC, Percepts, Policy
from rlvc._core.params import as_json
from rlvc.classifiers import Split, Tree
from rlvc.cli.progress import show_summary
from rlvc.envs.hill.scene import (
    LAST_GAUGE,
    LAST_GROUND,
    gauge_column,
    gauge_image,
    ground_column,
    ground_image,
)
from rlvc.features import AtLeast, Composite, FeatureGraph, InCell, LazyFeatures, Primitive
from rlvc.learning.generation.base import Canonical
from rlvc.learning.generation.composites import Composites
from rlvc.report.figures import arrange, brief, draw_explanation
from rlvc.report.figures.arrangements import YELLOW
from rlvc.runs import Run, evaluate_policy
from rlvc.runs.task import NEW_SEED
from rlvc.tasks import HillOutcome, HillTask
from rlvc.tasks.hill.composites_figure import (
    caption,
    draw_composites,
    in_words,
    most_tested,
    ranges,
)
from rlvc.tasks.hill.figures import draw_state_values, draw_thrusts, draw_trials
from rlvc.tasks.hill.index import N_IMAGES, POSITIONS, VELOCITIES, HillIndex, actor
from rlvc.tasks.hill.metrics import TRIALS, starts
from rlvc.tasks.hill.task import START
from tests.support.commands import read
from tests.support.tasks import RecordingCallback, texts

LEARNER = RLVC(gamma=0.75, generator=Composites(), max_stages=8)
N, N_TRIALS = 400, 150
FIGURES = {"trials.png", "values.png", "policy.png", "composites.png", "features.png"}
FILES = FIGURES | {"policy.rlvc", "ground.png", "gauge.png", "result.json"}


@pytest.fixture(scope="module")
def recorded() -> RecordingCallback:
    """The callback that records the events of the run."""
    return RecordingCallback()


@pytest.fixture(scope="module")
def done(recorded: RecordingCallback) -> HillOutcome:
    task = HillTask(interactions=N, episodes=N_TRIALS)
    return Run(task, LEARNER, callbacks=[recorded]).execute()


def blind(graph: FeatureGraph, tested: FeatureGraph | None = None) -> HillIndex:
    """Return an index without any feature, for tests that do not depend on features."""
    n = len(tested or graph)
    nothing = np.zeros((len(POSITIONS), n), np.bool_), np.zeros((len(VELOCITIES), n), np.bool_)
    return HillIndex(tested or graph, *nothing)


def some_states(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Return random states, some of them beyond the ends of the hill or of the gauge."""
    return np.random.default_rng(seed).uniform((-1.1, -3.2), (1.1, 3.2), (n, 2))


# What a run finds --------------------------------------------------------------------------------


def test_a_result_has_all_its_numbers(done: HillOutcome) -> None:
    result = done.result
    assert set(result) == {
        "task", "pictures", "seed", "interactions", "percepts", "images", "stages", "classes",
        "features", "seconds", "measures", "direct", "optimum", "primitive_only", "paper",
        "history", "parameters", "versions",
    }  # fmt: skip
    assert (result["task"], result["pictures"], result["seed"]) == ("hill", "photos", 0)
    assert (result["interactions"], result["paper"]) == (N, HillTask.paper)
    assert N < result["percepts"] < 2 * N
    assert result["images"]["ground"] <= len(POSITIONS)
    assert result["images"]["gauge"] <= len(VELOCITIES)
    assert set(result["seconds"]) == {"collect", "extract", "learn", "evaluate"}
    assert set(result["direct"]) == {"equal", "best", "grid13"}
    percepts = Percepts()
    for place in np.linspace(-0.9, 0.9, 20):
        percepts.add(done.evaluation.env.percept((place, place)))
    assert result["parameters"] == as_json(LEARNER.fitted(percepts))
    assert result["parameters"]["detector"]["type"] == "Harris"
    assert json.loads(json.dumps(result)) == result
    features = result["features"]
    assert features["selected"] == len(done.policy.classifier.features)
    assert sum(features["composite_by_camera"].values()) == features["composite"]
    assert features["composite_by_camera"]["gauge"] > 0
    assert features["distinct"] > features["selected"] > features["composite"]
    for found in (result, result["primitive_only"]):
        assert [line["stage"] for line in found["history"]] == list(range(found["stages"] + 1))
        last = found["history"][-1]
        assert found["measures"] == {key: last[key] for key in ("missed", "mean_steps")}
        assert found["classes"] == last["classes"]
        assert [found["history"][0][key] for key in ("classes", "features", "composite")] == [
            1, 0, 0,
        ]  # fmt: skip
        for line in found["history"]:
            assert set(line) == {
                "stage", "classes", "features", "composite", "residual", "aliased", "missed",
                "mean_steps",
            }  # fmt: skip
    assert result["history"][-1]["composite"] == features["composite"]
    assert not any(line["composite"] for line in result["primitive_only"]["history"])
    assert dict(done.policy.about) == {"task": "hill", "pictures": "photos"}


def test_callbacks_follow_a_run(done: HillOutcome, recorded: RecordingCallback) -> None:
    n_stages, n_alone = (
        len(one["history"]) for one in (done.result, done.result["primitive_only"])
    )
    n_images = sum(done.result["images"].values())
    measured = N_IMAGES + n_stages + n_alone
    assert recorded.phases == [
        ("collect", N), ("extract", n_images), ("learn", None), ("primitive", None),
        ("evaluate", measured),
    ]  # fmt: skip
    assert recorded.steps == {"collect": N, "extract": n_images, "evaluate": measured}
    stages = {phase: len(stages) for phase, stages in recorded.stages.items()}
    assert stages == {"learn": n_stages, "primitive": n_alone}


def test_the_policy_does_on_percepts_what_the_tables_say(done: HillOutcome, tmp_path: Path) -> None:
    done.policy.save(tmp_path / "policy.rlvc")
    policy = Policy.load(tmp_path / "policy.rlvc")
    states = some_states(60)
    percepts = [done.evaluation.env.percept(state) for state in states]
    batch = {camera: np.stack([one[camera] for one in percepts]) for camera in percepts[0]}
    expected = policy.predict(batch)[0]
    assert len(np.unique(expected)) == 2
    assert np.array_equal(actor(done.evaluation.actions)(states), expected)
    classes = policy.classify(batch)
    assert len(np.unique(classes)) > 5
    values = done.evaluation.values[gauge_column(states[:, 1]), ground_column(states[:, 0])]
    assert values == pytest.approx(policy.q[classes, policy.actions[classes]])


@pytest.mark.slow
def test_what_is_already_primitive_is_not_learned_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvc.tasks.hill.task.index_hill", lambda extractor, graph, *_: graph)
    monkeypatch.setattr(HillIndex, "of", blind)
    recorded = RecordingCallback()
    learner = dataclasses.replace(LEARNER, generator=Canonical())
    runs = [
        Run(HillTask(interactions=40, episodes=20), learner, seed=seed, callbacks=[recorded])
        .execute()
        .result
        for seed in (0, 0, 1)
    ]
    phases = ["collect", "extract", "learn", "evaluate"]
    assert [phase for phase, _ in recorded.phases] == phases * 3
    alone = runs[0]["primitive_only"]
    for key in ("stages", "classes", "measures", "history"):
        assert alone[key] == runs[0][key]
    assert alone["features"] == runs[0]["features"]["selected"]
    assert alone["seconds"] == runs[0]["seconds"]["learn"]
    for result in runs:
        del result["seconds"], result["primitive_only"]["seconds"]
    assert runs[0] == runs[1]
    assert runs[0]["history"] != runs[2]["history"]


# What the images show ----------------------------------------------------------------------------


def test_every_image_has_its_state(done: HillOutcome) -> None:
    assert (len(POSITIONS), len(VELOCITIES)) == (LAST_GROUND + 1, LAST_GAUGE + 1) == (1025, 361)
    assert np.array_equal(ground_column(POSITIONS), np.arange(1025))
    assert np.array_equal(gauge_column(VELOCITIES), np.arange(361))


def test_a_policy_sees_what_the_index_shows(done: HillOutcome) -> None:
    policy, index, strip = done.policy, done.evaluation.index, done.evaluation.env.strip
    graph = policy.graph
    assert index.graph == graph
    for camera, n_images in (("ground", len(POSITIONS)), ("gauge", len(VELOCITIES))):
        numbers = [n for n in range(len(graph)) if graph.camera[n] == camera]
        for column in range(0, n_images, 7):
            image = gauge_image(column) if camera == "gauge" else ground_image(strip, column)
            features = LazyFeatures(graph, policy.extractor, {camera: image})
            for number in numbers:
                assert index.shows(number)[column] == features.exhibits(number)
    assert all(index.shows(number).any() for number in range(len(graph)))


def test_a_composite_of_the_gauge_tells_velocities_apart(done: HillOutcome) -> None:
    graph = done.policy.graph
    on_gauge = [n for n in range(len(graph)) if graph.camera[n] == "gauge"]
    for number in on_gauge:
        share = done.evaluation.index.shows(number).mean()
        assert 0 < share < 1 if graph.height[number] else share == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_classes_are_those_of_walking(seed: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    n = 6
    ground = rng.random((5, n)) < 0.5
    gauge = rng.random((4, n)) < 0.5
    ground[:, : n // 2] = gauge[:, n // 2 :] = False
    tree = Tree()
    for _ in range(3):
        splits = rng.permutation(tree.n_classes)[:3]
        tree = tree.refine([Split(int(one), int(rng.integers(n))) for one in splits])
    groups = np.array_split(rng.permutation(tree.n_classes), 3)
    merged = tree.merge([sorted(group.tolist()) for group in groups if len(group)])
    index = HillIndex(FeatureGraph(tuple(Primitive("gauge", i) for i in range(n))), ground, gauge)
    for classifier in (tree, merged):
        expected = [
            [classifier.walk((gauge[v] | ground[p]).__getitem__)[1] for p in range(5)]
            for v in range(4)
        ]
        assert index.classify(classifier, threads).tolist() == expected


def test_only_nodes_are_classifiers_here(done: HillOutcome) -> None:
    with pytest.raises(
        TypeError,
        match=r"^The classifier of a policy on the hill must be a tree or diagrams; got N",
    ):
        done.evaluation.index.classify(None)  # type: ignore[arg-type]


# Evaluating --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_policy_is_evaluated_as_in_its_run(done: HillOutcome) -> None:
    found = evaluate_policy(done.policy, seed=0, episodes=N_TRIALS)
    assert found == {"task": "hill", "pictures": "photos", **done.result["measures"]}


def test_trials_are_new_unless_a_seed_is_given(
    done: HillOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def remember(seed: int, n: int) -> NDArray[np.float64]:
        asked.append((seed, n))
        return starts(seed, 5)

    monkeypatch.setattr("rlvc.tasks.hill.task.starts", remember)
    actions = done.evaluation.actions
    monkeypatch.setattr("rlvc.tasks.hill.task.actions_of", lambda *_: actions)
    evaluate_policy(done.policy)
    evaluate_policy(done.policy, seed=3, episodes=7)
    stranger = dataclasses.replace(done.policy, about={"task": "maze", "pictures": "coil"})
    assert evaluate_policy(stranger, task="hill")["pictures"] == "photos"
    assert asked == [(NEW_SEED, TRIALS), (3, 7), (NEW_SEED, TRIALS)]


def test_a_policy_of_something_else_is_refused(policy: Policy) -> None:
    with pytest.raises(
        ValueError,
        match=r"^The cameras of the policy must be those of the hill, gauge and ground; got a sin",
    ):
        evaluate_policy(policy, task="hill")


# Figures -----------------------------------------------------------------------------------------


def test_lines_are_those_of_the_history(done: HillOutcome) -> None:
    result = done.result
    figure = draw_trials(result)
    for axes, key in zip(figure.axes, ("missed", "mean_steps"), strict=True):
        curves = {str(line.get_label()).partition(":")[0]: line for line in axes.lines}
        for name, found in (
            ("rlvc, from images", result), ("without composites", result["primitive_only"]),
        ):  # fmt: skip
            line = curves[name]
            assert np.asarray(line.get_xdata()).tolist() == [h["stage"] for h in found["history"]]
            values = [np.nan if h[key] is None else h[key] for h in found["history"]]
            assert np.array_equal(np.asarray(line.get_ydata(), float), values, equal_nan=True)
        for name, found in (
            ("state known, 13 × 13", result["direct"]["grid13"]),
            ("the optimum", result["optimum"]),
        ):  # fmt: skip
            assert set(np.asarray(curves[name].get_ydata()).tolist()) == {found[key]}
    assert f"rlvc, from images: {result['measures']['missed']:.1%}" in texts(figure)


def test_trials_that_nobody_won_can_be_drawn(done: HillOutcome) -> None:
    lost = copy.deepcopy(done.result)
    for found in (lost, lost["primitive_only"]):
        found["history"] = found["history"][:1]
        found["history"][0] |= {"missed": 1.0, "mean_steps": None}
        found["stages"] = 0
    lost["direct"]["best"]["mean_steps"] = None
    figure = draw_trials(lost)
    assert "rlvc, from images: none" in texts(figure)
    assert figure.axes[0].lines[0].get_marker() == "o"


def test_values_are_painted_on_one_scale_where_they_belong(done: HillOutcome) -> None:
    figure = draw_state_values(done)
    direct, optimal, learned = (axes.images[0] for axes in figure.axes[:3])
    assert direct.norm is optimal.norm is learned.norm
    assert np.array_equal(np.asarray(learned.get_array()), done.evaluation.values)
    assert np.asarray(optimal.get_array()).shape == done.evaluation.values.shape
    assert list(learned.get_extent()) == [-1, 1, -3, 3]
    assert learned.origin == optimal.origin == direct.origin == "lower"  # low velocities below
    assert f"From images, {done.result['classes']} classes" in texts(figure)


def test_thrusts_are_painted_where_they_matter(done: HillOutcome) -> None:
    learned, optimal = (
        np.asarray(axes.images[0].get_array()) for axes in draw_thrusts(done.evaluation).axes[:2]
    )
    lost = optimal == 2
    assert 0.05 < lost.mean() < 0.3
    assert np.array_equal(learned == 2, lost)
    assert np.array_equal(learned[~lost], done.evaluation.actions[~lost])
    assert optimal[180, 256] == 0  # at rest in the valley it has to gain speed on the left
    assert optimal[240, 900] == 1


def test_composites_are_drawn_where_they_are_seen(done: HillOutcome) -> None:
    figure = draw_composites(done)
    shown = [axes for axes in figure.axes if axes.images]
    wanted = [n for camera in ("gauge", "ground") for n in most_tested(done, camera, 6)][:6]
    assert len(shown) >= min(len(wanted), 1)
    for axes, number in zip(shown, wanted, strict=False):
        assert axes.get_xlabel() == "\n".join(caption(done, number))
        yellow = [line for line in axes.lines if line.get_color() == YELLOW]
        assert len(yellow) >= 1  # from one part to the other
        what = "velocities" if done.policy.graph.camera[number] == "gauge" else "positions"
        assert f"\nat {what} " in axes.get_xlabel()


def test_a_policy_without_composites_has_a_figure_too(done: HillOutcome) -> None:
    plain = dataclasses.replace(done.policy, classifier=Tree())
    figure = draw_composites(dataclasses.replace(done, policies={"learn": plain}))
    assert "no composite feature was selected" in texts(figure)


def test_an_arrangement_stands_for_every_occurrence(done: HillOutcome) -> None:
    graph = done.policy.graph
    n_composites = 0
    for number in done.policy.classifier.features.tolist():
        camera = graph.camera[number]
        column = int(np.flatnonzero(done.evaluation.index.shows(number))[0])
        state = (POSITIONS[column], 0.0) if camera == "ground" else (0.0, VELOCITIES[column])
        features = LazyFeatures(
            graph, done.policy.extractor, dict(done.evaluation.env.percept(state))
        )
        found = arrange(graph, features, number)
        assert [one.middle for one in found] == [tuple(xy) for xy in features.find(number)[:, :2]]
        places = {
            tuple(xy) for part in graph.primitives(number) for xy in features.find(part)[:, :2]
        }
        for one in found:
            assert set(one.points) <= places
            assert len(one.points) == len(one.lines) + 1  # a binary tree
            if not isinstance(graph[number], AtLeast):
                assert (len(one.lines) > 0) == (graph.height[number] > 0)
        n_composites += graph.is_arranged(number)
    assert n_composites == done.result["features"]["composite"]


def test_what_is_in_one_part_of_the_frame_is_arranged_as_what_it_is(done: HillOutcome) -> None:
    number = most_tested(done, "gauge", 1)[0]
    column = int(np.flatnonzero(done.evaluation.index.shows(number))[0])
    cells = [InCell(part=number, level=1, column=x, line=y) for x in range(2) for y in range(2)]
    graph, numbers = done.policy.graph.add(cells)
    features = LazyFeatures(
        graph, done.policy.extractor, done.evaluation.env.percept((0.0, VELOCITIES[column]))
    )
    everywhere = arrange(graph, features, number)
    inside = [one for cell in numbers for one in arrange(graph, features, cell)]
    assert sorted(one.middle for one in inside) == sorted(one.middle for one in everywhere)
    assert all(one in everywhere for one in inside)


def test_ranges_bridge_small_gaps() -> None:
    shows = np.zeros(40, np.bool_)
    assert ranges(shows) == []
    shows[[0, 1, 5, 10, 39]] = True
    assert ranges(shows) == [(0, 5), (10, 10), (39, 39)]
    assert ranges(shows, gap=0) == [(0, 1), (5, 5), (10, 10), (39, 39)]
    assert in_words([]) == "that no image shows"
    assert in_words([(0.0, 0.5)]) == "0.00 to 0.50"
    assert in_words([(0.0, 0.5), (1.0, 1.0), (2.0, 2.5)]) == (
        "0.00 to 0.50, around 1.00 and 2.00 to 2.50"
    )
    assert in_words([(0.0, 0.5)] * 3 + [(2.0, 2.5)]) == "in 4 ranges from 0.00 to 2.50"


@pytest.mark.slow
def test_both_cameras_are_explained_with_their_own_features(done: HillOutcome) -> None:
    policy, graph = done.policy, done.policy.graph
    n_composites = 0
    velocity = VELOCITIES[done.evaluation.index.gauge.sum(axis=1).argmax()]  # of most features
    for place in (-0.9, 0.0, 0.9):
        percept = done.evaluation.env.percept((place, velocity))
        explanation = policy.explain(percept)
        figure = draw_explanation(policy, percept, explanation)
        for axes, camera in zip(figure.axes, ("gauge", "ground"), strict=False):
            assert axes.get_title(loc="left").endswith(camera)
            assert np.array_equal(np.asarray(axes.images[0].get_array()), percept[camera])
            expected = []
            for number, test in enumerate(explanation.tests, 1):
                if test.exhibited and graph.camera[test.number] == camera:
                    parts = [graph[n] for n in (test.number, *test.seen)]
                    has_lines = any(isinstance(part, Composite) for part in parts)
                    expected += [str(number)] * (1 if has_lines else len(test.occurrences))
                    n_composites += has_lines
                    words = f"{number}. {brief(graph, test.number)}"
                    is_told = words[:60] in texts(figure)
                    assert is_told == graph.is_arranged(test.number)
            assert [note.get_text() for note in axes.texts] == expected
    assert n_composites > 0


# Files, the terminal and the command line --------------------------------------------------------


def check_summary(text: str, result: dict[str, Any], folder: Path) -> None:
    for name, found, classes in (
        ("rlvc, from images", result["measures"], result["classes"]),
        ("without composite features", result["primitive_only"]["measures"],
         result["primitive_only"]["classes"]),
        ("state known, the paper's grid", result["direct"]["grid13"], 169),
        ("the optimum", result["optimum"], "–"),
    ):  # fmt: skip
        row = re.search(rf"^{name} +(.*)$", text, re.M)
        assert row is not None
        assert row[1].split()[:3] == [
            f"{found['missed']:.1%}", f"{found['mean_steps']:.1f}", str(classes),
        ]  # fmt: skip
    words = " ".join(text.split())
    features = result["features"]
    assert f"{result['classes']} classes by {features['selected']} tests in" in words
    assert f"{features['composite_by_camera']['gauge']} of the gauge" in words
    assert "(the paper: 157 from 91 in 38, 88 primitive ones)" in words
    for name in FIGURES:
        assert f"  {folder / name}  " in text
    assert (
        f"rlvc explain {folder / 'policy.rlvc'} gauge={folder / 'gauge.png'} "
        f"ground={folder / 'ground.png'}\n" in text
    )


def test_a_measure_that_does_not_exist_is_a_dash(done: HillOutcome, tmp_path: Path) -> None:
    lost = copy.deepcopy(done.result)
    lost["measures"] = {"missed": 1.0, "mean_steps": None}
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        show_summary(console, dataclasses.replace(done, result=lost), tmp_path)
    assert re.search(r"^rlvc, from images +100\.0% +– ", capture.get(), re.M)


@pytest.mark.slow
def test_the_hill_from_its_run_to_an_explanation(
    call: Any, done: HillOutcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "execute", lambda run, folder: done)  # it was run above
    out = tmp_path / "out"
    check_summary(call.succeed("run", "hill", "--out", out), done.result, out)
    assert {path.name for path in out.iterdir()} == FILES
    for name in FIGURES:
        image = read(out / name)
        assert 300 <= min(image.shape[:2]) <= max(image.shape[:2]) <= 2000
        assert len(np.unique(image @ (1, 256, 65536))) > 50  # colours
    percept = {camera: read(out / f"{camera}.png")[:, :, ::-1] for camera in ("gauge", "ground")}
    for camera, image in done.evaluation.env.percept(START).items():
        assert np.array_equal(percept[camera], image)
    assert json.loads((out / "result.json").read_text(encoding="utf-8")) == done.result

    policy = out / "policy.rlvc"
    images = [f"{camera}={out / camera}.png" for camera in ("ground", "gauge")]
    monkeypatch.chdir(tmp_path)
    picture = Path("gauge-ground-explained.png")
    printed = call.succeed("explain", policy, *images)
    assert printed == f"{done.policy.explain(percept)}\nThe picture is in {picture}.\n"
    assert read(picture).std() > 5
    for wrong in ([out / "ground.png"], images[:1], [*images, images[0]], [*images, "x"]):
        assert call.fail(2, "explain", policy, *wrong) == (
            "rlvc: This policy has cameras gauge, ground, so explain takes gauge=IMAGE "
            f"ground=IMAGE; got {' '.join(map(str, wrong))}.\n"
        )
    told = call.fail(1, "explain", policy, "gauge=none.png", images[0])
    assert told.startswith("rlvc: Picture none.png cannot be read")

    printed = call.succeed("evaluate", policy, "--seed", 0, "--episodes", N_TRIALS, "--json")
    expected = {"task": "hill", "pictures": "photos", **done.result["measures"]}
    assert json.loads(printed) == expected
