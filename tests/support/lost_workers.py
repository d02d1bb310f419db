"""The Ray workers of this process, which tests kill."""

from __future__ import annotations

import os
from pathlib import Path


def worker_processes() -> list[tuple[int, str]]:
    """Return the processes of Ray that hold shards or do work for this one."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            name = (place / "cmdline").read_bytes() if place.name.isdigit() else b""
            is_one = name.startswith(b"ray::") and b"Agent" not in name and b"IDLE" not in name
            if is_one and parent(parent(int(place.name))) == os.getpid():
                found.append((int(place.name), name.rstrip(b"\0").decode()))
        except (OSError, ValueError):  # it has ended
            continue
    return sorted(found)


def parent(pid: int) -> int:
    """Return the parent of a process."""
    status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(status.rpartition(")")[2].split()[1])
