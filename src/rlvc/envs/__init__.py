"""The reference tasks as Gymnasium environments; nothing heavy is imported until one is made."""

from __future__ import annotations

import gymnasium

ENTRY_POINTS = {
    "rlvc/Maze-v0": "rlvc.envs.maze:MazeEnv",
    "rlvc/Subway-v0": "rlvc.envs.subway:SubwayEnv",
    "rlvc/Campus-v0": "rlvc.envs.campus.env:CampusEnv",
    "rlvc/Hill-v0": "rlvc.envs.hill.env:HillEnv",
}


def register_envs() -> None:
    """Make the environments known to ``gymnasium.make``; a second call changes nothing.

    >>> register_envs()
    >>> gymnasium.spec("rlvc/Maze-v0").max_episode_steps
    100
    """
    for name, entry_point in ENTRY_POINTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point, max_episode_steps=100)
