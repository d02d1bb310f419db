"""The file of a policy: write it, read it, and check it."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.registry import arrays_of
from rlvc._core.validate import as_int, as_number, as_text, explain_invalid, from_json, require
from rlvc.classifiers.base import Classifier
from rlvc.classifiers.bdd import Diagrams
from rlvc.classifiers.tree import Tree
from rlvc.features.graph import FeatureGraph
from rlvc.features.io import check_features, describe_feature, read_feature, symbols_of
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.io import check_words, describe_extractor, read_extractor

if TYPE_CHECKING:
    from rlvc.policies.forest import ForestPolicy, ForestTree
    from rlvc.policies.policy import Policy

FORMAT, VERSION = "rlvc-policy", 1
CURES = {"rlvc-forest": " Load it with ForestPolicy.load, or with rlvc.load_policy."}
MAX_BYTES: Final = 4 * 2**30  # of the file
MAX_PATCH: Final = 512  # pixels of a side
MAX_IMAGE: Final = 2**15  # pixels of a side; OpenCV takes none beyond that
MAX_VALUE: Final = 1e150  # rewards are at most 1e100, and the square of this is finite
CLASSIFIERS: dict[str, type[Tree] | type[Diagrams]] = {"tree": Tree, "diagrams": Diagrams}


def write_policy(path: str | os.PathLike[str], policy: Policy) -> None:
    """Write a policy to one file; equal policies give equal bytes."""
    manifest, arrays = describe_policy(policy)
    write_archive(path, {**manifest, "format": FORMAT, "version": VERSION}, arrays)


def read_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the Policy that a file holds; run no code from it.

    Raises:
        FileFormatError: The file is no policy, is damaged, or names an unknown part.
    """
    manifest, arrays = read_archive(path, FORMAT, VERSION, CURES, max_bytes=MAX_BYTES)
    with explain_invalid(path, "policy"):
        return restore_policy(manifest, arrays)


def describe_policy(policy: Policy) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest and the arrays of a policy."""
    manifest, arrays = describe_parts(policy)
    manifest["classifier"] = kind_of_classifier(policy.classifier)
    return manifest, arrays | arrays_of_values(policy)


def restore_policy(
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    extractor: FeatureExtractor | None = None,
) -> dict[str, Any]:
    """Return the arguments of a Policy that was described, or raise an error.

    Args:
        manifest: As :func:`describe_policy` returns it.
        arrays: As :func:`describe_policy` returns them.
        extractor: The extractor, if none was described.
    """
    parts = read_parts(manifest, arrays)
    parts["extractor"] = extractor or parts["extractor"]
    classifier, q, count = read_values(manifest["classifier"], arrays)
    check_values(classifier, q, count, len(parts["graph"]))
    check_parts(parts, q.shape[1])
    return {**parts, "classifier": classifier, "q": q, "count": count}


class PolicyParts(TypedDict):
    """The arguments that a Policy and a ForestPolicy have in common."""

    extractor: FeatureExtractor
    graph: FeatureGraph
    usage: NDArray[np.int64]
    patches: NDArray[np.uint8]
    shapes: dict[str, tuple[int, ...]]
    gamma: float
    action_start: int
    action_names: tuple[str, ...]
    about: dict[str, str]


def describe_parts(policy: Policy | ForestPolicy) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest and the arrays of all but the classifiers and their values."""
    manifest, arrays = describe_extractor(policy.extractor, sorted(policy.shapes))
    for camera in manifest["cameras"]:
        camera["shape"] = list(policy.shapes[camera["name"]])
    manifest |= {
        "features": [describe_feature(feature) for feature in policy.graph.features],
        "gamma": policy.gamma,
        "action_start": policy.action_start,
        "action_names": list(policy.action_names),
        "about": dict(policy.about),
    }
    return manifest, arrays | {"usage": policy.usage, "patches": policy.patches}


def read_parts(manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> PolicyParts:
    """Return what :func:`describe_parts` described; :func:`check_parts` must follow."""
    require(isinstance(manifest["features"], list), "features")
    return {
        "extractor": read_extractor(manifest, arrays),
        "graph": FeatureGraph(tuple(read_feature(entry) for entry in manifest["features"])),
        "usage": arrays["usage"],
        "patches": arrays["patches"],
        "shapes": {
            camera["name"]: from_json(tuple[int, ...], camera["shape"])
            for camera in manifest["cameras"]
        },
        "gamma": as_number(manifest["gamma"]),
        "action_start": as_int(manifest["action_start"]),
        "action_names": from_json(tuple[str, ...], manifest["action_names"]),
        "about": {as_text(key): str(value) for key, value in manifest["about"].items()},
    }


def check_parts(parts: PolicyParts, n_actions: int) -> None:
    """Raise a ValueError unless the parts fit together."""
    extractor, graph, patches = parts["extractor"], parts["graph"], parts["patches"]
    usage, names, shapes = parts["usage"], parts["action_names"], parts["shapes"]
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
        check_words(extractor, extractor.vocabularies[name], shape[2])
    check_features(graph, symbols_of(extractor))


def kind_of_classifier(classifier: Classifier) -> str:
    """Return the name of a classifier that can be saved."""
    for name, kind in CLASSIFIERS.items():
        if type(classifier) is kind:
            return name
    raise TypeError(
        "The classifier of a policy must be a Tree or Diagrams to be saved; got "
        f"{type(classifier).__name__}."
    )


def arrays_of_values(policy: Policy | ForestTree, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of a classifier and of the values of its classes."""
    arrays: dict[str, NDArray[Any]] = {f"{prefix}q": policy.q, f"{prefix}count": policy.count}
    nodes = arrays_of(policy.classifier).items()
    return arrays | {f"{prefix}classifier/{k}": v for k, v in nodes}


def read_values(
    kind: Any, arrays: dict[str, NDArray[Any]], prefix: str = ""
) -> tuple[Tree | Diagrams, NDArray[Any], NDArray[Any]]:
    """Return a classifier, values and counts; :func:`check_values` must follow."""
    if as_text(kind) not in CLASSIFIERS:
        raise ValueError(f"its classifier {kind[:40]!r} is not known")
    node_type = CLASSIFIERS[kind]
    nodes = {f.name: arrays[f"{prefix}classifier/{f.name}"] for f in dataclasses.fields(node_type)}
    return node_type(**nodes), arrays[f"{prefix}q"], arrays[f"{prefix}count"]


def check_values(
    classifier: Tree | Diagrams, q: NDArray[Any], count: NDArray[Any], n_features: int
) -> None:
    """Raise a ValueError unless a classifier over so many features and its values fit together."""
    classifier.check(n_features)
    n_actions = q.shape[1] if q.ndim == 2 else 0
    is_table = q.shape == (classifier.n_classes, n_actions) and n_actions > 0
    require(q.dtype == np.float64 and is_table, "values")
    require((np.abs(q) <= MAX_VALUE).all(), "values")  # so is no NaN
    require(count.dtype == np.int64 and count.shape == q.shape, "counts")
    require(count.min(initial=0) >= 0, "counts")
