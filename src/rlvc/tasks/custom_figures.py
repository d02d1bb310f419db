"""The figures and the summary of a task of one's own."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rlvc._core.atomic import atomic_write
from rlvc.cli.progress import say_report, say_resumed
from rlvc.data.images import Image
from rlvc.data.percepts import SINGLE, Percept
from rlvc.errors import ImageError
from rlvc.report.figures.arrangements import show_image
from rlvc.report.figures.curves import draw_features, draw_growth
from rlvc.report.figures.style import BLUE, GREY, ORANGE, house_style, new_figure
from rlvc.runs.examples import FILE as EXAMPLES
from rlvc.runs.examples import Examples
from rlvc.runs.folder import write_figures
from rlvc.tasks.custom import CustomRun

log = logging.getLogger(__name__)

FILES = (
    ("classes.png", "what it does when it sees what"),
    ("learning.png", "how it got there"),
    ("features.png", "what it looks for"),
)
MEASURES = {
    "return": "return",
    "length": "steps",
    "terminated": "ended by the task",
    "rewarded": "return above 0",
    "success": "success",
}


def write_own_run(run: CustomRun, folder: Path) -> None:
    """Write the policies, the pictures, examples, a percept to try, and last the numbers."""
    (folder / "result.json").unlink(missing_ok=True)
    run.best.save(folder / "policy.rlvc")
    for old in [folder / "one.rlvc", *folder.glob("percept*.png")]:  # of an earlier run
        old.unlink(missing_ok=True)
    if run.forest is not None:
        run.policy.save(folder / "one.rlvc")
    with house_style():
        figures = {
            "learning.png": draw_own_learning(run.result),
            "features.png": draw_features(run.best),
        }
    write_figures(figures, folder)
    try:
        _write_images(run, folder)
    except ImageError as error:  # those of a dataset on disk may be gone
        log.warning("There are no pictures of what it sees: %s", error)
    text = json.dumps(run.result, indent=1, ensure_ascii=False)
    atomic_write(folder / "result.json", text.encode())


def _write_images(run: CustomRun, folder: Path) -> None:
    """Write all that shows images of the interactions."""
    with house_style():
        figures = {"classes.png": draw_classes(run)}
    write_figures(figures, folder)
    examples = Examples.choose(run.interactions, run.classes)
    if run.forest is not None:  # each of its trees has classes of its own
        examples = replace(examples, classes=None)
    examples.save(folder / EXAMPLES)
    for name, image in percept_files(run).items():
        shown = image if image.shape[2] == 1 else cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        atomic_write(folder / name, cv2.imencode(".png", shown)[1].tobytes())


def percept_files(run: CustomRun) -> dict[str, Image]:
    """Return the images of the first percept by the names of their files."""
    first = run.interactions.percepts[int(run.interactions.start[0])]
    if not isinstance(first, Mapping):
        return {"percept.png": first}
    return {f"{_file_name(camera)}.png": image for camera, image in first.items()}


def _file_name(camera: str) -> str:
    """Return the name of a camera with nothing in it that a file system minds."""
    return "percept-" + "".join(c if c.isalnum() else "-" for c in camera)


def draw_classes(run: CustomRun, n: int = 12) -> Figure:
    """Draw an example of the classes in which the agent was most often, with what it does there."""
    met, policy = run.interactions, run.policy
    here = run.classes[met.start]
    size = np.bincount(here, minlength=policy.n_classes)
    order = np.argsort(-size, kind="stable")[:n]
    order = order[size[order] > 0]
    first = met.percepts[0]
    one = next(iter(first.values())) if isinstance(first, Mapping) else first
    columns = 4 if one.shape[1] > 1.4 * one.shape[0] else 6
    rows = -(-len(order) // columns)
    figure = new_figure(10.0, rows * (9.6 / columns * one.shape[0] / one.shape[1] + 0.42) + 0.3)
    figure.suptitle(
        f"What it does when it sees what: the {len(order)} most visited of {policy.n_classes} "
        "classes",
        x=0.01, ha="left", fontweight="bold", fontsize=10,
    )  # fmt: skip
    cells = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in cells:
        axes.axis("off")
    for axes, number in zip(cells, order.tolist(), strict=False):
        percepts, counts = np.unique(met.start[here == number], return_counts=True)
        _show_class(axes, run, number, met.percepts[int(percepts[counts.argmax()])], size[number])
    return figure


def _show_class(axes: Axes, run: CustomRun, number: int, percept: Percept, size: int) -> None:
    policy = run.policy
    image = list(percept.values())[-1] if isinstance(percept, Mapping) else percept
    show_image(axes, image)
    action = int(policy.actions[number])
    name = policy.action_names[action] if policy.action_names else action + policy.action_start
    axes.set_title(
        f"class {number}: “{name}”\nvalue {policy.values[number]:.2f}, {size}×",
        fontsize=7.5, fontweight="normal", loc="center",
    )  # fmt: skip


def draw_own_learning(result: dict[str, Any]) -> Figure:
    """Draw classes, tests and residual by stage, and the returns of the rounds of exploration."""
    rounds = [one for one in result["rounds"] if one["return"] is not None]
    figure = new_figure(9.0 if rounds else 6.2, 3.2)
    panels = figure.subplots(1, 3 if rounds else 2)
    draw_growth(panels[0], panels[1], result["history"])
    if not rounds:
        return figure
    axes = panels[2]
    axes.set_title("Return while exploring")
    met = [one["interactions"] for one in rounds]
    axes.plot(met, [one["return"] for one in rounds], color=BLUE, marker="o", linewidth=1.8)
    axes.annotate("random", (met[0], rounds[0]["return"]), color=GREY, xytext=(4, 4),
                  textcoords="offset points", fontsize=7.5)  # fmt: skip
    if result["measures"]:
        final = result["measures"]["return"]
        axes.axhline(final["mean"], color=ORANGE, linewidth=1.2, linestyle="--")
        axes.annotate(
            f"without exploring {final['mean']:.2f}", (met[0], final["mean"]), color=ORANGE,
            xytext=(2, 3), textcoords="offset points", fontsize=7.5,
        )  # fmt: skip
    axes.set_xlabel("interactions")
    axes.margins(y=0.15)
    return figure


def measures_table(found: Mapping[str, Any]) -> Table:
    """Return a table of what was measured, with the confidence intervals."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"{found['episodes']} episodes")
    table.add_column("mean", justify="right")
    table.add_column("95% confidence", justify="right")
    for key, name in MEASURES.items():
        if key not in found:
            continue
        one, show = found[key], _percent if key not in ("return", "length") else _number
        interval = "-" if one["low"] is None else f"{show(one['low'])} to {show(one['high'])}"
        style = "bold green" if key in ("return", "success") else None
        table.add_row(name, show(one["mean"]), interval, style=style)
    return table


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _number(value: float) -> str:
    return f"{value:.2f}"


