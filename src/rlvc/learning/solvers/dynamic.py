"""Dynamic programming on the estimated model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from rlvc._core.params import Checked, param
from rlvc.learning.mdp import MappedMDP


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueIteration(Checked):
    """Apply the backup operator until the values converge (Bellman 1957)."""

    tolerance: float = param(1e-9, "error of Q, as a fraction of the largest reward", above=0.0)

    def solve(self, mdp: MappedMDP, gamma: float) -> NDArray[np.float64]:
        """Return Q within the tolerance."""
        q = mdp.backup(np.zeros(mdp.n_classes), gamma)
        enough = _enough(mdp, gamma, self.tolerance)
        while True:
            better = mdp.backup(q.max(axis=1), gamma)
            change = float(np.abs(better - q).max())
            q = better
            if change <= enough:
                return q


@dataclass(frozen=True, kw_only=True, slots=True)
class ModifiedPolicyIteration(Checked):
    """Improve the policy, then evaluate it for a few sweeps only (Puterman & Shin 1978)."""

    tolerance: float = param(1e-9, "error of Q, as a fraction of the largest reward", above=0.0)
    sweeps: int = param(15, "sweeps of evaluation between two improvements", low=0)

    def solve(self, mdp: MappedMDP, gamma: float) -> NDArray[np.float64]:
        """Return Q within the tolerance."""
        value = np.full(mdp.n_classes, mdp.floor(gamma))  # from below: improvements stay monotone
        enough = _enough(mdp, gamma, self.tolerance)
        while True:
            q = mdp.backup(value, gamma)
            better = q.max(axis=1)
            if float(np.abs(better - value).max()) <= enough:
                return q
            reward, transition = _follow(mdp, q, gamma)
            value = better
            for _ in range(self.sweeps):
                value = reward + transition @ value


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyIteration:
    """Evaluate a policy exactly and improve it until it no longer changes (Howard 1960)."""

    def solve(self, mdp: MappedMDP, gamma: float) -> NDArray[np.float64]:
        """Return Q up to rounding."""
        q = mdp.backup(np.full(mdp.n_classes, mdp.floor(gamma)), gamma)
        smallest = _enough(mdp, gamma, 1e-12)
        best = -np.inf
        while True:
            reward, transition = _follow(mdp, q, gamma)
            system = sparse.eye_array(mdp.n_classes, format="csc") - transition.tocsc()
            value = np.atleast_1d(linalg.spsolve(system, reward))
            q = mdp.backup(value, gamma)
            # Each policy improves on the last, up to rounding.
            total = float(value.sum())
            if float((q.max(axis=1) - value).max()) <= smallest or total <= best:
                return q
            best = total


def _follow(
    mdp: MappedMDP, q: NDArray[np.float64], gamma: float
) -> tuple[NDArray[np.float64], sparse.csr_array]:
    """Return the rewards and γ times the transitions under the greedy policy of q."""
    action = mdp.greedy(q)
    classes = np.arange(mdp.n_classes)
    tried = mdp.is_tried[classes, action]
    reward = np.where(tried, mdp.reward[classes, action], mdp.floor(gamma))
    chosen = mdp.transition[classes * mdp.n_actions + action]
    return reward, gamma * chosen


def _enough(mdp: MappedMDP, gamma: float, tolerance: float) -> float:
    """Return the change in one sweep that bounds the error of Q by the tolerance."""
    rounding = 16.0 * np.finfo(np.float64).eps / (1.0 - gamma)  # of the largest value there is
    return float(max(tolerance * (1.0 - gamma), rounding) * mdp.scale.largest)
