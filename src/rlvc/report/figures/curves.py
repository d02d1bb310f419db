"""Figures that several tasks share: how a classifier grew, and the features that it tests."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlvc.features.kinds import AtLeast
from rlvc.policies.forest import AnyPolicy
from rlvc.report.figures.patches import picture_of, share_of, title_of
from rlvc.report.figures.style import BLUE, GREEN, GREY, ORANGE, new_figure


def draw_growth(left: Axes, middle: Axes, history: list[dict[str, Any]]) -> None:
    """Draw classes, tests and the residual by stage."""
    for key, name, colour in (("classes", "classes", BLUE), ("features", "tests", ORANGE)):
        plot_stages(left, history, key, colour, f"{history[-1][key]} {name}")
    left.legend(loc="upper left")
    left.set_title("Classes and tests")
    plot_stages(middle, history, "residual", GREEN)
    middle.set_title("Bellman residual (rms)")
    middle.set_ylim(bottom=0)
    for axes in (left, middle):
        axes.set_xlabel("stage k")
        axes.margins(x=0.02)


def plot_stages(
    axes: Axes, history: list[dict[str, Any]], key: str, colour: str, label: str | None = None
) -> None:
    """Plot a number by stage."""
    stages = [line["stage"] for line in history]
    values = [line[key] for line in history]
    dot = "o" if len(stages) == 1 else ""  # a line of one point is invisible
    axes.plot(stages, values, color=colour, linewidth=1.8, marker=dot, label=label)


def size_in_words(result: dict[str, Any]) -> str:
    """Return the numbers of classes and features of a policy in words."""
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
    height = (1.45 + 0.15 * n_lines) * rows + 0.45
    figure = new_figure(8.0, height, "The features that are tested most often")
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
