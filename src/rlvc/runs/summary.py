"""The summary of a result: a table of measures and a few sentences, for terminals and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NONE: Final = "–"
BEST: Final = "bold green"  # the style of what was learned
DIM: Final = "dim"  # the style of what it is compared with


@dataclass(frozen=True, slots=True)
class SummaryTable:
    """A table of a summary.

    Attributes:
        columns: Their names; all but the first hold numbers.
        rows: The cells of each row.
        styles: The style of each row in a terminal; none unless given.
        caption: What the table shows.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    styles: Mapping[int, str] = field(default_factory=dict)
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the terminal says at the end of a run, beside the measures.

    Attributes:
        text: What was learned, in paragraphs.
        figures: The figures to look at, and what they show.
        rounds: The rounds of exploration, if there were several.
    """

    text: Sequence[str]
    figures: Mapping[str, str]
    rounds: SummaryTable | None = None


def format_share(value: float | None) -> str:
    """Format a share as a percentage.

    >>> format_share(0.9434), format_share(None)
    ('94.3%', '–')
    """
    return NONE if value is None else f"{value:.1%}"


def format_mean(value: float | None) -> str:
    """Format a number with one decimal.

    >>> format_mean(12.345)
    '12.3'
    """
    return NONE if value is None else f"{value:.1f}"


def format_count(value: Any) -> str:
    """Format a number without decimals and with commas; return any other value as it is.

    >>> format_count(10000), format_count("photos"), format_count(None), format_count(51.4)
    ('10,000', 'photos', '–', '51')
    """
    if value is None:
        return NONE
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)


def sizes_of(found: Mapping[str, Any]) -> list[str]:
    """Return how many classes, tests and stages a result has, or the paper reports."""
    features = found.get("features", found.get("selected"))
    tests = features["selected"] if isinstance(features, dict) else features
    return [format_count(size) for size in (found["classes"], tests, found.get("stages"))]


def forest_rows(result: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], list[str]]]:
    """Return the row of a forest, if there is one: its name, its measures, its sizes."""
    if "forest" not in result:
        return []
    forest = result["forest"]
    classes = f"{forest['trees']} × {forest['classes']:.0f}"
    sizes = [classes, format_count(forest["features"]), NONE]
    return [(f"rlvc, a forest of {forest['trees']}", forest["measures"], sizes)]


def direct_rows(result: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], list[str]]]:
    """Return the rows of agents that know the state, and of the optimum."""
    names = {
        "equal": "state known, as many cells",
        "best": "state known, best grid",
        "grid13": "state known, the paper's grid",
    }
    rows = [
        (name, found, [format_count(found["cells"]), NONE, NONE])
        for key, name in names.items()
        if (found := result["direct"].get(key))
    ]
    return [*rows, ("the optimum", result["optimum"], [NONE] * 3)]


def forest_text(result: Mapping[str, Any]) -> list[str]:
    """Return a paragraph on the forest, if there is one."""
    if "forest" not in result:
        return []
    forest, error = result["forest"], result["forest"]["out_of_bag"]
    if error is None:
        left_out = "no episode was left out to estimate its error."
    else:
        left_out = f"its error on episodes left out is {error:.2f} of the spread of returns."
    return [
        f"The forest tests {forest['features']} features and took {forest['seconds']:.1f} s; "
        f"{left_out}"
    ]
