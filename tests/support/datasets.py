"""Small interactions for tests of files and shards."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rlvc import Interactions, Percepts
from tests.support.builders import blocks, pictures
from tests.support.photographs import write_picture


def views(n: int = 40, seed: int = 0, cameras: tuple[str, ...] = ("",)) -> Interactions:
    """Return walks over patchworks, in which what was seen comes back from elsewhere."""
    rng = np.random.default_rng(seed)
    scene = {name: blocks(i, (96, 420, 3)) for i, name in enumerate(cameras)}
    x = 4 * rng.integers(0, 80, n + 1)
    seen = {name: np.stack([one[:, a : a + 100] for a in x]) for name, one in scene.items()}
    action, ends = rng.integers(0, 2, n), rng.random(n) < 0.2
    ends[-1] = True
    before = {name: one[:-1] for name, one in seen.items()}
    after = {name: one[1:] for name, one in seen.items()}
    single = cameras == ("",)
    return Interactions.from_arrays(
        before[""] if single else before, action, (x[:-1] > 160) == action, ends,
        next_observations=after[""] if single else after, n_actions=2, action_names=("a", "b"),
    )  # fmt: skip


def any_episodes(seed: int, shape: tuple[int, ...]) -> Interactions:
    """Return whole episodes of any lengths, with any rewards, actions and names."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    images = pictures(3, seed, shape)
    here = rng.integers(0, 3, n + 1)
    there = here[1:].copy()
    terminated, truncated = rng.random((2, n)) < 0.3
    truncated[-1] = True
    ends = terminated | truncated
    there[ends] = rng.integers(0, 3, ends.sum())
    n_actions, start = int(rng.integers(1, 4)), int(rng.integers(-3, 4))
    reward = rng.normal(size=n) * 10.0 ** rng.integers(-90, 90, n)
    return Interactions.from_arrays(
        images[here[:-1]], rng.integers(0, n_actions, n) + start, reward, terminated, truncated,
        next_observations=images[there], n_actions=n_actions, action_start=start,
        action_names=tuple(f"a{i} é" for i in range(n_actions)) if rng.random() < 0.5 else (),
    )  # fmt: skip


def logged(
    n: int = 60, seed: int = 0, cameras: tuple[str, ...] = ("",), n_images: int = 12,
    n_actions: int = 3,
) -> Interactions:  # fmt: skip
    """Return episodes of several lengths; percepts share images where there are two cameras."""
    rng = np.random.default_rng(seed)
    images = {
        name: [blocks(100 * i + k, (64, 72, 3)) for k in range(n_images)]
        for i, name in enumerate(cameras)
    }
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


HEADER = "episode,step,image,action,reward,terminated,truncated"


def write_images(folder: Path, n: int = 3, shape: tuple[int, ...] = (6, 5, 3)) -> None:
    for number, image in enumerate(pictures(n, shape=shape)):
        write_picture(folder / f"{number}.png", image)


def write_table(folder: Path, rows: str, header: str = HEADER) -> Path:
    (folder / "table.csv").write_text(f"{header}\n{rows.strip()}\n", "utf-8")
    return folder


def chain(**changed: Any) -> Interactions:
    """Return two episodes, of two and one interactions, with some columns replaced."""
    images = pictures(3, shape=(4, 4, 3))
    data = Interactions.from_arrays(
        images[[0, 1, 0]], [0, 1, 1], [0, 0, 1], [False, True, True],
        next_observations=images[[1, 2, 2]], n_actions=2,
    )  # fmt: skip
    columns = {name: getattr(data, name) for name in data.__dataclass_fields__}
    return Interactions(**(columns | changed))


@contextmanager
def limited(n_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size; Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
