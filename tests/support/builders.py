"""Small problems for tests: databases without a camera, and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc import RLVC, Database, Interactions, Percepts, Policy
from rlvc.features import FeatureGraph, FeatureIndex, Incidence, OccurrenceTable, Primitive
from rlvc.learning import Surrogates
from rlvc.learning.generation.base import Canonical
from rlvc.vision import Euclidean, FeatureExtractor, Harris, Invariants
from rlvc.vision.extractor import SIDE
from tests.oracle import rlvc as oracle


def percept_store(n: int) -> Percepts:
    """Return a store of n distinct, tiny percepts."""
    percepts = Percepts()
    for number in range(n):
        percepts.add(np.array([[number % 256, number // 256]], np.uint8))
    assert len(percepts) == n
    return percepts


def blind_extractor(n_features: int) -> FeatureExtractor:
    """Return an extractor that has patches of so many symbols, and is never asked to extract."""
    extractor = FeatureExtractor(Harris(), Invariants(), Euclidean(), 0.0)
    extractor.patches[""] = [np.zeros((SIDE, SIDE, 3), np.uint8)] * n_features
    return extractor


def index_of(incidence: Incidence) -> FeatureIndex:
    """Return an index of primitive features that occur nowhere in particular."""
    graph = FeatureGraph(tuple(Primitive("", symbol) for symbol in range(incidence.n_features)))
    n = incidence.n_percepts
    nowhere = OccurrenceTable(
        np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty((0, 4)), (1, 1)
    )
    images = np.arange(n)[:, None]
    return FeatureIndex(graph, ("",), (nowhere,), images, (incidence,), incidence)


def symbols_of(policy: Policy) -> list[int]:
    """Return the symbols that a policy without composites tests."""
    primitives = [feature for feature in policy.features if isinstance(feature, Primitive)]
    assert len(primitives) == len(policy.features)
    return [feature.symbol for feature in primitives]


@dataclass(frozen=True)
class Problem:
    """Random interactions between percepts that exhibit random features."""

    dense: NDArray[np.bool_]
    interactions: Interactions

    @classmethod
    def draw(
        cls, seed: int, n: int = 120, n_percepts: int = 24, n_features: int = 7, n_actions: int = 3,
        *, n_copies: int = 0, stuck: float = 0.0,
    ) -> Problem:  # fmt: skip
        """Draw a problem whose rewards depend on some features, on the action and on noise.

        Of each of the first two features there may be copies, which are wrong here and there; and
        of the pairs of a percept and an action, a share may lead back, always or often.
        """
        rng = np.random.default_rng(seed)
        dense = rng.random((n_percepts, n_features)) < rng.uniform(0.2, 0.7)
        dense[:, -1] = dense[:, 0]  # a twin
        dense[:, -2] = ~dense[:, 1]  # a complement
        if n_copies:
            copies = dense[:, np.arange(2 * n_copies) % 2]
            dense = np.hstack([dense, copies ^ (rng.random(copies.shape) < 0.06)])
            n_features = dense.shape[1]
        start, end = rng.integers(0, n_percepts, (2, n))
        action = rng.integers(0, n_actions, n)
        weight = rng.integers(-8, 9, (n_actions, n_features))
        reward = (dense[start] * weight[action]).sum(axis=1) + rng.integers(-2048, 2049, n) / 1024
        terminated = rng.random(n) < 0.2
        if stuck:
            leads_back = rng.random((n_percepts, n_actions)) < stuck
            slips = (rng.random((n_percepts, n_actions)) < 0.3)[start, action]
            stays = leads_back[start, action] & ~(slips & (rng.random(n) < 0.5))
            end, terminated = np.where(stays, start, end), terminated & ~stays
        interactions = Interactions(
            percepts=percept_store(n_percepts), start=start, action=action, reward=reward, end=end,
            episode=np.concatenate([[0], np.cumsum(terminated)[:-1]]), terminated=terminated,
            truncated=np.zeros(n, np.bool_), n_actions=n_actions,
        )  # fmt: skip
        return cls(dense, interactions)

    @property
    def incidence(self) -> Incidence:
        return Incidence.from_dense(self.dense)

    @property
    def shows(self) -> list[set[int]]:
        return [set(np.flatnonzero(row).tolist()) for row in self.dense]

    @property
    def sequence(self) -> list[oracle.Interaction]:
        i = self.interactions
        columns = zip(
            i.start.tolist(), i.action.tolist(), i.reward.tolist(), i.end.tolist(),
            i.terminated.tolist(), strict=True,
        )  # fmt: skip
        return [oracle.Interaction(s, a, Fraction(r), e, t) for s, a, r, e, t in columns]

    @property
    def database(self) -> Database:
        extractor = blind_extractor(self.dense.shape[1])
        return Database.of(self.interactions, index_of(self.incidence), extractor)


def literal(**parts: Any) -> RLVC:
    """Return the paper's learner: one symbol a test, and no self-loop counts as absorbing."""
    paper: dict[str, Any] = {
        "generator": Canonical(),
        "surrogates": Surrogates(features=1),
        "absorbing_self_loops": False,
    }
    return RLVC(threads=1, **(paper | parts))


def pictures(n: int, seed: int = 0, shape: tuple[int, ...] = (64, 64, 3)) -> NDArray[np.uint8]:
    """Return n distinct pictures that are full of corners."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, *shape), dtype=np.uint8)


def blocks(seed: int = 0, shape: tuple[int, ...] = (96, 96, 3), side: int = 8) -> NDArray[np.uint8]:
    """Return a patchwork of plain squares: corners that every detector finds."""
    rng = np.random.default_rng(seed)
    coarse = (-(-shape[0] // side), -(-shape[1] // side), *shape[2:])
    squares = rng.integers(0, 256, coarse, dtype=np.uint8)
    return np.ascontiguousarray(squares.repeat(side, 0).repeat(side, 1)[: shape[0], : shape[1]])


N_PLACES, N_ACTIONS = 6, 3


def database(images: Any, seed: int = 0, **more: Any) -> Interactions:
    """Return one-step episodes in which action i mod 3 is good on image i."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, N_PLACES, 400)
    action = rng.integers(0, N_ACTIONS, 400)
    shown = [images[i] for i in place]
    return Interactions.from_arrays(
        shown, action + more.get("action_start", 0), place % N_ACTIONS == action,
        np.ones(400, np.bool_), next_observations=shown, n_actions=N_ACTIONS, **more,
    )  # fmt: skip


COLOUR = pictures(N_PLACES)
GREY = pictures(N_PLACES, 1, (64, 64, 1))
RIGHT = [i % N_ACTIONS for i in range(N_PLACES)]
