"""Linear algebra whose sums have a fixed order, unlike those of threaded libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit


@jit
def covariance(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the covariance of rows."""
    n, d = rows.shape
    mean = np.zeros(d, np.float64)
    for i in range(n):
        mean += rows[i]
    mean /= n
    total = np.zeros((d, d), np.float64)
    for i in range(n):
        away = rows[i] - mean
        for j in range(d):
            for c in range(j + 1):
                total[j, c] += away[j] * away[c]
    for j in range(d):
        for c in range(j + 1):
            total[j, c] /= n - 1
            total[c, j] = total[j, c]
    return total


@jit
def project(rows: NDArray[Any], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of rows and a matrix."""
    n, d = rows.shape
    r = matrix.shape[1]
    out = np.zeros((n, r), np.float64)
    for i in range(n):
        for j in range(d):
            level = rows[i, j]
            for c in range(r):
                out[i, c] += level * matrix[j, c]
    return out
