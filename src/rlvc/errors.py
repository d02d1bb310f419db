"""The errors that a caller may want to catch, and the sentences they are written in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 50  # problems that the message of a DataError lists


class RlvcError(Exception):
    """Base class of the errors that rlvc raises on purpose."""


class FileFormatError(RlvcError):
    """A file that is damaged, of another format, or of a version that is not known here."""


class DamagedFileError(FileFormatError):
    """A file that rlvc wrote, of which bytes changed or are missing since."""


class InvalidFileError(FileFormatError):
    """A file that rlvc did not write, or of another format or version; or that does not make sense.

    Its bytes are as they were written, as far as can be told.
    """


class ImageError(RlvcError):
    """A picture that is missing or cannot be read."""


class DownloadError(RlvcError):
    """A file that could not be received, or not be written."""


class EnvError(RlvcError):
    """An environment that failed, or that does not do as Gymnasium has it."""


class StoppedError(RlvcError):
    """A run that was asked to stop, and did."""


class DataError(RlvcError):
    """Data that cannot be learned from; ``problems`` lists all that was found.

    >>> print(DataError("runs/log", ["There are no rows."]))
    runs/log has 1 problem:
      There are no rows.
    """

    def __init__(self, what: str, problems: Iterable[str], note: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__(what, self.problems, note)  # all that makes it, so that it can be pickled

    def __str__(self) -> str:
        what, problems, note = self.args
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        more = len(problems) - SHOWN
        return "\n  ".join(
            [
                f"{what} has {count}{f' ({note})' if note else ''}:",
                *problems[:SHOWN],
                *([f"and {more} more"] if more > 0 else []),
            ]
        )


def unknown_name(what: str, got: object, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is not known, with the nearest one as a suggestion.

    >>> print(unknown_name("detector", "sfit", ["harris", "orb", "sift"]))
    Unknown detector 'sfit'. Did you mean 'sift'? Known: harris, orb, sift.
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"Unknown {what} {got!r}.{hint} Known: {', '.join(names)}.")
