"""Arrangements: the positions of a feature's parts on an image, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from rlvc.data.images import Image
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import AtLeast, Composite, InCell
from rlvc.features.lazy import LazyFeatures
from rlvc.features.occurrences import pair_up

Point = tuple[float, float]

YELLOW: Final = "#FFE000"
DARK: Final = "#101418"
SHOWN: Final = 4  # occurrences of a composite that are drawn; more would be a tangle of lines


@dataclass(frozen=True, slots=True)
class Arrangement:
    """One occurrence of a feature.

    Attributes:
        middle: Its position, in pixels.
        points: The positions of its primitive features.
        lines: From one part to the other, for every composite in it.
    """

    middle: Point
    points: tuple[Point, ...]
    lines: tuple[tuple[Point, Point], ...] = ()


def arrange(graph: FeatureGraph, features: LazyFeatures, number: int) -> list[Arrangement]:
    """Return the arrangements of a feature on a percept, in the order of its occurrences.

    Of several pairs of parts with the same midpoint, the first one counts.
    """
    feature = graph[number]
    marks = features.find(number)
    if isinstance(feature, Composite):
        parameters, mark = feature.parameters(), np.empty((1, 4))
        (firsts, left), (seconds, right) = (
            (features.find(part), arrange(graph, features, part)) for part in feature.parts
        )
        pairs: dict[Point, Arrangement] = {}
        for i, one in enumerate(left):
            for j, other in enumerate(right):
                if pair_up(firsts[i : i + 1], seconds[j : j + 1], parameters, mark):
                    x, y = mark[0, :2].tolist()
                    lines = *one.lines, *other.lines, (one.middle, other.middle)
                    pair = Arrangement((x, y), one.points + other.points, lines)
                    pairs.setdefault(pair.middle, pair)
        return [pairs[x, y] for x, y in marks[:, :2].tolist()]
    if isinstance(feature, InCell):
        known = {one.middle: one for one in arrange(graph, features, feature.part)}
        return [known[x, y] for x, y in marks[:, :2].tolist()]
    if isinstance(feature, AtLeast):
        parts = feature.parts if len(marks) else ()
        return [one for part in parts for one in arrange(graph, features, part)]
    return [Arrangement((x, y), ((x, y),)) for x, y in marks[:, :2].tolist()]


def draw_arrangement(
    axes: Axes, one: Arrangement, colour: str = YELLOW, edge: str = DARK, size: float = 7.5
) -> None:
    """Draw the primitive features of an occurrence, the lines between parts, and the midpoint."""
    for ink, width in ((edge, 3.0), (colour, 1.4)):  # legible on any picture
        for (x0, y0), (x1, y1) in one.lines:
            axes.plot([x0, x1], [y0, y1], color=ink, linewidth=width, solid_capstyle="round")
        for x, y in one.points:
            axes.plot(x, y, "o", markersize=size, mfc="none", mec=ink, mew=width)
    if one.lines:
        axes.plot(*one.middle, "D", markersize=size / 2, mfc=colour, mec=edge, mew=0.8)


def show_image(axes: Axes, image: Image) -> None:
    """Show an image without axes, with limits that later drawing does not change."""
    height, width, channels = image.shape
    axes.imshow(image[:, :, 0] if channels == 1 else image, cmap="gray" if channels == 1 else None)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    axes.axis("off")
