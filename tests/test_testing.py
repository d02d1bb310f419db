"""Every registered part passes the published checks, and each check finds a broken part."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc import testing
from rlvc.classifiers import Diagrams, Split, Tree
from rlvc.features import InCell
from rlvc.learning import AbsoluteVariance, Keep
from rlvc.learning.aliasing import aliasing_detectors
from rlvc.learning.compaction import post_processes
from rlvc.learning.generation.base import Candidates, Canonical, generators
from rlvc.learning.generation.clustering import Tails, clusterings
from rlvc.learning.selection.selector import Selector
from rlvc.learning.solvers.base import solvers
from rlvc.learning.solvers.dynamic import ValueIteration
from rlvc.vision import Euclidean, Harris, InterestPoints, Invariants
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics

CHECKS: dict[str, tuple[Any, Callable[..., None]]] = {
    "detector": (detectors, testing.check_detector),
    "descriptor": (descriptors, testing.check_descriptor),
    "metric": (metrics, testing.check_metric),
    "solver": (solvers, testing.check_solver),
    "aliasing detector": (aliasing_detectors, testing.check_aliasing_detector),
    "generator": (generators, testing.check_generator),
    "clustering": (clusterings, testing.check_clustering),
    "post process": (post_processes, testing.check_post_process),
}
PARTS = [(kind, name) for kind, (registry, _) in CHECKS.items() for name in registry]
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_a_registered_part_keeps_its_contract(kind: str, name: str) -> None:
    registry, check = CHECKS[kind]
    check(registry.make(name))


@pytest.mark.parametrize(("kind", "name"), [p for p in PARTS if p[0] in ("metric", "clustering")])
@given(seed=seeds)
def test_a_contract_holds_on_any_data(kind: str, name: str, seed: int) -> None:
    registry, check = CHECKS[kind]
    check(registry.make(name), seed)


@pytest.mark.parametrize("test", ["student", "welch", "ks"])
@pytest.mark.parametrize("samples", ["interactions", "percepts"])
@pytest.mark.parametrize("ranking", ["reduction", "remaining"])
def test_a_selector_keeps_its_contract(test: str, samples: str, ranking: str) -> None:
    testing.check_selector(Selector(test=test, samples=samples, ranking=ranking))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Tree, Diagrams])
@given(seed=seeds)
def test_a_classifier_keeps_its_contract(kind: type[Tree] | type[Diagrams], seed: int) -> None:
    testing.check_classifier(kind(), seed)


def changed(part: Any, method: str, change: Callable[..., Any]) -> Any:
    """Return a part, called Broken, whose method returns what ``change`` makes of the result.

    ``change`` gets the method, bound to the original part, and its arguments.
    """

    def broken(self: Any, *args: Any, **options: Any) -> Any:
        return change(getattr(part, method), *args, **options)

    kind: Any = type("Broken", (type(part),), {method: broken})
    return dataclass(frozen=True)(kind)()


def moved(points: InterestPoints, by: float) -> InterestPoints:
    return replace(points, xy=points.xy + np.float32(by))


def in_double_precision(detect: Any, image: Any) -> InterestPoints:
    points: InterestPoints = detect(image)
    return replace(points, xy=points.xy.astype(np.float64))


def stored_in_c_order(detect: Any, image: Any) -> InterestPoints:
    """Find nothing on images that are stored in another way."""
    points: InterestPoints = detect(image)
    return points if image.flags.c_contiguous else points.take(np.empty(0, np.int64))


def blank(method: Any, image: Any, *points: InterestPoints) -> Any:
    """Return the result of a method, and make the image black."""
    found = method(image, *points)
    image[...] = 0
    return found


def without_a_point(describe: Any, image: Any, points: InterestPoints) -> Any:
    kept, rows = describe(image, points)
    return kept, rows[1:]


def relative_to_the_mean(describe: Any, image: Any, points: InterestPoints) -> Any:
    kept, rows = describe(image, points)
    return kept, rows - rows.mean(axis=0) if len(rows) else rows


def in_reverse(describe: Any, image: Any, points: InterestPoints) -> Any:
    kept, rows = describe(image, points)
    return kept.take(np.arange(len(kept))[::-1]), rows[::-1].copy()


def scaled_by_the_largest(distances: Any, a: Any, b: Any) -> Any:
    d = distances(a, b)
    return d / d.max() if d.size else d


def with_blind_alleys(solve: Any, mdp: Any, gamma: float) -> Any:
    return np.where(mdp.is_tried, solve(mdp, gamma), 0.0)


def all_segments_as_one(cluster: Any, begin: Any, values: Any) -> Any:
    whole = cluster(np.array([0, len(values)]), np.sort(values))
    return whole if len(begin) > 2 else cluster(begin, values)


def for_all_classes(measure: Any, samples: Any) -> Any:
    return measure(replace(samples, is_aliased=np.ones_like(samples.is_aliased)))


class Endless:
    """A generator's state that returns the known features again and again."""

    def generate(self, view: Any, is_aliased: Any, attempt: int) -> Candidates:
        return Candidates()


