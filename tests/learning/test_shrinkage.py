from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc.classifiers import Diagrams, Split, Tree
from rlvc.classifiers._nodes import LEAF
from rlvc.learning import MappedMDP
from rlvc.learning.mdp import MappedSequence, estimate
from rlvc.learning.shrinkage import FAR, shrink
from rlvc.learning.solvers.base import solvers
from tests.support.builders import Problem, literal

GAMMA = 0.7
N_ACTIONS = 3


def draw_tree(rng: np.random.Generator, n_classes: int) -> Tree:
    tree = Tree()
    for feature in range(n_classes - 1):
        tree = tree.refine([Split(int(rng.integers(tree.n_classes)), feature)])
    return tree


def draw_mdp(rng: np.random.Generator, n_classes: int, n: int) -> MappedMDP:
    start, end = rng.integers(0, n_classes, (2, n))
    action = rng.integers(0, N_ACTIONS, n)
    terminated = rng.random(n) < 0.1
    sequence = MappedSequence(start, action, rng.normal(size=n), end, terminated, terminated)
    return estimate(sequence, n_classes, N_ACTIONS)


def path(tree: Tree, visual_class: int) -> list[int]:
    """The nodes from the root to a class."""

    def find(node: int) -> list[int] | None:
        if tree.feature[node] == LEAF:
            return [node] if tree.present[node] == visual_class else None
        for child in (int(tree.present[node]), int(tree.absent[node])):
            if below := find(child):
                return [node, *below]
        return None

    found = find(0)
    assert found is not None
    return found


def slow_values(mdp: MappedMDP, tree: Tree, amount: float) -> NDArray[np.float64]:
    """The formula, node by node, repeated until nothing changes."""
    steps = mdp.sequence
    paths = [path(tree, c) for c in range(tree.n_classes)]
    floor = mdp.floor(GAMMA)
    q = np.full((tree.n_classes, N_ACTIONS), floor)
    for _ in range(200):
        ahead = np.where(steps.terminated, 0.0, q.max(axis=1)[steps.end])
        target = steps.reward + GAMMA * ahead
        better = q.copy()
        for c, nodes in enumerate(paths):
            for a in range(N_ACTIONS):
                inside = [
                    target[(steps.action == a) & [node in paths[s] for s in steps.start]]
                    for node in nodes
                ]
                if len(inside[-1]) == 0:
                    continue
                while len(inside) > 1 and len(inside[0]) > FAR * amount:
                    inside.pop(0)
                value = inside[0].mean()
                for above, below in itertools.pairwise(inside):
                    value += (below.mean() - above.mean()) / (1.0 + amount / len(above))
                better[c, a] = value
        if np.abs(better - q).max() < 1e-12:
            break
        q = better
    return q


@pytest.mark.parametrize("amount", [0.05, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_the_formula(seed: int, amount: float) -> None:
    rng = np.random.default_rng(seed)
    tree, mdp = draw_tree(rng, 7), draw_mdp(rng, 7, 60)
    expected = slow_values(mdp, tree, amount)
    for name in ("value_iteration", "policy_iteration", "modified_policy_iteration"):
        got = solvers.make(name).solve(shrink(mdp, tree, amount), GAMMA)
        assert got == pytest.approx(expected, abs=1e-6)
    assert np.abs(expected - solvers.make("value_iteration").solve(mdp, GAMMA)).max() > 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_probabilities_stay_probabilities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, mdp = draw_tree(rng, 30), draw_mdp(rng, 30, 200)
    assert not mdp.is_tried.all()
    without_end = mdp.sequence._replace(terminated=np.zeros(200, np.bool_))
    endless = shrink(estimate(without_end, 30, N_ACTIONS), tree, 2.0)
    rows = endless.transition.sum(axis=1).reshape(30, N_ACTIONS)
    assert rows == pytest.approx(mdp.is_tried.astype(float))
    assert endless.transition.data.min() > 0.0
    shrunk = shrink(mdp, tree, 2.0)
    assert np.array_equal(shrunk.count, mdp.count)
    assert (shrunk.reward[~mdp.is_tried] == 0.0).all()


def test_nothing_is_borrowed_from_far_ancestors_or_without_shrinkage() -> None:
    rng = np.random.default_rng(0)
    tree, mdp = draw_tree(rng, 4), draw_mdp(rng, 4, 5000)
    assert shrink(mdp, tree, 0.0) is mdp
    few = shrink(mdp, tree, mdp.count.min() / FAR / 2)
    assert few.reward == pytest.approx(mdp.reward)
    assert few.transition.toarray() == pytest.approx(mdp.transition.toarray())


def test_with_a_large_weight_all_classes_are_as_the_root() -> None:
    rng = np.random.default_rng(1)
    tree, mdp = draw_tree(rng, 6), draw_mdp(rng, 6, 400)
    shrunk = shrink(mdp, tree, 1e9)
    steps = mdp.sequence
    for a in range(N_ACTIONS):
        assert shrunk.reward[:, a] == pytest.approx(
            steps.reward[steps.action == a].mean(), abs=1e-6
        )


def test_policies_act_on_what_classes_borrow_and_learning_does_not() -> None:
    database = Problem.draw(2, n=200).database
    alone, with_others = (
        list(replace(literal(), shrinkage=amount).stages(database)) for amount in (0.0, 3.0)
    )
    assert [len(stage.q) for stage in alone] == [len(stage.q) for stage in with_others]
    last = with_others[-1]
    assert np.array_equal(last.q, alone[-1].q)
    assert np.array_equal(alone[-1].values(), last.q)
    tree = last.classifier
    assert isinstance(tree, Tree)
    assert last.q.shape[0] > 2
    expected = last.learner.solver.solve(shrink(last.mdp, tree, 3.0), last.learner.gamma)
    assert np.array_equal(last.policy().q, expected)
    assert not np.allclose(expected, last.q)


def test_merged_classes_have_no_ancestors() -> None:
    learner = replace(literal(), classifier=Diagrams(), shrinkage=3.0)
    *_, last = learner.stages(Problem.draw(2, n=200).database)
    assert len(last.q) > 2
    assert np.array_equal(last.policy().q, last.q)
