"""The first view of the page: the task, the measures, the parameters, the versions."""

from __future__ import annotations

from typing import Any

from rlvc._core.params import as_json
from rlvc.report.web.encoding import Json
from rlvc.runs.config import PARTS, describe_parameters
from rlvc.runs.summary import format_count, format_mean, format_share
from rlvc.runs.task import Task

FITTED = ("threshold",)  # fitted to the percepts, like the parts that are chosen automatically


def describe_overview(result: dict[str, Any], task: Task[Any]) -> Json:
    """Return the overview of a run, as far as its results are known."""
    measures = task.measures(result)
    return {
        "lead": task.lead,
        "headline": _headline(result),
        "measures": measures
        and {"head": measures.columns, "rows": measures.rows, "caption": measures.caption},
        "facts": _facts(result),
        "seconds": list((result.get("seconds") or {}).items()),
        "parameters": describe_settings(result, task),
        "versions": [[name, str(one)] for name, one in (result.get("versions") or {}).items()],
        "command": str(result["command"]) if result.get("command") else None,
    }


def _headline(result: dict[str, Any]) -> list[Json]:
    """Return the most important numbers."""
    found = list[Json]()
    best = result.get("forest", result)
    measures = best.get("measures") or result.get("compact") or {}
    for key, label, text in (
        ("success", "success", format_share),
        ("missed", "trials that miss the top", format_share),
        ("test_error", "wrong decisions on new views", format_share),
        ("mean_steps", "steps to the goal", format_mean),
        ("return", "return", lambda value: f"{value:.2f}"),
        ("length", "steps", format_mean),
    ):
        value = measures.get(key)
        value = value["mean"] if isinstance(value, dict) else value
        if value is not None:
            found.append({"label": label, "value": text(value)})
    seconds = (result.get("seconds") or {}).get("learn")
    if "forest" in result:
        label = f"trees of {best['classes']:.0f} visual classes"
        found.append({"label": label, "value": format_count(best["trees"])})
        seconds = best["seconds"]
    else:
        last = result if "classes" in result else (result.get("history") or [{}])[-1]  # so far
        if classes := (result.get("compact") or last).get("classes"):
            found.append({"label": "visual classes", "value": format_count(classes)})
    if seconds is not None and not result.get("resumed"):  # otherwise it is only a part of the time
        found.append({"label": "to learn", "value": f"{seconds:.1f} s"})
    return found


def _facts(result: dict[str, Any]) -> list[list[str]]:
    """Return the facts of the run, as names and values."""
    names = {
        "task": "task", "source": "source", "pictures": "pictures", "seed": "seed",
        "interactions": "interactions", "episodes": "episodes", "percepts": "distinct percepts",
        "actions": "actions", "stages": "stages", "distinct": "distinct features",
        "selected": "features tested", "composite": "of them composite",
    }  # fmt: skip
    known = {**result, **(result.get("features") or {})}
    facts = [
        [name, str(known[key]) if key == "seed" else format_count(known[key])]
        for key, name in names.items()
        if key in known
    ]
    error = result.get("forest", {}).get("out_of_bag")
    if error is not None:
        facts.append(["forest's error on episodes left out", f"{error:.2f} of the spread"])
    if times := result.get("resumed"):
        facts.append(
            ["interrupted and resumed", f"{format_count(times)}×; seconds are of the last part"]
        )
    return facts


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
    registry = PARTS.get(part)
    made = [registry.make(name) for name in registry] if registry else []
    return {type(one).__name__: as_json(one) for one in made}
