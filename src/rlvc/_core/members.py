"""The members of a file: the little of zip that rlvc writes, and no more of it is read.

Members lie one after the other as they are, nothing compressed, from the first byte on. Then comes
zip's directory, and in zip's comment the SHA-256 of all that stands before its digits: the *seal*.
Any zip program opens such a file, and ``head -c -64 FILE | sha256sum`` gives its last 64 letters.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

MANIFEST: Final = "manifest.json"
MOST: Final = 60_000  # members
LONGEST: Final = 255  # bytes of a name
DIRECTORY: Final = 2**24  # bytes of the directory
SEAL: Final = b"rlvc sha256 "
DIGITS: Final = 64
CHUNK: Final = 2**20  # bytes that are hashed or written at a time

_LOCAL = struct.Struct("<4s5H3L2H")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_WIDE_END = struct.Struct("<4sQ2H2L4Q")
_WIDE_AT = struct.Struct("<4sLQL")
_LARGE = 0xFFFFFFFF  # numbers from here on stand elsewhere, as 64 bits
_UTF8 = 0x800
_DAY = 33  # 1 January 1980: zip wants a date, and a fixed one keeps files comparable
_MADE_BY, _MODE = 3 << 8 | 45, 0o100644 << 16  # what unzip makes of them: ordinary files


class FlawError(ValueError):
    """What is wrong with a file; damage, unless it must have been made that way."""

    def __init__(self, why: str, *, is_damage: bool = False) -> None:
        super().__init__(why)
        self.is_damage = is_damage


@dataclass(frozen=True, slots=True)
class Member:
    """Where the bytes of one member lie, and their CRC-32."""

    name: str
    start: int
    size: int
    crc: int


class MemberWriter:
    """Write members one after the other; nothing is kept in memory but the directory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._offset = 0
        self._entries: list[bytes] = []

    def add(self, name: str, *parts: memoryview | bytes) -> None:
        """Write one member, given its bytes in some parts."""
        raw, size, crc = name.encode(), sum(map(len, parts)), 0
        if len(raw) > LONGEST or len(self._entries) == MOST:
            raise ValueError(f"A file must have at most {MOST} members of short names; got {name}.")
        for part in parts:
            crc = zlib.crc32(part, crc)
        flags = 0 if raw.isascii() else _UTF8
        wide = [size, size] if size >= _LARGE else []
        extra, shown = _extra(wide), min(size, _LARGE)
        local = 45 if wide else 20, flags, 0, 0, _DAY, crc, shown, shown, len(raw), len(extra)
        begin = self._offset
        self._write(_LOCAL.pack(b"PK\3\4", *local) + raw + extra)
        for part in parts:
            self._write(part)
        wide += [begin] if begin >= _LARGE else []
        extra = _extra(wide)
        entry = 45 if wide else 20, *local[1:9], len(extra), 0, 0, 0, _MODE, min(begin, _LARGE)
        self._entries.append(_ENTRY.pack(b"PK\1\2", _MADE_BY, *entry) + raw + extra)

    def close(self) -> None:
        """Write the directory and the seal."""
        start, n = self._offset, len(self._entries)
        for entry in self._entries:
            self._write(entry)
        end, size = self._offset, self._offset - start
        if start >= _LARGE:
            self._write(_WIDE_END.pack(b"PK\6\6", 44, _MADE_BY, 45, 0, 0, n, n, size, start))
            self._write(_WIDE_AT.pack(b"PK\6\7", 0, end, 1))
        comment = len(SEAL) + DIGITS
        self._write(_END.pack(b"PK\5\6", 0, 0, n, n, size, min(start, _LARGE), comment) + SEAL)
        self._file.write(self._digest.hexdigest().encode())

    def _write(self, data: memoryview | bytes) -> None:
        view = memoryview(data)
        for begin in range(0, len(view), CHUNK):
            chunk = view[begin : begin + CHUNK]
            self._file.write(chunk)
            self._digest.update(chunk)
        self._offset += len(view)


def _extra(wide: list[int]) -> bytes:
    """Return zip's extra field for numbers of 64 bits."""
    return struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""


def check_seal(file: BinaryIO, size: int) -> bool:
    """Tell whether a file has a seal; raise a FlawError if it does not fit its bytes.

    Files of the first versions have none. The CRC-32 of each member protects these.
    """
    seal = _find_seal(file, size)
    if seal and _digest(file, size - DIGITS) != seal[len(SEAL) :]:
        raise FlawError("its bytes do not match its checksum", is_damage=True)
    return bool(seal)


def read_members(file: BinaryIO, size: int) -> dict[str, Member]:
    """Return the members of a file, after checking that they lie in it one after the other.

    Raises:
        FlawError: It is damaged, or is not one of ours.
    """
    n_comment = len(_find_seal(file, size))
    start, length, count = _find_directory(file, size - n_comment - _END.size, n_comment)
    if count > MOST or length > DIRECTORY:
        raise FlawError(f"it has {count} members; at most {MOST} are read")
    directory, members, offset = _read(file, start, length), dict[str, Member](), 0
    for member, begin in _entries(directory, count):
        if begin != offset:
            raise FlawError("its members do not lie one after the other", is_damage=True)
        offset = member.start + member.size
        if offset > start:
            raise FlawError("its members reach beyond its end", is_damage=True)
        _check_local(file, member, begin)
        if member.name in members:
            raise FlawError(f"it has two members {member.name!r}")
        members[member.name] = member
    if offset != start:
        raise FlawError("there is something between its members and its directory", is_damage=True)
    return members


