from __future__ import annotations

import errno
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from rlvc import RLVC, Interactions
from rlvc.data.percepts import IN_MEMORY
from rlvc.data.spaces import shapes_of
from rlvc.runs.free_resources import FreeResources, free_memory, nearest
from rlvc.runs.resources import (
    MB,
    PROGRAM,
    WORK,
    ResourceEstimate,
    Sight,
    check,
    count,
    needs_of_data,
    needs_to_collect,
)
from rlvc.vision.detectors import Harris, Orb, Sift
from tests.support.builders import blocks

SIGHT = Sight((480, 640, 3), 1000, 100.0, 1.0, 128, 500_000.0)
WIDE = FreeResources(memory=10**15, disk=10**15, spool=10**15)


def data(n: int = 12, *, seed: int = 0) -> Interactions:
    images = np.stack([blocks(seed + number, (64, 64, 3)) for number in range(n)])
    return Interactions.from_arrays(
        images, np.arange(n) % 2, np.arange(n) % 3, np.arange(n) % 4 == 3,
        next_observations=np.roll(images, -1, axis=0),
    )  # fmt: skip


def test_needs_grow_with_what_there_is() -> None:
    base = count([SIGHT], 1000, 1)
    assert base.memory > PROGRAM + IN_MEMORY + 1000 * 100 * 128
    assert base.disk > 1000 * 100 * 128
    assert base.spool >= 1000 * 480 * 640 * 3 - IN_MEMORY
    for other in (
        count([replace(SIGHT, images=2000)], 1000, 1),
        count([replace(SIGHT, points=200.0)], 1000, 1),
        count([SIGHT], 1000, 3),
        count([SIGHT, SIGHT], 1000, 1),
        count([SIGHT], 1000, 1, trees=25),
    ):
        assert other.memory > base.memory
    assert count([SIGHT], 1000, 3).memory - base.memory == 2 * WORK * 480 * 640
    assert count([SIGHT], 1000, 1, trees=25) == count(
        [SIGHT], 1000, 1, trees=1
    )  # one process at a time
    assert count([SIGHT], 1000, 4, trees=25).memory > count([SIGHT], 1000, 4, trees=2).memory
    assert count([SIGHT], 1000, 1, keeps_images=True).disk == base.disk + 1000 * 500_000
    assert count([replace(SIGHT, fresh=0.1)], 1000, 1).memory < base.memory


def test_few_small_images_need_no_temporary_file() -> None:
    needs = count([Sight((64, 64, 3), 10, 0.0, 0.0, 128, 0.0)], 1000, 1)
    assert needs.spool == 0
    assert needs.memory == pytest.approx(PROGRAM, rel=0.02)


def test_what_is_to_be_collected() -> None:
    learner, shapes = RLVC(threads=2), [(480, 640, 3)]
    whole = needs_to_collect(shapes, 1000, learner)
    assert needs_to_collect(shapes, 2000, learner).memory > whole.memory
    assert needs_to_collect(shapes * 2, 1000, learner).memory > whole.memory
    assert needs_to_collect(shapes, 1000, learner, images=50).memory < whole.memory
    assert needs_to_collect(shapes, 50, learner, images=1000) == needs_to_collect(
        shapes, 50, learner
    )
    # What is not chosen yet is what needs most; what was given is known.
    each = [
        needs_to_collect(shapes, 1000, replace(learner, detector=one)) for one in (Harris(), Sift())
    ]
    assert whole.memory == max(one.memory for one in each)
    few, many = (
        needs_to_collect(shapes, 1000, replace(learner, detector=Orb(max_points=n)))
        for n in (10, 5000)
    )
    assert few.memory < many.memory


def test_data_are_looked_at() -> None:
    plain, rich = needs_of_data(data(), RLVC(threads=1)), needs_of_data(data(60), RLVC(threads=1))
    assert plain.memory < rich.memory
    assert plain.spool < rich.spool < 60 * 64 * 64 * 3 * 20  # what symbols look like alone
    sample, shapes = data(), [(64, 64, 3)]
    more = needs_to_collect(shapes, 100_000, RLVC(threads=1), sample=sample)
    assert more.spool > 100_000 * 64 * 64 * 3 - IN_MEMORY
    assert plain.memory < more.memory
    assert more.memory != needs_to_collect(shapes, 100_000, RLVC(threads=1)).memory
    blank = Interactions.from_arrays(
        np.zeros((2, 64, 64), np.uint8), [0, 1], [0, 1], [True, True],
        next_observations=np.zeros((2, 64, 64), np.uint8),
    )  # fmt: skip
    assert needs_of_data(blank, RLVC(threads=1)).memory == pytest.approx(PROGRAM, rel=0.02)


def test_shapes_come_from_the_space() -> None:
    image, speed = spaces.Box(0, 255, (48, 64, 3), np.uint8), spaces.Box(-1, 1, (2,), np.float32)
    assert shapes_of(image) == {"": (48, 64, 3)}
    assert shapes_of(spaces.Dict(left=image, speed=speed)) == {"left": (48, 64, 3)}


