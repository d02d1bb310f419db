from __future__ import annotations

import copy
import dataclasses
import shlex
from pathlib import Path
from typing import Any

import cv2
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver
from numpy.typing import NDArray
from rich.console import Console

from rlvc import RLVC, Interactions, Policy
from rlvc.cli.progress import ProgressDisplay, show_summary
from rlvc.envs.planar_world import MOVES
from rlvc.features import AtLeast, Composite, FeatureGraph, Primitive
from rlvc.policies.explanation import MAX_SHOWN
from rlvc.report.figures import (
    brief,
    draw_explanation,
    house_style,
    new_figure,
    picture_of,
    title_of,
    to_png,
)
from rlvc.report.figures.curves import draw_features
from rlvc.report.figures.style import ORANGE
from rlvc.runs import Outcome, tasks, write_run
from rlvc.tasks import MazeTask, NavigationEvaluation, NavigationOutcome, NavigationTask
from rlvc.tasks.navigation.figures import draw_figures, draw_learning, draw_policy, draw_values
from tests.support.builders import COLOUR, GREY, database
from tests.support.tasks import run_small, texts


@pytest.fixture(scope="module")
def small_run() -> NavigationOutcome:
    return run_small(RLVC(threads=1), episodes=5)


@pytest.fixture(scope="module")
def one_class() -> Policy:
    """Return a policy that never saw a feature, nor most of its actions."""
    blank = np.zeros((5, 64, 64, 3), np.uint8)
    data = Interactions.from_arrays(
        blank, [1] * 5, [0.0] * 5, [True] * 5, next_observations=blank, n_actions=4,
        action_names=("up", "right", "down", "left"),
    )  # fmt: skip
    return RLVC(threads=1).learn(data)


