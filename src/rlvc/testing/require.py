"""What all checks have in common: an error that names the part and what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Require:
    """Raises errors that name one part and what it must do."""

    def __init__(self, part: object) -> None:
        self.part = part
        parameters = getattr(part, "__dataclass_params__", None)
        self(parameters is not None and parameters.frozen, "it must be a frozen dataclass")

    def __call__(self, condition: Any, what: str) -> None:
        """Raise an error that says what must be unless the condition holds."""
        if not condition:
            raise AssertionError(f"{type(self.part).__name__} breaks its contract: {what}.")

    def equal(self, one: Any, other: Any, what: str) -> None:
        """Require equal arrays, or lists of them; NaN equals NaN."""
        pairs = zip(one, other, strict=True) if isinstance(one, list) else [(one, other)]
        self(all(np.array_equal(a, b, equal_nan=True) for a, b in pairs), what)

    def array(self, array: NDArray[Any], shape: tuple[int, ...], dtype: Any, what: str) -> None:
        """Require a shape, a type and, of numbers, that they are finite."""
        wanted, got = f"{np.dtype(dtype)}{shape}", f"{array.dtype}{array.shape}"
        self(wanted == got, f"{what} must be {wanted}; got {got}")
        self(np.isfinite(array).all(), f"{what} must be finite")
