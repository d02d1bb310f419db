"""One run of the command line: it holds its folder, keeps what it does, and can be gone on with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console

from rlvc.cli.options import command_of, drop, say_on, words_typed
from rlvc.errors import DamagedFileError, FileFormatError, StoppedError

if TYPE_CHECKING:
    from rlvc.runs.callbacks import Callbacks
    from rlvc.runs.checkpoint import Checkpoint
    from rlvc.runs.resources import ResourceEstimate

FREE: Final = (  # may be others later
    "overwrite", "live", "port", "tensorboard", "out", "resume", "engine", "address",
)  # fmt: skip
ELSEWHERE: Final = ("--overwrite", "--live", "--port", "--out", "--resume")


@dataclass(frozen=True, slots=True)
class Session:
    """A run that has its folder to itself.

    Attributes:
        folder: Where the results go.
        checkpoint: Where it keeps what it did.
        facts: What the result says of it: the ``command`` that began it, how often it was
            ``resumed``, and all its ``options``.
        how: The command line that goes on with it.
    """

    folder: Path
    checkpoint: Checkpoint
    facts: dict[str, Any]
    how: str

    @contextmanager
    def running(self, console: Console) -> Iterator[Callable[[Callbacks], Callbacks]]:
        """Let the run be stopped; gives a function from its watcher to one that may stop it."""
        from rlvc.runs.interrupt import stoppable

        def tell() -> None:
            console.show_cursor()  # whatever comes now
            say_on(console, "Stopping as soon as this stage is kept; Ctrl-C again stops at once.")

        def why() -> str:
            kept = "and all" if self.checkpoint.works else "but not all"
            if self.checkpoint.is_empty and self.checkpoint.has_other:
                return f"Stopped. The run that waited in {self.folder} waits on."
            if self.checkpoint.is_empty:
                return f"Stopped before there was anything to keep. Begin again with:\n  {self.how}"
            return f"Stopped, {kept} that was completed is kept. Go on with:\n  {self.how}"

        def on_needs(needs: ResourceEstimate, least: ResourceEstimate | None) -> None:
            self.check_needs(needs, least, console)

        with stoppable(why, tell) as stop:
            yield lambda callbacks: stop.watch(replace(callbacks, on_needs=on_needs))

    def check_needs(
        self, needs: ResourceEstimate, least: ResourceEstimate | None, console: Console
    ) -> None:
        """Say what the run needs, and refuse it politely where that is more than there is."""
        from rlvc.runs.resources import FreeResources

        say_on(
            console,
            needs.describe(self.folder, FreeResources.of(self.folder), at_most=least is not None),
        )
        kept = sum(path.stat().st_size for path in self.checkpoint.folder.rglob("*"))
        sure = least or needs
        try:
            replace(sure, disk=max(0, sure.disk - kept)).check(self.folder)
        except OSError as error:
            raise OSError(f"{error.strerror}: {error.filename}.") from error

    def finish(self) -> None:
        """Forget what was kept: all results are written."""
        self.checkpoint.clear()


def image_folder(out: Path | None, resume: Path | None, default: Path, overwrite: bool) -> Path:
    """Return the folder of a run, from the options that may name it.

    One in which no run can begin is refused here, before anything is read or collected.
    """
    from rlvc._core.lock import LOCK_FILE
    from rlvc.runs.checkpoint import ASIDE, FOLDER
    from rlvc.runs.folder import check_folder, check_strange

    if resume is None:
        folder = out or default
        check_folder(folder, overwrite=overwrite)
        if folder.is_dir() and not (folder / FOLDER).exists() and not overwrite:
            check_strange(folder, (FOLDER, ASIDE, LOCK_FILE))
        return folder
    if overwrite:
        raise ValueError("--overwrite begins a run anew and --resume goes on with one; choose.")
    if out is not None and out.resolve() != resume.resolve():
        raise ValueError(f"--resume of a run says its folder, {resume}; leave out --out {out}.")
    check_folder(resume, overwrite=True)
    return resume


@contextmanager
def open_session(
    context: typer.Context, folder: Path, *, overwrite: bool, resume: bool, console: Console
) -> Iterator[Session]:
    """Hold the folder of a run, and begin it or go on with it.

    Raises:
        typer.Exit: It is finished already, and nothing is to be done.
    """
    from rlvc._core.atomic import remove_parts
    from rlvc._core.lock import LOCK_FILE, lock_folder
    from rlvc.runs.callbacks import versions
    from rlvc.runs.checkpoint import ASIDE, FOLDER, RUN, Checkpoint
    from rlvc.runs.folder import check_strange, prepare_folder

    checkpoint, how = Checkpoint(folder), resuming(context, folder)
    prepare_folder(folder, overwrite=overwrite or resume)
    with lock_folder(folder):
        remove_parts(folder)
        options = options_of(context)
        facts = {"command": command_of(context), "resumed": 0, "options": options}
        asked = {**facts, "versions": versions()}
        before = read_description(checkpoint, asked, console) if resume else None
        if before is not None:
            check_same(before, asked, folder)
            if before["versions"] != asked["versions"]:
                say_on(console, "Packages have changed since it began; it may end differently.")
            facts |= {"command": str(before["command"]), "resumed": int(before["resumed"]) + 1}
            checkpoint.tidy()
            checkpoint.keep(RUN, {**before, **facts}, {})
            say_on(console, f"Going on with the run in {folder}.")
        else:
            if resume and is_finished(options, folder, console):
                checkpoint.clear()
                raise typer.Exit
            if not resume and not overwrite:
                check_unfinished(checkpoint, folder, how)
            if not overwrite:
                check_strange(folder, (FOLDER, ASIDE, LOCK_FILE))
            if resume:
                say_on(console, f"There is no run in {folder} to go on with; it begins now.")
            checkpoint.begin(asked)
        try:
            yield Session(folder, checkpoint, facts, how)
        except StoppedError:
            if checkpoint.is_empty and checkpoint.has_other:
                checkpoint.withdraw()
            raise
        except BaseException as error:
            if checkpoint.is_empty and checkpoint.works:
                checkpoint.withdraw()
            elif not isinstance(error, FileFormatError):  # which says itself what to do
                say_on(
                    console,
                    f"What was done is kept. Once the cause is mended, go on with:\n  {how}",
                )
            raise


def check_unfinished(checkpoint: Checkpoint, folder: Path, how: str) -> None:
    """Refuse to begin where a run waits to be gone on with."""
    try:
        waits = checkpoint.description() is not None
    except FileFormatError:
        waits = True  # whatever it is: it shall not be lost
    if waits:
        raise ValueError(
            f"{folder} holds a run that is not finished. Go on with it:\n  "
            f"{how}\nor give another folder with --out, or begin anew with "
            "--overwrite."
        )


def read_description(
    checkpoint: Checkpoint, asked: dict[str, Any], console: Console
) -> dict[str, Any] | None:
    """Return what a run is; if that is damaged, it is what is asked for.

    All that was kept is compared with what the run has now, so that no harm is done.
    """
    try:
        return checkpoint.description()
    except DamagedFileError as error:
        say_on(console, f"{error} It is taken for the run that is asked for.")
        return {**asked, "format": "", "version": 0}


def is_finished(options: dict[str, Any], folder: Path, console: Console) -> bool:
    """Tell whether a folder holds the very run that is wanted, finished; refuse any other."""
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (ValueError, OSError):
        result = None
    before = result.get("options") if isinstance(result, dict) else None
    if before != options:
        told = (
            f":\n  {differences(before, options)}\nGive" if isinstance(before, dict) else "; give"
        )
        raise ValueError(
            f"{folder} holds another run, which is finished{told} another folder, or leave out "
            "--resume and add --overwrite."
        )
    say_on(console, f"The run in {folder} is finished; there is nothing left to do.")
    return True


def check_same(before: dict[str, Any], asked: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with a run under other settings."""
    options, wanted = before.get("options"), asked["options"]
    if not isinstance(options, dict) or before.keys() - {"format", "version"} != asked.keys():
        raise FileFormatError(f"{folder} does not hold a run; begin one with --overwrite.")
    if listed := differences(options, wanted):
        raise ValueError(
            f"A run is gone on with as it was begun, or it would be another one. Of that in "
            f"{folder},\n  {listed}"
        )