def read_member(file: BinaryIO, member: Member) -> bytes:
    """Return the bytes of a small member, or raise a FlawError."""
    data = _read(file, member.start, member.size)
    check_crc(member, zlib.crc32(data))
    return data


def check_crc(member: Member, crc: int) -> None:
    """Raise a FlawError if what was read of a member is not what was written."""
    if crc != member.crc:
        raise FlawError(
            f"the bytes of {member.name!r} are not those that were written", is_damage=True
        )


def _read(file: BinaryIO, start: int, size: int, *, short: bool = False) -> bytes:
    file.seek(start)
    data = file.read(size)
    if len(data) < size and not short:
        raise FlawError("bytes are missing at its end", is_damage=True)
    return data


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the SHA-256 of the first bytes of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0 and (chunk := file.read(min(size, CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest().encode()


def _find_seal(file: BinaryIO, size: int) -> bytes:
    """Return the seal that a file ends with; nothing if it has none."""
    length = len(SEAL) + DIGITS
    seal = _read(file, max(size - length, 0), length, short=True)
    return seal if re.fullmatch(SEAL + rb"[0-9a-f]{%d}" % DIGITS, seal) else b""


def _find_directory(file: BinaryIO, end: int, n_comment: int) -> tuple[int, int, int]:
    """Return where the directory starts, its size and how many entries it has."""
    if end < 0:
        raise _no_end(file)
    mark, *disks, n, count, size, start, comment = _END.unpack(_read(file, end, _END.size))
    if mark != b"PK\5\6" or comment != n_comment or any(disks) or n != count:
        raise _no_end(file)
    if start == _LARGE and end >= _WIDE_AT.size + _WIDE_END.size:
        mark, disk, at, n = _WIDE_AT.unpack(_read(file, end - _WIDE_AT.size, _WIDE_AT.size))
        end -= _WIDE_AT.size + _WIDE_END.size
        if (mark, disk, at, n) != (b"PK\6\7", 0, end, 1):
            raise FlawError("its directory is not where it should be", is_damage=True)
        mark, length, _, _, *disks, n, count, size, start = _WIDE_END.unpack(
            _read(file, end, _WIDE_END.size)
        )
        if mark != b"PK\6\6" or length != 44 or any(disks) or n != count:
            raise FlawError("its directory is not where it should be", is_damage=True)
    if start + size != end:
        raise FlawError("its directory is not where it should be", is_damage=True)
    return start, size, count


def _no_end(file: BinaryIO) -> FlawError:
    """Tell one of ours that lost its end from a file of another kind, by how it begins."""
    begin = _read(file, 0, _LOCAL.size + len(MANIFEST), short=True)
    name = begin[_LOCAL.size :]
    if begin[:4] == b"PK\3\4"[: len(begin)] and name == MANIFEST.encode()[: len(name)]:
        return FlawError("bytes are missing at its end" if begin else "it is empty", is_damage=True)
    return FlawError("rlvc did not write it")


def _entries(directory: bytes, count: int) -> Iterator[tuple[Member, int]]:
    """Yield the members that a directory lists, and where the header of each begins."""
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(directory):
            raise FlawError("its directory ends early", is_damage=True)
        mark, _, _, flags, method, _, _, crc, packed, size, *rest = _ENTRY.unpack_from(
            directory, at
        )
        n_name, n_extra, n_comment, disk, _, _, begin = rest
        if mark != b"PK\1\2" or disk or n_comment:
            raise FlawError("its directory is not one", is_damage=True)
        at += _ENTRY.size + n_name + n_extra
        if at > len(directory):
            raise FlawError("its directory ends early", is_damage=True)
        name = _name(directory[at - n_extra - n_name : at - n_extra])
        extra = directory[at - n_extra : at]
        n_wide = (size == _LARGE) * 2 + (begin == _LARGE)
        if method or packed != size or flags & ~_UTF8:
            raise FlawError(f"its member {name!r} is compressed or encrypted")
        if len(extra) != (4 + 8 * n_wide) * (n_wide > 0):
            raise FlawError(f"its member {name!r} has notes that rlvc does not write")
        wide = list(struct.unpack(f"<2H{n_wide}Q", extra)[2:]) if n_wide else []
        local = _LOCAL.size + n_name
        if size == _LARGE:
            size, packed = wide[:2]
            local += 20
        begin = wide[-1] if begin == _LARGE else begin
        if extra != _extra(wide) or packed != size:
            raise FlawError(f"its member {name!r} has notes that rlvc does not write")
        yield Member(name, begin + local, size, crc), begin
    if at != len(directory):
        raise FlawError("its directory is longer than its entries", is_damage=True)


def _check_local(file: BinaryIO, member: Member, begin: int) -> None:
    """Raise a FlawError unless the header before a member says the same as the directory."""
    header = _read(file, begin, member.start - begin)
    mark, _, flags, method, _, _, crc, packed, size, n_name, n_extra = _LOCAL.unpack_from(header)
    raw = member.name.encode()
    extra = _extra([member.size] * 2 if member.size >= _LARGE else [])
    says = mark, flags & ~_UTF8, method, crc, packed, size, n_name, n_extra
    shown = min(member.size, _LARGE)
    wanted = b"PK\3\4", 0, 0, member.crc, shown, shown, len(raw), len(extra)
    if says != wanted or header[_LOCAL.size :] != raw + extra:
        why = f"the header of {member.name!r} is not what its directory says"
        raise FlawError(why, is_damage=True)


def _name(raw: bytes) -> str:
    if not 0 < len(raw) <= LONGEST:
        raise FlawError("it has a member with no name, or with a very long one")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FlawError("it has a member whose name is no text", is_damage=True) from error
