from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc import RLVC
from rlvc.configuring import PARTS, describe_parameters, make_learner, paper_selector
from rlvc.parameters import as_json, rules
from rlvc.selection import Selector
from rlvc.solvers.dynamic import ModifiedPolicyIteration, ValueIteration
from rlvc.solvers.model_free import Sarsa
from rlvc.vision.descriptors import Invariants
from rlvc.vision.detectors import Harris


def plain(learner: RLVC) -> dict[str, Any]:
    return as_json(learner)


def test_the_default_preset_is_the_default_learner() -> None:
    assert plain(make_learner("default", [], gamma=0.9)) == plain(RLVC(gamma=0.9))
    assert make_learner("default", [], gamma=0.5).gamma == 0.5


def test_the_paper_chooses_by_remaining_variance_and_a_plain_t_test() -> None:
    learner = make_learner("paper", [], gamma=0.9)
    assert learner.selector == paper_selector()
    assert learner.selector == Selector(
        ranking="remaining", test="student", alpha=0.05, correction="none"
    )
    assert plain(dataclasses.replace(learner, selector=Selector())) == plain(RLVC())


def test_settings_change_what_they_name_and_nothing_else() -> None:
    learner = make_learner(
        "paper",
        ["cap=3", "threshold=0.5", "selector.alpha=0.01", "descriptor.normalise=True",
         "solver=sarsa", "solver.sweeps=7", "detector.radius=4", "selector.test=welch"],
        gamma=0.8,
    )  # fmt: skip
    expected = RLVC(
        gamma=0.8, cap=3, threshold=0.5, solver=Sarsa(sweeps=7), detector=Harris(radius=4),
        descriptor=Invariants(normalise=True),
        selector=dataclasses.replace(paper_selector(), alpha=0.01, test="welch"),
    )  # fmt: skip
    assert plain(learner) == plain(expected)


def test_a_setting_wins_over_the_task_and_the_last_over_the_first() -> None:
    assert make_learner("default", ["gamma=0.3"], gamma=0.9).gamma == 0.3
    assert make_learner("default", ["cap=1", "cap=2"], gamma=0.9).cap == 2


SETTINGS = [
    "solver.tolerance=1e-3", "solver=value_iteration", "cap=0", "selector.min_samples=4",
    "selector.correction=bonferroni",
]  # fmt: skip


def test_the_order_of_settings_does_not_matter() -> None:
    learners = [
        make_learner("default", list(order), gamma=0.9)
        for order in itertools.permutations(SETTINGS)
    ]
    assert learners[0].solver == ValueIteration(tolerance=1e-3)
    assert all(plain(learner) == plain(learners[0]) for learner in learners)


@pytest.mark.parametrize("part", [name for name, registry in PARTS.items() if registry])
def test_every_name_of_a_part_can_be_chosen(part: str) -> None:
    registry = PARTS[part]
    assert registry is not None
    assert list(registry)
    for name in registry:
        made = getattr(make_learner("default", [f"{part}={name}"], gamma=0.9), part)
        assert type(made) is type(registry.make(name))


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("FALSE", False), ("false", False)]
)
def test_truth_is_written_in_any_case(text: str, value: bool) -> None:
    learner = make_learner("default", [f"descriptor.normalise={text}"], gamma=0.9)
    assert isinstance(learner.descriptor, Invariants)
    assert learner.descriptor.normalise is value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["cap"], "A setting must read NAME=VALUE; got 'cap'."),
        ([""], "A setting must read NAME=VALUE; got ''."),
        (["gama=0.5"], "Unknown parameter 'gama'. Did you mean 'gamma'? Known: aliasing, cap, "
         "descriptor, detector, gamma, generator, max_stages, metric, selector, solver, threads, "
         "threshold."),
        (["gamma.x=0.5"], "Unknown parameter 'gamma.x'. Did you mean 'gamma'? Known: *"),
        (["post_process=x"], "Unknown parameter 'post_process'. *"),
        (["solver=sarse"], "Unknown solver 'sarse'. Did you mean 'sarsa'? Known: "
         "modified_policy_iteration, policy_iteration, q_lambda, q_learning, sarsa, "
         "value_iteration."),
        (["detector=haris"], "Unknown detector 'haris'. Did you mean 'harris'? Known: *"),
        (["selector=best"], "selector has parameters only; write selector.NAME=VALUE."),
        (["selector.alfa=1"], "Unknown parameter of Selector 'alfa'. Did you mean 'alpha'? Known: "
         "alpha, correction, min_samples, ranking, test."),
        (["solver.omega=1"], "Unknown parameter of ModifiedPolicyIteration 'omega'. Known: "
         "sweeps, tolerance."),
        (["metric.whitening=1"], "Mahalanobis has no parameters; got 'whitening'."),
        (["generator.x=1"], "Canonical has no parameters; got 'x'."),
        (["solver=policy_iteration", "solver.x=1"], "PolicyIteration has no parameters; got 'x'."),
        (["cap=1.5"], "cap of RLVC must be an integer; got '1.5'."),
        (["cap="], "cap of RLVC must be an integer; got ''."),
        (["cap=-1"], "cap of RLVC must be in [0, inf); got -1."),
        (["gamma=1"], "gamma of RLVC must be in [0, 1); got 1.0."),
        (["gamma=nan"], "gamma of RLVC must be in [0, 1); got nan."),
        (["threshold=inf"], "threshold of RLVC must be in [0, inf); got inf."),
        (["threshold=far"], "threshold of RLVC must be a number; got 'far'."),
        (["selector.alpha=2"], "alpha of Selector must be in (0, 1); got 2.0."),
        (["selector.test=studnet"], "Unknown test of Selector 'studnet'. Did you mean 'student'? "
         "Known: ks, student, welch."),
        (["descriptor.normalise=1"], "normalise of Invariants must be true or false; got '1'."),
    ],
)  # fmt: skip
def test_a_bad_setting_is_explained(settings: list[str], message: str) -> None:
    whole = re.escape(message).removesuffix(re.escape("*")) + ("" if message[-1] == "*" else "$")
    with pytest.raises(ValueError, match=f"^{whole}"):
        make_learner("default", settings, gamma=0.9)


