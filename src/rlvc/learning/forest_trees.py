"""The trees of a forest while it grows, saved in a checkpoint store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlvc._core.checkpoint_store import CheckpointStore, explain_mismatch, require_same
from rlvc.learning.database import Database
from rlvc.learning.shard import Spot
from rlvc.policies.io import describe_policy, restore_policy
from rlvc.policies.policy import Policy


@dataclass(frozen=True, slots=True)
class GrownTree:
    """One tree, and the part of the database that it learned from.

    Attributes:
        policy: Its policy.
        classes: (n_percepts,) the visual classes of all percepts of the database.
        is_known: (N,) which interactions it learned from.
        spots: Where features first occur, by their number in the policy, if it has no patches.
    """

    policy: Policy
    classes: NDArray[np.int64]
    is_known: NDArray[np.bool_]
    spots: Mapping[int, Spot] = field(default_factory=dict)


def save_tree(store: CheckpointStore, number: int, grown: GrownTree) -> None:
    """Save a tree as a policy without its vocabulary, which is that of the database."""
    manifest, arrays = describe_policy(grown.policy)
    arrays = {name: one for name, one in arrays.items() if not name.startswith("vocabulary/")}
    arrays |= {"classes": grown.classes, "is_known": grown.is_known}
    store.save(f"tree-{number}", manifest, arrays)


def load_tree(store: CheckpointStore, number: int, database: Database) -> GrownTree | None:
    """Return a saved tree of a database; None if there is none of this number."""
    found = store.load(f"tree-{number}")
    if found is None:
        return None
    with explain_mismatch("trees"):
        manifest, arrays = found
        policy = Policy(**restore_policy(manifest, arrays, database.extractor.snapshot()))
        data, classes, is_known = database.interactions, arrays["classes"], arrays["is_known"]
        require_same(classes.dtype == np.int64 and classes.shape == (len(data.percepts),), "trees")
        require_same(classes.min() >= 0 and classes.max() < policy.n_classes, "trees")
        require_same(is_known.dtype == np.bool_ and is_known.shape == (len(data),), "trees")
        require_same(policy.n_actions == data.n_actions, "trees")
        return GrownTree(policy, classes, is_known)
