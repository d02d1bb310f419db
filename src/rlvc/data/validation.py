"""Checks of interactions and of the data that they come from, which report all errors at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.errors import DataError

if TYPE_CHECKING:
    from rlvc.data.interactions import Interactions

log = logging.getLogger(__name__)

SHOWN = 5  # rows that an error about arrays names
LISTED = 10  # rows that a problem of a file names
MAX_QUOTED = 60  # characters of a value in a message
SMALL, LARGE = 1e-100, 1e100  # sizes of rewards whose squares and sums neither under- nor overflow
MAX_ACTIONS = 2**16

EMPTY = "Interactions must hold at least one interaction; got none."
ACTIONS_CURE = "Correct it, or the number of actions."

# The parameter of ``Interactions.from_arrays`` for a column, its type, the kinds of arrays that are
# accepted, and what they are called.
_COLUMNS: dict[str, tuple[str, type[np.generic], str, str]] = {
    "action": ("actions", np.int64, "biu", "integers, the numbers of the actions taken"),
    "reward": ("rewards", np.float64, "biuf", "numbers"),
    "terminated": ("terminated", np.bool_, "biuf", "true or false"),
    "truncated": ("truncated", np.bool_, "biuf", "true or false"),
}

Flaw = tuple[str, Bools, str]  # what values must be, which of them are not, and the cure


def raise_all(errors: Sequence[Exception]) -> None:
    """Raise errors as one, if there are any: a TypeError if all of them are, else a ValueError.

    >>> raise_all([ValueError("One thing is wrong."), TypeError("So is another.")])
    Traceback (most recent call last):
    ValueError: One thing is wrong.
    So is another.
    """
    if errors:
        is_type = all(isinstance(error, TypeError) for error in errors)
        raise (TypeError if is_type else ValueError)("\n".join(map(str, errors)))


class ProblemCollector:
    """Collect the problems of a data source, one sentence each, to list them in one error.

    A problem of many rows is one sentence. People count the rows of files from 1.

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

    def add(self, *problems: object, has_rows: bool = False) -> None:
        """Add problems, which are sentences or errors; ``has_rows`` if they name rows."""
        self.found += map(str, problems)
        self._has_rows |= has_rows

    def at(
        self,
        fact: str,
        rows: Iterable[int],
        values: Iterable[object] = (),
        *,
        cure: str = "",
        episode: int | None = None,
    ) -> None:
        """Add a problem of rows, or of an episode's steps, with their values; none if no rows.

        Rows and steps are counted from 0.
        """
        is_file = episode is None
        where = [row + 1 if is_file else row for row in rows]
        if where:
            quoted = [shorten(str(value)) for value in values]
            if len(quoted) > LISTED:
                quoted[LISTED:] = ["…"]
            place = name_rows(where, LISTED, "row" if is_file else "step")
            place += "" if is_file else f" of episode {episode}"
            place += f" ({', '.join(quoted)})" if quoted else ""
            self.add(f"{fact} in {place}. {cure}".rstrip(), has_rows=is_file)

    def error(self) -> DataError:
        """Return the error that lists all problems."""
        return DataError(self.source, self.found, self.note if self._has_rows else "")


def read_columns(
    given: Mapping[str, ArrayLike], n: int, is_even: bool, errors: list[Exception]
) -> dict[str, NDArray[Any]]:
    """Return the columns of ``from_arrays`` as arrays; zeros stand for one that has errors.

    There must be ``n`` rows, or as many as actions if observations and next observations differ.
    """
    columns = dict[str, NDArray[Any]]()
    for name, values in given.items():
        try:
            columns[name] = as_column(values, name)
        except (TypeError, ValueError) as error:
            errors.append(error)
    if not is_even and "action" in columns and columns["action"].ndim == 1:
        n = len(columns["action"])
    if n == 0:
        errors.append(ValueError(EMPTY))
    errors += check_lengths(n, columns)
    return {
        name: columns[name] if name in columns and columns[name].ndim == 1 else np.zeros(n, kind)
        for name, (_, kind, *_) in _COLUMNS.items()
    }


