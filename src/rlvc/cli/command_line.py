"""The command line of a run as it was typed: its options, and how to resume it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, Final

import typer

FREE: Final = (  # options that may change when a run is resumed
    "overwrite", "live", "port", "tensorboard", "out", "resume", "engine", "address",
)  # fmt: skip
FLAGS: Final = ("--live", "--overwrite")  # options without a value, among those that are dropped
DROPPED: Final = ("--live", "--overwrite", "--port", "--resume")  # they do not change the run


def options_of(context: typer.Context) -> dict[str, Any]:
    """Return all options that may change what is learned, ready for JSON."""
    chosen = {name: value for name, value in context.params.items() if name not in FREE}
    if "settings" in chosen:  # the result does not depend on the execution backend
        settings = chosen["settings"] or []
        chosen["settings"] = [one for one in settings if not is_of_engine(one)] or None
    plain: dict[str, Any] = json.loads(json.dumps(chosen, default=str))
    return {"command": context.info_name, **plain}


def is_of_engine(setting: str) -> bool:
    """Tell whether a setting is of the execution backend, and so changes nothing that is learned.

    >>> is_of_engine("engine.workers=2"), is_of_engine("gamma=0.9")
    (True, False)
    """
    return setting.partition("=")[0].strip().partition(".")[0] == "engine"


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
