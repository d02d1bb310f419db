from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Database, Policy
from rlvc.features import InCell
from rlvc.learning.generation.base import Canonical, Generator
from rlvc.learning.generation.composites import Composites
from tests.learning.generation.test_composites import Case, new_of
from tests.oracle import composites as oracle
from tests.oracle.rlvc import TooCloseError
from tests.support.marks import RED, SIDE, act

seeds = st.integers(0, 2**32 - 1)


# Candidates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [1, 2, 3])
@pytest.mark.parametrize("cameras", [("",), ("left", "right")], ids=["one", "two"])
def test_candidates_are_the_features_in_cells_that_distinguish_images(
    cameras: tuple[str, ...], grid: int
) -> None:
    n_checked = 0
    for seed in range(12):
        case = Case.draw(np.random.default_rng(seed), cameras)
        rules = Composites(grid=grid, pairs=0, height=1 + seed % 3)
        for c in range(case.n_classes):
            try:
                expected = [
                    one
                    for camera in cameras
                    for one in oracle.located(case.graph.features, case.shown(c, camera), rules)
                ]
            except (TooCloseError, oracle.TooManyError):
                continue
            assert list(case.propose(rules, [c]).new) == expected
            n_checked += len(expected)
    assert n_checked > 100


@settings(deadline=None, max_examples=40)
@given(seed=seeds)
def test_cells_are_offered_beside_pairs(seed: int) -> None:
    case = Case.draw(np.random.default_rng(seed), ("left", "right"))
    both, pairs, cells = (
        case.propose(Composites(support=0.0, grid=grid, pairs=pairs))
        for grid, pairs in ((2, 8), (0, 8), (2, 0))
    )
    assert set(both.new) == {*pairs.new, *cells.new}
    assert len(both.new) == len(pairs.new) + len(cells.new)
    assert all(isinstance(one, InCell) for one in cells.new)
    for row in range(len(case.classes)):
        assert new_of(both, row) == new_of(pairs, row) + new_of(cells, row)


def test_cells_of_a_simple_example() -> None:
    case = Case.of([[(0, 10, 10)], [(0, 10, 40)], [(0, 50, 10), (1, 50, 50)], []])
    proposed = case.propose(Composites(together=False, grid=1, pairs=0))
    assert list(proposed.new) == [
        InCell(part=0, level=1, column=0, line=0),
        InCell(part=0, level=1, column=1, line=0),
        InCell(part=0, level=1, column=0, line=1),
        InCell(part=1, level=1, column=1, line=1),
    ]
    rows = [proposed.incidence.row(row).tolist() for row in range(4)]
    assert rows == [[2], [4], [3, 5], []]


def test_what_all_images_show_in_a_cell_is_no_candidate() -> None:
    case = Case.of([[(0, 3, 3)], [(0, 20, 20)], [(0, 3, 3), (0, 20, 20)]])
    assert not case.propose(Composites(grid=1, pairs=0)).new
    finer = case.propose(Composites(grid=2, pairs=0)).new
    cells = [(one.level, one.column, one.line) for one in finer if isinstance(one, InCell)]
    assert cells == [(2, 0, 0), (2, 1, 1)]


