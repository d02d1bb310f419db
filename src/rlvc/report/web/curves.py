"""The learning curves of a run, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlvc.report.web.encoding import Json

History = Sequence[dict[str, Any]]


def describe_learning(result: dict[str, Any]) -> Json:
    """Return the charts of a run, as far as its results are known."""
    versions = _versions(result)
    first = versions[0][1] if versions else []
    found: Json = {"axis": "stage k", "x": [line["stage"] for line in first], "charts": []}
    for title, keys, unit in CHARTS:
        series = [
            _series(f"{word}{name}", lines, key, first)
            for key, word in keys.items()
            for name, lines in versions
            if lines and key in lines[-1] and not (key == "composite" and name)
        ]
        if series:
            lines = [line for key in keys for line in _references(result, key)]
            found["charts"].append({"title": title, "unit": unit, "series": series, "lines": lines})
    if rounds := [one for one in result.get("rounds") or [] if one["return"] is not None]:
        found["rounds"] = _rounds(rounds, result.get("measures"))
    if any("success" in line for line in first):
        found["note"] = (
            "Success by stage is that of an agent who perceives, wherever it is, the percept of "
            "the nearest position of the grid: close to the success in the overview, not equal. "
            "Steps are those of the episodes that succeed."
        )
    return found


CHARTS = (
    ("Visual classes", {"classes": "classes"}, "whole"),
    ("Features tested", {"features": "features", "composite": "of them composite"}, "whole"),
    ("Bellman residual", {"residual": "root mean square"}, "number"),
    ("Aliased classes", {"aliased": "aliased"}, "whole"),
    ("Success", {"success": "success"}, "percent"),
    ("Mean steps", {"mean_steps": "steps"}, "number"),
    ("Decisions that are not optimal", {"suboptimal": "not optimal"}, "percent"),
    ("Trials that miss the goal", {"missed": "missed"}, "percent"),
    (
        "Wrong decisions",
        {"train_error": "views learned from", "test_error": "new views"},
        "percent",
    ),
)


def _versions(result: dict[str, Any]) -> list[tuple[str, History]]:
    """Return the histories of a run, each with the suffix of the names of its curves."""
    if "basic" in result:
        return [
            (", compacted", result["compact"]["history"]),
            (", the tree", result["basic"]["history"]),
        ]
    history = result.get("history") or []
    if history and "phase" in history[-1]:  # a run in progress: the current classifier
        history = [line for line in history if line.get("phase") == history[-1]["phase"]]
    versions: list[tuple[str, History]] = [("", history)]
    if "primitive_only" in result and result["primitive_only"]["history"] != history:
        versions.append((", without composites", result["primitive_only"]["history"]))
    return versions


def _series(name: str, lines: History, key: str, first: History) -> Json:
    found: Json = {"name": name, "values": [line.get(key) for line in lines]}
    if lines is not first:
        found["x"] = [line["stage"] for line in lines]
    return found


def _references(result: dict[str, Any], key: str) -> list[Json]:
    """Return the values that a measure is compared with."""
    direct = result.get("direct")
    if isinstance(direct, float):  # the campus has only one number
        return []
    found = []
    if "forest" in result:
        forest = result["forest"]
        found.append((f"forest of {forest['trees']}", forest["measures"].get(key)))
    for grid, name in (("equal", "state known"), ("best", "state known, best grid")):
        if direct and grid in direct:
            cells = direct[grid]["cells"]
            found.append((f"{name}, {cells} cells", direct[grid].get(key)))
    found.append(("optimum", result.get("optimum", {}).get(key)))
    return [{"name": name, "value": value} for name, value in found if value is not None]


def _rounds(rounds: History, measures: dict[str, Any] | None) -> Json:
    """Return the charts of the rounds of exploration."""
    charts = []
    for key, title in (("return", "Return while exploring"), ("length", "Steps while exploring")):
        final = measures[key]["mean"] if measures and key in measures else None
        lines = [] if final is None else [{"name": "without exploring", "value": final}]
        series = [{"name": title.partition(" ")[0].lower(), "values": [one[key] for one in rounds]}]
        charts.append({"title": title, "unit": "number", "series": series, "lines": lines})
    return {"axis": "interactions", "x": [one["interactions"] for one in rounds], "charts": charts}
