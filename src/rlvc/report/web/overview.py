"""What the first view of the page says: the task, the measures, the parameters, the versions."""

from __future__ import annotations

from typing import Any, Final

from rlvc.report.web.coding import Json
from rlvc.report.web.settings import describe_settings

LEADS: Final = {
    "maze": "An agent walks over a carpet of photographs among walls of glass, sees only the "
    "window around it, and looks for an exit.",
    "subway": "An agent walks along a strip of photographs among walls of glass, sees only the "
    "window around it, and looks for an exit.",
    "campus": "An agent walks from spot to spot, turns, sees only what is in front of it, and "
    "looks for a building.",
    "hill": "A car whose engine is too weak to climb a hill straight away sees the ground "
    "underneath and a gauge of its velocity, and wants to reach the top.",
}
NONE: Final = "–"


def describe_overview(result: dict[str, Any]) -> Json:
    """Return what the overview says of a run, as far as it is known."""
    measures = _measures(result)
    return {
        "lead": LEADS.get(str(result.get("task")), "") if "pictures" in result else "",
        "headline": _headline(result),
        "measures": measures,
        "facts": _facts(result),
        "seconds": list((result.get("seconds") or {}).items()),
        "parameters": describe_settings(result),
        "versions": [[name, str(one)] for name, one in (result.get("versions") or {}).items()],
        "command": str(result["command"]) if result.get("command") else None,
    }


def _headline(result: dict[str, Any]) -> list[Json]:
    """Return the few numbers that matter most."""
    found = list[Json]()
    best = result.get("forest", result)
    measures = best.get("measures") or {}
    if "compact" in result:
        measures = measures or result["compact"]
    for key, label, text in (
        ("success", "success", percent),
        ("missed", "trials that miss the top", percent),
        ("test_error", "wrong decisions on new views", percent),
        ("mean_steps", "steps to the goal", one_digit),
        ("return", "return", lambda value: f"{value:.2f}"),
        ("length", "steps", one_digit),
    ):
        value = measures.get(key)
        value = value["mean"] if isinstance(value, dict) else value
        if value is not None:
            found.append({"label": label, "value": text(value)})
    seconds = (result.get("seconds") or {}).get("learn")
    if "forest" in result:
        label = f"trees of {best['classes']:.0f} visual classes"
        found.append({"label": label, "value": whole(best["trees"])})
        seconds = best["seconds"]
    elif classes := (result.get("compact") or _last(result)).get("classes"):
        found.append({"label": "visual classes", "value": whole(classes)})
    if seconds is not None:
        found.append({"label": "to learn", "value": f"{seconds:.1f} s"})
    return found


def _last(result: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes of a finished run, or those of its last stage so far."""
    if "classes" in result:
        return result
    return dict((result.get("history") or [{}])[-1])


def _measures(result: dict[str, Any]) -> Json | None:
    """Return the table of the measures beside direct perception, the optimum and the paper."""
    if "basic" in result:
        return _campus(result)
    if "missed" in (result.get("measures") or {}):
        return _hill(result)
    if "optimum" in result:
        return _navigation(result)
    if "episodes" in (result.get("measures") or {}):
        return _own(result["measures"])
    return None


def _navigation(result: dict[str, Any]) -> Json:
    rows = [
        [name, percent(found["success"]), one_digit(found["mean_steps"]),
         percent(1 - found["suboptimal"]), size, features, stages]
        for name, found, size, features, stages in (
            ("rlvc, one classifier", result["measures"], whole(result["classes"]),
             whole(result["features"]["selected"]), whole(result["stages"])),
            *_forest(result),
            *_direct(result["direct"]),
            ("the optimum", result["optimum"], NONE, NONE, NONE),
        )
    ]  # fmt: skip
    paper = result["paper"]
    sizes = [whole(paper[key]) for key in ("classes", "selected", "stages")]
    rows.append(["the paper, on its own pictures", NONE, NONE, NONE, *sizes])
    head = ["agent", "success", "steps", "optimal decisions", "classes or cells", "tests", "stages"]
    return {"head": head, "rows": rows, "caption": "The measures, beside direct perception"}


def _hill(result: dict[str, Any]) -> Json:
    alone = result["primitive_only"]
    rows = [
        [name, percent(found["missed"]), one_digit(found["mean_steps"]), size, features, stages]
        for name, found, size, features, stages in (
            ("rlvc, one classifier", result["measures"], whole(result["classes"]),
             whole(result["features"]["selected"]), whole(result["stages"])),
            *_forest(result),
            ("without composite features", alone["measures"], whole(alone["classes"]),
             whole(alone["features"]), whole(alone["stages"])),
            *_direct(result["direct"]),
            ("the optimum", result["optimum"], NONE, NONE, NONE),
        )
    ]  # fmt: skip
    paper = result["paper"]
    sizes = [whole(paper[key]) for key in ("classes", "selected", "stages")]
    rows.append(["the paper, on its own pictures", NONE, NONE, *sizes])
    head = ["agent", "missed", "steps", "classes or cells", "tests", "stages"]
    return {"head": head, "rows": rows, "caption": "The measures, beside direct perception"}


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


def _own(measures: dict[str, Any]) -> Json:
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


def _forest(result: dict[str, Any]) -> list[tuple[str, dict[str, Any], str, str, str]]:
    if "forest" not in result:
        return []
    forest = result["forest"]
    size = f"{forest['trees']} × {forest['classes']:.0f}"
    return [(_name(forest), forest["measures"], size, whole(forest["features"]), NONE)]


def _name(forest: dict[str, Any]) -> str:
    return f"rlvc, a forest of {forest['trees']}"


def _direct(direct: dict[str, Any]) -> list[tuple[str, dict[str, Any], str, str, str]]:
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


def _facts(result: dict[str, Any]) -> list[list[str]]:
    """Return what the run was about, name by name."""
    names = {
        "task": "task", "source": "source", "pictures": "pictures", "seed": "seed",
        "interactions": "interactions", "episodes": "episodes", "percepts": "distinct percepts",
        "actions": "actions", "stages": "stages",
    }  # fmt: skip
    facts = [
        [name, whole(result[key]) if key not in ("seed",) else str(result[key])]
        for key, name in names.items()
        if key in result
    ]
    features = result.get("features") or {}
    if "distinct" in features:
        facts.append(["distinct features", whole(features["distinct"])])
    if "selected" in features:
        facts.append(["features tested", whole(features["selected"])])
    if "composite" in features:
        facts.append(["of them composite", whole(features["composite"])])
    error = result.get("forest", {}).get("out_of_bag")
    if error is not None:
        facts.append(["forest's error on episodes left out", f"{error:.2f} of the spread"])
    return facts


def percent(value: float | None) -> str:
    """Return a share for people.

    >>> percent(0.9434), percent(None)
    ('94.3%', '–')
    """
    return NONE if value is None else f"{value:.1%}"


def one_digit(value: float | None) -> str:
    """Return a number with one digit behind the point."""
    return NONE if value is None else f"{value:.1f}"


def whole(value: Any) -> str:
    """Return a whole number with commas, and any other thing as it is.

    >>> whole(10000), whole("photos"), whole(None), whole(51.4)
    ('10,000', 'photos', '–', '51')
    """
    if value is None:
        return NONE
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)
