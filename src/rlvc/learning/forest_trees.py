"""The trees of a forest as they are grown one after the other, and kept on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import CheckpointStore, Record, explain_mismatch, require_same
from rlvc.learning.database import Database
from rlvc.learning.shard import Spot
from rlvc.policies.io import describe_policy, restore_policy
from rlvc.policies.policy import Policy


@dataclass(frozen=True, slots=True)
class GrownTree:
    """One tree, and what its part of the database was.

    Attributes:
        policy: What it learned.
        classes: (n_percepts,) the visual classes of all percepts of the database.
        is_known: (N,) of which interactions it learned.
        spots: Where features are first seen, by their number in the policy, if it has no patches.
    """

    policy: Policy
    classes: NDArray[np.int64]
    is_known: NDArray[np.bool_]
    spots: Mapping[int, Spot] = field(default_factory=dict)


class Trees:
    """Keep the trees that one database grows.

    Each is kept as a policy without its vocabulary, which is that of the database.
    """

    def __init__(self, store: CheckpointStore, database: Database) -> None:
        self._store, self._database = store, database

    def load(self, number: int) -> GrownTree | None:
        """Return a tree that was kept; None if it was not."""
        found = self._store.load(f"tree-{number}")
        if found is None:
            return None
        with explain_mismatch("trees"):
            return self._read(found)

    def save(self, number: int, grown: GrownTree) -> None:
        """Keep a tree."""
        manifest, arrays = describe_policy(grown.policy)
        arrays = {name: one for name, one in arrays.items() if not name.startswith("vocabulary/")}
        arrays |= {"classes": grown.classes, "is_known": grown.is_known}
        self._store.save(f"tree-{number}", manifest, arrays)

    def _read(self, part: Record) -> GrownTree:
        """Return the tree that a part describes, or raise an error if it makes no sense."""
        manifest, arrays = part
        policy = Policy(**restore_policy(manifest, arrays, self._database.extractor.snapshot()))
        data, classes, is_known = self._database.interactions, arrays["classes"], arrays["is_known"]
        require_same(classes.dtype == np.int64 and classes.shape == (len(data.percepts),), "trees")
        require_same(classes.min() >= 0 and classes.max() < policy.n_classes, "trees")
        require_same(is_known.dtype == np.bool_ and is_known.shape == (len(data),), "trees")
        require_same(policy.n_actions == data.n_actions, "trees")
        return GrownTree(policy, classes, is_known)