def test_an_unknown_preset_is_explained() -> None:
    with pytest.raises(
        ValueError,
        match=r"^Unknown preset 'papr'\. Did you mean 'paper'\? Known: default, paper\.$",
    ):
        make_learner("papr", [], gamma=0.9)


# The list of parameters --------------------------------------------------------------------------


def declared(owner: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Walk the default learner and all that it is made of."""
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name)
        if "rule" in field.metadata:
            yield f"{prefix}{field.name}", value
        elif dataclasses.is_dataclass(value) and field.name != "classifier":
            yield from declared(value, f"{prefix}{field.name}.")


def test_every_declared_parameter_is_described_once() -> None:
    rows = list(describe_parameters())
    names = [name for name, *_ in rows]
    parameters = dict(declared(RLVC()))
    chosen = {name for name, registry in PARTS.items() if registry}
    assert len(names) == len(set(names))
    assert set(names) == set(parameters) | chosen
    assert {"selector.alpha", "solver.tolerance", "detector.sigma", "gamma"} <= set(parameters)
    for name, default, must, meaning in rows:
        assert meaning
        assert must or "bool" in str(type(parameters[name]))
        if name in parameters:
            assert default == str(parameters[name])


def test_every_described_default_can_be_set() -> None:
    rows = list(describe_parameters())
    settings = [f"{name}={default}" for name, default, *_ in rows]
    assert plain(make_learner("paper", settings, gamma=0.1)) == plain(RLVC())


def test_nothing_of_a_learner_is_left_out_of_the_list() -> None:
    parts = {field.name for field in dataclasses.fields(RLVC)}
    parts -= {field.name for field, _ in rules(RLVC)}
    assert parts - set(PARTS) == {"classifier", "post_process"}  # there is one kind so far


@given(
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 10**6),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
)
def test_what_python_prints_can_be_set(gamma: float, cap: int, alpha: float) -> None:
    settings = [f"gamma={gamma}", f"cap={cap}", f"selector.alpha={alpha}"]
    learner = make_learner("default", settings, gamma=0.5)
    assert (learner.gamma, learner.cap, learner.selector.alpha) == (gamma, cap, alpha)


def test_a_configuration_in_json_names_its_parts_and_leaves_arrays_out() -> None:
    found = as_json(RLVC(solver=ModifiedPolicyIteration(sweeps=3)))
    assert found["solver"] == {"type": "ModifiedPolicyIteration", "tolerance": 1e-9, "sweeps": 3}
    assert found["generator"] == {"type": "Canonical"}
    assert found["post_process"] is None
    assert (found["gamma"], found["cap"]) == (0.9, 5)
    assert found["classifier"] == {"type": "Tree"}
