from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Database, Interactions, Policy
from rlvc.classifiers import Classifier, Split, Tree
from rlvc.features import AtLeast
from rlvc.learning import AbsoluteVariance, Surrogates
from rlvc.learning.compaction import Solve, Step
from rlvc.learning.generation.base import Canonical
from rlvc.learning.rlvc import largest_first
from rlvc.learning.selection.selector import Selector, SplitChoice
from rlvc.learning.solvers.base import solvers
from rlvc.vision import Harris, InterestPoints
from tests.oracle import rlvc as oracle
from tests.support.builders import (
    Problem,
    blind_extractor,
    index_of,
    literal,
    percept_store,
    pictures,
    symbols_of,
)


def learner(rules: oracle.Rules, solver: str = "modified_policy_iteration") -> RLVC:
    return literal(
        solver=solvers.make(solver),
        aliasing=AbsoluteVariance(tau=rules.tau),
        selector=Selector(
            ranking=rules.ranking, test=rules.test, alpha=rules.alpha,
            correction=rules.correction, min_samples=rules.min_samples,
            relevant=rules.relevant,
        ),
        surrogates=Surrogates(features=rules.most_parts, agreement=rules.agreement),
        absorbing_self_loops=rules.absorbing_self_loops,
        gamma=rules.gamma, max_splits=rules.max_splits, max_stages=rules.max_stages,
    )  # fmt: skip


# The defaults may change with what benchmarks say; these tests need trees that grow.
LOOSE = Selector(alpha=0.05, correction="none", min_samples=5, relevant=False)
CASES = [
    oracle.Rules(tau=0.5, close=1e-7),
    oracle.Rules("remaining", tau=0.5, close=1e-7, max_splits=0),
    oracle.Rules("reduction", "welch", 0.1, "bonferroni", 4, tau=0.1, max_splits=1, close=1e-7),
    oracle.Rules(
        "remaining", "welch", 0.2, "none", 3, tau=0.1, gamma=0.9, max_splits=2, close=1e-7
    ),
    oracle.Rules("reduction", "ks", 0.3, "none", 4, tau=0.1, gamma=0.0, close=1e-7),
    oracle.Rules("remaining", "ks", 0.3, "none", 4, tau=0.1, max_splits=3, close=1e-7),
    oracle.Rules(correction="bonferroni", tau=0.01, max_stages=2, max_splits=1, close=1e-7),
]


# Beyond the paper: actions that repeat forever, surrogates, only relevant splits.
MORE = [
    oracle.Rules(tau=0.5, close=1e-7, absorbing_self_loops=True),
    oracle.Rules("remaining", tau=0.5, close=1e-7, absorbing_self_loops=True, gamma=0.9),
    oracle.Rules(tau=0.5, close=1e-7, most_parts=7),
    oracle.Rules("remaining", tau=0.5, max_splits=2, close=1e-7, most_parts=3, min_samples=4),
    oracle.Rules(
        tau=0.5, max_splits=0, close=1e-7, most_parts=7, agreement=0.5, absorbing_self_loops=True
    ),
    oracle.Rules(tau=0.5, max_splits=0, close=1e-7, relevant=True),
    oracle.Rules("remaining", "ks", 0.3, tau=0.5, close=1e-7, min_samples=3, relevant=True),
]


def name_of(r: oracle.Rules) -> str:
    more = f"-{r.most_parts}" * (r.most_parts > 1) + "-stuck" * r.absorbing_self_loops
    return f"{r.ranking}-{r.test}-cap{r.max_splits}{more}" + "-relevant" * r.relevant


SLOW = [pytest.param(rules, marks=pytest.mark.slow) for rules in CASES[2:] + MORE[1:]]


