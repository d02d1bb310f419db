from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc import Percepts
from tests.support.builders import pictures


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=30),
    st.sampled_from([0, 5 * 4 * 3 * 2, 10**9]),
    st.sampled_from([1, 3]),
)
def test_each_distinct_percept_is_stored_once(
    numbers: list[int], in_memory: int, channels: int
) -> None:
    images = pictures(7, shape=(5, 4, channels))
    percepts = Percepts(in_memory=in_memory)
    met: list[int] = []  # in the order in which they were met
    for number in numbers:
        if number not in met:
            met.append(number)
        assert percepts.add(images[number]) == met.index(number)
    assert len(percepts) == len(percepts.images[0]) == len(met)
    assert percepts.cameras == ("",)
    assert percepts.table().tolist() == [[i] for i in range(len(met))]
    for stored, number in zip(percepts, met, strict=True):
        assert np.array_equal(np.asarray(stored), images[number])
    order = np.random.default_rng(0).permutation(len(met))
    for i in order:  # in any order, also from the disk
        assert np.array_equal(np.asarray(percepts[int(i)]), images[met[i]])


def test_what_is_stored_does_not_change_with_the_callers_array() -> None:
    for in_memory in (0, 10**9):
        image = pictures(1)[0]
        kept = image.copy()
        percepts = Percepts(in_memory=in_memory)
        percepts.add(image)
        image[:] = 0
        assert np.array_equal(np.asarray(percepts[0]), kept)
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(percepts[0])[0, 0] = 1


def test_layout_in_memory_does_not_make_a_percept_another() -> None:
    image = pictures(1)[0]
    percepts = Percepts()
    locked = image.copy()
    locked.flags.writeable = False
    for same in (image, np.asfortranarray(image), image[::-1].copy()[::-1], locked):
        assert percepts.add(same) == 0
    assert percepts.add(np.rot90(image)) == 1


def test_grey_images_may_come_without_their_channel() -> None:
    percepts = Percepts()
    image = pictures(1, shape=(6, 5, 1))[0]
    assert percepts.add(image) == percepts.add(image[:, :, 0]) == 0
    assert np.asarray(percepts[0]).shape == (6, 5, 1)


@pytest.mark.parametrize("in_memory", [0, 300, 10**9])
def test_several_cameras_store_each_image_once(in_memory: int) -> None:
    ground, gauge = pictures(3, shape=(6, 8, 3)), pictures(2, 1, shape=(4, 4, 1))
    percepts = Percepts(in_memory=in_memory)
    pairs = [(0, 0), (1, 0), (1, 1), (0, 0), (2, 1), (1, 0)]
    numbers = [percepts.add({"ground": ground[i], "gauge": gauge[j]}) for i, j in pairs]
    assert numbers == [0, 1, 2, 0, 3, 1]
    assert percepts.cameras == ("gauge", "ground")
    assert [(i.camera, len(i)) for i in percepts.images] == [("gauge", 2), ("ground", 3)]
    assert percepts.table().tolist() == [[0, 0], [0, 1], [1, 1], [1, 2]]
    stored = percepts[2]
    assert isinstance(stored, dict)
    assert np.array_equal(stored["ground"], ground[1])
    assert np.array_equal(stored["gauge"], gauge[1])


def test_a_number_that_is_not_there_is_an_index_error() -> None:
    percepts = Percepts()
    percepts.add(pictures(1)[0])
    for number in (1, -1):
        message = f"^The store holds 1 percepts; there is no number {number}"
        with pytest.raises(IndexError, match=message):
            percepts[number]
        with pytest.raises(IndexError, match=r"^The store holds 1 images; there is no number "):
            percepts.images[0][number]


IMAGE = np.zeros((6, 5, 3), np.uint8)


@pytest.mark.parametrize(
    ("percept", "error", "message"),
    [
        (
            IMAGE.astype(np.float64), TypeError,
            r"^The dtype of the percept must be uint8; got float64\. Scale it to 0\.\.255",
        ),
        (IMAGE[:, :, :2], ValueError, r"^The shape of the percept must be .*; got \(6, 5, 2\)\.$"),
        (
            np.zeros((6, 5, 4), np.uint8), ValueError,
            r"^The shape of the percept must be \(height, width\), \(height, width, 1\) or "
            r"\(height, width, 3\); got \(6, 5, 4\)\.$",
        ),
        (IMAGE[None], ValueError, r"got \(1, 6, 5, 3\)\.$"),
        (IMAGE[:0], ValueError, r"got \(0, 5, 3\)\.$"),
        (IMAGE[:5], ValueError, r"^The shape of the percept must be \(6, 5, 3\), as before; got "
         r"\(5, 5, 3\)\. Resize the images to one size\.$"),
        (IMAGE[:, :, 0], ValueError, r"must be \(6, 5, 3\), as before; got \(6, 5, 1\)\."),
        ([1, 2], TypeError, r"^The type of the percept must be an array; got list\.$"),
        (
            (IMAGE, {}), TypeError,
            r"^The type of the percept must be an array; got tuple\. Unpack what env\.reset\(\)",
        ),
        ({"a": IMAGE}, ValueError, r"^The cameras of a percept must be \[''\], as before; got "
         r"\['a'\]\.$"),
    ],
)  # fmt: skip
def test_a_percept_of_another_kind_is_explained(
    percept: object, error: type[Exception], message: str
) -> None:
    percepts = Percepts()
    percepts.add(IMAGE)
    with pytest.raises(error, match=message):
        percepts.add(percept)
    assert len(percepts) == 1
    assert percepts.add(IMAGE) == 0


def test_the_camera_is_named() -> None:
    percepts = Percepts()
    percepts.add({"Front": IMAGE, "rear": IMAGE})
    with pytest.raises(TypeError, match=r"^The dtype of camera 'Front' must be uint8; got int64"):
        percepts.add({"Front": IMAGE.astype(np.int64), "rear": IMAGE})
    message = r"must be \['Front', 'rear'\], as before; got \['Front'\]\.$"
    with pytest.raises(ValueError, match=message):
        percepts.add({"Front": IMAGE})
    with pytest.raises(ValueError, match=r"^A percept must have at least one image; got an empty"):
        Percepts().add({})
