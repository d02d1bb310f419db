"""The errors that a caller may want to catch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 50  # problems that the message of a DataError lists


class RlvcError(Exception):
    """Base class of the errors of rlvc."""


class FileFormatError(RlvcError):
    """A file that is damaged, of another format, or of an unknown version."""


class DamagedFileError(FileFormatError):
    """A file of rlvc in which bytes changed or are missing."""


class InvalidFileError(FileFormatError):
    """A file that rlvc did not write, of another format or version, or with inconsistent content.

    As far as is known, its bytes are as they were written.
    """


class ImageError(RlvcError):
    """An image that is missing or cannot be read."""


class DownloadError(RlvcError):
    """A file that could not be downloaded."""


class EnvError(RlvcError):
    """An environment that failed or does not follow the Gymnasium API."""


class StoppedError(RlvcError):
    """A run that stopped on request."""


class DataError(RlvcError):
    """Data that cannot be learned from; ``problems`` lists what is wrong.

    >>> print(DataError("runs/log", ["There are no rows."]))
    runs/log has 1 problem:
      There are no rows.
    """

    def __init__(self, what: str, problems: Iterable[str], note: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__(what, self.problems, note)  # the arguments, for pickle

    def __str__(self) -> str:
        what, problems, note = self.args
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        lines = [f"{what} has {count}{f' ({note})' if note else ''}:", *problems[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"and {len(problems) - SHOWN} more")
        return "\n  ".join(lines)


def unknown_name(what: str, got: object, known: Iterable[str]) -> ValueError:
    """Return the error for an unknown name, with the nearest known one as a suggestion.

    >>> print(unknown_name("detector", "sfit", ["harris", "orb", "sift"]))
    Unknown detector 'sfit'. Did you mean 'sift'? Known: harris, orb, sift.
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"Unknown {what} {got!r}.{hint} Known: {', '.join(names)}.")