def pixels(figure: Figure, dpi: int = 50) -> NDArray[np.uint8]:
    """Draw a figure for good, so that whatever matplotlib has to complain about comes up."""
    image = cv2.imdecode(np.frombuffer(to_png(figure, dpi), np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    width, height = figure.get_size_inches()
    assert image.shape == pytest.approx((height * dpi, width * dpi, 3), abs=1)
    assert image.std() > 5  # something is on it
    return np.asarray(image, np.uint8)


def made_up(name: str, policy: Policy, actions: int | None = None) -> NavigationOutcome:
    """Return a run on a task that nobody had to learn, with values and actions out of thin air."""
    task = tasks.make(name)
    assert isinstance(task, NavigationTask)
    n = len(task.grid.positions)
    chosen = np.arange(n) % 4 if actions is None else np.full(n, actions)
    found = NavigationEvaluation({}, task.env, task.grid, chosen, np.linspace(0.0, 120.0, n))
    data = database(COLOUR)
    return Outcome(task, result(name), data, {"learn": policy}, found)


def result(name: str = "maze", n_stages: int = 3, **measures: Any) -> dict[str, Any]:
    found = {"success": 0.5, "mean_steps": 7.0, "suboptimal": 0.25, **measures}
    return {
        "task": name, "classes": 3, "stages": n_stages - 1, "measures": found, "optimum": found,
        "features": {"selected": 2, "distinct": 9}, "paper": MazeTask.paper,
        "seconds": {"learn": 0.1},
        "direct": {"equal": {"cells": 4, **found}, "best": {"cells": 64, **found}},
        "history": [
            {"stage": k, "classes": k + 1, "features": k, "residual": 9.0 - k, **found}
            for k in range(n_stages)
        ],
    }  # fmt: skip


# The figures of a run ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["maze", "subway"])
def test_all_figures_of_a_task_can_be_drawn(name: str, policy: Policy) -> None:
    made = made_up(name, policy)
    with house_style():
        drawn = [draw_policy(made), draw_values(made)]
    for figure in drawn:
        image = pixels(figure)
        assert len(np.unique(image @ (1, 256, 65536))) > 100  # colours
    width, height = drawn[0].get_size_inches()
    assert (height < width / 2) == (name == "subway")


def quivers(axes: Axes) -> list[Quiver]:
    return [drawn for drawn in axes.collections if isinstance(drawn, Quiver)]


def test_arrows_point_where_the_agent_goes_and_tell_the_good_from_the_bad(
    small_run: NavigationOutcome,
) -> None:
    (axes,) = draw_policy(small_run).axes
    grid, actions = small_run.evaluation.grid, small_run.evaluation.actions
    good = grid.is_optimal(actions)
    assert good.any()
    assert not good.all()
    shown = 0
    for arrows, is_good in zip(quivers(axes), (True, False), strict=True):
        assert arrows.get_label() == ("optimal" if is_good else "not optimal")
        colour = np.asarray(arrows.get_facecolor())[0]
        assert colour == pytest.approx(mpl.colors.to_rgba("white" if is_good else ORANGE))
        numbers = grid.nearest(np.column_stack([arrows.X, arrows.Y]))
        assert (good[numbers] == is_good).all()
        assert np.array_equal(np.column_stack([arrows.U, arrows.V]), MOVES[actions[numbers]])
        shown += len(numbers)
    assert shown == len(grid.positions)  # a small world has room for all


@pytest.mark.slow
def test_arrows_of_one_kind_alone_will_do(policy: Policy) -> None:
    made = made_up("maze", policy, actions=0)
    best = made.evaluation.grid.optimal_q.argmax(axis=1)
    found = dataclasses.replace(made.evaluation, actions=best)
    (axes,) = draw_policy(dataclasses.replace(made, evaluation=found)).axes
    assert [arrows.get_label() for arrows in quivers(axes)] == ["optimal"]


def test_values_are_painted_on_one_scale(small_run: NavigationOutcome) -> None:
    found, figure = small_run.evaluation, draw_values(small_run)
    learned, optimal = (axes.images[0] for axes in figure.axes[:2])
    assert learned.get_clim() == optimal.get_clim()
    low, high = learned.get_clim()
    assert (low, high) == (
        0.0, max(found.values.max(), found.grid.optimal_q.max())
    )  # fmt: skip
    painted: NDArray[np.float64] = np.ma.filled(np.ma.asarray(learned.get_array(), float), np.nan)
    assert np.array_equal(painted, found.grid.paint(found.values), equal_nan=True)
    assert "value V" in texts(figure)


def test_values_that_are_all_zero_can_be_drawn(small_run: NavigationOutcome) -> None:
    found = small_run.evaluation
    grid = dataclasses.replace(found.grid, optimal_q=np.zeros_like(found.grid.optimal_q))
    nothing = dataclasses.replace(found, grid=grid, values=np.zeros_like(found.values))
    pixels(draw_values(dataclasses.replace(small_run, evaluation=nothing)))


@pytest.mark.parametrize("n_stages", [1, 40])
def test_learning_is_drawn_for_any_number_of_stages(n_stages: int) -> None:
    found = result(n_stages=n_stages)
    figure = draw_learning(found)
    pixels(figure)
    left, middle, right = figure.axes
    stages = [line["stage"] for line in found["history"]]
    for axes, keys in ((left, ("classes", "features")), (middle, ("residual",)),
                       (right, ("success",))):  # fmt: skip
        for line, key in zip(axes.lines, keys, strict=False):
            assert np.asarray(line.get_xdata()).tolist() == stages
            assert np.asarray(line.get_ydata()).tolist() == [h[key] for h in found["history"]]
    assert f"{n_stages} classes" in texts(figure)
    assert f"{n_stages - 1} tests" in texts(figure)
    assert "direct perception, 4 cells" in texts(figure)


def test_a_success_that_is_not_known_leaves_a_gap() -> None:
    found = result(n_stages=4, success=float("nan"))
    pixels(draw_learning(found))
    found["history"][0]["residual"] = 0.0
    found["history"][2]["success"] = 0.5
    pixels(draw_learning(found))


def test_no_failure_is_too_complete_to_be_drawn(small_run: NavigationOutcome) -> None:
    nobody = {"success": 0.0, "mean_steps": None, "suboptimal": 1.0}
    lost = copy.deepcopy(small_run.result)
    lost["measures"] = nobody
    figure = draw_policy(dataclasses.replace(small_run, result=lost))
    assert "from 0.0% of random starts" in texts(figure)
    pixels(figure)


def test_the_features_tested_most_are_shown_first(small_run: NavigationOutcome) -> None:
    policy = small_run.policy
    tested, usage = policy.classifier.features.tolist(), policy.usage.tolist()
    assert len(tested) > 3
    figure = draw_features(policy)
    pixels(figure)
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == min(12, len(tested))
    order = sorted(tested, key=lambda number: (-usage[number], number))
    for axes, number in zip(shown, order, strict=False):
        words, count = axes.get_title().replace("\n", " ").rsplit(" ", 2)[:2]
        assert (words, int(count)) == (title_of(policy.graph, number), usage[number])
        picture = np.asarray(axes.images[0].get_array())
        assert np.array_equal(picture, picture_of(policy, number))
        feature = policy.graph[number]
        below = [f"{feature.least} of {len(feature.parts)}"] if isinstance(feature, AtLeast) else []
        assert [text.get_text() for text in axes.texts] == below
    assert len([axes for axes in draw_features(policy, n=2).axes if axes.images]) == 2


def several(n: int, least: int) -> tuple[Policy, int]:
    """Return a policy with a test for several of n symbols, whose patches are plain, and it."""
    symbols = [Primitive("", symbol) for symbol in range(n)]
    test = AtLeast(parts=tuple(range(n)), least=least)
    patches = np.stack([np.full((8, 8, 3), 10 * i, np.uint8) for i in [*range(n), 0]])
    blank = np.zeros((1, 64, 64, 3), np.uint8)
    data = Interactions.from_arrays(blank, [0], [1.0], [True], next_observations=blank)
    policy = RLVC(threads=1).learn(data)
    return dataclasses.replace(policy, graph=FeatureGraph((*symbols, test)), patches=patches), n


@pytest.mark.parametrize("n", range(1, 9))
def test_several_features_are_shown_each_once_and_the_first_largest(n: int) -> None:
    policy, number = several(n, 1)
    picture = picture_of(policy, number)
    colours, count = np.unique(picture[..., 0], return_counts=True)
    areas = dict(zip(colours.tolist(), count.tolist(), strict=True))
    assert areas.pop(0) == 16 * 16
    assert areas.pop(255) > 0
    assert areas == {10 * i: 8 * 8 for i in range(1, n)}
    faded = picture_of(policy, number, seen=range(n - 1))
    same = (picture == faded).all(axis=2)
    assert (picture[~same][:, 0] == 10 * (n - 1)).all()
    assert (faded[~same] > picture[~same]).all()
    assert (~same).sum() == (8 * 8 if n > 1 else 16 * 16)


def test_several_features_are_told_in_few_words() -> None:
    policy, number = several(3, 2)
    assert title_of(policy.graph, number) == "symbols 0, 1, 2"
    assert brief(policy.graph, number) == "at least 2 of 3 (symbols 0, 1, 2)"
    pair = Composite(first=0, second=1, mean=30.0, deviation=2.0, likelihood=0.5)
    graph, (far,) = policy.graph.add([pair])
    graph, (mixed,) = graph.add([AtLeast(parts=(far, 2), least=1)])
    words = "symbol 0 and symbol 1, 28 to 32 pixels apart"
    assert title_of(graph, mixed) == f"{words} …"
    assert brief(graph, mixed) == f"at least 1 of 2 such as {words}"
    assert [title_of(graph, n) for n in (0, far)] == ["symbol 0", words]
    assert [brief(graph, n) for n in (0, far)] == ["symbol 0", words]


def test_a_policy_without_features_has_a_figure_too(one_class: Policy) -> None:
    assert (one_class.n_classes, len(one_class.features)) == (1, 0)
    figure = draw_features(one_class)
    image = to_png(figure, dpi=50)
    assert "no feature was selected" in texts(figure)
    assert image.startswith(b"\x89PNG")


# Explanations ------------------------------------------------------------------------------------


def test_what_was_seen_is_marked_where_it_was_seen(small_run: NavigationOutcome) -> None:
    policy, env = small_run.policy, small_run.evaluation.env
    n_marks = 0
    seen = [
        (env.percept(p), policy.explain(env.percept(p)))
        for p in small_run.evaluation.grid.positions
    ]
    seen.sort(key=lambda pair: sum(len(test.occurrences) for test in pair[1].tests))
    for percept, explanation in (seen[0], seen[len(seen) // 2], seen[-1]):
        figure = draw_explanation(policy, percept, explanation)
        axes = figure.axes[0]
        places = [tuple(note.xy) for note in axes.texts if hasattr(note, "xy")]
        expected = [tuple(xy) for test in explanation.tests for xy in test.occurrences]
        assert places == expected
        numbers = [note.get_text() for note in axes.texts]
        assert numbers == [
            str(i) for i, test in enumerate(explanation.tests, 1) for _ in test.occurrences
        ]
        n_marks += len(places)
        words = texts(figure)
        assert f"Class {explanation.visual_class}: values of the actions" in words
        assert f"it takes “{explanation.name(explanation.best)}”" in words
    assert n_marks > 0
    pixels(figure)


@pytest.mark.parametrize("n_seen", [0, 3, MAX_SHOWN, MAX_SHOWN + 2])
def test_a_long_path_shows_what_was_seen(n_seen: int, small_run: NavigationOutcome) -> None:
    policy = small_run.policy
    percept = small_run.task.sample_percept(small_run)[""]
    explanation = policy.explain(percept)
    a_test = dataclasses.replace(explanation.tests[0], feature=Primitive("", 0))
    long = tuple(
        dataclasses.replace(
            a_test, exhibited=i < n_seen, occurrences=np.full((int(i < n_seen), 2), 5.0, np.float32)
        )
        for i in range(MAX_SHOWN + 8)
    )
    figure = draw_explanation(policy, percept, dataclasses.replace(explanation, tests=long))
    words = texts(figure)
    shown = [
        line
        for line in filter(None, words.split("\n"))
        if line[0].isdigit() and line.endswith("seen")
    ]
    assert len(shown) == MAX_SHOWN
    assert sum(not line.endswith("not seen") for line in shown) == min(n_seen, MAX_SHOWN)
    assert f"The path of {MAX_SHOWN + 8} tests (8 not shown)" in words


def test_an_explanation_without_any_test_can_be_drawn(one_class: Policy) -> None:
    percept = np.full((40, 70, 3), 90, np.uint8)
    figure = draw_explanation(one_class, percept, one_class.explain(percept))
    pixels(figure)
    assert texts(figure).count("never tried") == 3
    assert "Class 0: values of the actions; it takes “right”" in texts(figure)


def test_a_grey_percept_can_be_explained() -> None:
    policy = RLVC(threads=1).learn(database(GREY))
    figure = draw_explanation(policy, GREY[1], policy.explain(GREY[1]))
    pixels(figure)
    assert figure.axes[0].images[0].get_cmap().name == "gray"


# Style and files ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_drawing_leaves_the_settings_of_matplotlib_alone(small_run: NavigationOutcome) -> None:
    with mpl.rc_context({"font.size": 31.0, "axes.grid": False}):
        before = dict(mpl.rcParams)
        assert len(list(draw_figures(small_run))) == 4
        percept = small_run.task.sample_percept(small_run)[""]
        draw_explanation(small_run.policy, percept, small_run.policy.explain(percept))
        assert dict(mpl.rcParams) == before
        with house_style():
            assert mpl.rcParams["font.size"] == 9.0
        with pytest.raises(ZeroDivisionError), house_style():
            raise ZeroDivisionError
        assert dict(mpl.rcParams) == before


def test_the_same_figure_gives_the_same_bytes() -> None:
    first, second = (to_png(draw_learning(result()), dpi=40) for _ in range(2))
    assert first == second
    assert new_figure(3.0, 2.0).get_size_inches().tolist() == [3.0, 2.0]


def test_a_run_is_written_with_a_percept_that_reads_as_it_was(
    small_run: NavigationOutcome, tmp_path: Path
) -> None:
    write_run(small_run, tmp_path)
    image = cv2.imread(str(tmp_path / "percept.png"))
    assert image is not None
    world = small_run.evaluation.grid.world
    expected = small_run.evaluation.env.percept((world.width / 2, world.height / 2))
    assert np.array_equal(image[:, :, ::-1], expected)
    assert np.array_equal(
        Policy.load(tmp_path / "policy.rlvc").predict(expected)[0],
        small_run.policy.predict(expected)[0],
    )


# The terminal ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_summary_tells_what_happened_and_where(policy: Policy, tmp_path: Path) -> None:
    console = Console(width=80, force_terminal=False)
    folder = tmp_path / "a folder with [bold]odd[/] [/red] signs that is much too long for a line"
    folder.mkdir(parents=True)
    names = ("policy.png", "values.png", "learning.png", "features.png")
    for name in names:
        (folder / name).touch()
    made = dataclasses.replace(made_up("maze", policy), result=result(mean_steps=None))
    with console.capture() as capture:
        show_summary(console, made, folder)
    text = capture.get()
    assert "50.0%" in text
    assert "75.0%" in text
    assert "3 classes by 2 tests for some of 9 features" in text.replace("\n", " ")
    for name in names:
        assert f"  {folder / name}  " in text
    files = [str(folder / name) for name in ("policy.rlvc", "percept.png")]
    assert f"rlvc explain {shlex.join(files)}\n" in text


@pytest.mark.usefixtures("small")
def test_progress_shows_the_phases_the_stages_and_the_time() -> None:
    console = Console(width=120, force_terminal=False)
    with console.capture() as capture, ProgressDisplay(console) as display:
        done = run_small(RLVC(threads=1), interactions=130, episodes=2, callbacks=[display])
    lines = [line.split() for line in capture.get().strip().split("\n")]
    assert [line[0] for line in lines] == ["explore", "extract", "learn", "measure"]
    assert "130/130" in lines[0]
    images = done.result["percepts"]
    assert f"{images}/{images}" in lines[1]
    text = " ".join(lines[2])
    assert f"{done.result['classes']} classes, {done.result['features']['selected']} t" in text
    assert f"residual {done.result['history'][-1]['residual']:.2f}" in text
    assert all(line[-1] == "s" for line in lines)


def test_progress_stops_where_the_run_fails() -> None:
    console = Console(width=120, force_terminal=False)
    display = ProgressDisplay(console)

    def fail() -> None:
        with display:
            display.on_phase("collect", 10)
            raise LookupError

    with console.capture(), pytest.raises(LookupError):
        fail()
    with console.capture() as capture:
        console.print("after")
    assert capture.get() == "after\n"
