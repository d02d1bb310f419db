"""The figures of a custom task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rlvc.data.percepts import images_of
from rlvc.report.figures.arrangements import show_image
from rlvc.report.figures.curves import draw_features, draw_growth
from rlvc.report.figures.style import BLUE, GREY, ORANGE, house_style, new_figure, to_png
from rlvc.tasks.custom.task import CustomOutcome


def draw_figures(outcome: CustomOutcome) -> Iterator[tuple[str, bytes]]:
    """Draw all figures of a run, those of percepts last; yield their file names and PNG data."""
    with house_style():
        yield "learning.png", to_png(draw_learning(outcome.result))
        yield "features.png", to_png(draw_features(outcome.best))
        yield "classes.png", to_png(draw_classes(outcome))


def draw_classes(outcome: CustomOutcome, n: int = 12) -> Figure:
    """Draw a percept of each of the most visited classes, with the action that is taken there."""
    data, policy = outcome.interactions, outcome.policy
    visited = outcome.evaluation.classes[data.start]
    size = np.bincount(visited, minlength=policy.n_classes)
    order = np.argsort(-size, kind="stable")[:n]
    order = order[size[order] > 0]
    height, width, _ = next(iter(images_of(data.percepts[0]).values())).shape
    columns = 4 if width > 1.4 * height else 6
    rows = -(-len(order) // columns)
    inches = rows * (9.6 / columns * height / width + 0.42) + 0.3
    which = f"the {len(order)} most visited of {policy.n_classes} classes"
    figure = new_figure(10.0, inches, f"Percepts and actions: {which}")
    cells = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in cells:
        axes.axis("off")
    for axes, number in zip(cells, order.tolist(), strict=False):
        percepts, counts = np.unique(data.start[visited == number], return_counts=True)
        images = images_of(data.percepts[int(percepts[counts.argmax()])])
        show_image(axes, list(images.values())[-1])
        action = int(policy.actions[number])
        name = policy.action_names[action] if policy.action_names else action + policy.action_start
        axes.set_title(
            f"class {number}: “{name}”\nvalue {policy.values[number]:.2f}, {size[number]}×",
            fontsize=7.5, fontweight="normal", loc="center",
        )  # fmt: skip
    return figure


def draw_learning(result: dict[str, Any]) -> Figure:
    """Draw classes, tests and residual by stage, and the returns of the rounds of exploration."""
    rounds = [one for one in result["rounds"] if one["return"] is not None]
    figure = new_figure(9.0 if rounds else 6.2, 3.2)
    panels = figure.subplots(1, 3 if rounds else 2)
    draw_growth(panels[0], panels[1], result["history"])
    if not rounds:
        return figure
    axes = panels[2]
    axes.set_title("Return while exploring")
    steps = [one["interactions"] for one in rounds]
    axes.plot(steps, [one["return"] for one in rounds], color=BLUE, marker="o", linewidth=1.8)
    axes.annotate("random", (steps[0], rounds[0]["return"]), color=GREY, xytext=(4, 4),
                  textcoords="offset points", fontsize=7.5)  # fmt: skip
    if result["measures"]:
        final = result["measures"]["return"]
        axes.axhline(final["mean"], color=ORANGE, linewidth=1.2, linestyle="--")
        axes.annotate(
            f"without exploring {final['mean']:.2f}", (steps[0], final["mean"]), color=ORANGE,
            xytext=(2, 3), textcoords="offset points", fontsize=7.5,
        )  # fmt: skip
    axes.set_xlabel("interactions")
    axes.margins(y=0.15)
    return figure
