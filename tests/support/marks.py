"""Pictures of two marks whose distance alone tells which action is right."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc import Interactions

SIDE = 128
RED, BLUE, GREEN = (255, 0, 0), (0, 0, 255), (0, 220, 0)
DISTANCES = (20, 36, 52, 68)  # every second one asks for action 1


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A picture of two marks on a plain ground."""

    picture: NDArray[np.uint8]
    middle: tuple[float, float]
    right: int


def draw(rng: np.random.Generator, kind: int, colours: Any = (RED, BLUE)) -> Drawn:
    """Draw two marks anywhere; only how far apart they are tells the kind."""
    distance, low, high = DISTANCES[kind], 22, SIDE - 22
    while True:
        x, y = rng.integers(low, high, 2).tolist()
        angle = rng.uniform(0.0, 2.0 * np.pi)
        u, v = round(x + distance * np.cos(angle)), round(y + distance * np.sin(angle))
        if low <= u < high and low <= v < high:
            break
    picture = np.full((SIDE, SIDE, 3), 128, np.uint8)
    for (column, line), colour in zip(((x, y), (u, v)), colours, strict=True):
        picture[line - 3 : line + 4, column - 3 : column + 4] = colour
    return Drawn(picture, ((x + u) / 2, (y + v) / 2), kind % 2)


def draw_all(seed: int, n: int = 15, colours: Any = (RED, BLUE)) -> list[Drawn]:
    rng = np.random.default_rng(seed)
    return [draw(rng, kind, colours) for kind in range(len(DISTANCES)) for _ in range(n)]


def act(percepts: list[Any], right: list[int], n: int = 6) -> Interactions:
    """Return one-step episodes in which each action is tried n times on each percept."""
    place = np.tile(np.arange(len(percepts)), 2 * n)
    action = np.repeat([0, 1], n * len(percepts))
    shown = [percepts[i] for i in place]
    return Interactions.from_arrays(
        shown, action, np.asarray(right)[place] == action, np.ones(len(place), np.bool_),
        next_observations=shown, n_actions=2, action_names=("wait", "go"),
    )  # fmt: skip
