"""The file ``SHA256SUMS`` of a folder of interactions, as ``sha256sum -c SHA256SUMS`` reads it.

Folders from other sources need none, and files that were added later are not in it.
"""

from __future__ import annotations

import errno
import hashlib
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from rlvc.data.validation import ProblemCollector

FILE = "SHA256SUMS"
MAX_BYTES = 2**30  # of the file
CHANGED = "has changed since it was written"
CURE = f"Get it again from its source; if you changed it on purpose, remove {FILE}."
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\0]+)")


class ChecksumWriter:
    """Write the files of a folder, and finally their checksums."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sha256: dict[str, str] = {}

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the folder."""
        (self._folder / name).write_bytes(data)
        self._sha256[name] = hashlib.sha256(data).hexdigest()

    def close(self) -> None:
        """Write the checksums."""
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self._sha256.items())]
        (self._folder / FILE).write_bytes("".join(lines).encode())


class CheckedFolder:
    """Read the files of a folder, comparing each with its checksum if it has one."""

    def __init__(self, folder: Path, sha256: Mapping[str, str]) -> None:
        self.folder, self._sha256 = folder, sha256
        self._compared: set[str] = set()

    def read(self, name: str) -> tuple[bytes, bool]:
        """Return the bytes of a file, and whether they match its checksum, if it has one."""
        known, file = posixpath.normpath(name), self.folder / name
        self._compared.add(known)
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise OSError(errno.EINVAL, "it is not a regular file")  # a pipe would block
        data = file.read_bytes()
        expected = self._sha256.get(known)
        return data, expected is None or hashlib.sha256(data).hexdigest() == expected

    def load(self, name: str, problems: ProblemCollector) -> bytes | None:
        """Return the bytes of a file; add a problem if it is damaged or cannot be read."""
        try:
            data, is_sound = self.read(name)
        except OSError as error:
            problems.add(f"{name} cannot be read ({error.strerror}). Check that you may read it.")
            return None
        if not is_sound:
            problems.add(f"damaged: {name} {CHANGED}. {CURE}")
        return data

    def check_rest(self, problems: ProblemCollector) -> None:
        """Add the problems of the files that were not read: whether they are missing or changed."""
        for name in [name for name in self._sha256 if name not in self._compared]:
            try:
                fact = "" if self.read(name)[1] else CHANGED
            except FileNotFoundError:
                fact = "is missing"
            except OSError as error:
                fact = f"cannot be read ({error.strerror})"
            if fact:
                problems.add(f"damaged: {name} {fact}. {CURE}")


def open_folder(folder: Path, problems: ProblemCollector) -> CheckedFolder:
    """Return a folder with the checksums of ``SHA256SUMS``, if it has that file."""
    file = folder / FILE
    if not file.is_file():
        return CheckedFolder(folder, {})
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ValueError("it is too large")
        text = file.read_bytes().decode().removesuffix("\n")
        lines = [_LINE.fullmatch(line) for line in text.split("\n")]
        sha256 = {posixpath.normpath(line[2]): line[1] for line in lines if line}
        if None in lines or any(name.startswith(("/", "..")) for name in sha256):
            raise ValueError("it has other lines")
    except ValueError:
        problems.add(f"{FILE} is damaged. Get it again, or remove it to read without it.")
        return CheckedFolder(folder, {})
    return CheckedFolder(folder, sha256)