@pytest.mark.parametrize("rules", [*CASES[:2], MORE[0], *SLOW], ids=name_of)
def test_the_loop_is_algorithm_1_stage_by_stage(rules: oracle.Rules) -> None:
    n_checked = n_classes = n_several = 0
    for seed in range(6 if rules in MORE else 10):
        problem = Problem.draw(seed)
        if rules in MORE:
            problem = Problem.draw(seed, n_copies=3, stuck=0.5)
            assert problem.interactions.is_stuck.sum() > 20
        try:
            node, expected = oracle.rlvc(problem.sequence, problem.shows, 3, rules)
        except oracle.TooCloseError:
            continue
        stages = list(learner(rules).stages(problem.database))
        policy = stages[-1].policy()
        assert same(policy, learner(rules).learn(problem.database))
        assert len(stages) == len(expected)
        for k, (stage, wanted) in enumerate(zip(stages, expected, strict=True)):
            assert stage.number == k
            incidence = stage.database.incidence
            assert stage.classifier.classify(incidence).tolist() == wanted.classes
            table = [[wanted.q[V, a] for a in range(3)] for V in range(len(stage.q))]
            assert stage.q == pytest.approx(np.array(table), abs=1e-6)
            assert stage.n_aliased == wanted.n_aliased
            assert stage.n_refinable == wanted.n_refinable
            assert stage.n_refined == len(wanted.splits)
            tree = stage.classifier
            assert isinstance(tree, Tree)
            if k + 1 < len(stages):  # the tests that the stage added, in order
                after = stages[k + 1].classifier
                assert isinstance(after, Tree)
                grown = tree.refine([Split(V, f) for V, f in wanted.splits])
                assert np.array_equal(grown.feature, after.feature)
                assert np.array_equal(grown.present, after.present)
                assert np.array_equal(grown.absent, after.absent)
        assert policy.n_classes == stages[-1].classifier.n_classes
        tests = [stages[-1].database.graph[n] for n in stages[-1].classifier.features]
        n_several += sum(isinstance(test, AtLeast) for test in tests)
        if rules.most_parts == 1:
            assert symbols_of(policy) == stages[-1].classifier.features.tolist()
            assert oracle.classify(node, problem.shows[0]) == expected[-1].classes[0]
        n_checked += 1
        n_classes = max(n_classes, policy.n_classes)
    assert n_checked >= (4 if rules in MORE else 6)
    assert (n_several >= 5) == (rules.most_parts > 1)
    assert n_classes >= 3


@pytest.mark.parametrize("solver", ["value_iteration", "policy_iteration"])
def test_the_solver_does_not_change_the_classes(solver: str) -> None:
    rules = CASES[0]
    problem = Problem.draw(3)
    one = learner(rules).learn(problem.database)
    other = learner(rules, solver).learn(problem.database)
    assert isinstance(one.classifier, Tree)
    assert isinstance(other.classifier, Tree)
    assert np.array_equal(one.classifier.feature, other.classifier.feature)
    assert other.q == pytest.approx(one.q, abs=1e-6)


def same(one: Policy, other: Policy) -> bool:
    pairs = [(one.q, other.q), (one.count, other.count), (one.usage, other.usage)]
    pairs += [
        (getattr(one.classifier, n), getattr(other.classifier, n))
        for n in ("feature", "present", "absent")
    ]
    return one.features == other.features and all(np.array_equal(a, b) for a, b in pairs)


def test_any_number_of_threads_gives_the_same_policy() -> None:
    database = Problem.draw(1, n=2000, n_percepts=300, n_features=60).database
    one, two, three = (RLVC(threads=n, selector=LOOSE).learn(database) for n in (1, 2, 3))
    assert one.n_classes > 10
    assert same(one, two)
    assert same(one, three)


def test_runs_that_take_turns_on_one_database_do_not_disturb_each_other() -> None:
    problem = Problem.draw(3, n=2000, n_percepts=300, n_features=60, n_copies=8)
    learners = [
        RLVC(threads=1, selector=LOOSE, generator=Canonical(), max_splits=max_splits)
        for max_splits in (1, 2)
    ]
    alone = [[stage.q for stage in one.stages(problem.database)] for one in learners]
    shared = problem.database
    turns = zip(*(one.stages(shared) for one in learners), strict=False)
    n_stages = 0
    for expected, stages in zip(zip(*alone, strict=False), turns, strict=False):
        n_stages += 1
        for q, stage in zip(expected, stages, strict=True):
            assert np.array_equal(q, stage.q)
            classes = stage.database.classes(stage.classifier)
            assert np.array_equal(classes, stage.classifier.classify(stage.database.incidence))
    assert n_stages > 5


def test_the_order_of_the_interactions_does_not_change_the_policy() -> None:
    problem = Problem.draw(2, n=800, n_percepts=100, n_features=30)
    old = problem.interactions
    order = np.random.default_rng(0).permutation(len(old))
    mixed = Interactions(
        old.percepts, old.start[order], old.action[order], old.reward[order], old.end[order],
        np.arange(len(old)), old.terminated[order], old.truncated[order], 3,
    )  # fmt: skip
    one = problem.database
    other = Database.of(mixed, one.index, one.extractor)
    assert RLVC(selector=LOOSE).learn(one).n_classes > 5
    assert same(RLVC(selector=LOOSE).learn(one), RLVC(selector=LOOSE).learn(other))


def test_largest_classes_come_first_and_ties_go_to_the_lowest_number() -> None:
    feature = np.array([4, -1, 6, 7, 8])
    choice = SplitChoice(feature, np.zeros(5, np.int64), np.zeros(5), np.ones(5, np.int64))
    count = np.array([[1, 1], [50, 50], [3, 0], [1, 2], [0, 9]])
    order = [Split(4, 8), Split(2, 6), Split(3, 7), Split(0, 4)]
    for max_splits in (1, 2, 3, 4, 9):
        assert largest_first(choice, count, max_splits) == order[:max_splits]
    assert largest_first(choice, count, 0) == order


