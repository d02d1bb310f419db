"""Forests: many classifiers that vote, each learned from some of the symbols and episodes.

Where several features are nearly as good, a single classifier depends on which one happened to be
the best, and misclassifies percepts that lack it. Each tree of a forest may use only some of the
symbols, and learns from some of the episodes, so that the trees err in different ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Ints
from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore
from rlvc._core.fixed_point import Scale
from rlvc._core.params import check, param
from rlvc.data.collect import EPSILON, INTERACTIONS, ROUNDS, explore
from rlvc.data.interactions import Interactions
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import Primitive
from rlvc.learning.database import Database
from rlvc.learning.engine import Local
from rlvc.learning.forest_trees import GrownTree, load_tree, save_tree
from rlvc.learning.joint_values import solve_jointly
from rlvc.learning.mdp import map_interactions
from rlvc.learning.rlvc import RLVC
from rlvc.learning.stage import draw_patches, spots_of
from rlvc.policies.forest import ForestPolicy
from rlvc.policies.policy import Policy
from rlvc.policies.values import combine_values
from rlvc.vision.cache import ExtractionCache


@dataclass(frozen=True, kw_only=True, slots=True)
class Forest:
    """Learn many classifiers that vote, with the number of threads of the learner.

    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)  # two places, two actions:
    >>> place, action = rng.integers(0, 2, (2, 200))  # the reward is for action i in place i
    >>> data = Interactions.from_arrays(
    ...     images[place], action, place == action, np.ones(200, bool),
    ...     next_observations=images[place],
    ... )
    >>> policy = Forest(trees=3).learn(data)
    >>> len(policy.trees), policy.predict(images)[0].tolist()
    (3, [0, 1])
    """

    learner: RLVC = field(default_factory=RLVC)
    trees: int = param(25, "number of trees", low=1)
    symbols: float = param(
        0.7, "share of each camera's symbols that a tree may use", above=0.0, high=1.0
    )
    episodes: float = param(
        0.63, "share of the episodes that a tree is grown on", above=0.0, high=1.0
    )
    max_splits: int = param(
        10, "maximum classes of a tree refined in a stage, largest first; 0 for no limit", low=0
    )
    relevant: bool = param(
        False,
        "let trees split only where the value or the best action would change, as single "
        "classifiers do to stay small",
    )
    together: bool = param(True, "solve for the values of all trees jointly, from all interactions")
    uncertainty_penalty: float = param(
        0.25,
        "number of standard deviations over the trees that is subtracted from the mean value of "
        "an action: where trees disagree, the value is uncertain",
        low=0.0,
    )
    seed: int = param(0, "seed of the symbols and episodes of each tree", low=0)

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.learner, RLVC):
            raise TypeError(f"learner of Forest must be an RLVC; got {self.learner!r}.")

    def learn(
        self,
        data: Database | Interactions | gymnasium.Env[Any, Any],
        on_tree: Callable[[], None] = lambda: None,
        *,
        interactions: int = INTERACTIONS,
        rounds: int = ROUNDS,
        epsilon: float = EPSILON,
        seed: int = 0,
        store: CheckpointStore = NULL_STORE,
    ) -> ForestPolicy:
        """Return the forest learned from interactions.

        Args:
            data: A static database, or an environment to interact with.
            on_tree: Called after each tree.
            interactions: With an environment, the number of interactions to collect.
            rounds: With an environment, the number of rounds of collection; all but the first
                follow the forest learned so far.
            epsilon: The share of random actions in these rounds.
            seed: Seed of the environment and of the exploration.
            store: With a static database, where trees are saved; saved trees are not grown again.
        """
        if isinstance(data, gymnasium.Env):
            cache = ExtractionCache()
            *_, last = explore(
                data, lambda met: self.learn(self.learner.extract(met, cache), on_tree),
                interactions=interactions, rounds=rounds, epsilon=epsilon, seed=seed,
            )  # fmt: skip
            return last.policy
        if isinstance(data, Interactions):
            data = self.learner.extract(data)
        if not isinstance(data, Database):
            raise TypeError(
                "data of Forest must be Interactions, a Database or a Gymnasium environment; "
                f"got {type(data).__name__}."
            )
        database, grown = data.gather(), list[GrownTree]()
        for number in range(self.trees):
            saved = load_tree(store, number, database)
            if saved is None:
                break
            grown.append(saved)
            on_tree()
        engine, threads = self.learner.engine, self.learner.threads
        grow = partial(self.grow, without_images(database))
        for tree in engine.run(grow, range(len(grown), self.trees), threads):
            one = with_patches(tree, database)
            save_tree(store, len(grown), one)
            grown.append(one)
            on_tree()
        error = out_of_bag_error(grown, database.interactions, self.learner)
        policies = [one.policy for one in grown]
        if self.together:
            policies = with_joint_values(grown, database.interactions, self.learner)
        return ForestPolicy.of(policies, error, self.uncertainty_penalty)

    def grow(self, database: Database, number: int) -> GrownTree:
        """Return one tree of the forest; it only depends on the seed and on its number."""
        rng = np.random.default_rng([self.seed, number])
        interactions, index = database.interactions, database.index
        symbols = draw_symbols(index.graph, self.symbols, rng)
        episodes = draw_share(np.unique(interactions.episode), self.episodes, rng)
        part, percepts = interactions.of_episodes(episodes)
        shown = index.only(symbols).of_percepts(index.table[percepts])
        selector: Any = self.learner.selector
        learner = replace(
            self.learner,
            threads=1,
            max_splits=self.max_splits,
            selector=replace(selector, relevant=self.relevant),
            engine=Local(),
        )
        for stage in learner.stages(Database.of(part, shown, database.extractor)):  # noqa: B007 - the last
            pass
        everywhere = stage.database.index.of_percepts(index.table)
        policy = stage.policy()
        return GrownTree(
            policy,
            stage.classifier.classify(everywhere.incidence),
            np.isin(interactions.episode, episodes),
            spots_of(policy, stage.database),
        )


def without_images(database: Database) -> Database:
    """Return a database without images, for the processes that grow trees."""
    percepts = database.interactions.percepts.without_images()
    interactions = replace(database.interactions, percepts=percepts)
    return Database.of(interactions, database.index, database.extractor.snapshot())


def with_patches(tree: GrownTree, database: Database) -> GrownTree:
    """Return a tree that was grown without images, with the patches of its features."""
    policy, percepts = tree.policy, database.interactions.percepts
    patches = draw_patches(policy.graph, tree.spots, database.extractor, percepts)
    return replace(tree, policy=replace(policy, patches=patches), spots={})


def draw_share(numbers: Ints, share: float, rng: np.random.Generator) -> Ints:
    """Return a share of some numbers, at least one, drawn without replacement.

    With replacement, some interactions would count twice, and look like more evidence than they
    are.
    """
    return rng.permutation(numbers)[: max(1, round(share * len(numbers)))]


def draw_symbols(graph: FeatureGraph, share: float, rng: np.random.Generator) -> Bools:
    """Return which primitive features of a graph may be used: a share of each camera's."""
    is_symbol = np.asarray([isinstance(one, Primitive) for one in graph.features], np.bool_)
    drawn = np.zeros(len(graph), np.bool_)
    cameras = np.asarray(graph.camera, np.str_)
    for camera in sorted(set(graph.camera)):
        drawn[draw_share(np.flatnonzero(is_symbol & (cameras == camera)), share, rng)] = True
    return drawn


