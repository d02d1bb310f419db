from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc.learning.joint_values import solve_jointly
from rlvc.learning.mdp import MappedSequence

GAMMA, FLOOR, N_ACTIONS, N_PERCEPTS = 0.8, -7.0, 3, 12


def draw(seed: int, n: int) -> tuple[MappedSequence, list[NDArray[np.int64]], list[int]]:
    """Draw interactions, and the classes that a few trees make of their percepts."""
    rng = np.random.default_rng(seed)
    start, end = rng.integers(0, N_PERCEPTS, (2, n))
    ends = rng.random(n) < 0.2
    steps = MappedSequence(
        start, rng.integers(0, N_ACTIONS, n), rng.normal(size=n), end, ends, ends
    )
    n_classes = rng.integers(1, 5, 3).tolist()
    return steps, [rng.integers(0, many, N_PERCEPTS) for many in n_classes], n_classes


def literal_mean(
    steps: MappedSequence, classes: list[NDArray[np.int64]], q: list[NDArray[np.float64]],
    percept: int, action: int,
) -> float | None:  # fmt: skip
    """Return Q̄ of a percept and an action, interaction by interaction; None if never tried."""
    values = []
    for of, values_of_tree in zip(classes, q, strict=True):
        tries = [
            t
            for t in range(len(steps.start))
            if of[steps.start[t]] == of[percept] and steps.action[t] == action
        ]
        if tries:
            values.append(float(values_of_tree[of[percept], action]))
    return sum(values) / len(values) if values else None


@pytest.mark.parametrize("n", [12, 60])  # so that some pairs are known to one tree alone, or none
@pytest.mark.parametrize("seed", range(8))
def test_values_solve_the_equations_word_for_word(seed: int, n: int) -> None:
    steps, classes, n_classes = draw(seed, n)
    solved = solve_jointly(steps, classes, n_classes, N_ACTIONS, GAMMA, FLOOR)
    q = [values for values, _ in solved]
    n_checked = 0
    for of, (values, count) in zip(classes, solved, strict=True):
        for c, action in np.ndindex(values.shape):
            targets = []
            for t in range(len(steps.start)):
                if of[steps.start[t]] != c or steps.action[t] != action:
                    continue
                means = [
                    literal_mean(steps, classes, q, int(steps.end[t]), a) for a in range(N_ACTIONS)
                ]
                known = [mean for mean in means if mean is not None]
                ahead = 0.0 if steps.terminated[t] else max(known, default=FLOOR)
                targets.append(float(steps.reward[t]) + GAMMA * ahead)
            assert count[c, action] == len(targets)
            expected = sum(targets) / len(targets) if targets else FLOOR
            assert values[c, action] == pytest.approx(expected, abs=1e-4)
            n_checked += len(targets) > 0
    assert n_checked > 5
