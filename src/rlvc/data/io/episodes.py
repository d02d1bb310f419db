"""The columns of a table as numbers, and its rows as episodes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Ints
from rlvc.data.io.table import ActionSpec, RawTable
from rlvc.data.validation import ACTIONS_CURE, ProblemCollector, check_actions, find_bad_rewards

log = logging.getLogger(__name__)

LARGEST = 2**62  # of whole numbers, so that the next one fits in 64 bits
TRUE = frozenset({"true", "yes", "1", "1.0"})
FALSE = frozenset({"false", "no", "0", "0.0"})

Episodes = tuple[Ints, dict[str, Any]]
NOTHING: Episodes = (np.empty(0, np.int64), {})


def read_episodes(table: RawTable, actions: ActionSpec, problems: ProblemCollector) -> Episodes:
    """Return the interactions of a table; none if there are problems, which are added.

    Returns:
        The rows whose percepts are used, in order, and the arguments of :class:`Interactions`
        without the percepts; ``start`` and ``end`` are indices into these rows.
    """
    columns = ParsedTable(table, problems)
    columns.check(actions)
    ordered = _SortedRows(columns)
    ordered.check_steps()
    if "action" in table.columns and len(ordered.rows):
        ordered.check_ends()
    return NOTHING if problems else ordered.split(actions)


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """The values of a column, which of its cells are not empty, and which of these are valid.

    A missing column has neither empty nor valid cells: it is reported as missing, not by cell.
    """

    values: NDArray[Any]
    is_given: Bools
    is_valid: Bools

    @property
    def is_invalid(self) -> Bools:
        """Which cells hold something that is not valid."""
        return self.is_given & ~self.is_valid


class ParsedTable:
    """All columns of a table except the images; adds the problems of their cells."""

    def __init__(self, table: RawTable, problems: ProblemCollector) -> None:
        self.table, self.problems = table, problems
        self.episode = self._read("episode", np.int64, _parse_int, "a whole number")
        self.step = self._read("step", np.int64, _parse_int, "a whole number")
        self.action = self._read("action", np.int64, _parse_int, "a whole number")
        self.reward = self._read("reward", np.float64, float, "a number")
        self.terminated = self._read("terminated", np.bool_, _parse_bool, "true or false")
        self.truncated = self._read("truncated", np.bool_, _parse_bool, "true or false")

    def _read(
        self, name: str, dtype: Any, convert: Callable[[str], Any], kind: str
    ) -> ParsedColumn:
        n = self.table.n_rows
        values = np.zeros(n, dtype)
        if name not in self.table.columns:
            return ParsedColumn(values, np.ones(n, np.bool_), np.zeros(n, np.bool_))
        cells = self.table.columns[name]
        is_given = np.array([cell != "" for cell in cells], np.bool_)
        is_valid = is_given.copy()
        for row in np.flatnonzero(is_given).tolist():
            try:
                values[row] = convert(cells[row])
            except ValueError:
                is_valid[row] = False
        column = ParsedColumn(values, is_given, is_valid)
        self.report(f"{name} is not {kind}", column.is_invalid, name)
        return column

    def report(self, fact: str, where: Bools, column: str = "", *, cure: str = "") -> None:
        """Add a problem of rows, with their values in a column."""
        rows = np.flatnonzero(where).tolist()
        values = [self.table.columns[column][row] for row in rows] if column else ()
        self.problems.at(fact, rows, values, cure=cure)

    def check(self, actions: ActionSpec) -> None:
        """Add the problems of empty cells and of numbers out of range."""
        self.report("episode is empty", ~self.episode.is_given)
        self.report("step is empty", ~self.step.is_given)
        number, n = self.action.values - actions.start, actions.n
        if n is None:
            fact, is_outside = f"action is below {actions.start}", number < 0
            cure = "Give the first action in actions.txt or with action_start."
        else:
            fact = f"action is not in {actions.start}..{actions.start + n - 1}"
            is_outside, cure = (number < 0) | (number >= n), ACTIONS_CURE
        self.report(fact, self.action.is_valid & is_outside, "action", cure=cure)
        acts = self.action.is_given
        if "action" in self.table.columns:
            self.report("reward is empty", acts & ~self.reward.is_given)
        for demand, where, cure in find_bad_rewards(self.reward.values):
            is_bad = acts & self.reward.is_valid & where
            self.report(f"reward is not {demand}", is_bad, "reward", cure=cure)


class _SortedRows:
    """The rows whose episode and step are known, sorted by them."""

    def __init__(self, columns: ParsedTable) -> None:
        self.columns, self.problems = columns, columns.problems
        episode, step = columns.episode, columns.step
        known = np.flatnonzero(episode.is_valid & step.is_valid)
        self.rows = known[np.lexsort((step.values[known], episode.values[known]))]
        self.episode, self.step = episode.values[self.rows], step.values[self.rows]
        is_new = self.episode[1:] != self.episode[:-1]
        self.is_first = np.concatenate([[True], is_new])[: len(self.rows)]
        self.is_last = np.concatenate([is_new, [True]])[: len(self.rows)]
        # An episode that lacks a row would cause further, misleading problems. A row whose episode
        # is not known likely belongs to that of a row next to it.
        unknown = np.flatnonzero(~episode.is_valid)
        is_beside = np.isin(np.arange(len(episode.values)), [unknown - 1, unknown + 1])
        incomplete = episode.values[episode.is_valid & (~step.is_valid | is_beside)]
        self.is_complete = ~np.isin(self.episode, incomplete)
        self.acts = columns.action.is_given[self.rows]
        self.terminated = columns.terminated.values[self.rows]
        self.truncated = columns.truncated.values[self.rows]

    def check_steps(self) -> None:
        """Add the problems of repeated and of missing steps."""
        ahead = np.diff(self.step, prepend=self.step[:1])
        follows = self.is_complete & ~self.is_first
        is_double, is_ahead = follows & (ahead == 0), follows & (ahead > 1)
        episode, step = self.columns.episode.values, self.columns.step.values
        for is_wrong, fact in (
            (is_double, "step is that of another row of its episode"),
            (is_ahead, "step leaves a gap after the previous one"),
        ):
            rows = np.sort(self.rows[is_wrong])
            values = [f"episode {episode[row]}, step {step[row]}" for row in rows]
            cure = "Number the steps of an episode consecutively."
            self.problems.at(fact, rows, values, cure=cure)
        self.is_complete &= ~np.isin(self.episode, self.episode[is_double])

    def check_ends(self) -> None:
        """Add the problems of episodes without an end, with several, or without an action."""
        place = np.arange(len(self.rows))
        heads = np.flatnonzero(self.is_first)
        last = np.maximum.reduceat(np.where(self.acts, place, -1), heads)  # action of an episode
        last_here = np.repeat(last, np.diff(heads, append=len(place)))
        ends = self.terminated | self.truncated
        columns = self.columns
        invalid = (columns.terminated.is_invalid | columns.truncated.is_invalid)[self.rows]
        reward = columns.reward.values[self.rows]
        is_final = ~self.acts & self.is_last
        for fact, where, cure in (
            (
                "action is empty",
                ~self.acts & ~self.is_last,
                "Only the last row of an episode, with the last image, has no action.",
            ),
            (
                "There is no action in the only row of an episode,",
                is_final & self.is_first,
                "Leave the episode out.",
            ),
            (
                "terminated or truncated is true before the last action of the episode",
                self.acts & ends & (place < last_here),
                "Give the rows after it the number of another episode.",
            ),
            (
                "terminated or truncated is true without an action",
                is_final & ends,
                "Set it in the row of the last action.",
            ),
            (
                "reward is given without an action",
                is_final & (reward != 0) & ~np.isnan(reward),
                "A reward belongs in the row of the action that it follows.",
            ),
        ):
            self.problems.at(fact, np.sort(self.rows[self.is_complete & where]), cure=cure)
        endless = self.is_complete & (place == last_here) & ~ends & ~invalid
        for i in np.flatnonzero(endless):
            self.problems.add(
                f"episode {self.episode[i]} has no end: neither terminated nor truncated in "
                f"row {self.rows[i] + 1}. Set truncated to true there if it was cut off.",
                has_rows=True,
            )

    def split(self, actions: ActionSpec) -> Episodes:
        """Return the interactions, without open ends: last ones whose next percept is unknown."""
        is_open = self.acts & self.is_last & ~self.terminated
        place = np.flatnonzero(self.acts & ~is_open)
        if not len(place):
            self.problems.add(
                "Nothing is left: every episode was cut off after its only action and has no image "
                "after it. Add a last row with that image to each."
            )
            return NOTHING
        if is_open.any():
            log.warning(
                "%d of %d episodes were cut off and have no image after their last action; "
                "that action is left out.",
                np.count_nonzero(is_open),
                np.count_nonzero(self.is_first),
            )
        # Nothing depends on the percept after a terminal end: if it is missing, use the start.
        after = np.where(self.is_last[place], place, place + 1)
        used = np.union1d(place, after)
        row, number = self.rows[place], np.cumsum(self.is_first)[place]
        action = self.columns.action.values[row] - actions.start
        n_actions = int(action.max()) + 1 if actions.n is None else actions.n
        self.problems.add(*check_actions(n_actions, actions.names))
        return self.rows[used], {
            "start": np.searchsorted(used, place),
            "end": np.searchsorted(used, after),
            "action": action,
            "reward": self.columns.reward.values[row],
            "episode": np.unique(number, return_inverse=True)[1],
            "terminated": self.terminated[place],
            "truncated": self.truncated[place] | is_open[after],
            "n_actions": n_actions,
            "action_start": actions.start,
            "action_names": actions.names,
        }


def _parse_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        value = int(number)
    if abs(value) > LARGEST:
        raise ValueError(f"{text} is too large")
    return value


def _parse_bool(text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise ValueError(f"{text} is neither true nor false")
    return text.lower() in TRUE
