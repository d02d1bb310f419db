"""Reinforcement Learning of Visual Classes: the paper's Algorithm 1."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Bools, Floats
from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore
from rlvc._core.params import check, check_methods, param
from rlvc.classifiers.base import Classifier, Split
from rlvc.classifiers.tree import Tree
from rlvc.data.collect import EPSILON, INTERACTIONS, ROUNDS, explore
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import AtLeast
from rlvc.learning.aliasing import AliasingDetector, RelativeVariance, ResidualSums
from rlvc.learning.compaction import Keep, PostProcess
from rlvc.learning.database import Database
from rlvc.learning.decisions import Decision, Decisions
from rlvc.learning.engine import Engine, Local
from rlvc.learning.generation.base import Candidates, Generator, GeneratorState
from rlvc.learning.generation.composites import Composites
from rlvc.learning.mdp import MappedMDP
from rlvc.learning.selection.selector import FeatureSelector, Selector, SplitChoice
from rlvc.learning.solvers.base import Solver
from rlvc.learning.solvers.dynamic import ModifiedPolicyIteration
from rlvc.learning.stage import Stage
from rlvc.learning.surrogates import Surrogates
from rlvc.learning.view import SplitStatistics, View
from rlvc.policies.policy import Policy
from rlvc.vision.auto import choose_extractor
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.descriptors import Descriptor
from rlvc.vision.detectors import Detector
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.metrics import Metric

log = logging.getLogger(__name__)

InteractionSource = Callable[[int, Policy | None], Interactions]
Data = Database | Interactions | InteractionSource


@dataclass(frozen=True, kw_only=True, slots=True)
class RLVC:
    """Learn a visual control policy from interactions.

    Every box of the paper's figure is an argument with a default that needs no tuning, and so is
    the execution backend. A detector, descriptor or metric that is None is chosen from the
    percepts: see :meth:`fitted`.

    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)  # two places, two actions:
    >>> place, action = rng.integers(0, 2, (2, 200))  # the reward is for action i in place i
    >>> data = Interactions.from_arrays(
    ...     images[place], action, place == action, np.ones(200, bool),
    ...     next_observations=images[place],
    ... )
    >>> policy = RLVC().learn(data)
    >>> policy.n_classes, policy.predict(images)[0].tolist()
    (2, [0, 1])
    """

    detector: Detector | None = None
    descriptor: Descriptor | None = None
    metric: Metric | None = None
    threshold: float = param(
        0.0,
        "distance up to which descriptors are the same symbol; 0 to choose one that suits the "
        "metric and the descriptors",
        low=0.0,
    )
    solver: Solver = field(default_factory=ModifiedPolicyIteration)
    aliasing: AliasingDetector = field(default_factory=RelativeVariance)
    generator: Generator = field(default_factory=Composites)
    selector: FeatureSelector = field(default_factory=Selector)
    surrogates: Surrogates = field(default_factory=Surrogates)
    classifier: Classifier = field(default_factory=Tree)
    post_process: PostProcess = field(default_factory=Keep)
    engine: Engine = field(default_factory=Local)
    gamma: float = param(0.9, "discount factor (γ)", low=0.0, below=1.0)
    absorbing_self_loops: bool = param(
        True,
        "an action that never led to another percept is taken to repeat forever, worth "
        "r / (1 − γ); right where nothing moves unless the agent does (the paper: false)",
    )
    shrinkage: float = param(
        3.0,
        "weight, in interactions, with which the values of a class shrink towards those of its "
        "ancestors in the tree, once learning is over; 0 for no shrinkage (the paper)",
        low=0.0,
    )
    max_splits: int = param(
        5, "maximum number of classes refined in a stage, largest first; 0 for no limit", low=0
    )
    max_stages: int = param(1000, "stages after which learning stops in any case", low=0)
    threads: int = param(0, "threads to use; 0 for all cores", low=0)

    def __post_init__(self) -> None:
        check(self)
        for name, methods in _METHODS.items():
            if getattr(self, name) is not None or name not in CHOSEN:
                check_methods(self, name, *methods)

    def learn(
        self,
        data: Data | gymnasium.Env[Any, Any],
        *,
        interactions: int = INTERACTIONS,
        rounds: int = ROUNDS,
        epsilon: float = EPSILON,
        seed: int = 0,
    ) -> Policy:
        """Return the policy learned from interactions: that of the last stage.

        Args:
            data: A static database; an environment to interact with; or a function of the stage
                number and of the policy so far that returns fresh interactions for every stage.
            interactions: With an environment, the number of interactions to collect.
            rounds: With an environment, the number of rounds of collection; all but the first
                follow the policy learned so far.
            epsilon: The share of random actions in these rounds.
            seed: Seed of the environment and of the exploration.
        """
        if isinstance(data, gymnasium.Env):
            cache = ExtractionCache()
            *_, last = explore(
                data, lambda met: self.learn(self.extract(met, cache)),
                interactions=interactions, rounds=rounds, epsilon=epsilon, seed=seed,
            )  # fmt: skip
            return last.policy
        for stage in self.stages(data):  # noqa: B007 - the last one counts
            pass
        return stage.policy()

    def stages(self, data: Data, store: CheckpointStore = NULL_STORE) -> Iterator[Stage]:
        """Yield the stages of Algorithm 1, until no class is refined any more.

        Args:
            data: See :meth:`learn`; not an environment.
            store: Where the decision of every stage is saved; saved decisions are not made again.
        """
        run, classifier = _Run(self, data, store), self.classifier
        for k in range(self.max_stages + 1):
            view, q = run.evaluate(k, classifier)  # C_k, M_k, Q_k
            residuals = view.residuals(q, self.gamma)
            is_aliased = self.aliasing.detect(residuals, run.variance)  # Algorithm 2
            splits = run.decide(k, view, residuals, is_aliased)  # Algorithms 3, 4 and 6
            yield run.stage(k, view, q, residuals, is_aliased, splits)
            if not splits or k == self.max_stages:
                break
            is_last = k + 1 == self.max_stages
            classifier = run.post_process(k + 1, classifier.refine(splits), is_last=is_last)
        if splits:
            log.warning("Learning stopped after %d stages, as max_stages says.", self.max_stages)
        elif k < self.max_stages:
            compact = run.post_process(k + 1, classifier, is_last=True)  # Section 4
            if compact is not classifier:
                yield run.last_stage(k + 1, compact)

    def choose_splits(
        self, generator: GeneratorState, view: View, residuals: ResidualSums, is_aliased: Bools
    ) -> Decision:
        """Return which classes to split, and by which features.

        The generator is asked again for classes that none of its candidates so far splits.
        """
        choice, offered = SplitChoice.none(len(is_aliased)), list[Candidates]()
        while True:
            is_open = is_aliased & (choice.feature < 0)
            candidates = generator.generate(view, is_open, len(offered))
            if candidates is None:
                break
            found = view.select(self.selector, candidates, residuals, is_open)
            choice = choice.fill_missing(found)
            offered.append(candidates)
        splits = largest_first(choice, view.mdp.count, self.max_splits)
        database, splits = register_features(view.database, splits, offered)
        statistics = SplitStatistics(view, database, residuals)
        tests = self.surrogates.extend(splits, choice, statistics, self.selector.min_samples)
        database, splits = add_surrogates(database, splits, tests)
        return Decision(int((choice.feature >= 0).sum()), splits, database)

    def extract(
        self,
        interactions: Interactions,
        cache: ExtractionCache | None = None,
        on_image: Callable[[], None] | None = None,
        *,
        extractor: FeatureExtractor | None = None,
        graph: FeatureGraph | None = None,
        on_begin: Callable[[int], None] | None = None,
    ) -> Database:
        """Extract the symbols of the percepts, and return the database to learn from.

        Each distinct image is processed once. Several learners can share the result.

        Args:
            interactions: The interactions.
            cache: Keypoints extracted before; images in it are not processed again.
            on_image: Called after each image.
            extractor: An extractor that already knows symbols; a new one by default.
            graph: Features that are already known.
            on_begin: Called first, with the number of images to process.
        """
        percepts, cache = interactions.percepts, cache or ExtractionCache()
        extractor = extractor or self.new_extractor(percepts)
        if on_begin is not None:
            on_begin(cache.n_new(extractor, percepts))
        keypoints = cache.extract(extractor, percepts, self.threads, on_image, self.engine.extract)
        found = extractor.find_symbols(percepts, keypoints, self.threads)
        index = FeatureIndex.of((graph or FeatureGraph()).add_symbols(extractor), percepts, found)
        database = Database.of(interactions, index, extractor)
        _warn_if_trivial(database)
        return database

    @property
    def absorbing_gamma(self) -> float | None:
        """The ``absorbing_gamma`` of :func:`rlvc.learning.mdp.map_interactions`."""
        return self.gamma if self.absorbing_self_loops else None

    def fitted(self, percepts: Percepts) -> RLVC:
        """Return the learner with a detector, descriptor, metric and threshold that suit percepts.

        Those that were given stay. See :func:`rlvc.vision.auto.choose_extractor`.
        """
        return self.with_extractor(self.new_extractor(percepts))

    def with_extractor(self, extractor: FeatureExtractor) -> RLVC:
        """Return the learner with the detector, descriptor and metric of an extractor."""
        return replace(
            self, detector=extractor.detector, descriptor=extractor.descriptor,
            metric=extractor.metric, threshold=extractor.threshold,
        )  # fmt: skip

    def new_extractor(self, percepts: Percepts) -> FeatureExtractor:
        """Return an extractor that suits percepts, without any symbols."""
        return choose_extractor(
            percepts, detector=self.detector, descriptor=self.descriptor, metric=self.metric,
            threshold=self.threshold, threads=self.threads,
        ).new_extractor()  # fmt: skip

    def prepare(self, data: Data) -> Database | InteractionSource:
        """Return the database to learn from, with its shards where their sums are computed.

        A function that returns fresh interactions is returned as it is.
        """
        if isinstance(data, Interactions):
            data = self.extract(data)
        if isinstance(data, Database):
            is_local = data.client.shard is not None
            return self.engine.distribute(data, self.threads) if is_local else data
        if not callable(data):
            raise TypeError(
                "data of RLVC must be Interactions, a Database, a Gymnasium environment or a "
                f"function that returns fresh interactions; got {type(data).__name__}. "
                "Interactions.from_arrays makes them."
            )
        return data


class _Run:
    """The state of one run of a learner: its database, and what its parts remember.

    Attributes:
        variance: The variance of the returns of the interactions, the scale of aliasing.
    """

    variance: float

    def __init__(self, learner: RLVC, data: Data, store: CheckpointStore) -> None:
        self._learner, self._data = learner, learner.prepare(data)
        self._choose = partial(learner.choose_splits, learner.generator.start())
        self._decisions = None if store is NULL_STORE else Decisions(store, self._choose)
        self._post_process = learner.post_process.start()
        self._stage: Stage | None = None
        self._decision: Decision | None = None
        self._interactions: Interactions | None = None

    def evaluate(self, number: int, classifier: Classifier) -> tuple[View, Floats]:
        """Return the view of a stage under a classifier, and the optimal values."""
        learner = self._learner
        database = self._fetch(number)
        if database.interactions is not self._interactions:
            self._interactions = database.interactions
            self.variance = database.variance(learner.gamma)
        view = database.view(classifier, learner.absorbing_gamma, learner.threads)
        return view, learner.solver.solve(view.mdp, learner.gamma)

    def decide(
        self, number: int, view: View, residuals: ResidualSums, is_aliased: Bools
    ) -> list[Split]:
        """Return the classes to split, as saved by the run that is resumed or chosen now."""
        if self._decisions is None:
            self._decision = self._choose(view, residuals, is_aliased)
        else:
            self._decision = self._decisions(number, view, residuals, is_aliased)
        return self._decision.splits

    def stage(
        self, number: int, view: View, q: Floats, residuals: ResidualSums, is_aliased: Bools,
        splits: list[Split],
    ) -> Stage:  # fmt: skip
        """Return the results of a stage."""
        assert self._decision is not None
        self._stage = Stage(
            number, view.database, view.spec.classifier, view.mdp, q, self._learner,
            residuals.rms(), int(is_aliased.sum()), self._decision.n_refinable, len(splits),
        )  # fmt: skip
        return self._stage

    def post_process(self, number: int, classifier: Classifier, *, is_last: bool) -> Classifier:
        """Return the classifier of the next stage, after post-processing."""
        if self._post_process is None:
            return classifier
        return self._post_process(number, classifier, self._solve, is_last=is_last)

    def last_stage(self, number: int, classifier: Classifier) -> Stage:
        """Return the results of a stage that splits no class."""
        learner, (view, q) = self._learner, self.evaluate(number, classifier)
        residuals = view.residuals(q, learner.gamma)
        is_aliased = learner.aliasing.detect(residuals, self.variance)
        self.decide(number, view, residuals, is_aliased)
        return self.stage(number, view, q, residuals, is_aliased, [])

    def _fetch(self, number: int) -> Database:
        """Return the database of a stage: the previous or a fresh one."""
        known = None if self._decision is None else self._decision.database
        if isinstance(self._data, Database):
            return known or self._data
        interactions = self._data(number, self._stage.policy() if self._stage else None)
        if not isinstance(interactions, Interactions):
            raise TypeError(
                "The function that provides fresh interactions must return Interactions; "
                f"got {type(interactions).__name__}."
            )
        if known is None:
            return self._learner.extract(interactions)
        return self._learner.extract(interactions, extractor=known.extractor, graph=known.graph)

    def _solve(self, classifier: Classifier) -> tuple[MappedMDP, Floats]:
        learner = self._learner
        assert self._decision is not None
        mdp = self._decision.database.map(classifier, learner.absorbing_gamma)
        return mdp, learner.solver.solve(mdp, learner.gamma)


CHOSEN = ("detector", "descriptor", "metric")  # from the percepts, unless given
_METHODS = {
    "detector": ("detect",),
    "descriptor": ("describe",),
    "metric": ("distances",),
    "solver": ("solve",),
    "aliasing": ("detect",),
    "generator": ("start",),
    "selector": ("measure", "choose"),
    "surrogates": ("extend",),
    "classifier": ("classify", "refine", "merge"),
    "post_process": ("start",),
    "engine": ("start", "extract", "distribute", "open", "run"),
}


def largest_first(choice: SplitChoice, count: NDArray[np.int64], max_splits: int) -> list[Split]:
    """Return at most ``max_splits`` of the chosen splits, of the classes with the most samples."""
    wanted = np.flatnonzero(choice.feature >= 0)
    size = count.sum(axis=1)[wanted]
    order = wanted[np.argsort(-size, kind="stable")]
    return [Split(int(c), int(choice.feature[c])) for c in order[: max_splits or len(order)]]


def register_features(
    database: Database, splits: list[Split], offered: list[Candidates]
) -> tuple[Database, list[Split]]:
    """Return the database with the new features that split classes, and the renumbered splits.

    New features are numbered in the order of the splits.
    """
    n_known, new = len(database.graph), [one.new for one in offered if len(one.new)]
    if len(new) > 1:
        raise ValueError("A generator must propose all new features of a stage in one attempt.")
    made = [one.feature for one in splits if one.feature >= n_known]
    if not made:
        return database, splits
    grown, numbers = database.add(new[0][feature - n_known] for feature in made)
    number = dict(zip(made, numbers, strict=True))
    return grown, [Split(s.visual_class, number.get(s.feature, s.feature)) for s in splits]


def add_surrogates(
    database: Database, splits: list[Split], tests: list[AtLeast | None]
) -> tuple[Database, list[Split]]:
    """Return the database and the splits in which at-least features replace those they extend."""
    database, numbers = database.add([test for test in tests if test])
    number = iter(numbers)
    return database, [
        Split(split.visual_class, next(number)) if test else split
        for split, test in zip(splits, tests, strict=True)
    ]


def _warn_if_trivial(database: Database) -> None:
    """Warn about a database from which little can be learned."""
    interactions = database.interactions
    if len(database.incidence.indices) == 0:
        log.warning("No percept has an interest point: all look the same to this detector.")
    if not interactions.reward.any():
        log.warning("All rewards are zero: nothing distinguishes one action from another.")
    if interactions.n_actions == 1:
        log.warning("There is only one action: the policy will always take it.")
    if len(interactions.percepts) == 1:
        log.warning("There is only one percept: the policy will always do the same.")