@dataclass
class Growing:
    """A generator's state that proposes another feature in every run."""

    runs: ClassVar[Iterator[int]] = itertools.count()

    def generate(self, view: Any, is_aliased: Any, attempt: int) -> Candidates | None:
        new = InCell(part=0, level=3, column=next(self.runs) % 8, line=0)
        return Candidates(new=[new]) if attempt == 0 else None


class Repeating:
    """A generator's state that proposes what is known."""

    def generate(self, view: Any, is_aliased: Any, attempt: int) -> Candidates | None:
        return None if attempt else Candidates(new=view.graph.features[:1])


detect = partial(changed, Harris(), "detect")
describe = partial(changed, Invariants(), "describe")
distances = partial(changed, Euclidean(), "distances")
solve = partial(changed, ValueIteration(), "solve")
detect_aliased = partial(changed, AbsoluteVariance(), "detect")
cluster = partial(changed, Tails(), "cluster")
choose = partial(changed, Selector(), "choose")
start = partial(changed, Canonical(), "start")

BROKEN: dict[Callable[..., None], dict[str, Any]] = {
    testing.check_detector: {
        "xy of points must be float32(50, 2); got float64(50, 2)": detect(in_double_precision),
        "points of a (96, 128, 3) image must lie inside it": detect(lambda f, i: moved(f(i), 60)),
        "detect must return the same points for the same image if it is in Fortran's order":
            detect(stored_in_c_order),
        "detect must not write to the image": detect(blank),
        "detect must find points in some of the patchworks of squares":
            detect(lambda f, i: f(np.zeros_like(i))),
        "it raises IndexError on an image of shape (96, 128, 1): index 1 is out of bounds":
            detect(lambda f, i: f(i[:, :, [0, 1, 2]])),
        "the points that are returned must be of type InterestPoints; got ndarray":
            detect(lambda f, i: f(i).xy),
    },
    testing.check_descriptor: {
        "rows of the points must be float32": describe(without_a_point),
        "describe must return points that it was given":
            describe(lambda f, i, p: f(i, moved(p, 0.5))),
        "a row must depend on its own point alone": describe(relative_to_the_mean),
        "rows must differ between points that look different":
            describe(lambda f, i, p: (f(i, p)[0], 0 * f(i, p)[1])),
        "describe must return its points once each, in the order in which they are given":
            describe(in_reverse),
        "describe must not write to the image": describe(blank),
    },
    testing.check_metric: {
        "distances must be symmetric": distances(lambda f, a, b: f(a, b) * (1 + a[:, :1])),
        "distances must satisfy the triangle inequality": distances(lambda f, a, b: f(a, b) ** 2),
        "a distance must depend on its two rows alone": distances(scaled_by_the_largest),
        "distances of different rows must not all be 0": distances(lambda f, a, b: 0 * f(a, b)),
        "it raises ValueError on 0 and 30 descriptors":
            distances(lambda f, a, b: f(a, b) + 0 * a.min()),
        "embedded rows must have the distances of the metric":
            distances(lambda f, a, b: f(a, b) * 2),
    },
    testing.check_solver: {
        "the values (n_classes, n_actions) must be float64(5, 3); got float64(3, 5)":
            solve(lambda f, m, g: f(m, g).T),
        "a pair that was never tried must be worth mdp.floor(gamma)": solve(with_blind_alleys),
        "the way to the reward must be worth more than the way back":
            solve(lambda f, m, g: np.where(m.is_tried, f(m, 0.0), m.floor(g))),
        "rewards must be discounted by gamma":
            solve(lambda f, m, g: np.where(m.is_tried, f(m, 0.9), m.floor(g))),
    },
    testing.check_aliasing_detector: {
        "no class may be aliased where no residuals vary":
            detect_aliased(lambda f, r, s: np.ones(len(r.count), np.bool_)),
        "classes must be aliased where residuals vary by millions":
            detect_aliased(lambda f, r, s: np.zeros(len(r.count), np.bool_)),
    },
    testing.check_clustering: {
        "the labels of a segment must not depend on other segments": cluster(all_segments_as_one),
        "labels must count from 0; -1 is for no cluster": cluster(lambda f, b, v: f(b, v) + 2),
        "twenty times 10 and twenty times 100 must give a cluster":
            cluster(lambda f, b, v: 0 * f(b, v) - 1),
        "it raises IndexError on segments of lengths [9, 5, 2, 2, 0, 0, 0, 40]":
            cluster(lambda f, b, v: f(b, v - v[b[:-1]].min())),
    },
    testing.check_classifier: {
        "walk must end in the class that refine and merge lead to":
            changed(Tree(), "walk", lambda f, exhibits: ([], 1)),
        "n_classes must count the classes": changed(Tree(), "refine", lambda f, splits: f([])),
        "classify must return the class in which walk ends":
            changed(Tree(), "classify", lambda f, i, t=1: f(i, t) + 1),
        "usage must count the percepts on which walk tests each feature":
            changed(Tree(), "usage", lambda f, i: np.append(f(i), 1)),
    },
    testing.check_selector: {
        "the feature that explains the residuals must be selected":
            choose(lambda f, m, r: f(m, r)._replace(feature=np.zeros(3, np.int64))),
        "classes that are not aliased must get -1":
            changed(Selector(), "measure", for_all_classes),
        "only candidates may be selected":
            choose(lambda f, m, r: f(m, r)._replace(feature=np.array([2, -1, 5]))),
        "action must be that of the residuals, or -1 where feature is -1":
            choose(lambda f, m, r: f(m, r)._replace(action=np.arange(3))),
    },
    testing.check_generator: {
        "generate must return None when it has no more candidates": start(lambda f: Endless()),
        "generate must return the same candidates in every run, whatever the threads":
            start(lambda f: Growing()),
        "known features must not be proposed as new": start(lambda f: Repeating()),
        "what generate returns must be of type Candidates; got list":
            start(lambda f: SimpleNamespace(generate=lambda *_: [])),
    },
    testing.check_post_process: {
        "a step must only merge classes, and number them from 0 without gaps":
            changed(Keep(), "start", lambda f: lambda n, c, s, is_last: c.refine([Split(0, 1)])),
        "it raises TypeError on a tree of four classes": changed(Keep(), "start", lambda f: 3),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "message"), [(c, m) for c, found in BROKEN.items() for m in found]
)
def test_the_error_says_what_is_wrong_with_a_broken_part(
    check: Callable[..., None], message: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"Broken breaks its contract: {message}")):
        check(BROKEN[check][message])


def test_a_part_is_a_frozen_dataclass() -> None:
    class Loose:
        """A detector whose parameters cannot be saved."""

    with pytest.raises(AssertionError, match=r"^Loose breaks .*: it must be a frozen dataclass\.$"):
        testing.check_detector(Loose())  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=r"^Harris .*: a check takes an instance, not the cla"):
        testing.check_detector(Harris)  # type: ignore[arg-type]
