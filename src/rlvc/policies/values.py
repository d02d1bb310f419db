"""Values of actions: the best one, and the combination of several trees."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints


def greedy(q: Floats, is_tried: Bools) -> Ints:
    """Return the best action of each class: tried ones first, ties to the lowest number."""
    best: Ints = np.argmax(np.where(is_tried, q, -np.inf), axis=-1)
    return best


def combine_values(
    values: Iterable[tuple[Floats, Bools]], uncertainty_penalty: float = 0.0
) -> tuple[Floats, Bools]:
    """Return mean values, less some standard deviations, over the trees that tried an action.

    Args:
        values: For each tree, an array of values, and where the tree tried the action.
        uncertainty_penalty: The number of standard deviations.

    Returns:
        q: The values; 0 where no tree tried the action.
        is_tried: Where some tree tried the action.

    >>> one, other = np.array([2.0, 0.0]), np.array([2.0, 5.0])  # of a safe and a risky action
    >>> known = np.ones(2, bool)
    >>> combine_values([(one, known), (other, known)], uncertainty_penalty=1.0)[0].tolist()
    [2.0, 0.0]
    """
    mean: Floats | float = 0.0
    squares: Floats | float = 0.0  # sum of squared deviations from the mean
    count: Ints | int = 0
    for q, is_tried in values:  # always in the order of the trees, so that sums are reproducible
        count = count + is_tried.astype(np.int64)
        deviation = np.where(is_tried, q - mean, 0.0)
        mean = mean + deviation / np.maximum(count, 1)
        squares = squares + deviation * np.where(is_tried, q - mean, 0.0)
    spread = np.sqrt(squares / np.maximum(count, 1))
    return np.asarray(mean - uncertainty_penalty * spread), np.asarray(count) > 0
