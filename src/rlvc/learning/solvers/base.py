"""Reinforcement learning on the mapped MDP: dynamic programming and model-free methods."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlvc._core.registry import Registry
from rlvc.learning.mdp import MappedMDP
from rlvc.learning.solvers import dynamic, model_free


class Solver(Protocol):
    """Find the optimal state–action values of a mapped MDP."""

    def solve(self, mdp: MappedMDP, gamma: float) -> NDArray[np.float64]:
        """Return Q (n_classes, n_actions); a pair never tried gets ``mdp.floor(gamma)``."""
        ...


solvers: Registry[Solver] = Registry("solver")
solvers.register("value_iteration", dynamic.ValueIteration)
solvers.register("policy_iteration", dynamic.PolicyIteration)
solvers.register("modified_policy_iteration", dynamic.ModifiedPolicyIteration)
solvers.register("q_learning", model_free.QLearning)
solvers.register("sarsa", model_free.Sarsa)
solvers.register("q_lambda", model_free.QLambda)
