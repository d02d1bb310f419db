"""Parquet files of plain columns: write them, read them and check them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.data.io.table import camera_column, import_pyarrow
from rlvc.distributed.disk.format import CURE, CameraInfo, FileInfo
from rlvc.errors import DamagedFileError, FileFormatError, InvalidFileError

Kinds = Mapping[str, str]  # the Arrow type of each column; with ? if it may have missing values
Columns = Mapping[str, Any]

PLACE = ("x", "y", "scale", "angle")
INTERACTIONS: Kinds = {
    "episode": "int64",
    "start": "int64",
    "action": "int32",
    "reward": "double",
    "end": "int64",
    "terminated": "bool",
    "truncated": "bool",
    "stuck": "bool",
}
IMAGES: Kinds = {
    "camera": "string",
    "image": "int64",
    "path": "string?",
    "digest": "string",
    "symbols": "int32",
}
SYMBOLS: Kinds = {
    "camera": "string",
    "image": "int64",
    "symbol": "int32",
    **dict.fromkeys(PLACE, "float"),
}
FEW = ("camera", "image", "episode", "path")  # columns with few distinct values


def percepts_kinds(cameras: Iterable[CameraInfo]) -> Kinds:
    """Return the columns of the percepts of a shard, with one column per camera."""
    images = {camera_column(camera.name): "int64" for camera in cameras}
    return {"percept": "int64", **images, "is_first": "bool"}


def write_table(path: Path, kinds: Kinds, columns: Columns) -> FileInfo:
    """Write a file and describe it."""
    pyarrow = import_pyarrow()
    path.parent.mkdir(exist_ok=True)
    table = pyarrow.table(dict(columns), schema=_schema(kinds))
    pyarrow.parquet.write_table(table, path, use_dictionary=FEW, store_schema=False)
    return describe_file(path, table.num_rows)


def describe_file(path: Path, rows: int = 0) -> FileInfo:
    """Return the size and the checksum of a file."""
    data = path.read_bytes()
    return FileInfo(rows, len(data), zlib.crc32(data))


def read_table(
    path: Path, kinds: Kinds, piece: FileInfo, names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return some columns of a Parquet file that has not changed since it was written.

    Raises:
        DamagedFileError: Bytes changed or are missing.
        InvalidFileError: The columns or the number of rows are not those expected.
        FileFormatError: There is no such file.
    """
    pyarrow, data = import_pyarrow(), read_bytes(path, piece)
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        found, n_rows = file.schema_arrow, file.metadata.num_rows
        if not found.equals(_schema(kinds)):
            shown = ", ".join(f"{field.name}: {field.type}" for field in found)
            raise InvalidFileError(f"{path} has unexpected columns: {shown[:300]}. {CURE}")
        if n_rows != piece.rows:  # before they are allocated
            raise InvalidFileError(f"{path} has {n_rows} rows; {piece.rows} are expected. {CURE}")
        table = file.read(columns=list(names))
        columns = {name: np.asarray(table.column(name).to_numpy()) for name in names}
    except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise InvalidFileError(
            f"{path} is not a Parquet file that can be read ({str(error)[:200]}). {CURE}"
        ) from error
    if any(len(column) != n_rows for column in columns.values()):
        raise InvalidFileError(f"{path} has columns of different lengths. {CURE}")
    return columns


def read_bytes(path: Path, piece: FileInfo) -> bytes:
    """Return the bytes of a file, or raise a FileFormatError if they have changed."""
    if not path.exists():
        raise FileFormatError(f"There is no file {path}. {CURE}")
    if not path.is_file():
        raise InvalidFileError(f"{path} is not a regular file. {CURE}")
    has_size = path.stat().st_size == piece.bytes  # first, as a larger file may not fit in memory
    data = path.read_bytes() if has_size else b""
    if not has_size or len(data) != piece.bytes or zlib.crc32(data) != piece.crc32:
        raise DamagedFileError(f"{path} is damaged: it changed since it was written. {CURE}")
    return data


def _schema(kinds: Kinds) -> Any:
    pyarrow = import_pyarrow()
    fields = (
        pyarrow.field(name, kind.removesuffix("?"), nullable=kind.endswith("?"))
        for name, kind in kinds.items()
    )
    return pyarrow.schema(fields)
