"""Shards on disk: what is written is what is read, shard by shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvc import RLVC, Database, Interactions, Percepts
from rlvc.shards.layout import read_about
from rlvc.shards.reading import ShardData, read_shard
from rlvc.shards.writing import cut_episodes, write_shards
from rlvc.vision.detectors import Harris
from tests.builders import pictures


def logged(
    n: int = 60, seed: int = 0, cameras: tuple[str, ...] = ("",), n_images: int = 12,
    n_actions: int = 3,
) -> Interactions:  # fmt: skip
    """Return episodes of several lengths; percepts share images where there are two cameras."""
    rng = np.random.default_rng(seed)
    images = {name: pictures(n_images, i, (48, 56, 3)) for i, name in enumerate(cameras)}
    percepts = Percepts()
    shown = []
    for _ in range(n + 1):
        which = {name: images[name][rng.integers(n_images)] for name in cameras}
        shown.append(percepts.add(which[""] if cameras == ("",) else which))
    terminated = rng.random(n) < 0.2
    truncated = ~terminated & (rng.random(n) < 0.05)
    truncated[-1] = not terminated[-1]
    ends = terminated | truncated
    action = rng.integers(0, n_actions, n)
    start, end = np.asarray(shown[:-1]), np.asarray(shown[1:])
    reward = ((start + action) % 3 == 0).astype(np.float64) - rng.random(n) / 8
    return Interactions(
        percepts, start, action, reward, end, np.cumsum(ends) - ends, terminated, truncated,
        n_actions,
    )  # fmt: skip


def looked(interactions: Interactions) -> Database:
    return RLVC(detector=Harris(threshold=1e-3), threads=1).look(interactions)


def equal(one: Any, other: Any) -> bool:
    """Tell whether arrays are the same to the last bit."""
    return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())


def check_shard(data: ShardData, database: Database, first: int, seen: set[int]) -> None:
    """Hold a shard against the database that it was written from."""
    whole, rows = database.interactions, slice(first, first + len(data))
    assert equal(data.percepts[data.start], whole.start[rows])
    assert equal(data.percepts[data.end], whole.end[rows])
    for name in ("action", "reward", "episode", "terminated", "truncated"):
        assert equal(getattr(data, name), getattr(whole, name)[rows])
    assert equal(data.stuck, whole.is_stuck[rows])
    assert data.is_first.tolist() == [one not in seen for one in data.percepts.tolist()]
    sightings = database.sightings
    for i, (images, places) in enumerate(zip(data.images, sightings.places, strict=True)):
        assert equal(images.numbers[data.table[:, i]], sightings.table[data.percepts, i])
        numbers = sightings.graph.symbols(sightings.cameras[i])
        assert images.n_symbols == len(numbers)
        assert images.size == places.size
        for local, image in enumerate(images.numbers.tolist()):
            ours = slice(images.begin[local], images.begin[local + 1])
            theirs = slice(places.begin[image], places.begin[image + 1])
            assert equal(numbers[images.symbol[ours]], places.feature[theirs])
            assert equal(images.marks[ours], places.marks[theirs])


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 80), shards=st.integers(1, 5),
    two=st.booleans(), n_images=st.integers(1, 12),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, shards: int, two: bool,
    n_images: int,
) -> None:  # fmt: skip
    cameras = ("left", "right") if two else ("",)
    database = looked(logged(n, seed, cameras, n_images))
    n_episodes = len(np.unique(database.interactions.episode))
    folder = tmp_path_factory.mktemp("data") / "shards"
    about = write_shards(database, folder, min(shards, n_episodes))
    assert read_about(folder) == about
    first, seen = 0, set[int]()
    for number in range(len(about.shards)):
        data = read_shard(folder, number)
        check_shard(data, database, first, seen)
        assert not set(data.episode.tolist()) & set(database.interactions.episode[:first].tolist())
        first += len(data)
        seen |= set(data.percepts.tolist())
    assert first == len(database.interactions)
    assert seen == set(range(len(database.interactions.percepts)))


def test_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvc.shards.writing.BLOCK", 4)
    monkeypatch.setattr("rlvc.shards.writing.GROUP", 2)
    database = looked(logged(cameras=("left", "right")))
    about = write_shards(database, tmp_path / "shards", 3)
    assert [(block.camera, block.first) for block in about.blocks] == [
        (0, 0), (0, 4), (0, 8), (1, 0), (1, 4), (1, 8)
    ]  # fmt: skip
    first, seen = 0, set[int]()
    for number in range(3):
        data = read_shard(tmp_path / "shards", number)
        check_shard(data, database, first, seen)
        first += len(data)
        seen |= set(data.percepts.tolist())


def test_shards_are_balanced() -> None:
    episode = np.repeat(np.arange(100), 10)
    assert cut_episodes(episode, 4).tolist() == [0, 250, 500, 750, 1000]
    uneven = np.repeat([5, 3, 9], [97, 1, 2])
    assert cut_episodes(uneven, 3).tolist() == [0, 97, 98, 100]
    with pytest.raises(ValueError, match="between 1 and 3, as there are so many episodes; got 4"):
        cut_episodes(uneven, 4)
