"""Check the content of a file before it is used."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from rlvc._core.registry import Registry
from rlvc.errors import InvalidFileError

MAX_TEXT: Final = 1000  # characters of a name
MAX_SQUARED: Final = 1e100  # the largest number that is squared
MAX_COUNT: Final = 2**40  # of anything that is counted
MAX_SHOWN: Final = 300  # characters of an error about a file

# What unexpected content causes.
CONTENT_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)

Count = Annotated[int, "count"]  # an integer from 0 to MAX_COUNT
Part = TypeVar("Part")


@contextmanager
def explain_invalid(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn any error about the content of a file into an InvalidFileError."""
    try:
        yield
    except CONTENT_ERRORS as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidFileError(
            f"{os.fspath(path)} does not hold a {what}: {why[:MAX_SHOWN]}"
        ) from error


def require(holds: Any, what: str) -> None:
    """Raise a ValueError unless a part of a file fits the rest."""
    if not holds:
        raise ValueError(f"its {what} do not fit the rest")


_PLAIN: Final[dict[Any, tuple[str, Callable[[Any], bool]]]] = {
    int: ("an integer", lambda value: type(value) is int and abs(value) < 2**63),
    float: ("a number", lambda value: type(value) in (int, float) and abs(value) < math.inf),
    bool: ("true or false", lambda value: type(value) is bool),
    str: (
        f"a string of at most {MAX_TEXT} characters",
        lambda value: type(value) is str and len(value) <= MAX_TEXT,
    ),
}


def from_json(kind: Any, value: Any) -> Any:
    """Return a value of a type, given what ``dataclasses.asdict`` and JSON made of it.

    Types are plain ones, tuples, mappings from texts, dataclasses of these, and ``| None``; numbers
    must be finite. Any other value raises an error, which :func:`explain_invalid` explains.

    >>> from_json(tuple[int, ...], [1, 2]), from_json(float | None, 3)
    ((1, 2), 3.0)
    >>> from_json(int, 3.0)
    Traceback (most recent call last):
    ValueError: it has 3.0 where an integer is expected
    """
    if kind in _PLAIN:
        what, is_one = _PLAIN[kind]
        if not is_one(value):
            raise ValueError(f"it has {_short(value)} where {what} is expected")
        return kind(value)
    if kind is Count:
        require(0 <= from_json(int, value) <= MAX_COUNT, "counts")
        return value
    if kind is Any:
        return value
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else from_json(inner[0], value)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"it has {_short(value)} where a list is expected")
        kinds = inner[:1] * len(value) if inner[-1] is ... else inner
        if len(kinds) != len(value):
            raise ValueError(f"a list has {len(value)} entries, not {len(kinds)}")
        return tuple(map(from_json, kinds, value))
    if not isinstance(value, dict):
        raise ValueError(f"it has {_short(value)} where an object is expected")
    if origin is Mapping:
        return {from_json(str, name): from_json(inner[1], one) for name, one in value.items()}
    given = {
        name: from_json(hint, value[name])
        for name, hint, is_optional in _fields(kind)
        if name in value or not is_optional
    }
    return kind(**given)


@functools.cache
def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    """Return the name, the type and whether there is a default, of the fields of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    missing = dataclasses.MISSING
    return [(f.name, hints[f.name], f.default is not missing) for f in dataclasses.fields(kind)]


def as_part(registry: Registry[Part], description: Any) -> Part:
    """Return the part that :meth:`rlvc._core.registry.Registry.describe` described."""
    parameters: dict[str, Any] = {}
    require(isinstance(description["parameters"], Mapping), f"{registry.kind}s")
    for name, value in description["parameters"].items():
        kind = type(value) if type(value) in _PLAIN else float
        parameters[from_json(str, name)] = from_json(kind | None, value)
    return registry.make(from_json(str, description["name"]), **parameters)


def _short(value: Any) -> str:
    """Return how an error shows a value, which may be very long."""
    if type(value) in (bool, float, type(None)) or (type(value) is str and len(value) <= 40):
        return repr(value)
    return f"a {type(value).__name__}"
