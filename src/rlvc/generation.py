"""Candidate features for the aliased classes: the paper's Algorithm 3."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc.incidence import Incidence
from rlvc.registry import Registry


class Generator(Protocol):
    """Offer features by which the percepts of aliased classes might be told apart."""

    def generate(
        self, symbols: Incidence, classes: NDArray[np.int64], is_aliased: NDArray[np.bool_]
    ) -> Incidence:
        """Return which percept exhibits which candidate.

        Args:
            symbols: The symbols that each percept exhibits.
            classes: (n_percepts,) the visual class of each percept.
            is_aliased: (n_classes,) the classes for which candidates are wanted.
        """
        ...


class Canonical:
    """Every symbol that occurs in some percept of the class is a candidate.

    Symbols that no percept of a class exhibits cannot split it, so the matrix of all symbols serves
    all classes at once.
    """

    def generate(
        self, symbols: Incidence, classes: NDArray[np.int64], is_aliased: NDArray[np.bool_]
    ) -> Incidence:
        """Return the symbols themselves."""
        return symbols


generators: Registry[Generator] = Registry("generator")
generators.register("canonical", Canonical)
