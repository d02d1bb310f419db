from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc.vision import Hamming, Mahalanobis
from rlvc.vision.metrics import metrics

EVERY = pytest.mark.parametrize("name", list(metrics))


def sample(name: str, n: int, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    if name == "hamming":
        return rng.integers(0, 256, (n, 4), dtype=np.uint8)
    return (rng.normal(size=(n, 5)) * [1, 10, 0.1, 3, 5] + 7).astype(np.float32)


def by_hand(name: str, a: NDArray[Any], b: NDArray[Any], fit: NDArray[Any]) -> float:
    if name == "hamming":
        return sum(bin(int(x) ^ int(y)).count("1") for x, y in zip(a, b, strict=True))
    difference = a.astype(np.float64) - b.astype(np.float64)
    if name == "mahalanobis":
        inverse = np.linalg.inv(np.cov(fit.astype(np.float64), rowvar=False))
        return float(np.sqrt(difference @ inverse @ difference))
    return float(np.sqrt((difference**2).sum()))


@EVERY
def test_distances_are_the_formula(name: str) -> None:
    rows, others = sample(name, 40), sample(name, 7, seed=1)
    metric = metrics.make(name).fit(rows)
    distances = metric.distances(rows, others)
    assert distances.shape == (40, 7)
    assert distances.dtype == np.float64
    for i in range(40):
        for j in range(7):
            expected = by_hand(name, rows[i], others[j], rows)
            assert distances[i, j] == pytest.approx(expected, rel=1e-6)


def test_mahalanobis_drops_directions_without_variation() -> None:
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(50, 3)).astype(np.float32)
    flat[:, 1] = 4.0
    flat[:, 2] = 0.0
    metric = Mahalanobis().fit(flat)
    expected = abs(flat[0, 0] - flat[1, 0]) / flat[:, 0].std(ddof=1)
    assert metric.distances(flat[:1], flat[1:2])[0, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_mahalanobis_of_equal_descriptors_is_euclidean(n: int) -> None:
    same = np.ones((n, 3), np.float32)
    away = same[:1] + np.array([[3, 4, 0]], np.float32)
    assert Mahalanobis().fit(same).distances(same[:1], away) == pytest.approx(np.array([[5.0]]))


def test_mahalanobis_must_be_fitted() -> None:
    rows = sample("mahalanobis", 3)
    message = r"^Mahalanobis must be fitted first; call fit\(descriptors\)\.$"
    with pytest.raises(ValueError, match=message):
        Mahalanobis().distances(rows, rows)


def test_hamming_wants_packed_bits() -> None:
    with pytest.raises(
        TypeError,
        match=r"^The descriptors of Hamming must be packed bits \(uint8\); got float32\. "
        r"Use a binary descriptor such as orb, or another metric\.$",
    ):
        Hamming().fit(sample("euclidean", 3))
