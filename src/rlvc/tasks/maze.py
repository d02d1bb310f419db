"""The maze: walk over a carpet of photographs to an exit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlvc.envs.planar_world import MAZE
from rlvc.tasks.navigation.task import NavigationTask


@dataclass(frozen=True, kw_only=True)
class MazeTask(NavigationTask):
    """The paper's maze.

    >>> MazeTask().base_learner().gamma
    0.9
    """

    name = "maze"
    lead = (
        "An agent walks over a carpet of photographs among walls of glass, sees only the window "
        "around it, and looks for an exit."
    )
    env_id = "rlvc/Maze-v0"
    world = MAZE
    gamma = MAZE.gamma
    paper: ClassVar = {"classes": 205, "selected": 200, "distinct": 2298, "stages": 84}
