"""A picture of why a policy acts as it does on one percept."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from rlvc.images import Image
from rlvc.policy import Explanation, Policy
from rlvc.report.style import BLUE, GREY, INK, ORANGE, house_style, new_figure

MOST = 12  # tests that are shown in full; a longer path shows what was seen and the last ones


def draw_explanation(policy: Policy, image: Image, explanation: Explanation) -> Figure:
    """Draw the image with the features that were found, the path, and the values of the actions."""
    with house_style():
        figure = new_figure(10.5, 5.6)
        layout = GridSpec(1, 2, figure, width_ratios=(1.0, 1.05))
        _draw_image(figure, layout, image, explanation)
        right = layout[1].subgridspec(2, 1, height_ratios=(4.2, 1.0))
        _draw_path(figure, right, policy, explanation)
        _draw_values(figure, right, explanation)
        return figure


def _draw_image(figure: Figure, layout: GridSpec, image: Image, explanation: Explanation) -> None:
    axes = figure.add_subplot(layout[0])
    grey = image.shape[2] == 1
    axes.imshow(image[:, :, 0] if grey else image, cmap="gray" if grey else None)
    for number, test in enumerate(explanation.tests, 1):
        for x, y in test.occurrences:
            axes.plot(x, y, "o", markersize=15, mfc="none", mec="white", mew=3.2)
            axes.plot(x, y, "o", markersize=15, mfc="none", mec=ORANGE, mew=1.8)
            axes.annotate(
                str(number), (x, y), xytext=(9, 7), textcoords="offset points", color="white",
                fontsize=8, fontweight="bold", bbox={"fc": ORANGE, "ec": "white", "pad": 1.2},
            )  # fmt: skip
    axes.set_title("What decided: the features that were seen")
    axes.axis("off")


def _shown(explanation: Explanation) -> list[int]:
    """Return the tests to show: all, or those that were seen and the last of the others."""
    n = len(explanation.tests)
    if n <= MOST:
        return list(range(n))
    seen = [i for i, test in enumerate(explanation.tests) if test.exhibited][-MOST:]
    rest = [i for i in range(n) if i not in seen][-(MOST - len(seen)) or n :]
    return sorted(seen + rest)


def _draw_path(figure: Figure, layout: object, policy: Policy, explanation: Explanation) -> None:
    axes = figure.add_subplot(layout[0])  # type: ignore[index]
    shown = _shown(explanation)
    columns = 4
    left_out = len(explanation.tests) - len(shown)
    note = f" ({left_out} of them are not shown)" if left_out else ""
    axes.set_title(f"The path of {len(explanation.tests)} tests{note}")
    axes.set(xlim=(0, columns), ylim=(max(1, -(-len(shown) // columns)), 0))
    axes.axis("off")
    for cell, index in enumerate(shown):
        test = explanation.tests[index]
        x, y = cell % columns, cell // columns
        box = axes.inset_axes((x + 0.16, y + 0.02, 0.68, 0.62), transform=axes.transData)
        box.imshow(policy.patches[test.number], alpha=1.0 if test.exhibited else 0.35)
        box.set(xticks=[], yticks=[])
        for spine in box.spines.values():
            spine.set(visible=True, color=ORANGE if test.exhibited else "#D1D5DB", linewidth=1.6)
        axes.text(
            x + 0.5, y + 0.74, f"{index + 1}. {'seen' if test.exhibited else 'not seen'}",
            ha="center", va="center", fontsize=7.5, color=INK if test.exhibited else GREY,
        )  # fmt: skip


def _draw_values(figure: Figure, layout: object, explanation: Explanation) -> None:
    axes = figure.add_subplot(layout[1])  # type: ignore[index]
    names = [explanation.name(a) for a in range(len(explanation.q))]
    values = np.where(explanation.is_tried, explanation.q, 0.0)
    colours = ["#9CCBE8"] * len(values)
    colours[explanation.best] = BLUE
    axes.bar(names, values, color=colours, width=0.6)
    for a, tried in enumerate(explanation.is_tried):
        text = f"{explanation.q[a]:.1f}" if tried else "never tried"
        axes.annotate(text, (a, values[a]), xytext=(0, 2), textcoords="offset points",
                      ha="center", fontsize=8)  # fmt: skip
    axes.set_title(
        f"Class {explanation.visual_class}: values of the actions; it takes "
        f"“{explanation.name(explanation.best)}”"
    )
    axes.set(yticks=[])
    axes.margins(y=0.25)
    axes.grid(False)
    axes.spines["left"].set_visible(False)
