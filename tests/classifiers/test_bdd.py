from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc._core.registry import arrays_of
from rlvc.classifiers import Diagrams, Split, Tree
from rlvc.features import Incidence

N_FEATURES = 12
NUMBERS = np.arange(2**N_FEATURES)
EXHIBITS = (NUMBERS[:, None] >> np.arange(N_FEATURES) & 1) > 0  # every percept there is
ALL = Incidence.from_dense(EXHIBITS)

Table = NDArray[np.bool_]  # (2 ** N_FEATURES,) which percepts a class holds
Classifiers = Tree | Diagrams

has_cudd = importlib.util.find_spec("dd.cudd") is not None
needs_cudd = pytest.mark.skipif(not has_cudd, reason="dd is installed without CUDD here")
each_backend = pytest.mark.parametrize(
    "backend", [pytest.param("cudd", marks=needs_cudd), "autoref"]
)
each_kind = pytest.mark.parametrize("kind", [Tree, Diagrams])
seeds = st.integers(0, 2**32 - 1)
# A step that refines or one that merges, and what it draws its choices from.
programs = st.lists(st.tuples(st.sampled_from(["refine", "refine", "merge"]), seeds), max_size=20)
Program = list[tuple[str, int]]


def draw_splits(rng: np.random.Generator, n_classes: int) -> list[Split]:
    size = int(rng.integers(1, min(n_classes, 4) + 1))
    chosen = rng.choice(n_classes, size, replace=False).tolist()
    return [Split(c, int(rng.integers(N_FEATURES))) for c in chosen]


def draw_groups(rng: np.random.Generator, n_classes: int) -> list[list[int]]:
    label = rng.integers(0, rng.integers(1, n_classes + 1), n_classes)
    groups = [np.flatnonzero(label == one) for one in rng.permutation(np.unique(label))]
    return [rng.permutation(group).tolist() for group in groups]


def refine(tables: list[Table], splits: list[Split]) -> list[Table]:
    """B ∧ f is a new class, B ∧ ¬f stays."""
    tables = list(tables)
    for split in splits:
        there = EXHIBITS[:, split.feature]
        tables.append(tables[split.visual_class] & there)
        tables[split.visual_class] = tables[split.visual_class] & ~there
    return tables


def merge(tables: list[Table], groups: Sequence[Sequence[int]]) -> list[Table]:
    """B₁ ∨ B₂ is a class, and the lowest members say which is first."""
    ordered = sorted(groups, key=min)
    return [functools.reduce(np.logical_or, [tables[c] for c in group]) for group in ordered]


def play(
    program: Program, backend: str, kind: type[Classifiers] = Diagrams
) -> Iterator[tuple[Classifiers, list[Table], int, bool]]:
    """Yield classifier, truth tables, splits so far and whether classes were merged just now."""
    classifier: Classifiers = kind()
    tables, n_splits = [np.ones(len(NUMBERS), np.bool_)], 0
    yield classifier, tables, n_splits, False
    for verb, seed in program:
        rng = np.random.default_rng(seed)
        before = classifier
        if verb == "refine":
            splits = draw_splits(rng, classifier.n_classes)
            classifier, tables = classifier.refine(splits), refine(tables, splits)
            n_splits += len(splits)
        else:
            groups = draw_groups(rng, classifier.n_classes)
            classifier, tables = classifier.merge(groups, backend), merge(tables, groups)
        yield classifier, tables, n_splits, verb == "merge" and classifier is not before


def rows_of(classifier: Classifiers) -> list[tuple[int, int, int]]:
    return list(zip(*(array.tolist() for array in classifier.arrays), strict=True))


def depends(table: Table, feature: int) -> bool:
    return bool((table != table[NUMBERS ^ (1 << feature)]).any())


def evaluate(function: Any) -> Table:
    """Return what a diagram says of every percept, by way of its nodes."""
    known: dict[int, Table] = {}

    def visit(node: Any) -> Table:
        if node.var is None:
            return np.full(len(NUMBERS), node == node.bdd.true)
        if int(node) not in known:
            there = EXHIBITS[:, int(node.var[1:])]
            value = np.where(there, visit(node.high), visit(node.low))
            known[int(node)] = ~value if node.negated else value  # of an edge with a complement
        return known[int(node)]

    return visit(function)


# Diagrams are Boolean functions ------------------------------------------------------------------


@each_kind
@each_backend
@settings(deadline=None, max_examples=60)
@given(program=programs)
@example(program=[("refine", 0), ("refine", 1), ("refine", 2), ("merge", 3), ("refine", 4)])
def test_classes_are_the_functions_that_refining_and_merging_say(
    kind: type[Classifiers], backend: str, program: Program
) -> None:
    for classifier, tables, n_splits, is_merged in play(program, backend, kind):
        classifier.check(N_FEATURES)
        assert classifier.n_classes == len(tables)
        classes = classifier.classify(ALL)
        for number, table in enumerate(tables):
            assert np.array_equal(classes == number, table)
        assert classifier.n_nodes <= 2 * n_splits + 1  # it grows no faster than a tree
        if is_merged:
            users = {f: sum(depends(t, f) for t in tables) for f in range(N_FEATURES)}
            assert classifier.features.tolist() == [f for f in users if users[f]]
            assert isinstance(classifier, Diagrams)
            in_order = [users[f] for f in classifier.order.tolist()]
            assert in_order == sorted(in_order, reverse=True)
            tests = [row for row in rows_of(classifier) if row[0] >= 0]
            assert len(tests) == len(set(tests))  # no test is there twice, or for nothing
            assert all(present != absent for _, present, absent in tests)
            children = {child for _, *ways in tests for child in ways}
            assert set(range(1, len(tests))) <= children


