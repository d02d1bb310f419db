"""The car on the hill, whose position and velocity are shown by two cameras."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Dict
from numpy.typing import ArrayLike

from rlvc._core.arrays import Floats
from rlvc.data.images import Image
from rlvc.envs.base import TaskEnv, as_pair
from rlvc.envs.hill import scene
from rlvc.envs.hill.dynamics import ACTION_NAMES, FIRST, HILL, TOP
from rlvc.envs.hill.render import draw_hill
from rlvc.envs.photos.images import ground_picture


class HillEnv(TaskEnv[dict[str, Image], Floats]):
    """Drive a car with a weak engine to the top of a hill, as fast as possible but not faster.

    ## Description
    A car rides without friction on a hill of height p² + p where p < 0 and p / √(1 + 5p²) where
    p ≥ 0. Its engine cannot climb straight out of the valley: it has to gain speed on the left side
    first. The agent knows neither the position nor the velocity. One camera shows the ground
    underneath, another a velocity gauge, whose parts look the same at any velocity: only their
    distances differ.

    ## Action Space
    `Discrete(2)`: 0 thrust left, 1 thrust right, with a force of 4, for 0.1 seconds. Actions
    are deterministic.

    ## Observation Space
    A `Dict` of two images, RGB: `ground`, `Box(0, 255, (128, 256, 3), uint8)`, a window that
    slides with p over a strip of 1280×128 pixels, and `gauge`, `Box(0, 255, (100, 450, 3),
    uint8)`, the digits -3 to 3 with a cursor below them, 60 pixels for a velocity of 1. Both are
    at the nearest whole pixel. `info["state"]` is (p, s), position and velocity.

    ## Rewards
    +100 for arriving at the top, p ≥ 1, at a speed of at most 3, else 0. The discount factor of
    the task is 0.75.

    ## Starting State
    A uniformly random place -1 ≤ p < 1 with a uniformly random velocity -3 ≤ s < 3, or at rest,
    or `options={"state": (p, s)}` of `reset`.

    ## Episode End
    Terminated at the top, p ≥ 1, beyond the left end, p < -1, or at a speed above 3, which
    destroys the car. Truncated after 100 steps, if made with `gymnasium.make`.

    ## Arguments
    `pictures`: `"photos"`, `"coil"`, `"street"`, or a path to an image or a folder of images; see
    `rlvc.envs.photos.images.ground_picture`. `at_rest`: whether every episode starts with a
    velocity of 0. `render_mode`: None or `"rgb_array"`.

    >>> import gymnasium, rlvc.envs
    >>> rlvc.envs.register_envs()
    >>> env = gymnasium.make("rlvc/Hill-v0")
    >>> percept, info = env.reset(seed=0, options={"state": (0.9, 2)})
    >>> percept["ground"].shape, percept["gauge"].shape, info["state"].tolist()
    ((128, 256, 3), (100, 450, 3), [0.9, 2.0])
    >>> env.step(1)[1:3]
    (100.0, True)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (as Gymnasium's)

    def __init__(
        self, pictures: str | Path = "photos", at_rest: bool = False, render_mode: str | None = None
    ) -> None:
        self.strip = ground_picture(pictures)
        self.at_rest = at_rest
        ground = Box(0, 255, (scene.STRIP[1], scene.WINDOW, 3), np.uint8)
        gauge = Box(0, 255, (scene.GAUGE[1], scene.GAUGE[0], 3), np.uint8)
        super().__init__(ACTION_NAMES, Dict(ground=ground, gauge=gauge), render_mode)

    def percept(self, state: ArrayLike) -> dict[str, Image]:
        """Return the images of both cameras for a car at (p, s), as new arrays.

        Beyond the limits of the hill and of the gauge, the images are those at the limits.
        """
        p, s = self._checked(state)
        return {
            "ground": scene.ground_image(self.strip, int(scene.ground_column(p))),
            "gauge": scene.gauge_image(int(scene.gauge_column(s))),
        }

    def _checked(self, state: ArrayLike) -> Floats:
        pair = as_pair(state)
        if not np.isfinite(pair).all():
            raise ValueError(
                f"state of {type(self).__name__} must be (p, s), two numbers; got {state!r}."
            )
        return pair

    def _checked_start(self, value: ArrayLike) -> Floats:
        state, limit = self._checked(value), HILL.max_speed
        if not (FIRST <= state[0] < TOP and abs(state[1]) <= limit):
            raise ValueError(
                f"state of {type(self).__name__}.reset must be (p, s) with {FIRST:g} <= p < "
                f"{TOP:g} and |s| <= {limit:g}; got {value!r}."
            )
        return state

    def _random_start(self) -> Floats:
        return np.asarray(HILL.random_starts(1, self.np_random, self.at_rest)[0])

    def _act(self, state: Floats, action: int) -> tuple[Floats, float, bool]:
        states, reward, terminated = HILL.move(state[None], [action])
        return states[0], float(reward[0]), bool(terminated[0])

    def _draw(self, state: Floats | None) -> Image:
        return draw_hill(self.strip, state)
