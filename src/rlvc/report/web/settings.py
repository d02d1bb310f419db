"""The parameters of a run, and which of them are not the usual ones."""

from __future__ import annotations

from typing import Any

from rlvc._core.params import as_json
from rlvc.learning.rlvc import RLVC
from rlvc.runs.config import PARTS, describe_parameters
from rlvc.tasks import campus, catalogue

FITTED = ("threshold",)  # besides the parts that are chosen: found from the percepts


def describe_settings(result: dict[str, Any]) -> list[list[Any]]:
    """Return name, value, meaning and whether it is not the default, of every parameter.

    What a task brings along, or what was chosen from the percepts, is as it should be. A part of
    another kind than the default is not the default; its own parameters are compared with theirs.
    """
    meanings: dict[str, str] = {}
    for name, _, _, meaning in describe_parameters():
        meanings.setdefault(name, meaning.partition(" (with ")[0])
    rows: list[list[Any]] = []

    def visit(prefix: str, values: dict[str, Any], usual: dict[str, Any]) -> None:
        for key, value in values.items():
            name, default = f"{prefix}{key}", usual.get(key)
            if isinstance(value, dict):
                kind = str(value.get("type"))
                is_same = default is None or default.get("type") == kind
                rows.append([name, kind, meanings.get(name, ""), not is_same])
                own = default if default is not None and is_same else _defaults(name).get(kind, {})
                visit(f"{name}.", {k: v for k, v in value.items() if k != "type"}, own)
            elif value is not None:
                is_usual = key not in usual or value == default or name in FITTED
                rows.append([name, str(value), meanings.get(name, ""), not is_usual])

    visit("", result.get("parameters") or {}, as_json(_usual(result)))
    return rows


def _usual(result: dict[str, Any]) -> RLVC:
    """Return the learner of a task unless told otherwise; on the campus it is compacted."""
    if "pictures" not in result:
        return RLVC()
    if result["task"] == "campus":
        return campus.compact_learner(campus.base_learner())
    return catalogue.base_learner(result["task"])


def _defaults(part: str) -> dict[str, dict[str, Any]]:
    """Return the parameters that every kind of a part has unless told otherwise."""
    made = [registry.make(name) for registry in [PARTS.get(part)] if registry for name in registry]
    return {type(one).__name__: as_json(one) for one in made}
