"""The reference tasks as Gymnasium environments; nothing heavy is imported until one is made."""

from __future__ import annotations

import gymnasium

# By what an agent perceives: the part of a picture around it, or a view of the state it is in.
ENTRY_POINTS = {
    "rlvc/Maze-v0": "rlvc.envs.maze:MazeEnv",
    "rlvc/Subway-v0": "rlvc.envs.subway:SubwayEnv",
}
VIEWS_ENTRY_POINTS = {"rlvc/Campus-v0": "rlvc.envs.campus:CampusEnv"}


def register_envs() -> None:
    """Make the environments known to ``gymnasium.make``; a second call changes nothing.

    >>> register_envs()
    >>> gymnasium.spec("rlvc/Maze-v0").max_episode_steps
    100
    """
    for name, entry_point in (ENTRY_POINTS | VIEWS_ENTRY_POINTS).items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point, max_episode_steps=100)
