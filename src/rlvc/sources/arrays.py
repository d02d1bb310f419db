"""Interactions in one file of NumPy arrays."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rlvc.errors import DataError
from rlvc.interactions import Interactions, as_flags

ROWS = "rows are counted from 0"
NEEDED = ("observations", "actions", "rewards", "terminated", "next_observations")


def read_arrays(
    path: str | os.PathLike[str],
    *,
    n_actions: int | None = None,
    action_start: int = 0,
    action_names: tuple[str, ...] = (),
) -> Interactions:
    """Return the interactions of a ``.npz`` file; nothing in it can run.

    Its arrays are the arguments of :meth:`Interactions.from_arrays`: ``observations``,
    ``actions``, ``rewards``, ``terminated``, ``next_observations``, and ``truncated`` if you like.
    Observations of several cameras are ``observations.NAME``, and ``next_observations.NAME``.

    Raises:
        DataError: With all that is wrong with the arrays.
    """
    try:
        arrays = _load(path)
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, MemoryError) as error:
        raise DataError(
            f"{os.fspath(path)}", [f"It cannot be read as a .npz file: {error}"]
        ) from error
    given = {name: _of_cameras(arrays, name) for name in (*NEEDED, "truncated")}
    missing = [name for name in NEEDED if given[name] is None]
    if missing:
        has = ", ".join(arrays) or "none"
        problems = [f"The array {name!r} is missing; there are {has}." for name in missing]
        raise DataError(f"{os.fspath(path)}", problems)
    if problems := list(_misfits(given)):
        raise DataError(f"{os.fspath(path)}", problems, ROWS)
    is_last = as_flags(given["terminated"][-1:], "terminated")
    if given["truncated"] is not None:
        is_last = is_last | as_flags(given["truncated"][-1:], "truncated")
    if not is_last.all():
        problems.append(
            "The last episode has no end: neither terminated nor truncated in row "
            f"{len(given['actions']) - 1}. Set truncated there if it was cut off."
        )
    try:
        found = Interactions.from_arrays(
            given["observations"], given["actions"], given["rewards"], given["terminated"],
            given["truncated"], next_observations=given["next_observations"],
            n_actions=n_actions or (len(action_names) or None), action_start=action_start,
            action_names=action_names,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise DataError(f"{os.fspath(path)}", [*str(error).split("\n"), *problems], ROWS) from error
    if problems:
        raise DataError(f"{os.fspath(path)}", problems, ROWS)
    return found


def _misfits(given: dict[str, Any]) -> Iterator[str]:
    """Yield the columns that are of another kind or length, and the rewards that are no numbers."""
    n = len(given["actions"])
    for name in ("actions", "rewards", "terminated", "truncated"):
        if given[name] is not None and given[name].shape != (n,):
            yield (
                f"{name} must have one dimension and {n} entries, as actions; got shape "
                f"{given[name].shape}."
            )
    if given["actions"].dtype.kind not in "biu":
        yield f"actions must be integers; got {given['actions'].dtype}."
    if given["rewards"].dtype.kind not in "biuf":
        yield f"rewards must be numbers; got {given['rewards'].dtype}."
    for name in ("terminated", "truncated"):
        try:
            if given[name] is not None:
                as_flags(given[name], name)
        except (TypeError, ValueError) as error:
            yield str(error)


def _load(path: str | os.PathLike[str]) -> dict[str, Any]:
    with Path(path).open("rb") as stream:
        file = np.load(stream, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds one array without a name. Write it with numpy.savez.")
        return {name: file[name] for name in file.files}


def _of_cameras(arrays: dict[str, Any], name: str) -> Any:
    """Return the array of a name, or those of its cameras; None if there are none."""
    if name in arrays:
        return arrays[name]
    cameras = {key.removeprefix(f"{name}."): array for key, array in arrays.items()
               if key.startswith(f"{name}.")}  # fmt: skip
    return cameras or None
