from __future__ import annotations

import functools
import importlib.util
import logging
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Database, Interactions, Policy, Stage
from rlvc._core.registry import arrays_of
from rlvc.classifiers import Classifier, Diagrams, Split, Tree
from rlvc.features import Incidence
from rlvc.learning import AbsoluteVariance, Compaction, Keep, Surrogates
from rlvc.learning.compaction import EQUIVALENCES, GAPS, Solve, Step, equivalent, post_processes
from rlvc.learning.selection.selector import Selector
from tests.oracle import rlvc as oracle
from tests.support.builders import (
    COLOUR,
    RIGHT,
    Problem,
    blind_extractor,
    database,
    index_of,
    literal,
    percept_store,
    symbols_of,
)  # fmt: skip

seeds = st.integers(0, 2**32 - 1)
# Values are integers and fractions of a power of two, so that sums and limits are exact.
EPSILONS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0)

EACH = pytest.mark.parametrize("equivalence", EQUIVALENCES)

needs_cudd = pytest.mark.skipif(
    importlib.util.find_spec("dd.cudd") is None, reason="dd is installed without CUDD here"
)


@dataclass(frozen=True)
class Values:
    """State–action values of a few classes, some pairs untried."""

    q: NDArray[np.float64]
    is_tried: NDArray[np.bool_]

    @classmethod
    def draw(cls, seed: int) -> Values:
        """Draw few different integers, with many ties and some classes that are alike in all."""
        rng = np.random.default_rng(seed)
        shape = int(rng.integers(1, 13)), int(rng.integers(1, 5))
        q = rng.integers(0, rng.integers(1, 20), shape).astype(float)
        is_tried = rng.random(shape) < rng.choice([0.3, 0.8, 1.0])
        q[~is_tried] = -float(rng.integers(0, 3))
        rows = rng.integers(0, len(q), len(q)) if rng.random() < 0.3 else np.arange(len(q))
        return cls(q[rows], is_tried[rows])

    @classmethod
    def draw_alike(cls, seed: int) -> Values:
        """Draw classes in which the same actions were tried."""
        values = cls.draw(seed)
        return cls(values.q, np.broadcast_to(values.is_tried[:1], values.q.shape))

    def groups(self, equivalence: str, epsilon: float) -> list[list[int]]:
        return equivalent(self.q, self.is_tried, equivalence, epsilon)

    @property
    def n_classes(self) -> int:
        return len(self.q)

    @property
    def n_actions(self) -> int:
        return int(self.q.shape[1])

    @property
    def as_dict(self) -> oracle.Q:
        return {(V, a): float(value) for (V, a), value in np.ndenumerate(self.q)}

    @property
    def tried(self) -> set[oracle.Pair]:
        return {(int(V), int(a)) for V, a in np.argwhere(self.is_tried)}

    def epsilon(self, fraction: float) -> float:
        return oracle.epsilon_of(fraction, self.as_dict, self.tried, self.n_classes, self.n_actions)

    def are_equivalent(self, equivalence: str, fraction: float) -> NDArray[np.bool_]:
        """Return what is said of every two classes.

        Those in which the same actions were tried are compared as the paper does, and the others by
        the values of all actions that were tried in both.
        """
        q, epsilon, relations = self.as_dict, self.epsilon(fraction), tuple(equivalence.split("+"))
        known = [oracle.known_actions(V, self.tried, self.n_actions) for V in range(self.n_classes)]
        related = np.empty((self.n_classes, self.n_classes), np.bool_)
        for V, W in np.ndindex(related.shape):
            both = [a for a in known[V] if a in known[W]]
            how = relations if known[V] == known[W] else ("action-value",)
            related[V, W] = oracle.is_equivalent(how, V, W, q, both, epsilon)
        return related


def as_sets(groups: list[list[int]]) -> set[frozenset[int]]:
    return {frozenset(group) for group in groups}


# Which classes are equivalent --------------------------------------------------------------------


