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
from rlvc.data.percepts import SINGLE
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
    With several cameras there are ``observations.NAME`` and ``next_observations.NAME`` for each.
    The images need not fit in memory.

    Raises:
        DataError: It lists all errors of the arrays.
    """
    whose = os.fspath(path)
    actions = {
        "n_actions": n_actions, "action_start": action_start, "action_names": action_names,
    }  # fmt: skip
    try:
        with ExitStack() as files:  # reading may end in the middle of an array
            archive = files.enter_context(_open(path))
            arrays: dict[str, dict[str, _Array]] = {}
            for member in archive.namelist():
                name, _, camera = member.removesuffix(".npy").partition(".")
                is_known = name in (IMAGES if camera else (*NEEDED, "truncated"))
                if member.endswith(".npy") and is_known:
                    arrays.setdefault(name, {})[camera] = _Array(archive, member, files)
            return _read(whose, arrays, actions)
    except (*_BROKEN, ValueError) as error:
        raise DataError(whose, [f"It cannot be read as a .npz file: {error}"]) from error


def _read(
    whose: str, arrays: Mapping[str, Mapping[str, _Array]], actions: Mapping[str, Any]
) -> Interactions:
    if missing := [name for name in NEEDED if name not in arrays]:
        has = ", ".join(arrays) or "none"
        problems = [f"The array {name!r} is missing; there are {has}." for name in missing]
        raise DataError(whose, problems)
    shown: dict[str, Any] = {name: arrays[name].get(SINGLE, arrays[name]) for name in IMAGES}
    columns: dict[str, Any] = {
        name: arrays[name][SINGLE].read() for name in arrays if name not in IMAGES
    }
    problems = list[str]()
    ends = [columns[name] for name in ("terminated", "truncated") if name in columns]
    are_flags = all(one.ndim == 1 and len(one) and one.dtype.kind in "biuf" for one in ends)
    if are_flags and not any(one[-1] for one in ends):
        problems.append(
            "The last episode has no end: neither terminated nor truncated in row "
            f"{len(ends[0]) - 1}. Set truncated there if it was cut off."
        )
    try:
        found = Interactions.from_arrays(**shown, **columns, **actions)
    except (ValueError, TypeError) as error:
        raise DataError(whose, [*str(error).split("\n"), *problems], ROWS) from error
    if problems:
        raise DataError(whose, problems, ROWS)
    warn_if_suspicious(found)
    return found


class _Array:
    """An array of a file: its header is checked, then it is read as a whole or row by row."""

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
        raise OSError("it is not a regular file")  # a pipe would block
    with place.open("rb") as stream:
        if stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
            raise ValueError("it holds one array without a name. Write it with numpy.savez.")
    return zipfile.ZipFile(place)
