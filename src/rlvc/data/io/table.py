"""Tables of interactions, CSV or Parquet, and the file ``actions.txt`` beside them."""

from __future__ import annotations

import csv
import difflib
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvc._core.registry import import_extra
from rlvc.data.io.checksums import CheckedFolder
from rlvc.data.percepts import SINGLE
from rlvc.data.validation import ProblemCollector, check_actions, raise_all
from rlvc.errors import DataError

IMAGE = "image"
COLUMNS = ("episode", "step", IMAGE, "action", "reward", "terminated", "truncated")
SUFFIXES = (".csv", ".parquet")
ACTIONS_FILE = "actions.txt"


@dataclass(frozen=True, slots=True)
class RawTable:
    """The cells of each known column as stripped text; an empty cell is an empty string.

    Blank lines are not rows.
    """

    n_rows: int
    columns: Mapping[str, list[str]]

    @property
    def cameras(self) -> dict[str, str]:
        """The column of each camera."""
        names = filter(_is_camera, self.columns)
        return {name.removeprefix(IMAGE).removeprefix("."): name for name in names}


def camera_column(camera: str) -> str:
    """Return the column of a camera.

    >>> camera_column(""), camera_column("front")
    ('image', 'image.front')
    """
    return IMAGE if camera == SINGLE else f"{IMAGE}.{camera}"


def _is_camera(name: str) -> bool:
    return name == IMAGE or name.startswith(f"{IMAGE}.")


def find_table(path: str | os.PathLike[str]) -> Path:
    """Return the only table of a folder, or the path itself if it is a table.

    Raises:
        DataError: There is no table, or more than one.
    """
    place = Path(path)
    kinds = " or ".join(SUFFIXES)
    if place.is_file():
        if place.suffix.lower() in SUFFIXES:
            return place
        raise DataError(str(path), [f"It is not a table: its name must end with {kinds}."])
    if not place.is_dir():
        raise DataError(str(path), ["There is no such folder and no such file."])
    found = sorted(
        file
        for file in place.iterdir()
        if file.suffix.lower() in SUFFIXES and file.is_file() and not file.name.startswith(".")
    )
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(file.name for file in found)
        fact = f"There are {len(found)} tables ({names}). Name the one to read, with its folder."
    else:
        fact = f"There is no table: one file whose name ends with {kinds}."
    raise DataError(str(path), [fact])


def read_table(folder: CheckedFolder, name: str, problems: ProblemCollector) -> RawTable:
    """Return the cells of a table; add the problems of its header and rows."""
    data = folder.load(name, problems)
    if data is None:
        raise problems.error()
    table = (_read_csv if name.lower().endswith(".csv") else _read_parquet)(name, data, problems)
    if not table.n_rows:
        problems.add("There are no rows.")
    return table


def encode_table(kind: str, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Return the bytes of a table as ``csv`` or ``parquet``; None becomes an empty cell.

    >>> encode_table("csv", {"step": [0, 1], "terminated": [True, None]}).split()
    [b'step,terminated', b'0,true', b'1,']
    """
    if kind == "parquet":
        pyarrow = import_pyarrow()
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(dict(columns)), stream)
        return stream.getvalue()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(str(cell).lower() if isinstance(cell, bool) else cell for cell in row)
    return text.getvalue().encode()


def import_pyarrow() -> Any:
    """Return pyarrow with its Parquet module; it is an optional dependency."""
    return import_extra("parquet", "pyarrow.parquet")


def _decode(name: str, data: bytes, problems: ProblemCollector) -> str | None:
    """Return the text of a file; None, and a problem, if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.add(f"{name} is not UTF-8 text (byte {error.start}). Save it as UTF-8.")
        return None


def _read_csv(name: str, data: bytes, problems: ProblemCollector) -> RawTable:
    text = _decode(name, data, problems)
    if text is None:
        raise problems.error()
    head = text.lstrip("\r\n").partition("\n")[0]
    delimiter = next((mark for mark in ",;\t" if mark in head), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [cells for cells in reader if len(cells) > 1 or "".join(cells).strip()]
    except csv.Error as error:
        problems.add(f"{name} is not valid CSV in line {reader.line_num} ({error}).")
        raise problems.error() from error
    if not lines:
        problems.add(f"{name} is empty. Its first line must name the columns.")
        raise problems.error()
    names, cells = [name.strip() for name in lines[0]], lines[1:]
    uneven = [row for row, line in enumerate(cells) if len(line) != len(names)]
    counts = [str(len(cells[row])) for row in uneven]
    problems.at(f"The number of cells is not {len(names)}, as in the header,", uneven, counts)
    for row in uneven:
        cells[row] = (cells[row] + [""] * len(names))[: len(names)]
    known = _known(names, problems)
    columns = {one: [line[names.index(one)].strip() for line in cells] for one in known}
    return RawTable(len(cells), columns)


def _read_parquet(name: str, data: bytes, problems: ProblemCollector) -> RawTable:
    pyarrow = import_pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)) as file:
            names = _known(file.schema_arrow.names, problems)
            read, n_rows = file.read(columns=names), file.metadata.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        problems.add(f"{name} is not a Parquet file, or it is damaged ({error}).")
        raise problems.error() from error
    columns = {}
    for one in names:
        column = read.column(read.column_names.index(one))  # a name may be repeated
        columns[one] = [_text(value, one) for value in column.to_pylist()]
    return RawTable(n_rows, columns)


