"""Hierarchical shrinkage: classes with few interactions borrow from their ancestors in the tree.

The values of a class with few interactions may be due to chance; those of its ancestors are less
specific but more certain. Hierarchical shrinkage (Agarwal, Tan, Ronen, Singh & Yu, 2022) weighs the
two. With Q_0 … Q_d the mean targets of the nodes from the root to a class, and n_k the number of
interactions in node k with the action in question:

    Q = Q_0 + Σ_k (Q_k − Q_{k−1}) / (1 + λ / n_{k−1})

All weights are positive and their sum is 1. So this is the Bellman equation of an MDP in which the
interactions of an ancestor count, a little, as those of the class; this module returns that MDP,
and any solver that uses a model solves it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from rlvc.classifiers.tree import Tree
from rlvc.learning.mdp import MappedMDP

FAR = 100  # times λ: ancestors with more interactions weigh less than 1%, and lend nothing


def shrink(mdp: MappedMDP, tree: Tree, amount: float) -> MappedMDP:
    """Return the MDP in which the classes of a tree borrow from their ancestors.

    A pair that was never tried stays so.

    Args:
        mdp: The mapped MDP of the tree.
        tree: The tree.
        amount: λ, in interactions; 0 for no shrinkage.
    """
    if amount == 0.0:
        return mdp
    lent = _borrowed(mdp, tree, amount)
    return replace(
        mdp,
        reward=(lent @ mdp.reward.ravel()).reshape(mdp.count.shape),
        transition=sparse.csr_array(lent @ mdp.transition),
    )


def _borrowed(mdp: MappedMDP, tree: Tree, amount: float) -> sparse.csr_array:
    """Return how much each pair takes from each other; the row of a tried pair sums to 1."""
    n_classes, n_actions = mdp.count.shape
    count = tree.sum_up(mdp.count)
    parent, node = tree.parents, tree.leaves
    given = np.zeros(mdp.count.shape)  # the weight of the nodes below
    takes, lends = [], []
    while (given < 1.0).any():
        above = parent[node]
        size = np.where(above[:, None] >= 0, count[above], np.inf)
        near = size <= FAR * amount
        total = np.divide(size, size + amount, out=np.ones(size.shape), where=near)
        classes, actions = np.nonzero((given < 1.0) & (mdp.count > 0))
        pairs, nodes = classes * n_actions + actions, node[classes] * n_actions + actions
        weight = (total - given)[classes, actions] / count[node[classes], actions]
        takes.append((weight, pairs, nodes))
        lends.append((mdp.count[classes, actions], nodes, pairs))
        given = total
        node = np.where(above >= 0, above, node)
    n_pairs, n_nodes = n_classes * n_actions, tree.n_nodes * n_actions
    return _matrix(takes, (n_pairs, n_nodes)) @ _matrix(lends, (n_nodes, n_pairs))


def _matrix(
    entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]], shape: tuple[int, int]
) -> sparse.csr_array:
    values, rows, columns = (np.concatenate(part) for part in zip(*entries, strict=True))
    return sparse.csr_array((values.astype(np.float64), (rows, columns)), shape=shape)
