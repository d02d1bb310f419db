"""The file ``SHA256SUMS`` of a folder of interactions, as ``sha256sum -c SHA256SUMS`` reads it.

Folders that others made need none, and files that were added later are not in it.
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
CURE = f"Get it again from where it was; if you changed it yourself, remove {FILE}."
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\0]+)")


class ChecksumWriter:
    """Write the files of a folder, and then their checksums."""

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


class Checksums:
    """The checksums of a folder; each file is compared when it is read anyway."""

    def __init__(self, folder: Path, sha256: Mapping[str, str]) -> None:
        self._folder, self._sha256 = folder, sha256
        self._compared: set[str] = set()

    def fits(self, name: str, data: bytes | None) -> bool:
        """Tell whether a file has its checksum; files without one fit, and None: not readable."""
        known = posixpath.normpath(name)
        self._compared.add(known)
        expected = self._sha256.get(known)
        return expected is None or data is None or hashlib.sha256(data).hexdigest() == expected

    def check(self, name: str, data: bytes, problems: ProblemCollector) -> None:
        """Add a problem unless a file has its checksum."""
        if not self.fits(name, data):
            problems.add(f"damaged: {name} {CHANGED}. {CURE}")

    def check_rest(self, problems: ProblemCollector) -> None:
        """Add the problems of all files that were not compared yet: missing, or changed."""
        for name, expected in self._sha256.items():
            if name in self._compared:
                continue
            file = self._folder / name
            try:
                if file.exists() and not file.is_file():
                    raise OSError(errno.EINVAL, "it is no ordinary file")  # may have no end
                with file.open("rb") as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                is_gone = isinstance(error, FileNotFoundError)
                fact = "is not there any more" if is_gone else f"cannot be read ({error.strerror})"
                problems.add(f"damaged: {name} {fact}. {CURE}")
                continue
            if digest != expected:
                problems.add(f"damaged: {name} {CHANGED}. {CURE}")


def read_checksums(folder: Path, problems: ProblemCollector) -> Checksums:
    """Return the checksums of a folder; none if it has no ``SHA256SUMS``."""
    file = folder / FILE
    if not file.is_file():
        return Checksums(folder, {})
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
        return Checksums(folder, {})
    return Checksums(folder, sha256)
