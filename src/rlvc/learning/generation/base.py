"""Candidate features for the aliased classes: the protocol of Algorithms 3 and 6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rlvc._core.arrays import Bools, Ints
from rlvc._core.registry import Registry
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import Feature
from rlvc.learning.generation.sampling import CellCounts, Sample


@dataclass(frozen=True, slots=True)
class Candidates:
    """Features by which the percepts of aliased classes might be told apart.

    Attributes:
        known: Whether the features of the graph are candidates.
        new: Features that are not in the graph, each named once.
    """

    known: bool = True
    new: Sequence[Feature] = ()


class ClassStatistics(Protocol):
    """What a generator may ask about the percepts of visual classes, wherever they are.

    A :class:`rlvc.learning.database.View` answers.
    """

    @property
    def graph(self) -> FeatureGraph:
        """The features known so far."""
        ...

    @property
    def n_cameras(self) -> int:
        """How many cameras there are."""
        ...

    @property
    def threads(self) -> int:
        """How many threads to use; no result may depend on it."""
        ...

    @property
    def source(self) -> object:
        """Whose percepts they are: only those of the same source have the same numbers."""
        ...

    @property
    def index(self) -> FeatureIndex:
        """What the percepts show of the features known so far, if one shard has them all here."""
        ...

    @property
    def classes(self) -> Ints:
        """(n_percepts,) the visual class of each percept, if one shard has them all here."""
        ...

    def class_keys(self) -> Ints:
        """Return (n_classes, 3) what tells sets of percepts apart: their size and two hashes."""
        ...

    def sample(self, wanted: list[int], camera: int, seed: int, most: int, height: int) -> Sample:
        """Return the first images of some classes, in an order of all images that a seed draws.

        Args:
            wanted: The classes, in ascending order.
            camera: The number of the camera.
            seed: Of the order.
            most: How many images of each class are needed; there may be more.
            height: The height of composites: those that are lower are among what images show.
        """
        ...

    def count_cells(self, wanted: list[int], camera: int, levels: int, height: int) -> CellCounts:
        """Return how many images of some classes show which feature in which cell of a grid."""
        ...


class GeneratorState(Protocol):
    """A feature generator during one run, and what it keeps from one stage to the next."""

    def generate(self, view: ClassStatistics, is_aliased: Bools, attempt: int) -> Candidates | None:
        """Return candidates, or None if there are no others than at earlier attempts.

        Args:
            view: What is known about the classes.
            is_aliased: (n_classes,) the classes for which candidates are wanted: at a later
                attempt, those which no earlier candidate splits.
            attempt: How often the generator was asked before at this stage. New features are
                offered at one attempt of a stage only.
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
        """Return itself: there is nothing to keep."""
        return self

    def generate(self, view: ClassStatistics, is_aliased: Bools, attempt: int) -> Candidates | None:
        """Return the features of the graph, once."""
        return Candidates() if attempt == 0 else None


generators: Registry[Generator] = Registry("generator")
generators.register("canonical", Canonical)
