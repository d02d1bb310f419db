from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlvc import RLVC, Interactions, Policy
from rlvc.features import AtLeast, FeatureGraph, LazyFeatures, Primitive
from rlvc.policies import FeatureTest
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics
from tests.support.builders import COLOUR, GREY, N_PLACES, RIGHT, blocks, database, pictures

# How it acts -------------------------------------------------------------------------------------


def test_one_percept_gives_an_array_without_dimensions(policy: Policy) -> None:
    action, state = policy.predict(COLOUR[1], state="kept")
    assert isinstance(action, np.ndarray)
    assert (action.shape, state) == ((), "kept")
    assert action.dtype == np.int64
    assert int(action) == 1


def test_a_batch_gives_an_action_for_each_percept(policy: Policy) -> None:
    action, state = policy.predict(COLOUR, None, np.ones(N_PLACES, bool), deterministic=False)
    assert (action.shape, state) == ((N_PLACES,), None)
    assert action.dtype == np.int64
    assert action.tolist() == RIGHT
    assert policy.predict(COLOUR[:1])[0].shape == (1,)
    assert policy.predict(COLOUR[:0])[0].shape == (0,)
    assert policy.predict(np.concatenate([COLOUR] * 3))[0].tolist() == RIGHT * 3  # many threads


def test_grey_images_come_with_or_without_their_channel() -> None:
    policy = RLVC(threads=1).learn(database(GREY))
    assert policy.predict(GREY)[0].tolist() == RIGHT
    assert policy.predict(GREY[..., 0])[0].tolist() == RIGHT
    for image, action in zip(GREY, RIGHT, strict=True):
        assert policy.predict(image)[0].shape == policy.predict(image[..., 0])[0].shape == ()
        assert policy.predict(image)[0] == policy.predict(image[..., 0])[0] == action


