"""The summary of a result: a table of measures and a few sentences, for terminals and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NONE: Final = "–"
BEST: Final = "bold green"  # the style of learned policies
DIM: Final = "dim"  # the style of the paper's results
GRIDS: Final = {  # tabular agents that know the state
    "equal": "state known, as many cells",
    "best": "state known, best grid",
    "grid13": "state known, the paper's grid",
}

Row = tuple[str, Mapping[str, Any], list[str]]  # the name, measures and sizes of an agent


@dataclass(frozen=True, slots=True)
class SummaryTable:
    """A table of a summary.

    Attributes:
        columns: The names of the columns; all but the first hold numbers.
        rows: The cells of each row.
        styles: The style of rows in a terminal, by their number.
        caption: What the table shows.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    styles: Mapping[int, str] = field(default_factory=dict)
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run in the terminal, beside the table of measures.

    Attributes:
        text: Paragraphs on what was learned.
        figures: The figures, and what they show.
        rounds: The rounds of exploration, if there were any.
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


def format_sizes(found: Mapping[str, Any]) -> list[str]:
    """Return how many classes, tests and stages there are in a result, or in the paper."""
    features = found.get("features", found.get("selected"))
    tests = features["selected"] if isinstance(features, dict) else features
    return [format_count(size) for size in (found["classes"], tests, found.get("stages"))]


def forest_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return the row of the forest, if there is one."""
    if "forest" not in result:
        return []
    forest = result["forest"]
    classes = f"{forest['trees']} × {forest['classes']:.0f}"
    sizes = [classes, format_count(forest["features"]), NONE]
    return [(f"rlvc, a forest of {forest['trees']}", forest["measures"], sizes)]


def table_of_agents(
    result: Mapping[str, Any],
    columns: Sequence[str],
    cells_of: Callable[[Mapping[str, Any]], list[str]],
    others: Sequence[Row] = (),
) -> SummaryTable | None:
    """Return the table of learned policies, of agents that know the state, and of the paper.

    Args:
        result: A result; the table is None as long as it does not measure the optimum.
        columns: The names of the measures.
        cells_of: Return the cells of measures, which are empty for the paper.
        others: Rows of other policies that were learned.
    """
    if "optimum" not in result:
        return None
    learned = ("rlvc, from images", result["measures"], format_sizes(result))
    known = [
        (name, found, [format_count(found["cells"]), NONE, NONE])
        for key, name in GRIDS.items()
        if (found := result["direct"].get(key))
    ]
    rows = [
        learned, *forest_rows(result), *others, *known,
        ("the optimum", result["optimum"], [NONE] * 3),
        ("the paper", {}, format_sizes(result["paper"])),
    ]  # fmt: skip
    styles = {**dict.fromkeys(range(len(forest_rows(result)) + 1), BEST), len(rows) - 1: DIM}
    cells = [[name, *cells_of(found), *sizes] for name, found, sizes in rows]
    columns = ["agent", *columns, "classes", "tests", "stages"]
    caption = (
        "Measures beside agents that know the state, whose classes are cells of a grid, and the "
        "paper, on its own pictures"
    )
    return SummaryTable(columns, cells, styles, caption)


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
