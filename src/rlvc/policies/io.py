"""The files of policies and of forests: write them, read them, and check them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.arrays import Floats, Ints
from rlvc._core.atomic import Pathlike
from rlvc._core.registry import arrays_of
from rlvc._core.validate import MAX_SQUARED, explain_invalid, from_json, require
from rlvc.classifiers.base import Classifier
from rlvc.classifiers.bdd import Diagrams
from rlvc.classifiers.tree import Tree
from rlvc.features.graph import FeatureGraph
from rlvc.features.io import check_features, describe_feature, read_feature, symbols_of
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.io import check_vocabulary, describe_extractor, read_extractor

if TYPE_CHECKING:
    from rlvc.policies.policy import BasePolicy

POLICY, FOREST, VERSION = "rlvc-policy", "rlvc-forest", 1
CURES = {
    FOREST: " Load it with ForestPolicy.load, or with rlvc.load_policy.",
    POLICY: " Load it with Policy.load, or with rlvc.load_policy.",
}
MAX_BYTES: Final = 4 * 2**30  # of the file
MAX_PATCH: Final = 512  # pixels of a side
MAX_IMAGE: Final = 2**15  # pixels of a side, the most that OpenCV accepts
MAX_VALUE: Final = 1e150  # rewards are at most 1e100, and the square of this is finite
CLASSIFIERS: dict[str, type[Tree] | type[Diagrams]] = {"tree": Tree, "diagrams": Diagrams}

SavedTree = tuple[Tree | Diagrams, Floats, Ints]  # a classifier, its values and its counts


def write_policy(path: Pathlike, policy: BasePolicy) -> None:
    """Write a policy, or a forest, to one file; equal policies give equal bytes."""
    manifest, arrays = describe_policy(policy)
    kind = FOREST if hasattr(policy, "trees") else POLICY
    if kind == FOREST:
        manifest |= {name: getattr(policy, name) for name in ("out_of_bag", "uncertainty_penalty")}
    write_archive(path, {**manifest, "format": kind, "version": VERSION}, arrays)


def read_policy(path: Pathlike) -> dict[str, Any]:
    """Return the arguments of the Policy in a file, or raise a FileFormatError."""
    manifest, arrays = read_archive(path, POLICY, VERSION, CURES, max_bytes=MAX_BYTES)
    with explain_invalid(path, "policy"):
        return restore_policy(manifest, arrays)


def read_forest(path: Pathlike) -> tuple[dict[str, Any], list[SavedTree]]:
    """Return the arguments of the ForestPolicy in a file except its trees, and the trees."""
    manifest, arrays = read_archive(path, FOREST, VERSION, CURES, max_bytes=MAX_BYTES)
    with explain_invalid(path, "forest"):
        parts, trees = _read(manifest, arrays)
        error = from_json(float | None, manifest["out_of_bag"])
        penalty = from_json(float, manifest["uncertainty_penalty"])
        require(error is None or error >= 0.0, "error")
        require(0.0 <= penalty <= MAX_SQUARED, "uncertainty penalty")
        return {**parts, "out_of_bag": error, "uncertainty_penalty": penalty}, trees


def restore_policy(
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    extractor: FeatureExtractor | None = None,
) -> dict[str, Any]:
    """Return the arguments of a Policy, given the result of :func:`describe_policy`.

    An extractor that is given replaces the described one.
    """
    parts, trees = _read(manifest, arrays, extractor)
    require(len(trees) == 1, "trees")
    classifier, q, count = trees[0]
    return {**parts, "classifier": classifier, "q": q, "count": count}


def describe_policy(policy: BasePolicy) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest and the arrays of a policy, or of a forest."""
    manifest, arrays = describe_extractor(policy.extractor, sorted(policy.shapes))
    for camera in manifest["cameras"]:
        camera["shape"] = list(policy.shapes[camera["name"]])
    trees: Any = getattr(policy, "trees", (policy,))
    manifest |= {
        "features": [describe_feature(feature) for feature in policy.graph.features],
        "gamma": policy.gamma,
        "action_start": policy.action_start,
        "action_names": list(policy.action_names),
        "about": dict(policy.about),
        "classifiers": [_kind_of(tree.classifier) for tree in trees],
    }
    arrays |= {"usage": policy.usage, "patches": policy.patches}
    for number, tree in enumerate(trees):
        arrays |= {f"tree/{number}/q": tree.q, f"tree/{number}/count": tree.count}
        nodes = arrays_of(tree.classifier).items()
        arrays |= {f"tree/{number}/classifier/{name}": array for name, array in nodes}
    return manifest, arrays


