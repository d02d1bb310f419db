"""Stores of checkpoints, from which a run resumes.

A run looks for a record by its name before it computes the content. Records come from the same run
on the same data, which is checked as far as possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from numpy.typing import NDArray

from rlvc._core.arrays import Arrays
from rlvc._core.validate import CONTENT_ERRORS
from rlvc.errors import InvalidFileError

Record = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # a manifest and arrays


class CheckpointStore:
    """Save records under names, and load them; the base class saves nothing."""

    def load(self, name: str) -> Record | None:
        """Return the record of this name; None if there is none."""
        return None

    def save(self, name: str, manifest: Mapping[str, Any], arrays: Arrays) -> None:
        """Save a record; the write is atomic."""


NULL_STORE: Final = CheckpointStore()


class PrefixedStore(CheckpointStore):
    """The records of a store whose names begin with a prefix.

    >>> PrefixedStore(NULL_STORE, "learn").load("stage-0") is None
    True
    """

    def __init__(self, store: CheckpointStore, name: str) -> None:
        self._store, self._name = store, name.replace(" ", "-")

    def load(self, name: str) -> Record | None:
        """Return the record whose name is the prefix and this name."""
        return self._store.load(f"{self._name}-{name}")

    def save(self, name: str, manifest: Mapping[str, Any], arrays: Arrays) -> None:
        """Save a record under the prefix and this name."""
        self._store.save(f"{self._name}-{name}", manifest, arrays)


def require_same(holds: Any, what: str) -> None:
    """Raise an InvalidFileError unless a record is one of the run that resumes."""
    if not holds:
        raise InvalidFileError(
            f"The saved {what} of this run do not match the current ones: its data, its settings "
            "or its packages have changed. Start over with --overwrite."
        )


@contextmanager
def explain_mismatch(what: str) -> Iterator[None]:
    """Turn any error about the content of a record into an InvalidFileError."""
    try:
        yield
    except CONTENT_ERRORS:
        require_same(False, what)
