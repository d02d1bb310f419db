"""The dynamics of an agent that walks from spot to spot and turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from rlvc._core.arrays import Bools, Floats, Ints, frozen
from rlvc._core.params import check, param

ACTION_NAMES: Final = ("turn left", "turn right", "forward")
HEADINGS: Final = ("N", "E", "S", "W")
AHEAD: Final = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""One step along each heading: (x east, y north)."""
TOLERANCE: Final = 1e-9
"""Actions whose values differ by no more than this are equally good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphWorld:
    """Spots on a grid, the links between them, and what it costs to walk and to turn.

    A state is a spot and a heading: its number is 4 · spot + heading, headings in the order N, E,
    S, W. Actions are in the order of ``ACTION_NAMES``. Forward goes to the linked spot ahead;
    where there is none, the agent stays. Forward in the goal terminates.

    >>> spots = GraphWorld(places=((0, 0), (0, 1)), links=((0, 1),), goal=(1, 1))
    >>> spots.next_state[0].tolist(), spots.next_state[4].tolist()
    ([3, 1, 4], [7, 5, 4])
    >>> spots.terminated[5].tolist(), spots.reward[5].tolist()
    ([False, False, True], [-5.0, -5.0, 100.0])
    """

    places: tuple[tuple[int, int], ...]
    """Each spot's (x east, y north)."""
    links: tuple[tuple[int, int], ...]
    """Pairs of spots, one step apart, between which the agent may walk either way."""
    goal: tuple[int, int]
    """The spot and the heading in which going forward enters the building."""
    turn_reward: float = param(-5.0, "for turning left or right")
    forward_reward: float = param(-10.0, "for going forward, also where the agent stays")
    goal_reward: float = param(100.0, "for entering the building, in place of forward_reward")
    gamma: float = param(0.8, "discount factor (γ) of the task", low=0, below=1)
    next_state: Ints = field(init=False, repr=False, compare=False)
    """State that each action leads to, shape (n_states, 3); the same state from the goal."""
    reward: Floats = field(init=False, repr=False, compare=False)
    """Reinforcement of each action, shape (n_states, 3)."""
    terminated: Bools = field(init=False, repr=False, compare=False)
    """Whether each action ends the episode, shape (n_states, 3)."""

    def __post_init__(self) -> None:
        for a, b in self.links:
            if not 0 <= min(a, b) <= max(a, b) < len(self.places) or self._way(a, b) not in AHEAD:
                raise ValueError(
                    f"links of GraphWorld must join spots one step apart; got {(a, b)} "
                    f"among {len(self.places)} spots."
                )
        spot, heading = self.goal
        if not (0 <= spot < len(self.places) and 0 <= heading < len(HEADINGS)):
            raise ValueError(
                f"goal of GraphWorld must be a spot from 0 to {len(self.places) - 1} and a heading "
                f"from 0 to {len(HEADINGS) - 1}; got {self.goal}."
            )
        check(self)
        for name, table in zip(("next_state", "reward", "terminated"), self._tables(), strict=True):
            object.__setattr__(self, name, frozen(table))

    @property
    def n_states(self) -> int:
        """The number of states: four for each spot."""
        return len(self.places) * len(HEADINGS)

    def name(self, state: int) -> str:
        """Return the name of a state: its spot and heading.

        >>> CAMPUS.name(41)
        '10E'
        """
        return f"{state // len(HEADINGS)}{HEADINGS[state % len(HEADINGS)]}"

    def optimal_q(self) -> Floats:
        """Return Q*, shape (n_states, 3), by value iteration to convergence.

        >>> CAMPUS.optimal_q()[40:42].round(1)
        array([[ 39.,  75.,  50.],
               [ 55.,  55., 100.]])
        """
        q = np.zeros(self.reward.shape)
        change = np.inf
        while change > TOLERANCE * 1e-3 * (1 - self.gamma):
            onward = self.gamma * ~self.terminated * q.max(axis=1)[self.next_state]
            change = np.abs(self.reward + onward - q).max()
            q = self.reward + onward
        return q

    def is_optimal(self, actions: ArrayLike, states: ArrayLike) -> Bools:
        """Return for each action, taken in the state beside it, whether none is better.

        Actions that are equally good, up to 1e-9, are all optimal. Shapes are broadcast.

        >>> CAMPUS.is_optimal([0, 1, 2], 43)
        array([ True,  True, False])
        """
        q = self.optimal_q()
        best = q.max(axis=1, keepdims=True) - q <= TOLERANCE
        return np.asarray(best[np.asarray(states), np.asarray(actions)])

    def _way(self, a: int, b: int) -> tuple[int, int]:
        """Return the (x east, y north) from a spot to another."""
        (ax, ay), (bx, by) = self.places[a], self.places[b]
        return bx - ax, by - ay

    def _tables(self) -> tuple[Ints, Floats, Bools]:
        shape = len(self.places), len(HEADINGS)
        spot, heading = np.indices(shape)
        ahead = spot.copy()
        for a, b in self.links:
            ahead[a, AHEAD.index(self._way(a, b))] = b
            ahead[b, AHEAD.index(self._way(b, a))] = a
        ahead[self.goal] = self.goal[0]
        ends = (spot, heading - 1), (spot, heading + 1), (ahead, heading)
        tables = [np.ravel_multi_index(end, shape, mode="wrap") for end in ends]
        next_state = np.stack([table.ravel() for table in tables], axis=1)
        reward = np.full(next_state.shape, self.turn_reward)
        reward[:, 2] = self.forward_reward
        terminated = np.zeros(next_state.shape, np.bool_)
        goal = np.ravel_multi_index(self.goal, shape), 2
        reward[goal], terminated[goal] = self.goal_reward, True
        return next_state, reward, terminated


# Neighbours on the grid are linked, except 1-5 and 2-6.
CAMPUS: Final = GraphWorld(
    places=(
        (0, 0), (1, 0), (2, 0), (3, 0),
        (0, 1), (1, 1), (2, 1), (3, 1),
        (1, 2), (2, 2), (3, 2),
    ),
    links=(
        (0, 1), (1, 2), (2, 3),
        (0, 4), (3, 7),
        (4, 5), (5, 6), (6, 7),
        (5, 8), (6, 9), (7, 10),
        (8, 9), (9, 10),
    ),
    goal=(10, 1),
)  # fmt: skip
