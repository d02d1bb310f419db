"""Tests that forgive a missed detection: several features that say the same.

A feature that splits a class well may be missed from another viewpoint, and the percept would go
down the wrong branch. So a test asks for a few features of the class that occur on nearly the same
percepts, its surrogates, and is content with some of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.aliasing import Residuals
from rlvc.classifier import Split
from rlvc.features import Graph, Several
from rlvc.incidence import Incidence
from rlvc.parameters import check, param
from rlvc.selection import Choice, reductions
from rlvc.sightings import Sightings

Ints = NDArray[np.int64]

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
        choice: Choice,
        sightings: Sightings,
        classes: Ints,
        residuals: Residuals,
        start: Ints,
        min_samples: int,
    ) -> list[Several | None]:
        """Return for each split what to test instead; None where its feature stands alone.

        Args:
            splits: Classes and their features, by their numbers in the graph.
            choice: The action whose residuals each feature explains.
            sightings: What the percepts show of the features.
            classes: (n_percepts,) the visual class of each percept.
            residuals: Δ_t of every interaction, with its class and action.
            start: (N,) the percept s_t of every interaction.
            min_samples: Least number of interactions on each side.
        """
        tests: list[Several | None] = []
        for split in splits:
            feature = split.feature
            if self.features == 1 or isinstance(sightings.graph[feature], Several):
                tests.append(None)
                continue
            members = np.flatnonzero(classes == split.visual_class)
            shown = sightings.incidence.take(members)
            parts = self._agreeing(shown, feature, sightings.graph)
            group = split.visual_class * residuals.n_actions + choice.action[split.visual_class]
            rows = np.flatnonzero(residuals.group == group)
            percept = np.searchsorted(members, start[rows])
            delta = residuals.integers[rows]
            (_, alone), (least, together) = (
                best_count(shown.count(some)[percept], delta, len(some), min_samples)
                for some in (parts[:1], parts)
            )
            enough = len(parts) > 1 and together >= ENOUGH * alone
            tests.append(Several(parts=tuple(parts.tolist()), least=least) if enough else None)
        return tests

    def _agreeing(self, shown: Incidence, feature: int, graph: Graph) -> Ints:
        """Return a feature and those that agree with it most, among equals the lowest numbers."""
        has = shown.count(np.array([feature])) > 0
        n, n_has = len(has), int(has.sum())
        rows = np.repeat(np.arange(n), np.diff(shown.indptr))
        count = np.bincount(shown.indices, minlength=shown.n_features)
        both = np.bincount(shown.indices[has[rows]], minlength=shown.n_features)
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
            if graph.camera[other] == camera and not isinstance(graph[other], Several)
        )
        return np.array([feature, *itertools.islice(able, self.features - 1)], np.int64)


def best_count(n_shown: Ints, residuals: Ints, most: int, min_samples: int) -> tuple[int, float]:
    """Return the count from which on percepts are told apart best, and the reduction it brings.

    Args:
        n_shown: (n,) how many features the percept of each interaction exhibits.
        residuals: (n,) the residuals to explain, as integers.
        most: How many features there are.
        min_samples: Least number of interactions on each side; if no count leaves as many, the
            reduction is -1.
    """
    count = np.bincount(n_shown, minlength=most + 1)
    total = np.zeros(most + 1, np.int64)
    np.add.at(total, n_shown, residuals)
    with_count = np.cumsum(count[::-1])[::-1]
    with_total = np.cumsum(total[::-1])[::-1]
    enough = (with_count >= min_samples) & (len(n_shown) - with_count >= min_samples)
    least = np.flatnonzero(enough)
    if len(least) == 0:
        return 1, -1.0
    score = reductions(len(n_shown), int(with_total[0]), with_count[least], with_total[least])
    best = int(np.argmax(score))
    return int(least[best]), float(score[best])
