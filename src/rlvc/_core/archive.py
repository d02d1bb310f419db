"""One file for many arrays: a safetensors file with a JSON manifest and a checksum.

The metadata of the file has one entry, ``rlvc``: the manifest as JSON, which begins with the
SHA-256 of the manifest and of all arrays. Writes are atomic, and the same content always gives the
same bytes. A file is checked when it is read, and no code from it is ever run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rlvc._core.arrays import Arrays
from rlvc._core.atomic import Pathlike, atomic_file
from rlvc.errors import DamagedFileError, FileFormatError, InvalidFileError

MAX_BYTES: Final = 64 * 2**30  # of a file
MAX_HEADER: Final = 2**25  # bytes of the header of safetensors, which holds the manifest
MAX_MANIFEST: Final = 2**24  # bytes of a manifest
MAX_VALUES: Final = 2**20  # in a manifest; each takes about a hundred bytes as an object
MAX_DEPTH: Final = 32  # of nested lists and objects in a manifest
MAX_ARRAYS: Final = 60_000
MAX_DIMENSIONS: Final = 32
MAX_EMPTY: Final = 2**20  # the product of the nonzero dimensions of an empty array

_DTYPES = {"BOOL", "I8", "U8", "I16", "U16", "F16", "I32", "U32", "F32", "I64", "U64", "F64"}
_SEALED = re.compile(r'\{"sha256":"([0-9a-f]{64})",(.*)', re.DOTALL)
_MAGIC = b'{"__metadata__":{"rlvc":"', b'{\\"sha256\\":\\"'  # how our files begin
# Strings, or the rest of the text if one is not closed; possessive, to take linear time.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_STEPS = np.zeros(256, np.int8)  # what each character of JSON adds to the depth
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


class FlawError(ValueError):
    """A flaw of a file: damage, or something that must have been written like that."""

    def __init__(self, why: str, *, is_damage: bool = False) -> None:
        super().__init__(why)
        self.is_damage = is_damage


def write_archive(path: Pathlike, manifest: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a manifest and named arrays into one file."""
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    if flaw := _find_excess(text.encode()):
        raise ValueError(f"{os.fspath(path)} cannot be written: {flaw}. Move data into arrays.")
    if len(arrays) > MAX_ARRAYS:
        raise ValueError(f"A file must have at most {MAX_ARRAYS} arrays; got {len(arrays)}.")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise ValueError(f"{name} must be an array of plain numbers; got {array.dtype}.")
    data = pack(text, arrays)
    with atomic_file(path) as file:
        file.write(data)


def pack(text: str, arrays: Arrays) -> bytes:
    """Return the bytes of a file, given its manifest as JSON and its arrays."""
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    sealed = f'{{"sha256":"{_digest(text, plain)}",{text[1:]}'
    return save(plain, {"rlvc": sealed})  # one entry only: their order is not fixed


def _digest(text: str, arrays: Arrays) -> str:
    """Return the SHA-256 of a manifest and of contiguous arrays."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(-1).data)
    return digest.hexdigest()


def kind_of(path: Pathlike) -> str | None:
    """Return the format that a file declares; None if it declares none."""
    try:
        begin, _ = _begin_of(Path(path))
        with _tensors(path, begin) as tensors:
            return _format_of(_parse(_split(tensors.metadata())[1]))
    except (FileFormatError, FlawError, OSError):
        return None


def read_archive(
    path: Pathlike,
    kind: str,
    version: int,
    cures: Mapping[str, str] | None = None,
    *,
    max_bytes: int = MAX_BYTES,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file of :func:`write_archive`, or raise a FileFormatError that says why not.

    No memory is allocated for data that is not in the file. The cures say what to do about files of
    other formats.

    Raises:
        DamagedFileError: It is a file of rlvc, but bytes changed or are missing.
        InvalidFileError: It is of another format or version, or rlvc did not write it.
        FileFormatError: There is no such file.
    """
    source = Path(path)
    begin, size = _begin_of(source)
    is_ours = _is_ours(begin)
    try:
        if size > max_bytes:
            raise FlawError(f"it has {size} bytes; at most {max_bytes} are read")
        with _tensors(source, begin) as tensors:
            digest, text = _split(tensors.metadata())
            names = sorted(tensors.keys())
            if len(names) > MAX_ARRAYS:
                raise FlawError(f"it has {len(names)} arrays; at most {MAX_ARRAYS} are read")
            arrays = {name: _array(tensors, name) for name in names}
        if _digest(text, arrays) != digest:
            raise FlawError("its bytes do not match its checksum", is_damage=True)
        for name, array in arrays.items():
            if array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
                raise FlawError(f"its array {name!r} has entries that are neither true nor false")
        manifest = _parse(text)
    except FlawError as flaw:
        if is_ours and flaw.is_damage:
            raise DamagedFileError(
                f"{source} is damaged: {flaw if begin else 'it is empty'}. Copy it again from an "
                "intact copy, or make it again."
            ) from flaw
        foreign = not is_ours and size <= max_bytes
        why = "rlvc did not write it" if foreign else flaw
        raise InvalidFileError(f"{source} is not a {kind} file: {why}.") from flaw
    check_format(source, manifest, kind, version, cures or {})
    return manifest, arrays


