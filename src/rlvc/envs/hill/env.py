"""The car on the hill, whose position and velocity are shown by two cameras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import ArrayLike

from rlvc._core.arrays import Floats
from rlvc.envs.checks import (
    check_options,
    check_render_mode,
    check_step,
    warn_of_no_render_mode,
)
from rlvc.envs.hill.dynamics import ACTION_NAMES, FIRST, HILL, TOP
from rlvc.envs.hill.render import draw_hill
from rlvc.envs.hill.scene import (
    GAUGE,
    STRIP,
    WINDOW,
    gauge_column,
    gauge_image,
    ground_column,
    ground_image,
)
from rlvc.envs.photos.images import Image, ground_picture


class HillEnv(gymnasium.Env[dict[str, Any], np.int64]):
    """Drive a car with a weak engine to the top of a hill, as fast as possible but not faster.

    ## Description
    A car rides without friction on a hill of height p² + p where p < 0 and p / √(1 + 5p²) where
    p ≥ 0. Its engine cannot climb straight out of the valley: it has to gain speed on the left side
    first. The agent knows neither the position nor the velocity. One camera shows the ground
    underneath, another a velocity gauge, whose parts look the same at any velocity: only their
    distances differ.

    ## Action Space
    `Discrete(2)`: 0 thrust left, 1 thrust right, with a force of 4, for 0.1 seconds. What an
    action does is certain.

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

    metadata = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        pictures: str | Path = "photos",
        at_rest: bool = False,
        render_mode: str | None = None,
    ) -> None:
        check_render_mode(self, render_mode)
        self.hill = HILL
        self.strip = ground_picture(pictures)
        self.at_rest = at_rest
        self.render_mode = render_mode
        self.action_names = ACTION_NAMES
        self.action_space = Discrete(len(ACTION_NAMES))
        self.observation_space = Dict(
            ground=Box(0, 255, (STRIP[1], WINDOW, 3), np.uint8),
            gauge=Box(0, 255, (GAUGE[1], GAUGE[0], 3), np.uint8),
        )
        self._state: Floats | None = None

    def percept(self, state: ArrayLike) -> dict[str, Image]:
        """Return the images of both cameras for a car at (p, s), as new arrays.

        Beyond the limits of the hill and of the gauge, the images are those at the limits.
        """
        p, s = self._pair(state, "percept")
        return {
            "ground": ground_image(self.strip, int(ground_column(p))),
            "gauge": gauge_image(int(gauge_column(s))),
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Image], dict[str, Any]]:
        """Start an episode in a random state, or in ``options["state"]``, a (p, s)."""
        super().reset(seed=seed)
        check_options(options, "state")
        if options and "state" in options:
            state = self._pair(options["state"], "reset")
            if not (FIRST <= state[0] < TOP and abs(state[1]) <= self.hill.max_speed):
                raise ValueError(
                    f"state of {type(self).__name__}.reset must be (p, s) with {FIRST:g} <= p < "
                    f"{TOP:g} and |s| <= {self.hill.max_speed:g}; got {options['state']!r}."
                )
        else:
            state = self.hill.random_starts(1, self.np_random, self.at_rest)[0]
        self._state = state
        return self.percept(state), {"state": state.copy()}

    def step(
        self, action: np.int64 | int
    ) -> tuple[dict[str, Image], float, bool, bool, dict[str, Any]]:
        """Thrust once: 0 left, 1 right."""
        check_step(self, action, has_begun=self._state is not None)
        assert self._state is not None
        states, reward, terminated = self.hill.move(self._state[None], np.array([action]))
        self._state = states[0]
        info = {"state": self._state.copy()}
        return self.percept(self._state), float(reward[0]), bool(terminated[0]), False, info

    def render(self) -> Image | None:
        """Return a drawing of the hill and the car, above what the cameras show, or None."""
        if self.render_mode is None:
            warn_of_no_render_mode()
            return None
        return draw_hill(self.hill, self.strip, self._state)

    def _pair(self, state: ArrayLike, method: str) -> Floats:
        try:
            pair = np.array(state, dtype=np.float64)
        except (TypeError, ValueError):
            pair = np.empty(0)
        if pair.shape != (2,) or not np.isfinite(pair).all():
            raise ValueError(
                f"state of {type(self).__name__}.{method} must be (p, s), two numbers; "
                f"got {state!r}."
            )
        return pair
