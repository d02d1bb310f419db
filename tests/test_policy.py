from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, Policy
from rlvc.errors import FileFormatError
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import Harris, detectors
from rlvc.vision.metrics import metrics
from tests.builders import blocks, pictures

N_PLACES, N_ACTIONS = 6, 3


def database(images: Any, seed: int = 0, **more: Any) -> Interactions:
    """Return one-step episodes in which action i mod 3 is good on image i."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, N_PLACES, 400)
    action = rng.integers(0, N_ACTIONS, 400)
    shown = [images[i] for i in place]
    return Interactions.from_arrays(
        shown, action + more.get("action_start", 0), place % N_ACTIONS == action,
        np.ones(400, np.bool_), next_observations=shown, n_actions=N_ACTIONS, **more,
    )  # fmt: skip


COLOUR = pictures(N_PLACES)
GREY = pictures(N_PLACES, 1, (64, 64, 1))
RIGHT = [i % N_ACTIONS for i in range(N_PLACES)]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return RLVC(threads=1).learn(database(COLOUR))


@pytest.fixture(scope="module")
def saved(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "policy.rlvc"
    policy.save(path)
    return path.read_bytes()


# How it acts -------------------------------------------------------------------------------------


def test_one_percept_gives_an_array_without_dimensions(policy: Policy) -> None:
    action, state = policy.predict(COLOUR[1], state="kept")
    assert isinstance(action, np.ndarray)
    assert (action.shape, state) == ((), "kept")
    assert action.dtype == np.int64
    assert int(action) == 1


def test_a_batch_gives_as_many_actions(policy: Policy) -> None:
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
    with pytest.raises(ValueError, match=r"^The cameras of an observation must have as many image"):
        policy.predict({"front": COLOUR[:2], "rear": GREY[:1]})
    with pytest.raises(ValueError, match=r"^The cameras of an observation must have as many image"):
        policy.predict({"front": COLOUR[:1], "rear": GREY[0]})


def test_any_layout_in_memory_will_do(policy: Policy) -> None:
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
def test_one_image_or_many_alone_or_in_bulk(
    parts: tuple[str, str, str, float], tmp_path: Path
) -> None:
    detector, descriptor, metric, threshold = parts
    images = np.stack([blocks(seed, (96, 96, 3)) for seed in range(N_PLACES)])
    learner = RLVC(
        detector=detectors.make(detector), descriptor=descriptors.make(descriptor),
        metric=metrics.make(metric), threshold=threshold, threads=2,
    )  # fmt: skip
    looked = learner.look(database(images))
    stage = list(learner.stages(looked))[-1]
    policy = stage.policy()
    assert policy.n_classes >= 3
    bulk = stage.classifier.classify(looked.symbols)
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
        assert line.startswith(f"{number}. symbol {test.feature.symbol}: ")
        x, y = test.occurrences[0] if test.exhibited else (0, 0)
        assert (f"seen at ({x:.0f}, {y:.0f})" if test.exhibited else "not seen") in line
    values_text = ", ".join(f"{a} {v:.2f}" for a, v in enumerate(explanation.q))
    assert values == (
        f"so this is class {explanation.visual_class}, where the values are {values_text}"
    )
    assert action == "so the action is 1"


def test_an_explanation_speaks_of_actions_as_the_environment_does() -> None:
    numbered = RLVC(threads=1).learn(database(COLOUR, action_start=5))
    assert numbered.predict(COLOUR)[0].tolist() == [action + 5 for action in RIGHT]
    text = str(numbered.explain(COLOUR[1]))
    assert text.endswith("so the action is 6")
    assert "where the values are 5 0.00, 6 1.00, 7 0.00" in text
    named = RLVC(threads=1).learn(database(COLOUR, action_names=("left", "on", "right")))
    assert str(named.explain(COLOUR[1])).endswith("so the action is on")


def test_what_was_never_tried_is_said() -> None:
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
def test_an_observation_of_another_kind_is_explained(
    policy: Policy, observation: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        policy.predict(observation)


# How it is saved ---------------------------------------------------------------------------------


def test_saving_and_loading_changes_nothing(policy: Policy, saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "policy.rlvc"
    policy.save(path)
    assert path.read_bytes() == saved
    loaded = Policy.load(path)
    images = np.concatenate([COLOUR, pictures(30, 3)])
    assert np.array_equal(loaded.classify(images), policy.classify(images))
    assert np.array_equal(loaded.predict(images)[0], policy.predict(images)[0])
    assert [str(loaded.explain(i)) for i in images] == [str(policy.explain(i)) for i in images]
    assert loaded.features == policy.features
    for name in ("q", "count", "usage", "patches"):
        ours, theirs = getattr(policy, name), getattr(loaded, name)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
    loaded.save(path)
    assert path.read_bytes() == saved
    assert [p.name for p in path.parent.iterdir()] == ["policy.rlvc"]


def test_cameras_and_names_survive(tmp_path: Path) -> None:
    views = [{"b": COLOUR[i % 3], "a": GREY[i // 3]} for i in range(N_PLACES)]
    names = ("left", "à droite", "on")
    policy = RLVC(threads=1).learn(database(views, action_start=2, action_names=names))
    policy.save(tmp_path / "p")
    loaded = Policy.load(tmp_path / "p")
    assert (loaded.action_start, loaded.action_names) == (2, names)
    assert dict(loaded.shapes) == {"a": (64, 64, 1), "b": (64, 64, 3)}
    assert [int(loaded.predict(view)[0]) for view in views] == [a + 2 for a in RIGHT]


def test_a_policy_that_sees_nothing_can_be_saved(tmp_path: Path) -> None:
    blank = np.zeros((N_PLACES, 64, 64, 3), np.uint8)
    policy = RLVC(threads=1).learn(database(blank))
    policy.save(tmp_path / "p")
    assert Policy.load(tmp_path / "p").predict(blank)[0].shape == (N_PLACES,)


LEARN = """
import sys
import numpy as np
from rlvc import RLVC, Interactions
rng = np.random.default_rng(0)
images = rng.integers(0, 256, (6, 64, 64, 3), dtype=np.uint8)
place, action = rng.integers(0, 6, 400), rng.integers(0, 3, 400)
views = [{"front": images[i], "rear": images[5 - i]} for i in place]
data = Interactions.from_arrays(
    views, action, place % 3 == action, np.ones(400, bool), next_observations=views
)
RLVC(threads=int(sys.argv[1])).learn(data).save(sys.argv[2])
"""


def test_the_same_seed_gives_the_same_bytes_everywhere(tmp_path: Path) -> None:
    contents = set()
    for threads, hash_seed in (("1", "0"), ("2", "1")):
        path = tmp_path / f"{threads}.rlvc"
        subprocess.run(
            [sys.executable, "-c", LEARN, threads, str(path)],
            check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )  # fmt: skip
        contents.add(path.read_bytes())
    assert len(contents) == 1
    assert Policy.load(path).n_classes > 1


def loads(data: bytes, path: Path) -> Policy | None:
    """Load a policy from bytes; None if it is refused as it should be."""
    path.write_bytes(data)
    try:
        return Policy.load(path)
    except FileFormatError:
        return None


def test_a_truncated_file_is_refused(saved: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = [*range(40), *rng.integers(40, len(saved), 80).tolist()]
    lengths += range(len(saved) - 40, len(saved))
    for length in lengths:
        assert loads(saved[:length], tmp_path / "cut") is None


def test_a_damaged_file_is_refused_or_still_a_policy(saved: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        headers = archive.infolist()
        directory = archive.start_dir
    # Everywhere, and above all where zip keeps its own notes.
    places = rng.integers(0, len(saved), 100).tolist()
    for info in headers:
        places += (info.header_offset + rng.integers(0, 46, 12)).tolist()
    places += rng.integers(directory, len(saved), 250).tolist()
    for place in places:
        damaged = bytearray(saved)
        damaged[place] ^= 1 << int(rng.integers(8))
        policy = loads(bytes(damaged), tmp_path / "damaged")
        if policy is not None:
            assert policy.predict(COLOUR[0])[0].shape == ()


def forge(
    saved: bytes, change: dict[str, Any], arrays: dict[str, NDArray[Any]], missing: str = ""
) -> bytes:
    """Return a file whose checksums are right but whose content is not."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            if name.removesuffix(".npy") == missing:
                continue
            data = old.read(name)
            if name.endswith(".json"):
                data = json.dumps({**json.loads(data), **change}).encode()
            elif name.removesuffix(".npy") in arrays:
                member = io.BytesIO()
                np.save(member, arrays[name.removesuffix(".npy")], allow_pickle=True)
                data = member.getvalue()
            new.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"version": 99}, {"detector": {"name": "haris", "parameters": {}}},
        {"detector": {"name": "harris", "parameters": {"sigma": -1}}}, {"detector": 3},
        {"detector": {"name": "harris", "parameters": {"evil": 1}}}, {"features": []},
        {"metric": {"name": "hamming", "parameters": {}}}, {"cameras": []}, {"cameras": None},
        {"cameras": [{"name": "", "shape": [64, 64]}]}, {"threshold": "x"}, {"gamma": None},
        {"descriptor": {"name": "sift", "parameters": {}}}, {"action_names": ["one"]},
        {"features": [{"camera": "", "symbol": 10**9}] * 5}, {"gamma": float("nan")},
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_manifest_is_refused(saved: bytes, change: dict[str, Any], tmp_path: Path) -> None:
    assert loads(forge(saved, {}, {}), tmp_path / "same") is not None
    assert loads(forge(saved, change, {}), tmp_path / "forged") is None