@pytest.mark.parametrize("relation", GAPS)
@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_gaps_are_those_of_the_paper(relation: str, seed: int) -> None:
    values = Values.draw(seed)
    gaps = GAPS[relation](values.q)
    q, actions = values.as_dict, list(range(values.n_actions))
    for V, W in np.ndindex(gaps.shape):
        expected = max(oracle.left_sides(relation, V, W, q, actions))
        assert gaps[V, W] == expected
        for epsilon in (expected, expected + 0.5, expected - 0.5):
            holds = oracle.is_equivalent((relation,), V, W, q, actions, epsilon)
            assert (gaps[V, W] <= epsilon) == holds


def test_all_conjunctions_can_be_chosen() -> None:
    assert EQUIVALENCES == (
        "value", "policy", "action-value", "value+policy", "value+action-value",
        "policy+action-value", "value+policy+action-value",
    )  # fmt: skip


@EACH
@settings(deadline=None, max_examples=60)
@given(seed=seeds, epsilon=st.sampled_from(EPSILONS))
def test_a_group_is_all_equivalent_and_no_two_groups_are(
    equivalence: str, seed: int, epsilon: float
) -> None:
    values = Values.draw(seed)
    groups = values.groups(equivalence, epsilon)
    assert sorted(V for group in groups for V in group) == list(range(values.n_classes))
    assert groups == sorted(groups)
    related = values.are_equivalent(equivalence, epsilon)
    near = values.are_equivalent("action-value", epsilon)
    tried = values.is_tried
    for i, group in enumerate(groups):
        assert group == sorted(group)
        assert related[np.ix_(group, group)].all()
        for other in groups[:i]:
            most, others_most = tried[group].any(axis=0), tried[other].any(axis=0)
            if not (most & others_most).any():
                continue
            if (most == others_most).all():
                assert not related[np.ix_(group, other)].all()
            # Whoever founded a group was not near to all of a group that knows more.
            elif (most <= others_most).all():
                founders = [V for V in group if (tried[V] == most).all()]
                assert not near[np.ix_(founders, other)].all(axis=1).any()
            elif (most >= others_most).all():
                founders = [V for V in other if (tried[V] == others_most).all()]
                assert not near[np.ix_(founders, group)].all(axis=1).any()


@EACH
@settings(deadline=None, max_examples=60)
@given(seed=seeds, epsilon=st.sampled_from(EPSILONS))
def test_the_numbers_of_the_classes_do_not_matter(
    equivalence: str, seed: int, epsilon: float
) -> None:
    values = Values.draw(seed)
    order = np.random.default_rng(seed).permutation(values.n_classes)
    shuffled = Values(values.q[order], values.is_tried[order])
    groups = shuffled.groups(equivalence, epsilon)
    renamed = [order[group].tolist() for group in groups]
    assert as_sets(renamed) == as_sets(values.groups(equivalence, epsilon))


@EACH
@settings(deadline=None, max_examples=60)
@given(seed=seeds)
def test_without_tolerance_exactly_equal_classes_are_merged(equivalence: str, seed: int) -> None:
    values = Values.draw_alike(seed)
    related = values.are_equivalent(equivalence, 0.0)
    expected = {frozenset(np.flatnonzero(row).tolist()) for row in related}
    assert as_sets(values.groups(equivalence, 0.0)) == expected


@settings(deadline=None, max_examples=100)
@given(
    seed=seeds, equivalence=st.sampled_from(EQUIVALENCES), epsilon=st.sampled_from(EPSILONS),
    factor=st.sampled_from([2.0**-20, 7.0, 1000.0]), shift=st.integers(-(10**6), 10**6),
)  # fmt: skip
def test_the_unit_and_the_zero_of_rewards_do_not_matter(
    seed: int, equivalence: str, epsilon: float, factor: float, shift: int
) -> None:
    values = Values.draw(seed)
    groups = values.groups(equivalence, epsilon)
    assert Values(factor * values.q, values.is_tried).groups(equivalence, epsilon) == groups
    assert Values(values.q + shift, values.is_tried).groups(equivalence, epsilon) == groups