def test_what_lies_outside_the_frame_is_in_the_nearest_cell() -> None:
    case = Case.of([[(0, -5, 10)], [(0, 70, 10)], [(0, 64, 64)], [(0, 10, 99)]])
    for grid in (1, 3):
        proposed = case.propose(Composites(together=False, grid=grid, pairs=0))
        found, numbers = case.index.add(proposed.new)
        n = 2**grid - 1
        corners = {
            (0, 10 * (n + 1) // 64),
            (n, 10 * (n + 1) // 64),
            (n, n),
            (10 * (n + 1) // 64, n),
        }
        finest = {
            (one.column, one.line)
            for one in proposed.new
            if isinstance(one, InCell) and one.level == grid
        }
        assert finest == corners
        for row in range(4):
            added = [n for n in found.incidence.row(row).tolist() if n in numbers]
            assert len(added) == grid
            assert proposed.incidence.row(row).tolist() == added


def test_one_image_has_no_candidates() -> None:
    case = Case.of([[(0, 3, 3)], [(0, 50, 50)], [(0, 50, 3)]], [0, 1, 1])
    rules = Composites(grid=5, pairs=0)
    assert not case.propose(rules, [0]).new
    assert len(case.propose(rules, [1]).new) == 2 * 5


def test_thousands_of_points_are_in_few_cells() -> None:
    rng = np.random.default_rng(0)
    images: list[list[tuple[float, ...]]] = [
        [(0, x, y) for x, y in rng.uniform(0.0, side, (3000, 2)).astype(np.float32).tolist()]
        for side in (64.0, 32.0)
    ]
    case = Case.of(images)
    proposed = case.propose(Composites(grid=5, pairs=0, candidates=10**6))
    assert 3 * 4**4 < len(proposed.new) <= sum(4**level for level in range(1, 6))
    rows = [set(new_of(proposed, row)) for row in range(2)]
    assert rows[0] | rows[1] == {*proposed.new}
    assert not rows[0] & rows[1]


# What is learned ---------------------------------------------------------------------------------

CENTRES = (25, 48, 80, 103)  # of the columns and lines of marks, one for each cell of 32 pixels


def draw_places(seed: int, n: int) -> tuple[list[NDArray[np.uint8]], list[int]]:
    """Draw one mark in each picture; every second column asks for action 1."""
    rng = np.random.default_rng(seed)
    pictures, right = [], []
    for column in range(4):
        for line in range(n):
            x = CENTRES[column] + int(rng.integers(-2, 3))
            y = CENTRES[line % 4] + int(rng.integers(-2, 3))
            picture = np.full((SIDE, SIDE, 3), 128, np.uint8)
            picture[y - 3 : y + 4, x - 3 : x + 4] = RED
            pictures.append(picture)
            right.append(column % 2)
    return pictures, right


PICTURES, RIGHT = draw_places(0, 10)


@pytest.fixture(scope="module")
def extracted() -> Database:
    return RLVC(threads=1).extract(act(PICTURES, RIGHT))


@pytest.fixture(scope="module")
def policy(extracted: Database) -> Policy:
    return RLVC(generator=Composites(grid=2, pairs=0), threads=1).learn(extracted)


@pytest.mark.parametrize("generator", [Canonical(), Composites()], ids=["canonical", "pairs"])
def test_without_cells_places_look_alike(generator: Generator, extracted: Database) -> None:
    assert RLVC(generator=generator, threads=1).learn(extracted).n_classes == 1


def test_cells_distinguish_places(policy: Policy) -> None:
    assert policy.predict(np.stack(PICTURES))[0].tolist() == RIGHT
    others, right = draw_places(1, 20)
    assert policy.predict(np.stack(others))[0].tolist() == right
    assert any(isinstance(one, InCell) and one.level == 2 for one in policy.features)


@pytest.mark.parametrize("together", [False, True])
def test_cells_may_be_tried_with_all_else(together: bool, extracted: Database) -> None:
    rules = Composites(grid=2, together=together)
    policy = RLVC(generator=rules, threads=1).learn(extracted)
    assert policy.predict(np.stack(PICTURES))[0].tolist() == RIGHT


def test_a_policy_with_cells_is_saved_and_explains_itself(policy: Policy, tmp_path: Path) -> None:
    policy.save(tmp_path / "policy")
    loaded = Policy.load(tmp_path / "policy")
    assert loaded.features == policy.features
    for picture, right in zip(PICTURES, RIGHT, strict=True):
        assert loaded.predict(picture)[0] == right
        explanation = policy.explain(picture)
        assert str(loaded.explain(picture)) == str(explanation)
        assert math.isfinite(explanation.q.max())
        for test in explanation.tests:
            if isinstance(test.feature, InCell) and test.exhibited:
                view = oracle.View(SIDE, SIDE)
                for x, y in test.occurrences.tolist():
                    assert oracle.is_inside(oracle.Point(x, y, 1.0, 0.0), test.feature, view)
