"""The figures of a run on the maze or the subway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rlvc.envs.planar_world import MOVES, PlanarWorld
from rlvc.report.figures.curves import draw_features, draw_growth, plot_stages, size_in_words
from rlvc.report.figures.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    VALUES,
    house_style,
    new_figure,
    to_png,
)
from rlvc.tasks.navigation.task import NavigationOutcome


def draw_figures(outcome: NavigationOutcome) -> Iterator[tuple[str, bytes]]:
    """Draw all figures of a run; yield their file names and PNG data."""
    with house_style():
        yield "policy.png", to_png(draw_policy(outcome))
        yield "values.png", to_png(draw_values(outcome))
        yield "learning.png", to_png(draw_learning(outcome.result))
        yield "features.png", to_png(draw_features(outcome.best))


def draw_policy(outcome: NavigationOutcome) -> Figure:
    """Draw the learned actions as arrows over the picture."""
    found, grid = outcome.evaluation, outcome.evaluation.grid
    world = grid.world
    figure = new_figure(*_map_size(world, panels=1, extra=0.75))
    axes = figure.add_subplot()
    axes.imshow(found.env.picture, extent=(0, world.width, world.height, 0), alpha=0.8, zorder=0)
    _draw_world(axes, world, glass="#56B4E9")
    step = 2 if len(grid.positions) > 400 else 1  # room for the arrows in a large world
    cells = grid.cells[step // 2 :: step, step // 2 :: step]
    shown = cells[cells >= 0]
    good = grid.is_optimal(found.actions)
    for chosen, colour, label in (
        (shown[good[shown]], "white", "optimal"),
        (shown[~good[shown]], ORANGE, "not optimal"),
    ):
        if len(chosen) == 0:
            continue
        x, y = grid.positions[chosen].T
        u, v = MOVES[found.actions[chosen]].T
        axes.quiver(
            x, y, u, v, color=colour, edgecolor="black", linewidth=0.35, angles="xy", pivot="mid",
            scale_units="xy", scale=1 / (0.72 * step * 25.6), width=5.4 / world.width,
            headwidth=4, headlength=4, headaxislength=3.6, label=label, zorder=4,
        )  # fmt: skip
    measures = outcome.result.get("forest", outcome.result)["measures"]
    axes.set_title(
        f"{outcome.task.name.capitalize()}: what the agent does, seeing only the window around it"
    )
    axes.set_xlabel(
        f"{size_in_words(outcome.result)}; an exit is reached from {measures['success']:.1%} of "
        "random starts.\n"
        f"White: optimal decisions ({1 - measures['suboptimal']:.1%}). Orange: the others. "
        "Blue: walls of glass. Crossed: exits.",
        fontsize=8.5,
    )
    return figure


def draw_values(outcome: NavigationOutcome) -> Figure:
    """Draw the learned values beside the optimal ones, on one scale."""
    found, grid = outcome.evaluation, outcome.evaluation.grid
    world = grid.world
    wide = world.width > 2 * world.height
    figure = new_figure(*_map_size(world, panels=2, extra=0.9))
    panels = figure.subplots(2 if wide else 1, 1 if wide else 2, squeeze=False).ravel()
    optimal = grid.optimal_q.max(axis=1)
    highest = max(float(optimal.max()), float(found.values.max()))
    titles = ("Learned from images", "Optimal, knowing the position")
    for axes, values, title in zip(panels, (found.values, optimal), titles, strict=True):
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
    figure = new_figure(9.0, 3.2)
    left, middle, right = figure.subplots(1, 3)
    draw_growth(left, middle, result["history"])
    plot_stages(right, result["history"], "success", BLUE)
    direct = result["direct"]["equal"]
    reference = {"linewidth": 1.2, "linestyle": "--"}
    name = f"direct perception, {direct['cells']} cells"
    right.axhline(direct["success"], color=GREY, label=name, **reference)
    if "forest" in result:
        success = result["forest"]["measures"]["success"]
        name = f"{result['forest']['trees']} trees, {success:.1%}"
        right.axhline(success, color=ORANGE, label=name, **reference)
    right.legend(loc="lower right", fontsize=8)
    right.set_title("Success (grid percepts)")
    right.set_ylim(0, 1.02)
    right.margins(x=0.02)
    right.set_xlabel("stage k")
    return figure


def _map_size(world: PlanarWorld, panels: int, extra: float) -> tuple[float, float]:
    """Return the inches of a figure that shows the world in panels, beside or below each other."""
    aspect = world.height / world.width
    if aspect < 0.5:
        return 11.0, panels * (11.0 * aspect + 0.35) + extra
    if panels == 1:
        return 7.2, 7.2 * aspect + extra
    return 9.2, 4.1 * aspect + 0.4


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
    axes.spines[:].set_visible(False)
