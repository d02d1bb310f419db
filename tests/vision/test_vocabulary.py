from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlvc.vision.vocabulary as module
from rlvc import Percepts
from rlvc.data import Images
from rlvc.vision import Euclidean, ExtractionCache, FeatureExtractor, Harris, Invariants, Vocabulary
from rlvc.vision.extractor import cut_patch
from rlvc.vision.metrics import metrics
from tests.support.builders import blocks

Rows = NDArray[Any]
EVERY = pytest.mark.parametrize("name", list(metrics))
THRESHOLD = {"euclidean": 9.5, "mahalanobis": 1.1, "hamming": 11.0}


def sample(name: str, n: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    if name == "hamming":
        return rng.integers(0, 256, (n, 4), dtype=np.uint8)
    centre = rng.integers(0, 4, (n, 4)) * 10
    return np.asarray(centre + rng.normal(size=(n, 4)) * 2, np.float32)


def vocabulary(name: str) -> Vocabulary:
    return Vocabulary(metrics.make(name), THRESHOLD[name])


def by_hand(words: Vocabulary, rows: Rows) -> list[list[int]]:
    """Compare every row with every symbol."""
    assert words.centres is not None
    near = words.metric.distances(rows, words.centres) <= words.threshold
    return [np.flatnonzero(row).tolist() for row in near]


def as_lists(quantized: tuple[NDArray[np.int64], NDArray[np.int32]]) -> list[list[int]]:
    indptr, symbols = quantized
    assert symbols.dtype == np.int32
    return [symbols[a:b].tolist() for a, b in itertools.pairwise(indptr)]


@EVERY
@pytest.mark.parametrize(("threads", "block"), [(1, 17), (2, 17), (1, 8192), (2, 8192)])
def test_symbols_are_the_descriptors_up_to_the_threshold(
    name: str, threads: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    rows = sample(name, 300)
    words = vocabulary(name)
    added = words.extend(rows, threads)
    metric = metrics.make(name).fit(rows)
    expected: list[int] = []  # one by one, by definition
    for i in range(len(rows)):
        if not (metric.distances(rows[i : i + 1], rows[expected]) <= words.threshold).any():
            expected.append(i)
    assert added.tolist() == expected
    assert 1 < words.n_symbols < 300
    assert words.centres is not None
    assert np.array_equal(words.centres, rows[expected])
    gaps = metric.distances(words.centres, words.centres)
    assert gaps[~np.eye(len(gaps), dtype=bool)].min() > words.threshold
    quantized = as_lists(words.quantize(rows, threads))
    assert quantized == by_hand(words, rows)
    assert all(quantized)  # every descriptor shows a symbol
    assert as_lists(words.quantize(words.centres)) == [[i] for i in range(words.n_symbols)]


@EVERY
def test_one_row_or_many_any_number_of_threads(name: str) -> None:
    words = vocabulary(name)
    words.extend(sample(name, 200))
    rows = sample(name, 120, seed=1)
    expected = by_hand(words, rows)
    assert any(len(symbols) > 1 for symbols in expected)
    for threads in (1, 2, 3):
        assert as_lists(words.quantize(rows, threads)) == expected
    for i, symbols in enumerate(expected):
        assert as_lists(words.quantize(rows[i : i + 1])) == [symbols]
    shuffled = np.random.default_rng(2).permutation(len(rows))
    assert as_lists(words.quantize(rows[shuffled])) == [expected[i] for i in shuffled]


@EVERY
def test_growing_never_changes_earlier_results(name: str) -> None:
    words = vocabulary(name)
    words.extend(sample(name, 100))
    rows = sample(name, 80, seed=5)
    before, n = as_lists(words.quantize(rows)), words.n_symbols
    fresh = sample(name, 200, seed=3)
    if name != "hamming":
        fresh += 6
    added = words.extend(fresh)
    assert words.n_symbols == n + len(added) > n
    after = as_lists(words.quantize(rows))
    assert [[s for s in symbols if s < n] for symbols in after] == before
    assert after != before
    assert after == by_hand(words, rows)
    assert len(words.extend(fresh)) == 0  # all of them are known by now


@EVERY
def test_an_empty_vocabulary_finds_nothing(name: str) -> None:
    words = vocabulary(name)
    rows = sample(name, 3)
    assert words.extend(rows[:0]).tolist() == []
    assert words.n_symbols == 0
    assert as_lists(words.quantize(rows)) == [[], [], []]
    assert as_lists(words.quantize(rows[:0])) == []


@pytest.mark.parametrize(
    ("metric", "threshold", "rows", "symbols"),
    [
        ("euclidean", 5.0, np.array([[0, 0], [3, 4], [3, 4.001]], np.float32), [[0], [0, 1], [1]]),
        ("hamming", 5.0, np.array([[0], [0b11111], [0b111111]], np.uint8), [[0], [0, 1], [1]]),
        ("euclidean", 0.0, np.array([[1, 2], [1, 2], [1, 2.0000002]], np.float32), [[0], [0], [1]]),
    ],
)
def test_the_threshold_itself_is_near(
    metric: str, threshold: float, rows: Rows, symbols: list[list[int]]
) -> None:
    words = Vocabulary(metrics.make(metric), threshold)
    assert words.extend(rows).tolist() == [0, 2]
    assert as_lists(words.quantize(rows)) == symbols


class Counted(Images):
    """Images that record which of them are read."""

    def __init__(self) -> None:
        super().__init__("left", in_memory=0)
        self.read: list[int] = []

    def __getitem__(self, number: int) -> NDArray[np.uint8]:
        self.read.append(number)
        return super().__getitem__(number)


def test_patches_are_cut_from_one_reading_of_each_image() -> None:
    images = Counted()
    extractor = FeatureExtractor(Harris(), Invariants(), Euclidean(), 0.05)
    for until in (3, 5):  # the second time brings more symbols
        while len(images) < until:
            images.add(blocks(seed=len(images), shape=(90, 120, 3)))
        percepts = Percepts.of([images], np.arange(len(images))[:, np.newaxis])
        (keypoints,) = ExtractionCache().extract(extractor, percepts)
        known = extractor.n_symbols
        images.read.clear()
        extractor.learn(images, keypoints)
        assert images.read == sorted(set(images.read))
        assert extractor.n_symbols == len(extractor.patches["left"]) > known
    centres = extractor.vocabularies["left"].centres
    assert centres is not None
    for patch, centre in zip(extractor.patches["left"], centres, strict=True):
        point = int(np.flatnonzero((keypoints.descriptors[keypoints.row] == centre).all(axis=1))[0])
        number = int(np.searchsorted(keypoints.begin, point, side="right")) - 1
        assert np.array_equal(patch, cut_patch(images[number], keypoints.points, point))
