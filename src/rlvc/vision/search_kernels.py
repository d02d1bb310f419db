"""Kernels that compare rows number by number, for metrics that embed descriptors as such rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc.vision.sketch import LANES, LENGTH, near_lanes


@jit
def is_far(a: NDArray[Any], i: int, b: NDArray[Any], j: int, limit: float, binary: bool) -> bool:
    """Tell whether row i of a is farther than the limit from row j of b; stop early if it is.

    The limit is a number of bits for binary rows (words), else a squared distance.
    """
    width = a.shape[1]
    if binary:
        bits = np.int64(0)
        for c in range(width):
            bits += _count_bits(np.uint64(a[i, c]) ^ np.uint64(b[j, c]))
        return bool(bits > limit)
    zero = np.int32(0)  # bytes become integers, whose sums do not depend on the order
    total = (a[i, 0] + zero) * 0
    for begin in range(0, width, 16):
        for c in range(begin, min(begin + 16, width)):
            difference = (a[i, c] + zero) - (b[j, c] + zero)
            total += difference * difference
        if total > limit:
            return True
    return False


@jit
def _count_bits(word: np.uint64) -> np.int64:
    """Count the bits of a word by adding neighbours: pairs, fours, bytes, then all bytes."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@jit
def find_leaders(rows: NDArray[Any], limit: float, binary: bool) -> NDArray[np.int64]:
    """Return the rows that are not within the limit of an earlier one of these."""
    chosen = np.empty(len(rows), np.int64)
    n = 0
    for i in range(len(rows)):
        for j in range(n):
            if not is_far(rows, i, rows, chosen[j], limit, binary):
                break
        else:
            chosen[n] = i
            n += 1
    return chosen[:n].copy()


@jit
def find_near(
    rows: NDArray[Any],
    centres: NDArray[Any],
    order: NDArray[np.int64],
    axis: int,
    limit: float,
    binary: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """List the centres near each row, lowest number first.

    ``order`` sorts the centres along one axis, so that only a window of them need be compared.
    """
    counts = np.zeros(len(rows), np.int64)
    found = np.empty(2 * len(rows) + 16, np.int32)
    reach = np.inf if binary else np.sqrt(limit) * (1 + 1e-9)
    n = 0
    for i in range(len(rows)):
        first, last = 0, len(order)
        while first < last:  # the first centre that is not too far to the left
            middle = (first + last) // 2
            if float(rows[i, axis]) - float(centres[order[middle], axis]) > reach:
                first = middle + 1
            else:
                last = middle
        begin = n
        for k in range(first, len(order)):
            j = order[k]
            if float(centres[j, axis]) - float(rows[i, axis]) > reach:
                break
            if not is_far(rows, i, centres, j, limit, binary):
                if n == len(found):
                    found = np.concatenate((found, found))
                found[n] = j
                n += 1
        found[begin:n].sort()
        counts[i] = n - begin
    return counts, found[:n].copy()


@jit
def find_sketched_leaders(
    rows: NDArray[Any], sketches: NDArray[np.float32], near: np.float32, limit: float
) -> NDArray[np.int64]:
    """Return the leaders; ``near`` is the limit of the sketches, ``limit`` that of the rows."""
    chosen = np.empty(len(rows), np.int64)
    met = np.full((-(-len(rows) // LANES), LENGTH, LANES), np.inf, np.float32)  # tiles of chosen
    gaps, lanes = np.empty(LANES, np.float32), np.empty(LANES, np.int32)
    n = 0
    for i in range(len(rows)):
        is_new = True
        for t in range(-(-n // LANES)):
            for k in range(near_lanes(sketches, i, met, t, near, gaps, lanes)):
                if not is_far(rows, i, rows, chosen[t * LANES + lanes[k]], limit, False):
                    is_new = False
                    break
            if not is_new:
                break
        if is_new:
            for number in range(LENGTH):
                met[n // LANES, number, n % LANES] = sketches[i, number]
            chosen[n] = i
            n += 1
    return chosen[:n].copy()


@jit
def find_sketched_pairs(
    rows: NDArray[Any],
    sketches: NDArray[np.float32],
    centres: NDArray[Any],
    tiles: NDArray[np.float32],
    near: np.float32,
    limit: float,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """List the rows and centres that are near; the centres of each row, lowest number first.

    A tile is compared with a few rows while it is in the processor's cache.
    """
    row, centre = np.empty(2 * len(rows) + 16, np.int32), np.empty(2 * len(rows) + 16, np.int32)
    gaps, lanes = np.empty(LANES, np.float32), np.empty(LANES, np.int32)
    n = 0
    for first in range(0, len(rows), 32):
        for t in range(len(tiles)):
            for i in range(first, min(first + 32, len(rows))):
                for k in range(near_lanes(sketches, i, tiles, t, near, gaps, lanes)):
                    j = t * LANES + lanes[k]
                    if not is_far(rows, i, centres, j, limit, False):
                        if n == len(row):
                            row = np.concatenate((row, row))
                            centre = np.concatenate((centre, centre))
                        row[n], centre[n] = i, j
                        n += 1
    return row[:n].copy(), centre[:n].copy()


@jit
def find_matches(
    rows: NDArray[Any], centres: NDArray[Any], symbol: int, limit: float, binary: bool
) -> NDArray[np.int64]:
    """Return the rows that are near one centre."""
    found = np.empty(len(rows), np.int64)
    n = 0
    for i in range(len(rows)):
        if not is_far(rows, i, centres, symbol, limit, binary):
            found[n] = i
            n += 1
    return found[:n].copy()


@jit
def has_match(
    rows: NDArray[Any], centres: NDArray[Any], symbol: int, limit: float, binary: bool
) -> bool:
    """Tell whether any row is near one centre."""
    for i in range(len(rows)):  # noqa: SIM110 - numba compiles no generators in any()
        if not is_far(rows, i, centres, symbol, limit, binary):
            return True
    return False
