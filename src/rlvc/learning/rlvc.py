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

from rlvc._core.checkpoint_store import NULL_STORE, CheckpointStore
from rlvc._core.params import check, param
from rlvc.classifiers.base import Classifier, Split
from rlvc.classifiers.tree import Tree
from rlvc.data.explore import EPSILON, INTERACTIONS, ROUNDS, explore
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.learning.aliasing import AliasingDetector, Evidence, RelativeVariance
from rlvc.learning.compaction import Keep, PostProcess
from rlvc.learning.database import Database, Learnable, Shown, register_features
from rlvc.learning.engine import Engine
from rlvc.learning.generation.base import Candidates, Generator, GeneratorState
from rlvc.learning.generation.composites import Composites
from rlvc.learning.local_engine import Local
from rlvc.learning.make_policy import make_policy
from rlvc.learning.mdp import MappedMDP
from rlvc.learning.resume import Decision, Decisions
from rlvc.learning.selection.selector import Selector, SplitChoice
from rlvc.learning.shrinkage import shrink
from rlvc.learning.solvers.base import Solver
from rlvc.learning.solvers.dynamic import ModifiedPolicyIteration
from rlvc.learning.surrogates import Surrogates
from rlvc.policies.policy import Policy
from rlvc.policies.values import greedy
from rlvc.vision.auto import ExtractorConfig, choose_extractor
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.descriptors import Descriptor
from rlvc.vision.detectors import Detector
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.metrics import Metric

log = logging.getLogger(__name__)

