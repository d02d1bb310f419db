"""The columns of ``Interactions.from_arrays``: what is accepted, and as which arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvc._core.arrays import Bools
from rlvc.data.validation import ErrorCollector, check_lengths, quote_rows, shorten

EMPTY = "Interactions must hold at least one interaction; got none."


def read_columns(
    errors: ErrorCollector,
    n: int,
    is_even: bool,
    actions: ArrayLike,
    rewards: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike | None,
) -> tuple[NDArray[Any], NDArray[Any], Bools, Bools]:
    """Return the columns of ``from_arrays`` as arrays; zeros stand for one that has errors.

    There must be ``n`` rows; unless the observations are even, as many as there are actions.
    """
    given: dict[str, NDArray[Any] | None] = {
        "action": errors.read(as_actions, actions),
        "reward": errors.read(as_rewards, rewards),
        "terminated": errors.read(as_flags, terminated, "terminated"),
        "truncated": None if truncated is None else errors.read(as_flags, truncated, "truncated"),
    }
    counted = given["action"]
    if not is_even and counted is not None and counted.ndim == 1:
        n = len(counted)
    columns = {name: np.zeros(n) if one is None else one for name, one in given.items()}
    errors.add(*([] if n else [ValueError(EMPTY)]), *check_lengths(n, columns))
    action, reward, ends, cut = columns.values()
    return action, reward, ends.astype(np.bool_), cut.astype(np.bool_)


def as_flags(values: ArrayLike, whose: str) -> NDArray[np.bool_]:
    """Return Booleans; the numbers 0 and 1 are accepted, other values are not.

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
            f"{whose} of from_arrays must be 0 or 1; "
            f"got {quote_rows(given.ravel(), is_wrong.ravel())}."
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
    highest = np.iinfo(np.int64).max  # larger numbers are outside any action space
    return np.asarray(np.minimum(given, highest), np.int64)


def as_rewards(values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers; texts that look like numbers are refused.

    >>> as_rewards([True, False]).tolist()
    [1.0, 0.0]
    """
    given = _as_array(values, "rewards")
    if given.size and given.dtype.kind not in "biuf":
        raise TypeError(f"rewards of from_arrays must be numbers; got {_kind(given)}.")
    with np.errstate(over="ignore"):  # too large values become infinite, which check_rewards finds
        return given.astype(np.float64)


def _as_array(values: ArrayLike, whose: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:  # NumPy speaks of an inhomogeneous shape
        raise ValueError(
            f"{whose} of from_arrays must have one entry per row; got rows of different lengths."
        ) from error


def _kind(given: NDArray[Any]) -> str:
    """Return the type of an array and its first entry."""
    first = repr(given.flat[0].item() if given.dtype.kind != "O" else given.flat[0])
    return f"{given.dtype}, such as {shorten(first)}"
