"""Reinforcement Learning of Visual Classes: the paper's Algorithm 1."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlvc.aliasing import AliasingDetector, RelativeVariance, bellman_residuals
from rlvc.classifier.tree import Split, Tree
from rlvc.generation import Canonical, Generator
from rlvc.incidence import Incidence
from rlvc.interactions import Interactions
from rlvc.mdp import MappedMDP, MappedSequence, estimate
from rlvc.packing import make_policy
from rlvc.parameters import check, param
from rlvc.policy import Policy
from rlvc.selection import Choice, Selector
from rlvc.solvers import Solver
from rlvc.solvers.dynamic import ModifiedPolicyIteration
from rlvc.vision.descriptors import Descriptor, Invariants
from rlvc.vision.detectors import Detector, Harris
from rlvc.vision.eye import Eye
from rlvc.vision.metrics import Mahalanobis, Metric

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Database:
    """Interactions and what the eye saw in their percepts.

    Attributes:
        interactions: ⟨s, a, r, s′⟩, percepts by number.
        symbols: Which percept exhibits which symbol.
        eye: Who looked.
        spread: The variance of the discounted returns: the scale on which aliasing is judged.
    """

    interactions: Interactions
    symbols: Incidence
    eye: Eye
    spread: float


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage of the learner found.

    Attributes:
        number: The stage k.
        classifier: The classifier C_k.
        mdp: The mapped MDP M_k.
        q: (n_classes, n_actions) its optimal state–action values.
        residual: Root mean square Bellman residual, in units of reward.
        n_aliased: How many classes are aliased.
        n_refinable: How many of them some feature would split.
        n_refined: How many of those are split now; the others wait for a later stage.
    """

    number: int
    classifier: Tree
    mdp: MappedMDP
    q: NDArray[np.float64]
    residual: float
    n_aliased: int
    n_refinable: int
    n_refined: int


Source = Callable[[int, Policy | None], Interactions]
PostProcess = Callable[[Tree, MappedMDP, NDArray[np.float64]], Tree]


@dataclass(frozen=True, kw_only=True, slots=True)
class RLVC:
    """Learn a visual control policy from interactions.

    Every box of the paper's figure is an argument, with a default that needs no tuning.

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

    detector: Detector = field(default_factory=Harris)
    descriptor: Descriptor = field(default_factory=Invariants)
    metric: Metric = field(default_factory=Mahalanobis)
    threshold: float = param(0.2, "distance up to which descriptors are the same symbol", low=0.0)
    solver: Solver = field(default_factory=ModifiedPolicyIteration)
    aliasing: AliasingDetector = field(default_factory=RelativeVariance)
    generator: Generator = field(default_factory=Canonical)
    selector: Selector = field(default_factory=Selector)
    post_process: PostProcess | None = None
    gamma: float = param(0.9, "discount factor (γ)", low=0.0, below=1.0)
    cap: int = param(5, "most classes refined in a stage, largest first; 0 for no limit", low=0)
    max_stages: int = param(1000, "stages after which learning stops in any case", low=0)
    threads: int = param(0, "threads to use; 0 for all cores", low=0)

    def __post_init__(self) -> None:
        check(self)

    def learn(
        self,
        data: Database | Interactions | Source,
        on_stage: Callable[[Stage], None] | None = None,
    ) -> Policy:
        """Return the policy that interactions teach.

        Args:
            data: A static database; or a function of the stage and of the policy so far that
                returns fresh interactions for every stage.
            on_stage: Called with each stage.
        """
        fetch = self._source(data)
        classifier, policy = Tree(), None
        for k in itertools.count():
            database = fetch(k, policy)
            interactions, symbols = database.interactions, database.symbols
            classes = classifier.classify(symbols)
            sequence = map_interactions(interactions, classes)
            mdp = estimate(sequence, classifier.n_classes, interactions.n_actions)
            q = self.solver.solve(mdp, self.gamma)
            residuals = bellman_residuals(sequence, q, self.gamma)
            is_aliased = self.aliasing.detect(residuals, database.spread)
            candidates = self.generator.generate(symbols, classes, is_aliased)
            choice = self.selector.select(
                residuals, interactions.start, candidates, is_aliased, self.threads
            )
            splits = largest_first(choice, mdp.count, self.cap)
            n_refinable = int((choice.feature >= 0).sum())
            stage = Stage(
                k, classifier, mdp, q, residuals.rms(), int(is_aliased.sum()), n_refinable,
                len(splits),
            )  # fmt: skip
            if on_stage is not None:
                on_stage(stage)
            is_done = not splits or k == self.max_stages
            if is_done or callable(data):  # whoever brings fresh interactions may ask the policy
                policy = make_policy(
                    database.eye, interactions, classes, classifier, q, mdp.count, self.gamma
                )
            if is_done and policy is not None:
                return policy
            classifier = classifier.refine(splits)
            if self.post_process is not None:
                classifier = self.post_process(classifier, mdp, q)
        raise AssertionError("the loop ends by returning")

    def look(
        self, interactions: Interactions, on_image: Callable[[], None] | None = None
    ) -> Database:
        """Look once at each distinct percept; several learners can share the result."""
        return self._look(self._new_eye(), interactions, on_image)

    def _new_eye(self) -> Eye:
        return Eye(self.detector, self.descriptor, self.metric, self.threshold)

    def _look(
        self, eye: Eye, interactions: Interactions, on_image: Callable[[], None] | None = None
    ) -> Database:
        symbols = eye.incidence(interactions.percepts, self.threads, on_image)
        if len(symbols.indices) == 0:
            log.warning("No percept has an interest point: all look the same to this detector.")
        if not interactions.reward.any():
            log.warning("All rewards are zero: nothing distinguishes one action from another.")
        spread = float(np.var(interactions.returns(self.gamma)))
        return Database(interactions, symbols, eye, spread)

    def _source(
        self, data: Database | Interactions | Source
    ) -> Callable[[int, Policy | None], Database]:
        if isinstance(data, Interactions):
            data = self.look(data)
        if isinstance(data, Database):
            static = data
            return lambda k, policy: static
        fresh, eye = data, self._new_eye()
        return lambda k, policy: self._look(eye, fresh(k, policy))


def map_interactions(interactions: Interactions, classes: NDArray[np.int64]) -> MappedSequence:
    """Return the interactions as the classes of their percepts show them."""
    return MappedSequence(
        classes[interactions.start],
        interactions.action,
        interactions.reward,
        classes[interactions.end],
        interactions.terminated,
        interactions.is_last,
    )


def largest_first(choice: Choice, count: NDArray[np.int64], cap: int) -> list[Split]:
    """Return the splits to make: those of the classes with the most samples, at most ``cap``."""
    wanted = np.flatnonzero(choice.feature >= 0)
    size = count.sum(axis=1)[wanted]
    order = wanted[np.argsort(-size, kind="stable")]
    return [Split(int(c), int(choice.feature[c])) for c in order[: cap or len(order)]]
