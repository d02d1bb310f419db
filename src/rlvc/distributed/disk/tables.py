"""Parquet files of plain columns: write them in parts, read them and check them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.data.io.table import camera_column, import_pyarrow
from rlvc.distributed.disk.format import CURE, FileInfo
from rlvc.errors import DamagedFileError, FileFormatError, InvalidFileError

Kinds = Mapping[str, str]  # the type of each column, as Arrow names it
Columns = Mapping[str, Any]

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
    "x": "float",
    "y": "float",
    "scale": "float",
    "angle": "float",
}
FEW = ("camera", "image", "episode", "path")  # columns with few distinct values


def percepts_kinds(cameras: Sequence[str]) -> Kinds:
    """Return the columns of the percepts of a shard: a column for each camera."""
    images = {camera_column(name): "int64" for name in cameras}
    return {"percept": "int64", **images, "is_first": "bool"}


class TableWriter:
    """A Parquet file that is written a part at a time; each part is a row group.

    Args:
        path: The file; its folder must exist.
        kinds: Its columns.
    """

    def __init__(self, path: Path, kinds: Kinds) -> None:
        pyarrow = import_pyarrow()
        self._pyarrow, self._path, self._rows = pyarrow, path, 0
        self._schema = _schema(kinds)
        repeated = [name for name in kinds if name in FEW]
        self._writer = pyarrow.parquet.ParquetWriter(
            str(path), self._schema, use_dictionary=repeated, store_schema=False
        )

    def add(self, columns: Columns) -> None:
        """Add rows, if there are any; a text fills its column."""
        n = max(len(one) for one in columns.values() if not isinstance(one, str))
        arrays = [_array(columns[field.name], field.type, n) for field in self._schema]
        table = self._pyarrow.Table.from_arrays(arrays, schema=self._schema)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._rows += table.num_rows

    def close(self) -> FileInfo:
        """Finish the file, and describe it."""
        self._writer.close()
        return describe_file(self._path, self._rows)


@contextmanager
def table_writer(path: Path, kinds: Kinds) -> Iterator[TableWriter]:
    """Open a file to write, and close it after an error."""
    writer = TableWriter(path, kinds)
    try:
        yield writer
    except BaseException:
        with suppress(Exception):  # the first error counts
            writer._writer.close()
        raise


def write_table(path: Path, kinds: Kinds, columns: Columns) -> FileInfo:
    """Write a file of one part."""
    with table_writer(path, kinds) as writer:
        writer.add(columns)
        return writer.close()


def describe_file(path: Path, rows: int = 0) -> FileInfo:
    """Return the size and the checksum of a file."""
    crc, size = 0, 0
    with path.open("rb") as file:
        while data := file.read(2**22):
            crc, size = zlib.crc32(data, crc), size + len(data)
    return FileInfo(rows, size, crc)


class TableReader:
    """Read a Parquet file that has not changed since it was written.

    Raises:
        DamagedFileError: Bytes changed or are missing.
        InvalidFileError: It has other columns or rows than expected.
        FileFormatError: There is no such file.
    """

    def __init__(self, path: Path, kinds: Kinds, piece: FileInfo) -> None:
        pyarrow = import_pyarrow()
        self._path, self._piece = path, piece
        data = read_bytes(path, piece)
        with self._explain_arrow(pyarrow):
            self._file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
            found, metadata = self._file.schema_arrow, self._file.metadata
            if not found.equals(_schema(kinds), check_metadata=False):
                shown = ", ".join(f"{field.name}: {field.type}" for field in found)
                raise InvalidFileError(f"{path} has other columns than it must: {shown[:300]}.")
            groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if (
            sum(groups) != piece.rows
            or metadata.num_rows != piece.rows
            or min(groups, default=0) < 0
        ):
            raise InvalidFileError(
                f"{path} has {metadata.num_rows} rows; {piece.rows} are expected. {CURE}"
            )
        self.begin = np.concatenate([[0], np.cumsum(groups, dtype=np.int64)]).astype(np.int64)

    def read(self, names: Sequence[str], group: int | None = None) -> dict[str, NDArray[Any]]:
        """Return some columns: of one row group, or of all."""
        groups = list(range(len(self.begin) - 1)) if group is None else [group]
        rows = self._piece.rows if group is None else int(self.begin[group + 1] - self.begin[group])
        with self._explain_arrow(import_pyarrow()):
            table = self._file.read_row_groups(groups, columns=list(names))
            columns = {name: np.asarray(table.column(name).to_numpy()) for name in names}
        if any(len(column) != rows for column in columns.values()):
            raise InvalidFileError(f"{self._path} has columns of several lengths. {CURE}")
        return columns

    @contextmanager
    def _explain_arrow(self, pyarrow: Any) -> Iterator[None]:
        """Turn an error of Arrow into an InvalidFileError."""
        try:
            yield
        except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
            raise InvalidFileError(
                f"{self._path} is not a Parquet file that can be read ({str(error)[:200]}). {CURE}"
            ) from error


def read_bytes(path: Path, piece: FileInfo) -> bytes:
    """Return the bytes of a file, if they have not changed."""
    if not path.exists():
        raise FileFormatError(f"There is no file {path}. {CURE}")
    if not path.is_file():
        raise InvalidFileError(f"{path} is no ordinary file. {CURE}")
    is_whole = path.stat().st_size == piece.bytes  # first, as a large file may not fit in memory
    data = path.read_bytes() if is_whole else b""
    if not is_whole or len(data) != piece.bytes or zlib.crc32(data) != piece.crc32:
        raise DamagedFileError(f"{path} is damaged: it changed since it was written. {CURE}")
    return data


def _array(column: Any, kind: Any, n: int) -> Any:
    pyarrow = import_pyarrow()
    if isinstance(column, str):
        return pyarrow.repeat(pyarrow.scalar(column, kind), n)
    return pyarrow.array(column, kind, from_pandas=False)  # keep NaN, which is no gap


def _schema(kinds: Kinds) -> Any:
    pyarrow = import_pyarrow()
    types = {
        "int32": pyarrow.int32(),
        "int64": pyarrow.int64(),
        "float": pyarrow.float32(),
        "double": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "string": pyarrow.string(),
    }
    return pyarrow.schema(
        [
            pyarrow.field(name, types[kind.removesuffix("?")], nullable=kind.endswith("?"))
            for name, kind in kinds.items()
        ]
    )