def as_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return a column of ``from_arrays`` as an array of its type.

    >>> as_column([0, 1.0], "terminated").tolist(), as_column([True, False], "reward").tolist()
    ([False, True], [1.0, 0.0])
    >>> as_column(["True", "False"], "terminated")
    Traceback (most recent call last):
    TypeError: terminated of from_arrays must be true or false; got <U5, such as 'True'.
    """
    whose, dtype, kinds, what = _COLUMNS[name]
    try:
        given = np.asarray(values)
    except ValueError as error:  # NumPy speaks of an inhomogeneous shape
        raise ValueError(
            f"{whose} of from_arrays must have one entry per row; got rows of different lengths."
        ) from error
    if given.size and given.dtype.kind not in kinds:
        first = shorten(repr(given.ravel()[:1].tolist()[0]))
        raise TypeError(
            f"{whose} of from_arrays must be {what}; got {given.dtype}, such as {first}."
        )
    if given.size and dtype is np.bool_:
        is_wrong = ((given != 0) & (given != 1)).ravel()
        if is_wrong.any():
            got = quote_rows(given.ravel(), is_wrong)
            raise ValueError(f"{whose} of from_arrays must be 0 or 1; got {got}.")
    if given.dtype == np.uint64 and dtype is np.int64:
        given = np.minimum(given, np.iinfo(np.int64).max)  # an invalid action all the same
    with np.errstate(over="ignore"):  # rewards that are too large become infinite
        return given.astype(dtype)


def check_lengths(n: int, columns: Mapping[str, NDArray[Any]]) -> Iterator[ValueError]:
    """Yield an error for each column that does not have n entries."""
    for name, column in columns.items():
        shape = np.shape(column)
        if shape != (n,):
            got = shape[0] if len(shape) == 1 else f"shape {shape}"
            yield ValueError(f"{name} of Interactions must have {n} entries; got {got}.")


def find_bad_rewards(reward: Floats) -> Iterator[Flaw]:
    """Yield the flaws of rewards from which no policy can be computed."""
    is_finite, size = np.isfinite(reward), np.abs(reward)
    yield "finite", ~is_finite, "Correct it, or leave the episode out."
    is_extreme = is_finite & (reward != 0) & ((size > LARGE) | (size < SMALL))
    cure = "Scale the rewards: policies do not change."
    yield "0 or between 1e-100 and 1e100 in size", is_extreme, cure


def find_out_of_range(numbers: Ints, first: int, n: int, cure: str = "") -> Flaw:
    """Return the flaw of numbers that are not among the ``n`` from ``first`` on."""
    return f"in {first}..{first + n - 1}", (numbers < first) | (numbers >= first + n), cure


def check_flaws(name: str, values: NDArray[Any], flaws: Iterable[Flaw]) -> Iterator[ValueError]:
    """Yield an error for each flaw that a column has."""
    for demand, is_wrong, cure in flaws:
        if is_wrong.any():
            got = quote_rows(values, is_wrong)
            yield ValueError(f"{name} of Interactions must be {demand}; got {got}. {cure}".rstrip())


def check_values(
    action: Ints, reward: Floats, n_actions: int, action_start: int, action_names: tuple[str, ...]
) -> Iterator[ValueError]:
    """Yield the errors of actions, counted from 0, and of rewards."""
    yield from check_actions(n_actions, action_names)
    yield from check_flaws("reward", reward, find_bad_rewards(reward))
    number = action + action_start
    flaw = find_out_of_range(number, action_start, n_actions, ACTIONS_CURE)
    yield from check_flaws("action", number, [flaw])


def check_actions(
    n_actions: int, names: tuple[str, ...], whose: str = "Interactions"
) -> Iterator[ValueError]:
    """Yield an error for a number of actions out of range, or other than the number of names."""
    if names and len(names) != n_actions:
        yield ValueError(
            f"action_names of {whose} must name {n_actions} actions; got {len(names)}. "
            "Name all or none."
        )
    if not 1 <= n_actions <= MAX_ACTIONS:
        yield ValueError(
            f"n_actions of {whose} must be between 1 and {MAX_ACTIONS}; got {n_actions}. "
            "Number the actions from 0, and set n_actions to how many there are."
        )


def check_episodes(interactions: Interactions) -> list[str]:
    """Return the reasons why interactions are not complete episodes, one after the other."""
    episode = interactions.episode
    is_last = np.append(episode[1:] != episode[:-1], True)
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
        f"episode {episode[row]} continues after its end in row {row}."
        for row in np.flatnonzero(~is_last & ends)
    ]
    return problems


def warn_if_suspicious(interactions: Interactions) -> None:
    """Warn of interactions that are valid, but never terminate or are not consecutive."""
    if not interactions.terminated.any():
        log.warning(
            "Nothing is terminal: terminated is false in every row. If the task has an end, set it "
            "in that row; otherwise rewards are assumed to continue forever."
        )
    ends = interactions.terminated | interactions.truncated
    broken = np.count_nonzero(interactions.is_last[:-1] & ~ends[:-1])
    if broken:
        log.warning(
            "%d rows do not start where the row before them ended, though no episode ended there. "
            "Each row is learned from on its own; if rows should be consecutive, sort them by "
            "episode and step.",
            broken,
        )


def quote_rows(values: NDArray[Any], is_wrong: Bools) -> str:
    """Return the first few wrong values and their rows.

    >>> quote_rows(np.array([0.0, np.nan, np.inf]), np.array([False, True, True]))
    'nan in row 1, inf in row 2'
    """
    rows = np.flatnonzero(is_wrong)
    shown = ", ".join(f"{values[row]} in row {row}" for row in rows[:SHOWN])
    return f"{shown} and {len(rows) - SHOWN} more" if len(rows) > SHOWN else shown


def name_rows(rows: Sequence[int], most: int = SHOWN, unit: str = "row") -> str:
    """Return the numbers of the first few rows in words.

    >>> name_rows([2]), name_rows([2, 7, 14]), name_rows(range(9), unit="step")
    ('row 2', 'rows 2, 7 and 14', 'steps 0, 1, 2, 3, 4 and 4 more')
    """
    names = [str(row) for row in rows[:most]]
    last = f"{len(rows) - most} more" if len(rows) > most else names.pop()
    return f"{unit}s {', '.join(names)} and {last}" if names else f"{unit} {last}"


def shorten(text: str) -> str:
    """Return a text to quote, truncated if it is long."""
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"