def _begin_of(source: Path) -> tuple[bytes, int]:
    """Return the first bytes of a regular file and its size; refuse any other, which may block."""
    if source.is_dir():
        raise InvalidFileError(f"{source} is a folder; name a file in it.")
    if not source.exists():
        raise FileFormatError(f"There is no file {source}.")
    if not source.is_file():
        raise InvalidFileError(f"{source} is a device or a pipe; name a regular file.")
    flags = os.O_RDONLY | getattr(os, "O_BINARY", getattr(os, "O_NONBLOCK", 0))
    try:
        handle = os.open(source, flags)
    except PermissionError as error:
        message = f"{error.strerror}; ask its owner to let you read it"
        raise PermissionError(error.errno, message, str(source)) from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):  # it was replaced a moment ago
            raise InvalidFileError(f"{source} is a device or a pipe; name a regular file.")
        return file.read(8 + sum(map(len, _MAGIC))), found.st_size


def _is_ours(begin: bytes) -> bool:
    """Return whether a file begins like ours; one part may be damaged, or both cut off."""
    length, rest = int.from_bytes(begin[:8], "little"), begin[8:]
    is_cut = len(rest) < len(_MAGIC[0]) and _MAGIC[0].startswith(rest) and length <= MAX_HEADER
    return is_cut or any(magic in rest for magic in _MAGIC)


@contextmanager
def _tensors(path: Pathlike, begin: bytes) -> Iterator[Any]:
    """Open a file with safetensors, unless its header is too long to be parsed quickly."""
    if int.from_bytes(begin[:8], "little") > MAX_HEADER:
        raise FlawError(f"its header has more than {MAX_HEADER} bytes", is_damage=True)
    try:
        with safe_open(path, framework="numpy", backend="pread") as tensors:
            yield tensors
    except SafetensorError as error:
        why = "its header is invalid, or bytes are missing at its end"
        raise FlawError(why, is_damage=True) from error


def _split(metadata: Mapping[str, str] | None) -> tuple[str, str]:
    """Return the checksum and the manifest in the metadata of a file."""
    match = _SEALED.fullmatch((metadata or {}).get("rlvc", ""))
    if match is None:
        raise FlawError("it has no checksum", is_damage=True)
    return match[1], "{" + match[2]


def _array(tensors: Any, name: str) -> NDArray[Any]:
    """Return an array, if it has plain numbers and a shape that NumPy supports."""
    about = tensors.get_slice(name)
    dtype, shape = about.get_dtype(), about.get_shape()
    if dtype not in _DTYPES:
        raise FlawError(f"its array {name[:100]!r} has entries of type {dtype}")
    if len(shape) > MAX_DIMENSIONS:
        raise FlawError(f"its array {name[:100]!r} has {len(shape)} dimensions")
    if 0 in shape and math.prod(n for n in shape if n) > MAX_EMPTY:
        raise FlawError(f"its array {name[:100]!r} has no entries but a large shape")
    array: NDArray[Any] = tensors.get_tensor(name)
    return array


def _parse(text: str) -> dict[str, Any]:
    if flaw := _find_excess(text.encode()):
        raise FlawError(flaw)
    try:
        manifest: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FlawError(f"its manifest is not valid JSON ({str(error)[:200]})") from error
    return manifest


def _find_excess(text: bytes) -> str:
    """Return which limit a manifest exceeds, before it is parsed; nothing if it exceeds none."""
    if len(text) > MAX_MANIFEST:
        return f"its manifest has {len(text)} bytes, more than {MAX_MANIFEST}"
    # Those inside strings are counted too, so the counts are never too low.
    n_values, n_quotes = sum(map(text.count, (b",", b":", b"[", b"{"))), text.count(b'"')
    if n_values > MAX_VALUES or n_quotes > 2 * MAX_VALUES:
        return f"its manifest has more than {MAX_VALUES} values"
    steps = _STEPS[np.frombuffer(_TEXT.sub(b"", text), np.uint8)]
    is_deep = np.cumsum(steps, dtype=np.int32).max(initial=0) > MAX_DEPTH
    return f"its manifest is nested deeper than {MAX_DEPTH}" if is_deep else ""


def _format_of(manifest: Mapping[str, Any]) -> str | None:
    found = manifest.get("format")
    return found if isinstance(found, str) and len(found) <= 100 else None


def check_format(
    source: Path, manifest: Mapping[str, Any], kind: str, version: int, cures: Mapping[str, str]
) -> None:
    """Raise an InvalidFileError unless a manifest declares this format and version."""
    found, number = _format_of(manifest), manifest.get("version")
    if found != kind:
        cure = cures.get(str(found), "")
        raise InvalidFileError(f"{source} is not a {kind} file; its format is {found!r}.{cure}")
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
