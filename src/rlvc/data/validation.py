"""The columns of interactions: what they may hold, and all that is wrong with them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHOWN = 5  # rows that one sentence names
LETTERS = 60  # that it quotes of a value
SMALL, LARGE = 1e-100, 1e100  # sizes of a reward whose squares and sums still are numbers

Given = ParamSpec("Given")
Values = TypeVar("Values")


class ErrorCollector:
    """What is wrong with data, gathered so that all of it is raised at once.

    >>> wrong = ErrorCollector()
    >>> wrong.read(as_flags, [0, 2], "terminated"), wrong.read(as_rewards, ["much"])
    (None, None)
    >>> wrong.raise_all()
    Traceback (most recent call last):
    ValueError: terminated of from_arrays must be 0 or 1; got 2 in row 1.
    rewards of from_arrays must be numbers; got <U4, such as 'much'.
    """

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def add(self, *errors: Exception) -> None:
        """Note what is wrong."""
        self._errors += errors

    def read(
        self, convert: Callable[Given, Values], *args: Given.args, **kwargs: Given.kwargs
    ) -> Values | None:
        """Return what a function makes of a column; None if it refuses, which is noted."""
        try:
            return convert(*args, **kwargs)
        except (TypeError, ValueError) as error:
            self.add(error)
            return None

    def raise_all(self) -> None:
        """Raise all that was noted: a TypeError if nothing but types is wrong."""
        if self._errors:
            is_type = all(isinstance(error, TypeError) for error in self._errors)
            raise (TypeError if is_type else ValueError)("\n".join(map(str, self._errors)))


def as_flags(values: ArrayLike, whose: str) -> NDArray[np.bool_]:
    """Return truth values; numbers that are 0 or 1 are taken for them, and nothing else.

    >>> as_flags([0, 1.0], "terminated").tolist()
    [False, True]
    >>> as_flags(["True", "False"], "terminated")
    Traceback (most recent call last):
    TypeError: terminated of from_arrays must be true or false; got <U5, such as 'True'.
    """
    given = _as_array(values, whose)
    if given.dtype == np.bool_ or given.size == 0:
        return given.astype(np.bool_)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{whose} of from_arrays must be true or false; got {_kind(given)}.")
    is_wrong = (given != 0) & (given != 1)
    if is_wrong.any():
        raise ValueError(
            f"{whose} of from_arrays must be 0 or 1; got {held(given.ravel(), is_wrong.ravel())}."
        )
    return given.astype(np.bool_)


def as_actions(values: ArrayLike) -> NDArray[np.int64]:
    """Return whole numbers.

    >>> as_actions([0.5, 1.0])
    Traceback (most recent call last):
    TypeError: actions of from_arrays must be integers; got float64. Number the actions that ...
    """
    given = _as_array(values, "actions")
    if given.size and given.dtype.kind not in "biu":
        raise TypeError(
            f"actions of from_arrays must be integers; got {given.dtype}. "
            "Number the actions that were taken."
        )
    highest = np.iinfo(np.int64).max  # what is beyond it is outside any space
    return np.asarray(np.minimum(given, highest), np.int64)


def as_rewards(values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers; texts that look like numbers are none.

    >>> as_rewards([True, False]).tolist()
    [1.0, 0.0]
    """
    given = _as_array(values, "rewards")
    if given.size and given.dtype.kind not in "biuf":
        raise TypeError(f"rewards of from_arrays must be numbers; got {_kind(given)}.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is found as that
        return given.astype(np.float64)


def check_lengths(n: int, columns: dict[str, NDArray[Any]]) -> Iterator[ValueError]:
    """Yield the columns that have not one entry for each of n rows."""
    for name, column in columns.items():
        shape = np.shape(column)
        if shape != (n,):
            got = shape[0] if len(shape) == 1 else f"shape {shape}"
            yield ValueError(f"{name} of Interactions must have {n} entries; got {got}.")


def check_rewards(reward: NDArray[np.float64]) -> Iterator[ValueError]:
    """Yield what is wrong with a column of rewards, from which no policy could be computed."""
    if reward.ndim != 1:
        return
    is_finite = np.isfinite(reward)
    if not is_finite.all():
        yield ValueError(
            f"reward of Interactions must be finite; got {held(reward, ~is_finite)}. "
            "Correct it, or leave the episode out."
        )
    size = np.abs(reward)
    is_extreme = is_finite & (reward != 0) & ((size > LARGE) | (size < SMALL))
    if is_extreme.any():
        yield ValueError(
            "reward of Interactions must be 0 or between 1e-100 and 1e100 in size; got "
            f"{held(reward, is_extreme)}. Scale the rewards: policies do not change."
        )


def check_numbers(
    name: str, numbers: NDArray[np.int64], first: int, limit: int, cure: str = ""
) -> Iterator[ValueError]:
    """Yield the numbers of a column, from 0, that are not below a limit; 0 is called ``first``."""
    if numbers.ndim != 1:
        return
    is_wrong = (numbers < 0) | (numbers >= limit)
    if is_wrong.any():
        yield ValueError(
            f"{name} of Interactions must be in {first}..{first + limit - 1}; "
            f"got {held(numbers + first, is_wrong)}.{f' {cure}' if cure else ''}"
        )


def held(values: NDArray[Any], is_wrong: NDArray[np.bool_]) -> str:
    """Return wrong values and the rows that they are in, the first few.

    >>> held(np.array([0.0, np.nan, np.inf]), np.array([False, True, True]))
    'nan in row 1, inf in row 2'
    """
    rows = np.flatnonzero(is_wrong)
    shown = ", ".join(f"{values[row]} in row {row}" for row in rows[:SHOWN])
    return f"{shown} and {len(rows) - SHOWN} more" if len(rows) > SHOWN else shown


def name_rows(rows: Sequence[int]) -> str:
    """Return what to call some rows, counted from 0, the first few.

    >>> name_rows([2]), name_rows([2, 7, 14]), name_rows(range(9))
    ('row 2', 'rows 2, 7 and 14', 'rows 0, 1, 2, 3, 4 and 4 more')
    """
    names = [str(row) for row in rows[:SHOWN]]
    last = f"{len(rows) - SHOWN} more" if len(rows) > SHOWN else names.pop()
    return f"rows {', '.join(names)} and {last}" if names else f"row {last}"


def _as_array(values: ArrayLike, whose: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:  # NumPy speaks of an inhomogeneous shape
        raise ValueError(
            f"{whose} of from_arrays must have one entry per row; got rows of different lengths."
        ) from error


def _kind(given: NDArray[Any]) -> str:
    """Return the type of an array and its first entry, as far as a sentence can hold it."""
    first = repr(given.flat[0].item() if given.dtype.kind != "O" else given.flat[0])
    shown = first if len(first) <= LETTERS else f"{first[: LETTERS - 1]}…"
    return f"{given.dtype}, such as {shown}"
