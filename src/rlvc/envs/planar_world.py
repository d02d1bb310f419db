"""The dynamics of an agent that walks over a picture among walls of glass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from rlvc._core.arrays import Bools, Floats, frozen
from rlvc._core.params import check, param

Point = tuple[float, float]

ACTION_NAMES: Final = ("up", "right", "down", "left")
MOVES: Final[Floats] = frozen(np.array([(0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanarWorld:
    """A rectangle with walls and exits, and how agents move in it.

    Lengths are in pixels, and y grows downward. The methods take many agents at once.

    >>> world = PlanarWorld(width=100, height=50, step=10, noise=0, window=8,
    ...               walls=(((50, 0), (50, 40)),), exits=((90, 0, 100, 10),))
    >>> world.blocked([[45, 20], [45, 45]], [[55, 20], [55, 45]])
    array([ True, False])
    >>> positions, exited = world.move([[45, 20], [85, 5]], [1, 1], np.random.default_rng(0))
    >>> positions.tolist(), exited.tolist()
    ([[45.0, 20.0], [95.0, 5.0]], [False, True])
    """

    width: int
    """Width of the picture."""
    height: int
    """Height of the picture."""
    step: float
    """Length of a move."""
    noise: float
    """Standard deviation of the Gaussian noise on both coordinates of a move; at least 0."""
    walls: tuple[tuple[Point, Point], ...]
    """Segments ((x0, y0), (x1, y1)) that no move may cross or touch."""
    exits: tuple[tuple[float, float, float, float], ...]
    """Rectangles (x0, y0, x1, y1), edges included, that end an episode."""
    window: int
    """Side of the square that the agent perceives."""
    reward: float = param(100.0, "for entering an exit; every other move earns 0")
    gamma: float = param(0.9, "discount factor (γ)", low=0, below=1)

    def __post_init__(self) -> None:
        for name in ("width", "height", "step", "window"):
            if not (value := getattr(self, name)) > 0:
                raise ValueError(f"{name} of PlanarWorld must be above 0; got {value}.")
        if not self.noise >= 0:
            raise ValueError(f"noise of PlanarWorld must be at least 0; got {self.noise}.")
        check(self)

    def inside(self, positions: ArrayLike) -> Bools:
        """Return for each (n, 2) position whether it is in the picture, edges included."""
        x, y = np.asarray(positions, dtype=np.float64).T
        return np.asarray((x >= 0) & (x <= self.width) & (y >= 0) & (y <= self.height))

    def in_exit(self, positions: ArrayLike) -> Bools:
        """Return for each (n, 2) position whether it is in an exit, edges included."""
        x, y = np.asarray(positions, dtype=np.float64).T
        found = np.zeros(x.shape, dtype=np.bool_)
        for x0, y0, x1, y1 in self.exits:
            found |= (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
        return found

    def blocked(self, start: ArrayLike, end: ArrayLike) -> Bools:
        """Return for each move from (n, 2) to (n, 2) whether a wall or the border forbids it."""
        start_x, start_y = np.asarray(start, dtype=np.float64).T
        end_x, end_y = np.asarray(end, dtype=np.float64).T
        left, right = np.minimum(start_x, end_x), np.maximum(start_x, end_x)
        top, bottom = np.minimum(start_y, end_y), np.maximum(start_y, end_y)
        found = ~self.inside(end)
        for (x0, y0), (x1, y1) in self.walls:
            # Two segments meet if and only if their boxes do and neither segment has both ends
            # of the other strictly on one side of its line.
            meets = (left <= max(x0, x1)) & (right >= min(x0, x1))
            meets &= (top <= max(y0, y1)) & (bottom >= min(y0, y1))
            near = np.flatnonzero(meets)  # few moves come near a wall
            ax, ay, bx, by = start_x[near], start_y[near], end_x[near], end_y[near]
            side_a = np.sign((x1 - x0) * (ay - y0) - (y1 - y0) * (ax - x0))
            side_b = np.sign((x1 - x0) * (by - y0) - (y1 - y0) * (bx - x0))
            side_0 = np.sign((bx - ax) * (y0 - ay) - (by - ay) * (x0 - ax))
            side_1 = np.sign((bx - ax) * (y1 - ay) - (by - ay) * (x1 - ax))
            found[near] |= (side_a * side_b <= 0) & (side_0 * side_1 <= 0)
        return found

    def move(
        self, positions: ArrayLike, actions: ArrayLike, rng: np.random.Generator
    ) -> tuple[Floats, Bools]:
        """Move each of n agents once.

        An agent whose move is blocked stays exactly where it is. The noise is drawn for all,
        so the stream of ``rng`` does not depend on the walls.

        Args:
            positions: Shape (n, 2).
            actions: Shape (n,), in the order of ``ACTION_NAMES``.
            rng: Source of the noise.

        Returns:
            The new positions, shape (n, 2), and whether each is in an exit, shape (n,).
        """
        start = np.asarray(positions, dtype=np.float64)
        noise = rng.normal(0.0, self.noise, size=start.shape)
        target = start + self.step * MOVES[np.asarray(actions)] + noise
        end = np.where(self.blocked(start, target)[:, None], start, target)
        return end, self.in_exit(end)

    def random_starts(self, n: int, rng: np.random.Generator) -> Floats:
        """Return ``n`` uniformly random positions outside the exits, shape (n, 2).

        >>> MAZE.in_exit(MAZE.random_starts(1000, np.random.default_rng(0))).any()
        np.False_
        """
        positions = np.empty((n, 2))
        missing = np.arange(n)
        while len(missing):
            positions[missing] = rng.uniform(0.0, (self.width, self.height), (len(missing), 2))
            missing = missing[self.in_exit(positions[missing])]
        return positions


MAZE: Final = PlanarWorld(
    width=1280,
    height=1280,
    step=128.0,
    noise=25.6,
    walls=(((384, 0), (384, 768)), ((768, 512), (768, 1280)), ((768, 512), (1088, 512))),
    exits=((1152, 1152, 1280, 1280), (0, 0, 154, 154)),
    window=230,
)
SUBWAY: Final = PlanarWorld(
    width=3041,
    height=384,
    step=100.0,
    noise=20.0,
    walls=(
        ((600, 0), (600, 250)),
        ((1200, 134), (1200, 384)),
        ((1800, 0), (1800, 250)),
        ((2400, 134), (2400, 384)),
    ),
    exits=((0, 304, 80, 384), (2961, 0, 3041, 80)),
    window=224,
)