def _read(
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    extractor: FeatureExtractor | None = None,
) -> tuple[dict[str, Any], list[SavedTree]]:
    """Return the arguments that all policies have, and the classifiers with their values."""
    require(isinstance(manifest["features"], list), "features")
    parts = {
        "extractor": extractor or read_extractor(manifest, arrays),
        "graph": FeatureGraph(tuple(map(read_feature, manifest["features"]))),
        "usage": arrays["usage"],
        "patches": arrays["patches"],
        "shapes": {
            one["name"]: from_json(tuple[int, ...], one["shape"]) for one in manifest["cameras"]
        },
        "gamma": from_json(float, manifest["gamma"]),
        "action_start": from_json(int, manifest["action_start"]),
        "action_names": from_json(tuple[str, ...], manifest["action_names"]),
        "about": {from_json(str, key): str(value) for key, value in manifest["about"].items()},
    }
    trees = _read_trees(manifest, arrays)
    _check(parts, trees)
    return parts, trees


def _read_trees(manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> list[SavedTree]:
    """Return all classifiers, their values and their counts."""
    trees = []
    for number, kind in enumerate(list(manifest["classifiers"])):
        if from_json(str, kind) not in CLASSIFIERS:
            raise ValueError(f"its classifier {kind[:40]!r} is unknown")
        names = [field.name for field in dataclasses.fields(CLASSIFIERS[kind])]
        nodes = {name: arrays[f"tree/{number}/classifier/{name}"] for name in names}
        q, count = arrays[f"tree/{number}/q"], arrays[f"tree/{number}/count"]
        trees.append((CLASSIFIERS[kind](**nodes), q, count))
    return trees


def _check(parts: dict[str, Any], trees: list[SavedTree]) -> None:
    """Raise a ValueError unless the parts fit together."""
    extractor, graph, patches = parts["extractor"], parts["graph"], parts["patches"]
    usage, names, shapes = parts["usage"], parts["action_names"], parts["shapes"]
    require(trees, "trees")
    n_actions = trees[0][1].shape[-1]
    for classifier, q, count in trees:
        classifier.check(len(graph))
        require(q.dtype == np.float64 and q.shape == (classifier.n_classes, n_actions), "values")
        require(n_actions > 0 and (np.abs(q) <= MAX_VALUE).all(), "values")  # so is no NaN
        require(count.dtype == np.int64 and count.shape == q.shape, "counts")
        require(count.min(initial=0) >= 0, "counts")
    require(usage.dtype == np.int64 and usage.shape == (len(graph),), "usage")
    require(usage.min(initial=0) >= 0, "usage")
    require(patches.dtype == np.uint8 and patches.shape[:1] == (len(graph),), "patches")
    require(patches.ndim == 4 and patches.shape[3] == 3, "patches")
    require(0 < patches.shape[1] == patches.shape[2] <= MAX_PATCH, "patches")
    require(not names or len(names) == n_actions, "names of the actions")
    require(0.0 <= parts["gamma"] < 1.0 and abs(parts["action_start"]) < 2**31, "parameters")
    require(bool(shapes), "cameras")
    for name, shape in shapes.items():
        require(len(shape) == 3 and shape[2] in (1, 3) and min(shape) > 0, "cameras")
        require(max(shape) <= MAX_IMAGE, "cameras")
        check_vocabulary(extractor, extractor.vocabularies[name], shape[2])
    check_features(graph, symbols_of(extractor))


def _kind_of(classifier: Classifier) -> str:
    """Return the name of a classifier that can be saved."""
    for name, kind in CLASSIFIERS.items():
        if type(classifier) is kind:
            return name
    raise TypeError(
        "The classifier of a policy must be a Tree or Diagrams to be saved; got "
        f"{type(classifier).__name__}."
    )
