"""Records of one size in a temporary file, for what does not fit in memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import IO


class Spool:
    """Records in a temporary file that is removed with the spool; threads may read at once.

    >>> spool = Spool()
    >>> spool.write(1, b"bird", "the bird")
    >>> spool.read(1, 4, "the bird")
    b'bird'
    """

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as the spool
        weakref.finalize(self, self._file.close)

    def write(self, number: int, record: bytes, what: str) -> None:
        """Write a record; all have the same length.

        Raises:
            OSError: It does not fit; the text says what to do.
        """
        data, offset = memoryview(record), number * len(record)
        try:
            while data:  # a full disk may take a part; the next call fails
                written = os.pwrite(self._file.fileno(), data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}; {what} does not fit in the temporary file beside those before. "
                "Free some space there, or name another folder with TMPDIR",
                tempfile.gettempdir(),
            ) from error

    def read(self, number: int, n_bytes: int, what: str) -> bytes:
        """Return a record that was written."""
        data = os.pread(self._file.fileno(), n_bytes, number * n_bytes)
        if len(data) != n_bytes:
            raise OSError(f"{what} could not be read back from the temporary file.")
        return data