def show_own_summary(console: Console, run: CustomRun, folder: Path, source: str) -> None:
    """Print what was learned and measured, where the files are, and what to do next."""
    result = run.result
    console.print()
    if result["rounds"]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("round", "interactions", "classes", "episodes", "return", "steps"):
            table.add_column(column, justify="right")
        for one in result["rounds"]:
            means = (
                ("-", "-")
                if one["return"] is None
                else (f"{one['return']:.2f}", f"{one['length']:.1f}")
            )
            numbers = [str(one[key]) for key in ("round", "interactions", "classes", "episodes")]
            table.add_row(*numbers, *means)
        console.print(table)
        console.print("[dim]Returns while exploring; the first round is random.[/]\n")
    if result["measures"]:
        console.print(measures_table(result["measures"]))
        console.print()
    features, seconds = result["features"], result["seconds"]
    console.print(
        f"{result['classes']} classes by {features['selected']} tests, from {features['distinct']} "
        f"distinct features on {result['percepts']} percepts in {result['interactions']} "
        f"interactions. Looking took {seconds['extract']:.1f} s, learning "
        f"{seconds['learn']:.1f} s.",
        highlight=False,
    )
    say_resumed(console, result)
    console.print(
        f"Results and pictures are in {folder}; have a look at:",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    for name, what in FILES:
        if not (folder / name).exists():
            continue
        console.print(
            f"  {escape(str(folder / name))}  [dim]{what}[/]", highlight=False, soft_wrap=True
        )
    say_report(console, folder)
    policy = shlex.quote(str(folder / "policy.rlvc"))
    images = [str(folder / "percept.png")]
    if (cameras := run.interactions.percepts.cameras) != (SINGLE,):
        images = [f"{camera}={folder / _file_name(camera)}.png" for camera in cameras]
    lines = [f"Ask why: rlvc explain {policy} {shlex.join(images)}"]
    if result["rounds"]:
        film = shlex.quote(str(folder / "play.mp4"))
        lines += [f"Watch it: rlvc play {policy} {source} --video {film}"]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
