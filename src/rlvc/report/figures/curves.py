"""The figures of a run on the maze or the subway."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rlvc.envs.planar_world import MOVES, PlanarWorld
from rlvc.features.kinds import AtLeast
from rlvc.policies.forest import AnyPolicy
from rlvc.report.figures.patches import picture_of, share_of, title_of
from rlvc.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    VALUES,
    house_style,
    new_figure,
)
from rlvc.tasks.navigation import Run


def draw_figures(run: Run) -> dict[str, Figure]:
    """Draw all figures of a run; return them by the names of their files."""
    with house_style():
        return {
            "policy.png": draw_policy(run),
            "values.png": draw_values(run),
            "learning.png": draw_learning(run.result),
            "features.png": draw_features(run.best),
        }


def draw_policy(run: Run) -> Figure:
    """Draw the learned actions as arrows over the picture."""
    world = run.grid.world
    figure = new_figure(*_map_size(world, panels=1, extra=0.75))
    axes = figure.add_subplot()
    _show_picture(axes, run)
    step = 2 if len(run.grid.positions) > 400 else 1  # room for the arrows in a large world
    is_shown = np.zeros(run.grid.cells.shape, np.bool_)
    is_shown[step // 2 :: step, step // 2 :: step] = True
    shown = run.grid.cells[is_shown & (run.grid.cells >= 0)]
    good = run.grid.is_optimal(run.actions)
    for chosen, colour, label in (
        (shown[good[shown]], "white", "optimal"),
        (shown[~good[shown]], ORANGE, "not optimal"),
    ):
        if len(chosen) == 0:
            continue
        x, y = run.grid.positions[chosen].T
        u, v = MOVES[run.actions[chosen]].T
        axes.quiver(
            x, y, u, v, color=colour, edgecolor="black", linewidth=0.35, angles="xy", pivot="mid",
            scale_units="xy", scale=1 / (0.72 * step * 25.6), width=5.4 / world.width,
            headwidth=4, headlength=4, headaxislength=3.6, label=label, zorder=4,
        )  # fmt: skip
    measures = run.result.get("forest", run.result)["measures"]
    axes.set_title(
        f"{run.result['task'].capitalize()}: what the agent does, seeing only the window around it"
    )
    axes.set_xlabel(
        f"{sizes_of(run.result)}; an exit is reached from {measures['success']:.1%} of random "
        "starts.\n"
        f"White: optimal decisions ({1 - measures['suboptimal']:.1%}). Orange: the others. "
        "Blue: walls of glass. Crossed: exits.",
        fontsize=8.5,
    )
    return figure


def draw_values(run: Run) -> Figure:
    """Draw the learned values beside the optimal ones, on one scale."""
    world, grid = run.grid.world, run.grid
    wide = world.width > 2 * world.height
    figure = new_figure(*_map_size(world, panels=2, extra=0.9))
    panels = figure.subplots(2 if wide else 1, 1 if wide else 2, squeeze=False).ravel()
    optimal = grid.optimal_q.max(axis=1)
    highest = max(float(optimal.max()), float(run.values.max()))
    titles = ("Learned from images", "Optimal, knowing the position")
    for axes, values, title in zip(panels, (run.values, optimal), titles, strict=True):
        image = axes.imshow(
            grid.paint(values), extent=(0, world.width, world.height, 0), cmap=VALUES,
            vmin=0.0, vmax=highest, interpolation="nearest",
        )  # fmt: skip
        _draw_world(axes, world, glass="white")
        axes.set_title(title)
    bar = figure.colorbar(image, ax=list(panels), shrink=0.85, aspect=30)
    bar.set_label("value V")
    bar.outline.set_visible(False)
    return figure


def draw_learning(result: dict[str, Any]) -> Figure:
    """Draw classes, tests, residual and success by stage."""
    history = result["history"]
    stage = [line["stage"] for line in history]
    figure = new_figure(9.0, 3.2)
    left, middle, right = figure.subplots(1, 3)
    dot = draw_growth(left, middle, history)
    right.plot(stage, [line["success"] for line in history], color=BLUE, linewidth=1.8, marker=dot)
    direct = result["direct"]["equal"]
    right.axhline(direct["success"], color=GREY, linewidth=1.2, linestyle="--")
    right.annotate(
        f"direct perception, {direct['cells']} cells", (0, direct["success"]), color=GREY,
        xytext=(2, 3), textcoords="offset points", fontsize=7.5,
    )  # fmt: skip
    if "forest" in result:
        success = result["forest"]["measures"]["success"]
        right.axhline(success, color=ORANGE, linewidth=1.2, linestyle="--")
        right.annotate(
            f"{result['forest']['trees']} trees, {success:.1%}", (0, success), color=ORANGE,
            xytext=(2, 3 if success > direct["success"] else -10), textcoords="offset points",
            fontsize=7.5,
        )  # fmt: skip
    right.set_title("Success")
    right.set_ylim(0, 1.02)
    right.margins(x=0.02)
    right.set_xlabel("stage k (percepts of the nearest grid point)")
    return figure


def draw_growth(left: Axes, middle: Axes, history: list[dict[str, Any]]) -> str:
    """Draw classes and tests by stage, and the residual; return how to mark a line's points."""
    stage = [line["stage"] for line in history]
    dot = "o" if len(stage) == 1 else ""  # a line of one point cannot be seen
    for key, name, colour in (("classes", "classes", BLUE), ("features", "tests", ORANGE)):
        left.plot(stage, [line[key] for line in history], color=colour, linewidth=1.8, marker=dot)
        left.annotate(
            f"{history[-1][key]} {name}", (stage[-1], history[-1][key]), color=colour, ha="right",
            xytext=(0, 4 if key == "classes" else -72), textcoords="offset points",
        )  # fmt: skip
    left.set_title("Classes and tests")
    middle.plot(
        stage, [line["residual"] for line in history], color=GREEN, linewidth=1.8, marker=dot
    )
    middle.set_title("Bellman residual (rms)")
    middle.set_ylim(bottom=0)
    for axes in (left, middle):
        axes.set_xlabel("stage k")
        axes.margins(x=0.02)
    return dot


