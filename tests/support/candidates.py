"""Ask a generator and a selector about arrays, as a stage asks them about a database."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc.features import Feature, FeatureGraph, FeatureIndex, Incidence
from rlvc.learning.aliasing import Residuals
from rlvc.learning.generation.base import GeneratorState
from rlvc.learning.generation.class_images import class_keys
from rlvc.learning.generation.sampling import CellCounts, ImageQuery, Sample
from rlvc.learning.mdp import MappedSequence
from rlvc.learning.selection.selector import FeatureSelector, Samples, SplitChoice
from rlvc.learning.shard import ClassifiedPercepts, ShardFeatures, ShardNumbers, exhibit

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Proposal:
    """New features, and which percepts exhibit these and those that are known."""

    incidence: Incidence
    new: Sequence[Feature]

    @property
    def n_known(self) -> int:
        return self.incidence.n_features - len(self.new)


@dataclass(frozen=True)
class ArrayView:
    """The percepts of classes, given by arrays."""

    index: FeatureIndex
    classes: Ints
    n_classes: int
    threads: int = 1
    number: int = field(default_factory=lambda: next(_NUMBERS))

    @property
    def graph(self) -> FeatureGraph:
        return self.index.graph

    @property
    def n_cameras(self) -> int:
        return len(self.index.cameras)

    @property
    def client(self) -> object:
        return self.index.table.ctypes.data

    @property
    def seen(self) -> ClassifiedPercepts:
        nothing: Any = np.empty(0, np.int64)
        return ClassifiedPercepts(
            self.number, self.classes, self.n_classes, self.index, self.threads,
            MappedSequence(*[nothing] * 6),
        )  # fmt: skip

    @property
    def features(self) -> ShardFeatures:
        numbers = ShardNumbers.of_all(self.index)
        return ShardFeatures(self.index.table, numbers.images, numbers.n_images)

    def class_keys(self) -> Ints:
        return class_keys(self.classes, self.n_classes, ShardNumbers.of_all(self.index).percepts)

    def sample(self, query: ImageQuery, most: int) -> Sample:
        return self.features.sample(self.seen, query)

    def count_cells(self, query: ImageQuery, levels: int) -> CellCounts:
        return self.features.count_cells(self.seen, query, levels)


def propose(
    state: GeneratorState,
    index: FeatureIndex,
    classes: Ints,
    is_aliased: Bools,
    attempt: int,
    threads: int = 1,
) -> Proposal | None:
    """Return what a generator proposes at some attempt of a stage."""
    view: Any = ArrayView(index, classes, len(is_aliased), threads)
    candidates = state.generate(view, is_aliased, attempt)
    if candidates is None:
        return None
    return Proposal(exhibit(view.features, view.seen, candidates, is_aliased), candidates.new)


def select(
    selector: FeatureSelector,
    residuals: Residuals,
    percepts: Ints,
    incidence: Incidence,
    is_aliased: Bools,
    threads: int = 1,
) -> SplitChoice:
    """Return the best feature of every class, from interactions that are all in one shard."""
    samples = Samples(residuals, percepts, incidence, is_aliased, threads)
    return selector.choose([selector.measure(samples)], residuals.sums)
