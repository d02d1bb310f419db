"""Interactions as learning has them: looked at once, and mapped by a classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlvc.classifier import Classifier, Split
from rlvc.generation import Candidates
from rlvc.incidence import Incidence
from rlvc.interactions import Interactions
from rlvc.mdp import MappedMDP, MappedSequence, estimate
from rlvc.percepts import Percepts
from rlvc.sightings import Sightings
from rlvc.sums import Scale
from rlvc.vision.eye import Eye, Looks


@dataclass(frozen=True, slots=True)
class Database:
    """Interactions and what the eye saw in their percepts.

    Attributes:
        interactions: ⟨s, a, r, s′⟩, percepts by number.
        sightings: What the percepts show of the features known so far.
        eye: Who looked.
    """

    interactions: Interactions
    sightings: Sightings
    eye: Eye

    @property
    def incidence(self) -> Incidence:
        """Which percept exhibits which feature."""
        return self.sightings.incidence

    def map(
        self,
        classifier: Classifier,
        classes: NDArray[np.int64] | None = None,
        forever: float | None = None,
    ) -> MappedMDP:
        """Return the MDP that a classifier makes of the interactions.

        Args:
            classifier: From what percepts exhibit to visual classes.
            classes: Those of the percepts, to spare the work of classifying them again.
            forever: See :func:`map_interactions`.
        """
        if classes is None:
            classes = classifier.classify(self.incidence)
        sequence = map_interactions(self.interactions, classes, forever)
        scale = Scale.of(self.interactions.reward)
        if forever is not None:
            scale = replace(scale, largest=scale.largest / (1.0 - forever))
        return estimate(sequence, classifier.n_classes, self.interactions.n_actions, scale)

    def see(
        self, percepts: Percepts, threads: int = 0, looks: list[Looks] | None = None
    ) -> Sightings:
        """Return what other percepts show of the features known here; nothing is learned."""
        seen = self.eye.see(percepts, threads, learn=False, looks=looks)
        return Sightings.of(self.sightings.graph, percepts, seen)

    def admit(self, splits: list[Split], offered: list[Candidates]) -> tuple[Database, list[Split]]:
        """Return the database in which the features that split classes are known, and the splits.

        Features that are new get numbers of their own, in the order of the splits.
        """
        new = [one for one in offered if len(one.new)]
        if len(new) > 1:
            raise ValueError("A generator must offer all new features of a stage at one attempt.")
        made = [one for one in splits if one.feature >= len(self.sightings.graph)]
        if not made:
            return self, splits
        (candidates,) = new
        features = [candidates.new[one.feature - candidates.n_known] for one in made]
        sightings, numbers = self.sightings.add(features)
        number = dict(zip((split.feature for split in made), numbers, strict=True))
        splits = [Split(one.visual_class, number.get(one.feature, one.feature)) for one in splits]
        return replace(self, sightings=sightings), splits


def map_interactions(
    interactions: Interactions, classes: NDArray[np.int64], forever: float | None = None
) -> MappedSequence:
    """Return the interactions as the classes of their percepts show them.

    Args:
        interactions: ⟨s, a, r, s′⟩.
        classes: (n_percepts,) the visual class of each percept.
        forever: The discount factor with which an action that leads nowhere is repeated for ever:
            such an interaction ends there, with a return of r / (1 − γ). None to believe, as the
            paper does, that the next try may lead on.
    """
    reward, terminated = interactions.reward, interactions.terminated
    if forever is not None:
        is_stuck = interactions.is_stuck
        reward = np.where(is_stuck, reward / (1.0 - forever), reward)
        terminated = terminated | is_stuck
    return MappedSequence(
        classes[interactions.start],
        interactions.action,
        reward,
        classes[interactions.end],
        terminated,
        interactions.is_last,
    )