def forgeries(policy: Policy) -> list[dict[str, NDArray[Any]]]:
    centres = policy.eye.vocabularies[""].centres
    assert centres is not None
    q = policy.q
    return [
        {"q": q[:-1]}, {"q": q[:, :0]}, {"q": q.astype(np.float32)}, {"q": np.full_like(q, np.nan)},
        {"q": q.ravel()}, {"count": policy.count[:, :-1]}, {"count": policy.count.astype(float)},
        {"usage": policy.usage[:-1]}, {"patches": policy.patches[:-1]},
        {"vocabulary/0/centres": centres[:, :-1]}, {"vocabulary/0/centres": centres[:0]},
        {"vocabulary/0/centres": centres.astype(np.float64)},
        {"vocabulary/0/metric/whitening": np.eye(3)},
        {"classifier/feature": np.full(2 * policy.n_classes - 1, 10**6)},
        {"classifier/present": np.zeros(2 * policy.n_classes - 1, np.int64)},
        {"q": np.array([{"a": 1}], dtype=object)},
    ]  # fmt: skip


def test_forged_arrays_are_refused(policy: Policy, saved: bytes, tmp_path: Path) -> None:
    for arrays in forgeries(policy):
        assert loads(forge(saved, {}, arrays), tmp_path / "forged") is None, list(arrays)


