from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Policy
from rlvc.classifiers import Diagrams, Tree
from rlvc.errors import FileFormatError
from rlvc.features import AtLeast, Feature, FeatureGraph, InCell, Primitive
from rlvc.features.io import check_features
from rlvc.learning import Compaction
from rlvc.vision import Harris, InterestPoints
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics
from tests.support.builders import COLOUR, GREY, N_PLACES, RIGHT, database, pictures
from tests.support.mutations import forge, loader
from tests.support.policies import bytes_of, check_saving

# How it is saved ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[Tree, Diagrams], ids=["tree", "diagrams"])
def policy(request: pytest.FixtureRequest, policy: Policy) -> Policy:
    """A policy of each kind of classifier."""
    if request.param is Diagrams:
        policy = RLVC(threads=1, post_process=Compaction(every=0)).learn(database(COLOUR))
    assert type(policy.classifier) is request.param
    return policy


def test_saving_and_loading_changes_nothing(policy: Policy, tmp_path: Path) -> None:
    images = np.concatenate([COLOUR, pictures(30, 3)])
    check_saving(policy, images, tmp_path / "one" / "two" / "policy.rlvc")


def test_cameras_and_action_names_are_saved(tmp_path: Path) -> None:
    views = [{"b": COLOUR[i % 3], "a": GREY[i // 3]} for i in range(N_PLACES)]
    names = ("left", "à droite", "on")
    policy = RLVC(threads=1).learn(database(views, action_start=2, action_names=names))
    policy.save(tmp_path / "p")
    loaded = Policy.load(tmp_path / "p")
    assert (loaded.action_start, loaded.action_names) == (2, names)
    assert dict(loaded.shapes) == {"a": (64, 64, 1), "b": (64, 64, 3)}
    assert [int(loaded.predict(view)[0]) for view in views] == [a + 2 for a in RIGHT]


def test_a_policy_without_features_can_be_saved(tmp_path: Path) -> None:
    blank = np.zeros((N_PLACES, 64, 64, 3), np.uint8)
    policy = RLVC(threads=1).learn(database(blank))
    policy.save(tmp_path / "p")
    assert Policy.load(tmp_path / "p").predict(blank)[0].shape == (N_PLACES,)


loads = loader(Policy.load)


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
        {"classifiers": ["forest"]}, {"classifiers": None}, {"classifiers": [["tree"]]},
        {"classifiers": ["tree", "tree"]}, {"classifiers": []}, {"classifiers": "tree"},
        {"action_start": 2**31}, {"action_start": 0.0}, {"action_start": 10**400},
        {"action_names": "abc"}, {"action_names": ["a", "b", 3]}, {"features": {}},
        {"action_names": ["a" * 1001, "b", "c"]}, {"about": ["x"]}, {"threshold": 1e200},
        {"cameras": [{"name": "", "shape": [2**16, 64, 3]}]}, {"gamma": "0.5"}, {"gamma": True},
        {"cameras": [{"name": "", "shape": [64.0, 64, 3]}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_manifest_is_refused(saved: bytes, change: dict[str, Any], tmp_path: Path) -> None:
    assert loads(forge(saved, {}, {}), tmp_path / "same") is not None
    assert loads(forge(saved, change, {}), tmp_path / "forged") is None


def forgeries(policy: Policy) -> list[dict[str, NDArray[Any]]]:
    centres = policy.extractor.vocabularies[""].centres
    assert centres is not None
    q, count = policy.q, policy.count
    values = (
        q[:-1], q[:, :0], q.astype(np.float32), np.full_like(q, np.nan), q.ravel(),
        np.full_like(q, 1e200),
    )  # fmt: skip
    return [
        *({"tree/0/q": one} for one in values),
        *({"tree/0/count": one} for one in (count[:, :-1], count.astype(float), count - 10**6)),
        {"usage": policy.usage[:-1]}, {"usage": policy.usage - 10**6},
        {"patches": policy.patches[:-1]}, {"patches": policy.patches[:, :9]},
        {"patches": policy.patches[:, :0, :0]},
        {"patches": np.zeros((len(policy.usage), 513, 513, 3), np.uint8)},
        {"vocabulary/0/centres": centres[:, :-1]}, {"vocabulary/0/centres": centres[:0]},
        {"vocabulary/0/centres": centres.astype(np.float64)},
        {"vocabulary/0/metric/whitening": np.eye(3)},
        *({f"tree/0/classifier/{name}": one} for name, one in forged_nodes(policy.classifier)),
    ]  # fmt: skip


def forged_nodes(classifier: Any) -> list[tuple[str, NDArray[Any]]]:
    feature, present, absent = classifier.feature, classifier.present, classifier.absent
    n = len(feature)
    forged: list[tuple[str, NDArray[Any]]] = [
        ("feature", np.full(n, 10**6)), ("feature", np.full(n, -1)), ("feature", feature[:-1]),
        ("feature", feature.astype(float)), ("feature", feature.reshape(1, -1)),
        ("present", np.zeros(n, np.int64)), ("present", present + n), ("present", present[::-1]),
        ("absent", np.zeros(n, np.int64)), ("absent", absent[:0]),
    ]  # fmt: skip
    if isinstance(classifier, Diagrams):
        order = classifier.order
        others = (order[1:], order + 1, np.append(order, 0), order.astype(float), order[:1])
        forged += [("order", other) for other in others]
    return forged


def test_forged_arrays_are_refused(policy: Policy, saved: bytes, tmp_path: Path) -> None:
    for arrays in forgeries(policy):
        assert loads(forge(saved, {}, arrays), tmp_path / "forged") is None, list(arrays)


def test_features_with_exponentially_long_names_are_refused() -> None:
    """Each of some features is a part of as many in the next layer, in which it is named anew."""
    features: list[Feature] = [Primitive("", symbol) for symbol in range(16)]
    for _ in range(5):
        part = len(features)
        features.append(AtLeast(parts=tuple(range(part - 16, part)), least=1))
        features += [InCell(part=part, level=2, column=n % 4, line=n // 4) for n in range(16)]
    check_features(FeatureGraph(tuple(features[:-17])), {"": 16})
    with pytest.raises(ValueError, match=r"^its features do not fit the rest$"):
        check_features(FeatureGraph(tuple(features)), {"": 16})


def test_one_kind_of_classifier_is_not_another(
    policy: Policy, saved: bytes, tmp_path: Path
) -> None:
    other = "tree" if isinstance(policy.classifier, Diagrams) else "diagrams"
    assert loads(forge(saved, {"classifiers": [other]}, {}), tmp_path / "other") is None


def test_the_error_says_what_is_wrong_with_a_file(saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "kind").write_bytes(forge(saved, {"format": "soup"}, {}))
    with pytest.raises(FileFormatError, match=r"not a rlvc-policy file; its format is 'soup'\.$"):
        Policy.load(tmp_path / "kind")
    typo = {"detector": {"name": "haris", "parameters": {}}}
    (tmp_path / "typo").write_bytes(forge(saved, typo, {}))
    with pytest.raises(FileFormatError, match=r"Unknown detector 'haris'\. Did you mean 'harris'"):
        Policy.load(tmp_path / "typo")


@dataclass(frozen=True)
class Scaled:
    """A metric of the user's that learns a vector."""

    scale: NDArray[np.float64] | None = None

    def fit(self, descriptors: Any) -> Scaled:
        return Scaled(np.asarray(descriptors, float).std(axis=0) + 1e-9)

    def distances(self, a: Any, b: Any) -> NDArray[np.float64]:
        assert self.scale is not None
        gap = (a[:, None].astype(float) - b[None].astype(float)) / self.scale
        return np.asarray(np.sqrt((gap**2).sum(axis=2)))


@dataclass(frozen=True)
class Shifted:
    """A detector of the user's with a parameter that may be missing, or may be an array."""

    shift: Any = 1

    def detect(self, image: Any) -> InterestPoints:
        found = Harris().detect(image)
        moved = 0 if self.shift is None else np.sum(self.shift)
        return InterestPoints(found.xy + np.float32(moved), found.scale, found.angle, found.octave)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry, name, part in ((metrics, "scaled", Scaled), (detectors, "shifted", Shifted)):
        monkeypatch.setattr(registry, "_factories", dict(registry._factories))
        registry.register(name, part)  # type: ignore[arg-type]


@pytest.mark.usefixtures("plugged")
def test_parameters_of_custom_parts_are_saved(tmp_path: Path) -> None:
    policy = RLVC(detector=Shifted(None), metric=Scaled()).learn(database(COLOUR))
    policy.save(tmp_path / "p")
    loaded = Policy.load(tmp_path / "p")
    assert loaded.extractor.detector == Shifted(None)
    assert np.array_equal(loaded.classify(COLOUR), policy.classify(COLOUR))


class NamelessDetector(Harris):
    pass


class NamelessTree(Tree):
    pass


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (
            NamelessDetector(), ValueError,
            r"^The detector NamelessDetector has no name; give it one with "
            r"detectors\.register\('name', NamelessDetector\)\.$",
        ),
        (
            Shifted(np.ones(2)), TypeError,
            r"^shift of Shifted must be a number, a string or a bool",
        ),
        (
            NamelessTree(), TypeError,
            r"^The classifier of a policy must be a Tree or Diagrams to be saved; got "
            r"NamelessTree\.$",
        ),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_saved_are_refused(
    policy: Policy, part: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    extractor = policy.extractor.snapshot()
    if isinstance(part, Tree):
        policy = dataclasses.replace(policy, classifier=part)
    else:
        extractor.detector = part
    with pytest.raises(error, match=message):
        dataclasses.replace(policy, extractor=extractor).save(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def test_a_policy_does_not_change_when_learning_continues() -> None:
    stages = RLVC(max_stages=1).stages(lambda k, _: database(COLOUR if k == 0 else pictures(6, 9)))
    first = next(stages).policy()
    before = bytes_of(first)
    list(stages)
    assert bytes_of(first) == before
