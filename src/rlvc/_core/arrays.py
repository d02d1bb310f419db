"""Names for the types of arrays, and read-only arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Arrays = Mapping[str, NDArray[Any]]  # by name
Rows = tuple[Ints, Ints32]  # where each row begins (and the last ends), and what is in the rows

Array = TypeVar("Array", bound=NDArray[Any])


def frozen(array: Array) -> Array:
    """Return an array, which is made read-only."""
    array.setflags(write=False)
    return array
