"""Read interactions from a ``.npz`` file, the images row by row."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rlvc.data.interactions import Interactions
from rlvc.data.validation import warn_if_suspicious
from rlvc.errors import DataError

ROWS = "rows are counted from 0"
NEEDED = ("observations", "actions", "rewards", "terminated", "next_observations")
IMAGES = ("observations", "next_observations")

_BROKEN = (OSError, zipfile.BadZipFile, zlib.error, EOFError, MemoryError, RuntimeError)


def read_arrays(
    path: str | os.PathLike[str],
    *,
    n_actions: int | None = None,
    action_start: int = 0,
    action_names: tuple[str, ...] = (),
) -> Interactions:
    """Return the interactions of a ``.npz`` file; no code from it is run.

    Its arrays are the arguments of :meth:`Interactions.from_arrays`: ``observations``,
    ``actions``, ``rewards``, ``terminated``, ``next_observations``, and optionally ``truncated``.
    Observations of several cameras are ``observations.NAME``, and ``next_observations.NAME``. The
    images need not fit in memory.

    Raises:
        DataError: It lists all errors of the arrays.
    """
    whose = os.fspath(path)
    try:
        with ExitStack() as files:  # reading may end in the middle of an array
            archive = files.enter_context(_open(path))
            arrays = {
                name.removesuffix(".npy"): _Array(archive, name, files) for name in _names(archive)
            }
            return _read(whose, arrays, n_actions, action_start, action_names)
    except (*_BROKEN, ValueError) as error:
        raise DataError(whose, [f"It cannot be read as a .npz file: {error}"]) from error


def _read(
    whose: str,
    arrays: Mapping[str, _Array],
    n_actions: int | None,
    action_start: int,
    action_names: tuple[str, ...],
) -> Interactions:
    given = {name: _of_cameras(arrays, name) for name in (*NEEDED, "truncated")}
    if missing := [name for name in NEEDED if given[name] is None]:
        has = ", ".join(arrays) or "none"
        problems = [f"The array {name!r} is missing; there are {has}." for name in missing]
        raise DataError(whose, problems)
    columns = {name: one.read() for name, one in given.items() if isinstance(one, _Array)
               and name not in IMAGES}  # fmt: skip
    try:
        found = Interactions.from_arrays(
            given["observations"], columns["actions"], columns["rewards"], columns["terminated"],
            columns.get("truncated"), next_observations=given["next_observations"],
            n_actions=n_actions or (len(action_names) or None), action_start=action_start,
            action_names=action_names,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        problems = [*str(error).split("\n"), *_endless(columns)]
        raise DataError(whose, problems, ROWS) from error
    if problems := list(_endless(columns)):
        raise DataError(whose, problems, ROWS)
    warn_if_suspicious(found)
    return found


def _endless(columns: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    """Yield a problem if the last episode has no end."""
    ends = [columns[name] for name in ("terminated", "truncated") if name in columns]
    if all(one.ndim == 1 and len(one) and one.dtype.kind in "biuf" for one in ends) and not any(
        one[-1] for one in ends
    ):
        yield (
            "The last episode has no end: neither terminated nor truncated in row "
            f"{len(ends[0]) - 1}. Set truncated there if it was cut off."
        )


class _Array:
    """An array of a file, whose header is checked before it is read, whole or row by row."""

    def __init__(self, archive: zipfile.ZipFile, member: str, files: ExitStack) -> None:
        self._archive, self._member, self._files = archive, member, files
        info = archive.getinfo(member)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member} is compressed in a way that NumPy does not use")
        with archive.open(member) as stream:
            self.shape, self._is_fortran, self.dtype = _header(stream)
            n_bytes = stream.tell() + math.prod(self.shape) * self.dtype.itemsize
        if self.dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        if n_bytes != info.file_size:
            raise ValueError(f"{member} has {info.file_size} bytes, not {n_bytes} as it says")

    def read(self) -> NDArray[Any]:
        """Return the array."""
        with self._archive.open(self._member) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Yield the rows one by one; only arrays in Fortran order are read as a whole."""
        if not self.shape:
            raise ValueError(f"{self._member.removesuffix('.npy')} must have rows; got one number.")
        if self._is_fortran:
            yield from self.read()
            return
        n_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        stream = self._files.enter_context(self._archive.open(self._member))
        _header(stream)
        for _ in range(self.shape[0]):
            data = stream.read(n_bytes)
            if len(data) != n_bytes:
                raise EOFError(f"{self._member} ends too soon")
            yield np.frombuffer(data, self.dtype).reshape(self.shape[1:])
        stream.read(1)  # zipfile checks the CRC at the end


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"an array of version {version}")


def _open(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    place = Path(path)
    if place.exists() and not place.is_file():
        raise OSError("it is no ordinary file")  # a pipe would block
    with place.open("rb") as stream:
        if stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
            raise ValueError("it holds one array without a name. Write it with numpy.savez.")
    return zipfile.ZipFile(place)


def _names(archive: zipfile.ZipFile) -> list[str]:
    """Return the members that are read; others are ignored."""
    return [
        name for name in archive.namelist()
        if name.endswith(".npy")
        and (name.removesuffix(".npy") in (*NEEDED, "truncated")
             or name.startswith(tuple(f"{one}." for one in IMAGES)))
    ]  # fmt: skip


def _of_cameras(arrays: Mapping[str, _Array], name: str) -> _Array | dict[str, _Array] | None:
    """Return the array of a name, or the arrays of its cameras; None if there are none."""
    if name in arrays:
        return arrays[name]
    cameras = {key.removeprefix(f"{name}."): array for key, array in arrays.items()
               if key.startswith(f"{name}.")}  # fmt: skip
    return cameras or None
