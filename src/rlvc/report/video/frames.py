"""One frame of a video: the percept, the tests that decided, and the actions."""

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
from rlvc.policies.explanation import Explanation, ForestExplanation
from rlvc.policies.forest import AnyPolicy
from rlvc.report.figures.explanation import NumberedTest
from rlvc.report.figures.patches import FADED, picture_of
from rlvc.report.figures.style import BLUE, GREY, INK, LIGHT, ORANGE, PALE, house_style
from rlvc.report.video.cameras import GAP, draw_cameras
from rlvc.report.video.canvas import TITLE, Box, Canvas

DIM: Final = "#9CA3AF"

# Parts of the canvas, in pixels.
LEFT: Final = Box(32, 84, 580, 608)
TESTS: Final = Box(652, 84, 596, 336)
VALUES: Final = Box(652, 436, 596, 256)
RIGHT: Final = VALUES.x + VALUES.width
PATCH: Final = 58  # height of the patch of a feature
VOTES: Final = 68  # width of the number of votes

COLUMNS: Final = 4  # of features
ROWS: Final = 9  # of actions, in each column
NARROW: Final = {1: 280, 2: 420}  # smallest widths of one and of two columns of actions

Decision = Explanation | ForestExplanation


@dataclass(frozen=True, slots=True)
class EpisodeStep:
    """One step of an episode, or its end.

    Attributes:
        images: The image of each camera.
        decision: The explanation of the next action; None at the end.
        title: The task and the number of the episode.
        actions: The names of the actions so far.
        total: The sum of the rewards so far.
        reward: The last reward.
        ending: How the episode ended, at the end.
        world: The rendering of the environment, if it differs from what the agent perceives.
    """

    images: Mapping[str, Image]
    decision: Decision | None
    title: str
    actions: Sequence[str] = ()
    total: float = 0.0
    reward: float = 0.0
    ending: str = ""
    world: Image | None = None


def draw_frame(policy: AnyPolicy, step: EpisodeStep) -> NDArray[np.uint8]:
    """Draw one frame of a video, (720, 1280, 3) RGB."""
    with house_style():
        canvas, values = Canvas(), VALUES
        tests = _tests(step.decision)
        _draw_header(canvas, step)
        below = draw_cameras(canvas, LEFT, policy, step.images, tests)
        if step.world is not None:
            values = _draw_world(canvas, step.world, below, policy.n_actions)
        if step.decision is None:
            _draw_ending(canvas, step)
        else:
            _draw_tests(canvas, policy, step.decision, tests)
            _draw_values(canvas, step.decision, values)
        return canvas.pixels()


def _draw_header(canvas: Canvas, step: EpisodeStep) -> None:
    heading = f"Step {len(step.actions) + 1}" if step.decision else "The end"
    canvas.write(LEFT.x, 48, heading, 150, fontsize=20, weight="bold")
    canvas.write(LEFT.x + 170, 48, step.title, 600, fontsize=12, color=GREY)
    gain = f" ({format_number(step.reward, sign='+')})" if step.reward else ""
    text = f"reward so far {format_number(step.total)}{gain}"
    canvas.write(RIGHT, 48, text, fontsize=14, ha="right", color=BLUE if gain else INK)
    canvas.fill(LEFT.x, 64, RIGHT - LEFT.x, 1, LIGHT)


def format_number(value: float, sign: str = "") -> str:
    """Return a number with at most two decimals, or one digit if it is closer to 0.

    >>> format_number(100.0), format_number(0.961), format_number(-0.004), format_number(3.5, "+")
    ('100', '0.96', '-0.004', '+3.5')
    """
    if 0.0 < abs(value) < 0.01:
        return f"{value:{sign}.1g}"
    return f"{value:{sign}.2f}".rstrip("0").rstrip(".")


