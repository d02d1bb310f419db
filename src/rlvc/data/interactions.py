"""The database of interactions ⟨s, a, r, s′⟩."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.jit import jit
from rlvc.data.observations import add_observations
from rlvc.data.percepts import Percepts, images_of
from rlvc.data.validation import (
    EMPTY,
    check_flaws,
    check_lengths,
    check_values,
    find_out_of_range,
    quote_rows,
    raise_all,
    read_columns,
)


@dataclass(frozen=True, slots=True)
class Interactions:
    """N interactions in the order in which they happened; percepts are given by number.

    Attributes:
        percepts: The distinct percepts.
        start: (N,) number of the percept s_t.
        action: (N,) action a_t, counted from 0.
        reward: (N,) reinforcement r_{t+1}.
        end: (N,) number of the percept s_{t+1}.
        episode: (N,) number of the episode; the interactions of one are adjacent.
        terminated: (N,) whether s_{t+1} is terminal.
        truncated: (N,) whether the episode was cut after s_{t+1}.
        n_actions: The number of actions.
        action_start: The first action as the environment numbers them.
        action_names: The names of the actions, if they have any.
        state: (N, d) the true state behind s_t if it is known, for comparison only.
        next_state: (N, d) the true state behind s_{t+1}.
    """

    percepts: Percepts
    start: Ints
    action: Ints
    reward: Floats
    end: Ints
    episode: Ints
    terminated: Bools
    truncated: Bools
    n_actions: int
    action_start: int = 0
    action_names: tuple[str, ...] = ()
    state: Floats | None = None
    next_state: Floats | None = None

    def __post_init__(self) -> None:
        n = len(self.start)
        if n == 0:
            raise ValueError(EMPTY)
        names = ("action", "reward", "end", "episode", "terminated", "truncated")
        raise_all(list(check_lengths(n, {name: getattr(self, name) for name in names})))
        raise_all(list(self._check_values()))  # needs columns of the same length

    def _check_values(self) -> Iterator[ValueError]:
        """Yield the errors of the values of the columns."""
        yield from check_values(
            self.action, self.reward, self.n_actions, self.action_start, self.action_names
        )
        for name in ("start", "end"):
            numbers = getattr(self, name)
            flaw = find_out_of_range(numbers, 0, len(self.percepts))
            yield from check_flaws(name, numbers, [flaw])
        if (self.episode[1:] >= self.episode[:-1]).all():  # the usual case, quickly checked
            return
        _, first = np.unique(self.episode, return_index=True)
        is_repeated = np.diff(self.episode, prepend=self.episode[0]) != 0
        is_repeated[first] = False
        if is_repeated.any():
            yield ValueError(
                "episode of Interactions must keep the rows of one episode together; got "
                f"{quote_rows(self.episode, is_repeated)} again. Sort the rows by episode and step."
            )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def is_last(self) -> Bools:
        """(N,) whether the next row does not continue the episode."""
        is_cut: Bools = (self.episode[1:] != self.episode[:-1]) | (self.start[1:] != self.end[:-1])
        return self.terminated | self.truncated | np.append(is_cut, np.True_)

    @property
    def is_stuck(self) -> Bools:
        """(N,) whether this action, in this percept, never led to another percept.

        A policy without memory then repeats the action forever. Where a later try succeeds by
        chance, the pair is not stuck.

        >>> image = np.zeros((2, 4, 4, 3), np.uint8)
        >>> image[1] = 1
        >>> data = Interactions.from_arrays(
        ...     image[[0, 0, 0]], [0, 1, 1], [0.0, 0, 0], [False, False, False],
        ...     next_observations=image[[0, 0, 1]],
        ... )
        >>> data.is_stuck.tolist()
        [True, False, False]
        """
        leads_away = np.zeros((len(self.percepts), self.n_actions), np.bool_)
        is_away = (self.start != self.end) | self.terminated
        leads_away[self.start[is_away], self.action[is_away]] = True
        return ~leads_away[self.start, self.action]

    def of_episodes(self, numbers: ArrayLike) -> tuple[Interactions, Ints]:
        """Return the interactions of these episodes, in the same order, and their percepts.

        Percepts are renumbered in the order of their old numbers, which are the second value.

        >>> image = np.arange(4 * 8 * 8, dtype=np.uint8).reshape(4, 8, 8)
        >>> data = Interactions.from_arrays(
        ...     image[:3], [0, 1, 0], [0, 0, 1], [False, True, True], next_observations=image[1:]
        ... )
        >>> part, percepts = data.of_episodes([1])
        >>> data.episode.tolist(), part.start.tolist(), part.end.tolist(), percepts.tolist()
        ([0, 0, 1], [0], [1], [2, 3])
        """
        rows = np.flatnonzero(np.isin(self.episode, numbers))
        percepts = np.unique([self.start[rows], self.end[rows]])
        columns = ("action", "reward", "episode", "terminated", "truncated")
        part = replace(
            self,
            percepts=self.percepts.take(percepts),
            start=np.searchsorted(percepts, self.start[rows]),
            end=np.searchsorted(percepts, self.end[rows]),
            **{name: getattr(self, name)[rows] for name in columns},
            state=None if self.state is None else self.state[rows],
            next_state=None if self.next_state is None else self.next_state[rows],
        )
        return part, percepts

    def returns(self, gamma: float) -> Floats:
        """Return the (N,) discounted returns from each interaction to the end of its episode."""
        total = np.empty(len(self))
        _discount(self.reward, self.is_last, gamma, total)
        return total

    @classmethod
    def from_arrays(
        cls,
        observations: Any,
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike | None = None,
        *,
        next_observations: Any,
        n_actions: int | None = None,
        action_start: int = 0,
        action_names: tuple[str, ...] = (),
    ) -> Interactions:
        """Create a database from one observation, action, reward and next observation per row.

        Observations are images, dicts of images or stacked frames; or a dict of arrays that have
        one of these in each row. Percepts are numbered in the order of their first occurrence: the
        start of a row, its end, the next row. Actions are counted from ``action_start``; by default
        there are as many as names, or else one more than the highest. An episode ends where a row
        is terminated or truncated. All errors are raised at once, one per line.

        >>> image = np.arange(4 * 8 * 8, dtype=np.uint8).reshape(4, 8, 8)
        >>> Interactions.from_arrays(
        ...     image[:3], [0, 1, 0], [0, 0, 1], [False, False, True], next_observations=image[1:]
        ... ).end.tolist()
        [1, 2, 3]
        """
        percepts, errors = Percepts(), list[Exception]()
        both = {"observations": observations, "next_observations": next_observations}
        pairs, is_even = add_observations(percepts, both, errors)
        given = {"action": actions, "reward": rewards, "terminated": terminated}
        if truncated is not None:
            given["truncated"] = truncated
        columns = read_columns(given, len(pairs), is_even, errors)
        action, reward, is_terminated, is_truncated = columns.values()
        ends = is_terminated | is_truncated
        action = action - action_start
        if n_actions is None:
            n_actions = len(action_names) or int(action.max(initial=0)) + 1
        errors += check_values(action, reward, n_actions, action_start, action_names)
        raise_all(errors)
        return cls(
            percepts, pairs[:, 0], action, reward, pairs[:, 1],
            np.cumsum(ends) - ends, is_terminated, is_truncated,
            n_actions, action_start, action_names,
        )  # fmt: skip

    @classmethod
    def from_rows(
        cls,
        percepts: Percepts,
        rows: Sequence[tuple[Any, ...]],
        actions: spaces.Discrete,
        action_names: tuple[str, ...] = (),
    ) -> Interactions:
        """Create a database from rows of start, action, reward, end, episode and the two flags.

        Actions are counted from 0, and there must be at least one row.
        """
        types = (np.int64, np.int64, np.float64, np.int64, np.int64, np.bool_, np.bool_)
        columns: Iterator[NDArray[Any]] = map(np.asarray, zip(*rows, strict=True), types)
        start, action, reward, end, episode, terminated, truncated = columns
        return cls(
            percepts, start, action, reward, end, episode, terminated, truncated,
            n_actions=int(actions.n), action_start=int(actions.start), action_names=action_names,
        )  # fmt: skip

    def to_d3rlpy(self) -> dict[str, NDArray[Any]]:
        """Return flat arrays that d3rlpy's ``MDPDataset`` takes as its arguments.

        Observations are channel-first; the channels of several cameras, which must have one size,
        are concatenated. They hold one image per interaction, so they may need much memory.

        >>> image = np.arange(4 * 8 * 8, dtype=np.uint8).reshape(4, 8, 8)
        >>> arrays = Interactions.from_arrays(
        ...     image[:3], [0, 1, 0], [0, 0, 1], [False, False, True], next_observations=image[1:]
        ... ).to_d3rlpy()
        >>> {name: array.shape for name, array in arrays.items()}
        {'observations': (3, 1, 8, 8), 'actions': (3, 1), 'rewards': (3, 1), 'terminals': (3,),
        'timeouts': (3,)}
        """
        shapes = {images.camera: images.shape or (0, 0, 0) for images in self.percepts.images}
        sizes = {shape[:2] for shape in shapes.values()}
        if len(sizes) > 1:
            raise ValueError(
                f"The images of all cameras must have one size for d3rlpy; got {shapes}. "
                "Resize them, or export the interactions of one camera."
            )
        n_planes = sum(shape[2] for shape in shapes.values())
        flat = np.empty((len(self), n_planes, *sizes.pop()), np.uint8)
        order = np.argsort(self.start, kind="stable")  # to read each percept once
        for rows in np.split(order, np.flatnonzero(np.diff(self.start[order])) + 1):
            parts = images_of(self.percepts[int(self.start[rows[0]])]).values()
            flat[rows] = np.concatenate([part.transpose(2, 0, 1) for part in parts])
        return {
            "observations": flat,
            "actions": self.action[:, np.newaxis],
            "rewards": self.reward[:, np.newaxis],
            "terminals": self.terminated.astype(np.float32),
            "timeouts": (self.is_last & ~self.terminated).astype(np.float32),
        }


@jit
def _discount(reward: Floats, is_last: Bools, gamma: float, total: Floats) -> None:
    ahead = 0.0
    for t in range(len(reward) - 1, -1, -1):
        ahead = reward[t] + gamma * (0.0 if is_last[t] else ahead)
        total[t] = ahead
