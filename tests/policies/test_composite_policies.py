from __future__ import annotations

import copy
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Database, Interactions, Policy, Stage
from rlvc.classifiers import Diagrams, Tree
from rlvc.features import Composite, Primitive
from rlvc.learning import Compaction, Keep
from rlvc.learning.generation.composites import Composites
from rlvc.policies import FeatureTest
from rlvc.vision import Harris
from tests.policies.test_io import loads
from tests.support.builders import literal
from tests.support.marks import BLUE, GREEN, Drawn, act, draw_all
from tests.support.mutations import forge, take_apart
from tests.support.policies import bytes_of, check_saving

DRAWN = draw_all(0)
PICTURES = np.stack([one.picture for one in DRAWN])
RIGHT = [one.right for one in DRAWN]


def learner(kind: type[Tree | Diagrams], threads: int = 1) -> RLVC:
    post_process = Compaction(every=0) if kind is Diagrams else Keep()
    return RLVC(
        detector=Harris(), generator=Composites(), post_process=post_process, threads=threads
    )


TwoCameras = tuple[list[dict[str, NDArray[np.uint8]]], list[int], Policy]


def learn_both_cameras(threads: int = 1) -> TwoCameras:
    """Return percepts of two cameras, of which the action depends on both, and what is learned."""
    front, rear = draw_all(3, 4), draw_all(4, 4, (BLUE, GREEN))
    order = np.random.default_rng(0).permutation(len(rear))
    pairs = [(front[i], rear[int(j)]) for i, j in enumerate(order)]
    pairs += [(front[i], rear[int(j)]) for i, j in enumerate(order[::-1])]
    views = [{"front": one.picture, "rear": other.picture} for one, other in pairs]
    right = [one.right | other.right for one, other in pairs]
    return views, right, learner(Tree, threads).learn(act(views, right))


@pytest.fixture(scope="module")
def extracted() -> Database:
    return RLVC(detector=Harris(), threads=1).extract(act(list(PICTURES), RIGHT))


@pytest.fixture(scope="module", params=[Tree, Diagrams], ids=["tree", "diagrams"])
def stage(request: pytest.FixtureRequest, extracted: Database) -> Stage:
    """The last stage of learning a classifier of each kind."""
    last = list(learner(request.param).stages(extracted))[-1]
    assert type(last.classifier) is request.param
    return last


@pytest.fixture(scope="module")
def policy(stage: Stage) -> Policy:
    return stage.policy()


# What only distances tell ------------------------------------------------------------------------


@pytest.mark.slow
def test_primitives_alone_cannot_tell_distances(extracted: Database) -> None:
    assert len({tuple(extracted.incidence.row(n)) for n in range(len(PICTURES))}) == 1
    policy = literal().learn(extracted)
    assert policy.n_classes == 1


@pytest.mark.slow
def test_composites_tell_distances(policy: Policy) -> None:
    assert policy.predict(PICTURES)[0].tolist() == RIGHT
    others = draw_all(1, 5)
    actions = policy.predict(np.stack([one.picture for one in others]))[0]
    assert np.mean(actions == [one.right for one in others]) >= 0.9
    if isinstance(policy.classifier, Diagrams):
        assert policy.n_classes == 2
    else:
        assert policy.n_classes > 2


def test_a_policy_keeps_the_features_that_decide_and_their_parts(policy: Policy) -> None:
    tested = policy.classifier.features.tolist()
    assert any(isinstance(policy.features[n], Composite) for n in tested)
    assert policy.graph.only(tested) == (policy.graph, {n: n for n in range(len(policy.graph))})
    assert [n for n, usage in enumerate(policy.usage) if usage > 0] == tested
    assert policy.usage.max() == len(PICTURES)  # all percepts meet the first test
    assert policy.patches.shape[0] == len(policy.features)
    for patch in policy.patches:
        assert patch.std() > 0.0


