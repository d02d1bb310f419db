from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc import RLVC
from rlvc._core.params import as_json, rules
from rlvc.features.kinds import MAX_HEIGHT
from rlvc.learning import Compaction, Surrogates
from rlvc.learning.generation.base import Canonical
from rlvc.learning.generation.clustering import Hierarchical, clusterings
from rlvc.learning.generation.composites import Composites
from rlvc.learning.rlvc import CHOSEN
from rlvc.learning.selection.selector import Selector
from rlvc.learning.solvers.dynamic import ModifiedPolicyIteration, ValueIteration
from rlvc.learning.solvers.model_free import Sarsa
from rlvc.runs import describe_parameters, make_learner, tasks
from rlvc.runs.config import AUTO, PAPER, PARTS
from rlvc.vision import Euclidean, Harris, Invariants


def test_the_default_preset_is_the_default_learner() -> None:
    assert as_json(make_learner("default", [], RLVC(gamma=0.9))) == as_json(RLVC(gamma=0.9))
    assert make_learner("default", [], RLVC(gamma=0.5)).gamma == 0.5


def test_the_paper_chooses_by_remaining_variance_and_a_plain_t_test() -> None:
    selector = Selector(
        ranking="remaining", test="student", alpha=0.05, correction="none", min_samples=3,
        relevant=False,
    )  # fmt: skip
    literal = RLVC(
        selector=selector, surrogates=Surrogates(features=1), generator=Canonical(),
        absorbing_self_loops=False, shrinkage=0.0,
    )  # fmt: skip
    assert as_json(make_learner("paper", [], RLVC(gamma=0.9))) == as_json(literal)


def test_the_paper_composes_with_hierarchical_clustering_where_nothing_helps() -> None:
    assert make_learner("paper", [], RLVC()).generator == Canonical()
    expected = Composites(clustering=Hierarchical(), together=False, height=MAX_HEIGHT)
    assert make_learner("paper", ["generator=composites"], RLVC()).generator == expected
    settings = ["generator=composites", "generator.pairs=3", "generator.together=true"]
    expected = dataclasses.replace(expected, pairs=3, together=True)
    assert make_learner("paper", settings, RLVC()).generator == expected
    hill = tasks.make("hill").settings("paper")
    assert make_learner("paper", [*hill, *settings], RLVC()).generator == expected
    assert make_learner("paper", [*hill, "generator=canonical"], RLVC()).generator == Canonical()
    assert tasks.make("maze").settings("paper") == tasks.make("hill").settings("default") == []


def test_a_setting_wins_over_the_preset() -> None:
    settings = [
        "surrogates.features=4", "absorbing_self_loops=true", "selector.correction=bonferroni"
    ]  # fmt: skip
    learner = make_learner("paper", settings, RLVC())
    assert learner.surrogates == Surrogates(features=4)
    assert learner.absorbing_self_loops
    assert learner.selector == dataclasses.replace(PAPER["selector"], correction="bonferroni")


@pytest.mark.parametrize("part", CHOSEN)
def test_what_the_percepts_tell_can_be_left_to_them(part: str) -> None:
    given = RLVC(detector=Harris(), descriptor=Invariants(), metric=Euclidean())
    assert getattr(make_learner("default", [f"{part}=auto"], given), part) is None
    others = [name for name in CHOSEN if name != part]
    assert all(getattr(make_learner("default", [f"{part}=auto"], given), one) for one in others)


def test_settings_change_what_they_name_and_nothing_else() -> None:
    learner = make_learner(
        "paper",
        ["max_splits=3", "threshold=0.5", "selector.alpha=0.01", "descriptor.normalise=True",
         "descriptor=invariants", "solver=sarsa", "solver.sweeps=7", "detector.radius=4",
         "detector=harris", "selector.test=welch"],
        RLVC(gamma=0.8),
    )  # fmt: skip
    expected = dataclasses.replace(
        RLVC(**PAPER),
        gamma=0.8, max_splits=3, threshold=0.5, solver=Sarsa(sweeps=7), detector=Harris(radius=4),
        descriptor=Invariants(normalise=True),
        selector=dataclasses.replace(PAPER["selector"], alpha=0.01, test="welch"),
    )  # fmt: skip
    assert as_json(learner) == as_json(expected)