@dataclass(frozen=True)
class Do:
    """A post-processing that is one function, the same for every run."""

    step: Step

    def start(self) -> Step:
        return self.step


def test_post_processing_is_called_after_every_stage() -> None:
    calls: list[tuple[int, int, bool]] = []

    def note(number: int, classifier: Classifier, solve: Solve, *, is_last: bool) -> Classifier:
        mdp, q = solve(classifier)
        assert len(q) == mdp.n_classes == classifier.n_classes
        calls.append((number, classifier.n_classes, is_last))
        return classifier

    database = Problem.draw(3).database
    stages = list(RLVC(post_process=Do(note), max_splits=1, selector=LOOSE).stages(database))
    sizes = [stage.classifier.n_classes for stage in stages]
    assert len(sizes) >= 3
    expected = [(k, size, False) for k, size in enumerate(sizes)][1:]
    assert calls == [*expected, (len(sizes), sizes[-1], True)]

    calls.clear()
    list(RLVC(post_process=Do(note), max_splits=1, selector=LOOSE, max_stages=2).stages(database))
    assert calls == [(1, sizes[1], False), (2, sizes[2], True)]


def test_after_the_last_post_processing_one_more_stage_is_solved() -> None:
    def restart(number: int, classifier: Classifier, solve: Solve, *, is_last: bool) -> Classifier:
        return Tree() if is_last else classifier

    database = Problem.draw(3).database
    stages = list(RLVC(post_process=Do(restart), max_splits=0, selector=LOOSE).stages(database))
    sizes = [stage.classifier.n_classes for stage in stages]
    assert sizes[-2] > sizes[-3] > 1
    assert sizes[-1] == 1
    assert stages[-1].n_refinable > stages[-1].n_refined == 0  # what could be split is not
    assert np.array_equal(stages[-1].q, stages[0].q)


@pytest.mark.parametrize("max_stages", [1, 2])
def test_post_processing_is_the_last_word_when_stages_run_out(
    max_stages: int, caplog: pytest.LogCaptureFixture
) -> None:
    def restart(number: int, classifier: Classifier, solve: Solve, *, is_last: bool) -> Classifier:
        return Tree() if is_last else classifier

    learner = RLVC(post_process=Do(restart), max_splits=1, selector=LOOSE, max_stages=max_stages)
    with caplog.at_level(logging.WARNING, logger="rlvc"):
        stages = list(learner.stages(Problem.draw(3).database))
    assert [stage.classifier.n_classes for stage in stages] == [*range(1, max_stages + 1), 1]
    assert len(caplog.messages) == 1


def test_a_post_processing_starts_anew_in_every_run() -> None:
    class Count:
        n_starts = 0

        def start(self) -> None:
            self.n_starts += 1

    count = Count()
    for _ in range(2):
        RLVC(post_process=count, selector=LOOSE).learn(Problem.draw(3).database)
    assert count.n_starts == 2


def test_usage_counts_the_percepts_that_reach_a_test() -> None:
    problem = Problem.draw(3)
    policy = RLVC(selector=LOOSE).learn(problem.database)
    expected = np.zeros(len(policy.features), np.int64)
    for symbols in problem.shows:
        path, _ = policy.classifier.walk(
            lambda n, symbols=symbols: symbols_of(policy)[n] in symbols  # type: ignore[misc]
        )
        for number, _ in path:
            expected[number] += 1
    assert len(expected) >= 2
    assert policy.usage.tolist() == expected.tolist()


def test_a_learner_stops_after_max_stages(caplog: pytest.LogCaptureFixture) -> None:
    database = Problem.draw(3).database
    with caplog.at_level(logging.WARNING, logger="rlvc"):
        stages = list(RLVC(max_stages=1, max_splits=1, selector=LOOSE).stages(database))
    assert caplog.messages == ["Learning stopped after 1 stages, as max_stages says."]
    assert [stage.number for stage in stages] == [0, 1]
    assert [stage.policy().n_classes for stage in stages] == [1, 2]
    assert RLVC(max_stages=0).learn(database).n_classes == 1


def test_learning_that_ends_at_the_last_stage_does_not_warn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = Problem.draw(3).database
    n_stages = len(list(RLVC(selector=LOOSE).stages(database)))
    with caplog.at_level(logging.WARNING, logger="rlvc"):
        stages = list(RLVC(max_stages=n_stages - 1, selector=LOOSE).stages(database))
    assert len(stages) == n_stages
    assert caplog.messages == []


