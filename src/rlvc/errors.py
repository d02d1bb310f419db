"""The errors that a caller may want to catch, and the sentences they are written in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RlvcError(Exception):
    """Base class of the errors that rlvc raises on purpose."""


class FileFormatError(RlvcError):
    """A file that is damaged, of another format, or of a version that is not known here."""


class PictureError(RlvcError):
    """A picture that is missing or cannot be read."""


class DownloadError(RlvcError):
    """A file that could not be received, or not be written."""


def unknown(what: str, got: object, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is not known, with the nearest one as a suggestion.

    >>> print(unknown("detector", "sfit", ["harris", "orb", "sift"]))
    Unknown detector 'sfit'. Did you mean 'sift'? Known: harris, orb, sift.
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"Unknown {what} {got!r}.{hint} Known: {', '.join(names)}.")
