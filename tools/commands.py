"""Tables of the commands and the parameters, generated from the program itself.

A hook of MkDocs: they replace the marks ``<!-- commands -->``, ``<!-- parameters -->`` and
``<!-- forest -->`` of a page.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from rlvc._core.params import rules
from rlvc.cli import app
from rlvc.learning import Forest
from rlvc.runs import describe_parameters

VALUES = {int: "NUMBER", float: "NUMBER", Path: "PATH", str: "TEXT"}  # names of values by type


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace the marks by the tables."""
    for mark, lines in (("commands", _commands), ("parameters", _parameters), ("forest", _forest)):
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", "\n".join(lines()))
    return markdown


def _commands() -> Iterator[str]:
    yield from _group("rlvc", app)


def _group(path: str, group: typer.Typer) -> Iterator[str]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield from _command(f"{path} {command.name or command.callback.__name__}", command.callback)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from _group(f"{path} {inner.name}", inner.typer_instance)


def _command(path: str, callback: Callable[..., Any]) -> Iterator[str]:
    usage, rows = [path], []
    for name, parameter in inspect.signature(callback).parameters.items():
        info = parameter.default
        if isinstance(info, ArgumentInfo):
            usage.append(info.metavar or name.upper())
            rows.append((f"`{usage[-1]}`", info.help, ""))
        elif isinstance(info, OptionInfo):
            option = [*(info.param_decls or ()), f"--{name.replace('_', '-')}"][0]
            name = f'<code class="option">{option}</code>{_value(parameter.annotation, info)}'
            rows.append((name, info.help, _default(info)))
    usage += ["[OPTIONS]"] * any("--" in name for name, _, _ in rows)
    yield f"## {path}\n\n```sh\n{' '.join(usage)}\n```\n\n{inspect.getdoc(callback)}\n"
    if rows:
        yield "| | meaning | default |\n|---|---|---|"
    rows.sort(key=lambda row: "--" in row[0])  # arguments come first
    yield from (f"| {name} | {_cell(text)} | {default} |" for name, text, default in rows)
    yield ""


def _value(kind: Any, info: OptionInfo) -> str:
    """Return the name of the value of an option."""
    if kind is bool:
        return ""
    one = next((one for one in VALUES if one is kind or one in typing.get_args(kind)), str)
    return f" `{info.metavar or VALUES[one]}`"


def _default(info: OptionInfo) -> str:
    if isinstance(info.show_default, str):
        return info.show_default
    is_none = any(info.default is one for one in (None, False, ...))
    return "" if is_none else f"`{info.default}`"


def _parameters() -> Iterator[str]:
    yield "| name | default | range | meaning |\n|---|---|---|---|"
    for name, default, must, meaning in describe_parameters():
        yield f"| {_code(name)} | {_code(default)} | {_cell(must)} | {_cell(meaning)} |"


def _forest() -> Iterator[str]:
    yield "| name | default | range | meaning |\n|---|---|---|---|"
    for field, rule in rules(Forest):
        yield f"| `{field.name}` | `{field.default}` | {_cell(rule.describe())} | {rule.meaning} |"


def _code(text: str) -> str:
    """Return a name as code that may wrap after dots and underscores."""
    return "<code>" + text.replace(".", ".<wbr>").replace("_", "_<wbr>") + "</code>"


def _cell(text: str | None) -> str:
    return (text or "").replace("inf)", "∞)").replace("|", "\\|")