@EACH
def test_classes_that_were_never_met_do_not_widen_the_range(equivalence: str) -> None:
    q = np.array([[0.0], [0.5], [-100.0], [1.5], [-100.0]])
    values = Values(q, q > -100.0)
    assert values.groups(equivalence, 0.5) == [[0, 1], [2, 4], [3]]  # ε is 0.75
    nothing = Values(np.full((3, 2), -7.0), np.zeros((3, 2), np.bool_))
    assert nothing.groups(equivalence, 0.5) == [[0, 1, 2]]


@settings(deadline=None, max_examples=100)
@given(numbers=st.sets(st.integers(0, 16), min_size=1), epsilon=st.sampled_from(EPSILONS))
def test_the_nearest_groups_are_united_first_and_ties_go_to_the_lower_values(
    numbers: set[int], epsilon: float
) -> None:
    ordered = sorted(numbers)
    q = np.array(ordered, float)[:, None]
    found = Values(q, np.ones_like(q, np.bool_)).groups("value", epsilon)
    limit = epsilon * (ordered[-1] - ordered[0])
    groups = [[n] for n in ordered]
    while len(groups) > 1:
        gaps = [(groups[i + 1][-1] - groups[i][0], i) for i in range(len(groups) - 1)]
        gap, i = min(gaps)
        if gap > limit:
            break
        groups[i : i + 2] = [groups[i] + groups[i + 1]]
    assert [[ordered[V] for V in group] for group in found] == groups


# Classes in which some actions were never tried --------------------------------------------------


def table(*rows: tuple[float | None, ...]) -> Values:
    """Return the values of classes; None for an action that was never tried there."""
    is_tried = np.array([[value is not None for value in row] for row in rows])
    # What stands for the value of such an action must not matter: here it tells the classes apart.
    q = np.array(
        [[-50.0 - i if value is None else value for value in row] for i, row in enumerate(rows)]
    )
    return Values(q, is_tried)


