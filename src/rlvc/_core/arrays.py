"""Names for the types of arrays, and sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]
Rows = tuple[Ints, Ints32]  # where each row begins (and the last ends), and what is in the rows


@jit
def take_rows(begin: Ints, values: NDArray[Any], rows: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Return the given ones of sparse rows, in this order; they may repeat.

    >>> take_rows(np.array([0, 2, 3]), np.array([5, 6, 7]), np.array([1, 0]))[1].tolist()
    [7, 5, 6]
    """
    out_begin = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        out_begin[i + 1] = out_begin[i] + begin[rows[i] + 1] - begin[rows[i]]
    out = np.empty(out_begin[-1], values.dtype)
    for i in range(len(rows)):
        first = begin[rows[i]]
        for k in range(out_begin[i + 1] - out_begin[i]):
            out[out_begin[i] + k] = values[first + k]
    return out_begin, out
