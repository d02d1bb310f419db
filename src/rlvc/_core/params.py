"""Parameters that explain and check themselves.

Every part of rlvc is configured by a frozen, keyword-only dataclass whose fields are made by
:func:`param`. The command line, the saved JSON and the tables of reports come from those fields.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvc.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Rule:
    """What a parameter means and which values it takes."""

    meaning: str
    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    choices: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the range in words, or nothing if there is none."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        left = f"[{self.low:g}" if self.low > self.above else f"({self.above:g}"
        right = f"{self.high:g}]" if self.high < self.below else f"{self.below:g})"
        return "" if (left, right) == ("(-inf", "inf)") else f"in {left}, {right}"

    def allows(self, value: float) -> bool:
        """Return whether a number is finite and in the range."""
        is_within = self.low <= value <= self.high and self.above < value < self.below
        return is_within and math.isfinite(value)


def param(default: Any, meaning: str, **limits: Any) -> Any:
    """Declare a field: its default, its meaning with unit and symbol, its limits or choices."""
    return dataclasses.field(default=default, metadata={"rule": Rule(meaning, **limits)})


def rules(config: Any) -> Iterator[tuple[dataclasses.Field[Any], Rule]]:
    """Yield the fields of a configuration (or its class) that were declared with :func:`param`."""
    for field in dataclasses.fields(config) if dataclasses.is_dataclass(config) else ():
        if "rule" in field.metadata:
            yield field, field.metadata["rule"]


def check(config: Any) -> None:
    """Raise an error that names the parameter, its owner, what it must be and what it got.

    >>> from rlvc.learning.selection.selector import Selector
    >>> Selector(alpha=1.2)
    Traceback (most recent call last):
    ValueError: alpha of Selector must be in (0, 1); got 1.2.
    """
    for field, rule in rules(config):
        whose, value = f"{field.name} of {type(config).__name__}", getattr(config, field.name)
        kind: type[Any] = type(field.default)
        if rule.choices:
            if value not in rule.choices:
                raise unknown_name(whose, value, rule.choices)
        elif kind is bool or kind is str:
            if not isinstance(value, kind):
                raise TypeError(f"{whose} must be a {kind.__name__}; got {value!r}.")
        elif kind in (int, float):
            number = isinstance(value, numbers.Integral if kind is int else numbers.Real)
            if not number or isinstance(value, bool):
                noun = "an integer" if kind is int else "a number"
                raise TypeError(f"{whose} must be {noun}; got {value!r}.")
            if not rule.allows(value):
                must = rule.describe() or "finite"
                raise ValueError(f"{whose} must be {must}; got {value!r}.")


def check_methods(config: Any, name: str, *methods: str) -> None:
    """Raise a TypeError unless a part of a configuration is an object with some methods."""
    part = getattr(config, name)
    for method in methods:
        if isinstance(part, type) or not hasattr(part, method):
            cure = f" Write {part.__name__}()." if isinstance(part, type) else ""
            raise TypeError(
                f"{name} of {type(config).__name__} must be an object with a method {method}; "
                f"got {part!r}.{cure}"
            )


class Checked:
    """A configuration that calls :func:`check` when it is made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check(self)


def as_json(config: Any) -> dict[str, Any]:
    """Return a configuration for JSON: parts by their class and parameters, arrays left out.

    >>> from rlvc.learning.solvers.dynamic import ModifiedPolicyIteration
    >>> as_json(ModifiedPolicyIteration())
    {'tolerance': 1e-09, 'sweeps': 15}
    """
    plain: dict[str, Any] = {}
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if isinstance(value, (bool, int, float, str)) or value is None:
            plain[each.name] = value
        elif not isinstance(value, np.ndarray):
            inner = as_json(value) if dataclasses.is_dataclass(value) else {}
            plain[each.name] = {"type": type(value).__name__, **inner}
    return plain


def parse(config_class: type[Any], texts: dict[str, str]) -> dict[str, Any]:
    """Turn ``name=value`` texts into values of the declared types.

    >>> from rlvc.learning.selection.selector import Selector
    >>> parse(Selector, {"alpha": "0.01", "min_samples": "3"})
    {'alpha': 0.01, 'min_samples': 3}
    """
    owner, declared = config_class.__name__, {one.name: one for one, _ in rules(config_class)}
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if not declared:
            raise ValueError(f"{owner} has no parameters; got {name!r}.")
        if name not in declared:
            raise unknown_name(f"parameter of {owner}", name, declared)
        kind: type[Any] = type(declared[name].default)
        try:
            if kind is bool:
                values[name] = {"true": True, "false": False}[text.lower()]
            else:
                values[name] = kind(text)
        except (KeyError, ValueError):
            must = {bool: "true or false", int: "an integer", float: "a number"}[kind]
            raise ValueError(f"{name} of {owner} must be {must}; got {text!r}.") from None
    return values
