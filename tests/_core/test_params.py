"""The parts of a learner have names and explain a wrong one, or a wrong parameter."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rlvc import RLVC, Forest
from rlvc.learning import AbsoluteVariance, Compaction, RelativeVariance, Surrogates
from rlvc.learning.aliasing import aliasing_detectors
from rlvc.learning.compaction import post_processes
from rlvc.learning.generation.clustering import CompleteLinkage, Hierarchical, clusterings
from rlvc.learning.generation.composites import Composites
from rlvc.learning.selection.selector import Selector
from rlvc.learning.solvers.base import solvers
from rlvc.learning.solvers.dynamic import ValueIteration
from rlvc.learning.solvers.model_free import QLambda, QLearning, Sarsa
from rlvc.vision import Harris, Invariants, Orb, Sift
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics

UNKNOWN = [
    (detectors, "haris", "detector 'haris'. Did you mean 'harris'? Known: harris, orb, sift."),
    (descriptors, "invariant", "descriptor 'invariant'. Did you mean 'invariants'? Known: "),
    (metrics, "mahalanobs", "metric 'mahalanobs'. Did you mean 'mahalanobis'? Known: "),
    (metrics, "x", "metric 'x'. Known: euclidean, hamming, mahalanobis."),
    (solvers, "value_iter", "solver 'value_iter'. Did you mean 'value_iteration'? Known: "),
    (aliasing_detectors, "relativ", "aliasing detector 'relativ'. Did you mean 'relative'? "),
    (post_processes, "compactoin", "post-processing 'compactoin'. Did you mean 'compaction'? "),
    (clusterings, "complet", "clustering 'complet'. Did you mean 'complete'? Known: "),
]
OUT_OF_RANGE: dict[type, list[tuple[str, Any, str]]] = {
    Harris: [("sigma", 0.0, "[0.3, 50]"), ("k", 0.3, "[0, 0.25]"), ("radius", 0, "[1, 1000]")],
    Sift: [("max_points", -1, "[0, 100000]")],
    Orb: [("max_points", 0, "[1, 100000]")],
    Invariants: [("sigma", -1, "[0.3, 50]")],
    ValueIteration: [("tolerance", 0.0, "(0, inf)")],
    QLearning: [("sweeps", 0, "[1, inf)")],
    Sarsa: [("omega", 0.5, "(0.5, 1]")],
    QLambda: [("decay", 1.1, "[0, 1]")],
    RelativeVariance: [("tau", -1, "[0, inf)")],
    AbsoluteVariance: [("tau", -1, "[0, inf)")],
    RLVC: [
        ("gamma", 1.0, "[0, 1)"), ("gamma", -0.1, "[0, 1)"), ("gamma", float("nan"), "[0, 1)"),
        ("threshold", -1.0, "[0, inf)"), ("shrinkage", -1.0, "[0, inf)"),
        ("max_splits", -1, "[0, inf)"), ("max_stages", -1, "[0, inf)"), ("threads", -2, "[0, inf)"),
    ],
    Forest: [
        ("trees", 0, "[1, inf)"), ("symbols", 0.0, "(0, 1]"), ("episodes", 1.5, "(0, 1]"),
        ("max_splits", -1, "[0, inf)"), ("seed", -1, "[0, inf)"),
    ],
    Surrogates: [("features", 0, "[1, inf)"), ("agreement", 1.1, "[0, 1]")],
    Compaction: [("every", -1, "[0, inf)"), ("epsilon", -0.1, "[0, inf)")],
    CompleteLinkage: [("levels", 0, "[1, 8]")],
    Hierarchical: [("cut", 0.0, "(0, inf)")],
    Selector: [
        ("alpha", 1.0, "(0, 1)"), ("alpha", 0, "(0, 1)"), ("alpha", float("nan"), "(0, 1)"),
        ("min_samples", 0, "[1, inf)"),
    ],
    Composites: [
        ("likelihood", 0.0, "(0, 1)"), ("deviation", 0.0, "(0, inf)"), ("support", 1.1, "[0, 1]"),
        ("height", 0, "[1, 16]"), ("grid", 6, "[0, 5]"), ("images", 1, "[2, inf)"),
        ("features", 1, "[2, inf)"), ("pairs", -1, "[0, inf)"), ("distances", 1, "[2, inf)"),
        ("candidates", 0, "[1, inf)"), ("seed", -1, "[0, inf)"),
    ],
}  # fmt: skip
OF_ANOTHER_TYPE: list[tuple[type, str, Any, str]] = [
    (Invariants, "normalise", 1, "a bool"), (Selector, "min_samples", 2.5, "an integer"),
    (Selector, "min_samples", True, "an integer"), (Selector, "alpha", "0.05", "a number"),
    (RLVC, "max_splits", 1.5, "an integer"), (RLVC, "gamma", "0.9", "a number"),
    (RLVC, "gamma", None, "a number"), (Forest, "trees", 2.5, "an integer"),
]  # fmt: skip
NO_CHOICE = [
    (Hierarchical, "method", "mean", "Did you mean 'median'?"),
    (Selector, "ranking", "reductoin", "Did you mean 'reduction'? Known: reduction, remaining."),
    (Selector, "test", "studnt", "Did you mean 'student'? Known: ks, student, welch."),
    (Selector, "correction", "bonferoni", "Did you mean 'bonferroni'? Known: bonferroni, none."),
    (Compaction, "equivalence", "policy+value", "Did you mean "),
    (Compaction, "on_the_way", "values", "Did you mean 'value'?"),
    (Compaction, "backend", "cud", "Did you mean 'cudd'?"),
    (Selector, "samples", "percept", "Did you mean 'percepts'? Known: interactions, percepts."),
]


@pytest.mark.parametrize(("registry", "name", "message"), UNKNOWN)
def test_an_unknown_name_suggests_the_nearest(registry: Any, name: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(f"Unknown {message}")):
        registry.make(name)


@pytest.mark.parametrize("part", OUT_OF_RANGE)
def test_a_part_explains_a_parameter_out_of_range(part: type) -> None:
    for name, value, limits in OUT_OF_RANGE[part]:
        message = f"{name} of {part.__name__} must be in {limits}; got {value!r}."
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            part(**{name: value})


@pytest.mark.parametrize(("part", "name", "value", "kind"), OF_ANOTHER_TYPE)
def test_a_part_explains_a_wrong_type(part: type, name: str, value: Any, kind: str) -> None:
    message = f"{name} of {part.__name__} must be {kind}; got {value!r}."
    with pytest.raises(TypeError, match="^" + re.escape(message)):
        part(**{name: value})


@pytest.mark.parametrize(("part", "name", "value", "known"), NO_CHOICE)
def test_a_part_suggests_the_nearest_choice(part: type, name: str, value: str, known: str) -> None:
    message = f"Unknown {name} of {part.__name__} {value!r}. {known}"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        part(**{name: value})
