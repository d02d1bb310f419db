"""The file of a forest: that of a policy, with many classifiers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.validate import LARGEST, as_number, must, refusing
from rlvc.policies.io import (
    FORMAT,
    MOST_BYTES,
    arrays_of_values,
    check_base,
    check_values,
    describe_base,
    kind_of_classifier,
    read_base,
    read_values,
)

if TYPE_CHECKING:
    from rlvc.policies.forest import ForestPolicy

FOREST, VERSION = "rlvc-forest", 1
CURES = {FORMAT: " Load it with Policy.load, or with rlvc.load_policy."}


def write_forest(path: str | os.PathLike[str], forest: ForestPolicy) -> None:
    """Write a forest to one file, whole or not at all; equal forests give equal bytes."""
    manifest, arrays = describe_base(forest)
    manifest |= {"format": FOREST, "version": VERSION}
    manifest |= {"out_of_bag": forest.out_of_bag, "caution": forest.uncertainty_penalty}
    manifest["classifiers"] = [kind_of_classifier(one.classifier) for one in forest.trees]
    for number, one in enumerate(forest.trees):
        arrays |= arrays_of_values(one, _prefix(number))
    write_archive(path, manifest, arrays)


def read_forest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the ForestPolicy that a file holds; run no code from it.

    The trees are (classifier, values, counts).

    Raises:
        FileFormatError: The file is no forest, is damaged, or names a part unknown here.
    """
    manifest, arrays = read_archive(path, FOREST, VERSION, CURES, max_bytes=MOST_BYTES)
    with refusing(path, "forest"):
        parts = read_base(manifest, arrays)
        trees = [
            read_values(kind, arrays, _prefix(number))
            for number, kind in enumerate(list(manifest["classifiers"]))
        ]
        must(trees, "trees")
        n_actions = trees[0][1].shape[-1]
        for classifier, q, count in trees:
            check_values(classifier, q, count, len(parts["graph"]))
            must(q.shape[1] == n_actions, "values")
        check_base(**parts, n_actions=n_actions)
        error = manifest["out_of_bag"]
        error = None if error is None else as_number(error)
        must(error is None or error >= 0.0, "error")
        uncertainty_penalty = as_number(manifest.get("caution", 0.0))  # the first forests had none
        must(0.0 <= uncertainty_penalty <= LARGEST, "caution")
        return {
            **parts,
            "trees": trees,
            "out_of_bag": error,
            "uncertainty_penalty": uncertainty_penalty,
        }


def _prefix(number: int) -> str:
    return f"tree/{number}/"
