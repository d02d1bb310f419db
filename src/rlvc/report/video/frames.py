"""One frame of a film: what the agent perceives, what decided, and what it does."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc.data.images import Image
from rlvc.features.kinds import AtLeast
from rlvc.features.lazy import LazyFeatures
from rlvc.policies.explanation import Explanation, FeatureTest, ForestExplanation
from rlvc.policies.forest import AnyPolicy
from rlvc.report.figures.arrangements import SHOWN, Arrangement, Point, arrange
from rlvc.report.figures.explanation import LIGHT, shown_tests
from rlvc.report.figures.patches import FADED, picture_of
from rlvc.report.figures.style import BLUE, GREY, INK, ORANGE, house_style
from rlvc.report.video.canvas import TITLE, Box, Canvas

PALE: Final = "#9CCBE8"
DIM: Final = "#9CA3AF"

# Parts of the canvas, in pixels.
LEFT: Final = Box(32, 84, 580, 608)
TESTS: Final = Box(652, 84, 596, 336)
VALUES: Final = Box(652, 436, 596, 256)
RIGHT: Final = VALUES.x + VALUES.width
GAP: Final = 32
PATCH: Final = 58  # height of what a feature looks like
CIRCLE: Final = 15.0  # points, around where a feature is
VOTES: Final = 68  # for how many trees voted

COLUMNS: Final = 4  # of features
ROWS: Final = 9  # of actions; more of them take another column
NARROW: Final = {1: 280, 2: 420}  # pixels that so many of their columns need at least
TAGS: Final = 4  # places of a feature that get its number
APART: Final = 70.0  # pixels between two of them
CLOSE: Final = 24.0  # pixels between any two numbers, if there is a choice
OFFSETS: Final = ((18, -15), (18, 15), (-18, -15), (-18, 15), (0, 0))  # from a place to its number


@dataclass(frozen=True, slots=True)
class EpisodeStep:
    """One step of an episode, or its end.

    Attributes:
        images: What each camera shows.
        decision: Why the agent does what it does next; None at the end.
        title: Which task and which episode it is.
        actions: What it has done so far, in words.
        total: The sum of the rewards so far.
        reward: The last of them.
        ending: What came of the episode, at the end.
        world: What the environment shows to people, if that is something else.
    """

    images: Mapping[str, Image]
    decision: Explanation | ForestExplanation | None
    title: str
    actions: Sequence[str] = ()
    total: float = 0.0
    reward: float = 0.0
    ending: str = ""
    world: Image | None = None


def draw_frame(policy: AnyPolicy, step: EpisodeStep) -> NDArray[np.uint8]:
    """Draw one frame of a film, (720, 1280, 3) RGB."""
    with house_style():
        canvas, room = Canvas(), VALUES
        tests = _tests(step.decision)
        _draw_header(canvas, step)
        below = _draw_cameras(canvas, policy, step, tests)
        if step.world is not None:
            room = _draw_world(canvas, step.world, below, policy.n_actions)
        if step.decision is None:
            _draw_ending(canvas, step)
        else:
            _draw_tests(canvas, policy, step.decision, tests)
            _draw_values(canvas, step.decision, room)
        return canvas.pixels()


def _draw_header(canvas: Canvas, step: EpisodeStep) -> None:
    heading = f"Step {len(step.actions) + 1}" if step.decision else "The end"
    canvas.write(LEFT.x, 48, heading, 150, fontsize=20, weight="bold")
    canvas.write(LEFT.x + 170, 48, step.title, 600, fontsize=12, color=GREY)
    gain = f" ({in_words(step.reward, sign='+')})" if step.reward else ""
    text = f"reward so far {in_words(step.total)}{gain}"
    canvas.write(RIGHT, 48, text, fontsize=14, ha="right", color=BLUE if gain else INK)
    canvas.fill(LEFT.x, 64, RIGHT - LEFT.x, 1, LIGHT)


def in_words(value: float, sign: str = "") -> str:
    """Return a number with no more decimals than it needs, two as a rule.

    >>> in_words(100.0), in_words(0.961), in_words(-0.004), in_words(3.5, sign="+")
    ('100', '0.96', '-0.004', '+3.5')
    """
    if 0.0 < abs(value) < 0.01:
        return f"{value:{sign}.1g}"
    return f"{value:{sign}.2f}".rstrip("0").rstrip(".")


# What it perceives -------------------------------------------------------------------------------


def _draw_cameras(
    canvas: Canvas,
    policy: AnyPolicy,
    step: EpisodeStep,
    tests: Sequence[tuple[int, FeatureTest, str]],
) -> Box:
    """Draw the images of all cameras, with the features that were seen; return the room left."""
    boxes = _places([image.shape for image in step.images.values()])
    features = LazyFeatures(policy.graph, policy.extractor, dict(step.images))
    for box, (camera, image) in zip(boxes, step.images.items(), strict=True):
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
    return LEFT.below(boxes[-1].y + boxes[-1].height + GAP // 4 - LEFT.y)


def _places(shapes: Sequence[tuple[int, ...]]) -> list[Box]:
    """Return a part of the canvas for each image: in columns, so many that images are largest."""
    n = len(shapes)
    grids = [_grid(shapes, columns) for columns in range(1, n + 1)]
    return max(grids, key=lambda boxes: sum(box.width * (box.height - TITLE) for box in boxes))


def _grid(shapes: Sequence[tuple[int, ...]], columns: int) -> list[Box]:
    lines = [shapes[i : i + columns] for i in range(0, len(shapes), columns)]
    step = (LEFT.width + GAP // 2) // columns
    heights = [max((step - GAP // 2) * shape[0] / shape[1] for shape in line) for line in lines]
    share = (LEFT.height + GAP // 4 - (TITLE + GAP // 4) * len(lines)) / sum(heights)
    boxes, y = [], LEFT.y
    for line, height in zip(lines, heights, strict=True):
        room = Box(0, 0, step - GAP // 2, max(round(height * min(share, 1.0)), 1))
        shown = [room.fit(shape) for shape in line]
        tall = TITLE + max(box.height for box in shown)
        boxes += [Box(LEFT.x + step * i, y, box.width, tall) for i, box in enumerate(shown)]
        y += tall + GAP // 4
    return boxes


def _draw_marks(
    canvas: Canvas, box: Box, scale: float, seen: Mapping[int, Sequence[Arrangement]]
) -> None:
    """Mark where features were seen on an image, with the numbers of their tests."""

    def at(point: Point) -> Point:
        return box.x + (point[0] + 0.5) * scale, box.y + (point[1] + 0.5) * scale

    alone: list[Point] = []  # where primitive features are
    parts: list[Point] = []  # where those are that composites are made of
    middles: list[Point] = []
    lines: list[tuple[Point, Point]] = []
    tags: list[tuple[int, Point]] = []
    for number, found in seen.items():
        composites = [one for one in found if one.lines][:SHOWN]
        others = [one for one in found if not one.lines]
        alone += [at(one.middle) for one in others]
        parts += [at(point) for one in composites for point in one.points]
        middles += [at(one.middle) for one in composites]
        lines += [(at(first), at(second)) for one in composites for first, second in one.lines]
        places: list[Point] = []
        for place in [at(one.middle) for one in composites[:1] + others]:
            if len(places) < TAGS and all(math.dist(place, other) > APART for other in places):
                places.append(place)
        tags += [(number, place) for place in places]
    for ink, width in (("white", 3.2), (ORANGE, 1.6)):  # legible on any picture
        canvas.join(lines, ink, width)
        canvas.mark(parts, "o", CIRCLE / 2, mfc="none", mec=ink, mew=width)
        canvas.mark(alone, "o", CIRCLE, mfc="none", mec=ink, mew=width)
    canvas.mark(middles, "D", CIRCLE / 4, mfc=ORANGE, mec="white", mew=0.8)
    _draw_tags(canvas, box, tags)


def _draw_tags(canvas: Canvas, box: Box, tags: Sequence[tuple[int, Point]]) -> None:
    """Write numbers next to places, each to that side where it is farthest from the others."""
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


def _draw_world(canvas: Canvas, world: Image, below: Box, n_actions: int) -> Box:
    """Draw the world where it is largest, below the cameras or beside the values of the actions.

    Returns the room for these.
    """
    columns = min(-(-n_actions // ROWS), max(NARROW))
    beside = VALUES._replace(width=VALUES.width - GAP - NARROW[columns])
    under, spot = (room.below(TITLE).fit(world.shape) for room in (below, beside))
    room = VALUES
    if spot.width >= under.width:
        room = VALUES._replace(width=VALUES.width - GAP - spot.width)
        under = spot._replace(x=RIGHT - spot.width)
    canvas.title(under._replace(y=under.y - TITLE), "The world")
    canvas.paste(world, under)
    return room


# What decided ------------------------------------------------------------------------------------


def _tests(decision: Explanation | ForestExplanation | None) -> list[tuple[int, FeatureTest, str]]:
    """Return the tests to show, each with its number and with what it did to a vote."""
    if isinstance(decision, Explanation):
        return [(i + 1, decision.tests[i], "") for i in shown_tests(decision)]
    shown = decision.shown() if decision else []
    return [(i, one.test, f", {one.gain:+.2f}") for i, (_, one) in enumerate(shown, 1)]


def _draw_tests(
    canvas: Canvas,
    policy: AnyPolicy,
    decision: Explanation | ForestExplanation,
    tests: Sequence[tuple[int, FeatureTest, str]],
) -> None:
    """Draw what was looked for, with its number, and whether it was seen."""
    title, n = "What it looks for, one after the other", 0
    if isinstance(decision, ForestExplanation):
        title, n = "What decided most, and what it is worth", len(decision.decisive)
    else:
        n = len(decision.tests)
    canvas.title(TESTS, title)
    if n > len(tests):
        text = f"{len(tests)} of {n} are shown"
        canvas.write(RIGHT, TESTS.y + TITLE - 10, text, ha="right", color=GREY, fontsize=9)
    if not tests:
        text = "nothing: all that it sees is one class"
        canvas.write(TESTS.x, TESTS.y + 2 * TITLE, text, color=GREY)
    step, line = TESTS.width // COLUMNS, (TESTS.height - TITLE) // 3
    for cell, (number, test, worth) in enumerate(tests):
        x = TESTS.x + step * (cell % COLUMNS)
        y = TESTS.y + TITLE + line * (cell // COLUMNS)
        _draw_test(canvas, policy, number, test, worth, Box(x, y + 4, step - 20, PATCH))


def _draw_test(
    canvas: Canvas, policy: AnyPolicy, number: int, test: FeatureTest, worth: str, room: Box
) -> None:
    """Draw what a feature looks like, its number, and whether it was seen."""
    picture = picture_of(policy, test.number, test.seen)
    several = test.feature if isinstance(test.feature, AtLeast) else None
    scale = min(room.width / picture.shape[1], room.height / picture.shape[0])
    width, height = round(picture.shape[1] * scale), round(picture.shape[0] * scale)
    box = Box(room.x, room.y + (room.height - height) // 2, width, height)
    canvas.paste(picture, box, 0.0 if several or test.exhibited else FADED)
    canvas.frame(box, ORANGE if test.exhibited else LIGHT)
    canvas.tag(box.x + 2, box.y + 2, number, ORANGE if test.exhibited else DIM)
    style: dict[str, Any] = {"color": GREY}
    if test.exhibited:
        style = {"color": ORANGE, "weight": "bold"}
    text = f"{'seen' if test.exhibited else 'not seen'}{worth}"
    canvas.write(room.x, room.y + PATCH + 15, text, room.width, fontsize=9.5, **style)
    if several:
        text = f"{len(test.seen)} of {len(several.parts)}, needs {several.least}"
        canvas.write(room.x, room.y + PATCH + 28, text, room.width, fontsize=8.5, color=GREY)


# What it does ------------------------------------------------------------------------------------


def name_of(decision: Explanation | ForestExplanation) -> str:
    """Return the action that is taken, in words."""
    return f"{'' if decision.action_names else 'action '}{decision.name(decision.best)}"


def _draw_values(canvas: Canvas, decision: Explanation | ForestExplanation, room: Box) -> None:
    """Draw the values of the actions as bars, one below the other."""
    if isinstance(decision, ForestExplanation):
        who = f"{decision.ballots.sum()} trees vote"
    else:
        who = f"Class {decision.visual_class}"
    canvas.title(room, f"{who}: “{name_of(decision)}” is worth most")
    n = len(decision.q)
    columns = -(-n // ROWS)
    rows = -(-n // columns)
    step, line = (room.width + GAP // 2) // columns, min((room.height - TITLE) // rows, 40)
    for action in range(n):
        x, y = room.x + step * (action // rows), room.y + TITLE + line * (action % rows)
        _draw_value(canvas, decision, action, Box(x, y, step - GAP // 2, line))


def _draw_value(
    canvas: Canvas, decision: Explanation | ForestExplanation, action: int, room: Box
) -> None:
    """Draw the name of an action, its value, and how many trees are for it."""
    values = np.where(decision.is_tried, decision.q, 0.0)
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    digits = _decimals(max(high, -low))
    names = [decision.name(a) for a in range(len(values))]
    left = min(10 * max(map(len, names)) + 8, round(0.5 * room.width))
    right = 9 * max(len(f"{value:.{digits}f}") for value in (low, high)) + 14
    right += VOTES if isinstance(decision, ForestExplanation) else 0
    scale = max(room.width - left - right, 8) / ((high - low) or 1.0)
    begin, end = sorted((-low * scale, (float(values[action]) - low) * scale))
    is_best = action == decision.best
    x, y, thick = room.x + left, room.y + room.height / 2, min(0.72 * room.height, 24.0)
    style: dict[str, Any] = {"va": "center_baseline"}
    style["weight"] = "bold" if is_best else "normal"
    canvas.write(room.x, y, names[action], left - 6, color=BLUE if is_best else INK, **style)
    if decision.is_tried[action]:
        canvas.fill(
            x + begin, y - thick / 2, max(end - begin, 1.5), thick, BLUE if is_best else PALE
        )
        canvas.write(x + end + 6, y, f"{values[action]:.{digits}f}", **style)
    else:
        canvas.write(x + 6, y, "never tried", color=GREY, va="center_baseline", fontsize=9)
    if isinstance(decision, ForestExplanation) and decision.ballots[action]:
        text = f"{decision.ballots[action]} vote{'s' if decision.ballots[action] > 1 else ''}"
        style = {"ha": "right", "va": "center_baseline", "color": GREY}
        canvas.write(room.x + room.width, y, text, fontsize=9, **style)


def _decimals(largest: float) -> int:
    """Return how many decimals give the largest of some values three digits that count.

    >>> _decimals(412.0), _decimals(28.75), _decimals(0.412), _decimals(0.0)
    (0, 1, 3, 0)
    """
    return min(max(2 - math.floor(math.log10(largest)), 0), 6) if largest > 0.0 else 0


def _draw_ending(canvas: Canvas, step: EpisodeStep) -> None:
    """Say what came of the episode, and what was done in it."""
    y = TESTS.y + TITLE + 16
    canvas.write(TESTS.x, y, step.ending, TESTS.width, fontsize=20, weight="bold")
    runs = [(name, len(list(same))) for name, same in itertools.groupby(step.actions)]
    told = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in runs)
    lines = textwrap.wrap(told, 54)
    lines = [*lines[:4], "…", *lines[-4:]] if len(lines) > 9 else lines
    canvas.title(TESTS.below(76), "What it did")
    for i, line in enumerate(lines):
        canvas.write(TESTS.x, TESTS.y + 124 + 25 * i, line, TESTS.width, fontsize=12)
