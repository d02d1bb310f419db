from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc.learning import MappedMDP
from rlvc.learning.mdp import MappedSequence, estimate, map_interactions
from rlvc.learning.solvers.base import solvers
from rlvc.policies import greedy
from tests.oracle import rlvc as oracle
from tests.support.builders import Problem

DYNAMIC = ["value_iteration", "policy_iteration", "modified_policy_iteration"]


def random_mdp(seed: int, n: int = 80, n_classes: int = 6) -> tuple[MappedMDP, oracle.Q, float]:
    """Return a mapped MDP with untried pairs and a class without any, its Q, and γ."""
    problem = Problem.draw(seed, n=n)
    gamma = [0.0, 0.5, 0.9][seed % 3]
    classes = np.random.default_rng(seed).integers(0, n_classes, len(problem.dense))
    mdp = estimate(map_interactions(problem.interactions, classes), n_classes + 1, 3)
    model = oracle.mapped_mdp(problem.sequence, classes.tolist(), n_classes + 1, 3)
    untried = oracle.floor(problem.sequence, gamma)
    return mdp, oracle.value_iteration(model, n_classes + 1, 3, gamma, untried), gamma


@pytest.mark.parametrize("seed", range(9))
def test_dynamic_programming_agrees_with_the_oracle(seed: int) -> None:
    mdp, expected, gamma = random_mdp(seed, n=40 if seed % 2 else 150)
    table = np.array([[expected[V, a] for a in range(3)] for V in range(mdp.n_classes)])
    for name in DYNAMIC:
        assert solvers.make(name).solve(mdp, gamma) == pytest.approx(table, abs=1e-6)


@pytest.mark.parametrize("name", list(solvers))
@pytest.mark.parametrize("seed", range(6))
def test_an_untried_pair_is_never_preferred(name: str, seed: int) -> None:
    mdp, _, gamma = random_mdp(seed, n=30)
    assert not mdp.is_tried.all()
    q = solvers.make(name).solve(mdp, gamma)
    assert q.shape == mdp.count.shape
    assert q.dtype == np.float64
    action = greedy(q, mdp.is_tried)
    some = mdp.is_tried.any(axis=1)
    assert mdp.is_tried[np.arange(mdp.n_classes), action][some].all()
    assert (q[~mdp.is_tried] == mdp.floor(gamma)).all()
    if name in DYNAMIC:
        lowest = np.where(mdp.is_tried, q, np.inf).min(axis=1)
        assert (lowest[some] >= mdp.floor(gamma) - 1e-9).all()


@pytest.mark.parametrize(
    ("name", "gamma"), [*((name, 0.999) for name in DYNAMIC), ("policy_iteration", 0.99999)]
)
def test_a_far_horizon_is_solved_in_finite_time(name: str, gamma: float) -> None:
    rng = np.random.default_rng(5)
    n = 2000
    start, end = rng.integers(0, 30, (2, n))
    flags = np.zeros(n, np.bool_)
    sequence = MappedSequence(start, rng.integers(0, 4, n), rng.normal(size=n), end, flags, flags)
    mdp = estimate(sequence, 30, 4)
    q = solvers.make(name).solve(mdp, gamma)
    assert mdp.backup(q.max(axis=1), gamma) == pytest.approx(q, abs=1e-6)


def corridor(seed: int, n: int = 4000) -> tuple[MappedMDP, NDArray[np.float64], float]:
    """Return a random walk on five cells with a reward at the right end, and the optimum."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    cell = 0
    for t in range(n):
        action = int(rng.integers(2))
        there = min(cell + 1, 5) if action else max(cell - 1, 0)
        exits = there == 5
        rows.append((cell, action, 1.0 if exits else 0.0, 0 if exits else there, exits, t == n - 1))
        cell = 0 if exits else there
    start, action_, reward, end, terminated, cut = (np.array(c) for c in zip(*rows, strict=True))
    sequence = MappedSequence(start, action_, reward, end, terminated, terminated | cut)
    gamma = 0.8
    optimum = np.array([[gamma ** (5 - max(c - 1, 0)), gamma ** (4 - c)] for c in range(5)])
    return estimate(sequence, 5, 2), optimum, gamma


@pytest.mark.parametrize("name", ["q_learning", "q_lambda"])
@pytest.mark.parametrize("seed", [0, 1])
def test_q_learning_approaches_the_optimum(name: str, seed: int) -> None:
    mdp, optimum, gamma = corridor(seed)
    assert solvers.make("value_iteration").solve(mdp, gamma) == pytest.approx(optimum, abs=1e-8)
    q = solvers.make(name, sweeps=100).solve(mdp, gamma)
    assert q == pytest.approx(optimum, abs=0.03)
    assert greedy(q, mdp.is_tried).tolist() == [1] * 5


def test_sarsa_approaches_the_values_of_the_exploration_policy() -> None:
    mdp, optimum, gamma = corridor(2)
    q = np.zeros((5, 2))
    for _ in range(1000):  # the expectation under random actions
        q = mdp.backup(q.mean(axis=1), gamma)
    learned = solvers.make("sarsa", sweeps=100).solve(mdp, gamma)
    assert learned == pytest.approx(q, abs=0.03)
    assert np.abs(learned - optimum).max() > 0.1  # and not those of the best policy