def _text(value: Any, column: str) -> str:
    """Return a value as the text of a cell; NaN is an empty cell, unless it is a reward."""
    if value is None or (isinstance(value, float) and math.isnan(value) and column != "reward"):
        return ""
    return str(value).strip()


def _known(names: Sequence[str], problems: ProblemCollector) -> list[str]:
    """Return the names of the known columns; add the problems of names."""
    known = [name for name in dict.fromkeys(names) if name in COLUMNS or _is_camera(name)]
    for name in known:
        if names.count(name) > 1:
            problems.add(f"Column {name!r} appears {names.count(name)} times.")
    cameras = [name for name in known if _is_camera(name)]
    others = {name.lower(): name for name in reversed(names) if name not in known}
    for name in COLUMNS:
        if name in known or (name == IMAGE and cameras):
            continue
        near = difflib.get_close_matches(name, others, n=1)
        hint = f"; there is {others[near[0]]!r}" if near else ""
        problems.add(f"Column {name!r} is missing{hint}.")
    if IMAGE in cameras and len(cameras) > 1:
        problems.add(
            f"There are columns {IMAGE!r} and {cameras[cameras[0] == IMAGE]!r}. Keep {IMAGE!r} for "
            f"one camera, or a column '{IMAGE}.NAME' for each of several."
        )
    return known


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """A discrete action space.

    Attributes:
        start: The first action, as the environment numbers them.
        n: The number of actions; None if it is not known.
        names: Their names, if they have any.

    >>> ActionSpec(0, 2, ("left", "right")).changed(None, 5, ("up", "down"))
    ActionSpec(start=5, n=2, names=('up', 'down'))
    """

    start: int = 0
    n: int | None = None
    names: tuple[str, ...] = ()

    def changed(self, n: int | None, start: int | None, names: tuple[str, ...]) -> ActionSpec:
        """Return these actions, with the arguments of ``read_folder`` that are given instead."""
        changed = ActionSpec(
            self.start if start is None else start,
            (len(names) or self.n) if n is None else n,
            names or self.names,
        )
        if changed.n is not None and (n is not None or names):
            raise_all(list(check_actions(changed.n, changed.names, "read_folder")))
        return changed


def read_actions(folder: CheckedFolder, problems: ProblemCollector) -> ActionSpec:
    """Return the actions in ``actions.txt``, if it exists; add its problems."""
    data = folder.load(ACTIONS_FILE, problems) if (folder.folder / ACTIONS_FILE).exists() else None
    text = None if data is None else _decode(ACTIONS_FILE, data, problems)
    if text is None:
        return ActionSpec()
    lines = [line.split(maxsplit=1) for line in text.split("\n") if line.strip()]
    try:
        numbers = [int(line[0]) for line in lines]
    except ValueError:
        numbers = []
    is_run = numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    if not is_run or abs(numbers[0]) > 2**31:
        problems.add(
            f"{ACTIONS_FILE} must have a line for each action, with its number and its name, such "
            "as '0 left', and the numbers must go up by one from line to line."
        )
        return ActionSpec()
    names = tuple(line[1].strip() for line in lines if len(line) > 1)
    if names and len(names) != len(numbers):
        problems.add(f"{ACTIONS_FILE} must name all actions or none; it names {len(names)}.")
        names = ()
    return ActionSpec(numbers[0], len(numbers), names)
