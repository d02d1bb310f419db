from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvc import Interactions, Percepts
from rlvc.errors import FileFormatError
from rlvc.runs import Examples
from rlvc.runs import examples as examples_module
from tests.support.builders import percept_store
from tests.support.mutations import forge, loader


def met(percepts: Percepts, start: Any) -> Interactions:
    """Return interactions with given starts."""
    start = np.asarray(start, np.int64)
    n = len(start)
    return Interactions(
        percepts=percepts, start=start, action=np.zeros(n, np.int64), reward=np.zeros(n),
        end=np.zeros(n, np.int64), episode=np.arange(n), terminated=np.ones(n, np.bool_),
        truncated=np.zeros(n, np.bool_), n_actions=1,
    )  # fmt: skip


def number(percept: Any) -> int:
    """Return which of the percepts of ``percept_store`` this is."""
    return int(percept[0, 0, 0]) + 256 * int(percept[0, 1, 0])


def two_cameras() -> Percepts:
    """Return six percepts of two cameras, with two and three images."""
    percepts = Percepts()
    for i in range(6):
        rear, front = np.full((2, 3, 1), i % 2, np.uint8), np.full((4, 2, 3), i % 3, np.uint8)
        percepts.add({"rear": rear, "front": front})
    return percepts


# Choosing ----------------------------------------------------------------------------------------

problems = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, n - 1), min_size=1, max_size=80),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
        st.integers(1, 12),
    )
)


@given(problems)
def test_classes_take_turns_and_give_what_was_met_most(
    problem: tuple[list[int], list[int], int],
) -> None:
    start, classes, n = problem
    chosen = Examples.choose(met(percept_store(len(classes)), start), np.asarray(classes), n)
    numbers = [number(percept) for percept in chosen.percepts]
    times = Counter(start)
    assert len(set(numbers)) == len(numbers) == min(n, len(times))
    assert chosen.count.tolist() == [times[one] for one in numbers]
    assert chosen.classes is not None
    assert chosen.classes.tolist() == [classes[one] for one in numbers]
    size = Counter(classes[one] for one in start)
    left = [{one for one in times if classes[one] == c} for c in range(5)]
    turns = [c for c, _ in sorted(size.items(), key=lambda item: (-item[1], item[0]))]
    while numbers:
        for c in [c for c in turns if left[c]]:
            if not numbers:
                break
            one = numbers.pop(0)
            assert classes[one] == c
            assert times[one] == max(times[other] for other in left[c])
            left[c].remove(one)


def test_the_choice_is_always_the_same_and_comes_from_everywhere() -> None:
    data = met(percept_store(1000), np.arange(1000))
    classes = np.zeros(1000, np.int64)
    one, other = (Examples.choose(data, classes, 50) for _ in range(2))
    numbers = [number(percept) for percept in one.percepts]
    assert numbers == [number(percept) for percept in other.percepts]
    assert {n // 250 for n in numbers} == {0, 1, 2, 3}


def test_there_is_not_more_than_a_report_bears(monkeypatch: pytest.MonkeyPatch) -> None:
    data = met(percept_store(300), np.arange(300))
    assert len(Examples.choose(data, np.zeros(300, np.int64)).percepts) == 240
    monkeypatch.setattr(examples_module, "MAX_BYTES", 21)  # each has two
    assert len(Examples.choose(data, np.zeros(300, np.int64)).percepts) == 10
    monkeypatch.setattr(examples_module, "MAX_BYTES", 1)
    assert len(Examples.choose(data, np.zeros(300, np.int64)).percepts) == 1


def test_images_that_percepts_share_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = met(two_cameras(), np.arange(6))
    monkeypatch.setattr(examples_module, "MAX_BYTES", 2 * 6 + 3 * 24)
    chosen = Examples.choose(data, np.zeros(6, np.int64))
    assert len(chosen.percepts) == 6
    assert [len(images) for images in chosen.percepts.images] == [3, 2]


# The file ----------------------------------------------------------------------------------------


def some(cameras: int = 1) -> Examples:
    percepts = percept_store(6) if cameras == 1 else two_cameras()
    return Examples.choose(met(percepts, [0, 1, 1, 2, 3, 4, 5, 5]), np.array([0, 1, 0, 1, 0, 2]))


@pytest.mark.parametrize("cameras", [1, 2])
@pytest.mark.parametrize("with_classes", [True, False])
def test_saving_and_loading_changes_nothing(
    cameras: int, with_classes: bool, tmp_path: Path
) -> None:
    first = some(cameras)
    first = first if with_classes else Examples(first.percepts, first.count)
    first.save(tmp_path / "a")
    second = Examples.load(tmp_path / "a")
    np.testing.assert_equal([*second.percepts], [*first.percepts])
    np.testing.assert_equal([second.count, second.classes], [first.count, first.classes])
    second.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.fixture(scope="module", name="saved")
def saved_fixture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("examples") / "e"
    some(2).save(path)
    return path.read_bytes()


loads = loader(Examples.load)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "rlvc-policy"}, {"version": 2}, {"cameras": []}, {"cameras": None},
        {"cameras": ["front"]}, {"cameras": ["rear", "front"]}, {"cameras": ["a", "a"]},
        {"cameras": ["front", 3]}, {"cameras": ["a", "b", "c"]}, {"cameras": "ab"},
        {"cameras": {"a": 1, "b": 2}},
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_manifest_is_refused(saved: bytes, change: dict[str, Any], tmp_path: Path) -> None:
    assert loads(forge(saved, {}, {}), tmp_path / "same") is not None
    assert loads(forge(saved, change, {}), tmp_path / "forged") is None


def test_forged_arrays_are_refused(saved: bytes, tmp_path: Path) -> None:
    good = some(2)
    table, count = good.percepts.table(), good.count
    front = np.stack([good.percepts.images[0][i] for i in range(3)])
    last = front[[0, 1, 1]]
    for arrays in (
        {"table": table[:-1]}, {"table": table[:, :1]}, {"table": table.ravel()},
        {"table": table + 1}, {"table": table - 1}, {"table": table * 0}, {"table": table[:0]},
        {"table": table.astype(np.int32)}, {"table": table[[0, *range(len(table) - 1)]]},
        {"table": table[::-1]}, {"count": count[:-1]}, {"count": count.astype(float)},
        {"count": count * 0}, {"count": count[:, None]}, {"classes": count[1:]},
        {"classes": -count}, {"images/0": front[:-1]}, {"images/0": front[..., :2]},
        {"images/0": front.astype(np.int16)}, {"images/0": front[0]}, {"images/0": front[:, :0]},
        {"images/0": last}, {"images/0": np.concatenate([front, front])},
        {"images/0": front[..., None]},
    ):  # fmt: skip
        assert loads(forge(saved, {}, arrays), tmp_path / "forged") is None, arrays
    without = loads(forge(saved, {}, {}, "classes"), tmp_path / "less")
    assert without is not None
    assert without.classes is None


def test_the_refusal_says_why(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_bytes(forge(saved, {}, {"images/0": np.zeros((3, 4, 2, 2), np.uint8)}))
    with pytest.raises(FileFormatError) as error:
        Examples.load(path)
    assert str(error.value) == (
        f"{path} does not hold a set of examples: its images of camera 'front' do not fit the rest"
    )
