"""How the trees of a forest vote on a percept, and what decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.policies.policy import FeatureTest

SHOWN: Final = 12  # decisive features that are put in words, or drawn


@dataclass(frozen=True, slots=True)
class DecisiveTest:
    """A feature that some trees tested on one percept, and what it did to the vote.

    Attributes:
        test: The feature, and whether it was seen.
        n_trees: How many trees tested it.
        gain: How much of the lead of the action is due to it: the lead, less what would be left of
            it if the test had come out the other way in all trees.
        otherwise: The action that would win then, counted from 0.
    """

    test: FeatureTest
    n_trees: int
    gain: float
    otherwise: int


@dataclass(frozen=True, slots=True)
class Vote:
    """Why a forest acts as it does on one percept.

    Attributes:
        q: (n_actions,) the value of each action: the mean over the trees that know it, less
            ``uncertainty_penalty`` standard deviations.
        is_tried: (n_actions,) whether any tree knows the action in the class of the percept.
        ballots: (n_actions,) for how many trees each action is the best.
        lead: How far the action is ahead of the next best one.
        decisive: The features that were tested, those first to which most of the lead is due.
        action: The action, as the environment numbers it.
        action_names: How to call the actions, if they have names.
        action_start: The first action as the environment numbers them.
        uncertainty_penalty: Standard deviations over the trees that are taken from a mean value.
    """

    q: Floats
    is_tried: Bools
    ballots: Ints
    lead: float
    decisive: tuple[DecisiveTest, ...]
    action: int
    action_names: tuple[str, ...] = ()
    action_start: int = 0
    uncertainty_penalty: float = 0.0

    @property
    def best(self) -> int:
        """The index of the action in ``q``."""
        return self.action - self.action_start

    def name(self, index: int) -> str:
        """Return how to call the action that stands at an index of ``q``."""
        return self.action_names[index] if self.action_names else str(index + self.action_start)

    def shown(self, n: int = SHOWN) -> list[tuple[int, DecisiveTest]]:
        """Return some features to show to people, with their rank from 1.

        They are the most decisive of those that were seen, if these spoke for the action, up to a
        half; and the most decisive of all others.
        """
        for_it = [i for i, one in enumerate(self.decisive) if one.test.exhibited and one.gain > 0]
        seen = for_it[: n // 2]
        rest = [i for i in range(len(self.decisive)) if i not in seen][: n - len(seen)]
        return [(i + 1, self.decisive[i]) for i in sorted(seen + rest)]

    def __str__(self) -> str:
        order = np.argsort(-self.ballots, kind="stable")
        ballots = ", ".join(f"{self.name(a)} {self.ballots[a]}" for a in order if self.ballots[a])
        values = ", ".join(
            f"{self.name(a)} {value:.2f}" if tried else f"{self.name(a)} never tried"
            for a, (value, tried) in enumerate(zip(self.q, self.is_tried, strict=True))
        )
        less = (
            f", less {self.uncertainty_penalty:g} standard deviations,"
            if self.uncertainty_penalty
            else ""
        )
        lines = [f"{self.ballots.sum()} trees vote: {ballots}"]
        lines.append(f"the mean values{less} are {values}")
        lines.append(f"so the action is {self.name(self.best)}, ahead by {self.lead:.2f}")
        if self.decisive:
            lines.append("what decided most, and what it is worth:")
        shown = self.shown()
        for i, one in shown:
            trees = f"{one.n_trees} tree{'s' if one.n_trees > 1 else ''}"
            other = "" if one.otherwise == self.best else f", else {self.name(one.otherwise)}"
            lines.append(f"{i}. {one.gain:+.2f} ({trees}{other}) {one.test}")
        left = len(self.decisive) - len(shown)
        return "\n".join(lines + [f"and {left} more"] * (left > 0))
