"""The protocol of classifiers, which map the features of a percept to its visual class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rlvc.features.incidence import Incidence


@dataclass(frozen=True, slots=True)
class Split:
    """A decision to refine one visual class by testing one feature."""

    visual_class: int
    feature: int


class Classifier(Protocol):
    """A partition of percepts into visual classes by tests for features; immutable."""

    @property
    def n_classes(self) -> int:
        """The number of visual classes."""
        ...

    @property
    def features(self) -> NDArray[np.int64]:
        """The distinct features that are tested, in ascending order."""
        ...

    def refine(self, splits: list[Split]) -> Self:
        """Return the classifier in which some classes, each named once, are split.

        Percepts that exhibit the feature go to a new class with the next number, the others stay.
        """
        ...

    def merge(self, groups: Sequence[Sequence[int]], backend: str = "auto") -> Classifier:
        """Return the classifier in which the classes of each group are one class.

        Merged classes are numbered by their lowest member. If no class is merged, the result is the
        classifier itself.
        """
        ...

    def classify(self, incidence: Incidence, threads: int = 1) -> NDArray[np.int64]:
        """Return the (n_percepts,) visual classes of many percepts, for any number of threads."""
        ...

    def walk(self, exhibits: Callable[[int], bool]) -> tuple[list[tuple[int, bool]], int]:
        """Return the tests on the path of one percept, with their outcomes, and its class."""
        ...

    def usage(self, incidence: Incidence) -> NDArray[np.int64]:
        """Return the number of percepts on which each of :attr:`features` is tested."""
        ...

    def renumber(self, numbers: dict[int, int]) -> Self:
        """Return the same classifier with its features renumbered."""
        ...