def test_percepts_are_classified_in_bulk_as_one_by_one(
    stage: Stage, policy: Policy, saved: bytes, tmp_path: Path
) -> None:
    database = stage.database
    bulk = database.classes(stage.classifier)
    assert len(set(bulk.tolist())) == policy.n_classes
    again = loads(saved, tmp_path / "again")
    assert again is not None
    stack = np.stack([np.asarray(percept) for percept in database.interactions.percepts])
    assert policy.classify(stack).tolist() == again.classify(stack).tolist() == bulk.tolist()
    for percept, visual_class in zip(stack, bulk, strict=True):
        assert policy.classify(percept) == again.classify(percept) == visual_class
        assert policy.explain(percept).visual_class == visual_class


def test_new_percepts_are_classified_in_bulk_as_one_by_one(stage: Stage, policy: Policy) -> None:
    interactions = act([one.picture for one in draw_all(2, 5)], [0] * 20)
    index = stage.database.index_of(interactions.percepts, threads=1)
    bulk = stage.classifier.classify(index.incidence)
    assert len(set(bulk.tolist())) > 1
    alone = [int(policy.classify(percept)) for percept in interactions.percepts]
    assert bulk.tolist() == alone


# How it explains itself --------------------------------------------------------------------------


def test_an_explanation_says_how_far_apart_and_where(policy: Policy) -> None:
    n_seen = 0
    for one in DRAWN:
        explanation = policy.explain(one.picture)
        assert explanation.action == one.right
        *lines, values, action = str(explanation).split("\n")
        assert values.startswith(f"so this is class {explanation.visual_class}, where the values")
        assert action == f"so the action is {('wait', 'go')[one.right]}"
        for line, test in zip(lines, explanation.tests, strict=True):
            assert test.name == policy.graph.describe(test.number)
            assert test.name in line
            assert line.endswith("not seen") == (not test.exhibited)
            if isinstance(test.feature, Composite) and test.exhibited:
                n_seen += 1
                check_words(one, test, line)
    assert n_seen >= len(DRAWN) // 4


def check_words(one: Drawn, test: FeatureTest, line: str) -> None:
    """Compare what is said of a composite with what was drawn; a mark has points on two sides."""
    assert isinstance(test.feature, Composite)
    low, high = (int(n) for n in re.findall(r"(\d+) to (\d+) pixels apart", line)[-1])
    assert low <= test.feature.mean <= high
    x, y = test.occurrences[0]
    assert f"seen at ({x:.0f}, {y:.0f})" in line
    if test.feature.first != test.feature.second:
        assert np.abs(test.occurrences - one.middle).max() <= 6.0


# How it is saved ---------------------------------------------------------------------------------


def test_saving_and_loading_changes_nothing(policy: Policy, tmp_path: Path) -> None:
    check_saving(policy, PICTURES, tmp_path / "policy.rlvc")


LEARN = """
import sys
from rlvc.classifiers import Diagrams, Tree
from tests.policies.test_composite_policies import PICTURES, RIGHT, act, learn_both_cameras, learner
for kind in (Tree, Diagrams):
    policy = learner(kind, threads=2).learn(act(list(PICTURES), RIGHT))
    policy.save(f"{sys.argv[1]}/{kind.__name__}")
learn_both_cameras(threads=2)[2].save(f"{sys.argv[1]}/cameras")
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where another process, with other threads and another hash seed, saves what it learns."""
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", LEARN, str(folder)]
    subprocess.run(command, check=True, env=environment)
    return folder


@pytest.mark.slow
def test_the_same_data_give_the_same_bytes_everywhere(
    policy: Policy, saved: bytes, two_cameras: TwoCameras, elsewhere: Path
) -> None:
    assert (elsewhere / type(policy.classifier).__name__).read_bytes() == saved
    assert (elsewhere / "cameras").read_bytes() == bytes_of(two_cameras[2])


# What is refused ---------------------------------------------------------------------------------


