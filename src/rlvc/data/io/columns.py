"""The columns of a table as numbers, each cell checked for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.data.actions import ActionSpec
from rlvc.data.io.table import RawTable
from rlvc.data.problems import ProblemCollector

Mask = NDArray[np.bool_]
LARGEST = 2**62  # of whole numbers; the next one must fit too
TRUE = frozenset({"true", "yes", "1", "1.0"})
FALSE = frozenset({"false", "no", "0", "0.0"})


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """The values of a column, which cells are not empty, and which of these were understood.

    In a column that is missing no cell is empty and none is understood: that it is missing has
    been said, and nothing more is to be said of its cells.
    """

    values: NDArray[Any]
    is_given: Mask
    is_sound: Mask

    @property
    def is_unclear(self) -> Mask:
        """Which cells hold something that was not understood."""
        return self.is_given & ~self.is_sound


class ParsedTable:
    """All columns of a table but the images; what cannot be understood is noted at once."""

    def __init__(self, table: RawTable, problems: ProblemCollector) -> None:
        self.table, self.problems = table, problems
        self.episode = self._read("episode", np.int64, _whole, "a whole number")
        self.step = self._read("step", np.int64, _whole, "a whole number")
        self.action = self._read("action", np.int64, _whole, "a whole number")
        self.reward = self._read("reward", np.float64, float, "a number")
        self.terminated = self._read("terminated", np.bool_, _truth, "true or false")
        self.truncated = self._read("truncated", np.bool_, _truth, "true or false")

    def _read(
        self, name: str, dtype: Any, convert: Callable[[str], Any], kind: str
    ) -> ParsedColumn:
        n = self.table.n_rows
        values = np.zeros(n, dtype)
        if name not in self.table.columns:
            return ParsedColumn(values, np.ones(n, np.bool_), np.zeros(n, np.bool_))
        cells = self.table.columns[name]
        is_given = np.array([cell != "" for cell in cells], np.bool_)
        is_sound = is_given.copy()
        for row in np.flatnonzero(is_given).tolist():
            try:
                values[row] = convert(cells[row])
            except ValueError:
                is_sound[row] = False
        column = ParsedColumn(values, is_given, is_sound)
        self.say(f"{name} is not {kind}", column.is_unclear, name)
        return column

    def say(self, fact: str, where: Mask, column: str = "", *, cure: str = "") -> None:
        """Note what is wrong in some rows, and what their cells of a column hold."""
        rows = np.flatnonzero(where).tolist()
        held = [self.table.columns[column][row] for row in rows] if column else ()
        self.problems.at(fact, rows, held, cure=cure)

    def check(self, actions: ActionSpec) -> None:
        """Note the cells that are empty, and the numbers that cannot be."""
        self.say("episode is empty", ~self.episode.is_given)
        self.say("step is empty", ~self.step.is_given)
        self._check_actions(actions)
        self._check_rewards()

    def _check_actions(self, actions: ActionSpec) -> None:
        number = self.action.values - actions.start
        if actions.n is None:
            fact, is_outside = f"action is below {actions.start}", number < 0
            cure = "Say with actions.txt, or with action_start, where the actions begin."
        else:
            fact = f"action is not in {actions.start}..{actions.start + actions.n - 1}"
            is_outside = (number < 0) | (number >= actions.n)
            cure = "Correct it, or how many actions there are."
        self.say(fact, self.action.is_sound & is_outside, "action", cure=cure)

    def _check_rewards(self) -> None:
        value, acts = self.reward.values, self.action.is_given
        if "action" in self.table.columns:
            self.say("reward is empty", acts & ~self.reward.is_given)
        is_known = acts & self.reward.is_sound
        is_finite = np.isfinite(value)
        self.say("reward is not finite", is_known & ~is_finite, "reward")
        size = np.abs(value)
        is_extreme = is_finite & (value != 0) & ((size > 1e100) | (size < 1e-100))
        self.say(
            "reward is neither 0 nor between 1e-100 and 1e100 in size",
            is_known & is_extreme,
            "reward",
            cure="Scale the rewards: policies do not change.",
        )


def _whole(text: str) -> int:
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


def _truth(text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise ValueError(f"{text} is neither true nor false")
    return text.lower() in TRUE
