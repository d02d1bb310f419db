"""One run of the command line: it owns its folder, saves its work, and can be resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from rlvc.cli.command import command_of, options_of, print_plain, resume_command
from rlvc.cli.options import RunOptions
from rlvc.cli.report import live_page
from rlvc.errors import DamagedFileError, FileFormatError, StoppedError

if TYPE_CHECKING:
    from rlvc.learning.rlvc import RLVC
    from rlvc.runs.checkpoint import Checkpoint
    from rlvc.runs.task import Task


@dataclass(frozen=True, slots=True)
class Session:
    """A run that has its folder to itself.

    Attributes:
        folder: Where the results go.
        checkpoint: Where its work is saved.
        facts: Entries of the result: the ``command`` that began the run, how often it was
            ``resumed``, and all its ``options``.
        resume_command: The command line that resumes it.
        console: Where to print.
    """

    folder: Path
    checkpoint: Checkpoint
    facts: dict[str, Any]
    resume_command: str
    console: Console

    def say(self, text: str) -> None:
        """Print a line of text."""
        print_plain(self.console, text)

    def on_interrupt(self) -> None:
        """Say that the run will stop."""
        self.console.show_cursor()  # whatever comes now
        self.say("Stopping as soon as this stage is saved; Ctrl-C again stops at once.")

    def describe_interrupt(self) -> str:
        """Return what an interrupted run has saved, and how to resume it."""
        checkpoint, command = self.checkpoint, self.resume_command
        if checkpoint.is_empty and checkpoint.has_other:
            return f"Stopped. The interrupted run in {self.folder} is still there."
        if checkpoint.is_empty:
            return f"Stopped before there was anything to save. Begin again with:\n  {command}"
        saved = "and all" if checkpoint.works else "but not all"
        return f"Stopped, {saved} completed work is saved. Resume it with:\n  {command}"


def execute_run(task: Task[Any], learner: RLVC, options: RunOptions, folder: Path) -> None:
    """Run a task in its folder, write the results, and print a summary."""
    from rlvc.cli.progress import ProgressDisplay, ResourceCheck, show_summary
    from rlvc.runs.curves import Curves
    from rlvc.runs.folder import write_run
    from rlvc.runs.interrupt import interruptible
    from rlvc.runs.live import LiveSnapshots
    from rlvc.runs.run import Run

    curves = Curves(folder, options.tensorboard)
    with (
        open_session(folder, options) as session,
        live_page(folder, options.live, options.port) as keep_page,
    ):
        resources = ResourceCheck(session.console, folder, session.checkpoint)
        facts = {"task": task.name, **task.facts, "seed": options.seed, **session.facts}
        snapshots = LiveSnapshots(
            folder, facts, about=task.about(options.seed), examples=task.has_examples
        )
        with (
            interruptible(session.describe_interrupt, session.on_interrupt) as interrupt,
            snapshots,
            curves,
            ProgressDisplay(session.console) as display,
        ):
            run = Run(
                task, learner, seed=options.seed, trees=options.trees,
                callbacks=[resources, display, curves, snapshots, interrupt],
                checkpoint=session.checkpoint,
            )  # fmt: skip
            outcome = run.execute(folder)
            run.callback.on_phase("write", None)
            outcome.result.update(session.facts)
            write_run(outcome, folder)
        session.checkpoint.clear()
        show_summary(session.console, outcome, folder)
        keep_page()


def choose_folder(options: RunOptions, default: Path) -> Path:
    """Return the folder of a run: the one that the options name, or a default.

    A folder in which no run can begin is refused here, before anything is read or collected.
    """
    from rlvc.runs.checkpoint import FOLDER
    from rlvc.runs.folder import check_folder, check_foreign_files

    if options.port is not None and not options.live:
        raise ValueError("--port is for the page of --live only; add --live.")
    out, resume, overwrite = options.out, options.resume, options.overwrite
    folder = resume or out or default
    if resume is not None and overwrite:
        raise ValueError("--overwrite begins a new run, --resume resumes one; give one of them.")
    if resume is not None and out is not None and out.resolve() != resume.resolve():
        raise ValueError(f"--resume names the folder of the run, {resume}; leave out --out {out}.")
    check_folder(folder, overwrite=overwrite or resume is not None)
    is_new = resume is None and not overwrite and not (folder / FOLDER).exists()
    if is_new and folder.is_dir():
        check_foreign_files(folder)
    return folder


@contextmanager
def open_session(folder: Path, options: RunOptions) -> Iterator[Session]:
    """Lock the folder of a run, and begin it or resume it.

    A run that fails before it has saved anything is withdrawn; any other says how to resume it.

    Raises:
        typer.Exit: It is finished already, and nothing is to be done.
    """
    from rlvc._core.atomic import remove_parts
    from rlvc._core.lock import lock_folder
    from rlvc.runs.checkpoint import Checkpoint
    from rlvc.runs.folder import prepare_folder

    context, checkpoint = options.context, Checkpoint(folder)
    is_resuming = options.resume is not None
    prepare_folder(folder)
    with lock_folder(folder):
        remove_parts(folder)
        session = Session(
            folder, checkpoint,
            {"command": command_of(context), "resumed": 0, "options": options_of(context)},
            resume_command(context, folder), Console(),
        )  # fmt: skip
        if not (is_resuming and _resume(session)):
            _begin(session, overwrite=options.overwrite, is_resuming=is_resuming)
        try:
            yield session
        except StoppedError:
            if checkpoint.is_empty and checkpoint.has_other:
                checkpoint.withdraw()
            raise
        except BaseException as error:
            if checkpoint.is_empty and checkpoint.works:
                checkpoint.withdraw()
            elif not isinstance(error, FileFormatError):  # which says itself what to do
                session.say(
                    "Completed work is saved. Once the cause is fixed, resume it with:\n  "
                    f"{session.resume_command}"
                )
            raise


def _resume(session: Session) -> bool:
    """Resume the run in the folder, if there is one."""
    from rlvc.runs.checkpoint import RUN
    from rlvc.runs.run import versions

    checkpoint, facts = session.checkpoint, session.facts
    asked = {**facts, "versions": versions()}
    try:
        before = checkpoint.description()
    except DamagedFileError as error:
        # Saved work is compared with the data of this run before it is used, so no harm is done.
        session.say(f"{error} It is assumed to be this run.")
        before = {**asked, "format": "", "version": 0}
    if before is None:
        return False
    check_same(before, asked, session.folder)
    if before["versions"] != asked["versions"]:
        session.say("Versions of packages have changed since it began; its policy may differ.")
    facts |= {"command": str(before["command"]), "resumed": int(before["resumed"]) + 1}
    checkpoint.tidy()
    checkpoint.save(RUN, {**before, **facts}, {})
    session.say(f"Resuming the run in {session.folder}.")
    return True


def _begin(session: Session, *, overwrite: bool, is_resuming: bool) -> None:
    """Begin a new run, unless it is finished already or would destroy something."""
    from rlvc.runs.folder import check_foreign_files
    from rlvc.runs.run import versions

    checkpoint, folder = session.checkpoint, session.folder
    if is_resuming and is_finished(session):
        checkpoint.clear()
        raise typer.Exit
    if not is_resuming and not overwrite:
        check_unfinished(session)
    if not overwrite:
        check_foreign_files(folder)
    if is_resuming:
        session.say(f"There is no run in {folder} to resume; it begins now.")
    checkpoint.begin({**session.facts, "versions": versions()})


def check_unfinished(session: Session) -> None:
    """Refuse to begin in the folder of an interrupted run."""
    with suppress(FileFormatError):  # whatever it is, it must not be lost
        if session.checkpoint.description() is None:
            return
    raise ValueError(
        f"{session.folder} holds a run that is not finished. Resume it:\n  "
        f"{session.resume_command}\nor give another folder with --out, or begin anew with "
        "--overwrite."
    )


def is_finished(session: Session) -> bool:
    """Tell whether the folder holds this very run, finished; refuse any other."""
    folder, options = session.folder, session.facts["options"]
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (ValueError, OSError):
        result = None
    before = result.get("options") if isinstance(result, dict) else None
    if before != options:
        changes = "; give"
        if isinstance(before, dict):
            changes = f":\n  {differences(before, options)}\nGive"
        raise ValueError(
            f"{folder} holds another run, which is finished{changes} another folder, or leave out "
            "--resume and add --overwrite."
        )
    session.say(f"The run in {folder} is finished; there is nothing left to do.")
    return True


def check_same(before: dict[str, Any], asked: dict[str, Any], folder: Path) -> None:
    """Refuse to resume a run with other options."""
    options, wanted = before.get("options"), asked["options"]
    if not isinstance(options, dict) or before.keys() - {"format", "version"} != asked.keys():
        raise FileFormatError(f"{folder} does not hold a run; begin one with --overwrite.")
    if listed := differences(options, wanted):
        raise ValueError(
            f"A run must be resumed with the options it was begun with. Of that in {folder},"
            f"\n  {listed}"
        )


def differences(options: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return which options have changed, a line for each."""
    lines = []
    for name in sorted(options.keys() | wanted.keys()):
        old, new = options.get(name), wanted.get(name)
        if old != new:
            old, new = ("not given" if one is None else one for one in (old, new))
            lines.append(f"{name} was {old}, and is {new} now")
    return "\n  ".join(lines)