def entries(saved: bytes) -> list[dict[str, Any]]:
    """Return the features as a file has them."""
    features: list[dict[str, Any]] = json.loads(take_apart(saved)[0])["features"]
    return features


def number_of_composite(policy: Policy) -> int:
    """Return the number of a composite that is the last feature or has another after it."""
    return next(n for n, one in enumerate(policy.features) if isinstance(one, Composite))


def forge_feature(saved: bytes, number: int, entry: Any) -> bytes:
    """Return a file in which one feature is another."""
    features = entries(saved)
    features[number] = entry
    return forge(saved, {"features": features}, {})


NAN, INF = float("nan"), float("inf")
SELF = "the number of the feature itself"
CELL: dict[str, Any] = {"part": 0, "level": 2, "column": 3, "line": 0}
SEVERAL: dict[str, Any] = {"parts": [0, 1], "least": 2}
Changes = list[dict[str, Any]]
OF_COMPOSITES: Changes = [
    {"first": SELF}, {"second": SELF}, {"first": -1}, {"second": 10**9}, {"first": None},
    {"first": "x"}, {"first": NAN}, {"second": INF},
    {"deviation": -1.0}, {"deviation": 0.0}, {"deviation": NAN}, {"deviation": INF},
    {"deviation": 1e-320}, {"deviation": "wide"}, {"deviation": None}, {"deviation": 10**400},
    {"likelihood": 0.0}, {"likelihood": 1.0}, {"likelihood": NAN}, {"likelihood": -0.5},
    {"likelihood": 1.5}, {"likelihood": INF}, {"likelihood": None}, {"likelihood": []},
    {"mean": -1.0}, {"mean": NAN}, {"mean": INF}, {"mean": None}, {"mean": {}},
    {"turn": 10.0}, {"turn_deviation": 10.0}, {"turn": 10.0, "turn_deviation": 0.0},
    {"turn": 10.0, "turn_deviation": -5.0}, {"turn": NAN, "turn_deviation": 5.0},
    {"turn": 10.0, "turn_deviation": INF}, {"turn": INF, "turn_deviation": 5.0},
    {"ratio": 1.0}, {"ratio_deviation": 1.0}, {"ratio": 1.0, "ratio_deviation": 0.0},
    {"ratio": 1.0, "ratio_deviation": -1.0}, {"ratio": 1.0, "ratio_deviation": NAN},
    {"ratio": 1.0, "ratio_deviation": INF}, {"ratio": -INF, "ratio_deviation": 1.0},
    {"ratio": 1e300, "ratio_deviation": 1.0},
]  # fmt: skip
OF_CELLS: Changes = [
    {"level": 17}, {"level": -1}, {"level": 10**6}, {"level": NAN}, {"level": None},
    {"column": 4}, {"line": 4}, {"column": -1}, {"line": -1}, {"part": SELF}, {"part": -1},
    {"part": 10**9}, {"part": "x"},
]  # fmt: skip
OF_SEVERAL: Changes = [
    {"least": 0}, {"least": -1}, {"least": 3}, {"least": None}, {"least": NAN}, {"parts": []},
    {"parts": [0, 0]}, {"parts": [0, -1]}, {"parts": [0, 10**9]}, {"parts": [SELF, 0]},
    {"parts": None}, {"parts": 3}, {"parts": ["x", 0]},
]  # fmt: skip
CHANGES = [
    *OF_COMPOSITES, *(CELL | one for one in OF_CELLS), *(SEVERAL | one for one in OF_SEVERAL),
]  # fmt: skip
NO_FEATURES: list[Any] = [None, 3, "symbol", [], {}, {"symbol": 0}, {"camera": ""}]