def test_no_member_may_be_missing(saved: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    assert "vocabulary/0/metric/whitening" in names
    for name in names:
        assert loads(forge(saved, {}, {}, missing=name), tmp_path / "less") is None, name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is not a rlvc-policy file, or it is damaged"),
        (b"hello", r"is not a rlvc-policy file, or it is damaged"),
    ],
)
def test_another_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        Policy.load(tmp_path / "other")


def test_the_refusal_says_why(saved: bytes, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"^There is no file .*nowhere\.$"):
        Policy.load(tmp_path / "nowhere")
    (tmp_path / "new").write_bytes(forge(saved, {"version": 99}, {}))
    with pytest.raises(
        FileFormatError,
        match=r"has version 99 of the format; this rlvc reads version 1\. Install the rlvc that",
    ):
        Policy.load(tmp_path / "new")
    (tmp_path / "kind").write_bytes(forge(saved, {"format": "soup"}, {}))
    with pytest.raises(FileFormatError, match=r"is not a rlvc-policy file; it says 'soup'\.$"):
        Policy.load(tmp_path / "kind")
    typo = {"detector": {"name": "haris", "parameters": {}}}
    (tmp_path / "typo").write_bytes(forge(saved, typo, {}))
    with pytest.raises(FileFormatError, match=r"Unknown detector 'haris'\. Did you mean 'harris'"):
        Policy.load(tmp_path / "typo")


def test_a_part_without_a_name_cannot_be_saved(tmp_path: Path) -> None:
    class Mine(Harris):
        pass

    policy = RLVC(detector=Mine(), threads=1).learn(database(COLOUR))
    with pytest.raises(
        ValueError,
        match=r"^The detector Mine has no name; give it one with "
        r"detectors\.register\('name', Mine\)\.$",
    ):
        policy.save(tmp_path / "p")
    assert not (tmp_path / "p").exists()


def test_stable_baselines3_can_evaluate_a_policy() -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    from rlvc import collect
    from tests.test_interactions import Walk

    for is_dict in (False, True):
        policy = RLVC(gamma=0.5).learn(collect(Walk(start=0, is_dict=is_dict), 400, seed=0))
        env = monitor.Monitor(Walk(start=0, is_dict=is_dict))
        mean, _ = evaluation.evaluate_policy(policy, env, n_eval_episodes=5)
        assert mean == 1.0