def sizes_of(result: dict[str, Any]) -> str:
    """Say how many classes and features the policy of a run has."""
    if "forest" not in result:
        return f"{result['classes']} visual classes by {result['features']['selected']} tests"
    forest = result["forest"]
    return (
        f"{forest['trees']} trees of {forest['classes']:.0f} visual classes each, "
        f"{forest['features']} features in all"
    )


def draw_features(policy: AnyPolicy, n: int = 12) -> Figure:
    """Draw the features that are tested on the most percepts."""
    tested = policy.tested
    order = tested[np.argsort(-policy.usage[tested], kind="stable")][:n].tolist()
    titles = [
        [*textwrap.wrap(title_of(policy.graph, number), 25, max_lines=4, placeholder=" …"),
         f"{policy.usage[number]} percepts"]
        for number in order
    ]  # fmt: skip
    columns = 6
    rows = max(1, -(-len(order) // columns))
    n_lines = max(map(len, titles), default=2)
    figure = new_figure(8.0, (1.45 + 0.15 * n_lines) * rows + 0.45)
    figure.suptitle(
        "The features that are tested most often", x=0.01, ha="left", fontweight="bold", fontsize=10
    )
    cells = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in cells:
        axes.axis("off")
    for axes, number, title in zip(cells, order, titles, strict=False):
        axes.imshow(picture_of(policy, number), interpolation="nearest")
        axes.set_anchor("N")
        feature = policy.graph[number]
        if isinstance(feature, AtLeast):
            below = {"ha": "center", "va": "top", "transform": axes.transAxes}
            axes.text(0.5, -0.04, share_of(feature), fontsize=7.5, **below)
        axes.set_title(
            "\n".join(title), fontsize=7.5 if n_lines == 2 else 6.8, fontweight="normal",
            loc="center",
        )  # fmt: skip
    if len(order) == 0:
        cells[0].text(0, 0.5, "no feature was selected", color=GREY)
    return figure


def _map_size(world: PlanarWorld, panels: int, extra: float) -> tuple[float, float]:
    """Return the inches of a figure that shows the world in panels, beside or below each other."""
    aspect = world.height / world.width
    if aspect < 0.5:
        return 11.0, panels * (11.0 * aspect + 0.35) + extra
    if panels == 1:
        return 7.2, 7.2 * aspect + extra
    return 9.2, 4.1 * aspect + 0.4


def _show_picture(axes: Axes, run: Run) -> None:
    world = run.grid.world
    axes.imshow(run.env.picture, extent=(0, world.width, world.height, 0), alpha=0.8, zorder=0)
    _draw_world(axes, world, glass="#56B4E9")


def _draw_world(axes: Axes, world: PlanarWorld, glass: str) -> None:
    for (x0, y0), (x1, y1) in world.walls:
        axes.plot([x0, x1], [y0, y1], color=INK, linewidth=4.5, solid_capstyle="butt", zorder=2)
        axes.plot([x0, x1], [y0, y1], color=glass, linewidth=2.5, solid_capstyle="butt", zorder=3)
    for x0, y0, x1, y1 in world.exits:
        box = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=True, facecolor="white", edgecolor=INK)
        box.set(alpha=0.85, linewidth=1.5, zorder=3)
        axes.add_patch(box)
        for ends in ((y0, y1), (y1, y0)):
            axes.plot([x0, x1], ends, color=INK, linewidth=1.2, zorder=4)
    axes.set(xlim=(0, world.width), ylim=(world.height, 0), xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
