from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, load_policy, load_vocabulary, save_vocabulary
from rlvc._core.registry import arrays_of
from rlvc.errors import FileFormatError
from rlvc.vision import BINARY, CAMERA, DRAWN, Euclidean, FeatureExtractor, Sift, SiftDescriptor
from tests.support.builders import COLOUR, GREY, database, pictures
from tests.support.mutations import forge, loader

CONFIGS = {"invariants": DRAWN, "sift": CAMERA, "orb": replace(BINARY, threshold=20.0)}


def learner(descriptor: str = "invariants") -> RLVC:
    config = CONFIGS[descriptor]
    return RLVC(
        detector=config.detector, descriptor=config.descriptor, metric=config.metric,
        threshold=config.threshold, threads=1,
    )  # fmt: skip


def through_a_file(extractor: FeatureExtractor, path: Path) -> FeatureExtractor:
    save_vocabulary(extractor, path)
    loaded = load_vocabulary(path)
    save_vocabulary(loaded, path.with_suffix(".again"))
    assert path.read_bytes() == path.with_suffix(".again").read_bytes()
    return loaded


@pytest.mark.parametrize("descriptor", CONFIGS)
def test_a_loaded_vocabulary_grows_as_the_saved_one(descriptor: str, tmp_path: Path) -> None:
    """What is learned with it next, on other images, is the same to the byte."""
    extractors = [learner(descriptor).extract(database(pictures(6, 3))).extractor for _ in range(2)]
    assert extractors[0].n_symbols > 0
    extractors[1] = through_a_file(extractors[1], tmp_path / "vocabulary")
    for number, extractor in enumerate(extractors):
        before = extractor.n_symbols
        grown = learner(descriptor).extract(database(COLOUR), extractor=extractor)
        assert grown.extractor is extractor
        assert extractor.n_symbols > before
        learner(descriptor).learn(grown).save(tmp_path / str(number))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    assert load_policy(tmp_path / "0").n_classes > 1


def test_cameras_stay_in_their_order(tmp_path: Path) -> None:
    extractor = learner().extract(database([{"b": image} for image in COLOUR])).extractor
    views = [{"a": grey, "b": image} for grey, image in zip(GREY, COLOUR, strict=False)]
    blank = np.zeros((64, 64, 3), np.uint8)
    views = [{**view, "c": blank} for view in views]
    data = Interactions.from_arrays(
        views, [0] * len(views), [0.0] * len(views), [True] * len(views), next_observations=views
    )
    learner().extract(data, extractor=extractor)
    loaded = through_a_file(extractor, tmp_path / "vocabulary")
    assert list(loaded.vocabularies) == list(extractor.vocabularies) == ["b", "a", "c"]
    for name, words in extractor.vocabularies.items():
        other = loaded.vocabularies[name]
        assert (other.n_symbols, other.is_fitted) == (words.n_symbols, words.is_fitted)
        assert np.array_equal(list(loaded.patches[name]), list(extractor.patches[name]))
        if words.is_fitted:
            assert np.array_equal(other.centres, words.centres)  # type: ignore[arg-type]
            assert arrays_of(other.metric).keys() == {"whitening"}
    assert not loaded.vocabularies["c"].is_fitted
    assert loaded.patches["c"] == []


def test_an_extractor_without_symbols_can_be_saved(tmp_path: Path) -> None:
    extractor = FeatureExtractor(Sift(max_points=7), SiftDescriptor(root=True), Euclidean(), 3.0)
    loaded = through_a_file(extractor, tmp_path / "vocabulary")
    assert loaded.vocabularies == {}
    assert (loaded.detector, loaded.descriptor) == (extractor.detector, extractor.descriptor)
    assert (loaded.metric, loaded.threshold) == (extractor.metric, extractor.threshold)


@pytest.fixture(scope="module", name="extractor")
def extractor_fixture() -> FeatureExtractor:
    return learner().extract(database(COLOUR)).extractor


