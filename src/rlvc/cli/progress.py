"""What a run shows in the terminal: progress while it goes on, a summary at its end."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from rlvc.learning.rlvc import Stage
from rlvc.runs.callbacks import Callbacks
from rlvc.runs.curves import Curves

PHASES = {  # what they are called, if not by their own names
    "collect": "explore",
    "extract": "look",
    "evaluate": "measure",
    "basic": "learn",
    "primitive": "compare",
}


FEW = 640  # steps of a phase that are shown one by one


class ProgressDisplay:
    """Show the phases of a run, with bars where their length is known."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="cyan"),
            console=console,
        )
        self._task: TaskID | None = None
        self._begin = self._phase_begin = time.perf_counter()
        self._steps = 0
        self._total: int | None = None
        self.callbacks = Callbacks(self._on_phase, self._on_step, self._on_stage)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish()
        self._progress.stop()

    def _on_phase(self, phase: str, total: int | None) -> None:
        self._finish()
        self._phase_begin, self._steps, self._total = time.perf_counter(), 0, total
        name, space, number = phase.partition(" ")
        called = PHASES.get(name, name) + space + number
        self._task = self._progress.add_task(called, total=total, note="")

    def _on_step(self) -> None:
        assert self._task is not None
        self._steps += 1
        if self._total and (self._steps % 64 == 0 or self._total < FEW):
            elapsed = time.perf_counter() - self._phase_begin
            left = elapsed / self._steps * (self._total - self._steps)
            self._progress.update(self._task, completed=self._steps, note=f"{left:.0f} s left")

    def _on_stage(self, stage: Stage) -> None:
        assert self._task is not None
        n_stages = stage.number + 1
        waiting = stage.n_refinable - stage.n_refined
        per_stage = (time.perf_counter() - self._phase_begin) / n_stages
        # Classes that wait for their turn need at least these stages; splits may bring new ones.
        left = per_stage * (-(-waiting // max(stage.n_refined, 1)))
        note = (
            f"{stage.classifier.n_classes} classes, {len(stage.classifier.features)} tests, "
            f"residual {stage.residual:.2f}, ≥ {left:.1f} s left"
        )
        total = n_stages + -(-waiting // max(stage.n_refined, 1))
        self._progress.update(self._task, completed=n_stages, total=total, note=note)

    def _finish(self) -> None:
        if self._task is None:
            return
        task = self._progress.tasks[self._task]
        note = task.fields["note"].partition(", ≥")[0]
        note = "" if note.endswith("left") else f"{note}, " if note else ""
        seconds = time.perf_counter() - self._phase_begin
        total = self._steps or 1 if task.total is None else task.total
        self._progress.update(
            self._task, total=total, completed=total, note=f"{note}{seconds:.1f} s"
        )


def combine_callbacks(
    callbacks: Callbacks, journal: Curves, other: Callbacks | None = None
) -> Callbacks:
    """Return a watcher that also keeps a journal, and then tells another one all but the steps."""
    other = other or Callbacks()

    def on_phase(phase: str, total: int | None) -> None:
        callbacks.on_phase(phase, total)
        other.on_phase(phase, total)

    def on_stage(stage: Stage) -> None:
        callbacks.on_stage(stage)
        journal.write_stage(stage)
        other.on_stage(stage)

    def on_round(numbers: dict[str, Any]) -> None:
        callbacks.on_round(numbers)
        journal.write("rounds", numbers["interactions"], numbers)
        other.on_round(numbers)

    return replace(callbacks, on_phase=on_phase, on_stage=on_stage, on_round=on_round)


def show_summary(console: Console, result: dict[str, Any], folder: Path) -> None:
    """Print what was measured, and where the files are."""
    console.print()
    if result["task"] == "campus":
        _show_campus(console, result)
        _show_files(console, folder, CAMPUS_FILES)
    elif result["task"] == "hill":
        _show_hill(console, result)
        _show_files(console, folder, HILL_FILES, HILL_IMAGES)
    else:
        _show_navigation(console, result)
        _show_files(console, folder, FILES)
    say_resumed(console, result)


def _show_navigation(console: Console, result: dict[str, Any]) -> None:
    """Print the measures beside direct perception and the optimum."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.add_column("")
    for column in ("success", "steps", "optimal decisions", "classes"):
        table.add_column(column, justify="right")
    rows = (
        ("rlvc, from images", result["measures"], result["classes"]),
        *_forest_rows(result),
        ("position known, as many cells", result["direct"]["equal"], None),
        ("position known, best grid", result["direct"]["best"], None),
        ("the optimum", result["optimum"], "-"),
    )
    for i, (name, found, size) in enumerate(rows):
        steps = "-" if found["mean_steps"] is None else f"{found['mean_steps']:.1f}"
        cells = str(size if size is not None else found["cells"])
        row = f"{found['success']:.1%}", steps, f"{1 - found['suboptimal']:.1%}", cells
        table.add_row(name, *row, style="bold green" if i == 0 else None)
    console.print(table)
    _show_forest(console, result)
    console.print()
    features, paper, seconds = result["features"], result["paper"], result["seconds"]
    console.print(
        f"{result['classes']} classes by {features['selected']} tests for some of "
        f"{features['distinct']} features, in {result['stages']} stages (the paper: "
        f"{paper['classes']} by {paper['selected']} of {paper['distinct']} in "
        f"{paper['stages']}). Learning took {seconds['learn']:.1f} s.",
        highlight=False,
    )


def _show_campus(console: Console, result: dict[str, Any]) -> None:
    """Print both versions beside the paper's, the vote of neighbours, and direct perception."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for column in ("error: learned", "new views", "classes", "features", "stages"):
        table.add_column(column, justify="right")
    paper = result["paper"]
    forest = [
        (name, {**result["forest"], **measures, "classes": size}, "bold green")
        for name, measures, size in _forest_rows(result)
    ]
    for name, found, style in (
        ("the tree", result["basic"], None),
        ("compacted", result["compact"], "bold green"),
        *forest,
        ("the paper's tree", paper["basic"], "dim"),
        ("the paper's, compacted", paper["compact"], "dim"),
    ):
        table.add_row(
            name, f"{found['train_error']:.1%}", f"{found['test_error']:.1%}",
            str(found["classes"]), str(found["features"]), str(found.get("stages", "-")),
            style=style,
        )  # fmt: skip
    table.add_row("vote of neighbours", "-", f"{result['ceiling']:.1%}", "-", "-", "-")
    table.add_row("state known", f"{result['direct']:.1%}", "-", "44", "-", "-")
    console.print(table)
    _show_forest(console, result)
    console.print()
    basic, compact, seconds = result["basic"], result["compact"], result["seconds"]
    console.print(
        f"From {result['features']['distinct']} distinct features (the paper: "
        f"{paper['distinct']}). Looking took {seconds['extract']:.0f} s, learning "
        f"{basic['seconds']:.1f} s with the tree and {compact['seconds']:.1f} s with compaction.",
        highlight=False,
    )


def _show_hill(console: Console, result: dict[str, Any]) -> None:
    """Print the measures beside those without composites, direct perception and the optimum."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for column in ("missed", "steps", "classes"):
        table.add_column(column, justify="right")
    alone, direct, paper = result["primitive_only"], result["direct"], result["paper"]
    for name, found, size, style in (
        ("rlvc, from images", result["measures"], result["classes"], "bold green"),
        *((*row, "bold green") for row in _forest_rows(result)),
        ("without composite features", alone["measures"], alone["classes"], None),
        ("state known, as many cells", direct["equal"], direct["equal"]["cells"], None),
        ("state known, best grid", direct["best"], direct["best"]["cells"], None),
        ("state known, the paper's grid", direct["grid13"], direct["grid13"]["cells"], None),
        ("the optimum", result["optimum"], "-", None),
    ):
        steps = "-" if found["mean_steps"] is None else f"{found['mean_steps']:.1f}"
        table.add_row(name, f"{found['missed']:.1%}", steps, str(size), style=style)
    console.print(table)
    _show_forest(console, result)
    console.print()
    features, seconds = result["features"], result["seconds"]
    cameras = features["composite_by_camera"]
    console.print(
        f"{result['classes']} classes by {features['selected']} tests in {result['stages']} "
        f"stages; {features['composite']} of them are composite "
        f"({', '.join(f'{n} of the {camera}' for camera, n in cameras.items())}), the others are "
        f"among {features['distinct']} primitive ones (the paper: {paper['classes']} from "
        f"{paper['selected']} in {paper['stages']}, {paper['distinct']} primitive ones). "
        f"Learning took {seconds['learn']:.1f} s.",
        highlight=False,
    )


def _forest_rows(result: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    """Return the line of a forest: its name, what was measured, how large it is."""
    if "forest" not in result:
        return []
    forest = result["forest"]
    name = f"rlvc, a forest of {forest['trees']}"
    return [(name, forest["measures"], f"{forest['trees']} × {forest['classes']:.0f}")]


def _show_forest(console: Console, result: dict[str, Any]) -> None:
    """Say what else there is to know of a forest."""
    if "forest" not in result:
        return
    forest, error = result["forest"], result["forest"]["out_of_bag"]
    console.print()
    console.print(
        f"The forest tests {forest['features']} features and took {forest['seconds']:.1f} s; "
        + ("no episode was left out to tell its error." if error is None else
           f"its error on episodes left out is {error:.2f} of the spread of returns."),
        highlight=False,
    )  # fmt: skip


FILES = (
    ("policy.png", "what the agent does, everywhere"),
    ("values.png", "learned and optimal values"),
    ("learning.png", "how it got there"),
    ("features.png", "what it looks for"),
)
CAMPUS_FILES = (
    ("map.png", "what the agent does in every state"),
    ("errors.png", "errors on views learned and on new ones, stage by stage"),
    ("sizes.png", "classes and features, stage by stage"),
    ("features.png", "what it looks for"),
)
HILL_FILES = (
    ("trials.png", "trials missed and their lengths, stage by stage"),
    ("values.png", "learned, tabular and optimal values"),
    ("policy.png", "which way it thrusts, everywhere"),
    ("composites.png", "the composite features that it looks for most"),
    ("features.png", "what it looks for"),
)
HILL_IMAGES = ("gauge", "ground")


def _show_files(
    console: Console,
    folder: Path,
    files: tuple[tuple[str, str], ...],
    cameras: tuple[str, ...] = (),
) -> None:
    console.print(
        f"Results and pictures are in {folder}; have a look at:",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    for name, what in files:
        path = escape(str(folder / name))
        console.print(f"  {path}  [dim]{what}[/]", highlight=False, soft_wrap=True)
    images = [f"{camera}={folder / camera}.png" for camera in cameras]
    say_report(console, folder)
    console.print(
        f"Ask why: rlvc explain {folder / 'policy.rlvc'} "
        f"{' '.join(images) or folder / 'percept.png'}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


def say_resumed(console: Console, result: dict[str, Any]) -> None:
    """Say so if the times of a run are not all of it."""
    if times := result.get("resumed"):
        console.print(
            f"The run was stopped and gone on with {times}×; all times are of its last part.",
            highlight=False,
        )


def say_report(console: Console, folder: Path) -> None:
    """Say how to see all of it on one page."""
    console.print(
        f"See it all on one page: rlvc report {shlex.quote(str(folder))} --open",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
