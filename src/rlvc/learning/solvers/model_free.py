"""Learning from the mapped sequence itself, without a model.

The database is swept again and again in its own order. The learning rate of a pair falls as
1 / n^ω with the number n of its updates, so that the estimates settle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc._core.jit import jit
from rlvc._core.params import check, param
from rlvc.learning.mdp import MappedMDP


@dataclass(frozen=True, kw_only=True, slots=True)
class QLearning:
    """Watkins' Q-learning: bootstrap from the best next action."""

    sweeps: int = param(50, "passes over the database", low=1)
    omega: float = param(0.7, "decay of the learning rate (ω)", above=0.5, high=1.0)

    def __post_init__(self) -> None:
        check(self)

    def solve(self, mdp: MappedMDP, gamma: float) -> NDArray[np.float64]:
        """Return the values after the last sweep."""
        return _learn(mdp, gamma, self.sweeps, self.omega, 0.0, on_policy=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sarsa:
    """SARSA: bootstrap from the action that was taken next.

    The values are those of the exploration policy that made the database, not of the best one;
    acting greedily on them is one step of policy improvement.
    """

    sweeps: int = param(50, "passes over the database", low=1)
    omega: float = param(0.7, "decay of the learning rate (ω)", above=0.5, high=1.0)

    def __post_init__(self) -> None:
        check(self)

    def solve(self, mdp: MappedMDP, gamma: float) -> NDArray[np.float64]:
        """Return the values after the last sweep."""
        return _learn(mdp, gamma, self.sweeps, self.omega, 0.0, on_policy=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class QLambda:
    """Watkins' Q(λ): TD(λ) with replacing traces that end where exploration leaves the best."""

    sweeps: int = param(50, "passes over the database", low=1)
    omega: float = param(0.7, "decay of the learning rate (ω)", above=0.5, high=1.0)
    decay: float = param(0.8, "decay of the traces (λ)", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        check(self)

    def solve(self, mdp: MappedMDP, gamma: float) -> NDArray[np.float64]:
        """Return the values after the last sweep."""
        return _learn(mdp, gamma, self.sweeps, self.omega, self.decay, on_policy=False)


def _learn(
    mdp: MappedMDP, gamma: float, sweeps: int, omega: float, decay: float, *, on_policy: bool
) -> NDArray[np.float64]:
    s = mdp.sequence
    q = np.where(mdp.is_tried, 0.0, mdp.floor(gamma))
    _sweep(
        q, mdp.is_tried, s.start, s.action, s.reward, s.end, s.terminated, s.is_last,
        gamma, sweeps, omega, decay, on_policy,
    )  # fmt: skip
    return q


@jit
def _sweep(
    q: NDArray[np.float64],
    is_tried: NDArray[np.bool_],
    start: NDArray[np.int64],
    action: NDArray[np.int64],
    reward: NDArray[np.float64],
    end: NDArray[np.int64],
    terminated: NDArray[np.bool_],
    is_last: NDArray[np.bool_],
    gamma: float,
    sweeps: int,
    omega: float,
    decay: float,
    on_policy: bool,
) -> None:
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
