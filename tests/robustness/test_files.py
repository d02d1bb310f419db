"""Files of all kinds, intact, damaged, foreign and mutated: each loads or is refused.

``benchmarks/fuzz.py`` mutates many more.
"""

from __future__ import annotations

import mmap
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rlvc._core.archive import pack
from rlvc.errors import InvalidFileError
from tests.support.file_kinds import Kind, Memory, all_kinds
from tests.support.mutations import Mutator, forge, take_apart

CHECKPOINTS = ["run", "stage", "tree", "keypoints"]
NAMES = ["policy", "forest", "vocabulary", "examples", *CHECKPOINTS]
N_FILES = 80  # of each kind


@pytest.fixture(scope="module", name="kinds")
def kinds_fixture(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    return {kind.name: kind for kind in all_kinds(tmp_path_factory.mktemp("whole"))}


def test_all_kinds_are_broken(kinds: dict[str, Kind]) -> None:
    assert list(kinds) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_intact_files_load_and_work(kinds: dict[str, Kind], name: str, tmp_path: Path) -> None:
    kind, path = kinds[name], tmp_path / "file"
    for data in kind.files:
        path.write_bytes(data)
        assert kind.outcome(path) == "loaded"
        assert pack(*take_apart(data)) == data


def fill(n: int) -> None:
    """Use so many bytes that nobody had before: an array may get what others left."""
    with mmap.mmap(-1, n) as area:
        for begin in range(0, n, mmap.PAGESIZE):
            area[begin] = 1


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_memory_is_measured_though_the_peak_lies_behind() -> None:
    fill(16 * 10**7)
    memory = Memory()
    assert memory.growth < 10**7
    fill(8 * 10**7)
    assert 7 * 10**7 < memory.growth < 9 * 10**7


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("name", NAMES)
def test_a_mutated_file_loads_and_works_or_is_refused(
    kinds: dict[str, Kind], name: str, tmp_path: Path
) -> None:
    kind, path = kinds[name], tmp_path / "file"
    mutator = Mutator(kind.files, [data for other in kinds.values() for data in other.files])
    counts = Counter[str]()
    for seed in range(N_FILES):
        path.write_bytes(mutator.mutate(seed))
        memory = Memory()
        counts[kind.outcome(path)] += 1
        assert memory.growth < 500 * 10**6, seed
    assert set(counts) == {"loaded", "damaged", "invalid"}
    assert mutator.mutate(0) == mutator.mutate(0)


@pytest.mark.parametrize("name", NAMES)
def test_every_flipped_bit_and_every_missing_byte_is_damage(
    kinds: dict[str, Kind], name: str, tmp_path: Path
) -> None:
    kind, path, rng = kinds[name], tmp_path / "file", np.random.default_rng(0)
    for data in kind.files:
        for place in [*range(8), *rng.integers(8, len(data), 40).tolist()]:
            changed = bytearray(data)
            changed[place] ^= 1 << int(rng.integers(8))
            for broken in (changed, data[:place]):
                path.write_bytes(broken)
                assert kind.outcome(path) == "damaged"


@pytest.mark.parametrize("name", NAMES)
def test_no_array_may_be_missing(kinds: dict[str, Kind], name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in kinds[name].files:
        for array in take_apart(data)[1]:
            path.write_bytes(forge(data, {}, {}, missing=array))
            is_optional = (name, array) == ("examples", "classes")
            assert kinds[name].outcome(path) == ("loaded" if is_optional else "invalid"), array


@pytest.mark.parametrize("name", NAMES)
def test_every_other_kind_is_refused(kinds: dict[str, Kind], name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for other in kinds.values():
        path.write_bytes(other.files[0])
        are_alike = [{name, other.name} <= set(group) for group in (NAMES[:2], CHECKPOINTS)]
        if other.name != name and not any(are_alike):
            with pytest.raises(InvalidFileError, match=r"not a rlvc-\w+ file; its format is 'rlvc"):
                kinds[name].load(path)
