"""The file of a forest: like the file of a policy, with several classifiers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.validate import MAX_SQUARED, as_number, explain_invalid, from_json, require
from rlvc.policies.io import (
    FORMAT,
    MAX_BYTES,
    arrays_of_values,
    check_parts,
    check_values,
    describe_parts,
    kind_of_classifier,
    read_parts,
    read_values,
)

if TYPE_CHECKING:
    from rlvc.policies.forest import ForestPolicy

FOREST, VERSION = "rlvc-forest", 1
CURES = {FORMAT: " Load it with Policy.load, or with rlvc.load_policy."}


def write_forest(path: str | os.PathLike[str], forest: ForestPolicy) -> None:
    """Write a forest to one file; equal forests give equal bytes."""
    manifest, arrays = describe_parts(forest)
    manifest |= {"format": FOREST, "version": VERSION}
    manifest |= {"out_of_bag": forest.out_of_bag, "uncertainty_penalty": forest.uncertainty_penalty}
    manifest["classifiers"] = [kind_of_classifier(one.classifier) for one in forest.trees]
    for number, one in enumerate(forest.trees):
        arrays |= arrays_of_values(one, _prefix(number))
    write_archive(path, manifest, arrays)


def read_forest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the ForestPolicy that a file holds; run no code from it.

    The trees are (classifier, values, counts).

    Raises:
        FileFormatError: The file is no forest, is damaged, or names an unknown part.
    """
    manifest, arrays = read_archive(path, FOREST, VERSION, CURES, max_bytes=MAX_BYTES)
    with explain_invalid(path, "forest"):
        parts = read_parts(manifest, arrays)
        trees = [
            read_values(kind, arrays, _prefix(number))
            for number, kind in enumerate(list(manifest["classifiers"]))
        ]
        require(trees, "trees")
        n_actions = trees[0][1].shape[-1]
        for classifier, q, count in trees:
            check_values(classifier, q, count, len(parts["graph"]))
            require(q.shape[1] == n_actions, "values")
        check_parts(parts, n_actions)
        error = from_json(float | None, manifest["out_of_bag"])
        require(error is None or error >= 0.0, "error")
        uncertainty_penalty = as_number(manifest["uncertainty_penalty"])
        require(0.0 <= uncertainty_penalty <= MAX_SQUARED, "uncertainty penalty")
        return {
            **parts,
            "trees": trees,
            "out_of_bag": error,
            "uncertainty_penalty": uncertainty_penalty,
        }


def _prefix(number: int) -> str:
    return f"tree/{number}/"