def test_several_cameras_come_alone_or_in_batches() -> None:
    views = [{"front": COLOUR[i % 3], "rear": GREY[i // 3]} for i in range(N_PLACES)]
    policy = RLVC(threads=1).learn(database(views))
    batch = {k: np.stack([view[k] for view in views]) for k in ("front", "rear")}
    assert policy.predict(batch)[0].tolist() == RIGHT
    for view, action in zip(views, RIGHT, strict=True):
        assert policy.predict(view)[0].shape == ()
        assert policy.predict(view)[0] == action
    with pytest.raises(
        ValueError, match=r"^The cameras of this policy are \['front', 'rear'\]; got \['front'\]\.$"
    ):
        policy.predict({"front": COLOUR[0]})
    with pytest.raises(ValueError, match=r"^The cameras of an observation must have the same "):
        policy.predict({"front": COLOUR[:2], "rear": GREY[:1]})
    with pytest.raises(ValueError, match=r"^The cameras of an observation must have the same "):
        policy.predict({"front": COLOUR[:1], "rear": GREY[0]})


def test_any_memory_layout_is_accepted(policy: Policy) -> None:
    locked = COLOUR.copy()
    locked.flags.writeable = False
    assert policy.predict(locked)[0].tolist() == RIGHT
    assert policy.predict(np.asfortranarray(COLOUR))[0].tolist() == RIGHT
    assert policy.predict(COLOUR[:, ::-1].copy()[:, ::-1])[0].tolist() == RIGHT


PARTS = [
    ("harris", "invariants", "mahalanobis", 0.2),
    ("harris", "invariants", "euclidean", 0.05),
    ("sift", "sift", "euclidean", 150.0),
    ("sift", "rootsift", "mahalanobis", 3.0),
    ("orb", "orb", "hamming", 40.0),
    ("harris", "orb", "hamming", 40.0),
    ("orb", "sift", "euclidean", 150.0),
]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(parts[:3]))
def test_percepts_are_classified_in_bulk_as_one_by_one(
    parts: tuple[str, str, str, float], tmp_path: Path
) -> None:
    detector, descriptor, metric, threshold = parts
    images = np.stack([blocks(seed, (96, 96, 3)) for seed in range(N_PLACES)])
    learner = RLVC(
        detector=detectors.make(detector), descriptor=descriptors.make(descriptor),
        metric=metrics.make(metric), threshold=threshold, threads=2,
    )  # fmt: skip
    looked = learner.extract(database(images))
    stage = list(learner.stages(looked))[-1]
    policy = stage.policy()
    assert policy.n_classes >= 3
    bulk = stage.classifier.classify(stage.database.incidence)
    percepts = looked.interactions.percepts
    stack = np.stack([np.asarray(percept) for percept in percepts])
    assert policy.classify(stack).tolist() == bulk.tolist()
    policy.save(tmp_path / "policy.rlvc")
    again = Policy.load(tmp_path / "policy.rlvc")
    for percept, visual_class in zip(stack, bulk, strict=True):
        assert policy.classify(percept) == again.classify(percept) == visual_class
        assert policy.explain(percept).visual_class == visual_class
        assert policy.predict(percept)[0] == policy.actions[visual_class]
    assert policy.predict(images)[0].tolist() == RIGHT


# How it explains itself --------------------------------------------------------------------------


def test_an_explanation_agrees_with_the_prediction(policy: Policy) -> None:
    for image in [*COLOUR, *pictures(20, 7), np.zeros((64, 64, 3), np.uint8)]:
        explanation = policy.explain(image)
        assert explanation.action == policy.predict(image)[0]
        assert explanation.visual_class == policy.classify(image)
        assert np.array_equal(explanation.q, policy.q[explanation.visual_class])
        path, _ = policy.classifier.walk(
            lambda n, e=explanation: next(t.exhibited for t in e.tests if t.number == n)  # type: ignore[misc]
        )
        assert [(t.number, t.exhibited) for t in explanation.tests] == path
        for test in explanation.tests:
            assert test.feature == policy.features[test.number]
            assert test.exhibited == (len(test.occurrences) > 0)
            assert test.occurrences.shape == (len(test.occurrences), 2)


def test_an_explanation_reads_as_a_sentence(policy: Policy) -> None:
    explanation = policy.explain(COLOUR[4])
    *tests, values, action = str(explanation).split("\n")
    assert len(tests) == len(explanation.tests) > 0
    for number, (line, test) in enumerate(zip(tests, explanation.tests, strict=True), 1):
        assert line.startswith(f"{number}. {policy.graph.describe(test.number)}: ")
        x, y = test.occurrences[0] if test.exhibited else (0, 0)
        assert (f" seen at ({x:.0f}, {y:.0f})" in line) == test.exhibited
        assert line.endswith(("not seen", "none seen")) == (not test.exhibited)
    values_text = ", ".join(f"{a} {v:.2f}" for a, v in enumerate(explanation.q))
    assert values == (
        f"so this is class {explanation.visual_class}, where the values are {values_text}"
    )
    assert action == "so the action is 1"


def test_an_explanation_says_which_of_several_were_seen() -> None:
    two = RLVC(threads=1).learn(database(COLOUR)).extractor.snapshot()
    symbols = [Primitive("", symbol) for symbol in range(two.n_symbols)]
    shown = LazyFeatures(FeatureGraph(tuple(symbols)), two, {"": COLOUR[0]})
    here = [n for n in range(len(symbols)) if shown.exhibits(n)][:3]
    gone = [n for n in range(len(symbols)) if not shown.exhibits(n)][:2]
    words = {
        (here[0], here[1], 2): "all seen at (",
        (*here, *gone, 2): f"3 seen (symbols {here[0]}, {here[1]}, {here[2]}) at (",
        (here[0], *gone, 1): f"1 seen (symbol {here[0]}) at (",
        (here[0], *gone, 2): f"only 1 seen (symbol {here[0]})",
        (*here, *gone, 4): f"only 3 seen (symbols {here[0]}, {here[1]}, {here[2]})",
        (*gone, 1): "none seen",
    }
    for (*parts, least), text in words.items():
        graph, (number,) = FeatureGraph(tuple(symbols)).add(
            [AtLeast(parts=tuple(parts), least=least)]
        )
        test = FeatureTest.of(graph, LazyFeatures(graph, two, {"": COLOUR[0]}), number)
        names = ", ".join(map(str, parts))
        line = f"at least {least} of {len(parts)} (symbols {names}): {text}"
        assert str(test).startswith(line) if "at (" in text else str(test) == line
        assert test.exhibited == ("at (" in text)
        assert test.seen == tuple(n for n in parts if n in here)


def test_an_explanation_numbers_and_names_actions_as_the_environment_does() -> None:
    numbered = RLVC(threads=1, shrinkage=0.0).learn(database(COLOUR, action_start=5))
    assert numbered.predict(COLOUR)[0].tolist() == [action + 5 for action in RIGHT]
    text = str(numbered.explain(COLOUR[1]))
    assert text.endswith("so the action is 6")
    assert "where the values are 5 0.00, 6 1.00, 7 0.00" in text
    named = RLVC(threads=1).learn(database(COLOUR, action_names=("left", "on", "right")))
    assert str(named.explain(COLOUR[1])).endswith("so the action is on")


def test_an_explanation_names_untried_actions() -> None:
    images = COLOUR[[0] * 20]
    data = Interactions.from_arrays(
        images, [1] * 20, [2.0] * 20, [True] * 20, next_observations=images, n_actions=2
    )
    explanation = RLVC(threads=1).learn(data).explain(COLOUR[0])
    assert str(explanation) == (
        "so this is class 0, where the values are 0 never tried, 1 2.00\nso the action is 1"
    )


def test_a_batch_is_not_explained(policy: Policy) -> None:
    with pytest.raises(ValueError, match=r"^explain takes one percept; got a batch\. Call it for"):
        policy.explain(COLOUR)


# What it refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("observation", "error", "message"),
    [
        (
            (COLOUR[0], {}), TypeError,
            r"^observation of predict must be an image or a dict of images; got a tuple\. "
            r"env\.reset\(\) returns \(observation, info\): unpack it first\.$",
        ),
        (COLOUR[0] / 255, TypeError, r"^The dtype of the observation must be uint8; got float64\."),
        ([1, 2], TypeError, r"^The type of the observation must be an array; got list\.$"),
        (GREY[0], ValueError, r"^The channels of the observation must be 3, as in learning; got "
         r"shape \(64, 64, 1\)\.$"),
        (GREY[0, ..., 0], ValueError, r"must be 3, as in learning; got shape \(64, 64\)\.$"),
        (np.moveaxis(COLOUR, 3, 1), ValueError, r"^The shape of the observation must be .*; got "
         r"\(3, 64, 64\)\.$"),
        (COLOUR[None], ValueError, r"got \(1, 6, 64, 64, 3\)\.$"),
        ({"front": COLOUR[0]}, TypeError, r"^The type of the observation must be an array; got d"),
    ],
)  # fmt: skip
def test_invalid_observations_are_refused(
    policy: Policy, observation: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        policy.predict(observation)