@pytest.mark.parametrize("change", [*CHANGES, *NO_FEATURES], ids=str)
def test_an_invalid_feature_is_refused(
    policy: Policy, saved: bytes, change: Any, tmp_path: Path
) -> None:
    if change in NO_FEATURES:
        forgeries = [forge_feature(saved, n, change) for n in range(len(policy.features))]
    else:
        number = number_of_composite(policy)
        changed = json.loads(json.dumps(change).replace(json.dumps(SELF), str(number)))
        is_composite = change.keys().isdisjoint(("part", "parts"))
        entry = entries(saved)[number] if is_composite else {}
        forgeries = [forge_feature(saved, number, entry | changed)]
    for forged in forgeries:
        assert loads(forged, tmp_path / "forged") is None


def test_features_that_do_not_fit_together_are_refused(
    policy: Policy, saved: bytes, tmp_path: Path
) -> None:
    features, number = entries(saved), number_of_composite(policy)
    entry = features[number]
    assert set(entry) == {"first", "second", "mean", "deviation", "likelihood"}
    less = [{name: entry[name] for name in entry if name != key} for key in entry]
    pairs = itertools.permutations(range(len(features)), 2)
    forged = [forge_feature(saved, number, one) for one in less]
    forged += [forge_feature(saved, one, features[other]) for one, other in pairs]  # twice
    forged.append(forge(saved, {"features": features[::-1]}, {}))  # parts must come first
    for one in forged:
        assert loads(one, tmp_path / "forged") is None


def test_at_least_features_are_not_parts_of_others(
    policy: Policy, saved: bytes, tmp_path: Path
) -> None:
    n, patch = len(policy.features), policy.patches[:1]
    arrays = {
        "usage": np.append(policy.usage, [0, 0]),
        "patches": np.concatenate([policy.patches, patch, patch]),
    }
    several = {"parts": [0, 1], "least": 1}
    for last, is_fine in (
        ({"parts": [0], "least": 1}, True),
        ({"parts": [0, n], "least": 1}, False),
    ):
        features = [*entries(saved), several, last]
        loaded = loads(forge(saved, {"features": features}, arrays), tmp_path / "forged")
        assert (loaded is not None) == is_fine


def test_valid_features_are_accepted(policy: Policy, saved: bytes, tmp_path: Path) -> None:
    number = number_of_composite(policy)
    entry = entries(saved)[number]
    others: list[dict[str, Any]] = [
        entry | {"mean": 0.0, "deviation": 0.5, "likelihood": 0.99},
        entry | {"second": entry["first"]},
        entry | {"turn": -20.0, "turn_deviation": 5.0, "ratio": 0.5, "ratio_deviation": 1.0},
        CELL,
        SEVERAL,
        {"part": entry["first"], "level": 16, "column": 65535, "line": 65535},
        {"parts": [entry["first"], entry["second"]], "least": 1},
    ]
    for other in others:
        loaded = loads(forge_feature(saved, number, other), tmp_path / "forged")
        assert loaded is not None
        assert loaded.graph.describe(number) in str(loaded.explain(PICTURES[0]))


def test_the_height_of_features_is_limited(policy: Policy, saved: bytes, tmp_path: Path) -> None:
    # Each of them would take twice as many words as the one before.
    entry, n = entries(saved)[number_of_composite(policy)], len(policy.features)
    for height, expected in ((8, True), (16, True), (17, False), (5000, False)):
        tower = [entry | {"first": n, "second": n} for n in range(n, n + height - 1)]
        features = [*entries(saved), entry | {"mean": 1.5}, *tower]
        usage = np.append(policy.usage, np.zeros(height, np.int64))
        patches = np.concatenate([policy.patches, np.repeat(policy.patches[:1], height, axis=0)])
        forged = forge(saved, {"features": features}, {"usage": usage, "patches": patches})
        loaded = loads(forged, tmp_path / "tower")
        assert (loaded is not None) == expected
        if loaded is not None:
            assert loaded.graph.height[-1] == height
            assert len(loaded.graph.describe(n + height - 1)) < 100 * 2**height
            assert loaded.predict(PICTURES)[0].tolist() == RIGHT


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 20), st.floats(), st.just(10**400),
    st.text(max_size=3), st.lists(st.integers(), max_size=2), st.just({}),
)  # fmt: skip
NAMES = (
    "first", "second", "mean", "deviation", "likelihood", "turn", "turn_deviation", "ratio",
    "ratio_deviation", "part", "level", "column", "line", "symbol", "camera", "parts", "least",
)  # fmt: skip


