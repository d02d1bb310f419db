"""Names for interchangeable parts, so that a configuration and a saved file can speak of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from rlvc.errors import unknown

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
        self._factories: dict[str, Callable[..., Part]] = {}

    def register(self, name: str, factory: Callable[..., Part]) -> None:
        """Let ``name`` stand for what ``factory(**parameters)`` returns; a later call replaces it."""
        self._factories[name] = factory

    def make(self, name: str, **parameters: Any) -> Part:
        """Return a new part, or suggest the nearest name."""
        if name not in self._factories:
            raise unknown(self.kind, name, self._factories)
        return self._factories[name](**parameters)

    def __contains__(self, name: str) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._factories))
