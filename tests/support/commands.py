"""The command line as a shell would run it, and what it wrote."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import pytest

from rlvc.cli import main

SMALL_RUN = ["run", "small", "--interactions", "300", "--episodes", "5"]


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit status."""

    code: int
    out: str
    err: str


class CommandLine:
    """Run command lines without starting a process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: object) -> Done:
        self._capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = self._capfd.readouterr()
        out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in (out, err))  # colours
        assert "Traceback" not in out + err
        assert isinstance(end.value.code, int)
        return Done(end.value.code, out, err)

    def succeed(self, *arguments: object) -> str:
        """Run a command line that succeeds, without a complaint; return what it prints."""
        done = self(*arguments)
        assert (done.code, done.err) == (0, "")
        return done.out

    def fail(self, code: int, *arguments: object) -> str:
        """Run a command line that fails, and prints nothing else; return what it complains of."""
        done = self(*arguments)
        assert (done.code, done.out) == (code, "")
        return done.err


def strict(text: str) -> Any:
    """Read JSON as others do: without NaN and infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read(path: Path) -> Any:
    """Return an image."""
    image = cv2.imread(str(path))
    assert image is not None, path
    return image
