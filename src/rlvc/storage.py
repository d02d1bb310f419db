"""One file for many arrays: a zip of a JSON manifest and plain arrays. Nothing in it can run.

Files are written whole or not at all, and the same content always gives the same bytes.
"""

from __future__ import annotations

import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.errors import FileFormatError

MANIFEST = "manifest.json"
MOMENT = (1980, 1, 1, 0, 0, 0)  # zip members carry a date; a fixed one keeps files comparable


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader finds either what was there before or all of the new."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file in it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # as if it had been opened in the ordinary way
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_archive(
    path: str | os.PathLike[str], manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a manifest and named arrays into one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
        archive.writestr(zipfile.ZipInfo(MANIFEST, MOMENT), text)
        for name in sorted(arrays):
            member = io.BytesIO()
            array = np.asarray(arrays[name], order="C")
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", MOMENT), member.getvalue())
    write_whole(path, buffer.getvalue())


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return the format that a file says it has; None if it does not say."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(_member(archive, archive.getinfo(MANIFEST)))
        return str(manifest["format"])
    except (*_BROKEN, KeyError, TypeError, RecursionError):
        return None


def read_archive(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    cures: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file of :func:`write_archive`, or raise a FileFormatError that says why not.

    Args:
        path: The file.
        kind: The format that it must have.
        version: The version of the format.
        cures: What to do about files of other formats.
    """
    source = Path(path)
    if not source.is_file():
        is_folder = source.is_dir()
        raise FileFormatError(
            f"{source} is a folder." if is_folder else f"There is no file {source}."
        )
    try:
        with zipfile.ZipFile(source) as archive:
            members = {info.filename: _member(archive, info) for info in archive.infolist()}
        manifest = json.loads(members.pop(MANIFEST))
        found = manifest.get("format"), manifest.get("version")
    except (*_BROKEN, KeyError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"{source} is not a {kind} file, or it is damaged ({error})."
        ) from error
    if found[0] != kind:
        cure = (cures or {}).get(str(found[0]), "")
        raise FileFormatError(f"{source} is not a {kind} file; it says {found[0]!r}.{cure}")
    if found[1] != version:
        raise FileFormatError(
            f"{source} has version {found[1]!r} of the format; this rlvc reads version {version}. "
            "Install the rlvc that wrote it, or learn the policy again."
        )
    try:
        arrays = {name.removesuffix(".npy"): _array(data) for name, data in members.items()}
    except (*_BROKEN, TypeError, SyntaxError, RecursionError) as error:
        raise FileFormatError(f"An array in {source} is damaged ({error}).") from error
    return manifest, arrays


_BROKEN = (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError, RuntimeError)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return what is stored; nothing here is compressed, so sizes are what they seem."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ValueError(f"{info.filename} is compressed")
    return archive.read(info)


def _array(data: bytes) -> NDArray[Any]:
    """Return an array of plain numbers, after checking that the bytes are all there."""
    member = io.BytesIO(data)
    if np.lib.format.read_magic(member) != (1, 0):
        raise ValueError("an array of another version")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(member)
    if fortran_order or dtype.kind not in "biuf" or not all(n >= 0 for n in shape):
        raise ValueError("an array that is not plain")
    if math.prod(shape) * dtype.itemsize != len(data) - member.tell():
        raise ValueError("an array of another size than it says")
    return np.frombuffer(data, dtype, offset=member.tell()).reshape(shape).copy()
