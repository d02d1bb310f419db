"""The figure of composite features: where their parts are, and which states exhibit them."""

from __future__ import annotations

import textwrap
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from rlvc.data.images import Image
from rlvc.envs.hill.dynamics import FIRST, HILL, TOP
from rlvc.envs.hill.scene import LEFT, PER_UNIT, gauge_image, ground_image
from rlvc.features.lazy import LazyFeatures
from rlvc.report.figures.arrangements import SHOWN, arrange, draw_arrangement, show_image
from rlvc.report.figures.patches import brief
from rlvc.report.figures.style import BLUE, GREY, INK, new_figure
from rlvc.tasks.hill.index import GAUGE, GROUND, POSITIONS, VELOCITIES
from rlvc.tasks.hill.task import HillOutcome

MOST: Final = {GAUGE: 6, GROUND: 4}  # features that are shown of either camera
SPAN: Final = {GAUGE: 2, GROUND: 1}  # columns of an image, of the four of the figure
HEIGHT: Final = {GAUGE: 1.5, GROUND: 1.75}  # inches of a row, without its caption
LINE: Final = {GAUGE: 84, GROUND: 40}  # characters of a line of the caption
GAP: Final = 3  # consecutive images that may lack a feature within one range


def draw_composites(outcome: HillOutcome) -> Figure:
    """Draw the composite features of either camera that are tested on the most percepts."""
    rows: list[tuple[str, list[int]]] = []
    for camera, most in MOST.items():
        chosen, per_row = most_tested(outcome, camera, most), 4 // SPAN[camera]
        rows += [(camera, chosen[i : i + per_row]) for i in range(0, len(chosen), per_row)]
    heights = [
        HEIGHT[camera] + 0.14 * max(len(caption(outcome, number)) for number in numbers)
        for camera, numbers in rows
    ] or [1.0]
    title = "Composite features that are tested most often, and when they are seen"
    figure = new_figure(10.0, sum(heights) + 0.3, title)
    grid = GridSpec(len(heights), 4, figure, height_ratios=heights)
    for line, (camera, numbers) in enumerate(rows):
        for i, number in enumerate(numbers):
            columns = slice(i * SPAN[camera], (i + 1) * SPAN[camera])
            _draw_composite(figure.add_subplot(grid[line, columns]), outcome, number)
    if not rows:
        axes = figure.add_subplot(grid[0, :])
        axes.axis("off")
        axes.text(0, 0.5, "no composite feature was selected", color=GREY)
    return figure


def most_tested(outcome: HillOutcome, camera: str, n: int) -> list[int]:
    """Return the composites of a camera that are tested on the most percepts."""
    graph, usage = outcome.policy.graph, outcome.policy.usage
    tested = outcome.policy.classifier.features.tolist()
    chosen = [k for k in tested if graph.is_arranged(k) and graph.camera[k] == camera]
    return sorted(chosen, key=lambda k: (-usage[k], k))[:n]


def ranges(shows: NDArray[np.bool_], gap: int = GAP) -> list[tuple[int, int]]:
    """Return the first and the last image of each range that exhibits a feature.

    >>> ranges(np.array([0, 1, 1, 0, 1, 0, 0, 0, 0, 1], np.bool_))
    [(1, 4), (9, 9)]
    """
    seen = np.flatnonzero(shows)
    pieces = np.split(seen, np.flatnonzero(np.diff(seen) > gap + 1) + 1)
    return [(int(piece[0]), int(piece[-1])) for piece in pieces if len(piece)]


def caption(outcome: HillOutcome, number: int) -> list[str]:
    """Return lines that describe a feature and where it is seen."""
    camera, spans = outcome.policy.graph.camera[number], _spans(outcome, number)
    what = "velocities" if camera == GAUGE else "positions"
    sentences = brief(outcome.policy.graph, number), f"at {what} {in_words(spans)}"
    return [line for text in sentences for line in textwrap.wrap(text, LINE[camera])]


def _spans(outcome: HillOutcome, number: int) -> list[tuple[float, float]]:
    scale = VELOCITIES if outcome.policy.graph.camera[number] == GAUGE else POSITIONS
    return [
        (float(scale[a]), float(scale[b]))
        for a, b in ranges(outcome.evaluation.index.shows(number))
    ]


def _draw_composite(axes: Axes, outcome: HillOutcome, number: int) -> None:
    """Draw a feature on the middle image of its longest range, and below it all ranges."""
    policy, shows = outcome.policy, outcome.evaluation.index.shows(number)
    first, last = max(ranges(shows), key=lambda one: one[1] - one[0], default=(0, 0))
    seen = np.flatnonzero(shows[first : last + 1])
    column = first + int(seen[len(seen) // 2]) if len(seen) else 0
    camera = policy.graph.camera[number]
    is_gauge = camera == GAUGE
    image = gauge_image(column) if is_gauge else ground_image(outcome.evaluation.env.strip, column)
    show_image(axes, image)
    features = LazyFeatures(policy.graph, policy.extractor, {camera: image})
    for one in arrange(policy.graph, features, number)[:SHOWN]:
        draw_arrangement(axes, one)
    _draw_ranges(axes, image, _spans(outcome, number), is_gauge)
    axes.set_xlabel("\n".join(caption(outcome, number)), fontsize=7.5, color=INK)


def _draw_ranges(
    axes: Axes, image: Image, spans: list[tuple[float, float]], is_gauge: bool
) -> None:
    """Draw below an image where a feature is seen; for the gauge, below its digits."""
    height, width, _ = image.shape

    def column(value: float) -> float:
        if is_gauge:
            return float(LEFT + (value + HILL.max_speed) * PER_UNIT)
        return float((value - FIRST) / (TOP - FIRST) * (width - 1))

    for low, high in spans:
        begin, end = column(low), column(high)
        box = Rectangle((begin, height + 4), max(end - begin, 2.0), 9, color=BLUE, linewidth=0)
        axes.add_patch(box)
    values = np.linspace(-3, 3, 7) if is_gauge else np.linspace(FIRST, TOP, 5)
    axes.set_axis_on()
    axes.set(ylim=(height + 13, -0.5), yticks=[])
    axes.set_xticks([column(value) for value in values], [f"{value:g}" for value in values])
    axes.tick_params(labelsize=6.5, length=2, pad=1)
    axes.grid(False)
    axes.spines["left"].set_visible(False)


def in_words(spans: list[tuple[float, float]], most: int = 3) -> str:
    """Return ranges in words.

    >>> in_words([(-0.5, -0.25), (1.0, 1.0)])
    '-0.50 to -0.25 and around 1.00'
    """
    if not spans:
        return "that no image shows"
    if len(spans) > most:
        return f"in {len(spans)} ranges from {spans[0][0]:.2f} to {spans[-1][1]:.2f}"
    texts = [f"{a:.2f} to {b:.2f}" if b > a else f"around {a:.2f}" for a, b in spans]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
