"""How much memory and disk this process may still take."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BOUNDLESS = 2**60  # what older control groups say where there is no limit


@dataclass(frozen=True, slots=True)
class FreeResources:
    """What is free, in bytes; None where the system does not say.

    Attributes:
        memory: What this process and others that it starts may take beside what it has.
        disk: In the folder of a run.
        spool: In the folder for temporary files.
        is_one_disk: Whether these two folders share what is free.
    """

    memory: int | None
    disk: int | None
    spool: int | None
    is_one_disk: bool = False

    @classmethod
    def of(cls, folder: Path) -> FreeResources:
        """Return what is free on this machine, for a run in a folder that need not exist yet."""
        here, temporary = nearest(folder), Path(tempfile.gettempdir())
        is_one = here.stat().st_dev == temporary.stat().st_dev
        return cls(free_memory(), _free_disk(here), _free_disk(temporary), is_one)


def nearest(folder: Path) -> Path:
    """Return the nearest folder above that exists, or the folder itself."""
    folder = folder.absolute()
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def free_memory(root: Path = Path("/")) -> int | None:
    """Return how much memory is free: on the machine, and within all limits on this process.

    Args:
        root: Where to find ``proc`` and ``sys``.
    """
    found = [*_of_machine(root), *_of_groups(root), *_of_process(root)]
    return max(0, min(found)) if found else None


def resident(root: Path = Path("/")) -> int:
    """Return how much memory this process has now; 0 where the system does not say."""
    return _fields(root / "proc/self/status").get("VmRSS", 0)


def _free_disk(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _of_machine(root: Path) -> Iterator[int]:
    free = _fields(root / "proc/meminfo").get("MemAvailable")
    if free is not None:
        yield free


def _of_groups(root: Path) -> Iterator[int]:
    """Yield what is left to this process's control groups and to all above them, of both versions.

    What they hold of files that were read is given back when it is wanted.
    """
    for line in _lines(root / "proc/self/cgroup"):
        number, kinds, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not kinds:
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / path.lstrip("/")
        # In a container the path may be one of the machine's, which cannot be seen from there.
        for one in {base, *(up for up in (group, *group.parents) if up.is_relative_to(base))}:
            limit, used = (_number(one / name) for name in names[:2])
            if limit is not None and used is not None and limit < BOUNDLESS:
                pairs = (line.split() for line in _lines(one / "memory.stat"))
                stat = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
                yield limit - used + stat.get(names[2], 0)


def _of_process(root: Path) -> Iterator[int]:
    if sys.platform == "win32":
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        yield limit - _fields(root / "proc/self/status").get("VmSize", 0)


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None  # a group without a limit says "max"


def _fields(path: Path) -> dict[str, int]:
    """Return the lines ``NAME: NUMBER kB`` of a file, in bytes."""
    words = (line.split() for line in _lines(path))
    return {
        one[0].rstrip(":"): int(one[1]) * 1024
        for one in words
        if len(one) == 3 and one[2] == "kB" and one[1].isdecimal()
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
