"""Forests: policies of many classifiers that share one vocabulary and average their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import kind_of
from rlvc._core.arrays import Bools, Floats, Ints
from rlvc.classifiers.base import Classifier
from rlvc.data.observations import one_percept
from rlvc.features.graph import FeatureGraph
from rlvc.features.lazy import LazyFeatures
from rlvc.policies.explanation import DecisiveTest, FeatureTest, ForestExplanation
from rlvc.policies.io import FOREST, read_forest
from rlvc.policies.policy import BasePolicy, Policy
from rlvc.policies.values import combine_values, greedy


@dataclass(frozen=True, slots=True, eq=False)
class ForestTree:
    """One classifier of a forest and the values of its classes.

    Attributes:
        classifier: Maps the features of a percept to the visual class of this tree.
        q: (n_classes, n_actions) state–action values.
        count: (n_classes, n_actions) how often the database tried each pair.
    """

    classifier: Classifier
    q: Floats
    count: Ints


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ForestPolicy(BasePolicy):
    """One vocabulary and many classifiers on a few of its features.

    The value of an action on a percept is the mean over the trees that tried it in the class of the
    percept, less ``uncertainty_penalty`` standard deviations, since a value on which trees disagree
    is uncertain. The forest takes the action of the highest value; ties go to the lowest number. It
    never takes an action that no tree tried.

    It has the attributes of :class:`rlvc.policies.BasePolicy`, and these.

    Attributes:
        trees: The classifiers and their values.
        uncertainty_penalty: Standard deviations over the trees that are subtracted from a mean.
        out_of_bag: The error of the forest on interactions that its trees did not learn from; see
            :func:`rlvc.learning.forest.out_of_bag_error`. None if there are none.
    """

    trees: tuple[ForestTree, ...]
    uncertainty_penalty: float = 0.0
    out_of_bag: float | None = None

    @classmethod
    def of(
        cls,
        policies: Sequence[Policy],
        out_of_bag: float | None = None,
        uncertainty_penalty: float = 0.0,
    ) -> ForestPolicy:
        """Return the forest of policies that share an extractor and a database."""
        graph, trees, usage = FeatureGraph(), list[ForestTree](), np.zeros(0, np.int64)
        patches: dict[int, NDArray[np.uint8]] = {}
        for policy in policies:
            graph, numbers = graph.join(policy.graph)
            trees.append(ForestTree(policy.classifier.renumber(numbers), policy.q, policy.count))
            usage = np.append(usage, np.zeros(len(graph) - len(usage), np.int64))
            usage[list(numbers.values())] += policy.usage
            patches |= {numbers[n]: patch for n, patch in enumerate(policy.patches)}
        fields = policies[0]._base_fields() | {"graph": graph, "usage": usage, "about": {}}
        if patches:
            fields["patches"] = np.stack([patches[number] for number in range(len(graph))])
        return cls(
            trees=tuple(trees),
            uncertainty_penalty=uncertainty_penalty,
            out_of_bag=out_of_bag,
            **fields,
        )

    @property
    def tested(self) -> Ints:
        """The numbers of the features that the trees test, in ascending order."""
        return np.unique(np.concatenate([one.classifier.features for one in self.trees]))

    @property
    def n_classes(self) -> float:
        """The mean number of visual classes of the trees."""
        return float(np.mean([one.classifier.n_classes for one in self.trees]))

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return int(self.trees[0].q.shape[1])

    def tree(self, number: int) -> Policy:
        """Return one tree as a policy, with the features of the forest."""
        one = self.trees[number]
        return Policy(classifier=one.classifier, q=one.q, count=one.count, **self._base_fields())

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Ints, Any]:
        """Return the action for one percept, or the actions for a batch, and the state unchanged.

        See :meth:`rlvc.Policy.predict`.
        """
        classifiers = [one.classifier for one in self.trees]
        actions = greedy(*self.vote(self._classify(classifiers, observation)))
        return np.asarray(actions + self.action_start), state

    def vote(self, classes: Iterable[Ints]) -> tuple[Floats, Bools]:
        """Return the values of the actions, and which of them any tree tried.

        Args:
            classes: For every tree, the visual classes of some percepts, an array of any shape.

        Returns:
            q: (..., n_actions) the values; 0 where no tree tried the action.
            is_tried: (..., n_actions) where some tree did.
        """
        pairs = zip(self.trees, classes, strict=True)
        return combine_values(
            ((one.q[at], one.count[at] > 0) for one, at in pairs), self.uncertainty_penalty
        )

    def explain(self, percept: Any) -> ForestExplanation:
        """Return how the trees vote on one percept, and which features decided.

        ``tree(k).explain(percept)`` gives the path through one of the trees.
        """
        features = LazyFeatures(self.graph, self.extractor, one_percept(percept, self.shapes))
        walks = [one.classifier.walk(features.exhibits) for one in self.trees]
        classes = np.asarray([visual_class for _, visual_class in walks], np.int64)
        q, is_tried = self.vote(classes)
        best = int(greedy(q, is_tried))
        lead = self._lead(q, is_tried, best)
        tested: dict[int, list[int]] = {}
        for tree, (path, _) in enumerate(walks):
            for number, _ in path:
                tested.setdefault(number, []).append(tree)
        decisive = []
        for number, trees in sorted(tested.items()):
            other = self.vote(self._flip(classes, number, trees, features.exhibits))
            gain = lead - self._lead(*other, best)
            test = FeatureTest.of(self.graph, features, number)
            decisive.append(DecisiveTest(test, len(trees), gain, int(greedy(*other))))
        pairs = zip(self.trees, classes, strict=True)
        ballots = [greedy(one.q[at], one.count[at] > 0) for one, at in pairs]
        return ForestExplanation(
            q=q,
            is_tried=is_tried,
            action=best + self.action_start,
            action_names=self.action_names,
            action_start=self.action_start,
            ballots=np.bincount(ballots, minlength=len(q)),
            lead=lead,
            decisive=tuple(sorted(decisive, key=lambda one: -one.gain)),
            uncertainty_penalty=self.uncertainty_penalty,
        )

    def _lead(self, q: Floats, is_tried: Bools, action: int) -> float:
        """Return how far an action is ahead; actions never tried count as the lowest value."""
        lowest = min(float(one.q[one.count > 0].min(initial=0.0)) for one in self.trees)
        value = np.where(is_tried, q, lowest)
        others = np.delete(value, action)
        return float(value[action] - others.max()) if len(others) else 0.0

    def _flip(
        self, classes: Ints, number: int, trees: list[int], exhibits: Callable[[int], bool]
    ) -> Ints:
        """Return the class in each tree if the test of one feature had the opposite outcome."""
        flipped = classes.copy()
        for tree in trees:
            walk = self.trees[tree].classifier.walk
            flipped[tree] = walk(lambda other: exhibits(other) != (other == number))[1]
        return flipped

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ForestPolicy:
        """Read a forest from a file; no code from the file is run.

        Raises:
            FileFormatError: The file is not a forest, or is damaged.
        """
        parts, trees = read_forest(path)
        return cls(trees=tuple(ForestTree(*one) for one in trees), **parts)


AnyPolicy = Policy | ForestPolicy


def load_policy(path: str | os.PathLike[str]) -> AnyPolicy:
    """Read a policy of either kind from a file; no code from the file is run.

    Raises:
        FileFormatError: The file is not a policy, or is damaged.
    """
    return ForestPolicy.load(path) if kind_of(path) == FOREST else Policy.load(path)
