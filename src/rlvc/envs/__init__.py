"""Environments: the paper's tasks for Gymnasium, and any other from a configuration.

The modules of the paper's tasks are imported when one is made. ``make`` has ``EnvConfig``, and
``optimum`` the optimal values. Modules here import from ``data`` and the layers below it.
"""

from __future__ import annotations

import gymnasium

__all__ = ["ENTRY_POINTS", "register_envs"]

ENTRY_POINTS = {
    "rlvc/Maze-v0": "rlvc.envs.maze:MazeEnv",
    "rlvc/Subway-v0": "rlvc.envs.subway:SubwayEnv",
    "rlvc/Campus-v0": "rlvc.envs.campus.env:CampusEnv",
    "rlvc/Hill-v0": "rlvc.envs.hill.env:HillEnv",
}


def register_envs() -> None:
    """Register the environments with Gymnasium; a second call is a no-op.

    >>> register_envs()
    >>> gymnasium.spec("rlvc/Maze-v0").max_episode_steps
    100
    """
    for name, entry_point in ENTRY_POINTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point, max_episode_steps=100)
