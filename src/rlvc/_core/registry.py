"""Registries of interchangeable parts, which configurations and files refer to by name."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlvc.errors import unknown_name

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """A table from names to factories of one kind of part.

    >>> greetings: Registry[str] = Registry("greeting")
    >>> greetings.register("hello", lambda name="you": f"hello {name}")
    >>> greetings.make("hello", name="world")
    'hello world'
    >>> greetings.make("helo")
    Traceback (most recent call last):
    ValueError: Unknown greeting 'helo'. Did you mean 'hello'? Known: hello.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._factories: dict[str, Callable[..., Part] | str] = {}

    def register(self, name: str, factory: Callable[..., Part] | str) -> None:
        """Register a factory under a name; a later call wins.

        It is a callable, or an entry point ``module:attribute`` that is imported on first use.
        """
        self._factories[name] = factory

    def make(self, name: str, /, **parameters: Any) -> Part:
        """Return a new part; an unknown name raises an error that suggests the nearest one."""
        if name not in self._factories:
            raise unknown_name(self.kind, name, self._factories)
        factory = self._factories[name]
        return (load(factory) if isinstance(factory, str) else factory)(**parameters)

    def name_of(self, part: Part) -> str:
        """Return the name of the type of a part."""
        entry_point = f"{type(part).__module__}:{type(part).__qualname__}"
        for name, factory in self._factories.items():
            if factory in (type(part), entry_point):
                return name
        raise ValueError(
            f"The {self.kind} {type(part).__name__} has no name; give it one with "
            f"{self.kind}s.register('name', {type(part).__name__})."
        )

    def describe(self, part: Part, *, learned: bool = False) -> dict[str, Any]:
        """Return the name of a part and its plain parameters, ready for JSON.

        With ``learned``, arrays are left out, which :func:`arrays_of` returns.
        """
        owner = type(part).__name__
        if not dataclasses.is_dataclass(part):
            raise TypeError(f"The {self.kind} {owner} must be a dataclass to be saved.")
        plain: dict[str, Any] = {}
        for name, value in _fields(part).items():
            if isinstance(value, (bool, int, float, str)) or value is None:
                plain[name] = value
            elif not (learned and isinstance(value, np.ndarray)):
                raise TypeError(
                    f"{name} of {owner} must be a number, a string or a bool to be saved; "
                    f"got {type(value).__name__}."
                )
        return {"name": self.name_of(part), "parameters": plain}

    def __contains__(self, name: str) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._factories))


def load(entry_point: str) -> Any:
    """Import and return what an entry point ``module:attribute`` names.

    >>> load("rlvc.errors:RlvcError").__name__
    'RlvcError'
    """
    module, _, name = entry_point.partition(":")
    return getattr(importlib.import_module(module), name)


def import_extra(extra: str, *modules: str) -> Any:
    """Import modules that an extra of rlvc installs, and return the package of the last one.

    >>> import_extra("ray", "no_ray")
    Traceback (most recent call last):
    ModuleNotFoundError: no_ray is not installed; install it with: pip install "rlvc[ray]".
    """
    try:
        return [__import__(module) for module in modules][-1]
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        raise ModuleNotFoundError(
            f'{name} is not installed; install it with: pip install "rlvc[{extra}]".', name=name
        ) from error


def arrays_of(part: object) -> dict[str, NDArray[Any]]:
    """Return the parameters of a part that are arrays, which it learned from data."""
    return {k: v for k, v in _fields(part).items() if isinstance(v, np.ndarray)}


def _fields(part: object) -> dict[str, Any]:
    if not dataclasses.is_dataclass(part):
        return {}
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
