"""Cut a database into shards of whole episodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import PerceptPlaceholders
from rlvc.features.index import FeatureIndex
from rlvc.learning.shard import Shard, ShardNumbers


def split(shard: Shard, n_shards: int) -> Iterator[Shard]:
    """Cut the only shard of a database into several of about the same number of interactions."""
    whole, index = shard.interactions, shard.base
    is_stuck, cut = whole.is_stuck, cut_episodes(whole.episode, n_shards)
    n_images = tuple(places.n_images for places in index.places)
    for rows, percepts, is_first in cut_percepts(whole, cut):
        local = [np.unique(column, return_inverse=True) for column in index.table[percepts].T]
        images = tuple(numbers for numbers, _ in local)
        interactions = Interactions(
            PerceptPlaceholders(len(percepts)), np.searchsorted(percepts, whole.start[rows]),
            whole.action[rows], whole.reward[rows], np.searchsorted(percepts, whole.end[rows]),
            whole.episode[rows], whole.terminated[rows], whole.truncated[rows], whole.n_actions,
        )  # fmt: skip
        places = (one.take(some) for one, some in zip(index.places, images, strict=True))
        table = np.column_stack([which for _, which in local]).astype(np.int64, copy=False)
        numbers = ShardNumbers(percepts, is_first, images, n_images, is_stuck[rows], n_shards)
        part = FeatureIndex.from_occurrences(index.graph, index.cameras, tuple(places), table)
        yield Shard(interactions, part, numbers)


def cut_episodes(episode: Ints, shards: int) -> Ints:
    """Return the (shards + 1,) rows at which shards of whole episodes begin and end.

    >>> cut_episodes(np.array([0, 0, 0, 1, 2, 2]), 2).tolist()
    [0, 3, 6]
    """
    begin = np.flatnonzero(np.concatenate([[True], episode[1:] != episode[:-1]]))
    if not 1 <= shards <= len(begin):
        raise ValueError(
            f"shards must be between 1 and {len(begin)}, the number of episodes; got {shards}."
        )
    cut = [0]
    for k in range(1, shards):
        near = int(np.searchsorted(begin, len(episode) * k / shards))
        cut.append(min(max(near, cut[-1] + 1), len(begin) - shards + k))
    return np.append(begin[cut], len(episode))


def cut_percepts(interactions: Interactions, cut: Ints) -> Iterator[tuple[slice, Ints, Bools]]:
    """Yield the rows of each shard, its percepts, and which of these no earlier shard has."""
    start, end = interactions.start, interactions.end
    is_known = np.zeros(len(interactions.percepts), np.bool_)
    for first, last in itertools.pairwise(cut.tolist()):
        rows, is_here = slice(first, last), np.zeros(len(is_known), np.bool_)
        is_here[start[rows]] = is_here[end[rows]] = True
        if last == cut[-1]:
            is_here |= ~is_known  # the last one also gets the percepts of no interaction
        percepts = np.flatnonzero(is_here)
        yield rows, percepts, ~is_known[percepts]
        is_known |= is_here
