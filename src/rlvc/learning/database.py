"""Interactions as learning has them: looked at once, and seen through a classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.fixed_point import FixedPoint, Scale
from rlvc.classifiers._nodes import Nodes
from rlvc.classifiers.base import Classifier, Split
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import AtLeast, Feature
from rlvc.learning.aliasing import Evidence, Residuals, bellman_residuals, variance_of
from rlvc.learning.generation.base import Candidates, GeneratorState
from rlvc.learning.make_policy import Seen, Spot, first_spot
from rlvc.learning.mdp import MappedMDP, MappedSequence, estimate
from rlvc.learning.selection.selector import Selector, SplitChoice
from rlvc.learning.surrogates import Surrogates
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.keypoints import Keypoints

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Database:
    """Interactions and what the eye saw in their percepts.

    Attributes:
        interactions: ⟨s, a, r, s′⟩, percepts by number.
        index: What the percepts show of the features known so far.
        extractor: Who looked.
        kept: What is worked out once for all stages.
    """

    interactions: Interactions
    index: FeatureIndex
    extractor: FeatureExtractor
    kept: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def incidence(self) -> Incidence:
        """Which percept exhibits which feature."""
        return self.index.incidence

    @property
    def graph(self) -> FeatureGraph:
        """The features known so far."""
        return self.index.graph

    def variance(self, gamma: float) -> float:
        """Return the variance of the discounted returns: the scale of aliasing."""
        scale = Scale.of(self.interactions.reward)
        return variance_of_returns([sum_returns(self.interactions, gamma, scale)], gamma, scale)

    def through(
        self, classifier: Classifier, absorbing_gamma: float | None = None, threads: int = 1
    ) -> View:
        """Return the interactions as a classifier shows them.

        Args:
            classifier: From what percepts exhibit to visual classes.
            absorbing_gamma: See :func:`map_interactions`.
            threads: How many threads to use; no result depends on it.
        """
        return View.of(self, classifier, absorbing_gamma, threads)

    def map(self, classifier: Classifier, absorbing_gamma: float | None = None) -> MappedMDP:
        """Return the MDP that a classifier makes of the interactions."""
        return self.through(classifier, absorbing_gamma).mdp

    def classes(self, classifier: Classifier, threads: int = 1) -> Ints:
        """Return the (n_percepts,) visual classes of the percepts, whatever the threads."""
        if not isinstance(classifier, Nodes):
            return classifier.classify(self.incidence, threads)
        whose, graph, before, known = self.kept.get("classes", (None, (), None, None))
        # Features that another run added may have the same numbers, and mean something else.
        is_same = whose is self.interactions and graph == self.graph.features[: len(graph)]
        if is_same:
            classes = classifier.reclassify(before, known, self.incidence, threads)
        else:
            classes = classifier.classify(self.incidence, threads)
        # The classifier of the next stage is often refined from that of this one.
        self.kept["classes"] = self.interactions, self.graph.features, classifier, classes
        return classes

    def usage(self, classifier: Classifier) -> Ints:
        """Return on how many percepts each of the classifier's features is tested."""
        return classifier.usage(self.incidence)

    def spots(self, numbers: Sequence[int]) -> list[Spot | None]:
        """Return where some features are first seen; None where they are not."""
        return [first_spot(self.index, number) for number in numbers]

    def add(self, features: Iterable[Feature]) -> tuple[Database, list[int]]:
        """Return the database in which some more features are known, and the number of each."""
        index, numbers = self.index.add(features)
        return replace(self, index=index), numbers

    def whole(self) -> Database:
        """Return itself, as it is in memory."""
        return self

    def once(self, name: Any, work: Callable[[], T]) -> T:
        """Return what some work makes of the interactions; it is done once."""
        whose, found = self.kept.get(name, (None, None))
        if whose is not self.interactions:  # a copy of the database may have others
            found = work()
            self.kept[name] = self.interactions, found
        return cast("T", found)

    def index_of(
        self, percepts: Percepts, threads: int = 0, keypoints: list[Keypoints] | None = None
    ) -> FeatureIndex:
        """Return what other percepts show of the features known here; nothing is learned."""
        keypoints = keypoints or ExtractionCache().extract(self.extractor, percepts, threads)
        seen = self.extractor.find_symbols(percepts, keypoints, threads, learn=False)
        return FeatureIndex.of(self.index.graph, percepts, seen)


