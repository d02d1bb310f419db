"""The episodes of a table: its rows in order, and whether they make up whole episodes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.data.actions import ActionSpec
from rlvc.data.io.columns import Mask, ParsedTable
from rlvc.data.io.table import RawTable
from rlvc.data.problems import ProblemCollector

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Episodes:
    """N interactions in order; a percept is given by its place among the rows that are used.

    Attributes:
        rows: (M,) rows of the table that are used, in order.
        start: (N,) place in ``rows`` of what was seen before the action.
        end: (N,) place in ``rows`` of what was seen after it.
        action: (N,) action, as the environment numbers them.
        reward: (N,) reward.
        episode: (N,) number of the episode, from 0 without gaps.
        terminated: (N,) whether the end is terminal.
        truncated: (N,) whether the episode was cut after the end.
    """

    rows: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    episode: NDArray[np.int64]
    terminated: Mask
    truncated: Mask


def read_episodes(
    table: RawTable, actions: ActionSpec, problems: ProblemCollector
) -> Episodes | None:
    """Return the interactions of a table; None if anything is wrong, all of which is noted."""
    columns = ParsedTable(table, problems)
    columns.check(actions)
    ordered = _Ordered(columns)
    ordered.check_steps()
    if "action" in table.columns and len(ordered.rows):
        ordered.check_ends()
    return None if problems else ordered.cut()


class _Ordered:
    """The rows whose episode and step are known, sorted by them."""

    def __init__(self, columns: ParsedTable) -> None:
        self.columns, self.problems = columns, columns.problems
        episode, step = columns.episode, columns.step
        known = np.flatnonzero(episode.is_sound & step.is_sound)
        self.rows = known[np.lexsort((step.values[known], episode.values[known]))]
        self.episode, self.step = episode.values[self.rows], step.values[self.rows]
        is_new = self.episode[1:] != self.episode[:-1]
        self.is_first = np.concatenate([[True], is_new])[: len(self.rows)]
        self.is_last = np.concatenate([is_new, [True]])[: len(self.rows)]
        # Of an episode that lacks a row, more would be said than is wrong. A row whose episode is
        # not known likely belongs to that of a row next to it.
        lost = np.flatnonzero(~episode.is_sound)
        is_beside = np.isin(np.arange(len(episode.values)), [lost - 1, lost + 1])
        holed = episode.values[episode.is_sound & (~step.is_sound | is_beside)]
        self.is_whole = ~np.isin(self.episode, holed)
        self.acts = columns.action.is_given[self.rows]
        self.terminated = columns.terminated.values[self.rows]
        self.truncated = columns.truncated.values[self.rows]

    def _say(self, fact: str, where: Mask, *, cure: str) -> None:
        self.problems.at(fact, np.sort(self.rows[where]).tolist(), cure=cure)

    def check_steps(self) -> None:
        """Note the steps that are there twice, and those that are missing."""
        ahead = np.diff(self.step, prepend=self.step[:1])
        follows = self.is_whole & ~self.is_first
        is_double, is_ahead = follows & (ahead == 0), follows & (ahead > 1)
        for is_wrong, fact in (
            (is_double, "step is that of another row of its episode"),
            (is_ahead, "step leaves a gap after the one before"),
        ):
            places = np.flatnonzero(is_wrong)
            places = places[np.argsort(self.rows[places])]
            held = [f"episode {self.episode[i]}, step {self.step[i]}" for i in places]
            self.problems.at(
                fact,
                self.rows[places].tolist(),
                held,
                cure="Number the steps of an episode one by one.",
            )
        self.is_whole &= ~np.isin(self.episode, self.episode[is_double])

    def check_ends(self) -> None:
        """Note the episodes that have no end, or more than one, or no action at all."""
        place = np.arange(len(self.rows))
        heads = np.flatnonzero(self.is_first)
        last = np.maximum.reduceat(np.where(self.acts, place, -1), heads)  # action of an episode
        last_here = np.repeat(last, np.diff(heads, append=len(place)))
        ends = self.terminated | self.truncated
        columns = self.columns
        unclear = (columns.terminated.is_unclear | columns.truncated.is_unclear)[self.rows]
        self._say(
            "action is empty",
            self.is_whole & ~self.acts & ~self.is_last,
            cure="Only the last row of an episode, with the last image, has no action.",
        )
        self._say(
            "There is no action in the only row of an episode,",
            self.is_whole & ~self.acts & self.is_first & self.is_last,
            cure="Leave the episode out.",
        )
        self._say(
            "terminated or truncated is true before the last action of the episode",
            self.is_whole & self.acts & ends & (place < last_here),
            cure="Give what comes after it the number of another episode.",
        )
        is_final = self.is_whole & ~self.acts & self.is_last
        self._say(
            "terminated or truncated is true without an action",
            is_final & ends,
            cure="Set it in the row of the last action.",
        )
        reward = columns.reward.values[self.rows]
        self._say(
            "reward is given without an action",
            is_final & (reward != 0) & ~np.isnan(reward),
            cure="A reward belongs in the row of the action that it came after.",
        )
        endless = self.is_whole & (place == last_here) & ~ends & ~unclear
        for i in np.flatnonzero(endless):
            self.problems.add(
                f"episode {self.episode[i]} has no end: neither terminated nor truncated in "
                f"row {self.rows[i] + 1}. Set truncated to true there if it was cut off.",
                has_rows=True,
            )

    def cut(self) -> Episodes | None:
        """Return the interactions; a last one is left out if what came next is not known."""
        is_open = self.acts & self.is_last & ~self.terminated
        place = np.flatnonzero(self.acts & ~is_open)
        if not len(place):
            self.problems.add(
                "Nothing is left: every episode was cut off after its only action and shows no "
                "image after it. Add a last row with that image to each."
            )
            return None
        if is_open.any():
            log.warning(
                "%d of %d episodes were cut off and show no image after their last action; "
                "that action is left out.",
                np.count_nonzero(is_open),
                np.count_nonzero(self.is_first),
            )
        # Nothing depends on what is seen after a terminal end: without it, the start stands in.
        after = np.where(self.is_last[place], place, place + 1)
        used = np.union1d(place, after)
        row = self.rows[place]
        number = np.cumsum(self.is_first)[place]
        return Episodes(
            rows=self.rows[used],
            start=np.searchsorted(used, place),
            end=np.searchsorted(used, after),
            action=self.columns.action.values[row],
            reward=self.columns.reward.values[row],
            episode=np.unique(number, return_inverse=True)[1],
            terminated=self.terminated[place],
            truncated=self.truncated[place] | is_open[after],
        )
