"""Explanations: which tests led a policy, or a forest, to its action on one percept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import AtLeast, Feature
from rlvc.features.lazy import LazyFeatures

MAX_SHOWN: Final = 12  # tests in a figure, and in the text about a forest


@dataclass(frozen=True, slots=True)
class FeatureTest:
    """One test on the path of a percept, and its outcome.

    Attributes:
        number: The number of the feature in the policy.
        feature: The feature that is tested.
        name: The feature in words.
        exhibited: Whether the percept exhibits it.
        occurrences: (n, 2) the positions at which it occurs, in pixels.
        seen: The parts that the percept exhibits, by number; only for an ``AtLeast`` feature.
        seen_name: These parts in words.
    """

    number: int
    feature: Feature
    name: str
    exhibited: bool
    occurrences: NDArray[np.float64]
    seen: tuple[int, ...] = ()
    seen_name: str = ""

    @classmethod
    def of(cls, graph: FeatureGraph, percept: LazyFeatures, number: int) -> FeatureTest:
        """Test a feature on a percept."""
        feature, found = graph[number], percept.find(number)
        parts = feature.parts if isinstance(feature, AtLeast) else ()
        seen = tuple(filter(percept.exhibits, parts))
        return cls(
            number, feature, graph.describe(number), len(found) > 0, found[:, :2], seen,
            graph.names_of(seen),
        )  # fmt: skip

    def __str__(self) -> str:
        text = f"{self.name}: {self.summary}"
        if not self.exhibited:
            return text
        places = ", ".join(f"({x:.0f}, {y:.0f})" for x, y in self.occurrences[:3])
        n_more = len(self.occurrences) - 3
        return f"{text} at {places}" + (f" and {n_more} more" if n_more > 0 else "")

    @property
    def summary(self) -> str:
        """The outcome in words: whether the feature was seen, or which of its parts were."""
        if not isinstance(self.feature, AtLeast):
            return "seen" if self.exhibited else "not seen"
        if not self.seen or len(self.seen) == len(self.feature.parts):
            return "all seen" if self.seen else "none seen"
        return f"{'' if self.exhibited else 'only '}{len(self.seen)} seen ({self.seen_name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionChoice:
    """An action and the values from which it was chosen.

    Attributes:
        q: (n_actions,) the values of the actions.
        is_tried: (n_actions,) whether the database holds each action in the class of the percept.
        action: The chosen action, as the environment numbers it.
        action_names: The names of the actions, if they have any.
        action_start: The first action as the environment numbers them.
    """

    q: NDArray[np.float64]
    is_tried: NDArray[np.bool_]
    action: int
    action_names: tuple[str, ...] = ()
    action_start: int = 0

    @property
    def best(self) -> int:
        """The index of the chosen action in ``q``."""
        return self.action - self.action_start

    def name(self, index: int) -> str:
        """Return the name of the action at an index of ``q``."""
        return self.action_names[index] if self.action_names else str(index + self.action_start)

    def describe_values(self) -> str:
        """Return the values of all actions in words.

        >>> q, is_tried = np.array([1.5, 0.0]), np.array([True, False])
        >>> ActionChoice(q=q, is_tried=is_tried, action=0).describe_values()
        '0 1.50, 1 never tried'
        """
        return ", ".join(
            f"{self.name(a)} {value:.2f}" if tried else f"{self.name(a)} never tried"
            for a, (value, tried) in enumerate(zip(self.q, self.is_tried, strict=True))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(ActionChoice):
    """Why a policy takes an action on one percept.

    Attributes:
        tests: The tests on the path through the classifier, in order.
        visual_class: The class that the path ends in.
    """

    tests: tuple[FeatureTest, ...]
    visual_class: int

    def shown(self, n: int = MAX_SHOWN) -> list[tuple[int, FeatureTest]]:
        """Return at most n tests to draw, with their numbers.

        They are the last features that were seen, then the last of the others.
        """
        tests = list(enumerate(self.tests, 1))
        seen = [i for i, test in tests if test.exhibited][-n:]
        rest = [i for i, _ in tests if i not in seen]
        kept = {*seen, *rest[max(len(tests) - n, 0) :]}
        return [(i, test) for i, test in tests if i in kept]

    def __str__(self) -> str:
        lines = [f"{i}. {test}" for i, test in enumerate(self.tests, 1)]
        values = self.describe_values()
        lines.append(f"so this is class {self.visual_class}, where the values are {values}")
        lines.append(f"so the action is {self.name(self.best)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class DecisiveTest:
    """A feature that some trees of a forest test on one percept, and its effect on the decision.

    Attributes:
        test: The feature and the outcome of its test.
        n_trees: The number of trees that test it.
        gain: The part of the action's lead that is due to it: the lead, less what would be left of
            it if the test had the opposite outcome in all trees.
        otherwise: The action that would win then, counted from 0.
    """

    test: FeatureTest
    n_trees: int
    gain: float
    otherwise: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestExplanation(ActionChoice):
    """Why a forest takes an action on one percept.

    The value of an action is the mean over the trees that tried it in the class of the percept,
    less ``uncertainty_penalty`` standard deviations.

    Attributes:
        ballots: (n_actions,) the number of trees whose best action it is.
        lead: The value of the action less that of the second best.
        decisive: The tests, by descending gain.
        uncertainty_penalty: Standard deviations over the trees that are subtracted from a mean.
    """

    ballots: NDArray[np.int64]
    lead: float
    decisive: tuple[DecisiveTest, ...]
    uncertainty_penalty: float = 0.0

    def shown(self, n: int = MAX_SHOWN) -> list[tuple[int, DecisiveTest]]:
        """Return the tests to show to people, with their ranks from 1.

        Up to half of them are the most decisive features that were seen and spoke for the action;
        the rest are the most decisive of all others.
        """
        for_it = [i for i, one in enumerate(self.decisive) if one.test.exhibited and one.gain > 0]
        seen = for_it[: n // 2]
        rest = [i for i in range(len(self.decisive)) if i not in seen][: n - len(seen)]
        return [(i + 1, self.decisive[i]) for i in sorted(seen + rest)]

    def __str__(self) -> str:
        order = np.argsort(-self.ballots, kind="stable")
        ballots = ", ".join(f"{self.name(a)} {self.ballots[a]}" for a in order if self.ballots[a])
        penalty = self.uncertainty_penalty
        less = f", less {penalty:g} standard deviations," if penalty else ""
        lines = [f"{self.ballots.sum()} trees vote: {ballots}"]
        lines.append(f"the mean values{less} are {self.describe_values()}")
        lines.append(f"so the action is {self.name(self.best)}, ahead by {self.lead:.2f}")
        if self.decisive:
            lines.append("the most decisive tests, with their gain:")
        shown = self.shown()
        for i, one in shown:
            trees = f"{one.n_trees} tree{'s' if one.n_trees > 1 else ''}"
            other = "" if one.otherwise == self.best else f", else {self.name(one.otherwise)}"
            lines.append(f"{i}. {one.gain:+.2f} ({trees}{other}) {one.test}")
        if len(shown) < len(self.decisive):
            lines.append(f"and {len(self.decisive) - len(shown)} more")
        return "\n".join(lines)
