"""The maze of the paper: a tapestry of pictures, walls of glass and two exits."""

from __future__ import annotations

from pathlib import Path

from rlvc.envs.photos.images import maze_picture
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import MAZE


class MazeEnv(PictureEnv):
    """Find the way out of a maze whose floor is a tapestry and whose walls are of glass.

    ## Description
    An agent walks over a picture of 1280×1280 pixels, a montage of 10×10 tiles, and perceives the
    window around it. Three walls of glass, (384, 0)-(384, 768), (768, 512)-(768, 1280) and
    (768, 512)-(1088, 512), stop it and cannot be seen. It has to learn from what it sees which
    way leads to the nearer of two exits.

    ## Action Space
    `Discrete(4)`: 0 up, 1 right, 2 down, 3 left. A move is 128 pixels long, and Gaussian noise of
    standard deviation 25.6 alters both coordinates. A move that would cross or touch a wall, or
    leave the picture, leaves the agent exactly where it is.

    ## Observation Space
    `Box(0, 255, (230, 230, 3), uint8)`: the window around the agent, RGB, at the nearest whole
    pixel. Beyond its borders the picture continues by reflection. `info["position"]` is (x, y).

    ## Rewards
    +100 for entering an exit, else 0. The discount factor of the task is 0.9.

    ## Starting State
    A uniformly random position outside the exits, or `options={"position": (x, y)}` of `reset`.

    ## Episode End
    Terminated in an exit: the square (1152, 1152)-(1280, 1280) or (0, 0)-(154, 154). Truncated
    after 100 steps, if made with `gymnasium.make`.

    ## Arguments
    `pictures`: `"photos"`, `"coil"`, or a path to an image or a folder of images; see
    `rlvc.envs.photos.images.maze_picture`. `render_mode`: None or `"rgb_array"`.

    >>> import gymnasium, rlvc.envs
    >>> rlvc.envs.register_envs()
    >>> env = gymnasium.make("rlvc/Maze-v0")
    >>> percept, info = env.reset(seed=0, options={"position": (640, 1000)})
    >>> percept.shape, info["position"].tolist()
    ((230, 230, 3), [640.0, 1000.0])
    """

    def __init__(self, pictures: str | Path = "photos", render_mode: str | None = None) -> None:
        super().__init__(MAZE, maze_picture(pictures), render_mode)