@each_backend
@settings(deadline=None, max_examples=50)
@given(program=programs, seed=seeds)
def test_functions_partition_the_percepts_in_any_order(
    backend: str, program: Program, seed: int
) -> None:
    *_, (classifier, tables, _, is_merged) = play(program, backend)
    assert isinstance(classifier, Diagrams)
    functions = classifier.functions(backend)
    assert len(functions) == len(tables)
    manager = functions[0].bdd
    names = [f"f{f}" for f in classifier.order.tolist()]
    assert sorted(names, key=manager.level_of_var) == names
    support = set().union(*(function.support for function in functions))
    assert support <= set(names)
    assert support == set(names) or not is_merged
    for _ in range(2):
        for function, table in zip(functions, tables, strict=True):
            assert np.array_equal(evaluate(function), table)
            share = function.count(nvars=len(names)) / 2 ** len(names)
            assert share == table.mean()
        for i, one in enumerate(functions):
            assert all(one & other == manager.false for other in functions[:i])
        assert functools.reduce(lambda a, b: a | b, functions) == manager.true
        mixed = np.random.default_rng(seed).permutation(names).tolist()
        reorder = importlib.import_module(f"dd.{backend}").reorder
        reorder(manager, {name: level for level, name in enumerate(mixed)})  # and once more
        assert sorted(names, key=manager.level_of_var) == mixed


@needs_cudd
@settings(deadline=None, max_examples=100)
@given(program=programs)
def test_both_backends_give_the_same_arrays(program: Program) -> None:
    pairs = zip(play(program, "cudd"), play(program, "autoref"), strict=True)
    for (one, *_), (other, *_) in pairs:
        assert same(one, other)


def same(one: Classifiers, other: Classifiers) -> bool:
    ours, theirs = arrays_of(one), arrays_of(other)
    return type(one) is type(other) and all(np.array_equal(ours[k], theirs[k]) for k in ours)


# What merging does -------------------------------------------------------------------------------


def test_features_that_are_new_come_last_in_the_order() -> None:
    classifier = Diagrams().refine([Split(0, 7)]).refine([Split(1, 3), Split(0, 7)])
    assert classifier.order.tolist() == [7, 3]
    assert classifier.refine([Split(2, 3), Split(0, 5), Split(1, 4)]).order.tolist() == [7, 3, 5, 4]


@each_kind
def test_nothing_to_merge_gives_the_very_same_classifier(kind: type[Classifiers]) -> None:
    two = kind().refine([Split(0, 3)])
    assert two.merge([[1], [0]]) is two
    assert two.merge([[], [1], [], [0]]) is two
    assert two.refine([Split(0, 4)]).merge([[0, 1], [], [2]]).n_classes == 2
    assert kind().merge([[0]]).n_classes == 1


@each_kind
@pytest.mark.parametrize(
    ("groups", "got"),
    [
        ([[0]], r"\[0\]"),
        ([[0], [1], [1]], r"\[0, 1, 1\]"),
        ([[0], [0]], r"\[0, 0\]"),
        ([[0, 1], [2]], r"\[0, 1, 2\]"),
        ([[0], [-1]], r"\[-1, 0\]"),
        ([], r"\[\]"),
    ],
)
def test_groups_must_hold_each_class_once(
    kind: type[Classifiers], groups: list[list[int]], got: str
) -> None:
    two = kind().refine([Split(0, 3)])
    message = rf"^groups of merge must hold each class from 0 to 1 once; got {got}\.$"
    with pytest.raises(ValueError, match=message):
        two.merge(groups)


def test_the_root_may_become_any_class() -> None:
    # Class 0 is feature 5 and not feature 5: no percept is there.
    arrays = ([5, 5, -1, -1, -1], [1, 3, 2, 1, 0], [2, 4, 2, 1, 0], [5])
    classifier = Diagrams(*(np.array(a, np.int64) for a in arrays))
    classifier.check(N_FEATURES)
    merged = classifier.merge([[0], [1, 2]])
    merged.check(N_FEATURES)
    assert merged.n_classes == 2
    assert (merged.classify(ALL) == 1).all()


# Backends ----------------------------------------------------------------------------------------