def bandit(n: int, images: NDArray[np.uint8], seed: int, reward: float = 1.0) -> Interactions:
    """Return one-step episodes in which action i is good in place i."""
    rng = np.random.default_rng(seed)
    place, action = rng.integers(0, len(images), n), rng.integers(0, len(images), n)
    return Interactions.from_arrays(
        images[place], action, reward * (place == action), np.ones(n, np.bool_),
        next_observations=images[place], n_actions=len(images),
    )  # fmt: skip


def test_fresh_interactions_are_asked_for_at_every_stage() -> None:
    images = pictures(3)
    asked: list[tuple[int, int | None]] = []

    def source(k: int, policy: Policy | None) -> Interactions:
        asked.append((k, None if policy is None else policy.n_classes))
        if policy is not None:
            assert policy.predict(images)[0].shape == (3,)
        return bandit(300, images, seed=k)

    stages = list(RLVC(max_splits=1).stages(source))
    assert asked == [(0, None), (1, 1), (2, 2)]
    assert [stage.classifier.n_classes for stage in stages] == [1, 2, 3]
    assert stages[-1].policy().predict(images)[0].tolist() == [0, 1, 2]


def test_percepts_that_appear_late_get_new_symbols() -> None:
    images = pictures(4)

    def source(k: int, policy: Policy | None) -> Interactions:
        n = 2 if k == 0 else 4
        rng = np.random.default_rng(k)
        place, action = rng.integers(0, n, 400), rng.integers(0, 4, 400)
        return Interactions.from_arrays(
            images[place], action, place == action, np.ones(400, bool), n_actions=4,
            next_observations=images[place],
        )  # fmt: skip

    policy = RLVC().learn(source)
    assert policy.predict(images)[0].tolist() == [0, 1, 2, 3]


def test_zero_rewards_cause_a_warning_and_the_policy_still_acts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    images = pictures(2)
    with caplog.at_level(logging.WARNING, logger="rlvc"):
        policy = RLVC().learn(bandit(100, images, 0, reward=0.0))
    assert caplog.messages == [
        "All rewards are zero: nothing distinguishes one action from another."
    ]
    assert policy.n_classes == 1
    assert policy.predict(images)[0].tolist() == [0, 0]


def test_blank_percepts_are_a_class_like_any_other() -> None:
    images = pictures(2)
    images[0] = 0
    policy = RLVC().learn(bandit(200, images, 0))
    assert policy.n_classes == 2
    assert policy.predict(images)[0].tolist() == [0, 1]


def test_percepts_without_points_cause_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    images = np.zeros((2, 64, 64, 3), np.uint8)
    images[1] += 9
    with caplog.at_level(logging.WARNING, logger="rlvc"):
        policy = RLVC().learn(bandit(100, images, 0))
    assert caplog.messages == [
        "No percept has an interest point: all look the same to this detector."
    ]
    assert policy.n_classes == 1
    assert policy.predict(images)[0].shape == (2,)


def test_an_action_that_was_never_tried_is_not_chosen() -> None:
    # Every reward is negative, and action 2 exists but does not occur.
    action = np.arange(20) % 2
    interactions = Interactions(
        percept_store(1), np.zeros(20, np.int64), action, np.where(action, -2.0, -1.0),
        np.zeros(20, np.int64), np.arange(20), np.ones(20, np.bool_), np.zeros(20, np.bool_), 3,
    )  # fmt: skip
    symbols = Problem.draw(0).incidence
    extractor = blind_extractor(symbols.n_features)
    policy = RLVC().learn(Database.of(interactions, index_of(symbols), extractor))
    assert policy.count.tolist() == [[10, 10, 0]]
    assert policy.actions.tolist() == [0]


@pytest.mark.parametrize(("part", "cure"), [("harris", ""), (Harris, r" Write Harris\(\)\.")])
def test_a_part_without_its_method_is_explained(part: Any, cure: str) -> None:
    got = re.escape(f"detector of RLVC must be an object with a method detect; got {part!r}.")
    with pytest.raises(TypeError, match=f"^{got}{cure}$"):
        RLVC(detector=part)


def test_data_of_another_kind_is_explained() -> None:
    with pytest.raises(TypeError, match=r"^data of RLVC must be Interactions, .*; got list\. "):
        RLVC().learn([1, 2])  # type: ignore[arg-type]


def test_rows_that_are_not_numbers_are_explained() -> None:
    @dataclass(frozen=True)
    class Broken:
        def describe(self, image: Any, points: InterestPoints) -> tuple[InterestPoints, Any]:
            return points, np.full((len(points), 3), np.nan, np.float32)

    images = pictures(2)
    data = Interactions.from_arrays(images, [0, 1], [0, 1], [True, True], next_observations=images)
    with pytest.raises(ValueError, match=r"^Broken must return one row of finite numbers for each"):
        RLVC(descriptor=Broken()).learn(data)
