"""The subway: walk along a strip of photographs to an exit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlvc.envs.planar_world import SUBWAY
from rlvc.tasks.navigation.task import NavigationTask


@dataclass(frozen=True, kw_only=True)
class SubwayTask(NavigationTask):
    """The paper's subway station, a long and narrow maze."""

    name = "subway"
    lead = (
        "An agent walks along a strip of photographs among walls of glass, sees only the window "
        "around it, and looks for an exit."
    )
    env_id = "rlvc/Subway-v0"
    world = SUBWAY
    gamma = SUBWAY.gamma
    paper: ClassVar = {"classes": 149, "selected": 144, "distinct": 3739, "stages": 101}