def test_an_unknown_backend_is_explained() -> None:
    two = Diagrams().refine([Split(0, 3)])
    message = (
        r"^Unknown backend of diagrams 'cud'\. Did you mean 'cudd'\? Known: auto, autoref, cudd\.$"
    )
    with pytest.raises(ValueError, match=message):
        two.functions("cud")
    with pytest.raises(ValueError, match=message):
        two.merge([[0, 1]], "cud")


def test_without_cudd_plain_python_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    two = Diagrams().refine([Split(0, 3)])
    assert type(two.functions()[0]).__module__ == "dd.autoref"
    with pytest.raises(ValueError, match=r"^dd is installed without CUDD; choose the backend aut"):
        two.functions("cudd")


def test_a_repeated_test_is_listed_and_counted_once() -> None:
    again = Tree().refine([Split(0, 1)]).refine([Split(0, 2)]).merge([[0, 1], [2]])
    again = again.refine([Split(0, 1)])
    assert again.walk(lambda feature: feature == 1)[0] == [(1, True)]
    one = Incidence.from_dense(np.eye(3, dtype=np.bool_)[1:2])
    assert again.usage(one).tolist() == [1, 0]


def test_features_are_kept_where_diagrams_grow_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    four = Diagrams().refine([Split(0, 7)]).refine([Split(0, 8), Split(1, 8)])
    monkeypatch.setattr("rlvc.classifiers.bdd.LARGEST", 1)
    two = four.merge([[0, 1], [2, 3]])
    two.check(9)
    assert two.n_classes == 2
    # What depends on 7 by its form alone stays: 7 decides whether 9 or 10 is asked first.
    nine_ten = Diagrams().refine([Split(0, 7)]).refine([Split(0, 9), Split(1, 10)])
    nine_ten = nine_ten.refine([Split(0, 10), Split(1, 9), Split(2, 10), Split(3, 9)])
    both = [nine_ten.walk(lambda f, s=s: f in s)[1] for s in ({7, 9, 10}, {9, 10})]  # type: ignore[misc]
    rest = [c for c in range(8) if c not in both]
    kept = nine_ten.merge([both, rest])
    kept.check(11)
    assert kept.features.tolist() == [7, 9, 10]
    monkeypatch.undo()
    assert nine_ten.merge([both, rest]).features.tolist() == [9, 10]


@needs_cudd
def test_cudd_is_preferred() -> None:
    assert type(Diagrams().functions()[0]).__module__ == "dd.cudd"


# Checking ----------------------------------------------------------------------------------------


def damaged() -> list[tuple[dict[str, Any], str]]:
    no_class = "the tests of the classifier do not lead to a class"
    no_leaf = "the leaves of the classifier are not the classes"
    no_feature = "the classifier tests a feature that does not exist"
    no_length = "the arrays of the classifier are not of one length"
    no_order = "the order of the diagrams does not hold their features"
    return [
        ({"order": []}, no_order),
        ({"order": [4]}, no_order),
        ({"order": [4, 6]}, no_order),
        ({"order": [4, 5, 5]}, no_order),
        ({"order": [4, 5, 6]}, no_order),
        ({"order": [[4, 5]]}, no_order),
        ({"order": np.array([4.0, 5.0])}, no_order),
        ({"present": [2, 4, 0, 0, 1]}, no_class),  # 1 and 2 swapped: its child comes first
        ({"absent": [1, 1, 4, 0, 1]}, no_class),  # a test that leads to itself
        ({"absent": [1, 0, 4, 0, 1]}, no_class),  # a cycle
        ({"absent": [1, 5, 4, 0, 1]}, no_class),
        ({"present": [2, 4, -1, 0, 1]}, no_class),
        ({"present": [2, 4, 3, 0, 2]}, no_leaf),
        ({"present": [2, 4, 3, 0, 0]}, no_leaf),
        ({"feature": [4, 5, 5, 4, 5]}, no_class),  # no leaf at all
        ({"feature": [4, 5, N_FEATURES, -1, -1]}, no_feature),
        ({"feature": [4, 5, -2, -1, -1]}, no_feature),
        ({"feature": [4, 5, 5, -1]}, no_length),
        ({"feature": np.array([4.0, 5.0, 5.0, -1.0, -1.0])}, no_length),
        ({"feature": np.int64(-1)}, no_length),
        ({"feature": [], "present": [], "absent": [], "order": []}, no_leaf),
    ]


@pytest.mark.parametrize(("arrays", "message"), damaged())
def test_check_refuses_what_does_not_classify(arrays: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "feature": [4, 5, 5, -1, -1],  # whether 4 and 5 differ
        "present": [2, 4, 3, 0, 1],
        "absent": [1, 3, 4, 0, 1],
        "order": [4, 5],
    }

    def build(changes: dict[str, Any]) -> Diagrams:
        values = (good | changes).items()
        return Diagrams(**{k: v if hasattr(v, "dtype") else np.array(v, int) for k, v in values})

    build({}).check(N_FEATURES)
    assert build({}).classify(ALL).tolist() == (EXHIBITS[:, 4] ^ EXHIBITS[:, 5]).tolist()
    with pytest.raises(ValueError, match=f"^{message}$"):
        build(arrays).check(N_FEATURES)
