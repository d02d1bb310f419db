"""The images of a frame: what the agent sees, with the features that were found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from rlvc.data.images import Image
from rlvc.features.lazy import LazyFeatures
from rlvc.policies.forest import AnyPolicy
from rlvc.report.figures.arrangements import SHOWN, Arrangement, Point, arrange
from rlvc.report.figures.explanation import NumberedTest
from rlvc.report.figures.style import ORANGE
from rlvc.report.video.canvas import TITLE, Box, Canvas

GAP: Final = 32  # pixels between parts of a frame
CIRCLE: Final = 15.0  # points, the diameter of a mark
TAGS: Final = 4  # occurrences of a feature that are numbered, at most
APART: Final = 70.0  # pixels between two of them, at least
CLOSE: Final = 24.0  # pixels between any two numbers, where possible
OFFSETS: Final = ((18, -15), (18, 15), (-18, -15), (-18, 15), (0, 0))  # from a point to its number


def draw_cameras(
    canvas: Canvas,
    area: Box,
    policy: AnyPolicy,
    images: Mapping[str, Image],
    tests: Sequence[NumberedTest],
) -> Box:
    """Draw the images of all cameras in an area, with the features that were seen.

    Returns the part of the area below the images.
    """
    boxes = _arrange_images([image.shape for image in images.values()], area)
    features = LazyFeatures(policy.graph, policy.extractor, images)
    for box, (camera, image) in zip(boxes, images.items(), strict=True):
        words = ["What the agent sees"] * (box == boxes[0]) + [camera] * (camera != "")
        canvas.title(box, ": ".join(words))
        shown = box.below(TITLE).fit(image.shape)
        canvas.paste(image, shown)
        seen = {
            number: arrange(policy.graph, features, test.number)
            for number, test, _ in tests
            if test.exhibited and policy.graph.camera[test.number] == camera
        }
        _draw_marks(canvas, shown, shown.width / image.shape[1], seen)
    return area.below(boxes[-1].y + boxes[-1].height + GAP // 4 - area.y)


def _arrange_images(shapes: Sequence[tuple[int, ...]], area: Box) -> list[Box]:
    """Return a box for each image, in as many columns as make the images largest."""
    grids = [_grid(shapes, area, columns) for columns in range(1, len(shapes) + 1)]
    return max(grids, key=lambda boxes: sum(box.width * (box.height - TITLE) for box in boxes))


def _grid(shapes: Sequence[tuple[int, ...]], area: Box, columns: int) -> list[Box]:
    lines = [shapes[i : i + columns] for i in range(0, len(shapes), columns)]
    step = (area.width + GAP // 2) // columns
    heights = [max((step - GAP // 2) * shape[0] / shape[1] for shape in line) for line in lines]
    share = (area.height + GAP // 4 - (TITLE + GAP // 4) * len(lines)) / sum(heights)
    boxes, y = [], area.y
    for line, height in zip(lines, heights, strict=True):
        largest = Box(0, 0, step - GAP // 2, max(round(height * min(share, 1.0)), 1))
        shown = [largest.fit(shape) for shape in line]
        tall = TITLE + max(box.height for box in shown)
        boxes += [Box(area.x + step * i, y, box.width, tall) for i, box in enumerate(shown)]
        y += tall + GAP // 4
    return boxes


def _draw_marks(
    canvas: Canvas, box: Box, scale: float, seen: Mapping[int, Sequence[Arrangement]]
) -> None:
    """Mark the occurrences of features on an image, with the numbers of their tests."""

    def at(point: Point) -> Point:
        return box.x + (point[0] + 0.5) * scale, box.y + (point[1] + 0.5) * scale

    composites, primitives = list[Arrangement](), list[Arrangement]()
    tags = list[tuple[int, Point]]()
    for number, found in seen.items():
        arranged = [one for one in found if one.lines][:SHOWN]
        others = [one for one in found if not one.lines]
        composites += arranged
        primitives += others
        places = list[Point]()
        for place in [at(one.middle) for one in arranged[:1] + others]:
            if len(places) < TAGS and all(math.dist(place, other) > APART for other in places):
                places.append(place)
        tags += [(number, place) for place in places]
    lines = [(at(first), at(second)) for one in composites for first, second in one.lines]
    parts = [at(point) for one in composites for point in one.points]
    middles = [at(one.middle) for one in composites]
    alone = [at(one.middle) for one in primitives]
    for ink, width in (("white", 3.2), (ORANGE, 1.6)):  # legible on any picture
        canvas.join(lines, ink, width)
        canvas.mark(parts, "o", CIRCLE / 2, mfc="none", mec=ink, mew=width)
        canvas.mark(alone, "o", CIRCLE, mfc="none", mec=ink, mew=width)
    canvas.mark(middles, "D", CIRCLE / 4, mfc=ORANGE, mec="white", mew=0.8)
    _draw_tags(canvas, box, tags)


def _draw_tags(canvas: Canvas, box: Box, tags: Sequence[tuple[int, Point]]) -> None:
    """Write numbers next to points, each on the side farthest from the other numbers."""
    taken: list[Point] = []
    for number, (x, y) in tags:
        spots = [
            (x + dx, y + dy)
            for dx, dy in OFFSETS
            if 0 <= x + dx - box.x <= box.width and 0 <= y + dy - box.y <= box.height
        ]
        gaps = [min([CLOSE, *(math.dist(spot, other) for other in taken)]) for spot in spots]
        taken.append(spots[int(np.argmax(gaps))])
        canvas.tag(*taken[-1], number, ORANGE)
