"""The subway: a long strip of pictures, walls of glass and an exit at either end."""

from __future__ import annotations

from pathlib import Path

from rlvc.envs.photos.images import strip_picture
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import SUBWAY


class SubwayEnv(PictureEnv):
    """Leave a long corridor, around walls of glass, by the exit at either end.

    ## Description
    An agent walks over a strip of 3041×384 pixels and perceives the window around it. Four
    walls of glass, (600, 0)-(600, 250), (1200, 134)-(1200, 384), (1800, 0)-(1800, 250) and
    (2400, 134)-(2400, 384), leave a gap below and above in turn, and cannot be seen.

    ## Action Space
    `Discrete(4)`: 0 up, 1 right, 2 down, 3 left. A move is 100 pixels long, and Gaussian noise of
    standard deviation 20 alters both coordinates. A move that would cross or touch a wall, or
    leave the picture, leaves the agent exactly where it is.

    ## Observation Space
    `Box(0, 255, (224, 224, 3), uint8)`: the window around the agent, RGB, at the nearest whole
    pixel. Beyond its borders the picture continues by reflection. `info["position"]` is (x, y).

    ## Rewards
    +100 for entering an exit, else 0. The discount factor of the task is 0.9.

    ## Starting State
    A uniformly random position outside the exits, or `options={"position": (x, y)}` of `reset`.

    ## Episode End
    Terminated in an exit: the square (0, 304)-(80, 384) or (2961, 0)-(3041, 80). Truncated after
    100 steps, if made with `gymnasium.make`.

    ## Arguments
    `pictures`: `"photos"`, `"street"`, or a path to an image or a folder of images; see
    `rlvc.envs.photos.images.strip_picture`. `render_mode`: None or `"rgb_array"`.

    >>> import gymnasium, rlvc.envs
    >>> rlvc.envs.register_envs()
    >>> env = gymnasium.make("rlvc/Subway-v0")
    >>> percept, info = env.reset(seed=0, options={"position": (300, 200)})
    >>> percept.shape, info["position"].tolist()
    ((224, 224, 3), [300.0, 200.0])
    """

    def __init__(self, pictures: str | Path = "photos", render_mode: str | None = None) -> None:
        super().__init__(SUBWAY, strip_picture(pictures, SUBWAY.width, SUBWAY.height), render_mode)
