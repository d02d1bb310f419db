"""What a run shows in the terminal: progress during the run, a summary at its end."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn
from rich.table import Table

from rlvc.cli.command import print_plain
from rlvc.data.percepts import SINGLE
from rlvc.learning.stage import Stage
from rlvc.runs.callbacks import Callback
from rlvc.runs.checkpoint import Checkpoint
from rlvc.runs.resources import ResourceEstimate
from rlvc.runs.run import POLICY, Outcome
from rlvc.runs.summary import SummaryTable

# How phases are shown, where that differs from their names.
PHASES = {"collect": "explore", "evaluate": "measure", "basic": "learn", "primitive": "compare"}


class ProgressDisplay(Callback):
    """Show the phases of a run, with bars where their length is known."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="cyan"),
            console=console,
        )
        self._task: Task | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish()
        self._progress.stop()

    def on_phase(self, phase: str, total: int | None) -> None:  # noqa: D102
        self._finish()
        name, space, number = phase.partition(" ")
        shown = PHASES.get(name, name) + space + number
        self._progress.add_task(shown, total=total, note="")
        self._task = self._progress.tasks[-1]

    def on_step(self) -> None:  # noqa: D102
        assert self._task is not None
        self._progress.advance(self._task.id)
        if self._task.remaining is not None:
            elapsed = self._task.elapsed or 0.0
            left = elapsed / self._task.completed * self._task.remaining
            self._progress.update(self._task.id, note=f"{left:.0f} s left")

    def on_stage(self, stage: Stage) -> None:  # noqa: D102
        assert self._task is not None
        n_stages = stage.number + 1
        waiting = stage.n_refinable - stage.n_refined
        # Classes that are still to be split need at least these stages; splits may bring new ones.
        n_left = -(-waiting // max(stage.n_refined, 1))
        left = (self._task.elapsed or 0.0) / n_stages * n_left
        note = (
            f"{stage.classifier.n_classes} classes, {len(stage.classifier.features)} tests, "
            f"residual {stage.residual:.2f}, ≥ {left:.1f} s left"
        )
        total = n_stages + n_left
        self._progress.update(self._task.id, completed=n_stages, total=total, note=note)

    def _finish(self) -> None:
        if (task := self._task) is None:
            return
        note = task.fields["note"].partition(", ≥")[0]
        note = "" if note.endswith("left") else f"{note}, " if note else ""
        note = f"{note}{task.elapsed:.1f} s"
        total = task.completed or 1 if task.total is None else task.total
        self._progress.update(task.id, total=total, completed=total, note=note)


class ResourceCheck(Callback):
    """Print what a run needs, and refuse it if that is more than there is."""

    def __init__(self, console: Console, folder: Path, checkpoint: Checkpoint) -> None:
        self._console, self._folder, self._checkpoint = console, folder, checkpoint

    def on_needs(self, needs: ResourceEstimate, least: ResourceEstimate | None) -> None:  # noqa: D102
        print_plain(self._console, needs.describe(self._folder, at_most=least is not None))
        saved = sum(path.stat().st_size for path in self._checkpoint.folder.rglob("*"))
        sure = least or needs
        replace(sure, disk=max(0, sure.disk - saved)).check(self._folder)


def show_summary(console: Console, outcome: Outcome[Any], folder: Path) -> None:
    """Print what was measured and learned, where the files are, and what to do next."""
    result, task = outcome.result, outcome.task
    summary, measures = task.summary(result), task.measures(result)
    console.print()
    if summary.rounds is not None:
        show_table(console, summary.rounds, align_first=True)
        console.print(f"[dim]{summary.rounds.caption}[/]\n")
    if measures is not None:
        show_table(console, measures)
        console.print()
    console.print("\n\n".join(summary.text), highlight=False)
    if times := result.get("resumed"):
        console.print(
            f"The run was interrupted and resumed {times}×; all times are of its last part.",
            highlight=False,
        )
    print_plain(console, f"Results and pictures are in {folder}; have a look at:")
    for name, what in summary.figures.items():
        if (path := folder / name).exists():
            line = f"  {escape(str(path))}  [dim]{what}[/]"
            console.print(line, highlight=False, soft_wrap=True)
    print_plain(console, f"See it all on one page: rlvc report {shlex.quote(str(folder))} --open")
    policy = shlex.quote(str(folder / POLICY))
    files = {
        camera: str(folder / task.percept_file(camera)) for camera in sorted(outcome.policy.shapes)
    }
    images = [files[SINGLE]] if SINGLE in files else [f"{c}={file}" for c, file in files.items()]
    print_plain(console, f"Ask why: rlvc explain {policy} {shlex.join(images)}")
    if result.get("rounds"):
        video = shlex.quote(str(folder / "play.mp4"))
        print_plain(console, f"Watch it: rlvc play {policy} {result['source']} --video {video}")


def show_table(console: Console, table: SummaryTable, *, align_first: bool = False) -> None:
    """Print a table; the first column is aligned to the left unless told otherwise."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(table.columns):
        name = "" if column == "agent" else column
        justify: Literal["left", "right"] = "right" if i or align_first else "left"
        shown.add_column(name, justify=justify, no_wrap=i == 0)
    for i, cells in enumerate(table.rows):
        shown.add_row(*cells, style=table.styles.get(i))
    console.print(shown)
