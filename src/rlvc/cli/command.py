"""Commands: functions of a dataclass of options, what they print, and how they were typed."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

import typer
from rich.console import Console

FREE: Final = (  # options that may change when a run is resumed
    "overwrite", "live", "port", "tensorboard", "out", "resume", "engine", "address",
)  # fmt: skip
FLAGS: Final = ("--live", "--overwrite")  # options without a value, among those that are dropped
DROPPED: Final = ("--live", "--overwrite", "--port", "--resume")  # they do not change the run
PANELS: Final = (None, "The environment", "Exploring it", "Learning", "Watching")  # of the help


def option(
    about: str, *names: str, default: Any = None, panel: str | None = None, **details: Any
) -> Any:
    """Declare a field that is an option: its help, its names, its default (``...`` for none).

    It is named after the field unless given, and a flag must be given a name.
    """
    info = typer.Option(default, *names, help=about, rich_help_panel=panel, **details)
    return field(metadata={"typer": info})


def argument(about: str, *, default: Any = ..., metavar: str | None = None) -> Any:
    """Declare a field that is an argument: its help, its default, its name in the help."""
    return field(metadata={"typer": typer.Argument(default, metavar=metavar, help=about)})


def with_options(function: Callable[[Any], None]) -> Callable[..., None]:
    """Turn a function of a dataclass ``options`` into a Typer command with its fields as options.

    The help lists the panels in the order of ``PANELS``, and in each panel the fields of a class
    before those of its bases. A field that is neither an option nor an argument gets the context.
    """
    options = get_type_hints(function)["options"]
    hints = get_type_hints(options)
    none, kind = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    declared = {one.name: one.metadata.get("typer", none) for one in fields(options)}
    names = [name for one in options.__mro__ for name in inspect.get_annotations(one)]
    names.sort(key=lambda name: PANELS.index(getattr(declared[name], "rich_help_panel", None)))
    parameters = [
        inspect.Parameter(name, kind, annotation=hints[name], default=declared[name])
        for name in names
    ]
    command = functools.wraps(function)(lambda **given: function(options(**given)))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def format_help(text: str | None) -> str:
    r"""Return a docstring whose paragraphs are lines, so that a terminal can break them itself.

    >>> format_help("Do this.\n\n    It is\n    easy.\n\n      as here\n")
    'Do this.\n\nIt is easy.\n\n  as here'
    """
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(one if one.startswith(" ") else " ".join(one.split()) for one in paragraphs)


def print_plain(console: Console, text: str) -> None:
    """Print text as it is: no markup, no highlighting, no line breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def options_of(context: typer.Context) -> dict[str, Any]:
    """Return all options that may change what is learned, ready for JSON."""
    chosen = {name: value for name, value in context.params.items() if name not in FREE}
    settings = chosen["settings"] or []  # the result does not depend on the execution backend
    chosen["settings"] = [one for one in settings if not re.match(r"\s*engine\b", one)] or None
    plain: dict[str, Any] = json.loads(json.dumps(chosen, default=str))
    return {"command": context.info_name, **plain}


def words_typed(context: typer.Context) -> list[str]:
    """Return the words of the command line after ``rlvc``."""
    words = context.find_root().obj
    return list(sys.argv[1:] if words is None else words)


def command_of(context: typer.Context) -> str:
    """Return the command line as it was typed, without what does not change the run."""
    return shlex.join(["rlvc", *drop(words_typed(context), *DROPPED)])


def resume_command(context: typer.Context, folder: Path) -> str:
    """Return the command line that resumes a run."""
    words = drop(words_typed(context), *DROPPED, "--out")
    return shlex.join(["rlvc", *words, "--resume", str(folder)])


def drop(words: list[str], *options: str) -> list[str]:
    """Return words of a command line without some options and their values.

    >>> drop(["run", "maze", "--out", "x", "--live", "--port=1"], "--out", "--live", "--port")
    ['run', 'maze']
    """
    kept, rest = list[str](), iter(words)
    for word in rest:
        if word in options:
            if word not in FLAGS:
                next(rest, None)
        elif not word.startswith(tuple(f"{name}=" for name in options)):
            kept.append(word)
    return kept