@pytest.fixture(scope="module", name="saved")
def saved_fixture(extractor: FeatureExtractor, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "vocabulary"
    save_vocabulary(extractor, path)
    return path.read_bytes()


loads = loader(load_vocabulary)


def harris(**parameters: Any) -> dict[str, Any]:
    return {"detector": {"name": "harris", "parameters": parameters}}


def metric(name: str, **parameters: Any) -> dict[str, Any]:
    return {"metric": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "rlvc-policy"}, {"threshold": -1.0}, {"threshold": 1e200}, {"threshold": True},
        {"threshold": float("nan")}, {"threshold": 10**400}, {"threshold": "1"},
        {"cameras": None}, {"cameras": {}}, {"cameras": [{"name": ""}]},
        {"cameras": [{"name": "", "is_fitted": 1}]},
        {"cameras": [{"name": "", "is_fitted": False}]},
        {"cameras": [{"name": "", "is_fitted": True}] * 2},
        {"cameras": [{"name": "a" * 10**6, "is_fitted": True}]},
        {"cameras": [{"name": 3, "is_fitted": True}]},
        harris(radius=10**9), harris(radius=10**400), harris(radius=2.5),
        harris(sigma=float("inf")), harris(radius=[1]), harris(**{"a" * 10**6: 1}),
        {"detector": {"name": "harris"}},
        {"detector": {"name": "a" * 10**6, "parameters": {}}},
        {"detector": {"name": "orb", "parameters": {"max_points": 10**9}}},
        {"descriptor": {"name": "sift", "parameters": {}}},
        metric("hamming"), metric("mahalanobis", whitening="x"), metric("mahalanobis", whitening=3),
        metric("euclidean"),
    ],
    ids=lambda change: str(change)[:60],
)  # fmt: skip
def test_a_forged_manifest_is_refused(saved: bytes, change: dict[str, Any], tmp_path: Path) -> None:
    assert loads(forge(saved, {}, {}), tmp_path / "same") is not None
    assert loads(forge(saved, change, {}), tmp_path / "forged") is None


def test_forged_arrays_are_refused(
    extractor: FeatureExtractor, saved: bytes, tmp_path: Path
) -> None:
    words = extractor.vocabularies[""]
    centres, patches = words.centres, np.stack(extractor.patches[""])
    assert centres is not None
    whitening = arrays_of(words.metric)["whitening"]
    wide = np.zeros((8, 10**5))
    forged: list[dict[str, NDArray[Any]]] = [
        {"centres": centres[:, :-1]}, {"centres": centres[:0]}, {"centres": centres[:-1]},
        {"centres": centres.astype(np.float64)}, {"centres": np.full_like(centres, np.nan)},
        {"patches": patches[:-1]}, {"patches": patches[..., :1]},
        {"patches": patches.astype(float)}, {"patches": patches[:, :16, :16]},
        {"metric/whitening": whitening.astype(np.float32)},
        {"metric/whitening": whitening[:-1]}, {"metric/whitening": whitening[:, :0]},
        {"metric/whitening": wide}, {"metric/whitening": whitening * 1e300},
        {"metric/whitening": np.full_like(whitening, np.inf)},
        {"metric/whitening": whitening[0]},
    ]  # fmt: skip
    for arrays in forged:
        named = {f"vocabulary/0/{name}": array for name, array in arrays.items()}
        assert loads(forge(saved, {}, named), tmp_path / "forged") is None, named
    for name in ("centres", "patches", "metric/whitening"):
        less = forge(saved, {}, {}, missing=f"vocabulary/0/{name}")
        assert loads(less, tmp_path / "less") is None, name


def test_the_refusal_says_why(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary"
    path.write_bytes(forge(saved, {}, {}, forget="cameras"))
    with pytest.raises(FileFormatError) as error:
        load_vocabulary(path)
    assert str(error.value) == f"{path} does not hold a vocabulary: it has no 'cameras'"
    path.write_bytes(forge(saved, {"threshold": "x"}, {}))
    with pytest.raises(FileFormatError, match=r"it has 'x' where a number is expected$"):
        load_vocabulary(path)
    path.write_bytes(forge(saved, {"threshold": "x" * 10**6}, {}))
    with pytest.raises(FileFormatError, match=r"it has a str where a number is expected$"):
        load_vocabulary(path)
