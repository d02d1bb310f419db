"""The patch of a feature, and short names for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import AtLeast, Primitive
from rlvc.policies.forest import AnyPolicy

GAP: Final = 2  # white pixels between patches
FADED: Final = 0.65  # share of white in the patch of a feature that was not seen


def picture_of(
    policy: AnyPolicy, number: int, seen: Collection[int] | None = None
) -> NDArray[np.uint8]:
    """Return the patch of a feature.

    An ``AtLeast`` feature shows the patch of its first part, and to the right of it small ones of
    the other parts, in two rows.

    Args:
        policy: The policy.
        number: The number of the feature.
        seen: The parts of an ``AtLeast`` feature that were seen; the others are faded.
    """
    feature = policy.graph[number]
    if not isinstance(feature, AtLeast):
        return np.asarray(policy.patches[number])
    patches = policy.patches[list(feature.parts)]
    if seen is not None:
        unseen = ~np.isin(feature.parts, list(seen))
        patches[unseen] = patches[unseen] * (1.0 - FADED) + 255.0 * FADED
    side, columns = len(patches[0]), len(patches) // 2  # of small patches
    step = side + GAP
    picture = np.full((2 * side + GAP, 2 * side + GAP + columns * step, 3), 255, np.uint8)
    picture[GAP // 2 :, :][: 2 * side, : 2 * side] = patches[0].repeat(2, axis=0).repeat(2, axis=1)
    for i, patch in enumerate(patches[1:]):
        y, x = i // columns * step, 2 * side + GAP + i % columns * step
        picture[y : y + side, x : x + side] = patch
    return picture


def title_of(graph: FeatureGraph, number: int) -> str:
    """Return a feature in words; an ``AtLeast`` feature by its parts, or the first of long ones."""
    feature = graph[number]
    if not isinstance(feature, AtLeast):
        return graph.describe(number)
    if _are_symbols(graph, feature):
        return graph.names_of(feature.parts)
    return f"{graph.describe(feature.parts[0])} …"


def brief(graph: FeatureGraph, number: int) -> str:
    """Return a feature in a sentence; an ``AtLeast`` feature with long parts by the first one."""
    feature = graph[number]
    if isinstance(feature, AtLeast) and not _are_symbols(graph, feature):
        return f"at least {share_of(feature)} such as {graph.describe(feature.parts[0])}"
    return graph.describe(number)


def _are_symbols(graph: FeatureGraph, feature: AtLeast) -> bool:
    return all(isinstance(graph[part], Primitive) for part in feature.parts)


def share_of(feature: AtLeast) -> str:
    """Return how many of its parts an ``AtLeast`` feature needs."""
    return f"{feature.least} of {len(feature.parts)}"