Values = NDArray[np.float64]  # (n_classes, n_actions)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage of the learner found.

    Attributes:
        number: The stage k.
        database: The interactions it learned from.
        classifier: The classifier C_k.
        mdp: The mapped MDP M_k.
        q: (n_classes, n_actions) its optimal state–action values.
        learner: Who found it.
        residual: Root mean square Bellman residual, in units of reward.
        n_aliased: How many classes are aliased.
        n_refinable: How many of them some feature would split.
        n_refined: How many of those are split now; the others wait for a later stage.
    """

    number: int
    database: Learnable
    classifier: Classifier
    mdp: MappedMDP
    q: Values
    learner: RLVC
    residual: float
    n_aliased: int
    n_refinable: int
    n_refined: int

    def values(self) -> Values:
        """Return what its policy acts on: ``q``, once classes borrowed from their ancestors.

        Classes that were merged have none, and keep what they know.
        """
        mdp, learner = self.mdp, self.learner
        if isinstance(self.classifier, Tree):
            mdp = shrink(mdp, self.classifier, learner.shrinkage)
        return self.q if mdp is self.mdp else learner.solver.solve(mdp, learner.gamma)

    def actions(self) -> NDArray[np.int64]:
        """Return the action that its policy takes in each class."""
        return greedy(self.values(), self.mdp.is_tried)

    def policy(self) -> Policy:
        """Return the policy of this stage, ready to act."""
        return make_policy(
            self.database, self.classifier, self.values(), self.mdp.count, self.learner.gamma
        )


Source = Callable[[int, Policy | None], Interactions]


@dataclass(frozen=True, kw_only=True, slots=True)
class RLVC:
    """Learn a visual control policy from interactions.

    Every box of the paper's figure is an argument, with a default that needs no tuning, and so is
    who does the work. A detector, descriptor or metric that is None is chosen from the percepts:
    see :meth:`fitted`.

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
        "distance up to which descriptors are the same symbol; 0 for what suits the metric and "
        "the descriptors",
        low=0.0,
    )
    solver: Solver = field(default_factory=ModifiedPolicyIteration)
    aliasing: AliasingDetector = field(default_factory=RelativeVariance)
    generator: Generator = field(default_factory=Composites)
    selector: Selector = field(default_factory=Selector)
    surrogates: Surrogates = field(default_factory=Surrogates)
    classifier: Classifier = field(default_factory=Tree)
    post_process: PostProcess = field(default_factory=Keep)
    engine: Engine = field(default_factory=Local)
    gamma: float = param(0.9, "discount factor (γ)", low=0.0, below=1.0)
    absorbing_self_loops: bool = param(
        True,
        "an action that never led to another percept is repeated for ever, worth r / (1 − γ); "
        "right where nothing moves unless the agent does (the paper: false)",
    )
    shrinkage: float = param(
        3.0,
        "weight, in interactions, with which the values of a class are drawn towards those of what "
        "it was split from, once learning is over; 0 for classes on their own (the paper)",
        low=0.0,
    )
    max_splits: int = param(
        5, "most classes refined in a stage, largest first; 0 for no limit", low=0
    )
    max_stages: int = param(1000, "stages after which learning stops in any case", low=0)
    threads: int = param(0, "threads to use; 0 for all cores", low=0)

    def __post_init__(self) -> None:
        check(self)
        for name, methods in _METHODS.items():
            part = getattr(self, name)
            if part is None and name in CHOSEN:
                continue
            for method in methods:
                if isinstance(part, type) or not hasattr(part, method):
                    cure = f" Write {part.__name__}()." if isinstance(part, type) else ""
                    raise TypeError(
                        f"{name} of RLVC must be an object with a method {method}; "
                        f"got {part!r}.{cure}"
                    )

    def learn(
        self,
        data: Learnable | Interactions | Source | gymnasium.Env[Any, Any],
        *,
        interactions: int = INTERACTIONS,
        rounds: int = ROUNDS,
        epsilon: float = EPSILON,
        seed: int = 0,
    ) -> Policy:
        """Return the policy that interactions teach: that of the last stage.

        Args:
            data: A static database; or an environment to interact with; or a function of the stage
                and of the policy so far that returns fresh interactions for every stage.
            interactions: With an environment, how many interactions to collect.
            rounds: In how many rounds: each but the first follows the policy learned so far.
            epsilon: The share of random actions in these.
            seed: Of the environment and of the exploration.
        """
        if isinstance(data, gymnasium.Env):
            memory = ExtractionCache()
            *_, last = explore(
                data, lambda met: self.learn(self.extract(met, memory)),
                interactions=interactions, rounds=rounds, epsilon=epsilon, seed=seed,
            )  # fmt: skip
            return last.policy
        for stage in self.stages(data):  # noqa: B007 - the last one counts
            pass
        return stage.policy()

    def stages(
        self, data: Learnable | Interactions | Source, store: CheckpointStore = NULL_STORE
    ) -> Iterator[Stage]:
        """Yield the stages of Algorithm 1, until no class is refined any more.

        Args:
            data: See :meth:`learn`.
            store: Who keeps what every stage decided; what is found there is not worked out again.
        """
        fetch, decisions = self._source(data), Decisions(store)
        generator, post_process = self.generator.start(), self.post_process.start()
        classifier, is_over = self.classifier, False
        stage, interactions = None, None
        database: Learnable | None = None
        for k in range(self.max_stages + 1):
            database = fetch(k, stage, database)
            if interactions is not database.interactions:
                interactions = database.interactions
                spread = database.variance(self.gamma)  # the scale of aliasing
            view = database.through(classifier, self.absorbing_gamma, self.threads)
            q = self.solver.solve(view.mdp, self.gamma)
            residuals = view.residuals(q, self.gamma)
            is_aliased = self.aliasing.detect(residuals, spread)
            rms = residuals.rms()
            here = k, database, len(q), rms
            decision = decisions.find(*here) or decisions.keep(
                self._decide(generator, view, residuals, is_aliased), *here
            )
            splits = [] if is_over else decision.splits
            stage = Stage(
                k, database, classifier, view.mdp, q, self, rms, int(is_aliased.sum()),
                decision.n_refinable, len(splits),
            )  # fmt: skip
            del view, residuals  # as large as the interactions; the next ones need the room
            yield stage
            if is_over or k == self.max_stages:
                break
            database = decision.database
            refined, solve = classifier.refine(splits), partial(self._solve, database)
            is_last = not splits or k + 1 == self.max_stages
            refined = post_process(k + 1, refined, solve, is_last=is_last)
            if refined is classifier:
                return
            classifier, is_over = refined, not splits
        if splits:
            log.warning("Learning stopped after %d stages, as max_stages says.", self.max_stages)

    def _decide(
        self,
        generator: GeneratorState,
        view: Shown,
        residuals: Evidence,
        is_aliased: NDArray[np.bool_],
    ) -> Decision:
        """Return which classes are split, and by what."""
        choice, offered = self._choose(generator, view, residuals, is_aliased)
        splits = largest_first(choice, view.mdp.count, self.max_splits)
        database, splits = register_features(view.database, splits, offered)
        database, splits = self._forgive(view, database, splits, choice, residuals)
        return Decision(int((choice.feature >= 0).sum()), splits, database)

    def _choose(
        self,
        generator: GeneratorState,
        view: Shown,
        residuals: Evidence,
        is_aliased: NDArray[np.bool_],
    ) -> tuple[SplitChoice, list[Candidates]]:
        """Return the best feature of every aliased class, and all candidates there were.

        What the candidates of one attempt do not split is shown to those of the next.
        """
        choice, offered = SplitChoice.none(len(is_aliased)), list[Candidates]()
        while True:
            is_open = is_aliased & (choice.feature < 0)
            found = view.select(generator, self.selector, residuals, is_open, len(offered))
            if found is None:
                return choice, offered
            choice = choice.fill_missing(found[0])
            offered.append(found[1])

    def _forgive(
        self,
        view: Shown,
        database: Learnable,
        splits: list[Split],
        choice: SplitChoice,
        residuals: Evidence,
    ) -> tuple[Learnable, list[Split]]:
        """Return the database and the splits in which others stand in for the best features."""
        tests = view.stand_in(
            self.surrogates, database, splits, choice, residuals, self.selector.min_samples
        )
        database, numbers = database.add([test for test in tests if test])
        number = iter(numbers)
        return database, [
            Split(split.visual_class, next(number)) if test else split
            for split, test in zip(splits, tests, strict=True)
        ]

    def extract(
        self,
        interactions: Interactions,
        cache: ExtractionCache | None = None,
        on_image: Callable[[], None] | None = None,
        *,
        extractor: FeatureExtractor | None = None,
    ) -> Database:
        """Return the database of interactions: which percept exhibits which symbol.

        Each distinct image is processed once. Several learners can share the result.

        Args:
            interactions: What to learn from.
            cache: Keypoints extracted before; images in it are not processed again.
            on_image: Called after each image.
            extractor: An extractor that knows symbols already; a new one unless given.
        """
        extractor = extractor or self.new_extractor(interactions.percepts)
        return self._extract(extractor, FeatureGraph(), interactions, cache, on_image)

    @property
    def absorbing_gamma(self) -> float | None:
        """With what an action that leads nowhere is discounted; see :func:`map_interactions`."""
        return self.gamma if self.absorbing_self_loops else None

    def _solve(self, database: Learnable, classifier: Classifier) -> tuple[MappedMDP, Values]:
        mdp = database.map(classifier, absorbing_gamma=self.absorbing_gamma)
        return mdp, self.solver.solve(mdp, self.gamma)

    def fitted(self, percepts: Percepts) -> RLVC:
        """Return the learner with nothing left to choose: what it sees with suits the percepts.

        What was given stays. See :func:`rlvc.vision.auto.choose_extractor`.
        """
        sense = self._sense(percepts)
        return replace(
            self, detector=sense.detector, descriptor=sense.descriptor, metric=sense.metric,
            threshold=sense.threshold,
        )  # fmt: skip

    def new_extractor(self, percepts: Percepts) -> FeatureExtractor:
        """Return an eye for such percepts that has seen nothing yet."""
        return self._sense(percepts).new_extractor()

    def _sense(self, percepts: Percepts) -> ExtractorConfig:
        return choose_extractor(
            percepts, detector=self.detector, descriptor=self.descriptor, metric=self.metric,
            threshold=self.threshold, threads=self.threads,
        )  # fmt: skip

    def _extract(
        self,
        extractor: FeatureExtractor,
        graph: FeatureGraph,
        interactions: Interactions,
        cache: ExtractionCache | None = None,
        on_image: Callable[[], None] | None = None,
    ) -> Database:
        keypoints = (cache or ExtractionCache()).extract(
            extractor, interactions.percepts, self.threads, on_image, self.engine.extract
        )
        seen = extractor.find_symbols(interactions.percepts, keypoints, self.threads)
        index = FeatureIndex.of(graph.add_symbols(extractor), interactions.percepts, seen)
        if len(index.incidence.indices) == 0:
            log.warning("No percept has an interest point: all look the same to this detector.")
        if not interactions.reward.any():
            log.warning("All rewards are zero: nothing distinguishes one action from another.")
        if interactions.n_actions == 1:
            log.warning("There is only one action: whatever is seen, it will be taken.")
        if len(interactions.percepts) == 1:
            log.warning("There is only one percept: the policy will always do the same.")
        return Database(interactions, index, extractor)

    def _source(
        self, data: Learnable | Interactions | Source
    ) -> Callable[[int, Stage | None, Learnable | None], Learnable]:
        """Return who brings the database of a stage: that before, or fresh interactions."""
        if isinstance(data, Interactions):
            data = self.extract(data)
        if isinstance(data, Database):
            data = self.engine.spread(data, self.threads)
        if isinstance(data, Learnable):
            static = data
            return lambda k, stage, database: database or static
        if not callable(data):
            raise TypeError(
                "data of RLVC must be Interactions, a Database, a Gymnasium environment or a "
                f"function that returns fresh interactions; got {type(data).__name__}. "
                "Interactions.from_arrays makes them."
            )
        fresh = data

        def fetch(k: int, stage: Stage | None, database: Learnable | None) -> Learnable:
            interactions = fresh(k, stage.policy() if stage else None)
            if not isinstance(interactions, Interactions):
                raise TypeError(
                    "The function that brings fresh interactions must return Interactions; "
                    f"got {type(interactions).__name__}."
                )
            if database is None:
                return self.extract(interactions)
            return self._extract(database.extractor, database.graph, interactions)

        return fetch


CHOSEN = ("detector", "descriptor", "metric")  # from the percepts, unless they are given
_METHODS = {
    "detector": ("detect",),
    "descriptor": ("describe",),
    "metric": ("distances",),
    "solver": ("solve",),
    "aliasing": ("detect",),
    "generator": ("start",),
    "selector": ("select",),
    "surrogates": ("extend",),
    "classifier": ("classify", "refine", "merge"),
    "post_process": ("start",),
    "engine": ("start", "extract", "spread", "open", "run"),
}


def largest_first(choice: SplitChoice, count: NDArray[np.int64], max_splits: int) -> list[Split]:
    """Return the splits to make: at most ``max_splits``, of the classes with the most samples."""
    wanted = np.flatnonzero(choice.feature >= 0)
    size = count.sum(axis=1)[wanted]
    order = wanted[np.argsort(-size, kind="stable")]
    return [Split(int(c), int(choice.feature[c])) for c in order[: max_splits or len(order)]]
