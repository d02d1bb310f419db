"""The measures of a run as a table, beside direct perception, the optimum and the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rlvc.report.web.encoding import Json

NONE: Final = "–"
Row = tuple[str, dict[str, Any], str, str, str]  # a name, its measures, and three sizes
Columns = dict[str, tuple[str, Callable[[float | None], str]]]


def describe_measures(result: dict[str, Any]) -> Json | None:
    """Return the table of the measures beside direct perception, the optimum and the paper."""
    if "basic" in result:
        return _campus(result)
    if "missed" in (result.get("measures") or {}):
        return _beside_direct(result, HILL)
    if "optimum" in result:
        return _beside_direct(result, NAVIGATION)
    if "episodes" in (result.get("measures") or {}):
        return _custom(result["measures"])
    return None


def _beside_direct(result: dict[str, Any], columns: Columns) -> Json:
    """Return the measures of a classifier beside those that it is compared with.

    Args:
        result: The result of the maze, the subway or the hill.
        columns: The names of the measures, their keys, and their formats.
    """
    rows = [
        ("rlvc, one classifier", result["measures"], *_sizes(result)),
        *_forest(result),
        *_primitive_only(result),
        *_direct(result["direct"]),
        ("the optimum", result["optimum"], NONE, NONE, NONE),
        ("the paper, on its own pictures", {}, *_sizes(result["paper"])),
    ]
    return {
        "head": ["agent", *columns, "classes or cells", "tests", "stages"],
        "rows": [
            [name, *(text(found.get(key)) for key, text in columns.values()), *sizes]
            for name, found, *sizes in rows
        ],
        "caption": "The measures, beside agents that know the state (direct perception)",
    }


def _sizes(found: dict[str, Any]) -> tuple[str, str, str]:
    """Return the numbers of classes, tests and stages."""
    features = found.get("features", found.get("selected"))
    features = features["selected"] if isinstance(features, dict) else features
    return whole(found["classes"]), whole(features), whole(found["stages"])


def _primitive_only(result: dict[str, Any]) -> list[Row]:
    """Return the row of the classifier without composite features, if there is one."""
    if "primitive_only" not in result:
        return []
    alone = result["primitive_only"]
    return [("without composite features", alone["measures"], *_sizes(alone))]


def _campus(result: dict[str, Any]) -> Json:
    paper = result["paper"]
    versions = [
        ("rlvc, the tree", result["basic"]), ("rlvc, compacted", result["compact"]),
        ("the paper's tree", paper["basic"]), ("the paper's, compacted", paper["compact"]),
    ]  # fmt: skip
    if "forest" in result:
        forest = result["forest"]
        versions.insert(2, (_name(forest), {**forest, **forest["measures"]}))
    rows = [
        [name, percent(found["train_error"]), percent(found["test_error"]),
         whole(found["classes"]), whole(found["features"]), whole(found.get("stages"))]
        for name, found in versions
    ]  # fmt: skip
    rows.append(["vote of neighbours", NONE, percent(result["ceiling"]), *[NONE] * 3])
    rows.append(["state known", percent(result["direct"]), NONE, "44", NONE, NONE])
    head = [
        "agent",
        "wrong, views learned from",
        "wrong, new views",
        "classes",
        "features",
        "stages",
    ]
    return {"head": head, "rows": rows, "caption": "The measures, beside the paper"}


def _custom(measures: dict[str, Any]) -> Json:
    rows = []
    for key, name, text in (
        ("return", "return", lambda value: f"{value:.2f}"),
        ("length", "steps", one_digit),
        ("success", "success", percent),
        ("rewarded", "return above 0", percent),
        ("terminated", "ended by the task", percent),
    ):
        if key in measures:
            one = measures[key]
            low = one["low"]
            interval = NONE if low is None else f"{text(low)} to {text(one['high'])}"
            rows.append([name, text(one["mean"]), interval])
    caption = f"{whole(measures['episodes'])} episodes that it did not learn from"
    return {"head": ["measure", "mean", "95% confidence"], "rows": rows, "caption": caption}


def _forest(result: dict[str, Any]) -> list[Row]:
    if "forest" not in result:
        return []
    forest = result["forest"]
    size = f"{forest['trees']} × {forest['classes']:.0f}"
    return [(_name(forest), forest["measures"], size, whole(forest["features"]), NONE)]


def _name(forest: dict[str, Any]) -> str:
    return f"rlvc, a forest of {forest['trees']}"


def _direct(direct: dict[str, Any]) -> list[Row]:
    names = {
        "equal": "state known, as many cells",
        "best": "state known, best grid",
        "grid13": "state known, the paper's grid",
    }
    return [
        (name, direct[key], whole(direct[key]["cells"]), NONE, NONE)
        for key, name in names.items()
        if key in direct
    ]


def percent(value: float | None) -> str:
    """Format a share as a percentage.

    >>> percent(0.9434), percent(None)
    ('94.3%', '–')
    """
    return NONE if value is None else f"{value:.1%}"


def one_digit(value: float | None) -> str:
    """Format a number with one decimal."""
    return NONE if value is None else f"{value:.1f}"


def whole(value: Any) -> str:
    """Format a number without decimals, with commas; return any other value as text.

    >>> whole(10000), whole("photos"), whole(None), whole(51.4)
    ('10,000', 'photos', '–', '51')
    """
    if value is None:
        return NONE
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)


NAVIGATION: Final[Columns] = {
    "success": ("success", percent),
    "steps": ("mean_steps", one_digit),
    "optimal decisions": (
        "suboptimal",
        lambda value: percent(None if value is None else 1 - value),
    ),
}
HILL: Final[Columns] = {"missed": ("missed", percent), "steps": ("mean_steps", one_digit)}
