"""What a forest learned: many classifiers that vote with their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import kind_of
from rlvc._core.arrays import Bools, Floats, Ints
from rlvc._core.jit import run_threads
from rlvc.classifiers.base import Classifier
from rlvc.data.batches import one_percept, split_percepts
from rlvc.data.images import Image
from rlvc.features.graph import Feature, Graph, Sight
from rlvc.policies.forest_io import FOREST, read_forest, write_forest
from rlvc.policies.policy import FeatureTest, Policy
from rlvc.policies.values import cautious_values, greedy, lead_of
from rlvc.policies.votes import DecisiveTest, Vote
from rlvc.vision.extractor import FeatureExtractor, Glance


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One tree of a forest.

    Attributes:
        classifier: From features to the tree's own visual classes.
        q: (n_classes, n_actions) state–action values.
        count: (n_classes, n_actions) how often the database tried each pair.
    """

    classifier: Classifier
    q: Floats
    count: Ints

    @property
    def n_classes(self) -> int:
        """How many visual classes there are."""
        return self.classifier.n_classes


@dataclass(frozen=True, slots=True, eq=False)
class ForestPolicy:
    """One vocabulary, and many classifiers on a few of its features that vote.

    The value of an action on a percept is the mean over the trees that tried it in the percept's
    class, less ``uncertainty_penalty`` standard deviations: where the trees disagree, the value is
    uncertain.
    The best one is taken, among equals that with the lowest number. What no tree tried is never
    taken.

    Attributes:
        extractor: The detector, the descriptor and the vocabularies.
        graph: The features that the trees test, and their parts.
        members: The trees.
        usage: (n_features,) on how many percepts of the database each feature is tested, summed
            over the trees; 0 for one that is but a part of others.
        patches: (n_features, side, side, 3) what each feature looks like.
        shapes: The shape of each camera's images.
        gamma: The discount factor.
        uncertainty_penalty: Standard deviations over the trees that are taken from a mean value.
        out_of_bag: The error of the forest on interactions that its trees did not learn from; see
            :func:`rlvc.learning.forest.out_of_bag_error`. None if there are none.
        action_start: The first action as the environment numbers them.
        action_names: How to call the actions, if they have names.
        about: Notes for people, such as the task it was learned on.
    """

    extractor: FeatureExtractor
    graph: Graph
    members: tuple[Member, ...]
    usage: Ints
    patches: NDArray[np.uint8]
    shapes: Mapping[str, tuple[int, ...]]
    gamma: float
    uncertainty_penalty: float = 0.0
    out_of_bag: float | None = None
    action_start: int = 0
    action_names: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        policies: Sequence[Policy],
        out_of_bag: float | None = None,
        uncertainty_penalty: float = 0.0,
    ) -> ForestPolicy:
        """Return the forest of some policies that one eye learned from one database."""
        graph, members = Graph(), []
        usage: list[Ints] = []
        patches: dict[int, NDArray[np.uint8]] = {}
        for policy in policies:
            graph, numbers = graph.join(policy.graph)
            members.append(Member(policy.classifier.renumber(numbers), policy.q, policy.count))
            usage.append(np.zeros(len(graph), np.int64))
            usage[-1][list(numbers.values())] = policy.usage
            patches |= {numbers[n]: patch for n, patch in enumerate(policy.patches)}
        total = np.zeros(len(graph), np.int64)
        for one in usage:
            total[: len(one)] += one
        first = policies[0]
        return cls(
            extractor=first.extractor,
            graph=graph,
            members=tuple(members),
            usage=total,
            patches=np.stack([patches[n] for n in range(len(graph))]) if patches else first.patches,
            shapes=first.shapes,
            gamma=first.gamma,
            uncertainty_penalty=uncertainty_penalty,
            out_of_bag=out_of_bag,
            action_start=first.action_start,
            action_names=first.action_names,
        )

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that the trees test, and their parts."""
        return self.graph.features

    @property
    def tested(self) -> Ints:
        """The numbers of the features that the trees test, in ascending order."""
        return np.unique(np.concatenate([one.classifier.features for one in self.members]))

    @property
    def n_classes(self) -> float:
        """How many visual classes a tree has in the mean."""
        return float(np.mean([one.n_classes for one in self.members]))

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return int(self.members[0].q.shape[1])

    def tree(self, number: int) -> Policy:
        """Return one tree as a policy of its own, with the features of the forest."""
        one = self.members[number]
        return Policy(
            extractor=self.extractor, graph=self.graph, classifier=one.classifier, q=one.q,
            count=one.count,
            usage=self.usage, patches=self.patches, shapes=self.shapes, gamma=self.gamma,
            action_start=self.action_start, action_names=self.action_names, about=self.about,
        )  # fmt: skip

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Ints, Any]:
        """Return the action for one percept, or the actions for a batch, and the state unchanged.

        As :meth:`rlvc.Policy.predict` does.
        """
        actions = greedy(*self.vote(self._classify(observation)))
        return np.asarray(actions + self.action_start), state

    def vote(self, classes: Iterable[Ints]) -> tuple[Floats, Bools]:
        """Return the values of the actions, and which of them any tree knows.

        Args:
            classes: For every tree, the visual classes of some percepts, an array of any shape.

        Returns:
            q: (..., n_actions) the values; 0 where no tree knows the action.
            is_tried: (..., n_actions) where some tree does.
        """
        pairs = zip(self.members, classes, strict=True)
        return cautious_values(
            ((one.q[at], one.count[at] > 0) for one, at in pairs), self.uncertainty_penalty
        )

    def explain(self, percept: Any) -> Vote:
        """Return how the trees vote on one percept, and which features decided.

        ``tree(k).explain(percept)`` tells the path through one of the trees.
        """
        sight = Sight(self.graph, Glance(self.extractor, one_percept(percept, self.shapes)))
        walks = [one.classifier.walk(sight.exhibits) for one in self.members]
        classes = np.asarray([visual_class for _, visual_class in walks], np.int64)
        q, is_tried = self.vote(classes)
        best = int(greedy(q, is_tried))
        lowest = min(float(one.q[one.count > 0].min(initial=0.0)) for one in self.members)
        lead = lead_of(q, is_tried, best, lowest)
        tested: dict[int, list[int]] = {}
        for tree, (path, _) in enumerate(walks):
            for number, _ in path:
                tested.setdefault(number, []).append(tree)
        decisive = []
        for number, trees in sorted(tested.items()):
            flipped = self._flip(classes, number, trees, sight.exhibits)
            other_q, other_tried = self.vote(flipped)
            gain = lead - lead_of(other_q, other_tried, best, lowest)
            otherwise = int(greedy(other_q, other_tried))
            decisive.append(
                DecisiveTest(FeatureTest.of(self.graph, sight, number), len(trees), gain, otherwise)
            )
        decisive.sort(key=lambda one: -one.gain)
        ballots = [
            greedy(one.q[at], one.count[at] > 0)
            for one, at in zip(self.members, classes, strict=True)
        ]
        return Vote(
            q, is_tried, np.bincount(ballots, minlength=len(q)), lead, tuple(decisive),
            best + self.action_start, self.action_names, self.action_start,
            self.uncertainty_penalty,
        )  # fmt: skip

    def _flip(
        self, classes: Ints, number: int, trees: list[int], exhibits: Callable[[int], bool]
    ) -> Ints:
        """Return the classes in the trees if the test of one feature came out the other way."""
        flipped = classes.copy()
        for tree in trees:
            walk = self.members[tree].classifier.walk
            flipped[tree] = walk(lambda other: exhibits(other) != (other == number))[1]
        return flipped

    def _classify(self, observation: Any) -> list[Ints]:
        """Return for every tree the visual class of one percept, or the classes of a batch."""
        percepts, is_batch = split_percepts(observation, self.shapes)
        found = list(run_threads(self._classes, percepts, 0 if len(percepts) > 8 else 1))
        classes = np.asarray(found, np.int64).reshape(len(found), len(self.members)).T
        return list(classes if is_batch else classes[:, 0])

    def _classes(self, percept: dict[str, Image]) -> list[int]:
        """Look once at a percept, and return its class in every tree."""
        sight = Sight(self.graph, Glance(self.extractor, percept))
        return [one.classifier.walk(sight.exhibits)[1] for one in self.members]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forest to one file, whole or not at all."""
        write_forest(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ForestPolicy:
        """Read a forest; raise FileFormatError if the file is not one, and run no code from it."""
        parts = read_forest(path)
        return cls(**{**parts, "members": tuple(Member(*one) for one in parts["members"])})


AnyPolicy = Policy | ForestPolicy


def load_policy(path: str | os.PathLike[str]) -> AnyPolicy:
    """Read the policy in a file, of one classifier or of a forest.

    Raises:
        FileFormatError: The file is neither, or is damaged. No code from it is run.
    """
    return ForestPolicy.load(path) if kind_of(path) == FOREST else Policy.load(path)
