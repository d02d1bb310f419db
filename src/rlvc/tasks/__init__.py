"""Tasks: the maze, the subway, the campus and the hill of the paper, and custom ones.

A task implements the protocol ``rlvc.runs.Task``, and a ``Run`` executes it; the paper's tasks
share ``PaperTask``. The registry ``rlvc.runs.tasks`` loads tasks by name. Modules here may import
from ``report`` and the layers below it.
"""

from rlvc.tasks.campus.metrics import vote
from rlvc.tasks.campus.task import CampusEvaluation, CampusOutcome, CampusTask
from rlvc.tasks.custom.sources import is_data, read_data
from rlvc.tasks.custom.task import CustomEvaluation, CustomOutcome, CustomTask
from rlvc.tasks.hill.task import HillEvaluation, HillOutcome, HillTask
from rlvc.tasks.navigation.metrics import Grid, grid_over, measure, walk
from rlvc.tasks.navigation.task import (
    MazeTask,
    NavigationEvaluation,
    NavigationOutcome,
    NavigationTask,
    SubwayTask,
)
from rlvc.tasks.paper_task import PaperTask

__all__ = [
    "CampusEvaluation",
    "CampusOutcome",
    "CampusTask",
    "CustomEvaluation",
    "CustomOutcome",
    "CustomTask",
    "Grid",
    "HillEvaluation",
    "HillOutcome",
    "HillTask",
    "MazeTask",
    "NavigationEvaluation",
    "NavigationOutcome",
    "NavigationTask",
    "PaperTask",
    "SubwayTask",
    "grid_over",
    "is_data",
    "measure",
    "read_data",
    "vote",
    "walk",
]