def test_the_sentence_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvc.runs.resources.resident", lambda: 600 * MB)  # which it has already
    needs, room = (
        ResourceEstimate(800 * MB, 300 * MB, 19_000 * MB),
        replace(WIDE, memory=20_400 * MB),
    )
    said = needs.tell(Path("runs/maze"), room)
    assert said.startswith("This needs about 0.8 GB of memory (21 GB are free) and 0.3 GB of disk ")
    assert said.endswith(f"in runs/maze, and 19 GB in {tempfile.gettempdir()} for a while.")
    assert needs.tell(at_most=True).startswith("This needs at most 0.8 GB of memory and 0.3 GB")
    unknown_name = ResourceEstimate(800 * MB, 300 * MB).tell(room=replace(WIDE, memory=None))
    assert unknown_name == "This needs about 0.8 GB of memory and 0.3 GB of disk."


def test_what_cannot_fit_is_refused(tmp_path: Path) -> None:
    needs, folder = ResourceEstimate(40_000 * MB, 3000 * MB, 5000 * MB), tmp_path / "runs" / "new"
    check(needs, folder, WIDE)
    check(needs, folder, FreeResources(None, None, None))  # where the system does not say
    with pytest.raises(MemoryError, match=r"about 40 GB of memory; 2. GB are free"):
        check(needs, folder, replace(WIDE, memory=20_000 * MB))
    with pytest.raises(OSError, match=r"about 3.0 GB of disk; 2.0 GB are free.*--out") as full:
        check(needs, folder, replace(WIDE, disk=2000 * MB))
    assert full.value.errno == errno.ENOSPC
    assert full.value.filename == str(folder)
    with pytest.raises(OSError, match=r"about 5.0 GB for temporary files; 4.0 GB.*TMPDIR"):
        check(needs, folder, replace(WIDE, spool=4000 * MB))
    one = replace(WIDE, disk=7000 * MB, spool=7000 * MB)
    check(needs, folder, one)
    with pytest.raises(OSError, match=r"about 8.0 GB of disk; 7.0 GB are free"):
        check(needs, folder, replace(one, is_one_disk=True))


def test_this_machine_has_room_for_little(tmp_path: Path) -> None:
    check(ResourceEstimate(1, 1, 1), tmp_path / "not" / "there")
    assert nearest(tmp_path / "not" / "there") == tmp_path
    free = free_memory()
    assert free is None or 0 <= free < 2**50
    with pytest.raises(OSError, match="of disk"):
        check(ResourceEstimate(1, 2**60), tmp_path)


def machine(root: Path, files: dict[str, str]) -> int | None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return free_memory(root)


MEMINFO = {"proc/meminfo": "MemTotal:  99 kB\nMemAvailable:  8000 kB\nHugePages_Total:  0\n"}


def test_free_memory_of_a_machine(tmp_path: Path) -> None:
    assert machine(tmp_path / "unknown", {}) is None
    assert machine(tmp_path / "known", MEMINFO) == 8000 * 1024


@pytest.mark.parametrize(
    ("group", "free"),
    [
        ({"jobs/one/memory.max": "5000000", "jobs/one/memory.current": "2000000"}, 3_000_000),
        ({"jobs/one/memory.max": "max", "jobs/one/memory.current": "2000000"}, 8000 * 1024),
        ({"jobs/memory.max": "4000000", "jobs/memory.current": "1000000"}, 3_000_000),
        ({"memory.max": "100", "memory.current": "4000"}, 0),
        (
            {
                "jobs/one/memory.max": "5000000\n", "jobs/one/memory.current": "4000000\n",
                "jobs/one/memory.stat": "anon 5\ninactive_file 1500000\nactive_file 70\n",
            },
            2_500_000,
        ),
        ({"jobs/one/memory.max": "5000000"}, 8000 * 1024),  # half of it cannot be read
    ],
)  # fmt: skip
def test_free_memory_in_a_control_group(tmp_path: Path, group: dict[str, str], free: int) -> None:
    files = {f"sys/fs/cgroup/{name}": text for name, text in group.items()}
    assert machine(tmp_path, {**MEMINFO, "proc/self/cgroup": "0::/jobs/one\n", **files}) == free


def test_free_memory_in_an_older_control_group(tmp_path: Path) -> None:
    groups = {"proc/self/cgroup": "4:cpu,cpuacct:/x\n3:memory:/docker/abc\n1:name=systemd:/\n"}
    files = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "6000000\n",  # as a container sees its own
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000000\n",
        "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 500000\n",
    }
    assert machine(tmp_path, {**MEMINFO, **groups, **files}) == 5_500_000
    files["sys/fs/cgroup/memory/memory.limit_in_bytes"] = str(2**63 - 4096)
    assert machine(tmp_path, {**MEMINFO, **groups, **files}) == 8000 * 1024
