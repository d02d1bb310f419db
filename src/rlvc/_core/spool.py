"""Arrays of one shape: the first ones in memory, the rest in a temporary file."""

from __future__ import annotations

import math
import os
import tempfile
import weakref
from typing import IO

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import frozen

Array = NDArray[np.uint8]


class SpooledArrays:
    """Numbered arrays of bytes: the first ``in_memory`` bytes in memory, the rest in a file.

    The file is removed with this object. Threads may read concurrently.

    >>> arrays = SpooledArrays(in_memory=3)
    >>> for level in range(3):
    ...     arrays.append(np.full((1, 2), level, np.uint8), "the array")
    >>> len(arrays), arrays.read(2, "the array").tolist()
    (3, [[2, 2]])
    """

    def __init__(self, in_memory: int) -> None:
        self._limit, self._n = in_memory, 0
        self._shape: tuple[int, ...] = ()
        self._kept: list[Array] = []
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return self._n

    def append(self, array: Array, what: str) -> None:
        """Add a copy of an array.

        Raises:
            OSError: It does not fit in the file; the text says what to do.
        """
        if self._file is None and (self._n + 1) * array.nbytes <= self._limit:
            self._kept.append(frozen(array.copy()))
        else:
            self._write(array, what)
        self._shape, self._n = array.shape, self._n + 1

    def _write(self, array: Array, what: str) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this
            weakref.finalize(self, self._file.close)
        data, offset = memoryview(array.tobytes()), (self._n - len(self._kept)) * array.nbytes
        try:
            while data:  # a full disk may take a part, and then fail
                written = os.pwrite(self._file.fileno(), data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}; the temporary file has no space for {what}. Free some space "
                "there, or set TMPDIR to another folder",
                tempfile.gettempdir(),
            ) from error

    def read(self, number: int, what: str) -> Array:
        """Return an array, which is read-only."""
        if number < len(self._kept):
            return self._kept[number]
        assert self._file is not None
        n_bytes = math.prod(self._shape)
        data = os.pread(self._file.fileno(), n_bytes, (number - len(self._kept)) * n_bytes)
        if len(data) != n_bytes:
            raise OSError(f"{what} could not be read back from the temporary file.")
        return np.frombuffer(data, np.uint8).reshape(self._shape)
