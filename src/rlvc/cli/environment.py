"""Environments that options of the command line describe."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

from rlvc.envs.make import EnvConfig, parse_arguments


def make_env(config: EnvConfig, **more: Any) -> Any:
    """Return a new environment; its module may be in the current folder, as with ``python -m``.

    That folder is searched after all that is installed, and only now: code that lies beside data
    must not run.
    """
    folder = str(Path.cwd())
    sys.path.append(folder)
    try:
        return config.make(**more)
    finally:
        sys.path.remove(folder)


def make_visible(config: EnvConfig) -> Any:
    """Return an environment that draws itself for people, if it can."""
    if "render_mode" in config.arguments or config.render:
        return make_env(config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it cannot draw itself
        try:
            return make_env(config, render_mode="rgb_array")
        except (ValueError, TypeError):
            return make_env(config)


def words_of(config: EnvConfig) -> str:
    """Return the id and the options that describe an environment, for a shell."""
    words = [config.env_id]
    words += ["--render"] * config.render
    for text in config.wraps:
        words += ["--wrap", text]
    for name, value in config.arguments.items():
        words += ["--arg", f"{name}={_plain(value)}"]
    if config.size:
        words += ["--size", "{}x{}".format(*config.size)]
    if config.frames > 1:
        words += ["--frames", str(config.frames)]
    return shlex.join(words)


def _plain(value: Any) -> str:
    """Return a value as ``--arg`` reads it: a text that reads like something else in quotes."""
    is_same = parse_arguments([f"value={value}"])["value"] == value
    return str(value) if is_same else repr(value)
