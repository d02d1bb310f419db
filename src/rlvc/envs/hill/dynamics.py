"""The dynamics of a car on a hill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from rlvc._core.arrays import Bools, Floats, frozen
from rlvc._core.params import Checked, param

ACTION_NAMES: Final = ("left", "right")
DIRECTIONS: Final[Floats] = frozen(np.array([-1.0, 1.0]))
FIRST: Final = -1.0
"""The last position on the left that the car may reach."""
TOP: Final = 1.0
"""The position of the top, on the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hill(Checked):
    """A car that rides without friction, its engine too weak to climb straight out of the valley.

    A state is (p, s): the position, from -1 to the top at 1, and the velocity along it. The
    methods take many cars at once.

    >>> states, reward, terminated = HILL.move([[0.9, 2.0], [0.9, 2.9], [-0.5, 0.0]], [1, 1, 0])
    >>> states.round(3).tolist()
    [[1.116, 2.313], [1.206, 3.213], [-0.52, -0.4]]
    >>> reward.tolist(), terminated.tolist()
    ([100.0, 0.0, 0.0], [True, True, False])
    """

    thrust: float = param(4.0, "force of the engine to either side", above=0)
    mass: float = param(1.0, "mass of the car (M)", above=0)
    gravity: float = param(9.81, "acceleration due to gravity (g)", above=0)
    step: float = param(0.1, "time from one decision to the next (h)", above=0)
    max_speed: float = param(3.0, "speed above which the car is destroyed", above=0)
    reward: float = param(100.0, "for arriving at the top in one piece; other steps earn 0")
    gamma: float = param(0.75, "discount factor (γ) of the task", low=0, below=1)

    def height(self, positions: ArrayLike) -> Floats:
        """Return the height of the hill, H(p), in the shape of the positions.

        >>> HILL.height([-1.0, -0.5, 0.0, 1.0]).round(3).tolist()
        [0.0, -0.25, 0.0, 0.408]
        """
        p = np.asarray(positions, dtype=np.float64)
        return np.where(p < 0, p * p + p, p / np.sqrt(1 + 5 * p * p))

    def slope(self, positions: ArrayLike) -> Floats:
        """Return the first derivative of the height, H'(p), in the shape of the positions.

        >>> HILL.slope([-1.0, -0.5, 0.0, 1.0]).round(3).tolist()
        [-1.0, 0.0, 1.0, 0.068]
        """
        p = np.asarray(positions, dtype=np.float64)
        return np.where(p < 0, 2 * p + 1, (1 + 5 * p * p) ** -1.5)

    def move(self, states: ArrayLike, actions: ArrayLike) -> tuple[Floats, Floats, Bools]:
        """Let each of n cars thrust once to the left or to the right.

        Args:
            states: Shape (n, 2), of (p, s).
            actions: Shape (n,), in the order of ``ACTION_NAMES``.

        Returns:
            The new states, shape (n, 2); the rewards, shape (n,), for a car that is at the top
            and not too fast; and whether each is at the top, beyond the left end or too fast,
            shape (n,).
        """
        start = np.asarray(states, dtype=np.float64)
        p, s = start[:, 0], start[:, 1]
        slope = self.slope(p)
        steep = 1 + slope * slope
        force = self.thrust * DIRECTIONS[np.asarray(actions)]
        acceleration = force / (self.mass * np.sqrt(steep)) - self.gravity * slope / steep
        h = self.step
        end = np.stack([p + h * s + h * h * acceleration / 2, s + h * acceleration], axis=1)
        at_top = end[:, 0] >= TOP
        too_fast = np.abs(end[:, 1]) > self.max_speed
        reward = np.where(at_top & ~too_fast, self.reward, 0.0)
        return end, reward, at_top | too_fast | (end[:, 0] < FIRST)

    def random_starts(self, n: int, rng: np.random.Generator, at_rest: bool = False) -> Floats:
        """Return ``n`` uniformly random states, shape (n, 2).

        Args:
            n: How many.
            rng: Source of the states. The places do not depend on ``at_rest``.
            at_rest: Whether all velocities are 0; else they are uniform up to the limit.

        >>> HILL.random_starts(2, np.random.default_rng(0), at_rest=True).round(2).tolist()
        [[0.27, 0.0], [-0.92, 0.0]]
        """
        states = rng.uniform((FIRST, -self.max_speed), (TOP, self.max_speed), (n, 2))
        if at_rest:
            states[:, 1] = 0.0
        return states


HILL: Final = Hill()
