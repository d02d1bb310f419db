"""The values of a forest, solved for all trees jointly.

Alone, a tree treats each of its classes as a state, though it may mix percepts of different values,
and it bootstraps from these classes. Together, trees distinguish percepts that a single tree mixes.
So the values of every tree are solved again, from all interactions, bootstrapping from the mean of
all trees:

    Q_k(c, a) = mean over the interactions of (c, a) of r + γ max_a′ Q̄(s′, a′)

with Q̄ the mean over the trees in which the action was tried. These are means of means, so the
equations have one solution, and iterating them converges to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from rlvc._core.arrays import Floats, Ints
from rlvc.learning.mdp import MappedSequence

TOLERANCE = 1e-6  # change at which to stop, as a fraction of the largest return
MAX_SWEEPS = 10_000  # should γ be very close to 1


def solve_jointly(
    steps: MappedSequence,
    classes: Sequence[Ints],
    n_classes: Sequence[int],
    n_actions: int,
    gamma: float,
    floor: float,
) -> list[tuple[Floats, Ints]]:
    """Return the values of each tree, and how often each pair was tried.

    Args:
        steps: The interactions, with percepts for classes.
        classes: For each tree, the (n_percepts,) visual classes.
        n_classes: The number of classes of each tree.
        n_actions: The number of actions.
        gamma: Discount factor, in [0, 1).
        floor: The value of a pair that was never tried.
    """
    first = np.concatenate([[0], np.cumsum(n_classes)])  # classes are numbered tree after tree
    ends, end = np.unique(steps.end, return_inverse=True)
    table = np.stack([of[ends] for of in classes]) + first[:-1, None]
    pair = (np.stack([of[steps.start] for of in classes]) + first[:-1, None]) * n_actions
    pair = (pair + steps.action).ravel()
    size = int(first[-1]) * n_actions
    count = np.bincount(pair, minlength=size)
    tried = (count > 0).reshape(-1, n_actions)
    n_voters = tried[table].sum(axis=0)
    q = np.zeros((int(first[-1]), n_actions))
    largest = float(np.abs(steps.reward).max(initial=0.0)) / (1.0 - gamma)
    for _ in range(MAX_SWEEPS):
        mean = np.add.reduce(q[table], axis=0) / np.maximum(n_voters, 1)
        value = np.where(n_voters > 0, mean, -np.inf).max(axis=1)
        value[~np.isfinite(value)] = floor
        target = steps.reward + gamma * np.where(steps.terminated, 0.0, value[end])
        total = np.bincount(pair, np.tile(target, len(classes)), minlength=size)
        better = (total / np.maximum(count, 1)).reshape(q.shape)
        change = float(np.abs(better - q).max(initial=0.0))
        q = better
        if change <= TOLERANCE * largest:
            break
    q = np.where(tried, q, floor)
    counts = count.reshape(q.shape)
    return [(q[a:b], counts[a:b]) for a, b in itertools.pairwise(first.tolist())]
