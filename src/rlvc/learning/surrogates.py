"""Tests that forgive a missed detection: several features that say the same.

A feature that splits a class well may be missed from another viewpoint, and the percept would go
down the wrong branch. So a test asks for a few features of the class that occur on nearly the same
percepts, its surrogates, and is content with some of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc._core.params import Checked, param
from rlvc.classifiers.base import Split
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.kinds import AtLeast
from rlvc.learning.aliasing import Residuals
from rlvc.learning.selection.selector import SplitChoice, reductions

if TYPE_CHECKING:
    from rlvc.learning.view import SplitStatistics

ENOUGH = 0.95  # of the reduction that a feature brings alone, for others to stand in for it


@dataclass(frozen=True, kw_only=True, slots=True)
class Surrogates(Checked):
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

    def extend(
        self,
        splits: list[Split],
        choice: SplitChoice,
        statistics: SplitStatistics,
        min_samples: int,
    ) -> list[AtLeast | None]:
        """Return for each split what to test instead; None where its feature stands alone.

        Args:
            splits: Classes and their features, by their numbers in the graph.
            choice: The action whose residuals each feature explains.
            statistics: What is known about the percepts of the classes.
            min_samples: Least number of interactions on each side.
        """
        graph, tests = statistics.graph, list[AtLeast | None]([None] * len(splits))
        alone = [n for n, one in enumerate(splits) if not isinstance(graph[one.feature], AtLeast)]
        if self.features == 1 or not alone:
            return tests
        chosen = [splits[n] for n in alone]
        pairs = [(one.visual_class, one.feature) for one in chosen]
        parts = [
            self._agreeing(one, split.feature, graph)
            for split, one in zip(chosen, statistics.cooccurrences(pairs), strict=True)
        ]
        asked = [
            (one.visual_class, int(choice.action[one.visual_class]), some)
            for one, all_parts in zip(chosen, parts, strict=True)
            for some in (all_parts[:1], all_parts)
        ]
        best = [best_from(*tally, min_samples) for tally in statistics.tallies(asked)]
        for n, some, (_, before), (least, together) in zip(
            alone, parts, best[::2], best[1::2], strict=True
        ):
            if len(some) > 1 and together >= ENOUGH * before:
                tests[n] = AtLeast(parts=tuple(some.tolist()), least=least)
        return tests

    def _agreeing(self, seen: Cooccurrence, feature: int, graph: FeatureGraph) -> Ints:
        """Return a feature and those that agree with it most, among equals the lowest numbers."""
        n, n_has, count, both = seen.n, seen.n_has, seen.count, seen.both
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
class Cooccurrence:
    """How often features occur together with one of them: numbers of percepts, which add up.

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

    def __add__(self, other: Cooccurrence) -> Cooccurrence:
        return Cooccurrence(
            self.n + other.n,
            self.n_has + other.n_has,
            self.count + other.count,
            self.both + other.both,
        )


Tally = tuple[Ints, Ints]  # by how many of some features are exhibited: interactions, residuals
Group = tuple[int, int, Ints]  # a class, an action and some features


def cooccurrences_of(
    incidence: Incidence,
    classes: Ints,
    pairs: Sequence[tuple[int, int]],
    counts: Bools | slice = slice(None),
    threads: int = 1,
) -> list[Cooccurrence]:
    """Return what occurs together, for pairs of a class and a feature.

    Args:
        incidence: Which percept exhibits which feature.
        classes: (n_percepts,) the visual class of each percept.
        pairs: Classes, each named once, and features.
        counts: (n_percepts,) which percepts count; others are those that another shard has, too.
        threads: How many threads to use; the result does not depend on it.
    """
    number = np.full(int(classes.max(initial=0)) + 1, -1, np.int64)
    for job, (visual_class, _) in enumerate(pairs):
        number[visual_class : visual_class + 1] = job  # no percept here may be of that class
    jobs = np.full(len(classes), -1, np.int64)
    jobs[counts] = number[classes[counts]]
    found = incidence.cooccurrences(jobs, np.asarray([feature for _, feature in pairs]), threads)
    return [Cooccurrence(int(n), int(n_has), *rest) for n, n_has, *rest in zip(*found, strict=True)]


def tallies_of(
    incidence: Incidence, residuals: Residuals, start: Ints, asked: Sequence[Group]
) -> list[Tally]:
    """Return how many of some features are exhibited in each of some groups."""
    found = list[Tally]()
    for (visual_class, action), same in itertools.groupby(asked, lambda one: one[:2]):
        sets = [features for _, _, features in same]
        rows = np.flatnonzero(residuals.group == visual_class * residuals.q.shape[1] + action)
        counts = incidence.counts(sets, start[rows], residuals.threads)
        delta = residuals.integers[rows]
        found += [tally(n, delta, len(some)) for n, some in zip(counts, sets, strict=True)]
    return found


def tally(n_shown: Ints, residuals: Ints, most: int) -> Tally:
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
