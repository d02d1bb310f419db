"""The command line; each command imports what it needs when it runs."""

from __future__ import annotations

import logging
import signal
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler

import rlvc
from rlvc.cli import data, learn, policy, report, run
from rlvc.cli.command import format_help
from rlvc.errors import RlvcError

app = typer.Typer(
    name="rlvc",
    help="Learn visual control policies from interactions, and read them.",
    epilog="Start with: rlvc run maze. For a custom task: rlvc learn --help",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        Console().print(f"rlvc {rlvc.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


COMMANDS = (
    run.run, learn.learn, report.report, report.watch, learn.collect, policy.play,
    policy.evaluate, policy.explain, run.parameters,
)  # fmt: skip
for command in COMMANDS:
    app.command(help=format_help(command.__doc__))(command)
app.add_typer(data.data_app, name="data")


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line: 0 if all went well, 1 for a failure, 2 for wrong usage."""
    words = sys.argv[1:] if arguments is None else arguments
    handler = RichHandler(console=Console(stderr=True), show_time=False, show_path=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    try:
        app(args=words, prog_name="rlvc", obj=words)
    except (ValueError, TypeError) as error:
        status, message = 2, str(error)
    except (RlvcError, OSError, ImportError) as error:
        status, message = 1, str(error)
    except MemoryError as error:
        status, message = 1, f"There is not enough memory for this. {error}".rstrip()
    except (KeyboardInterrupt, SystemExit) as stop:
        # Typer turns Ctrl-C into a silent exit with the status that a shell gives a killed job.
        if isinstance(stop, SystemExit) and stop.code != 128 + signal.SIGINT:
            raise
        status, message = 1, "Stopped."
    text = f"rlvc: {message}"
    Console(stderr=True).print(text, highlight=False, markup=False, style="red", soft_wrap=True)
    raise SystemExit(status)
