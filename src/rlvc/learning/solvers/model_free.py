"""Model-free learning from the mapped sequence itself.

Methods sweep over the database repeatedly, in its own order. The learning rate of a pair decays as
1 / n^ω with the number n of its updates, so that the estimates converge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlvc._core.arrays import Floats
from rlvc._core.jit import jit
from rlvc._core.params import Checked, param
from rlvc.learning.mdp import MappedMDP, MappedSequence


@dataclass(frozen=True, kw_only=True, slots=True)
class _ModelFree(Checked):
    """Sweeps over the database, with a decaying learning rate."""

    sweeps: int = param(50, "passes over the database", low=1)
    omega: float = param(0.7, "decay of the learning rate (ω)", above=0.5, high=1.0)

    def _learn(
        self, mdp: MappedMDP, gamma: float, decay: float = 0.0, *, on_policy: bool = False
    ) -> Floats:
        """Return the values after the last sweep."""
        q = np.where(mdp.is_tried, 0.0, mdp.floor(gamma))
        _sweep(q, mdp.sequence, gamma, self.sweeps, self.omega, decay, on_policy)
        return q


@dataclass(frozen=True, kw_only=True, slots=True)
class QLearning(_ModelFree):
    """Watkins' Q-learning: bootstrap from the best next action."""

    def solve(self, mdp: MappedMDP, gamma: float) -> Floats:
        """Return the values after the last sweep."""
        return self._learn(mdp, gamma)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sarsa(_ModelFree):
    """SARSA: bootstrap from the action that was taken next.

    The values are those of the policy that collected the database, not of the optimal one; acting
    greedily on them is one step of policy improvement.
    """

    def solve(self, mdp: MappedMDP, gamma: float) -> Floats:
        """Return the values after the last sweep."""
        return self._learn(mdp, gamma, on_policy=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class QLambda(_ModelFree):
    """Watkins' Q(λ): TD(λ) with replacing traces, cut where the next action is not greedy."""

    decay: float = param(0.8, "decay of the traces (λ)", low=0.0, high=1.0)

    def solve(self, mdp: MappedMDP, gamma: float) -> Floats:
        """Return the values after the last sweep."""
        return self._learn(mdp, gamma, self.decay)


@jit
def _sweep(
    q: Floats,
    sequence: MappedSequence,
    gamma: float,
    sweeps: int,
    omega: float,
    decay: float,
    on_policy: bool,
) -> None:
    start, action, reward, end, terminated, is_last = sequence
    updates = np.zeros(q.shape, np.int64)
    n_actions = q.shape[1]
    trace = np.zeros(q.shape)
    live = np.empty(q.size, np.int64)  # pairs whose trace is not negligible
    for _ in range(sweeps):
        n_live = 0
        trace[:] = 0.0
        for t in range(len(start)):
            s, a = start[t], action[t]
            ahead = 0.0
            if not terminated[t]:
                if on_policy and not is_last[t]:
                    ahead = q[end[t], action[t + 1]]
                else:
                    ahead = q[end[t]].max()
            delta = reward[t] + gamma * ahead - q[s, a]
            updates[s, a] += 1
            if trace[s, a] == 0.0:
                live[n_live] = s * n_actions + a
                n_live += 1
            trace[s, a] = 1.0
            greedy_next = False
            if decay > 0.0 and not is_last[t]:
                greedy_next = q[start[t + 1], action[t + 1]] >= q[start[t + 1]].max()
            kept = 0
            for i in range(n_live):
                u, b = live[i] // n_actions, live[i] % n_actions
                rate = 1.0 / max(updates[u, b], 1) ** omega
                q[u, b] += rate * delta * trace[u, b]
                trace[u, b] *= gamma * decay
                if greedy_next and trace[u, b] > 1e-4:
                    live[kept] = live[i]
                    kept += 1
                else:
                    trace[u, b] = 0.0
            n_live = kept
