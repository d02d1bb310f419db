"""What a feature selector is given and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.features.incidence import Incidence
from rlvc.learning.aliasing import Residuals, ResidualSums


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The best feature of every class.

    Attributes:
        feature: (n_classes,) the feature f*, or -1 for the paper's ⊥.
        action: (n_classes,) the action whose residuals it explains; -1 for ⊥.
        p_value: (n_classes,) of the test on the two sides; 1 for ⊥.
        n_tests: (n_classes,) how many candidates were compared; without those that change nothing,
            if splits must be relevant.
    """

    feature: Ints
    action: Ints
    p_value: Floats
    n_tests: Ints

    @classmethod
    def none(cls, n_classes: int) -> SplitChoice:
        """Return the choice of ⊥ for every class."""
        nothing = np.full(n_classes, -1, np.int64)
        return cls(nothing, nothing, np.ones(n_classes), np.zeros(n_classes, np.int64))

    def fill_missing(self, other: SplitChoice) -> SplitChoice:
        """Return this choice and, where it is ⊥, the other."""
        none = self.feature < 0
        return SplitChoice(
            np.where(none, other.feature, self.feature),
            np.where(none, other.action, self.action),
            np.where(none, other.p_value, self.p_value),
            np.where(none, other.n_tests, self.n_tests),
        )


@dataclass(frozen=True, slots=True)
class Samples:
    """The interactions of one shard, and which candidates their percepts exhibit.

    Attributes:
        residuals: Δ_t of every interaction, with its class and action.
        percepts: (N,) the percept s_t of every interaction, a row of ``incidence``.
        incidence: Which percept exhibits which candidate feature.
        is_aliased: (n_classes,) the classes to search.
        threads: How many threads share the work; no result depends on it.
        is_all: Whether these are all interactions, so that no other shard has more.
    """

    residuals: Residuals
    percepts: Ints
    incidence: Incidence
    is_aliased: Bools
    threads: int = 1
    is_all: bool = True


class FeatureSelector(Protocol):
    """The paper's feature selector: measure candidates in every shard, then choose among them."""

    @property
    def min_samples(self) -> int:
        """The least number of samples on each side of a split."""
        ...

    def measure(self, samples: Samples) -> Any:
        """Return all that :meth:`choose` must know of the interactions of one shard."""
        ...

    def choose(self, measured: Sequence[Any], residuals: ResidualSums) -> SplitChoice:
        """Return the best feature of every aliased class.

        Args:
            measured: What :meth:`measure` returned for each shard.
            residuals: The sums of the residuals of all interactions, and the values they are of.
        """
        ...
