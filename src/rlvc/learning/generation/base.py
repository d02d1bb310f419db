"""Candidate features for the aliased classes: the protocol of Algorithms 3 and 6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rlvc._core.arrays import Bools
from rlvc._core.registry import Registry
from rlvc.features.kinds import Feature

if TYPE_CHECKING:
    from rlvc.learning.view import View


@dataclass(frozen=True, slots=True)
class Candidates:
    """Features that might split aliased classes.

    Attributes:
        known: Whether the features of the graph are candidates.
        new: Features that are not in the graph, each listed once.
    """

    known: bool = True
    new: Sequence[Feature] = ()


class GeneratorState(Protocol):
    """The state of a feature generator during one run."""

    def generate(self, view: View, is_aliased: Bools, attempt: int) -> Candidates | None:
        """Return candidates, or None if there are no others than at earlier attempts.

        Args:
            view: The database under the classifier of the stage.
            is_aliased: (n_classes,) the classes for which candidates are wanted: at a later
                attempt, those which no earlier candidate splits.
            attempt: How often the generator was asked before at this stage. New features must be
                proposed in a single attempt of each stage.
        """
        ...


class Generator(Protocol):
    """The paper's feature generator."""

    def start(self) -> GeneratorState:
        """Return the state of one run."""
        ...


@dataclass(frozen=True, slots=True)
class Canonical:
    """Every feature that occurs in some percept of the class is a candidate.

    Features that no percept of a class exhibits cannot split it, so the features of the graph serve
    all classes at once.
    """

    def start(self) -> GeneratorState:
        """Return the generator itself, as it has no state."""
        return self

    def generate(self, view: View, is_aliased: Bools, attempt: int) -> Candidates | None:
        """Return the features of the graph, once."""
        return Candidates() if attempt == 0 else None


generators: Registry[Generator] = Registry("generator")
generators.register("canonical", Canonical)