def floats(seed: int) -> Values:
    """Draw values that hardly ever tie, with some classes that are alike in all."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 13)), int(rng.integers(1, 5))
    q, is_tried = rng.random(shape), rng.random(shape) < rng.choice([0.3, 0.6, 0.9])
    rows = rng.integers(0, len(q), len(q)) if rng.random() < 0.3 else np.arange(len(q))
    return Values(q[rows], is_tried[rows])


@settings(deadline=None, max_examples=300)
@given(
    seed=seeds, equivalence=st.sampled_from(EQUIVALENCES),
    epsilon=st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.6, 1.0, 3.0]),
)  # fmt: skip
def test_groups_are_those_of_the_literal_rule(seed: int, equivalence: str, epsilon: float) -> None:
    values = floats(seed)
    relations = tuple(equivalence.split("+"))
    try:
        expected = oracle.equivalent_groups(
            values.as_dict, values.tried, values.n_classes, values.n_actions, relations, epsilon,
            1e-12,
        )  # fmt: skip
    except oracle.TooCloseError:
        return
    assert values.groups(equivalence, epsilon) == expected


@EACH
def test_a_class_joins_the_nearest_of_those_that_know_more(equivalence: str) -> None:
    values = table((0.0, 0.0), (6.0, 9.0), (5.0, 40.0), (5.75, None), (None, 39.5), (100.0, 90.0))
    assert values.groups(equivalence, 0.0125) == [[0], [1, 3], [2, 4], [5]]  # ε is 1.25


@EACH
def test_a_class_that_is_near_to_none_stays_by_itself(equivalence: str) -> None:
    values = table((0.0, 0.0), (6.0, 9.0), (7.5, None), (100.0, 90.0), (7.75, None))
    assert values.groups(equivalence, 0.0125) == [[0], [1], [2, 4], [3]]


@EACH
def test_a_class_must_be_near_to_all_members_of_a_group(equivalence: str) -> None:
    # 5.5 is nearer to 6 than to any other, but too far from 7, which is with it.
    rows = ((6.0, 9.0), (7.0, 10.0), (4.5, 20.0), (5.5, None), (0.0, 0.0), (100.0, 100.0))
    assert table(*rows).groups(equivalence, 0.0125) == [[0, 1], [2, 3], [4], [5]]


@EACH
def test_classes_that_join_must_be_near_to_each_other_and_the_nearest_goes_first(
    equivalence: str,
) -> None:
    rows = ((6.0, 9.0), (7.0, None), (5.25, None), (0.0, 0.0), (100.0, 100.0))
    assert table(*rows).groups(equivalence, 0.0125) == [[0, 2], [1], [3], [4]]


@EACH
def test_values_that_a_member_does_not_know_exclude_no_other(equivalence: str) -> None:
    rows = ((6.0, 9.0), (6.0, None), (None, 9.0), (0.0, 0.0), (100.0, 100.0))
    assert table(*rows).groups(equivalence, 0.0125) == [[0, 1, 2], [3], [4]]


@EACH
def test_between_groups_at_the_same_distance_the_lower_values_win(equivalence: str) -> None:
    rows = [(5.0, 9.0), (7.0, 1.0), (6.0, None), (0.0, 0.0), (100.0, 100.0)]
    assert table(*rows).groups(equivalence, 0.0125) == [[0, 2], [1], [3], [4]]
    rows = [(5.0, 9.0), (5.0, 1.0), (5.0, None), (0.0, 0.0), (100.0, 100.0)]
    assert table(*rows).groups(equivalence, 0.0125) == [[0], [1, 2], [3], [4]]


@EACH
def test_a_class_without_experience_stays_with_its_like(equivalence: str) -> None:
    rows = [(5.0, 9.0), (None, None), (5.0, None), (None, None), (0.0, 0.0)]
    assert table(*rows).groups(equivalence, 10.0) == [[0, 2, 4], [1, 3]]
    assert table(*rows[:3]).groups(equivalence, 10.0) == [[0, 2], [1]]


@EACH
def test_those_that_stay_alone_are_united_from_the_lower_values(equivalence: str) -> None:
    # Seen from the class that knows more, 6 comes first.
    values = table((20.0, 0.0), (6.0, None), (5.0, None), (4.0, None))
    assert values.groups(equivalence, 1 / 16) == [[0], [1], [2, 3]]  # ε is 1


def test_of_many_that_are_as_near_the_lower_values_join_first() -> None:
    # All but one are 1 away from the first class. The one between 9 and 11 goes first, as it is
    # nearer; then the lowest, and the next of them is 2 apart from every second one.
    lower = [(9.0, 9.5 + i / 64, 9.0 + 2 * (i % 2 == 0), None) for i in range(1, 32)]
    upper = [(11.0, 9.5 + i / 64, 10.0, None) for i in range(32)]
    first = [(10.0, 10.0, 10.0, 9.0), (0.0, 0.0, 0.0, 0.0)]
    values = table(*first, *lower, (9.0, 9.5, 10.0, None), (9.5, 9.75, 10.0, None), *upper)
    joined, others = range(2, 33, 2), range(3, 33, 2)
    groups = values.groups("action-value", 1 / 11)  # ε is 1
    assert groups == [[0, *joined, 33, 34], [1], [*others], [*range(35, 67)]]


@EACH
def test_classes_that_know_different_actions_are_not_compared(equivalence: str) -> None:
    assert table((5.0, None), (None, 5.0), (0.0, 5.0)).groups(equivalence, 0.0) == [[0], [1, 2]]
    assert table((5.0, None), (None, 5.0)).groups(equivalence, 10.0) == [[0], [1]]


@EACH
@settings(deadline=None, max_examples=60)
@given(seed=seeds, epsilon=st.sampled_from(EPSILONS), at=st.integers(0, 4))
def test_an_action_that_was_never_tried_is_ignored(
    equivalence: str, seed: int, epsilon: float, at: int
) -> None:
    values = Values.draw(seed)
    at = min(at, values.n_actions)
    junk = np.random.default_rng(seed).normal(size=values.n_classes) * 1000
    wider = Values(
        np.insert(values.q, at, junk, axis=1), np.insert(values.is_tried, at, False, axis=1)
    )
    assert wider.groups(equivalence, epsilon) == values.groups(equivalence, epsilon)


@EACH
@settings(deadline=None, max_examples=60)
@given(seed=seeds, epsilon=st.sampled_from(EPSILONS))
def test_the_placeholder_of_an_unknown_value_does_not_matter(
    equivalence: str, seed: int, epsilon: float
) -> None:
    values = Values.draw(seed)
    junk = np.random.default_rng(seed).normal(size=values.q.shape) * 1000
    other = Values(np.where(values.is_tried, values.q, junk), values.is_tried)
    assert other.groups(equivalence, epsilon) == values.groups(equivalence, epsilon)


def test_a_backend_that_is_not_there_is_explained_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^dd is installed without CUDD; choose the backend auto"):
        Compaction(backend="cudd")


def test_post_processes_have_names() -> None:
    assert list(post_processes) == ["compaction", "none"]
    assert post_processes.make("none") == Keep()
    assert post_processes.make("compaction") == Compaction()


# The loop ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Always:
    """Merge after every stage, whatever comes of it."""

    compaction: Compaction

    def start(self) -> Step:
        def step(number: int, classifier: Classifier, solve: Solve, *, is_last: bool) -> Classifier:
            return self.compaction.compact(classifier, solve, is_last=is_last)

        return step


def forgetful() -> Database:
    """Return a task with a feature that counts, and one that tells how bad the bad action is.

    The second feature explains the residuals of the bad action, so that it is split on; but both
    halves have the same value and the same best action, so that they are merged.
    """
    percept, action = np.divmod(np.arange(80) % 8, 2)
    counts, tells = percept % 2, percept // 2
    noise = np.where(np.arange(80) // 8 % 2, 0.25, -0.25)
    reward = np.where(action == 0, 4.0 + 6 * counts, 1.0 * tells) + noise
    interactions = Interactions(
        percept_store(4), percept, action, reward, percept, np.arange(80), np.ones(80, np.bool_),
        np.zeros(80, np.bool_), 2,
    )  # fmt: skip
    dense = np.array([[p % 2, p // 2] for p in range(4)], np.bool_)
    return Database.of(interactions, index_of(Incidence.from_dense(dense)), blind_extractor(2))


def compacted_at(compaction: Compaction, n_stages: int) -> list[int]:
    """Return the stages at which classes are compared that are one more each time, all apart."""
    asked = []
    step, classifier = compaction.start(), Tree()
    for number in range(1, n_stages + 1):

        def solve(classifier: Classifier, number: int = number) -> Any:
            asked.append(number)
            q = np.arange(classifier.n_classes, dtype=float)[:, None]
            return SimpleNamespace(is_tried=np.ones_like(q, np.bool_)), q

        assert step(number, classifier, solve, is_last=False) is classifier
        classifier = classifier.refine([Split(0, number)])
    return asked


def test_compaction_repeats_at_its_interval() -> None:
    assert compacted_at(Compaction(), 31) == [10, 20, 30]
    assert compacted_at(Compaction(every=1), 4) == [1, 2, 3, 4]  # one class at first
    assert compacted_at(Compaction(every=0), 4) == []


def sizes(stages: list[Stage]) -> list[int]:
    return [stage.classifier.n_classes for stage in stages]


def test_splitting_and_merging_do_not_alternate_forever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    learner = functools.partial(
        literal,
        selector=Selector(alpha=0.05, min_samples=5, relevant=False),
        max_splits=0,
        max_stages=50,
    )
    compaction = Compaction(every=1, on_the_way="value+policy")
    with caplog.at_level(logging.WARNING, logger="rlvc"):
        naive = list(learner(post_process=Always(compaction)).stages(forgetful()))
    assert sizes(naive) == [1] + 50 * [2]  # two classes become four and then two, again and again
    assert all(stage.n_refined == 2 for stage in naive[1:])
    assert len(caplog.messages) == 1

    caplog.clear()
    stages = list(learner(post_process=compaction).stages(forgetful()))
    assert sizes(stages) == [1, 2, 2, 4, 2]
    assert stages[-1].classifier.features.tolist() == [0]
    assert caplog.messages == []


def loose(compaction: Compaction | None = None, max_splits: int = 0) -> RLVC:
    """Return a learner that splits readily."""
    chosen = {} if compaction is None else {"post_process": compaction}
    selector = Selector(alpha=0.2, correction="none", min_samples=2, relevant=False)
    return literal(selector=selector, max_splits=max_splits, gamma=0.5, **chosen)


@settings(deadline=None, max_examples=40)
@given(
    seed=seeds, every=st.integers(1, 3), epsilon=st.sampled_from([0.0, 0.01, 0.5]),
    equivalence=st.sampled_from(EQUIVALENCES), on_the_way=st.sampled_from(EQUIVALENCES),
    max_splits=st.integers(0, 2),
)  # fmt: skip
@example(seed=0, every=1, epsilon=0.5, equivalence="value", on_the_way="value", max_splits=1)
def test_learning_with_compaction_ends(
    seed: int, every: int, epsilon: float, equivalence: str, on_the_way: str, max_splits: int
) -> None:
    n = 14
    problem = Problem.draw(seed, n=70, n_percepts=n, n_features=6)
    compaction = Compaction(
        every=every, epsilon=epsilon, equivalence=equivalence, on_the_way=on_the_way
    )
    stages = list(loose(compaction, max_splits).stages(problem.database))
    # Every compaction but the last leaves one class more, then one class more in every stage.
    assert len(stages) <= every * (n + 1) + n + 2
    for stage in stages:
        classes = stage.classifier.classify(problem.incidence)
        assert set(classes.tolist()) == set(range(stage.classifier.n_classes))
    last = stages[-1]
    assert last.n_refined == 0
    if len(stages) > 1 and stages[-2].n_refined == 0:
        assert last.classifier.n_classes < stages[-2].classifier.n_classes
    else:  # the last compaction found nothing to merge
        groups = equivalent(last.q, last.mdp.is_tried, equivalence, epsilon)
        assert len(groups) == last.classifier.n_classes


def test_one_relation_holds_before_the_end_and_another_at_the_end() -> None:
    learner = functools.partial(
        literal, selector=Selector(alpha=0.05, min_samples=5, relevant=False), max_splits=0
    )
    strict = list(learner(post_process=Compaction(every=1, epsilon=0.1)).stages(forgetful()))
    assert sizes(strict) == [1, 2, 4, 2]  # the bad action keeps four apart until the end
    both = Compaction(every=1, epsilon=0.1, equivalence="action-value")
    assert sizes(list(learner(post_process=both).stages(forgetful()))) == [1, 2, 4]
    loosely = Compaction(
        every=1, epsilon=0.1, on_the_way="value+policy", equivalence="action-value"
    )
    assert sizes(list(learner(post_process=loosely).stages(forgetful()))) == [1, 2, 2, 4]


def test_the_relation_of_the_end_serves_at_the_last_stage_too() -> None:
    learner = functools.partial(
        literal, selector=Selector(alpha=0.05, min_samples=5, relevant=False), max_splits=0
    )
    for every in (0, 1, 2):
        compaction = Compaction(every=every, epsilon=0.1)
        for max_stages, expected in ((1, [1, 2]), (2, [1, 2, 2])):
            stages = learner(post_process=compaction, max_stages=max_stages).stages(forgetful())
            assert sizes(list(stages)) == expected


@pytest.mark.parametrize("is_last", [False, True])
def test_compaction_uses_the_relation_of_the_stage(is_last: bool) -> None:
    data = forgetful()
    selector = Selector(min_samples=5, relevant=False)
    stages = list(literal(selector=selector, max_splits=0).stages(data))
    assert sizes(stages)[-1] == 4

    def solve(classifier: Classifier) -> Any:
        assert classifier is stages[-1].classifier
        return stages[-1].mdp, stages[-1].q

    compaction = Compaction(epsilon=0.1, on_the_way="action-value", equivalence="value")
    compacted = compaction.compact(stages[-1].classifier, solve, is_last=is_last)
    assert compacted.n_classes == (2 if is_last else 4)
    assert (compacted is stages[-1].classifier) == (not is_last)


def test_compaction_at_the_end_alone_leaves_the_other_stages_as_they_are() -> None:
    n_merged = 0
    for seed in range(6):
        database = Problem.draw(seed).database
        plain = list(loose().stages(database))
        stages = list(loose(Compaction(every=0, epsilon=0.1)).stages(database))
        q, is_tried = plain[-1].q, plain[-1].mdp.is_tried
        groups = equivalent(q, is_tried, "value+policy", 0.1)
        before = plain[-1].classifier.classify(database.incidence)
        after = stages[-1].classifier.classify(database.incidence)
        assert as_members(after) == {frozenset(np.flatnonzero(np.isin(before, group)).tolist())
                                     for group in groups}  # fmt: skip
        is_merged = len(groups) < len(q)
        assert len(stages) == len(plain) + is_merged
        for one, other in zip(plain, stages, strict=False):
            assert same_arrays(one.classifier, other.classifier)
            assert np.array_equal(one.q, other.q)
        n_merged += is_merged
    assert n_merged >= 4


def as_members(classes: NDArray[np.int64]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(classes == c).tolist()) for c in np.unique(classes)}


def same_arrays(one: object, other: object) -> bool:
    a, b = arrays_of(one), arrays_of(other)
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def same(one: Policy, other: Policy) -> bool:
    return (
        type(one.classifier) is type(other.classifier)
        and same_arrays(one.classifier, other.classifier)
        and same_arrays(one, other)
        and one.features == other.features
    )


@needs_cudd
@pytest.mark.parametrize("every", [0, 1, 2])
def test_both_backends_learn_the_same_policy(every: int) -> None:
    n_diagrams = 0
    for seed in range(5):
        database = Problem.draw(seed).database
        cudd, autoref = (
            loose(Compaction(every=every, epsilon=0.05, backend=backend)).learn(database)
            for backend in ("cudd", "autoref")
        )
        assert same(cudd, autoref)
        n_diagrams += isinstance(cudd.classifier, Diagrams)
    assert n_diagrams >= 3


@pytest.mark.slow
@needs_cudd
def test_both_backends_save_the_same_bytes(tmp_path: Path) -> None:
    for backend in ("cudd", "autoref"):
        compaction = Compaction(every=1, backend=backend)
        RLVC(threads=1, post_process=compaction).learn(database(COLOUR)).save(tmp_path / backend)
    assert (tmp_path / "cudd").read_bytes() == (tmp_path / "autoref").read_bytes()


def test_a_compacted_policy_acts_as_before_with_fewer_classes() -> None:
    plain, compacted = (
        literal(**more).learn(database(COLOUR)) for more in ({}, {"post_process": Compaction()})
    )
    assert plain.n_classes > compacted.n_classes == 3
    for policy in (plain, compacted):
        assert policy.predict(COLOUR)[0].tolist() == RIGHT
    assert set(symbols_of(compacted)) <= set(symbols_of(plain))


def test_a_learner_can_be_used_again() -> None:
    learner, data = loose(Compaction(every=1, epsilon=0.05)), Problem.draw(3).database
    assert same(learner.learn(data), learner.learn(data))


def test_any_number_of_threads_gives_the_same_compacted_policy() -> None:
    data = Problem.draw(1, n=2000, n_percepts=300, n_features=60).database
    selector = Selector(alpha=0.05, correction="none", min_samples=5, relevant=False)
    one, two = (
        RLVC(threads=n, selector=selector, post_process=Compaction(every=2, epsilon=0.02)).learn(
            data
        )
        for n in (1, 2)
    )
    assert isinstance(one.classifier, Diagrams)
    assert one.n_classes > 10
    assert same(one, two)


# The oracle --------------------------------------------------------------------------------------

RULES = [
    (oracle.Rules(tau=0.5, close=1e-7), oracle.Merging(2, 0.1)),
    (
        oracle.Rules(tau=0.5, close=1e-7, max_splits=2),
        oracle.Merging(2, 0.1, ("value",), on_the_way=("value", "policy")),
    ),
    (oracle.Rules("remaining", tau=0.5, close=1e-7, max_splits=1), oracle.Merging(1, 0.2)),
    (
        oracle.Rules("reduction", "welch", 0.1, "bonferroni", 4, tau=0.1, max_splits=2, close=1e-7),
        oracle.Merging(2, 0.05, ("value",)),
    ),
    (
        oracle.Rules(tau=0.1, gamma=0.9, max_splits=0, close=1e-7),
        oracle.Merging(3, 0.6, ("policy", "action-value")),
    ),
    (oracle.Rules(tau=0.1, max_splits=2, max_stages=4, close=1e-7), oracle.Merging(3, 0.1)),
    (
        oracle.Rules(tau=0.5, close=1e-7, most_parts=7, absorbing_self_loops=True),
        oracle.Merging(2, 0.1),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "merging"), RULES, ids=lambda x: getattr(x, "ranking", None) or f"every{x.every}"
)
def test_the_loop_with_merging_is_that_of_the_paper_stage_by_stage(
    rules: oracle.Rules, merging: oracle.Merging
) -> None:
    compaction = Compaction(
        every=merging.every, epsilon=merging.epsilon,
        equivalence="+".join(merging.relations), on_the_way="+".join(merging.on_the_way),
    )  # fmt: skip
    learner = literal(
        aliasing=AbsoluteVariance(tau=rules.tau),
        selector=Selector(
            ranking=rules.ranking, test=rules.test, alpha=rules.alpha,
            correction=rules.correction, min_samples=rules.min_samples, relevant=False,
        ),
        surrogates=Surrogates(features=rules.most_parts),
        absorbing_self_loops=rules.absorbing_self_loops,
        post_process=compaction,
        gamma=rules.gamma, max_splits=rules.max_splits, max_stages=rules.max_stages,
    )  # fmt: skip
    n_checked = n_merges = 0
    for seed in range(8):
        problem = Problem.draw(seed)
        try:
            expected = oracle.rlvc_with_merging(problem.sequence, problem.shows, 3, rules, merging)
        except oracle.TooCloseError:
            continue
        stages = list(learner.stages(problem.database))
        assert len(stages) == len(expected)
        for stage, wanted in zip(stages, expected, strict=True):
            classes = stage.classifier.classify(stage.database.incidence)
            assert classes.tolist() == wanted.classes
            table = [[wanted.q[V, a] for a in range(3)] for V in range(len(stage.q))]
            assert stage.q == pytest.approx(np.array(table), abs=1e-6)
            assert stage.n_aliased == wanted.n_aliased
            assert stage.n_refinable == wanted.n_refinable
            assert stage.n_refined == len(wanted.splits)
        n_checked += 1
        grown = [len(stage.q) + stage.n_refined for stage in stages]
        n_merges += sum(b < a for a, b in zip(grown, sizes(stages)[1:], strict=False))
    assert n_checked >= 4
    assert n_merges >= 4
