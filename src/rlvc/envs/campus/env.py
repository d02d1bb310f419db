"""The campus: the agent has to find a building from photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gymnasium.spaces import Box

from rlvc.data.images import Image
from rlvc.envs.base import TaskEnv
from rlvc.envs.campus.graph_world import ACTION_NAMES, CAMPUS
from rlvc.envs.campus.render import draw_campus
from rlvc.envs.photos.views import campus_views


class CampusEnv(TaskEnv[Image, int]):
    """Find the way over a campus, from spot to spot, to the door of a building.

    ## Description
    There are 11 spots on a grid, and at each the agent looks to the north, east, south or west:
    44 states. Each time it is in a state it perceives one of several photographs that were taken
    there, at random; they differ in direction, tilt, field of view and light. Neighbours on the
    grid are linked, except that no way leads from 1 to 5 and from 2 to 6:

    ```
        8 - 9 - 10 > the building
        |   |   |
    4 - 5 - 6 - 7
    |           |
    0 - 1 - 2 - 3
    ```

    ## Action Space
    `Discrete(3)`: 0 turn left, 1 turn right, 2 forward. Forward goes to the linked spot ahead;
    where there is none, the agent stays. Actions are deterministic.

    ## Observation Space
    `Box(0, 255, (480, 640, 3), uint8)`: a view of the state, RGB; the user's photographs may
    have another size. `info["state"]` is 4 · spot + heading, headings in the order N, E, S, W.

    ## Rewards
    -5 for turning, -10 for going forward, also where the agent stays, and +100 for entering the
    building. The discount factor of the task is 0.8.

    ## Starting State
    A uniformly random state, or `options={"state": number}` of `reset`.

    ## Episode End
    Terminated by going forward at spot 10 facing east, which enters the building; the last
    percept is another view of that state. Truncated after 100 steps, if made with
    `gymnasium.make`.

    ## Arguments
    `pictures`: `"photos"`, `"places"`, or a folder with a sub-folder of photographs per state;
    see `rlvc.envs.photos.views.campus_views`. `views`: `"learn"`, the views to learn from, or
    `"test"`, the others. `views_seed`: the seed of the views and of their division, a whole
    number. `render_mode`: None or `"rgb_array"`.

    >>> import gymnasium, rlvc.envs
    >>> rlvc.envs.register_envs()
    >>> env = gymnasium.make("rlvc/Campus-v0")
    >>> percept, info = env.reset(seed=0, options={"state": 41})
    >>> percept.shape, info["state"]
    ((480, 640, 3), 41)
    >>> env.step(2)[1:3]
    (100.0, True)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 (as Gymnasium's)

    def __init__(
        self,
        pictures: str | Path = "photos",
        views: str = "learn",
        views_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        self.views = campus_views(pictures, views_seed)
        super().__init__(ACTION_NAMES, Box(0, 255, self.views.shape, np.uint8), render_mode)
        self._numbers = self.views.division(views)
        self._percept: Image | None = None

    def percept(self, state: int, /) -> Image:
        """Return one of the views of a state, at random, as a new array."""
        numbers = self._numbers[state]
        self._percept = self.views.image(state, numbers[self.np_random.integers(len(numbers))])
        return self._percept.copy()

    def _checked_start(self, value: object) -> int:
        if isinstance(value, (int, np.integer)) and 0 <= value < CAMPUS.n_states:
            return int(value)
        raise ValueError(
            f"state of {type(self).__name__}.reset must be a whole number from 0 to "
            f"{CAMPUS.n_states - 1}; got {value!r}."
        )

    def _random_start(self) -> int:
        return int(self.np_random.integers(CAMPUS.n_states))

    def _act(self, state: int, action: int) -> tuple[int, float, bool]:
        pair = state, action
        next_state, terminated = CAMPUS.next_state[pair], CAMPUS.terminated[pair]
        return int(next_state), float(CAMPUS.reward[pair]), bool(terminated)

    def _draw(self, state: int | None) -> Image:
        return draw_campus(state, self._percept)
