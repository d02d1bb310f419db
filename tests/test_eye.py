from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rlvc import RLVC, Percepts, collect
from rlvc.vision.choosing import CAMERA, DRAWN
from rlvc.vision.eye import Eye, Looks
from rlvc.vision.memory import Memory
from tests.builders import blocks
from tests.worlds import PICTURES, Corridor

IMAGES = [blocks(seed, (64, 64, 3)) for seed in range(7)]


def fill(percepts: Percepts, first: int, last: int) -> None:
    for image in IMAGES[first:last]:
        percepts.add({"left": image, "right": image[:, :48]})


def same(one: list[Looks], other: list[Looks]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a.begin, b.begin)
        and np.array_equal(a.points.xy, b.points.xy)
        and np.array_equal(a.points.scale, b.points.scale)
        and np.array_equal(a.descriptors, b.descriptors)
        and np.array_equal(a.row, b.row)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("sense", [DRAWN, CAMERA], ids=["drawn", "camera"])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_was_seen_before_is_not_looked_at_again(sense: Any, threads: int) -> None:
    percepts, memory, looked = Percepts(), Memory(), list[int]()
    for first, last in ((0, 3), (3, 4), (4, 4), (4, 7)):
        fill(percepts, first, last)
        eye: Eye = sense.new_eye()
        n_new = 2 * (last - first)
        assert memory.n_new(eye, percepts) == n_new
        looked.clear()
        looks = memory.look(eye, percepts, threads, lambda: looked.append(1))
        assert len(looked) == n_new
        assert memory.n_new(eye, percepts) == 0
        assert same(looks, eye.look_at_all(percepts))


def test_what_was_seen_stays_as_it_was() -> None:
    percepts, memory = Percepts(), Memory()
    fill(percepts, 0, 3)
    eye = DRAWN.new_eye()
    before = memory.look(eye, percepts)
    kept = [one.begin.copy() for one in before]
    assert memory.look(eye, percepts)[0] is before[0]  # nothing is new
    fill(percepts, 3, 7)
    memory.look(eye, percepts)
    assert all(np.array_equal(one.begin, begin) for one, begin in zip(before, kept, strict=True))


def test_another_eye_looks_at_everything() -> None:
    percepts, memory = Percepts(), Memory()
    fill(percepts, 0, 4)
    memory.look(DRAWN.new_eye(), percepts)
    camera = CAMERA.new_eye()
    assert memory.n_new(camera, percepts) == 8
    assert same(memory.look(camera, percepts), camera.look_at_all(percepts))
    assert memory.n_new(DRAWN.new_eye(), percepts) == 8  # it remembers one kind at a time


def test_images_without_points_are_known_as_well() -> None:
    percepts, memory, looked = Percepts(), Memory(), list[int]()
    for level in range(3):
        percepts.add(np.full((64, 64, 3), level, np.uint8))
    memory.look(DRAWN.new_eye(), percepts)
    percepts.add(IMAGES[0])
    looks = memory.look(DRAWN.new_eye(), percepts, 1, lambda: looked.append(1))
    assert len(looked) == 1
    assert looks[0].begin[:4].tolist() == [0, 0, 0, 0]
    assert looks[0].begin[4] == len(looks[0].row) > 0


@dataclass(frozen=True)
class Counting:
    """A detector that counts what it looks at."""

    seen: list[int]

    def detect(self, image: Any) -> Any:
        self.seen.append(1)
        return DRAWN.detector.detect(image)


def test_rounds_look_at_every_percept_once() -> None:
    detector = Counting([])
    learner = RLVC(gamma=0.5, threads=1, detector=detector, descriptor=DRAWN.descriptor,
                   metric=DRAWN.metric, threshold=0.2)  # fmt: skip
    learner.learn(Corridor(), interactions=200, rounds=4, epsilon=1.0)  # no policy looks as well
    assert len(detector.seen) == 5
    memory, data = Memory(), collect(Corridor(), 100)
    one, other = learner.look_again(data, memory), learner.look(data)
    assert np.array_equal(one.incidence.indices, other.incidence.indices)
    assert len(data.percepts) == 5 < len(PICTURES)
    detector.seen.clear()
    learner.look_again(collect(Corridor(), 200), memory)
    assert detector.seen == []
