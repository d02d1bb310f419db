"""One file for many arrays: a JSON manifest and plain arrays. Nothing in it can run.

Files are written whole or not at all, and the same content always gives the same bytes. What is
read is not believed: see :mod:`rlvc._core.members` for how a file is laid out and sealed.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.atomic import Pathlike, atomic_file
from rlvc._core.members import (
    MANIFEST,
    FlawError,
    Member,
    MemberWriter,
    check_crc,
    check_seal,
    read_member,
    read_members,
)
from rlvc.errors import DamagedFileError, FileFormatError, InvalidFileError

LARGEST: Final = 64 * 2**30  # bytes of a file
LONGEST: Final = 2**24  # bytes of a manifest
MOST: Final = 2**20  # values in a manifest, each of which takes some hundred bytes as an object
DEEPEST: Final = 32  # lists and objects in one another in a manifest
EMPTY: Final = 2**20  # the other dimensions of an array without entries, multiplied


def write_archive(
    path: Pathlike, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a manifest and named arrays into one file, an array at a time."""
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False).encode()
    if flaw := _too_large(text):
        raise ValueError(f"{os.fspath(path)} cannot be written: {flaw}. Put more into arrays.")
    with atomic_file(path) as file:
        writer = MemberWriter(file)
        writer.add(MANIFEST, text)
        for name in sorted(arrays):
            array = np.asarray(arrays[name], order="C")
            if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
                raise ValueError(f"{name} must be an array of plain numbers; got {array.dtype}.")
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            writer.add(f"{name}.npy", _header(array), array.reshape(-1).view(np.uint8).data)
        writer.close()


