"""Commands: functions of a dataclass of options, their help, and what they print."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, TypeVar, get_type_hints

import typer
from rich.console import Console

T = TypeVar("T")


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


def with_options(
    options: type[T],
) -> Callable[[Callable[[typer.Context, T], None]], Callable[..., None]]:
    """Let Typer call a function of a dataclass with the fields of the dataclass as options.

    Fields of a class come before those of its bases, in the help as well.
    """
    hints = get_type_hints(options)
    declared = {one.name: one.metadata["typer"] for one in fields(options)}  # type: ignore[arg-type]
    names = [
        name for one in options.__mro__ for name in vars(one).get("__annotations__", ())
        if name in declared
    ]  # fmt: skip
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=info)
        for name, kind, info in [
            ("context", typer.Context, inspect.Parameter.empty),
            *((name, hints[name], declared[name]) for name in names),
        ]
    ]

    def decorate(function: Callable[[typer.Context, T], None]) -> Callable[..., None]:
        command = functools.wraps(function)(
            lambda context, **given: function(context, options(**given))
        )
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate


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
