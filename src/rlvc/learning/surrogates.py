"""Tests that forgive a missed detection: several features that say the same.

A feature that splits a class well may be missed from another viewpoint, and the percept would go
down the wrong branch. So a test asks for a few features of the class that occur on nearly the same
percepts, its surrogates, and is content with some of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc._core.params import check, param
from rlvc.classifiers.base import Split
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import AtLeast
from rlvc.learning.aliasing import Residuals
from rlvc.learning.selection.selector import SplitChoice, reductions

ENOUGH = 0.95  # of the reduction that a feature brings alone, for others to stand in for it


@dataclass(frozen=True, kw_only=True, slots=True)
class Surrogates:
    """Let the best feature of a class be stood in for by those that agree with it there.

    Two features agree as their presence on the distinct percepts of the class correlates (the φ
    coefficient). How many must be there is what explains the residuals best.
    """

    features: int = param(
        7, "most features that a test asks for, the best one among them; 1 for that alone", low=1
    )
    agreement: float = param(
        0.7,
        "least correlation with the best one, on the percepts of the class (φ)",
        low=0.0,
        high=1.0,
    )

    def __post_init__(self) -> None:
        check(self)

    def extend(
        self,
        splits: list[Split],
        choice: SplitChoice,
        index: FeatureIndex,
        classes: Ints,
        residuals: Residuals,
        start: Ints,
        min_samples: int,
    ) -> list[AtLeast | None]:
        """Return for each split what to test instead; None where its feature stands alone.

        Args:
            splits: Classes and their features, by their numbers in the graph.
            choice: The action whose residuals each feature explains.
            index: What the percepts show of the features.
            classes: (n_percepts,) the visual class of each percept.
            residuals: Δ_t of every interaction, with its class and action.
            start: (N,) the percept s_t of every interaction.
            min_samples: Least number of interactions on each side.
        """
        members = Members(index.incidence, classes, residuals, start)
        return self.stand_in(splits, choice, index.graph, residuals.n_actions, members, min_samples)

    def stand_in(
        self,
        splits: list[Split],
        choice: SplitChoice,
        graph: FeatureGraph,
        n_actions: int,
        witness: Witness,
        min_samples: int,
    ) -> list[AtLeast | None]:
        """Return what :meth:`extend` does, from sums alone.

        Args:
            splits: Classes and their features, by their numbers in the graph.
            choice: The action whose residuals each feature explains.
            graph: The features.
            n_actions: How many actions there are.
            witness: Who knows the percepts and the residuals.
            min_samples: Least number of interactions on each side.
        """
        if self.features == 1:
            return [None] * len(splits)
        alone = [n for n, one in enumerate(splits) if not isinstance(graph[one.feature], AtLeast)]
        chosen = [splits[n] for n in alone]
        company = witness.company([(one.visual_class, one.feature) for one in chosen])
        parts = [
            self._agreeing(one, split.feature, graph)
            for split, one in zip(chosen, company, strict=True)
        ]
        groups = [one.visual_class * n_actions + choice.action[one.visual_class] for one in chosen]
        asked = [
            (int(group), some)
            for group, all_parts in zip(groups, parts, strict=True)
            for some in (all_parts[:1], all_parts)
        ]
        best = [best_from(*tally, min_samples) for tally in witness.tallies(asked)]
        tests: list[AtLeast | None] = [None] * len(splits)
        for n, some, (_, before), (least, together) in zip(
            alone, parts, best[::2], best[1::2], strict=True
        ):
            if len(some) > 1 and together >= ENOUGH * before:
                tests[n] = AtLeast(parts=tuple(some.tolist()), least=least)
        return tests

    def _agreeing(self, company: Company, feature: int, graph: FeatureGraph) -> Ints:
        """Return a feature and those that agree with it most, among equals the lowest numbers."""
        n, n_has, count, both = company.n, company.n_has, company.count, company.both
        spread = np.sqrt(count.astype(np.float64) * (n - count) * n_has * (n - n_has))
        gap = (n * both - count * n_has).astype(np.float64)
        phi = np.divide(gap, spread, out=np.full(len(gap), -1.0), where=spread > 0)
        phi[feature] = -1.0
        near = np.flatnonzero(phi >= self.agreement)
        near = near[np.argsort(-phi[near], kind="stable")]
        camera = graph.camera[feature]
        able = (
            other
            for other in near.tolist()
            if graph.camera[other] == camera and not isinstance(graph[other], AtLeast)
        )
        return np.array([feature, *itertools.islice(able, self.features - 1)], np.int64)


@dataclass(frozen=True, slots=True)
class Company:
    """In what company a feature is seen in a class: numbers of percepts, which add up.

    Attributes:
        n: How many distinct percepts the class has.
        n_has: How many of them exhibit the feature.
        count: (n_features,) how many exhibit each feature.
        both: (n_features,) how many exhibit each together with the one.
    """

    n: int
    n_has: int
    count: Ints
    both: Ints

    def __add__(self, other: Company) -> Company:
        return Company(
            self.n + other.n,
            self.n_has + other.n_has,
            self.count + other.count,
            self.both + other.both,
        )


Shares = tuple[Ints, Ints]  # by how many of some features are exhibited: interactions, residuals


class Witness(Protocol):
    """Who knows the percepts of classes and the residuals of interactions."""

    def company(self, pairs: Sequence[tuple[int, int]]) -> list[Company]:
        """Return for pairs of a class and a feature the company in which that is seen."""
        ...

    def tallies(self, asked: Sequence[tuple[int, Ints]]) -> list[Shares]:
        """Return for groups (class · n_actions + action) how many of some features are exhibited.

        The result for a group and m features are two arrays of m + 1: the interactions in which the
        percept exhibits so many of them, and the sum of their residuals.
        """
        ...


@dataclass(frozen=True, slots=True)
class Members:
    """The witness of interactions that are in memory.

    Attributes:
        incidence: Which percept exhibits which feature.
        classes: (n_percepts,) the visual class of each percept.
        residuals: Δ_t of every interaction, with its class and action.
        start: (N,) the percept s_t of every interaction.
    """

    incidence: Incidence
    classes: Ints
    residuals: Residuals
    start: Ints

    def company(self, pairs: Sequence[tuple[int, int]]) -> list[Company]:
        """Return for pairs of a class and a feature the company in which that is seen."""
        threads = self.residuals.threads
        return company_of(self.incidence, self.classes, pairs, threads=threads)

    def tallies(self, asked: Sequence[tuple[int, Ints]]) -> list[Shares]:
        """Return for groups how many of some features are exhibited; see :class:`Witness`."""
        return tallies_of(self.incidence, self.residuals, self.start, asked)


def company_of(
    incidence: Incidence,
    classes: Ints,
    pairs: Sequence[tuple[int, int]],
    counts: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> list[Company]:
    """Return for pairs of a class and a feature the company in which that is seen.

    Args:
        incidence: Which percept exhibits which feature.
        classes: (n_percepts,) the visual class of each percept.
        pairs: Classes, each named once, and features.
        counts: (n_percepts,) which percepts count; all, unless others have some of them as well.
        threads: How many threads to use; the result does not depend on it.
    """
    if not pairs:
        return []
    number = np.full(int(classes.max(initial=0)) + 1, -1, np.int64)
    for job, (visual_class, _) in enumerate(pairs):
        number[visual_class : visual_class + 1] = job  # no percept here may be of that class
    jobs = number[classes]
    if counts is not None:
        jobs[~counts] = -1
    found = incidence.company(jobs, np.asarray([feature for _, feature in pairs]), threads)
    return [Company(int(n), int(n_has), *rest) for n, n_has, *rest in zip(*found, strict=True)]


def tallies_of(
    incidence: Incidence, residuals: Residuals, start: Ints, asked: Sequence[tuple[int, Ints]]
) -> list[Shares]:
    """Return for groups how many of some features are exhibited; see :class:`Witness`."""
    found = list[Shares]()
    for group, same in itertools.groupby(asked, lambda one: one[0]):  # one feature, then several
        sets = [features for _, features in same]
        rows = np.flatnonzero(residuals.group == group)
        counts = incidence.counts(sets, start[rows], residuals.threads)
        delta = residuals.integers[rows]
        found += [tally(n, delta, len(some)) for n, some in zip(counts, sets, strict=True)]
    return found


def tally(n_shown: Ints, residuals: Ints, most: int) -> Shares:
    """Return how many interactions exhibit 0, 1 … features, and the sums of their residuals."""
    total = np.zeros(most + 1, np.int64)
    np.add.at(total, n_shown, residuals)
    return np.bincount(n_shown, minlength=most + 1), total


def best_from(count: Ints, total: Ints, min_samples: int) -> tuple[int, float]:
    """Return the count from which on percepts are told apart best, and the reduction it brings.

    Args:
        count: (m + 1,) how many interactions exhibit 0, 1 … of m features.
        total: (m + 1,) the sums of their residuals, as integers.
        min_samples: Least number of interactions on each side; if no count leaves as many, the
            reduction is -1.
    """
    n = int(count.sum())
    with_count = np.cumsum(count[::-1])[::-1]
    with_total = np.cumsum(total[::-1])[::-1]
    enough = (with_count >= min_samples) & (n - with_count >= min_samples)
    least = np.flatnonzero(enough)
    if len(least) == 0:
        return 1, -1.0
    score = reductions(n, int(with_total[0]), with_count[least], with_total[least])
    best = int(np.argmax(score))
    return int(least[best]), float(score[best])
