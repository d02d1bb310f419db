"""The fast searches find exactly what comparing all rows finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import rlvc.vision.vocabulary as module
from rlvc.vision import Euclidean, Metric, Search, Vocabulary, make_search
from rlvc.vision.linear_algebra import covariance
from rlvc.vision.metrics import metrics
from rlvc.vision.search import SketchedSearch, SortedSearch
from rlvc.vision.sketch import LANES, LENGTH, Sketcher, main_axes

Rows = NDArray[Any]
KINDS = ["bytes", "floats", "bits"]


def clusters(kind: str, n: int, width: int, step: int, seed: int = 0) -> tuple[Metric, Rows]:
    """Return rows about a few others, many of them exactly ``step`` from these or from each other.

    All numbers are whole, so that no metric rounds and a tie is a tie.
    """
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 256, (-(-n // 6), width))[rng.integers(0, -(-n // 6), n)]
    away = step + rng.integers(-1, 2, n)
    at = rng.integers(0, width, n)
    if kind == "bits":
        packed = whole.astype(np.uint8)
        for i in range(n):
            flipped = rng.choice(8 * width, min(max(int(away[i]), 0), 8 * width), replace=False)
            bits = np.zeros(8 * width, np.uint8)
            bits[flipped] = rng.integers(0, 2, len(flipped)) if i % 2 else 1
            packed[i] ^= np.packbits(bits)
        return metrics.make("hamming"), packed
    signs = np.where(whole[np.arange(n), at] < 128, 1, -1)
    whole[np.arange(n), at] += away * signs * rng.integers(0, 2, n)
    if kind == "bytes":
        return Euclidean(), np.clip(whole, 0, 255).astype(np.uint8)
    return Euclidean(), (whole - 100).astype(np.float32)


def agree(metric: Metric, centres: Rows, rows: Rows, threshold: float) -> int:
    """Check a search against the plain one; return how many pairs are near."""
    fast, plain = make_search(metric, centres, threshold), Search(metric, centres, threshold)
    prepared = fast.prepare(rows)
    counts, found = fast.near(prepared)
    expected_counts, expected = plain.near(rows)
    assert counts.dtype == np.int64
    assert found.dtype == np.int32
    assert counts.tolist() == expected_counts.tolist()
    assert found.tolist() == expected.tolist()
    assert fast.leaders(prepared).tolist() == plain.leaders(rows).tolist()
    nothing = fast.prepare(rows[:0])
    for symbol in range(0, len(centres), 1 + len(centres) // 5):
        matches = plain.matches(rows, symbol)
        assert np.array_equal(fast.matches(prepared, symbol), matches)
        assert fast.has_match(prepared, symbol) == (len(matches) > 0)
        assert len(fast.matches(nothing, symbol)) == fast.has_match(nothing, symbol) == 0
    return len(found)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 2**32 - 1),
    st.integers(1, 90),
    st.sampled_from([1, 3, 15, 16, 17, 31, 33, 128, 130]),
    st.integers(0, 60),
)
def test_fast_searches_are_exact(kind: str, seed: int, n: int, width: int, step: int) -> None:
    metric, rows = clusters(kind, n, width, step, seed)
    agree(metric, rows[::2], rows, float(step))


@pytest.mark.parametrize("kind", KINDS)
def test_ties_are_near(kind: str) -> None:
    metric, rows = clusters(kind, 400, 40, 20)
    distances = metric.distances(rows, rows)
    assert (distances == 20).sum() > 50
    assert (distances == 21).sum() > 20
    assert agree(metric, rows, rows, 20.0) > len(rows)


def test_long_rows_are_sketched() -> None:
    """Otherwise the tests of this module would not reach the sketched search."""
    short, long = np.zeros((2, LENGTH), np.uint8), np.zeros((2, LENGTH + 1), np.uint8)
    assert isinstance(make_search(Euclidean(), short, 1.0), SortedSearch)
    assert isinstance(make_search(Euclidean(), long, 1.0), SketchedSearch)
    assert isinstance(make_search(metrics.make("hamming"), long, 1.0), SortedSearch)


@pytest.mark.parametrize("n", [1, 2, LANES - 1, LANES, LANES + 1, 2 * LANES + 3])
def test_any_number_of_centres(n: int) -> None:
    metric, rows = clusters("bytes", n + 40, 24, 9)
    agree(metric, rows[:n], rows, 9.0)
    agree(metric, rows[:n], rows[:0], 9.0)
    everything = agree(metric, rows[:n], rows, 1e6)
    assert everything == n * (n + 40)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [4, 128])
def test_nothing_is_near_without_centres(kind: str, width: int) -> None:
    metric, rows = clusters(kind, 30, width, 9)
    assert agree(metric, rows[:0], rows, 9.0) == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("threshold", [0.0, 3059.999, 3060.0, np.inf])
def test_black_and_white(dtype: type, threshold: float) -> None:
    """Rows as far apart as bytes can be: √(144 · 255²) = 3060."""
    rows: Rows = np.zeros((300, 144), dtype)
    rows[1::3] = 255
    rows[2::3, 1::2] = 255
    near = agree(Euclidean(), rows, rows, threshold)
    assert near == (100 * 100 * 3 if threshold == 0 else 300 * 300 - 20_000 * (threshold < 3060))


@pytest.mark.parametrize("scale", [1e-35, 1e-12, 1.0, 1e12, 1e28])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_any_magnitude(scale: float, offset: float) -> None:
    rng = np.random.default_rng(0)
    middle = rng.normal(size=(40, 30))[rng.integers(0, 40, 300)]
    rows = ((middle + 0.1 * rng.normal(size=(300, 30)) + offset) * scale).astype(np.float32)
    threshold = 0.7 * scale
    near = agree(Euclidean(), rows[:150], rows, threshold)
    assert 150 <= near < 300 * 150
    far = np.concatenate([rows, rows[:9] * np.float32(100), -rows[:9], 0 * rows[:9]])
    agree(Euclidean(), rows[:150], far, threshold)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_threads_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metric, rows = clusters(kind, 500, 33, 12)
    chosen = Search(metric, rows[:0], 12.0).leaders(rows)
    counts, symbols = Search(metric, rows[chosen], 12.0).near(rows)
    for block in (7, 64, 333, 8192):
        monkeypatch.setattr(module, "BLOCK", block)
        for threads in (1, 2, 3):
            vocabulary = Vocabulary(metric, 12.0)
            assert vocabulary.extend(rows, threads).tolist() == chosen.tolist()
            indptr, found = vocabulary.quantize(rows, threads)
            assert np.diff(indptr).tolist() == counts.tolist()
            assert found.tolist() == symbols.tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(17, 60), st.integers(1, 24), st.floats(-5, 5))
def test_sketches_of_near_rows_are_near(seed: int, width: int, rank: int, exponent: float) -> None:
    """Rows lie in few dimensions, so that a sketch loses nothing and only the margin helps."""
    rng = np.random.default_rng(seed)
    plane = rng.normal(size=(rank, width))
    rows = rng.normal(size=(60, rank)) @ plane * 10**exponent
    for i in range(1, len(rows), 2):
        threshold = float(np.sqrt(((rows[0] - rows[i]) ** 2).sum()))
        sketcher = Sketcher.fit(rows[::2], threshold)
        one, other = sketcher.sketch(rows[[0, i]])
        assert ((one - other) ** 2).sum() <= sketcher.limit


@pytest.mark.parametrize("rank", [0, 1, 5, LENGTH, 40])
def test_axes_are_orthogonal_and_the_main_ones(rank: int) -> None:
    rng = np.random.default_rng(rank)
    rows = rng.normal(size=(2000, rank)) * np.linspace(10, 1, rank) @ rng.normal(size=(rank, 60))
    spread = covariance(rows)
    axes = main_axes(spread)
    assert axes.shape == (60, LENGTH)
    assert np.abs(axes.T @ axes - np.eye(LENGTH)).max() < 1e-12
    most = np.linalg.eigvalsh(spread)[-LENGTH:].sum()
    assert np.trace(axes.T @ spread @ axes) >= (1 - 1e-12 if rank <= LENGTH else 0.97) * most - 1e-9