def test_the_parameters_of_a_choice_come_with_it() -> None:
    settings = ["post_process.epsilon=0.01", "post_process=compaction", "post_process.every=3"]
    learner = make_learner("default", settings, RLVC(gamma=0.9))
    assert learner.post_process == Compaction(epsilon=0.01, every=3)


def test_a_setting_wins_over_the_task_and_the_last_over_the_first() -> None:
    assert make_learner("default", ["gamma=0.3"], RLVC(gamma=0.9)).gamma == 0.3
    changed = make_learner("default", ["max_splits=1", "max_splits=2"], RLVC(gamma=0.9))
    assert changed.max_splits == 2


SETTINGS = [
    "solver.tolerance=1e-3", "solver=value_iteration", "max_splits=0", "selector.min_samples=4",
    "selector.correction=bonferroni",
]  # fmt: skip


def test_the_order_of_settings_does_not_matter() -> None:
    learners = [
        make_learner("default", list(order), RLVC(gamma=0.9))
        for order in itertools.permutations(SETTINGS)
    ]
    assert learners[0].solver == ValueIteration(tolerance=1e-3)
    assert all(as_json(learner) == as_json(learners[0]) for learner in learners)


NEEDED = {"generator.clustering": ["generator=composites"]}  # what has a part of its own


@pytest.mark.parametrize("part", [name for name, registry in PARTS.items() if registry])
def test_every_name_of_a_part_can_be_chosen(part: str) -> None:
    registry = PARTS[part]
    assert registry is not None
    assert list(registry)
    for name in registry:
        settings = [f"{part}={name}", *NEEDED.get(part, [])]
        learner = make_learner("default", settings, RLVC(gamma=0.9))
        assert type(attrgetter(part)(learner)) is type(registry.make(name))


