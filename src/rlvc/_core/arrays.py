"""Names for the types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]
Rows = tuple[Ints, Ints32]  # where each row begins (and the last ends), and what is in the rows