@pytest.mark.slow
@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_forged_feature_is_refused_or_can_be_searched_for(
    policy: Policy, saved: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    features = copy.deepcopy(entries(saved))
    number = data.draw(st.integers(0, len(features) - 1))
    features[number] |= data.draw(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
    for name in data.draw(st.sets(st.sampled_from(NAMES), max_size=1)):
        features[number].pop(name, None)
    loaded = loads(forge(saved, {"features": features}, {}), tmp_path / "forged")
    if loaded is not None:
        explanation = loaded.explain(PICTURES[0])
        assert explanation.visual_class == loaded.classify(PICTURES[0])
        assert str(explanation)


# Several cameras ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_cameras() -> TwoCameras:
    return learn_both_cameras()


@pytest.mark.slow
def test_composites_are_made_for_every_camera(two_cameras: TwoCameras) -> None:
    views, right, policy = two_cameras
    assert [int(policy.predict(view)[0]) for view in views] == right
    graph = policy.graph
    composites = [n for n, one in enumerate(graph.features) if isinstance(one, Composite)]
    assert {graph.camera[n] for n in composites} == {"front", "rear"}
    for number in range(len(graph)):
        assert len({graph.camera[part] for part in graph.primitives(number)}) == 1


def test_parts_of_two_cameras_are_refused(two_cameras: TwoCameras, tmp_path: Path) -> None:
    policy, saved = two_cameras[2], bytes_of(two_cameras[2])
    number = max(n for n, one in enumerate(policy.features) if isinstance(one, Composite))
    entry, camera = entries(saved)[number], policy.graph.camera
    others = [n for n in range(number) if camera[n] != camera[number]]
    assert loads(forge_feature(saved, number, entry), tmp_path / "same") is not None
    assert others
    for other in others:
        for name in ("first", "second"):
            forged = forge_feature(saved, number, entry | {name: other})
            assert loads(forged, tmp_path / "forged") is None
        several = {"parts": [entry["first"], other], "least": 1}
        assert loads(forge_feature(saved, number, several), tmp_path / "forged") is None


# Fresh interactions ------------------------------------------------------------------------------


def test_composites_keep_their_numbers_while_new_symbols_appear() -> None:
    first, later = draw_all(5, 8), draw_all(6, 8, (GREEN, BLUE))

    def source(k: int, policy: Policy | None) -> Interactions:
        # The green mark is not seen before a first composite is made.
        shown = first if k < 2 else [*first, *later]
        return act([one.picture for one in shown], [one.right for one in shown], n=3)

    stages = list(
        RLVC(detector=Harris(), generator=Composites(), max_splits=1, threads=1).stages(source)
    )
    graphs = [stage.database.graph for stage in stages]
    for before, after in itertools.pairwise(graphs):
        assert after.features[: len(before)] == before.features
    last = graphs[-1].features
    kinds = [isinstance(feature, Primitive) for feature in last]
    assert True in kinds[kinds.index(False) :]  # a symbol has a higher number than a composite
    assert kinds[-1] is False  # and a composite that was made later a higher one still
    policy = stages[-1].policy()
    for one in (*first, *later):
        assert policy.predict(one.picture)[0] == one.right
    for stage in stages:
        early, database = stage.policy(), stage.database
        bulk = database.classes(stage.classifier)
        for percept, visual_class in zip(database.interactions.percepts, bulk, strict=True):
            assert early.classify(percept) == visual_class
