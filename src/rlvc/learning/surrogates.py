"""Tests that tolerate missed detections: several features that split a class in the same way.

A feature that splits a class well may be missed from another viewpoint, and then the percept goes
down the wrong branch. So a test combines the feature with its surrogates, features that occur on
nearly the same percepts of the class, and only requires some of them.
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

ENOUGH = 0.95  # least reduction of a test with surrogates, as a share of that of the feature


@dataclass(frozen=True, kw_only=True, slots=True)
class Surrogates(Checked):
    """Extend the best feature of a class by those that agree with it on the class.

    The agreement of two features is the correlation of their presence on the distinct percepts of
    the class (the φ coefficient). The required number of features is that which explains the
    residuals best.
    """

    features: int = param(
        7, "maximum number of features in a test; 1 for the best feature alone", low=1
    )
    agreement: float = param(
        0.7,
        "minimum correlation with the best feature, on the percepts of the class (φ)",
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
        """Return for each split what to test instead; None to test its feature alone.

        Args:
            splits: Classes and their features, by their numbers in the graph.
            choice: The action whose residuals each feature explains.
            statistics: Statistics of the classes.
            min_samples: Minimum number of interactions on each side.
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
        requests = [
            (split.visual_class, int(choice.action[split.visual_class]), features)
            for split, all_features in zip(chosen, parts, strict=True)
            for features in (all_features[:1], all_features)
        ]
        best = [best_threshold(*tally, min_samples) for tally in statistics.tallies(requests)]
        for n, features, (_, before), (least, after) in zip(
            alone, parts, best[::2], best[1::2], strict=True
        ):
            if len(features) > 1 and after >= ENOUGH * before:
                tests[n] = AtLeast(parts=tuple(features.tolist()), least=least)
        return tests

    def _agreeing(self, found: Cooccurrence, feature: int, graph: FeatureGraph) -> Ints:
        """Return a feature and those that agree with it most; ties go to the lowest numbers."""
        n, n_has, count, both = found.n, found.n_has, found.count, found.both
        spread = np.sqrt(count.astype(np.float64) * (n - count) * n_has * (n - n_has))
        gap = (n * both - count * n_has).astype(np.float64)
        phi = np.divide(gap, spread, out=np.full(len(gap), -1.0), where=spread > 0)
        phi[feature] = -1.0
        near = np.flatnonzero(phi >= self.agreement)
        near = near[np.argsort(-phi[near], kind="stable")]
        camera = graph.camera[feature]
        others = (
            other
            for other in near.tolist()
            if graph.camera[other] == camera and not isinstance(graph[other], AtLeast)
        )
        return np.array([feature, *itertools.islice(others, self.features - 1)], np.int64)


@dataclass(frozen=True, slots=True)
class Cooccurrence:
    """How often all features occur together with one on a class; counts add up over shards.

    Attributes:
        n: The number of distinct percepts of the class.
        n_has: How many of them exhibit the one feature.
        count: (n_features,) how many of them exhibit each feature.
        both: (n_features,) how many of them exhibit both.
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


# By the number of m features that the percept exhibits, 0 … m: interactions, sums of residuals.
Tally = tuple[Ints, Ints]
TallyRequest = tuple[int, int, Ints]  # a class, an action and some features


def cooccurrences_of(
    incidence: Incidence,
    classes: Ints,
    pairs: Sequence[tuple[int, int]],
    counts: Bools | slice = slice(None),
    threads: int = 1,
) -> list[Cooccurrence]:
    """Return which features occur together with some, given as pairs of a class and a feature.

    Args:
        incidence: Which percept exhibits which feature.
        classes: (n_percepts,) the visual class of each percept.
        pairs: Classes, each named once, and features.
        counts: (n_percepts,) which percepts count here; another shard counts the others.
        threads: The number of threads to use; the result does not depend on it.
    """
    number = np.full(int(classes.max(initial=0)) + 1, -1, np.int64)
    for pair, (visual_class, _) in enumerate(pairs):
        number[visual_class : visual_class + 1] = pair  # the shard may lack percepts of the class
    pivot = np.full(len(classes), -1, np.int64)
    pivot[counts] = number[classes[counts]]
    found = incidence.cooccurrences(pivot, np.asarray([feature for _, feature in pairs]), threads)
    return [Cooccurrence(int(n), int(n_has), *rest) for n, n_has, *rest in zip(*found, strict=True)]


def tallies_of(
    incidence: Incidence, residuals: Residuals, start: Ints, requests: Sequence[TallyRequest]
) -> list[Tally]:
    """Return the tally of each request."""
    found = list[Tally]()
    for (visual_class, action), same in itertools.groupby(requests, lambda one: one[:2]):
        sets = [features for _, _, features in same]
        rows = np.flatnonzero(residuals.group == visual_class * residuals.q.shape[1] + action)
        counts = incidence.counts(sets, start[rows], residuals.threads)
        delta = residuals.integers[rows]
        found += [tally(n, delta, len(one)) for n, one in zip(counts, sets, strict=True)]
    return found


def tally(n_shown: Ints, residuals: Ints, most: int) -> Tally:
    """Return how many interactions exhibit 0, 1 … ``most`` features, and their residuals' sums."""
    total = np.zeros(most + 1, np.int64)
    np.add.at(total, n_shown, residuals)  # faster than a kernel, as samples are few
    return np.bincount(n_shown, minlength=most + 1), total


def best_threshold(count: Ints, total: Ints, min_samples: int) -> tuple[int, float]:
    """Return the number of features to require for the best split, and its reduction.

    Args:
        count: (m + 1,) how many interactions exhibit 0, 1 … of m features.
        total: (m + 1,) the sums of their residuals, as integers.
        min_samples: Minimum number of interactions on each side; if no number of features leaves
            as many, the reduction is -1.
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
