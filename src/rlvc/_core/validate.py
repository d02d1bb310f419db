"""What a file says is checked before it is believed; these are the words for it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from rlvc._core.registry import Registry
from rlvc.errors import InvalidFileError

LONGEST: Final = 1000  # letters of a name
LARGEST: Final = 1e100  # of numbers that are squared
MOST_SHOWN: Final = 300  # letters of what is wrong with a file

Part = TypeVar("Part")


@contextmanager
def refusing(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn whatever is wrong with what a file holds into an InvalidFileError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidFileError(
            f"{os.fspath(path)} does not hold a {what}: {why[:MOST_SHOWN]}"
        ) from error


def must(holds: Any, what: str) -> None:
    """Raise a ValueError unless a part of a file fits the rest."""
    if not holds:
        raise ValueError(f"its {what} do not fit the rest")


def as_int(value: Any) -> int:
    """Return an integer that fits in 64 bits, or raise a ValueError.

    >>> as_int(3.0)
    Traceback (most recent call last):
    ValueError: it has 3.0 where an integer must be
    """
    if type(value) is not int or abs(value) >= 2**63:
        raise ValueError(f"it has {_short(value)} where an integer must be")
    return value


def as_number(value: Any) -> float:
    """Return a finite number, or raise a ValueError."""
    if type(value) not in (int, float) or not abs(value) < math.inf:
        raise ValueError(f"it has {_short(value)} where a number must be")
    return float(value)


def as_text(value: Any, longest: int = LONGEST) -> str:
    """Return a text that is not too long, or raise a ValueError."""
    if type(value) is not str or len(value) > longest:
        raise ValueError(f"it has {_short(value)} where a text of {longest} letters must be")
    return value


def as_part(registry: Registry[Part], description: Any) -> Part:
    """Return the part that :meth:`rlvc._core.registry.Registry.describe` described."""
    parameters: dict[str, Any] = {}
    must(isinstance(description["parameters"], Mapping), f"{registry.kind}s")
    for name, value in description["parameters"].items():
        if type(value) is int:
            as_int(value)
        elif type(value) is str:
            as_text(value)
        elif type(value) is not bool and value is not None:
            as_number(value)
        parameters[as_text(name)] = value
    return registry.make(as_text(description["name"]), **parameters)


def _short(value: Any) -> str:
    """Return what to call a value: any number of its letters may be wrong."""
    if type(value) in (bool, float, type(None)):
        return repr(value)
    if type(value) is str and len(value) <= 40:
        return repr(value)
    return f"a {type(value).__name__}"
