"""The commands about tasks of the paper and parameters: run, parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rlvc.cli.command import argument, option, with_options
from rlvc.cli.options import RunOptions
from rlvc.cli.session import choose_folder, execute_run


@dataclass(frozen=True, kw_only=True)
class PaperTaskOptions(RunOptions):
    """The options of ``rlvc run``."""

    task: str = argument("The task: maze, subway, campus or hill.")
    pictures: str = option(
        "What the world looks like: photos (in every installation); street (subway, hill) or "
        "places (campus), from `rlvc data get` or the folder RLVC_DATA; coil (maze, hill) from "
        "RLVC_DATA; or an image file or folder of yours.",
        default="photos",
    )
    interactions: int = option("How many random interactions to learn from.", default=10_000, min=1)
    episodes: int | None = option(
        "Episodes to measure with, on the maze and the subway; trials on the hill.",
        min=1,
        show_default="1000, on the hill 10000",
    )


@with_options
def run(options: PaperTaskOptions) -> None:
    """Learn a task of the paper, measure the policy, and draw figures.

    The folder gets result.json (all numbers), policy.rlvc (the policy), stages.csv (the curves),
    figures of the policy and of the learning stage by stage, features.png (the features that the
    policy tests most) and percept.png (a percept to try `rlvc explain` on). The campus is learned
    twice from the same interactions, with a tree (basic.rlvc) and with compaction (policy.rlvc),
    and both are compared. The hill has two cameras, so there are two images to explain, ground.png
    and gauge.png. With --trees, policy.rlvc is the forest, and one.rlvc (on the campus
    compact.rlvc) the policy of a single classifier.
    """
    from rlvc.runs.task import tasks

    task = tasks.make(
        options.task, pictures=options.pictures, interactions=options.interactions,
        episodes=options.episodes,
    )  # fmt: skip
    learner = options.learner_of(task)
    folder = choose_folder(options, Path("runs") / options.task)
    with Console().status("getting ready"):
        learner.engine.start()
    execute_run(task, learner, options, folder)


def parameters() -> None:
    """List the parameters of the learner: meaning, range, default."""
    from rlvc.runs.config import describe_parameters

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "default", "range", "meaning"):
        table.add_column(column, overflow="fold")
    for row in describe_parameters():
        table.add_row(*row)
    Console().print(table)
