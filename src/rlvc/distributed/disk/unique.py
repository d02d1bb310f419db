"""Fit a metric to the distinct rows of files that do not fit in memory.

The Mahalanobis metric is fitted to rows that are evenly spaced among all distinct descriptors. To
find these, rows are first spread over files by a hash: equal rows are in the same file, which fits
in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc.vision.descriptors import Descriptors
from rlvc.vision.keypoints import UniqueRows, first_points, unique_rows
from rlvc.vision.metrics import SAMPLE, Euclidean, Hamming, Mahalanobis, Metric

SHARE: Final = 64 * 2**20  # bytes of rows that are compared at a time
MOST_FILES: Final = 4096


def fit_metric(
    metric: Metric, groups: Callable[[], Iterable[Descriptors]], folder: Path
) -> Metric | None:
    """Return the metric fitted to all distinct rows; None if there are none.

    Args:
        metric: Any but Mahalanobis and those that learn nothing gets all rows, in memory.
        groups: Yield the rows, a group at a time.
        folder: The folder for temporary files.
    """
    if isinstance(metric, Mahalanobis):
        rows = sample_unique(groups, SAMPLE, folder)
        return None if rows is None else metric.fit(rows)
    distinct: UniqueRows | None = None
    for rows in groups():
        if len(rows):
            if isinstance(metric, (Euclidean, Hamming)):  # they have nothing to learn
                return metric.fit(rows)
            distinct = distinct or UniqueRows(rows)
            distinct.add(rows)
    return None if distinct is None else metric.fit(distinct.finish())


def sample_unique(groups: Callable[[], Iterable[Descriptors]], most: int, folder: Path) -> Any:
    """Return a sample of all distinct rows, evenly spaced in the order of their first occurrence.

    It is what ``distinct[::k]`` would be if all were in memory, with the least k for which this is
    at most ``most`` rows; None if there are no rows. It costs one more copy of the rows on disk
    while it runs, three calls of ``groups``, and a bit of memory for each row.
    """
    sizes = [(len(rows), rows.nbytes) for rows in groups()]
    n, n_bytes = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    if n == 0:
        return None
    n_files = min(max(1, -(-n_bytes // SHARE)), MOST_FILES)
    is_first = np.zeros(-(-n // 8), np.uint8)  # a bit for each row
    for file in _spread(groups(), n_files, folder):
        records = np.fromfile(file, _record(file))
        rows = np.ascontiguousarray(records["row"])
        _, which = unique_rows(rows)
        at = records["at"][first_points(which)]
        np.bitwise_or.at(is_first, at >> 3, np.uint8(128) >> (at & 7).astype(np.uint8))
        file.unlink()
    step = -(-int(np.bitwise_count(is_first).sum(dtype=np.int64)) // most) or 1
    chosen, begin, n_met = list[Descriptors](), 0, 0
    for rows in groups():
        end = begin + len(rows)
        bits = np.unpackbits(is_first[begin // 8 : -(-end // 8)])
        new = np.flatnonzero(bits[begin % 8 :][: len(rows)])
        chosen.append(rows[new[(n_met + np.arange(len(new))) % step == 0]])
        begin, n_met = end, n_met + len(new)
    return np.concatenate(chosen)


def _record(file: Path) -> np.dtype[Any]:
    """Return the type of the records of a file: the position of each row, and its bytes."""
    return np.dtype([("at", np.int64), ("row", np.uint8, (int(file.suffix[1:]),))])


def _spread(groups: Iterable[Descriptors], n_files: int, folder: Path) -> list[Path]:
    """Write rows to files by a hash; return the files."""
    files, begin = set[Path](), 0
    for rows in groups:
        if len(rows):
            row_bytes = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
            file_of = _hash(row_bytes) % np.uint64(n_files)
            for number in np.unique(file_of).tolist():
                rows_of = np.flatnonzero(file_of == number)
                file = folder / f"rows-{number}.{row_bytes.shape[1]}"
                records = np.empty(len(rows_of), _record(file))
                records["at"], records["row"] = begin + rows_of, row_bytes[rows_of]
                with file.open("ab") as stream:
                    stream.write(records.tobytes())
                files.add(file)
        begin += len(rows)
    return sorted(files)


def _hash(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return a hash of each row."""
    key = np.full(len(rows), 14695981039346656037, np.uint64)  # Fowler, Noll and Vo's hash
    for column in rows.T:
        key = (key ^ column) * np.uint64(1099511628211)
    return key >> np.uint64(16)
