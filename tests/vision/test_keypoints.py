from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc.vision.keypoints import GrowableArray, UniqueRows, unique_rows


def test_descriptors_of_another_kind_are_refused() -> None:
    rows = UniqueRows(np.empty((0, 2), np.uint8))
    rows.add(np.array([[1, 2]], np.uint8))
    with pytest.raises(ValueError, match="must have 2 numbers each, as before; got 3"):
        rows.add(np.array([[1, 2, 3]], np.uint8))
    with pytest.raises(TypeError, match="must be of uint8, as before; got float32"):
        rows.add(np.array([[1, 2]], np.float32))


@given(st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=60))
def test_distinct_rows_are_numbered_by_first_occurrence(parts: list[list[int]]) -> None:
    rows, column = UniqueRows(np.empty((0, 3), np.float32)), GrowableArray(np.empty(0, np.int32))
    numbers: dict[int, int] = {}
    for part in parts:
        block = np.array([[0, value, -value] for value in part], np.float32)
        column.add(rows.add(block.reshape(-1, 3)))
        for value in part:
            numbers.setdefault(value, len(numbers))
    assert column.finish().tolist() == [numbers[value] for part in parts for value in part]
    assert rows.finish()[:, 1].tolist() == list(numbers)


def test_many_distinct_rows_are_found_again() -> None:
    rows = np.arange(20_000, dtype=np.int32).reshape(-1, 1).view(np.uint8)
    found = UniqueRows(rows)
    for first in range(0, len(rows), 700):  # so that the table grows on the way
        part = rows[first : first + 700]
        assert found.add(part).tolist() == list(range(first, first + len(part)))
    assert np.array_equal(found.add(rows[::-1]), np.arange(20_000)[::-1])
    assert np.array_equal(found.finish(), rows)
    assert np.array_equal(unique_rows(rows)[1], np.arange(20_000))
