"""Candidate features for the aliased classes: the paper's Algorithms 3 and 6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc._core.registry import Registry
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import Feature


@dataclass(frozen=True, slots=True)
class Candidates:
    """Features by which the percepts of aliased classes might be told apart.

    Attributes:
        incidence: Which percept exhibits which candidate.
        new: The features that the last columns stand for; the columns before are those of the
            graph.
    """

    incidence: Incidence
    new: Sequence[Feature] = ()

    @property
    def n_known(self) -> int:
        """How many columns stand for features of the graph."""
        return self.incidence.n_features - len(self.new)


class GeneratorState(Protocol):
    """Offer features by which the percepts of aliased classes might be told apart, in one run."""

    def generate(
        self,
        index: FeatureIndex,
        classes: NDArray[np.int64],
        is_aliased: NDArray[np.bool_],
        attempt: int,
        threads: int = 1,
    ) -> Candidates | None:
        """Return candidates, or None if there are no others than at earlier attempts.

        Args:
            index: What the percepts show of the features known so far.
            classes: (n_percepts,) the visual class of each percept.
            is_aliased: (n_classes,) the classes for which candidates are wanted: at a later
                attempt, those which no earlier candidate splits.
            attempt: How often the generator was asked before at this stage. New features are
                offered at one attempt of a stage only.
            threads: How many threads to use; the result does not depend on it.
        """
        ...


class Generator(Protocol):
    """The paper's feature generator: what may be offered."""

    def start(self) -> GeneratorState:
        """Return who offers features during one run."""
        ...


@dataclass(frozen=True, slots=True)
class Canonical:
    """Every feature that occurs in some percept of the class is a candidate.

    Features that no percept of a class exhibits cannot split it, so the matrix of all features
    serves all classes at once.
    """

    def start(self) -> GeneratorState:
        """Return itself: every run is alike."""
        return self

    def generate(
        self,
        index: FeatureIndex,
        classes: NDArray[np.int64],
        is_aliased: NDArray[np.bool_],
        attempt: int,
        threads: int = 1,
    ) -> Candidates | None:
        """Return the features of the graph, once."""
        return Candidates(index.incidence) if attempt == 0 else None


generators: Registry[Generator] = Registry("generator")
generators.register("canonical", Canonical)
