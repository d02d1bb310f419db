"""Fitted Q Iteration with scikit-learn's Extra-Trees (Ernst, Geurts & Wehenkel 2005).

One ensemble for each action. The trees are grown anew a few times, on targets that are current
then, and in between their leaves are brought up to date many times, which costs a fraction of
growing them. Terminal interactions have no future, and actions that lead nowhere are believed to do
so for ever, as this library does (``Interactions.is_stuck``), so that the comparison is fair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from rlvc.interactions import Interactions
from rlvc.learner import map_interactions

ROUNDS = 4  # how often trees are grown
SWEEPS = 25  # how often their leaves are brought up to date after that
TREES = 25
FEATURES = "sqrt"  # of them that are tried at a node
LEAF = 2  # least interactions of a leaf


@dataclass(frozen=True, slots=True)
class FittedQ:
    """The value of each action, by a forest of its own."""

    models: list[ExtraTreesRegressor]

    def act(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the best action for each row of features."""
        values = np.stack([model.predict(rows) for model in self.models], axis=1)
        return np.asarray(values.argmax(axis=1))


def fit(interactions: Interactions, rows: NDArray[np.float32], gamma: float) -> FittedQ:
    """Learn from interactions whose percepts are described by (n_percepts, n_features) rows."""
    steps = map_interactions(interactions, np.arange(len(rows)), gamma)
    value = np.zeros(len(rows))  # of each percept
    models: list[ExtraTreesRegressor] = []
    for number in range(ROUNDS):
        models, leaves, where = [], [], []
        target = steps.reward + gamma * np.where(steps.terminated, 0.0, value[steps.end])
        for action in range(interactions.n_actions):
            ours = steps.action == action
            model = ExtraTreesRegressor(
                TREES, min_samples_leaf=LEAF, max_features=FEATURES, n_jobs=-1,
                random_state=number,
            )  # fmt: skip
            model.fit(rows[steps.start[ours]], target[ours])
            first = np.cumsum([0, *(tree.tree_.node_count for tree in model.estimators_)])
            everywhere = model.apply(rows) + first[:-1]
            models.append(model)
            leaves.append((ours, everywhere[steps.start[ours]], int(first[-1])))
            where.append(everywhere)
        for _ in range(SWEEPS):
            target = steps.reward + gamma * np.where(steps.terminated, 0.0, value[steps.end])
            q = []
            for (ours, leaf, n), everywhere in zip(leaves, where, strict=True):
                weights = np.repeat(target[ours], TREES)
                total = np.bincount(leaf.ravel(), weights, minlength=n)
                mean = total / np.maximum(np.bincount(leaf.ravel(), minlength=n), 1)
                q.append(mean[everywhere].mean(axis=1))
            value = np.max(q, axis=0)
    for model, (ours, leaf, n) in zip(models, leaves, strict=True):
        total = np.bincount(leaf.ravel(), np.repeat(target[ours], TREES), minlength=n)
        mean = total / np.maximum(np.bincount(leaf.ravel(), minlength=n), 1)
        first = 0
        for tree in model.estimators_:
            size = tree.tree_.node_count
            tree.tree_.value[:, 0, 0] = mean[first : first + size]
            first += size
    return FittedQ(models)
