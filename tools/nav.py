"""A page stands in the navigation of the site as soon as it exists.

A hook of MkDocs. That no page is forgotten, MkDocs sees to itself (``omitted_files``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> None:
    """Leave out of the navigation what is not there."""
    config.nav = _there(config.nav, Path(config.docs_dir))


def _there(entries: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the entries whose pages exist; those of a section, without the others."""
    kept = []
    for entry in entries:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            kept.append({title: _there(target, folder)})
        elif (folder / target).exists():
            kept.append(entry)
    return kept
