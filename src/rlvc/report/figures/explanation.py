"""Figures that explain the action of a policy, or of a forest, on one percept."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from rlvc.data.images import as_image
from rlvc.data.percepts import Percept, images_of
from rlvc.features.kinds import AtLeast
from rlvc.features.lazy import LazyFeatures
from rlvc.policies.explanation import ActionChoice, Explanation, FeatureTest, ForestExplanation
from rlvc.policies.forest import AnyPolicy
from rlvc.report.figures.arrangements import (
    SHOWN,
    Arrangement,
    arrange,
    draw_arrangement,
    show_image,
)
from rlvc.report.figures.patches import brief, picture_of
from rlvc.report.figures.style import BLUE, GREY, INK, LIGHT, ORANGE, PALE, house_style, new_figure

OFFSETS: Final = ((9, 7), (9, -16), (-16, 7), (-16, -16))  # points, from a mark to its number


class NumberedTest(NamedTuple):
    """A test that is shown, with its number and a note on its effect."""

    number: int
    test: FeatureTest
    note: str = ""


def draw_explanation(
    policy: AnyPolicy, percept: Percept, explanation: Explanation | ForestExplanation
) -> Figure:
    """Draw the percept with the features that were seen, the tests, and the values of the actions.

    The tests are those on the path through a classifier, or the most decisive ones of a forest. The
    images of several cameras are drawn one below the other.
    """
    if isinstance(explanation, ForestExplanation):
        tests = cells = [
            NumberedTest(
                rank,
                one.test,
                f"\n{one.gain:+.1f}, {one.n_trees} tree{'s' if one.n_trees > 1 else ''}",
            )
            for rank, one in explanation.shown()
        ]
        heading = f"The most decisive features; the action leads by {explanation.lead:.1f}"
        title = "Mean values of the actions, and the vote"
        notes = [f"{n} of {explanation.ballots.sum()} trees" for n in explanation.ballots]
    else:
        tests = [NumberedTest(i, test) for i, test in enumerate(explanation.tests, 1)]
        cells, notes = [NumberedTest(*one) for one in explanation.shown()], []
        left_out = len(tests) - len(cells)
        note = f" ({left_out} not shown)" if left_out else ""
        heading = f"The path of {len(tests)} tests{note}"
        title = f"Class {explanation.visual_class}: values of the actions"
    with house_style():
        figure = new_figure(10.5, 6.4 if notes else 5.6)
        layout = GridSpec(1, 2, figure, width_ratios=(1.0, 1.05))
        _draw_images(figure, layout, policy, percept, tests)
        right = layout[1].subgridspec(2, 1, height_ratios=(4.2, 1.2 if notes else 1.0))
        upper, lower = figure.add_subplot(right[0]), figure.add_subplot(right[1])
        upper.set_title(heading)
        _draw_patches(upper, policy, cells)
        _draw_values(lower, explanation, title, notes)
        return figure


def _draw_images(
    figure: Figure,
    layout: GridSpec,
    policy: AnyPolicy,
    percept: Percept,
    tests: Sequence[NumberedTest],
) -> None:
    """Draw the images of all cameras, with the features that were seen, by number."""
    parts = images_of(percept)
    images = {camera: as_image(parts[camera]) for camera in sorted(parts)}
    aspects = [image.shape[0] / image.shape[1] for image in images.values()]
    if len(images) > 1:
        aspects.append(max(0.9 - sum(aspects), 0.1))  # space for the list of features
    rows = layout[0].subgridspec(len(aspects), 1, height_ratios=aspects)
    features = LazyFeatures(policy.graph, policy.extractor, images)
    is_any_seen = any(test.exhibited for _, test, _ in tests)
    what = "The features that were seen" if is_any_seen else "No feature was seen"
    for row, (camera, image) in enumerate(images.items()):
        axes = figure.add_subplot(rows[row])
        show_image(axes, image)
        axes.set_title(what if not camera else f"{what}, {camera}" if row == 0 else camera)
        for number, test, _ in tests:
            if test.exhibited and policy.graph.camera[test.number] == camera:
                _mark(axes, number, test, arrange(policy.graph, features, test.number))
    if len(images) > 1:
        _list_composites(figure.add_subplot(rows[-1]), policy, tests)


def _mark(axes: Axes, number: int, test: FeatureTest, found: list[Arrangement]) -> None:
    """Mark the occurrences of a feature with the number of its test."""
    is_composite = any(one.lines for one in found)
    for one in found[:SHOWN] if is_composite else found:
        draw_arrangement(axes, one, ORANGE, "white", 8.0 if is_composite else 15.0)
    # Composites overlap, so each gets one number, on alternating sides.
    offset = OFFSETS[number % len(OFFSETS)] if is_composite else OFFSETS[0]
    for x, y in test.occurrences[:1] if is_composite else test.occurrences:
        axes.annotate(
            str(number), (x, y), xytext=offset, textcoords="offset points", color="white",
            fontsize=8, fontweight="bold", bbox={"fc": ORANGE, "ec": "white", "pad": 1.2},
        )  # fmt: skip


def _list_composites(axes: Axes, policy: AnyPolicy, tests: Sequence[NumberedTest]) -> None:
    """List the composite features that were seen, the last ones if there are many."""
    lines = [
        line
        for number, test, _ in tests
        if test.exhibited and policy.graph.is_arranged(test.number)
        for line in textwrap.wrap(
            f"{number}. {brief(policy.graph, test.number)}", 84, subsequent_indent="     "
        )
    ]
    axes.axis("off")
    axes.text(0, 1, "\n".join(lines[-6:]), va="top", fontsize=7.5, transform=axes.transAxes)


def _draw_patches(axes: Axes, policy: AnyPolicy, tests: Sequence[NumberedTest]) -> None:
    """Draw the patches of features, with their numbers, whether they were seen, and a note."""
    columns = 4
    axes.set(xlim=(0, columns), ylim=(max(1, -(-len(tests) // columns)), 0))
    axes.axis("off")
    for cell, (number, test, note) in enumerate(tests):
        x, y = cell % columns, cell // columns
        box = axes.inset_axes((x + 0.16, y + 0.02, 0.68, 0.62), transform=axes.transData)
        verdict, alpha = ("seen", 1.0) if test.exhibited else ("not seen", 0.35)
        if isinstance(test.feature, AtLeast):  # whose parts may be faded
            verdict = f"{len(test.seen)} of {len(test.feature.parts)}, needs {test.feature.least}"
            alpha = 1.0
        box.imshow(picture_of(policy, test.number, test.seen), alpha=alpha)
        box.set(xticks=[], yticks=[])
        for spine in box.spines.values():
            spine.set(visible=True, color=ORANGE if test.exhibited else LIGHT, linewidth=1.6)
        axes.text(
            x + 0.5, y + 0.74 + 0.05 * note.count("\n"), f"{number}. {verdict}{note}", ha="center",
            va="center", fontsize=7.5, color=INK if test.exhibited else GREY,
        )  # fmt: skip


def _draw_values(axes: Axes, explanation: ActionChoice, title: str, notes: Sequence[str]) -> None:
    """Draw the values of the actions, with notes below their names."""
    actions = range(len(explanation.q))
    names = [explanation.name(a) for a in actions]
    labels = [f"{names[a]}\n{notes[a]}" if notes else names[a] for a in actions]
    values = np.where(explanation.is_tried, explanation.q, 0.0)
    colours = [PALE] * len(values)
    colours[explanation.best] = BLUE
    axes.bar(list(actions), values, color=colours, width=0.6, tick_label=labels)
    for a, tried in enumerate(explanation.is_tried):
        text = f"{explanation.q[a]:.1f}" if tried else "never tried"
        axes.annotate(text, (a, max(values[a], 0.0)), xytext=(0, 2), textcoords="offset points",
                      ha="center", fontsize=8)  # fmt: skip
    axes.set_title(f"{title}; it takes “{names[explanation.best]}”")
    axes.set(yticks=[])
    axes.margins(y=0.25)
    axes.grid(False)
    axes.spines["left"].set_visible(False)
