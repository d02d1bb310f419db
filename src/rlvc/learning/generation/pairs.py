"""Pairs of features at typical distances: what is composed for a class, and what exhibits it.

Pairs that often occur together in a sample of the images of a class, a composite for each cluster
of their distances, and the images that exhibit these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.features.kinds import Composite
from rlvc.features.occurrences import OccurrenceTable
from rlvc.learning.generation.class_images import ClassImages, Shown
from rlvc.learning.generation.clustering import Clustering, fit
from rlvc.learning.generation.cooccurrence import Caps, exhibited, find_pairs
from rlvc.learning.generation.sampling import Sample

if TYPE_CHECKING:
    from rlvc.learning.generation.composites import Composites


@dataclass(frozen=True, slots=True)
class Pairs:
    """New composites, as arrays.

    Attributes:
        parts: (n, 2) the features that each is made of.
        pair: (n,) which have their parts in common; they stand together.
        rows: (n, 7) their relations; see :meth:`rlvc.features.graph.Composite.row`.
        likelihood: ν.
    """

    parts: Ints
    pair: Ints
    rows: Floats
    likelihood: float

    def __len__(self) -> int:
        return len(self.parts)

    @classmethod
    def concatenate(cls, every: Sequence[Pairs]) -> Pairs:
        """Return the composites of several classes."""
        arrays = zip(*((one.parts, one.pair, one.rows) for one in every), strict=True)
        parts, pair, rows = map(np.concatenate, arrays)
        return cls(parts, pair, rows, every[0].likelihood)

    def feature(self, number: int) -> Composite:
        """Return one of them as a feature."""
        first, second = self.parts[number].tolist()
        _, mean, inverse, turn, turn_inverse, ratio, ratio_inverse = self.rows[number].tolist()
        more: dict[str, Any] = {}
        if turn_inverse > 0.0:
            more |= {"turn": turn, "turn_deviation": 1.0 / turn_inverse}
        if ratio_inverse > 0.0:
            more |= {"ratio": ratio, "ratio_deviation": 1.0 / ratio_inverse}
        return Composite(
            first=first, second=second, mean=mean, deviation=1.0 / inverse,
            likelihood=self.likelihood, **more,
        )  # fmt: skip

    def show(
        self,
        begin: Ints,
        images: ClassImages,
        places: OccurrenceTable,
        n_features: int,
        span: tuple[int, int],
    ) -> Shown:
        """Return which composites of its class each image of some classes exhibits."""
        made = self.parts, self.pair, self.rows
        return exhibited(images, places, *made, begin, n_features, span)


def compose(
    rules: Composites, sample: Sample, is_part: Bools, span: tuple[int, int]
) -> tuple[list[Pairs], Ints]:
    """Return the composites of each of some classes, and how often each of the caps bit.

    There is a composite for each cluster of the distances of each pair.

    Args:
        rules: What may be composed.
        sample: The images of each class, of which the first ones are searched.
        is_part: (n_features,) which features may be parts.
        span: Which classes.
    """
    caps = Caps(
        float(rules.support), rules.images, rules.features, rules.pairs, rules.distances,
        4.0 * rules.deviation, rules.seed % 2**62,
    )  # fmt: skip
    job, parts, count, relation, cut = find_pairs(sample, is_part, caps, span)
    begin = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    labels = rules.clustering.cluster(begin, np.ascontiguousarray(relation[:, 0]))
    _check_labels(rules.clustering, labels, len(relation))
    limit = -2.0 * math.log(rules.likelihood)
    use = rules.use_angle, rules.use_scale
    pair, rows = fit(begin, relation, labels, limit, float(rules.deviation), *use)
    edges = np.searchsorted(job[pair], np.arange(span[0], span[1] + 1)).tolist()
    made, n_cut = list[Pairs](), 0
    for first, last in itertools.pairwise(edges):
        n_cut += last - first > rules.candidates
        some = slice(first, min(last, first + rules.candidates))
        made.append(Pairs(parts[pair[some]], pair[some], rows[some], rules.likelihood))
    return made, np.append(cut, n_cut)


def _check_labels(clustering: Clustering, labels: Ints, n: int) -> None:
    """Raise a ValueError unless labels are such as compiled code can trust."""
    is_table = isinstance(labels, np.ndarray) and labels.ndim == 2 and len(labels) == n
    is_right = is_table and labels.dtype == np.int64
    if not is_right or (n and not -1 <= labels.min() <= labels.max() < n):
        raise ValueError(
            f"{type(clustering).__name__}.cluster must return an array of int64 of shape ({n}, "
            f"n_ways) with labels from 0, or -1; got {np.shape(labels)} of "
            f"{getattr(labels, 'dtype', type(labels).__name__)}."
        )
