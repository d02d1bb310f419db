"""What a folder of interactions says of itself: a format, a version and a checksum of each file.

It is in ``dataset.json`` beside the table. Folders of people who have never heard of it have none,
and files that were added later are no concern of it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvc.data.validation import ProblemCollector

FILE = "dataset.json"
FORMAT, VERSION = "rlvc-dataset", 1
LARGEST = 2**30  # bytes of the file
CHANGED = "has changed since it was written"
CURE = f"Get it again from where it was; if you changed it yourself, remove {FILE}."
DAMAGED = f"{FILE} is damaged. Get it again from where it was, or remove it to read without it."


class ChecksumWriter:
    """The checksums of the files of a folder while it is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sha256: dict[str, str] = {}

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the folder."""
        (self._folder / name).write_bytes(data)
        self._sha256[name] = hashlib.sha256(data).hexdigest()

    def close(self) -> None:
        """Write ``dataset.json``: nothing is added any more."""
        about = {
            "format": FORMAT, "version": VERSION, "files": len(self._sha256),
            "sha256": dict(sorted(self._sha256.items())),
        }  # fmt: skip
        text = json.dumps({**about, "checksum": checksum(about)}, indent=1, ensure_ascii=False)
        (self._folder / FILE).write_text(f"{text}\n", "utf-8")


class Checksums:
    """The checksums of a folder that is read: each file is compared when it is read anyway."""

    def __init__(self, folder: Path, sha256: Mapping[str, str]) -> None:
        self._folder, self._sha256 = folder, sha256
        self._met: set[str] = set()

    def fits(self, name: str, data: bytes | None) -> bool:
        """Tell whether a file holds what was written; None if it could not be read, which is told.

        Whatever is not known here does.
        """
        known = posixpath.normpath(name)
        self._met.add(known)
        wanted = self._sha256.get(known)
        return wanted is None or data is None or hashlib.sha256(data).hexdigest() == wanted

    def check(self, name: str, data: bytes, problems: ProblemCollector) -> None:
        """Note a file that does not hold what was written."""
        if not self.fits(name, data):
            problems.add(f"damaged: {name} {CHANGED}. {CURE}")

    def check_rest(self, problems: ProblemCollector) -> None:
        """Note the files that nobody asked for and that are gone, or not what they were."""
        for name, wanted in self._sha256.items():
            if name in self._met:
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
            if digest != wanted:
                problems.add(f"damaged: {name} {CHANGED}. {CURE}")


def read_seal(folder: Path, problems: ProblemCollector) -> Checksums:
    """Return the checksums of a folder; none if it has no ``dataset.json`` of ours.

    Raises:
        DataError: It was written by a newer version, which may mean something else by all of it.
    """
    file = folder / FILE
    if not file.is_file():
        return Checksums(folder, {})
    try:
        if file.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        about = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        problems.add(DAMAGED)
        return Checksums(folder, {})
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        return Checksums(folder, {})  # somebody else's
    version = about.get("version")
    if isinstance(version, int) and version > VERSION:
        problems.add(
            f"{FILE} has version {version} of the format; this rlvc reads version {VERSION}. "
            "Update it with: pip install --upgrade rlvc"
        )
        raise problems.error()
    sha256 = about.get("sha256")
    if (
        about.pop("checksum", None) != checksum(about)
        or not isinstance(sha256, dict)
        or not all(isinstance(one, str) for one in sha256.values())
        or any(name.startswith("/") or ".." in name.split("/") for name in sha256)
    ):
        problems.add(DAMAGED)
        return Checksums(folder, {})
    return Checksums(folder, sha256)


def checksum(about: Mapping[str, Any]) -> str:
    """Return the checksum of what JSON can hold.

    >>> checksum({"a": 1, "b": [2]}) == checksum({"b": [2], "a": 1})
    True
    """
    text = json.dumps(about, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
