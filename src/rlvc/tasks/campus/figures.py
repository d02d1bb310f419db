"""The figures of a run on the campus: the paper's comparison, and the policy on a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle
from matplotlib.ticker import PercentFormatter

from rlvc.envs.campus.graph_world import AHEAD, CAMPUS, HEADINGS
from rlvc.report.figures.curves import draw_features, plot_stages, size_in_words
from rlvc.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    house_style,
    new_figure,
    to_png,
)
from rlvc.tasks.campus.task import CampusOutcome

COLOURS: Final = {"basic": ORANGE, "compact": BLUE}
NAMES: Final = {"basic": "the tree", "compact": "compacted"}
LETTERS: Final = ("L", "R", "F")  # in the order of the actions
RIGHT: Final = LinearSegmentedColormap.from_list("right", [ORANGE, "#F3E9DC", "#56B4E9"])


def draw_figures(outcome: CampusOutcome) -> Iterator[tuple[str, bytes]]:
    """Draw all figures of a run; yield their file names and PNG data."""
    with house_style():
        yield "map.png", to_png(draw_map(outcome))
        yield "errors.png", to_png(draw_errors(outcome.result))
        yield "sizes.png", to_png(draw_sizes(outcome.result))
        yield "features.png", to_png(draw_features(outcome.best))


def draw_errors(result: dict[str, Any]) -> Figure:
    """Draw the error of both versions by stage, on the views learned from and on new ones."""
    figure = new_figure(9.0, 3.4)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_versions(left, result, "train_error", "{:.1%}", "Error on the views learned from")
    _draw_versions(right, result, "test_error", "{:.1%}", "Error on new views")
    right.axhline(result["ceiling"], color=GREY, linewidth=1.2, linestyle="--")
    right.annotate(
        f"a vote of nearest neighbours, {result['ceiling']:.1%}", (0, result["ceiling"]),
        color=GREY, xytext=(4, 4), textcoords="offset points", fontsize=7.5,
    )  # fmt: skip
    if "forest" in result:
        errors = result["forest"]["measures"]
        for axes, key in ((left, "train_error"), (right, "test_error")):
            label = f"a forest: {errors[key]:.1%}"
            axes.axhline(errors[key], color=GREEN, linewidth=1.4, linestyle="-.", label=label)
            axes.legend(loc="best", fontsize=8)
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    left.set_ylim(bottom=-0.01)
    left.set_ylabel("share of decisions that are not optimal")
    return figure


def draw_sizes(result: dict[str, Any]) -> Figure:
    """Draw how many classes and selected features both versions have, by stage."""
    figure = new_figure(9.0, 3.4)
    left, right = figure.subplots(1, 2)
    _draw_versions(left, result, "classes", "{}", "Visual classes")
    _draw_versions(right, result, "features", "{}", "Selected features")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
    return figure


def _draw_versions(axes: Axes, result: dict[str, Any], key: str, form: str, title: str) -> None:
    for version, colour in COLOURS.items():
        history = result[version]["history"]
        label = f"{NAMES[version]}: {form.format(history[-1][key])} at the end"
        plot_stages(axes, history, key, colour, label)
    axes.legend(loc="best", fontsize=8)
    axes.set_title(title)
    axes.set_xlabel("stage k")
    axes.margins(x=0.02)


def draw_map(outcome: CampusOutcome) -> Figure:
    """Draw the optimal action of each state on a map, coloured by how often it is taken."""
    optimal = outcome.evaluation.optimal
    spots, share = CAMPUS, optimal.get("forest", optimal["compact"])
    figure = new_figure(9.0, 5.9)
    axes = figure.add_subplot()
    for a, b in spots.links:
        x, y = np.transpose([spots.places[a], spots.places[b]])
        axes.plot(x, y, color="#D6D3CB", linewidth=9, solid_capstyle="round", zorder=1)
    x, y = np.add(spots.places[spots.goal[0]], 0.66 * np.array(AHEAD[spots.goal[1]]))
    house = Rectangle((x - 0.1, y - 0.26), 0.42, 0.52, facecolor="#8C4A3C", edgecolor=INK, zorder=2)
    axes.add_patch(house)
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    axes.annotate("goal", (x + 0.11, y), color="white", fontweight="bold", zorder=3, **middle)
    for number, place in enumerate(spots.places):
        axes.add_patch(Circle(place, 0.11, facecolor="white", edgecolor=GREY, zorder=3))
        axes.annotate(str(number), place, color=GREY, zorder=4, **middle)
    best = spots.is_optimal(np.arange(len(LETTERS))[None], np.arange(spots.n_states)[:, None])
    scale = Normalize(0.0, 1.0)
    for state in range(spots.n_states):
        spot, heading = divmod(state, len(HEADINGS))
        x, y = np.asarray(spots.places[spot]) + 0.29 * np.asarray(AHEAD[heading])
        box = FancyBboxPatch((x - 0.1, y - 0.075), 0.2, 0.15, boxstyle="round,pad=0.01")
        box.set(facecolor=RIGHT(scale(share[state])), edgecolor=INK, linewidth=0.8, zorder=5)
        axes.add_patch(box)
        text = "/".join(name for name, is_best in zip(LETTERS, best[state], strict=True) if is_best)
        axes.annotate(text, (x, y), fontsize=8.5, zorder=6, **middle)
    axes.set(aspect="equal", xticks=[], yticks=[], xlim=(-0.45, 4.1), ylim=(-0.42, 2.42))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    if outcome.forest is None:
        found = outcome.result["compact"]
        sizes = f"{found['classes']} visual classes by {found['features']} tests"
    else:
        found, sizes = outcome.result["forest"]["measures"], size_in_words(outcome.result)
    axes.set_title("Campus: what to do at every spot, looking north, east, south and west")
    axes.set_xlabel(
        "F: forward, L: turn left, R: turn right; the optimal action. The agent sees only a view "
        f"of the state;\non new views {1 - found['test_error']:.1%} of its decisions are "
        f"optimal, with {sizes}.",
        fontsize=8.5,
    )
    colours = ScalarMappable(norm=scale, cmap=RIGHT)
    bar = figure.colorbar(colours, ax=axes, shrink=0.7, aspect=30)
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    bar.set_label("new views of the state on which it is taken")
    bar.outline.set_visible(False)
    return figure