def differences(options: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return which options are others than before, a line for each."""
    names = sorted(options.keys() | wanted.keys())
    return "\n  ".join(
        f"{name} was {_shown(options.get(name))}, and is {_shown(wanted.get(name))} now"
        for name in names
        if options.get(name) != wanted.get(name)
    )


def options_of(context: typer.Context) -> dict[str, Any]:
    """Return all options that may change what is learned, ready for JSON."""
    chosen = {name: value for name, value in context.params.items() if name not in FREE}
    if "settings" in chosen:  # whoever does the work, the result is the same
        every = chosen["settings"] or []
        chosen["settings"] = [one for one in every if not is_of_engine(one)] or None
    plain: dict[str, Any] = json.loads(json.dumps(chosen, default=str))
    return {"command": context.info_name, **plain}


def is_of_engine(setting: str) -> bool:
    """Tell whether a setting says who does the work, and so changes nothing that is learned.

    >>> is_of_engine("engine.workers=2"), is_of_engine("gamma=0.9")
    (True, False)
    """
    return setting.partition("=")[0].strip().partition(".")[0] == "engine"


def resuming(context: typer.Context, folder: Path) -> str:
    """Return the command line that goes on with a run."""
    return shlex.join(["rlvc", *drop(words_typed(context), *ELSEWHERE), "--resume", str(folder)])


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)