def _draw_world(canvas: Canvas, world: Image, below: Box, n_actions: int) -> Box:
    """Draw the world where it is largest, below the cameras or beside the values of the actions.

    Returns the box that is left for the values.
    """
    columns = min(-(-n_actions // ROWS), max(NARROW))
    beside = VALUES._replace(width=VALUES.width - GAP - NARROW[columns])
    box, right = (area.below(TITLE).fit(world.shape) for area in (below, beside))
    values = VALUES
    if right.width >= box.width:
        values = VALUES._replace(width=VALUES.width - GAP - right.width)
        box = right._replace(x=RIGHT - right.width)
    canvas.title(box._replace(y=box.y - TITLE), "The world")
    canvas.paste(world, box)
    return values


# The tests ---------------------------------------------------------------------------------------


def _tests(decision: Decision | None) -> list[NumberedTest]:
    """Return the tests to show."""
    if isinstance(decision, Explanation):
        return [NumberedTest(*one) for one in decision.shown()]
    shown = decision.shown() if decision else []
    return [NumberedTest(i, one.test, f", {one.gain:+.2f}") for i, (_, one) in enumerate(shown, 1)]


def _draw_tests(
    canvas: Canvas, policy: AnyPolicy, decision: Decision, tests: Sequence[NumberedTest]
) -> None:
    """Draw the features that were tested, with their numbers and whether they were seen."""
    if isinstance(decision, ForestExplanation):
        title, n = "The most decisive tests, with their gain", len(decision.decisive)
    else:
        title, n = "The tests, in order", len(decision.tests)
    canvas.title(TESTS, title)
    if n > len(tests):
        text = f"{len(tests)} of {n} are shown"
        canvas.write(RIGHT, TESTS.y + TITLE - 10, text, ha="right", color=GREY, fontsize=9)
    if not tests:
        text = "no test: all percepts are one class"
        canvas.write(TESTS.x, TESTS.y + 2 * TITLE, text, color=GREY)
    width, height = TESTS.width // COLUMNS, (TESTS.height - TITLE) // 3
    for cell, one in enumerate(tests):
        x = TESTS.x + width * (cell % COLUMNS)
        y = TESTS.y + TITLE + height * (cell // COLUMNS)
        _draw_test(canvas, policy, one, Box(x, y + 4, width - 20, PATCH))


def _draw_test(canvas: Canvas, policy: AnyPolicy, numbered: NumberedTest, area: Box) -> None:
    """Draw the patch of a feature, its number, and whether it was seen."""
    number, test, note = numbered
    picture = picture_of(policy, test.number, test.seen)
    several = test.feature if isinstance(test.feature, AtLeast) else None
    scale = min(area.width / picture.shape[1], area.height / picture.shape[0])
    width, height = round(picture.shape[1] * scale), round(picture.shape[0] * scale)
    box = Box(area.x, area.y + (area.height - height) // 2, width, height)
    canvas.paste(picture, box, 0.0 if several or test.exhibited else FADED)
    canvas.frame(box, ORANGE if test.exhibited else LIGHT)
    canvas.tag(box.x + 2, box.y + 2, number, ORANGE if test.exhibited else DIM)
    style = {"color": ORANGE, "weight": "bold"} if test.exhibited else {"color": GREY}
    text = f"{'seen' if test.exhibited else 'not seen'}{note}"
    canvas.write(area.x, area.y + PATCH + 15, text, area.width, fontsize=9.5, **style)
    if several:
        text = f"{len(test.seen)} of {len(several.parts)}, needs {several.least}"
        canvas.write(area.x, area.y + PATCH + 28, text, area.width, fontsize=8.5, color=GREY)


# The actions -------------------------------------------------------------------------------------


def action_in_words(decision: Decision) -> str:
    """Return the chosen action in words."""
    return f"{'' if decision.action_names else 'action '}{decision.name(decision.best)}"


def _draw_values(canvas: Canvas, decision: Decision, area: Box) -> None:
    """Draw the values of the actions as bars, one below the other."""
    if isinstance(decision, ForestExplanation):
        heading = f"{decision.ballots.sum()} trees vote"
    else:
        heading = f"Class {decision.visual_class}"
    canvas.title(area, f"{heading}: “{action_in_words(decision)}” is worth most")
    n = len(decision.q)
    columns = -(-n // ROWS)
    rows = -(-n // columns)
    step, line = (area.width + GAP // 2) // columns, min((area.height - TITLE) // rows, 40)
    for action in range(n):
        x, y = area.x + step * (action // rows), area.y + TITLE + line * (action % rows)
        _draw_value(canvas, decision, action, Box(x, y, step - GAP // 2, line))


def _draw_value(canvas: Canvas, decision: Decision, action: int, area: Box) -> None:
    """Draw the name of an action, its value, and the number of trees that vote for it."""
    values = np.where(decision.is_tried, decision.q, 0.0)
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    digits = _decimals(max(high, -low))
    names = [decision.name(a) for a in range(len(values))]
    left = min(10 * max(map(len, names)) + 8, round(0.5 * area.width))
    right = 9 * max(len(f"{value:.{digits}f}") for value in (low, high)) + 14
    right += VOTES if isinstance(decision, ForestExplanation) else 0
    scale = max(area.width - left - right, 8) / ((high - low) or 1.0)
    begin, end = sorted((-low * scale, (float(values[action]) - low) * scale))
    is_best = action == decision.best
    x, y, thick = area.x + left, area.y + area.height / 2, min(0.72 * area.height, 24.0)
    style: dict[str, Any] = {"va": "center_baseline", "weight": "bold" if is_best else "normal"}
    canvas.write(area.x, y, names[action], left - 6, color=BLUE if is_best else INK, **style)
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
        canvas.write(area.x + area.width, y, text, fontsize=9, **style)


def _decimals(largest: float) -> int:
    """Return the number of decimals that gives the largest value three significant digits.

    >>> _decimals(412.0), _decimals(28.75), _decimals(0.412), _decimals(0.0)
    (0, 1, 3, 0)
    """
    return min(max(2 - math.floor(math.log10(largest)), 0), 6) if largest > 0.0 else 0


def _draw_ending(canvas: Canvas, step: EpisodeStep) -> None:
    """Write how the episode ended, and the actions in it."""
    y = TESTS.y + TITLE + 16
    canvas.write(TESTS.x, y, step.ending, TESTS.width, fontsize=20, weight="bold")
    runs = [(name, len(list(same))) for name, same in itertools.groupby(step.actions)]
    text = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in runs)
    lines = textwrap.wrap(text, 54)
    lines = [*lines[:4], "…", *lines[-4:]] if len(lines) > 9 else lines
    canvas.title(TESTS.below(76), "The actions")
    for i, line in enumerate(lines):
        canvas.write(TESTS.x, TESTS.y + 124 + 25 * i, line, TESTS.width, fontsize=12)
