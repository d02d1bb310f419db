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

    Mahalanobis is fitted to a sample, and metrics that learn nothing to any rows; other metrics get
    all distinct rows, in memory. The folder is for temporary files.
    """
    if isinstance(metric, Mahalanobis):
        rows = sample_unique(groups, SAMPLE, folder)
        return None if rows is None else metric.fit(rows)
    distinct = UniqueRows(np.empty((0, 1), np.uint8))
    for rows in groups():
        if len(rows) and isinstance(metric, (Euclidean, Hamming)):  # they have nothing to learn
            return metric.fit(rows)
        distinct.add(rows)
    rows = distinct.finish()
    return metric.fit(rows) if len(rows) else None


def sample_unique(groups: Callable[[], Iterable[Descriptors]], most: int, folder: Path) -> Any:
    """Return a sample of all distinct rows, evenly spaced in the order of their first occurrence.

    It equals ``distinct[::k]`` of all distinct rows, with the least k that gives at most ``most``
    rows; None if there are no rows. While it runs, there is one more copy of the rows on disk, and
    a byte of memory for each row; ``groups`` is called three times.
    """
    sizes = [(len(rows), rows.nbytes) for rows in groups()]
    n, n_bytes = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    if n == 0:
        return None
    n_files = min(max(1, -(-n_bytes // SHARE)), MOST_FILES)
    is_first = np.zeros(n, np.bool_)
    for file, record in _spread(groups(), n_files, folder).items():
        records = np.fromfile(file, record)
        _, which = unique_rows(np.ascontiguousarray(records["row"]))
        is_first[records["at"][first_points(which)]] = True
        file.unlink()
    step = -(-np.count_nonzero(is_first) // most)
    chosen, begin, n_met = list[Descriptors](), 0, 0
    for rows in groups():
        new = np.flatnonzero(is_first[begin : begin + len(rows)])
        chosen.append(rows[new[-n_met % step :: step]])
        begin, n_met = begin + len(rows), n_met + len(new)
    return np.concatenate(chosen)


def _spread(groups: Iterable[Descriptors], n_files: int, folder: Path) -> dict[Path, np.dtype[Any]]:
    """Write rows to files by a hash; return the files and the type of their records.

    A record has the position of a row and its bytes.
    """
    files, begin = dict[Path, np.dtype[Any]](), 0
    for rows in groups:
        if len(rows):
            row_bytes = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
            record = np.dtype([("at", np.int64), ("row", np.uint8, row_bytes.shape[1:])])
            file_of = _hash(row_bytes) % np.uint64(n_files)
            for number in np.unique(file_of).tolist():
                rows_of = np.flatnonzero(file_of == number)
                records = np.empty(len(rows_of), record)
                records["at"], records["row"] = begin + rows_of, row_bytes[rows_of]
                file = folder / f"rows-{number}"
                with file.open("ab") as stream:
                    stream.write(records.tobytes())
                files[file] = record
        begin += len(rows)
    return files


def _hash(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return a hash of each row."""
    key = np.full(len(rows), 14695981039346656037, np.uint64)  # Fowler, Noll and Vo's hash
    for column in rows.T:
        key = (key ^ column) * np.uint64(1099511628211)
    return key >> np.uint64(16)
