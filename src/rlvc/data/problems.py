"""What is wrong with data: all of it is listed before anything is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlvc.errors import DataError

ROWS = 10  # that one sentence names
LETTERS = 60  # that it quotes of a value


class ProblemCollector:
    """The problems of one source of data, a sentence each; what is wrong in many rows is one.

    >>> problems = ProblemCollector("runs/log")
    >>> problems.at("reward is not finite", [2, 7, 14], ["nan", "inf", "nan"])
    >>> problems.found
    ['reward is not finite in rows 3, 8 and 15 (nan, inf, nan).']
    """

    def __init__(self, what: str, note: str = "") -> None:
        self.what, self.note = what, note
        self.found: list[str] = []
        self._has_rows = False

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, sentence: str, *, has_rows: bool = False) -> None:
        """Note a problem, and whether it speaks of rows."""
        self.found.append(sentence)
        self._has_rows |= has_rows

    def at(
        self, fact: str, rows: Iterable[int], values: Iterable[str] = (), *, cure: str = ""
    ) -> None:
        """Note a problem of some rows, given from 0, and what they hold; no rows, no problem."""
        where = list(rows)
        if not where:
            return
        held = [_short(value) for value in values]
        if len(held) > ROWS:
            held[ROWS:] = ["…"]
        quoted = f" ({', '.join(held)})" if held else ""
        sentence = f"{fact} in {name_rows(where)}{quoted}.{f' {cure}' if cure else ''}"
        self.add(sentence, has_rows=True)

    def error(self) -> DataError:
        """Return the error that lists them all."""
        return DataError(self.what, self.found, self.note if self._has_rows else "")


def name_rows(rows: Sequence[int]) -> str:
    """Return what to call some rows: people count from 1.

    >>> name_rows([2]), name_rows([2, 7, 14])
    ('row 3', 'rows 3, 8 and 15')
    """
    names = [str(row + 1) for row in rows[:ROWS]]
    last = f"{len(rows) - ROWS} more" if len(rows) > ROWS else names.pop()
    return f"rows {', '.join(names)} and {last}" if names else f"row {last}"


def _short(value: str) -> str:
    return value if len(value) <= LETTERS else f"{value[: LETTERS - 1]}…"
