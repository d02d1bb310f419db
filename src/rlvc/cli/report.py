"""The commands that show a run in a browser: report, watch; and the live page of a run."""

from __future__ import annotations

import shlex
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rlvc.cli.command import argument, option, print_plain, with_options
from rlvc.cli.options import port_option
from rlvc.errors import FileFormatError


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The options of commands that show a run."""

    run: Path = argument(
        "The folder of a run, such as runs/maze; or its result.json or policy.rlvc.", metavar="RUN"
    )
    open_it: bool = option("Open it in the browser.", "--open", default=False)


@dataclass(frozen=True, kw_only=True)
class ReportOptions(PageOptions):
    """The options of ``rlvc report``."""

    out: Path | None = option("The page to write; RUN/report.html unless given.", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class WatchOptions(PageOptions):
    """The options of ``rlvc watch``."""

    port: int | None = port_option()


@with_options
def report(options: ReportOptions) -> None:
    """Write one page about a run: what it learned, how, and why the policy acts as it does.

    The page is one file that needs no network and can be sent to others. It shows how learning
    went, the classifier, the features, what the policy does on the task, and why, step by step, on
    any example. It needs only the folder of a run, which may still be in progress.

    For example:

      rlvc report runs/maze --open
    """
    from rlvc._core.atomic import atomic_write
    from rlvc.cli.progress import ProgressDisplay
    from rlvc.report.page import render
    from rlvc.report.web.data import PageBuilder

    folder = find_folder(options.run)
    if not any((folder / name).is_file() for name in ("result.json", "live.json")):
        raise FileFormatError(
            f"There is no run in {folder}: it has no result.json. If one was interrupted there, "
            "resume it with --resume; or make one, such as: "
            f"rlvc run maze --out {shlex.quote(str(folder))}"
        )
    target = options.out or folder / "report.html"
    if target.exists() and target.suffix not in (".html", ".htm"):
        raise ValueError(
            f"--out of report must be a new file or a page; got {target}, which is neither. "
            "Name a file that ends in .html."
        )
    with ProgressDisplay(Console()) as display:
        data = PageBuilder(display).describe(folder)
        display.on_phase("write", None)
        page = render(data).encode()
        atomic_write(target, page)
    if data["live"] is not None:
        print_plain(Console(), "The run is not finished; this is what it has learned so far.")
    print_plain(Console(), f"The report is in {target} ({len(page) / 1e6:.1f} MB).")
    if options.open_it:
        open_page(target.resolve().as_uri())


@with_options
def watch(options: WatchOptions) -> None:
    """Show a run in the browser while it is in progress.

    The page is the same as that of `rlvc report`, and is updated as the run learns. It is served to
    this machine only, until you press Ctrl-C. The run need not have begun yet, but its folder must
    exist. With `rlvc run --live` or `rlvc learn --live`, a run shows its page itself.
    """
    from rlvc.report.server import Server
    from rlvc.report.web.data import PageBuilder
    from rlvc.report.web.watch import RunPage

    folder = find_folder(options.run)
    watched = RunPage(folder, PageBuilder().describe)
    is_over = watched.version()[1]
    with Server(watched, options.port or 0) as server:
        if is_over:
            print_plain(Console(), f"The run in {folder} is finished.")
        elif not watched.is_begun:
            print_plain(Console(), f"No run has begun in {folder} yet.")
        print_plain(Console(), f"The page is at {server.url} until you press Ctrl-C.")
        if options.open_it:
            open_page(server.url)
        with suppress(KeyboardInterrupt):
            while True:
                pause()
                if not is_over and watched.version()[1]:
                    is_over = True
                    print_plain(Console(), "The run is finished now.")


@contextmanager
def live_page(folder: Path, is_live: bool, port: int | None) -> Iterator[Callable[[], None]]:
    """Serve the page of a run that is about to begin, if requested.

    Yields a function to call at the end, which keeps the page until Ctrl-C.
    """
    if not is_live:
        yield lambda: None
        return
    from rlvc.report.server import Server
    from rlvc.report.web.data import PageBuilder
    from rlvc.report.web.watch import RunPage

    watched = RunPage(folder, PageBuilder().describe, is_new=True)
    with Server(watched, port or 0) as server:
        print_plain(Console(), f"Watch it at {server.url}")

        def stay() -> None:
            print_plain(Console(), f"The page stays at {server.url} until you press Ctrl-C.")
            with suppress(KeyboardInterrupt):
                while True:
                    pause()

        yield stay


def find_folder(run: Path) -> Path:
    """Return the folder of a run, given that or a file in it."""
    if run.is_dir():
        return run
    if run.is_file():
        return run.parent
    raise FileNotFoundError(
        f"There is no folder {run}; make a run with: rlvc run maze --out {shlex.quote(str(run))}"
    )


def open_page(address: str) -> None:
    """Show a page in the browser of this machine, if it has one."""
    if not webbrowser.open(address):
        print_plain(Console(), f"There is no browser here; open {address} yourself.")


def pause() -> None:
    """Wait for a moment."""
    time.sleep(0.5)
