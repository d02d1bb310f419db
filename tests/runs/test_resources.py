from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from rlvc import RLVC, Interactions
from rlvc.data.percepts import IN_MEMORY
from rlvc.data.spaces import shapes_of
from rlvc.runs import ResourceEstimate, estimate_collection, estimate_learning
from rlvc.runs.resources import (
    MB,
    PIXEL,
    PROGRAM,
    CameraStatistics,
    usable_memory,
)
from rlvc.runs.resources import estimate_resources as estimate
from rlvc.vision import Harris, Orb, Sift
from tests.support.builders import blocks

CAMERA = CameraStatistics((480, 640, 3), 1000, 100.0)


def set_free(
    monkeypatch: pytest.MonkeyPatch, memory: int = 10**15, disk: int = 10**15, other: int = 10**15
) -> None:
    """Set how much memory there is, and how much disk is free for results and temporary files."""

    def usage(place: Path) -> SimpleNamespace:
        return SimpleNamespace(free=other if place == Path(tempfile.gettempdir()) else disk)

    monkeypatch.setattr("rlvc.runs.resources.usable_memory", lambda: memory)
    monkeypatch.setattr("rlvc.runs.resources.shutil.disk_usage", usage)


def data(n: int = 12, *, seed: int = 0) -> Interactions:
    images = np.stack([blocks(seed + number, (64, 64, 3)) for number in range(n)])
    return Interactions.from_arrays(
        images, np.arange(n) % 2, np.arange(n) % 3, np.arange(n) % 4 == 3,
        next_observations=np.roll(images, -1, axis=0),
    )  # fmt: skip


def test_an_estimate_grows_with_what_there_is() -> None:
    base = estimate([CAMERA], 1)
    assert base.memory > PROGRAM + IN_MEMORY + 1000 * 100 * 128
    assert base.disk > 1000 * 100 * 128
    assert base.temporary >= 1000 * 480 * 640 * 3 - IN_MEMORY
    for other in (
        estimate([replace(CAMERA, images=2000)], 1),
        estimate([replace(CAMERA, points=200.0)], 1),
        estimate([CAMERA], 3),
        estimate([CAMERA, CAMERA], 1),
        estimate([CAMERA], 1, trees=25),
    ):
        assert other.memory > base.memory
    assert estimate([CAMERA], 3).memory - base.memory == 2 * PIXEL * 480 * 640
    assert estimate([CAMERA], 1, trees=25) == estimate([CAMERA], 1, trees=1)  # one at a time
    assert estimate([CAMERA], 4, trees=25).memory > estimate([CAMERA], 4, trees=2).memory
    assert estimate([CAMERA], 1, keeps_images=True).disk > base.disk + 100 * MB
    assert estimate([replace(CAMERA, unique=0.1)], 1).memory < base.memory


def test_few_small_images_need_no_temporary_file() -> None:
    needs = estimate([CameraStatistics((64, 64, 3), 10, 0.0)], 1)
    assert needs.temporary == 0
    assert needs.memory == pytest.approx(PROGRAM, rel=0.02)


def test_an_estimate_before_anything_is_collected() -> None:
    learner, space = RLVC(threads=2), spaces.Box(0, 255, (480, 640, 3), np.uint8)
    whole = estimate_collection(space, 1000, learner)
    assert estimate_collection(space, 2000, learner).memory > whole.memory
    assert estimate_collection(spaces.Dict(a=space, b=space), 1000, learner).memory > whole.memory
    assert estimate_collection(space, 1000, learner, images=50).memory < whole.memory
    few = estimate_collection(space, 50, learner)
    assert estimate_collection(space, 50, learner, images=1000) == few
    # A detector that is not chosen yet counts as the one that needs most.
    harris, sift, little, much = (
        estimate_collection(space, 1000, replace(learner, detector=one)).memory
        for one in (Harris(), Sift(), Orb(max_points=10), Orb(max_points=5000))
    )
    assert whole.memory == max(harris, sift)
    assert little < much


def test_an_estimate_depends_on_the_images() -> None:
    plain, rich = (estimate_learning(data(n), RLVC(threads=1)) for n in (12, 60))
    assert plain.memory < rich.memory
    assert plain.temporary < rich.temporary < 60 * 64 * 64 * 3 * 20  # patches of symbols
    sample, space = data(), spaces.Box(0, 255, (64, 64, 3), np.uint8)
    more = estimate_collection(space, 100_000, RLVC(threads=1), sample=sample)
    assert more.temporary > 100_000 * 64 * 64 * 3 - IN_MEMORY
    assert plain.memory < more.memory
    assert more.memory != estimate_collection(space, 100_000, RLVC(threads=1)).memory
    blank = Interactions.from_arrays(
        np.zeros((2, 64, 64), np.uint8), [0, 1], [0, 1], [True, True],
        next_observations=np.zeros((2, 64, 64), np.uint8),
    )  # fmt: skip
    assert estimate_learning(blank, RLVC(threads=1)).memory == pytest.approx(PROGRAM, rel=0.02)


