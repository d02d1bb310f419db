from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc.classifiers import Diagrams, Split, Tree
from rlvc.features import Incidence
from tests.oracle import rlvc as oracle

N_FEATURES = 8

Kind = type[Tree] | type[Diagrams]
# What is only ever refined classifies alike, whether it is kept as a tree or as diagrams.
both_kinds = pytest.mark.parametrize("kind", [Tree, Diagrams])


def grow(
    kind: Kind, rng: np.random.Generator, stages: int
) -> tuple[list[Tree | Diagrams], list[oracle.Node]]:
    """Grow a random classifier, and the same of nested objects; return every stage of both."""
    trees: list[Tree | Diagrams] = [kind()]
    all_nodes: list[oracle.Node] = [oracle.Leaf(0)]
    for _ in range(stages):
        tree, node = trees[-1], all_nodes[-1]
        size = int(rng.integers(1, min(tree.n_classes, 4) + 1))
        chosen = rng.choice(tree.n_classes, size, replace=False).tolist()
        splits = [Split(c, int(rng.integers(N_FEATURES))) for c in chosen]
        for new, split in enumerate(splits, start=tree.n_classes):
            node = oracle.refine(node, split.visual_class, split.feature, new)
        trees.append(tree.refine(splits))
        all_nodes.append(node)
    return trees, all_nodes


@both_kinds
@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), stages=st.integers(0, 6))
def test_refined_classifiers_classify_as_nested_objects_do(
    kind: Kind, seed: int, stages: int
) -> None:
    rng = np.random.default_rng(seed)
    trees, nodes = grow(kind, rng, stages)
    dense = rng.random((40, N_FEATURES)) < 0.4
    incidence = Incidence.from_dense(dense)
    in_parts = Incidence.from_dense(dense[:, :1])
    for n in range(1, N_FEATURES):
        alone = dense[:, : n + 1] & (np.arange(n + 1) == n)
        more = Incidence.from_dense(alone)
        in_parts = in_parts.append(more) if rng.random() < 0.2 else in_parts.join(more)
    shows = [set(np.flatnonzero(row).tolist()) for row in dense]
    for tree, node in zip(trees, nodes, strict=True):
        tree.check(N_FEATURES)
        classes = tree.classify(incidence)
        assert classes.tolist() == [oracle.classify(node, symbols) for symbols in shows]
        assert np.array_equal(tree.usage(in_parts), tree.usage(incidence))
        for threads in (1, 2, 3):
            assert np.array_equal(tree.classify(in_parts, threads), classes)
            for other in trees:  # refined from it or not
                known = other.classify(incidence)
                assert np.array_equal(tree.reclassify(other, known, in_parts, threads), classes)


@both_kinds
def test_no_split_gives_the_very_same_classifier(kind: Kind) -> None:
    tree = kind().refine([Split(0, 2)])
    assert tree.refine([]) is tree


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([3, -1, -1], [2, 1, 0], [1, 1, 0]), "the classifier tests a feature that does not exist"),
        (([1, -1, -1], [2, 1, 0], [2, 1, 0]), "the nodes do not form a tree"),
        (([0, -1], [1, 0], [1, 0]), "the nodes do not form a tree"),
    ],
)
def test_check_refuses_what_is_not_a_tree(arrays: tuple[list[int], ...], message: str) -> None:
    Tree().refine([Split(0, 1)]).check(2)
    with pytest.raises(ValueError, match=f"^{message}$"):
        Tree(*(np.array(array, np.int64) for array in arrays)).check(3)
