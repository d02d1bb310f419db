"""The parameters of a run, and which of them are not the default."""

from __future__ import annotations

from typing import Any

from rlvc._core.params import as_json
from rlvc.runs.config import PARTS, describe_parameters
from rlvc.runs.task import Task

FITTED = ("threshold",)  # fitted to the percepts, like the parts that are chosen automatically


def describe_settings(result: dict[str, Any], task: Task[Any]) -> list[list[Any]]:
    """Return name, value, meaning and whether it is not the default, of every parameter.

    What a task sets, or what was chosen from the percepts, counts as the default. The parameters of
    a part of another kind than the default are compared with the defaults of that kind.
    """
    meanings: dict[str, str] = {}
    for name, _, _, meaning in describe_parameters():
        meanings.setdefault(name, meaning.partition(" (with ")[0])
    rows: list[list[Any]] = []
    usual = task.variants(task.base_learner())[task.main]

    def visit(prefix: str, values: dict[str, Any], usual: dict[str, Any]) -> None:
        for key, value in values.items():
            name, default = f"{prefix}{key}", usual.get(key)
            if isinstance(value, dict):
                kind = str(value.get("type"))
                is_same = default is None or default.get("type") == kind
                rows.append([name, kind, meanings.get(name, ""), not is_same])
                base = default if default is not None and is_same else _defaults(name).get(kind, {})
                visit(f"{name}.", {k: v for k, v in value.items() if k != "type"}, base)
            elif value is not None:
                is_usual = key not in usual or value == default or name in FITTED
                rows.append([name, str(value), meanings.get(name, ""), not is_usual])

    visit("", result.get("parameters") or {}, as_json(usual))
    return rows


def _defaults(part: str) -> dict[str, dict[str, Any]]:
    """Return the default parameters of every kind of a part."""
    made = [registry.make(name) for registry in [PARTS.get(part)] if registry for name in registry]
    return {type(one).__name__: as_json(one) for one in made}
