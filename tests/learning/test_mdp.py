from __future__ import annotations

import numpy as np
import pytest

from rlvc.learning.mdp import MappedSequence, estimate, map_interactions
from rlvc.policies import greedy
from tests.oracle import rlvc as oracle
from tests.support.builders import Problem


@pytest.mark.parametrize("seed", range(12))
def test_mapped_mdp_is_that_of_the_paper(seed: int) -> None:
    problem = Problem.draw(seed, n=60)
    rng = np.random.default_rng(seed)
    n_classes = 5
    classes = rng.integers(0, n_classes - 1, len(problem.dense))  # the last class is never met
    sequence = map_interactions(problem.interactions, classes)
    mdp = estimate(sequence, n_classes, 3)
    expected = oracle.mapped_mdp(problem.sequence, classes.tolist(), n_classes, 3)
    transition = mdp.transition.toarray().reshape(n_classes, 3, n_classes)
    assert (mdp.n_classes, mdp.n_actions, len(sequence.start)) == (n_classes, 3, 60)
    for (V, a), n in expected.eta.items():
        assert mdp.count[V, a] == n
        assert mdp.is_tried[V, a] == (n > 0)
        # Rewards are multiples of 1/1024, so their sums are exact and are divided once.
        assert mdp.reward[V, a] == float(expected.R.get((V, a), 0))
        for W in range(n_classes):
            assert transition[V, a, W] == float(expected.T.get((V, a, W), 0))
    assert mdp.floor(0.5) == oracle.floor(problem.sequence, 0.5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.75])
def test_backup_is_the_h_transform(gamma: float) -> None:
    problem = Problem.draw(0, n=40)
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, len(problem.dense))
    mdp = estimate(map_interactions(problem.interactions, classes), 4, 3)  # the last is never met
    expected = oracle.mapped_mdp(problem.sequence, classes.tolist(), 4, 3)
    value = rng.integers(1, 9, 4).astype(float)
    backup = mdp.backup(value, gamma)
    assert backup.shape == (4, 3)
    for (V, a), n in expected.eta.items():
        ahead = sum(float(expected.T.get((V, a, W), 0)) * value[W] for W in range(4))
        wanted = float(expected.R[V, a]) + gamma * ahead if n else mdp.floor(gamma)
        assert backup[V, a] == pytest.approx(wanted, abs=1e-12)
    assert sum(n == 0 for n in expected.eta.values()) >= 3


def test_mean_rewards_are_right_for_any_numbers() -> None:
    rng = np.random.default_rng(0)
    n = 500
    start, action, end = rng.integers(0, 3, (3, n))
    reward = rng.normal(size=n) * 10.0 ** rng.integers(-6, 6, n)
    flags = np.zeros(n, np.bool_)
    mdp = estimate(MappedSequence(start, action, reward, end, flags, flags), 3, 3)
    for V in range(3):
        for a in range(3):
            mean = reward[(start == V) & (action == a)].mean()
            assert mdp.reward[V, a] == pytest.approx(mean, abs=1e-12 * np.abs(reward).max())


def test_any_order_gives_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    n = 1000
    start, action, end = rng.integers(0, 4, (3, n))
    reward = rng.normal(size=n)
    terminated = rng.random(n) < 0.1
    order = rng.permutation(n)
    one, other = (
        estimate(
            MappedSequence(
                start[o], action[o], reward[o], end[o], terminated[o], terminated[o]
            ), 4, 4
        )
        for o in (np.arange(n), order)
    )  # fmt: skip
    assert np.array_equal(one.reward, other.reward)
    assert np.array_equal(one.transition.toarray(), other.transition.toarray())


def test_greedy_prefers_what_was_tried_and_the_lowest_number() -> None:
    q = np.array([[1.0, 5.0, 1.0], [2.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-7.0, 0.0, 0.0]])
    is_tried = np.array(
        [[True, False, True], [True, True, True], [False] * 3, [True, False, False]]
    )
    assert greedy(q, is_tried).tolist() == [0, 0, 0, 0]
    assert greedy(q, np.ones((4, 3), np.bool_)).tolist() == [1, 0, 0, 1]
    assert greedy(q[3], np.ones(3, np.bool_)) == 1  # one class by itself
