"""Interactions in one file of NumPy arrays."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rlvc.errors import DataError
from rlvc.interactions import Interactions

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
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(
            f"{os.fspath(path)}", [f"It cannot be read as a .npz file: {error}"]
        ) from error
    given = {name: _of_cameras(arrays, name) for name in (*NEEDED, "truncated")}
    missing = [name for name in NEEDED if given[name] is None]
    if missing:
        has = ", ".join(arrays) or "none"
        problems = [f"The array {name!r} is missing; there are {has}." for name in missing]
        raise DataError(f"{os.fspath(path)}", problems)
    try:
        return Interactions.from_arrays(
            given["observations"], given["actions"], given["rewards"], given["terminated"],
            given["truncated"], next_observations=given["next_observations"],
            n_actions=n_actions or (len(action_names) or None), action_start=action_start,
            action_names=action_names,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{os.fspath(path)}", str(error).split("\n"), "rows count from 0"
        ) from error


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