def test_shapes_come_from_the_space() -> None:
    image, speed = spaces.Box(0, 255, (48, 64, 3), np.uint8), spaces.Box(-1, 1, (2,), np.float32)
    assert shapes_of(image) == {"": (48, 64, 3)}
    assert shapes_of(spaces.Dict(left=image, speed=speed)) == {"left": (48, 64, 3)}


def test_the_description_says_how_much_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, memory=21_000 * MB)
    needs = ResourceEstimate(800 * MB, 300 * MB, 19_000 * MB)
    said = needs.describe(Path("runs/maze"))
    assert said.startswith("This needs about 0.8 GB of memory (21 GB are free) and 0.3 GB of disk ")
    assert said.endswith(f"in runs/maze, and 19 GB in {tempfile.gettempdir()} for a while.")
    assert needs.describe(at_most=True).startswith("This needs at most 0.8 GB of memory and 0.3 GB")


def test_what_cannot_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ResourceEstimate(40_000 * MB, 3000 * MB, 5000 * MB)
    set_free(monkeypatch)
    needs.check(tmp_path)
    set_free(monkeypatch, memory=20_000 * MB)
    with pytest.raises(MemoryError, match=r"about 40 GB of memory; 20 GB are free"):
        needs.check(tmp_path)
    set_free(monkeypatch, disk=2000 * MB)
    with pytest.raises(OSError, match=r"of disk; 2.0 GB are free") as full:
        needs.check(tmp_path)
    assert str(full.value).endswith(f"--out): {tmp_path}.")
    set_free(monkeypatch, other=4000 * MB)
    with pytest.raises(OSError, match=r"about 5.0 GB for temporary files; 4.0 GB.*TMPDIR") as full:
        needs.check(tmp_path)
    assert str(full.value).endswith(f"TMPDIR: {tempfile.gettempdir()}.")


@pytest.mark.parametrize("is_one_disk", [True, False])
def test_results_and_temporary_files_may_be_on_one_disk(
    is_one_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stat(place: Path) -> SimpleNamespace:
        return SimpleNamespace(st_dev=0 if is_one_disk or place == tmp_path else 1)

    needs = ResourceEstimate(40_000 * MB, 3000 * MB, 5000 * MB)
    set_free(monkeypatch, disk=7000 * MB, other=7000 * MB)
    monkeypatch.setattr(Path, "stat", stat)
    if is_one_disk:
        with pytest.raises(OSError, match=r"about 8.0 GB of disk; 7.0 GB are free"):
            needs.check(tmp_path)
    else:
        needs.check(tmp_path)


def test_this_machine_has_space_for_little(tmp_path: Path) -> None:
    ResourceEstimate(1, 1, 1).check(tmp_path)
    assert 0 < usable_memory() < 2**50
    with pytest.raises(OSError, match="of disk"):
        ResourceEstimate(1, 2**60).check(tmp_path)


@pytest.mark.parametrize(
    ("group", "free"),
    [
        ({"jobs/one": (5_000_000, 2_000_000, 0)}, 3_000_000),
        ({"jobs/one": ("max", 2_000_000, 0)}, None),
        ({"jobs": (4_000_000, 1_000_000, 0)}, 3_000_000),
        ({"": (100, 4000, 0)}, 0),
        ({"jobs/one": (5_000_000, 4_000_000, 1_500_000)}, 2_500_000),
        ({"jobs/one": (5_000_000, "", 0)}, None),  # half of it cannot be read
    ],
)
def test_free_memory_in_a_control_group(
    tmp_path: Path,
    group: dict[str, tuple[object, ...]],
    free: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = SimpleNamespace(rss=0, vms=0)  # what the process has
    monkeypatch.setattr("psutil.Process.memory_info", lambda process: nothing)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/jobs/one\n")
    for name, (limit, used, inactive) in group.items():
        folder = tmp_path / "sys/fs/cgroup" / name
        folder.mkdir(parents=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\nactive_file 70\n")
    if free is None:
        assert usable_memory(tmp_path) > 100_000_000
    else:
        assert usable_memory(tmp_path) == free