def test_a_part_of_a_part_is_set_with_its_owner() -> None:
    settings = [
        "generator.clustering.cut=5", "generator.pairs=3", "generator.clustering=hierarchical",
        "generator=composites",
    ]  # fmt: skip
    for order in itertools.permutations(settings):
        learner = make_learner("default", list(order), RLVC())
        expected = Composites(pairs=3, clustering=Hierarchical(cut=5.0))
        assert as_json(learner) == as_json(RLVC(generator=expected))


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("FALSE", False), ("false", False)]
)
def test_truth_is_written_in_any_case(text: str, value: bool) -> None:
    settings = ["descriptor=invariants", f"descriptor.normalise={text}"]
    learner = make_learner("default", settings, RLVC(gamma=0.9))
    assert isinstance(learner.descriptor, Invariants)
    assert learner.descriptor.normalise is value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["max_splits"], "A setting must read NAME=VALUE; got 'max_splits'."),
        ([""], "A setting must read NAME=VALUE; got ''."),
        (["gama=0.5"], "Unknown parameter 'gama'. Did you mean 'gamma'? Known: "
         "absorbing_self_loops, aliasing, descriptor, detector, engine, gamma, generator, "
         "max_splits, max_stages, metric, post_process, selector, shrinkage, solver, "
         "surrogates, threads, threshold."),
        (["gamma.x=0.5"], "Unknown parameter 'gamma.x'. Did you mean 'gamma'? Known: *"),
        (["post_process=compation"], "Unknown post-processing 'compation'. Did you mean "
         "'compaction'? Known: compaction, none."),
        (["post_process.epsilon=0.01"], "Keep has no parameters; got 'epsilon'. Add "
         "post_process=compaction to set it."),
        (["post_process.eps=0.01"], "Keep has no parameters; got 'eps'."),
        (["post_process=compaction", "post_process.equivalence=values"], "Unknown equivalence of "
         "Compaction 'values'. Did you mean 'value'? Known: *"),
        (["detector=aut"], "Unknown detector 'aut'. Did you mean 'auto'? Known: auto, *"),
        (["detector.radius=4"], "detector=auto has no radius. Add detector=harris to set it."),
        (["detector.size=4"], "detector=auto has no size."),
        (["solver=auto"], "Unknown solver 'auto'.*"),
        (["selector=best"], "selector has parameters only; write selector.NAME=VALUE."),
        (["selector.alfa=1"], "Unknown parameter of Selector 'alfa'. Did you mean 'alpha'? Known: "
         "alpha, correction, min_samples, ranking, relevant, samples, test."),
        (["solver.omega=1"], "Unknown parameter of ModifiedPolicyIteration 'omega'. Known: "
         "sweeps, tolerance. Add solver=q_lambda, q_learning or sarsa to set it."),
        (["solver.gain=1"], "Unknown parameter of ModifiedPolicyIteration 'gain'. Known: "
         "sweeps, tolerance."),
        (["solver.sweeps=x", "solver.omega=1"], "sweeps of ModifiedPolicyIteration must be an "
         "integer; got 'x'."),
        (["solver=sarsa", "solver.decay=1"], "Unknown parameter of Sarsa 'decay'. Known: omega, "
         "sweeps. Add solver=q_lambda to set it."),
        (["generator=canonical", "generator.pairs=1"], "Canonical has no parameters; got 'pairs'. "
         "Add generator=composites to set it."),
        (["generator=canonical", "generator.clustering=complete"], "Canonical has no clustering. "
         "Add generator=composites to set it."),
        (["solver=policy_iteration", "solver.x=1"], "PolicyIteration has no parameters; got 'x'."),
        (["max_splits=1.5"], "max_splits of RLVC must be an integer; got '1.5'."),
        (["max_splits="], "max_splits of RLVC must be an integer; got ''."),
        (["max_splits=-1"], "max_splits of RLVC must be in [0, inf); got -1."),
        (["gamma=1"], "gamma of RLVC must be in [0, 1); got 1.0."),
        (["gamma=nan"], "gamma of RLVC must be in [0, 1); got nan."),
        (["threshold=inf"], "threshold of RLVC must be in [0, inf); got inf."),
        (["threshold=far"], "threshold of RLVC must be a number; got 'far'."),
        (["descriptor=invariants", "descriptor.normalise=1"], "normalise of Invariants must be "
         "true or false; got '1'."),
    ],
)  # fmt: skip
def test_a_bad_setting_is_explained(settings: list[str], message: str) -> None:
    whole = re.escape(message).removesuffix(re.escape("*")) + ("" if message[-1] == "*" else "$")
    with pytest.raises(ValueError, match=f"^{whole}"):
        make_learner("default", settings, RLVC(gamma=0.9))


def test_an_unknown_preset_is_explained() -> None:
    with pytest.raises(
        ValueError,
        match=r"^Unknown preset 'papr'\. Did you mean 'paper'\? Known: default, paper\.$",
    ):
        make_learner("papr", [], RLVC(gamma=0.9))


# The list of parameters --------------------------------------------------------------------------


def declared() -> Iterator[tuple[str, str, Any]]:
    """Yield the choice, name and default of every parameter of every part that can be chosen."""
    usual = RLVC()
    for field, _ in rules(usual):
        yield "", field.name, getattr(usual, field.name)
    for part, registry in PARTS.items():
        choices = {f"{part}={name}": registry.make(name) for name in registry} if registry else {}
        for choice, value in (choices or {"": attrgetter(part)(usual)}).items():
            if dataclasses.is_dataclass(value):
                for field, _ in rules(value):
                    yield choice, f"{part}.{field.name}", getattr(value, field.name)


def usual_names() -> dict[str, str]:
    """Return the name of each part of the default learner that can be chosen."""
    return {
        part: AUTO if part in CHOSEN else registry.name_of(getattr(RLVC(), part))
        for part, registry in PARTS.items()
        if registry and part not in NEEDED
    }


