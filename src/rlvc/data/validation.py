"""Checks of interactions and of the data that they come from; all errors are reported at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlvc.errors import DataError

if TYPE_CHECKING:
    from rlvc.data.interactions import Interactions

log = logging.getLogger(__name__)

SHOWN = 5  # rows that an error about arrays names
LISTED = 10  # rows that a problem of a file names
LETTERS = 60  # of a value that a message quotes
SMALL, LARGE = 1e-100, 1e100  # sizes of a reward whose squares and sums are still numbers
MOST_ACTIONS = 2**16

Given = ParamSpec("Given")
Values = TypeVar("Values")


class ErrorCollector:
    """Collect the errors of arrays, to raise all of them at once.

    >>> errors = ErrorCollector()
    >>> errors.read(int, "7"), errors.read(int, "seven"), errors.read(len, 7)
    (7, None, None)
    >>> errors.raise_all()
    Traceback (most recent call last):
    ValueError: invalid literal for int() with base 10: 'seven'
    object of type 'int' has no len()
    """

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def add(self, *errors: Exception) -> None:
        """Add errors."""
        self._errors += errors

    def read(
        self, convert: Callable[Given, Values], *args: Given.args, **kwargs: Given.kwargs
    ) -> Values | None:
        """Return the value of a conversion; if it raises an error, add that and return None."""
        try:
            return convert(*args, **kwargs)
        except (TypeError, ValueError) as error:
            self.add(error)
            return None

    def raise_all(self) -> None:
        """Raise all errors as one: a TypeError if all of them are, else a ValueError."""
        if self._errors:
            is_type = all(isinstance(error, TypeError) for error in self._errors)
            raise (TypeError if is_type else ValueError)("\n".join(map(str, self._errors)))


class ProblemCollector:
    """Collect the problems of a file or folder, a sentence each, to list all of them in one error.

    A problem of many rows is one sentence. People count rows from 1.

    >>> problems = ProblemCollector("runs/log")
    >>> problems.at("reward is not finite", [2, 7, 14], ["nan", "inf", "nan"])
    >>> problems.found
    ['reward is not finite in rows 3, 8 and 15 (nan, inf, nan).']
    """

    def __init__(self, source: str, note: str = "") -> None:
        self.source, self.note = source, note
        self.found: list[str] = []
        self._has_rows = False

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, sentence: str, *, has_rows: bool = False) -> None:
        """Add a problem, and tell whether it names rows."""
        self.found.append(sentence)
        self._has_rows |= has_rows

    def at(
        self, fact: str, rows: Iterable[int], values: Iterable[str] = (), *, cure: str = ""
    ) -> None:
        """Add a problem of rows, counted from 0, and their values; without rows, do nothing."""
        where = [row + 1 for row in rows]
        if not where:
            return
        quoted = [shorten(value) for value in values]
        if len(quoted) > LISTED:
            quoted[LISTED:] = ["…"]
        shown = f" ({', '.join(quoted)})" if quoted else ""
        sentence = f"{fact} in {name_rows(where, LISTED)}{shown}.{f' {cure}' if cure else ''}"
        self.add(sentence, has_rows=True)

    def error(self) -> DataError:
        """Return the error that lists all problems."""
        return DataError(self.source, self.found, self.note if self._has_rows else "")


def check_lengths(n: int, columns: dict[str, NDArray[Any]]) -> Iterator[ValueError]:
    """Yield an error for each column that does not have n entries."""
    for name, column in columns.items():
        shape = np.shape(column)
        if shape != (n,):
            got = shape[0] if len(shape) == 1 else f"shape {shape}"
            yield ValueError(f"{name} of Interactions must have {n} entries; got {got}.")


def check_rewards(reward: NDArray[np.float64]) -> Iterator[ValueError]:
    """Yield an error for rewards from which no policy can be computed."""
    if reward.ndim != 1:
        return
    is_finite = np.isfinite(reward)
    if not is_finite.all():
        yield ValueError(
            f"reward of Interactions must be finite; got {quote_rows(reward, ~is_finite)}. "
            "Correct it, or leave the episode out."
        )
    size = np.abs(reward)
    is_extreme = is_finite & (reward != 0) & ((size > LARGE) | (size < SMALL))
    if is_extreme.any():
        yield ValueError(
            "reward of Interactions must be 0 or between 1e-100 and 1e100 in size; got "
            f"{quote_rows(reward, is_extreme)}. Scale the rewards: policies do not change."
        )


def check_numbers(
    name: str, numbers: NDArray[np.int64], first: int, limit: int, cure: str = ""
) -> Iterator[ValueError]:
    """Yield an error for numbers that are not in 0..limit - 1; messages count from ``first``."""
    if numbers.ndim != 1:
        return
    is_wrong = (numbers < 0) | (numbers >= limit)
    if is_wrong.any():
        yield ValueError(
            f"{name} of Interactions must be in {first}..{first + limit - 1}; "
            f"got {quote_rows(numbers + first, is_wrong)}.{f' {cure}' if cure else ''}"
        )


def check_actions(n_actions: int, names: tuple[str, ...]) -> Iterator[ValueError]:
    """Yield an error for a number of actions out of range, or that differs from that of names."""
    if names and len(names) != n_actions:
        yield ValueError(
            f"action_names of Interactions must name {n_actions} actions; got {len(names)}."
        )
    if not 1 <= n_actions <= MOST_ACTIONS:
        yield ValueError(
            f"n_actions of Interactions must be between 1 and {MOST_ACTIONS}; got {n_actions}. "
            "Number the actions from 0, and say how many there are."
        )


def check_episodes(interactions: Interactions) -> list[str]:
    """Return what keeps interactions from being whole episodes, one after the other."""
    episode, n = interactions.episode, len(interactions)
    is_last = np.ones(n, np.bool_)
    is_last[:-1] = episode[1:] != episode[:-1]
    ends = interactions.terminated | interactions.truncated
    problems = [
        f"episode {episode[row]} has no end: row {row} is neither terminated nor truncated."
        for row in np.flatnonzero(is_last & ~ends)
    ]
    breaks = ~is_last & ~ends
    breaks[:-1] &= interactions.start[1:] != interactions.end[:-1]
    problems += [
        f"row {row + 1} does not start where row {row} ended, in the same episode."
        for row in np.flatnonzero(breaks)
    ]
    problems += [
        f"episode {episode[row]} goes on after its end in row {row}."
        for row in np.flatnonzero(~is_last & ends)
    ]
    return problems


def warn_if_suspicious(interactions: Interactions) -> None:
    """Warn of interactions that are valid, but never terminate or do not follow one another."""
    if not interactions.terminated.any():
        log.warning(
            "Nothing is terminal: terminated is false in every row. If the task comes to an end, "
            "set it where it does; otherwise rewards are expected to go on for ever."
        )
    ends = interactions.terminated | interactions.truncated
    broken = np.count_nonzero(interactions.is_last[:-1] & ~ends[:-1])
    if broken:
        log.warning(
            "%d rows do not start where the row before them ended, though no episode ended there. "
            "Each row is learned from for itself; if they should follow one another, sort them by "
            "episode and step.",
            broken,
        )


def quote_rows(values: NDArray[Any], is_wrong: NDArray[np.bool_]) -> str:
    """Return the first few wrong values and their rows.

    >>> quote_rows(np.array([0.0, np.nan, np.inf]), np.array([False, True, True]))
    'nan in row 1, inf in row 2'
    """
    rows = np.flatnonzero(is_wrong)
    shown = ", ".join(f"{values[row]} in row {row}" for row in rows[:SHOWN])
    return f"{shown} and {len(rows) - SHOWN} more" if len(rows) > SHOWN else shown


def name_rows(rows: Sequence[int], most: int = SHOWN) -> str:
    """Return the numbers of the first few rows in words.

    >>> name_rows([2]), name_rows([2, 7, 14]), name_rows(range(9))
    ('row 2', 'rows 2, 7 and 14', 'rows 0, 1, 2, 3, 4 and 4 more')
    """
    names = [str(row) for row in rows[:most]]
    last = f"{len(rows) - most} more" if len(rows) > most else names.pop()
    return f"rows {', '.join(names)} and {last}" if names else f"row {last}"


def shorten(text: str) -> str:
    """Return a text that is quoted, cut if it is long."""
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
