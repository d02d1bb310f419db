"""Tasks: the maze, the subway, the campus and the hill of the paper, and custom ones.

A task implements the protocol ``rlvc.runs.Task``, which a ``Run`` executes; the paper's tasks share
``PaperTask``. Tasks are also found by name, without an import, in the registry
``rlvc.runs.task.tasks``. Modules here may import from ``report`` and the layers below it.
"""

from rlvc.tasks.campus.task import CampusEvaluation, CampusTask
from rlvc.tasks.custom.sources import is_data, read_data
from rlvc.tasks.custom.task import CustomEvaluation, CustomTask
from rlvc.tasks.hill.task import HillEvaluation, HillTask
from rlvc.tasks.maze import MazeTask
from rlvc.tasks.navigation.task import NavigationEvaluation, NavigationTask
from rlvc.tasks.neighbours import vote
from rlvc.tasks.paper_task import PaperTask
from rlvc.tasks.subway import SubwayTask

__all__ = [
    "CampusEvaluation",
    "CampusTask",
    "CustomEvaluation",
    "CustomTask",
    "HillEvaluation",
    "HillTask",
    "MazeTask",
    "NavigationEvaluation",
    "NavigationTask",
    "PaperTask",
    "SubwayTask",
    "is_data",
    "read_data",
    "vote",
]
