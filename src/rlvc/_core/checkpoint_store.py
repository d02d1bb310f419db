"""What long work keeps on its way, so that it can be gone on with after it was stopped.

Work asks for a part by its name before it makes it. What is found there was made by the same work
on the same data, and must be checked against that as far as it can be: a name proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from rlvc.errors import InvalidFileError

Part = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # a manifest and arrays


class CheckpointStore(Protocol):
    """Keep parts under names."""

    def find(self, name: str) -> Part | None:
        """Return a part that was kept; None if there is none of this name."""
        ...

    def keep(
        self, name: str, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Keep a part: it is all there from now on, or not at all."""
        ...


class NullStore:
    """Keep nothing."""

    def find(self, name: str) -> Part | None:
        """Return None."""
        return None

    def keep(
        self, name: str, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Do nothing."""


NULL_STORE: Final = NullStore()


class PrefixedStore:
    """A part of what is kept, whose names begin alike.

    >>> PrefixedStore(NULL_STORE, "learn").find("stage-0") is None
    True
    """

    def __init__(self, store: CheckpointStore, name: str) -> None:
        self._keeper, self._name = store, name.replace(" ", "-")

    def find(self, name: str) -> Part | None:
        """Return a part of the section."""
        return self._keeper.find(f"{self._name}-{name}")

    def keep(
        self, name: str, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Keep a part of the section."""
        self._keeper.keep(f"{self._name}-{name}", manifest, arrays)


def fits(holds: Any, what: str) -> None:
    """Raise an InvalidFileError unless what was kept fits the work that goes on with it."""
    if not holds:
        raise InvalidFileError(
            f"The {what} that were kept of this run are not those that it has now: its data, its "
            "settings or its packages have changed. Begin anew with --overwrite."
        )


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Let whatever goes wrong with reading a part count as not fitting."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        fits(False, what)
