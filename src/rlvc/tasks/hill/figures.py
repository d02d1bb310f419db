"""The figures of a run on the hill: the paper's curves, values, and composite features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from rlvc._core.arrays import Floats
from rlvc.envs.hill.dynamics import FIRST, HILL, TOP
from rlvc.report.figures.curves import draw_features, plot_stages
from rlvc.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    VALUES,
    house_style,
    new_figure,
    to_png,
)
from rlvc.runs.direct_perception import Actor
from rlvc.tasks.hill.composites_figure import draw_composites
from rlvc.tasks.hill.index import POSITIONS, VELOCITIES, actor
from rlvc.tasks.hill.metrics import MAX_STEPS, PAPER_SIDE, optimal_action, optimal_q
from rlvc.tasks.hill.task import HillEvaluation, HillOutcome

EXTENT: Final = (FIRST, TOP, -HILL.max_speed, HILL.max_speed)
THRUSTS: Final = ("#F2C9A8", "#A9CFE8")  # left and right, light enough to draw upon
LOST: Final = "#E5E7EB"
PLACES: Final = (-0.9, -0.5, 0.0, 0.5)  # where the trials begin that are drawn


def draw_figures(outcome: HillOutcome) -> Iterator[tuple[str, bytes]]:
    """Draw all figures of a run; yield their file names and PNG data."""
    with house_style():
        yield "trials.png", to_png(draw_trials(outcome.result))
        yield "values.png", to_png(draw_state_values(outcome))
        yield "policy.png", to_png(draw_thrusts(outcome.evaluation))
        yield "composites.png", to_png(draw_composites(outcome))
        yield "features.png", to_png(draw_features(outcome.best))


def draw_trials(result: dict[str, Any]) -> Figure:
    """Draw the share of trials missed and the mean length of the others, by stage."""
    figure = new_figure(9.0, 4.1)
    left, right = figure.subplots(1, 2)
    for axes, key, form in ((left, "missed", "{:.1%}"), (right, "mean_steps", "{:.1f}")):
        _draw_stages(axes, result, key, form)
    left.set_title("Trials that miss the goal")
    left.yaxis.set_major_formatter(PercentFormatter(1.0))
    left.set_ylim(bottom=min(-0.004, -0.02 * left.get_ylim()[1]))
    right.set_title("Mean length of the other trials")
    right.set_ylabel("steps")
    return figure


def _draw_stages(axes: Axes, result: dict[str, Any], key: str, form: str) -> None:
    def label(name: str, value: float | None) -> str:
        return f"{name}: {'none' if value is None else form.format(value)}"

    n_stages = max(result["stages"], result["primitive_only"]["stages"])
    for name, found, colour in (
        ("without composites", result["primitive_only"], ORANGE),
        ("rlvc, from images", result, BLUE),
    ):
        stage, value = found["history"][-1]["stage"], found["history"][-1][key]
        plot_stages(axes, found["history"], key, colour, label(name, value))
        axes.lines[-1].set_zorder(3)
        if stage < n_stages:  # it found nothing more to split
            axes.plot([stage], [value], "o", color=colour, markersize=4, zorder=3)
            axes.plot([stage, n_stages], [value] * 2, ":", color=colour, linewidth=1.2)
    direct, lines = result["direct"], []
    if "forest" in result:
        forest = result["forest"]
        lines.append((f"rlvc, {forest['trees']} trees", forest["measures"], BLUE, "--"))
    for name, found, colour, dash in (
        *lines,
        (f"state known, {_side(direct['grid13'])}", direct["grid13"], GREY, "--"),
        (f"state known, best grid ({_side(direct['best'])})", direct["best"], GREY, ":"),
        ("the optimum", result["optimum"], GREEN, "-."),
    ):
        if found[key] is not None:
            text = label(name, found[key])
            axes.axhline(found[key], color=colour, linewidth=1.3, linestyle=dash, label=text)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=7.5)
    axes.set_xlabel("stage k")
    axes.margins(x=0.02)


def _side(found: dict[str, Any]) -> str:
    side = math.isqrt(found["cells"])
    return f"{side} × {side}"


def draw_state_values(outcome: HillOutcome) -> Figure:
    """Draw the values over position and velocity: tabular, optimal and from images."""
    figure = new_figure(10.0, 3.7)
    panels = figure.subplots(1, 3, sharey=True)
    direct = outcome.evaluation.direct.value.reshape(PAPER_SIDE, PAPER_SIDE)
    optimal = optimal_q(_states()).max(axis=1).reshape(len(VELOCITIES), len(POSITIONS))
    maps = direct, optimal, outcome.evaluation.values
    highest = max(float(one.max()) for one in maps)
    scale = PowerNorm(0.5, vmin=0.0, vmax=highest)  # values fall by a quarter with every step
    n_trees = len(outcome.forest.trees) if outcome.forest else 0
    n_classes = f"{n_trees} trees" if n_trees else f"{outcome.policy.n_classes} classes"
    titles = (
        f"State known, {PAPER_SIDE} × {PAPER_SIDE} cells",
        "Optimal",
        f"From images, {n_classes}",
    )
    for axes, shown, title in zip(panels, maps, titles, strict=True):
        image = axes.imshow(
            shown, extent=EXTENT, origin="lower", aspect="auto", cmap=VALUES, norm=scale,
            interpolation="nearest",
        )  # fmt: skip
        axes.set_title(title)
        axes.set_xlabel("position p")
        axes.grid(False)
    panels[0].set_ylabel("velocity s")
    bar = figure.colorbar(image, ax=list(panels), aspect=25, pad=0.015)
    bar.set_label("value V")
    bar.outline.set_visible(False)
    return figure


def draw_thrusts(found: HillEvaluation) -> Figure:
    """Draw the way it thrusts over position and velocity beside the best one, and some trials."""
    figure = new_figure(9.0, 4.5)
    panels = figure.subplots(1, 2, sharey=True)
    shape = len(VELOCITIES), len(POSITIONS)
    q = optimal_q(_states())
    is_lost = (q.max(axis=1) < 1e-6).reshape(shape)
    drivers: tuple[tuple[str, NDArray[np.int64], Actor], ...] = (
        ("From images", found.actions, actor(found.actions)),
        ("Optimal", q.argmax(axis=1).reshape(shape), optimal_action),
    )
    for axes, (title, actions, act) in zip(panels, drivers, strict=True):
        axes.imshow(
            np.where(is_lost, 2, actions), extent=EXTENT, origin="lower", aspect="auto",
            cmap=ListedColormap([*THRUSTS, LOST]), vmin=0, vmax=2, interpolation="nearest",
        )  # fmt: skip
        for place in PLACES:
            p, s = drive_from(act, place).T
            axes.plot(p, s, color=INK, linewidth=1.0, marker="o", markersize=2.2, zorder=3)
            axes.plot(p[0], s[0], "o", color="white", mec=INK, markersize=6, zorder=4)
        axes.set_title(title)
        axes.set(xlabel="position p", xlim=EXTENT[:2], ylim=EXTENT[2:])
        axes.grid(False)
    panels[0].set_ylabel("velocity s")
    keys = [Patch(facecolor=colour) for colour in (*THRUSTS, LOST)]
    names = ["thrusts left", "thrusts right", "lost whatever it does"]
    figure.legend(keys, names, loc="outside lower center", ncols=3, fontsize=8.5)
    return figure


def drive_from(act: Actor, place: float) -> Floats:
    """Return the (n, 2) states of a trial from rest at a place, until it ends."""
    states = [np.array([place, 0.0])]
    for _ in range(MAX_STEPS):
        (end,), _, (terminated,) = HILL.move(states[-1][None], act(states[-1][None]))
        states.append(end)
        if terminated:
            break
    return np.stack(states)


def _states() -> Floats:
    """Return the state of every pair of images, shape (361 · 1025, 2), row by row."""
    return np.stack(np.meshgrid(POSITIONS, VELOCITIES), axis=-1).reshape(-1, 2)
