"""Kernels on sparse rows: the compiled part of incidence matrices.

A matrix is two arrays: ``indptr``, where each row begins, and ``indices``, the features of the
rows, each once, in ascending order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints, Rows
from rlvc._core.jit import jit


@jit
def is_among(indices: NDArray[np.int32], first: int, end: int, feature: int) -> bool:
    """Tell whether a feature is in the row from ``first`` to ``end``."""
    last = end
    while first < last:
        middle = (first + last) // 2
        if indices[middle] < feature:
            first = middle + 1
        else:
            last = middle
    return bool(first < end and indices[first] == feature)


@jit
def sort_pairs(
    percept: Ints, feature: NDArray[np.int32], indptr: Ints, indices: NDArray[np.int32]
) -> int:
    """Write the rows in ascending order, each feature once; return how many there are."""
    n = len(indptr) - 1
    for i in range(len(percept)):
        indptr[percept[i] + 1] += 1
    for row in range(n):
        indptr[row + 1] += indptr[row]
    for i in range(len(percept) - 1, -1, -1):  # from the end of each row, back
        row = percept[i]
        indptr[row + 1] -= 1
        indices[indptr[row + 1]] = feature[i]
    # Now indptr[row + 1] is where the row begins, and it ends where the next one does.
    out = 0
    for row in range(n):
        first = indptr[row + 1]
        last = indptr[row + 2] if row + 1 < n else len(percept)
        is_sorted = True
        for i in range(first + 1, last):
            is_sorted = is_sorted and indices[i - 1] <= indices[i]
        if not is_sorted:
            indices[first:last] = np.sort(indices[first:last])
        indptr[row] = out
        for i in range(first, last):
            if i == first or indices[i] != indices[i - 1]:
                kept = indices[i]
                indices[out] = kept
                out += 1
    indptr[n] = out
    return out


@jit
def count_sets(
    indptr: Ints,
    indices: NDArray[np.int32],
    wanted: NDArray[np.uint64],
    rows: Ints,
    total: NDArray[np.integer],
    span: tuple[int, int],
) -> None:
    """Add the number of features of each set that each percept, or each of ``rows``, exhibits."""
    for k in range(span[0], span[1]):
        row = rows[k] if len(rows) else k
        for i in range(indptr[row], indptr[row + 1]):
            sets = wanted[np.uint32(indices[i])]
            number = 0
            while sets:  # few features are in any
                if sets & np.uint64(1):
                    total[number, k] += 1
                sets >>= np.uint64(1)
                number += 1


@jit
def find_features(
    indptr: Ints,
    indices: NDArray[np.int32],
    pivot: Ints,
    features: Ints,
    has: NDArray[np.bool_],
    span: tuple[int, int],
) -> None:
    """Tell which percepts exhibit the feature that they count for."""
    for row in range(span[0], span[1]):
        if pivot[row] >= 0:
            has[row] |= is_among(indices, indptr[row], indptr[row + 1], features[pivot[row]])


@jit
def count_cooccurrences(
    indptr: Ints,
    indices: NDArray[np.int32],
    pivot: Ints,
    has: NDArray[np.bool_],
    shape: tuple[int, int, int],
    span: tuple[int, int],
) -> Ints:
    """Return how many percepts exhibit each feature, without and with the one they count for."""
    n_given, n_features = shape[1], shape[2]
    count = np.zeros(2 * n_given * n_features, np.int64)
    for row in range(span[0], span[1]):
        if pivot[row] >= 0:
            first = np.uint64(((n_given if has[row] else 0) + pivot[row]) * n_features)
            for i in range(indptr[row], indptr[row + 1]):
                count[first + np.uint64(indices[i])] += 1
    return count.reshape(shape)


@jit
def only_wanted(indptr: Ints, indices: NDArray[np.int32], wanted: NDArray[np.bool_]) -> Rows:
    """Return the rows with only the wanted features."""
    begin = np.zeros(len(indptr), np.int64)
    for row in range(len(indptr) - 1):
        begin[row + 1] = begin[row]
        for i in range(indptr[row], indptr[row + 1]):
            begin[row + 1] += wanted[indices[i]]
    out = np.empty(begin[-1], indices.dtype)
    n = 0
    for i in range(len(indices)):
        if wanted[indices[i]]:
            out[n] = indices[i]
            n += 1
    return begin, out


@jit
def join_rows(
    left: Ints,
    left_indices: NDArray[np.int32],
    right: Ints,
    right_indices: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    """Write the rows of one matrix, each continued by that of another."""
    n = 0
    for row in range(len(left) - 1):
        for i in range(left[row], left[row + 1]):
            out[n] = left_indices[i]
            n += 1
        for i in range(right[row], right[row + 1]):
            out[n] = right_indices[i]
            n += 1