def _header(array: NDArray[Any]) -> bytes:
    """Return what NumPy writes before an array in version 1.0 of its format."""
    start = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}"
    text = start.ljust(-(-(len(start) + 11) // 64) * 64 - 11) + "\n"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()


_BEGIN = 10  # bytes before the header of an array
_HEADER = re.compile(
    rb"\{'descr': '([<|][biuf][1248])', 'fortran_order': False, "
    rb"'shape': \((\d{1,18},|\d{1,18}(?:, \d{1,18}){1,15}|)\), \} *\n"
)
# Possessive, and to the end where a text does not end: its cost is that of reading once.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_STEPS = np.zeros(256, np.int8)  # what each letter of JSON adds to the depth
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


def kind_of(path: Pathlike) -> str | None:
    """Return the format that a file says it has; None if it does not say."""
    try:
        with _opened(Path(path)) as (file, size):
            return _format(_manifest(file, read_members(file, size)))
    except (FileFormatError, FlawError, OSError):
        return None


def read_archive(
    path: Pathlike,
    kind: str,
    version: int,
    cures: Mapping[str, str] | None = None,
    *,
    largest: int = LARGEST,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file of :func:`write_archive`, or raise a FileFormatError that says why not.

    Nothing is allocated before the bytes for it are known to be in the file.

    Args:
        path: The file.
        kind: The format that it must have.
        version: The version of the format.
        cures: What to do about files of other formats.
        largest: Bytes beyond which a file is not read.

    Raises:
        DamagedFileError: It is one of ours, but bytes changed or are missing.
        InvalidFileError: It is of another format or of another version, or no file of ours.
        FileFormatError: There is no such file.
    """
    source, is_sealed = Path(path), False
    with _opened(source) as (file, size):
        try:
            if size > largest:
                raise FlawError(f"it has {size} bytes; at most {largest} are read")
            is_sealed = check_seal(file, size)
            members = read_members(file, size)
            manifest = _manifest(file, members)
            _check_kind(source, manifest, kind, version, cures or {})
            return manifest, {
                name.removesuffix(".npy"): _array(file, member)
                for name, member in members.items()
                if name != MANIFEST
            }
        except FlawError as flaw:
            if flaw.is_damage and not is_sealed:  # else it was made that way
                raise DamagedFileError(
                    f"{source} is damaged: {flaw}. Copy it again from where it is whole, or make "
                    "it again."
                ) from flaw
            raise InvalidFileError(f"{source} is not a {kind} file: {flaw}.") from flaw


@contextmanager
def _opened(source: Path) -> Iterator[tuple[BufferedReader, int]]:
    """Open an ordinary file to read, and tell its size; others might never end, or never begin."""
    if source.is_dir():
        raise InvalidFileError(f"{source} is a folder; name a file in it.")
    if not source.exists():
        raise FileFormatError(f"There is no file {source}.")
    if not source.is_file():
        raise InvalidFileError(f"{source} is a device or a pipe; name an ordinary file.")
    flags = os.O_RDONLY | getattr(os, "O_BINARY", getattr(os, "O_NONBLOCK", 0))
    try:
        handle = os.open(source, flags)
    except PermissionError as error:
        told = f"{error.strerror}; let its owner allow you to read it"
        raise PermissionError(error.errno, told, str(source)) from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):  # it was another a moment ago
            raise InvalidFileError(f"{source} is a device or a pipe; name an ordinary file.")
        yield file, found.st_size


def _manifest(file: BinaryIO, members: Mapping[str, Member]) -> dict[str, Any]:
    member = members.get(MANIFEST)
    if member is None:
        raise FlawError("rlvc did not write it")
    if member.size > LONGEST:
        raise FlawError(f"its manifest has {member.size} bytes, more than {LONGEST}")
    data = read_member(file, member)
    if flaw := _too_large(data):
        raise FlawError(flaw)
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FlawError(f"its manifest is no JSON ({str(error)[:200]})") from error
    if not isinstance(manifest, dict):
        raise FlawError("its manifest is no object")
    return manifest


def _too_large(text: bytes) -> str:
    """Return what is too large about a manifest before it is parsed; nothing if all is well."""
    if len(text) > LONGEST:
        return f"its manifest has {len(text)} bytes, more than {LONGEST}"
    # Those in texts are counted as well, which is too many if anything.
    n_values, n_quotes = sum(map(text.count, (b",", b":", b"[", b"{"))), text.count(b'"')
    if n_values > MOST or n_quotes > 2 * MOST:
        return f"its manifest has more than {MOST} values"
    steps = _STEPS[np.frombuffer(_TEXT.sub(b"", text), np.uint8)]
    is_deep = np.cumsum(steps, dtype=np.int32).max(initial=0) > DEEPEST
    return f"its manifest is nested deeper than {DEEPEST}" if is_deep else ""


def _format(manifest: Mapping[str, Any]) -> str | None:
    found = manifest.get("format")
    return found if isinstance(found, str) and len(found) <= 100 else None


def _check_kind(
    source: Path, manifest: Mapping[str, Any], kind: str, version: int, cures: Mapping[str, str]
) -> None:
    """Raise a StrangeFileError unless a manifest says the wanted format and version."""
    found, number = _format(manifest), manifest.get("version")
    if found != kind:
        cure = cures.get(str(found), "")
        raise InvalidFileError(f"{source} is not a {kind} file; it says {found!r}.{cure}")
    if type(number) is int and number > version:
        raise InvalidFileError(
            f"{source} was made by a newer rlvc: it has version {str(number)[:20]} of the format, "
            f"and this rlvc reads version {version}. Update with: pip install --upgrade rlvc"
        )
    if type(number) is not int or number != version:
        raise InvalidFileError(
            f"{source} has version {str(number)[:20]} of the format; this rlvc reads version "
            f"{version}. Install the rlvc that wrote it, or make the file again."
        )


def _array(file: BufferedReader, member: Member) -> NDArray[Any]:
    """Return an array of plain numbers, after checking that the bytes are all there."""
    file.seek(member.start)
    begin = file.read(min(_BEGIN, member.size))
    length = int.from_bytes(begin[8:], "little")
    if begin[:8] != b"\x93NUMPY\1\0" or _BEGIN + length > member.size:
        raise FlawError(f"its member {member.name!r} is no array as rlvc writes them")
    header = file.read(length)
    match = _HEADER.fullmatch(header)
    if not match:
        raise FlawError(f"its member {member.name!r} is no array of plain numbers")
    shape = tuple(int(n) for n in match[2].split(b",") if n)
    try:
        dtype = np.dtype(match[1].decode())
    except TypeError as error:
        raise FlawError(f"its member {member.name!r} is no array of plain numbers") from error
    if math.prod(shape) * dtype.itemsize != member.size - _BEGIN - length:
        raise FlawError(f"its array {member.name!r} has another size than it says")
    if math.prod(shape) == 0 and math.prod(n for n in shape if n) > EMPTY:
        raise FlawError(f"its array {member.name!r} has no entries but a large shape")
    array = np.empty(shape, dtype)
    room = array.reshape(-1).view(np.uint8)
    if file.readinto(room.data) != len(room):
        raise FlawError("bytes are missing at its end", is_damage=True)
    check_crc(member, zlib.crc32(room.data, zlib.crc32(header, zlib.crc32(begin))))
    if dtype.kind == "b" and room.max(initial=0) > 1:
        raise FlawError(f"its array {member.name!r} has entries that are neither true nor false")
    return array.astype(dtype.newbyteorder("="), copy=False)
