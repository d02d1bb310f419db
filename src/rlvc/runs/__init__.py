"""Runs: what all tasks have in common, from collecting interactions to the folder of results.

A ``Run`` executes a ``Task``: it collects, extracts, learns, grows a forest and evaluates.
``Callback`` objects follow it: ``Curves``, ``LiveSnapshots`` and ``Interrupt`` are some. A
``Checkpoint`` saves finished work, a ``ResourceEstimate`` tells beforehand what a run needs, and
``write_run`` writes its results. Tasks themselves are in ``rlvc.tasks``. Modules here may import
from ``distributed`` and the layers below it.
"""

from rlvc.runs.callbacks import Callback, CallbackList, PhaseTimer
from rlvc.runs.checkpoint import Checkpoint
from rlvc.runs.config import describe_parameters, make_learner
from rlvc.runs.curves import Curves, describe_stage
from rlvc.runs.direct_perception import TabularPolicy
from rlvc.runs.examples import Examples
from rlvc.runs.folder import write_run
from rlvc.runs.forest import GrownForest, forest_values
from rlvc.runs.interrupt import Interrupt, interruptible
from rlvc.runs.live import LiveSnapshots
from rlvc.runs.resources import ResourceEstimate, estimate_collection, estimate_learning
from rlvc.runs.run import Outcome, Run
from rlvc.runs.summary import Summary, SummaryTable
from rlvc.runs.task import Task, TaskEvaluation, evaluate_policy, task_of, tasks

__all__ = [
    "Callback",
    "CallbackList",
    "Checkpoint",
    "Curves",
    "Examples",
    "GrownForest",
    "Interrupt",
    "LiveSnapshots",
    "Outcome",
    "PhaseTimer",
    "ResourceEstimate",
    "Run",
    "Summary",
    "SummaryTable",
    "TabularPolicy",
    "Task",
    "TaskEvaluation",
    "describe_parameters",
    "describe_stage",
    "estimate_collection",
    "estimate_learning",
    "evaluate_policy",
    "forest_values",
    "interruptible",
    "make_learner",
    "task_of",
    "tasks",
    "write_run",
]
