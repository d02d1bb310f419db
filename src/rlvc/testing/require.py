"""The error that all checks raise: it names the part and what is wrong with it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np


class ContractError(AssertionError):
    """A part does not keep its contract."""


class Require:
    """Raises errors that name a part and its fault; in a ``with``, also if the part raises one."""

    def __init__(self, part: object, given: str = "") -> None:
        self._name = part.__name__ if isinstance(part, type) else type(part).__name__
        self.given = given  # what the part is tried on
        self(not isinstance(part, type), "a check takes an instance, not the class")
        parameters = getattr(part, "__dataclass_params__", None)
        self(parameters is not None and parameters.frozen, "it must be a frozen dataclass")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ContractError):
            why = f"it raises {type(error).__name__} on {self.given}: {error}"
            raise ContractError(f"{self._name} breaks its contract: {why}") from error

    def __call__(self, condition: Any, what: str) -> None:
        """Raise an error that states what is required, unless the condition holds."""
        if not condition:
            raise ContractError(f"{self._name} breaks its contract: {what}.")

    def instance(self, value: object, kind: type, what: str) -> None:
        """Require an instance of a class."""
        what = f"{what} must be of type {kind.__name__}; got {type(value).__name__}"
        self(isinstance(value, kind), what)

    def equal(self, one: Any, other: Any, what: str) -> None:
        """Require equal arrays, or lists of them; NaN equals NaN."""
        pairs = zip(one, other, strict=True) if isinstance(one, list) else [(one, other)]
        self(all(np.array_equal(a, b, equal_nan=True) for a, b in pairs), what)

    def array(self, array: Any, shape: tuple[int, ...], dtype: Any, what: str) -> None:
        """Require an array of a shape and a type; numbers must be finite."""
        self.instance(array, np.ndarray, what)
        wanted, got = f"{np.dtype(dtype)}{shape}", f"{array.dtype}{array.shape}"
        self(wanted == got, f"{what} must be {wanted}; got {got}")
        self(np.isfinite(array).all(), f"{what} must be finite")