def choices_of(meaning: str) -> tuple[str, list[str]]:
    """Split a meaning in what it says and the choices that it names at the end."""
    found = re.fullmatch(r"(.+) \(with ([\w.]+)=([\w, ]+)\)", meaning)
    if not found:
        return meaning, [""]
    return found[1], [f"{found[2]}={name}" for name in re.split(r", | or ", found[3])]


def test_every_declared_parameter_is_described_once() -> None:
    parameters = {(choice, name): str(default) for choice, name, default in declared()}
    described: dict[tuple[str, str], str] = {}
    for name, default, must, meaning in describe_parameters():
        text, choices = choices_of(meaning)
        assert text
        assert must or default in ("True", "False", "")  # or any text
        for choice in choices:
            assert (choice, name) not in described
            described[choice, name] = default
    usual = {("", part): name for part, name in usual_names().items()}
    usual["generator=composites", "generator.clustering"] = clusterings.name_of(
        Composites().clustering
    )
    assert described == parameters | usual
    assert {
        ("", "gamma"), ("", "selector.alpha"), ("detector=harris", "detector.sigma"),
        ("detector=sift", "detector.max_points"), ("detector=orb", "detector.max_points"),
        ("post_process=compaction", "post_process.epsilon"), ("solver=sarsa", "solver.omega"),
    } <= set(described)  # fmt: skip


def test_choices_that_share_a_parameter_share_its_row() -> None:
    rows = [row for row in describe_parameters() if row[0] in ("solver.sweeps", "solver.omega")]
    assert [row[3] for row in rows] == [
        "sweeps of evaluation between two improvements (with solver=modified_policy_iteration)",
        "passes over the database (with solver=q_lambda, q_learning or sarsa)",
        "decay of the learning rate (ω) (with solver=q_lambda, q_learning or sarsa)",
    ]


def test_every_described_default_can_be_set() -> None:
    usual = {f"{part}={name}" for part, name in usual_names().items()}
    rows = [(name, default, choices_of(meaning)[1]) for name, default, _, meaning in
            describe_parameters()]  # fmt: skip
    settings = [f"{name}={default}" for name, default, choices in rows
                if choices == [""] or usual & set(choices)]  # fmt: skip
    assert as_json(make_learner("paper", settings, RLVC(gamma=0.1))) == as_json(RLVC())
    for name, default, choices in rows:
        for choice in filter(None, choices):
            chosen = [choice, *NEEDED.get(choice.partition("=")[0], [])]
            learner = make_learner("default", [*chosen, f"{name}={default}"], RLVC(gamma=0.9))
            assert as_json(learner) == as_json(make_learner("default", chosen, RLVC(gamma=0.9)))


def test_nothing_of_a_learner_is_left_out_of_the_list() -> None:
    parts = {field.name for field in dataclasses.fields(RLVC)}
    parts -= {field.name for field, _ in rules(RLVC)}
    assert parts - set(PARTS) == {"classifier"}  # a tree, until classes are merged


@given(
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 10**6),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
)
def test_what_python_prints_can_be_set(gamma: float, max_splits: int, alpha: float) -> None:
    settings = [f"gamma={gamma}", f"max_splits={max_splits}", f"selector.alpha={alpha}"]
    learner = make_learner("default", settings, RLVC(gamma=0.5))
    assert isinstance(learner.selector, Selector)
    assert (learner.gamma, learner.max_splits, learner.selector.alpha) == (gamma, max_splits, alpha)


def test_a_configuration_in_json_names_its_parts_and_leaves_arrays_out() -> None:
    found = as_json(RLVC(solver=ModifiedPolicyIteration(sweeps=3)))
    assert found["solver"] == {"type": "ModifiedPolicyIteration", "tolerance": 1e-9, "sweeps": 3}
    assert found["generator"]["clustering"] == {"type": "Tails", "cuts": 15}
    assert found["detector"] is None
    assert found["post_process"] == {"type": "Keep"}
    assert (found["gamma"], found["max_splits"]) == (0.9, 5)
    assert found["classifier"] == {"type": "Tree"}