class Shown(Protocol):
    """Interactions as a classifier shows them, wherever they are: all that a stage asks for."""

    @property
    def database(self) -> Learnable:
        """The interactions."""
        ...

    @property
    def mdp(self) -> MappedMDP:
        """The mapped MDP."""
        ...

    def residuals(self, q: Floats, gamma: float) -> Evidence:
        """Return the Bellman residuals of some values."""
        ...

    def select(
        self,
        offering: GeneratorState,
        selector: Selector,
        residuals: Any,
        is_open: Bools,
        attempt: int,
    ) -> tuple[SplitChoice, Candidates] | None:
        """Return the best feature of every class, and what there was; None if no others are left.

        Args:
            offering: Who offers features.
            selector: Who chooses.
            residuals: What :meth:`residuals` returned.
            is_open: (n_classes,) the classes to split.
            attempt: How often it was asked before at this stage.
        """
        ...

    def stand_in(
        self,
        surrogates: Surrogates,
        database: Any,
        splits: list[Split],
        choice: SplitChoice,
        residuals: Any,
        min_samples: int,
    ) -> list[AtLeast | None]:
        """Return what to test instead of some features; see :meth:`Surrogates.extend`.

        ``database`` knows the features by which the splits are made.
        """
        ...


@runtime_checkable
class Learnable(Seen, Protocol):
    """A database, wherever what was seen is kept: what learning and reports ask for.

    :class:`Database` has it in memory; :class:`rlvc.learning.spread.Spread` on several workers.
    """

    def variance(self, gamma: float) -> float:
        """Return the variance of the discounted returns."""
        ...

    def through(
        self, classifier: Classifier, absorbing_gamma: float | None = None, threads: int = 1
    ) -> Shown:
        """Return the interactions as a classifier shows them."""
        ...

    def map(self, classifier: Classifier, absorbing_gamma: float | None = None) -> MappedMDP:
        """Return the MDP that a classifier makes of the interactions."""
        ...

    def classes(self, classifier: Classifier) -> Ints:
        """Return the (n_percepts,) visual classes of the percepts."""
        ...

    def add(self, features: Iterable[Feature]) -> tuple[Learnable, list[int]]:
        """Return the database in which some more features are known, and the number of each."""
        ...

    def index_of(
        self, percepts: Percepts, threads: int = 0, keypoints: list[Keypoints] | None = None
    ) -> FeatureIndex:
        """Return what other percepts show of the features known here; nothing is learned."""
        ...

    def whole(self) -> Database:
        """Return it in memory."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """A database as a classifier shows it.

    Attributes:
        database: The interactions.
        classes: (n_percepts,) the visual classes.
        transitions: What the interactions are taken to say.
        mdp: The mapped MDP.
        threads: How many threads to use.
    """

    database: Database
    classes: Ints
    transitions: EffectiveTransitions
    mdp: MappedMDP
    threads: int

    @classmethod
    def of(
        cls, database: Database, classifier: Classifier, absorbing_gamma: float | None, threads: int
    ) -> View:
        """Return what a classifier shows of a database."""
        interactions = database.interactions
        classes = database.classes(classifier, threads)
        scale = database.once(
            ("scale", absorbing_gamma), lambda: scale_of(interactions.reward, absorbing_gamma)
        )
        transitions = database.once(
            ("belief", absorbing_gamma),
            lambda: EffectiveTransitions.of(interactions, absorbing_gamma),
        )
        sequence = transitions.map(interactions, classes)
        mdp = estimate(sequence, classifier.n_classes, interactions.n_actions, scale)

        def again() -> MappedSequence:
            return transitions.map(interactions, database.classes(classifier))

        return cls(database, classes, transitions, replace(mdp, source=again), threads)

    def residuals(self, q: Floats, gamma: float) -> Residuals:
        """Return the Bellman residuals of some values."""
        # Made again, which takes little time, as it would take much room until the next stage.
        sequence = self.transitions.map(self.database.interactions, self.classes)
        return bellman_residuals(sequence, q, gamma, self.mdp.scale, self.threads)

    def select(
        self,
        offering: GeneratorState,
        selector: Selector,
        residuals: Residuals,
        is_open: Bools,
        attempt: int,
    ) -> tuple[SplitChoice, Candidates] | None:
        """Return the best feature of every class, and what there was; None if no others are left.

        The arguments are those of :meth:`Shown.select`.
        """
        offered = offering.generate(
            self.database.index, self.classes, is_open, attempt, self.threads
        )
        if offered is None:
            return None
        start = self.database.interactions.start
        choice = selector.select(residuals, start, offered.incidence, is_open, self.threads)
        return choice, offered

    def stand_in(
        self,
        surrogates: Surrogates,
        database: Database,
        splits: list[Split],
        choice: SplitChoice,
        residuals: Residuals,
        min_samples: int,
    ) -> list[AtLeast | None]:
        """Return what to test instead of some features; see :meth:`Surrogates.extend`."""
        return surrogates.extend(
            splits, choice, database.index, self.classes, residuals,
            database.interactions.start, min_samples,
        )  # fmt: skip


def register_features(
    database: Learnable, splits: list[Split], offered: list[Candidates]
) -> tuple[Learnable, list[Split]]:
    """Return the database in which the features that split classes are known, and the splits.

    Features that are new get numbers of their own, in the order of the splits.
    """
    new = [one for one in offered if len(one.new)]
    if len(new) > 1:
        raise ValueError("A generator must offer all new features of a stage at one attempt.")
    made = [one for one in splits if one.feature >= len(database.graph)]
    if not made:
        return database, splits
    (candidates,) = new
    grown, numbers = database.add(candidates.new[one.feature - candidates.n_known] for one in made)
    number = dict(zip((split.feature for split in made), numbers, strict=True))
    return grown, [Split(s.visual_class, number.get(s.feature, s.feature)) for s in splits]


def scale_of(reward: Floats, absorbing_gamma: float | None) -> Scale:
    """Return the scale of rewards, of which some may be taken for ever."""
    scale = Scale.of(reward)
    return (
        scale
        if absorbing_gamma is None
        else replace(scale, largest=scale.largest / (1.0 - absorbing_gamma))
    )


Sums = tuple[int, int, int]  # how many numbers, their sum, the sum of their squares


def sum_returns(interactions: Interactions, gamma: float, scale: Scale) -> Sums:
    """Return the sums of the discounted returns of whole episodes; they add up over parts."""
    integers = _fixed(gamma, scale).encode(interactions.returns(gamma))
    return len(integers), int(integers.sum()), int((integers * integers).sum())


def variance_of_returns(parts: Iterable[Sums], gamma: float, scale: Scale) -> float:
    """Return the variance of all returns, given the sums of the parts."""
    sums = np.asarray(list(parts), np.int64).sum(axis=0, keepdims=True)
    (variance,) = np.ldexp(variance_of(*sums.T), -2 * _fixed(gamma, scale).exponent)
    return float(variance)


def _fixed(gamma: float, scale: Scale) -> FixedPoint:
    return FixedPoint.for_squares(scale.largest / (1.0 - gamma), scale.n)


@dataclass(frozen=True, slots=True)
class EffectiveTransitions:
    """What the interactions are taken to say, whatever the classes.

    Attributes:
        reward: (N,) what follows from each.
        terminated: (N,) whether nothing comes after it.
        is_last: (N,) whether the next row does not continue the episode.
    """

    reward: Floats
    terminated: Bools
    is_last: Bools

    @classmethod
    def of(
        cls,
        interactions: Interactions,
        absorbing_gamma: float | None,
        is_stuck: Bools | None = None,
    ) -> EffectiveTransitions:
        """Return what interactions say; for ``absorbing_gamma`` see :func:`map_interactions`.

        Args:
            interactions: ⟨s, a, r, s′⟩.
            absorbing_gamma: The discount factor, or None.
            is_stuck: (N,) which lead nowhere, where more is known than these interactions.
        """
        reward, terminated = interactions.reward, interactions.terminated
        if absorbing_gamma is not None:
            stuck = interactions.is_stuck if is_stuck is None else is_stuck
            reward = np.where(stuck, reward / (1.0 - absorbing_gamma), reward)
            terminated = terminated | stuck
        return cls(reward, terminated, interactions.is_last)

    def map(self, interactions: Interactions, classes: Ints) -> MappedSequence:
        """Return the interactions as the classes of their percepts show them."""
        start, end = classes[interactions.start], classes[interactions.end]
        return MappedSequence(
            start, interactions.action, self.reward, end, self.terminated, self.is_last
        )


def map_interactions(
    interactions: Interactions, classes: Ints, absorbing_gamma: float | None = None
) -> MappedSequence:
    """Return the interactions as the classes of their percepts show them.

    Args:
        interactions: ⟨s, a, r, s′⟩.
        classes: (n_percepts,) the visual class of each percept.
        absorbing_gamma: The discount factor with which an action that leads nowhere repeats
            forever: such an interaction ends there, with a return of r / (1 − γ). None to assume,
            as the paper does, that the next try may lead on.
    """
    return EffectiveTransitions.of(interactions, absorbing_gamma).map(interactions, classes)