def with_joint_values(
    grown: Sequence[GrownTree], interactions: Interactions, learner: RLVC
) -> list[Policy]:
    """Return the policies of the trees, with the values that are solved for jointly."""
    percepts = np.arange(len(interactions.percepts))
    steps = map_interactions(interactions, percepts, learner.absorbing_gamma)
    solved = solve_jointly(
        steps,
        [one.classes for one in grown],
        [one.policy.n_classes for one in grown],
        interactions.n_actions,
        learner.gamma,
        Scale.of(interactions.reward).floor(learner.gamma),
    )
    return [
        replace(one.policy, q=q, count=count) for one, (q, count) in zip(grown, solved, strict=True)
    ]


def out_of_bag_error(
    grown: Sequence[GrownTree], interactions: Interactions, learner: RLVC
) -> float | None:
    """Return the error of a forest on interactions that its trees did not learn from.

    For each interaction, Q̄ is the mean over the trees that did not learn from its episode. The
    error is the root mean square of r + γ max Q̄(s′, ·) − Q̄(s, a), divided by the standard
    deviation of the returns: 0 is perfect, but out of reach where transitions or rewards are
    random. Interactions for which these trees never tried (s, a), or anything in s′ if the episode
    continues, are left out; None if none remain. It needs no test data, and is comparable between
    forests on the same interactions.
    """
    spread = float(np.std(interactions.returns(learner.gamma)))
    percepts = np.arange(len(interactions.percepts))
    steps = map_interactions(interactions, percepts, learner.absorbing_gamma)
    here, is_here_known = combine_values(_out_of_bag(one, steps.start) for one in grown)
    ahead, is_known = combine_values(_out_of_bag(one, steps.end) for one in grown)
    rows = np.arange(len(steps.start))
    best = np.where(is_known, ahead, -np.inf).max(axis=1)
    best[steps.terminated] = 0.0
    is_counted = is_here_known[rows, steps.action] & np.isfinite(best)
    if spread == 0.0 or not is_counted.any():
        return None
    gap = steps.reward + learner.gamma * best - here[rows, steps.action]
    return float(np.sqrt(np.mean(gap[is_counted] ** 2)) / spread)


def _out_of_bag(one: GrownTree, percepts: Ints) -> tuple[NDArray[np.float64], Bools]:
    """Return a tree's values of interactions' percepts, and which are tried and out of bag."""
    classes = one.classes[percepts]
    return one.policy.q[classes], (one.policy.count[classes] > 0) & ~one.is_known[:, None]
