"""The file of a policy: what is written, and how it is checked when it is read."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.registry import arrays_of
from rlvc._core.validate import as_int, as_number, as_text, must, refusing
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
MOST_BYTES: Final = 4 * 2**30  # of the file
LARGEST_PATCH: Final = 512  # pixels of a side
LARGEST_IMAGE: Final = 2**15  # pixels of a side; OpenCV takes none beyond that
LARGEST_VALUE: Final = 1e150  # rewards are at most 1e100, and the square of this is finite
CLASSIFIERS: dict[str, type[Tree] | type[Diagrams]] = {"tree": Tree, "diagrams": Diagrams}


def write_policy(path: str | os.PathLike[str], policy: Policy) -> None:
    """Write a policy to one file, whole or not at all; equal policies give equal bytes."""
    manifest, arrays = describe_policy(policy)
    write_archive(path, {**manifest, "format": FORMAT, "version": VERSION}, arrays)


def read_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the Policy that a file holds; run no code from it.

    Raises:
        FileFormatError: The file is no policy, is damaged, or names a part unknown here.
    """
    manifest, arrays = read_archive(path, FORMAT, VERSION, CURES, max_bytes=MOST_BYTES)
    with refusing(path, "policy"):
        return restore_policy(manifest, arrays)


def describe_policy(policy: Policy) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest and the arrays of a policy."""
    manifest, arrays = describe_base(policy)
    manifest["classifier"] = kind_of_classifier(policy.classifier)
    return manifest, arrays | arrays_of_values(policy)


def restore_policy(
    manifest: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    extractor: FeatureExtractor | None = None,
) -> dict[str, Any]:
    """Return the arguments of a Policy that was described; raise an error if it makes no sense.

    Args:
        manifest: As :func:`describe_policy` returns it.
        arrays: The same.
        extractor: Who sees, where that was not described.
    """
    parts = read_base(manifest, arrays)
    parts["extractor"] = extractor or parts["extractor"]
    classifier, q, count = read_values(manifest["classifier"], arrays)
    check_values(classifier, q, count, len(parts["graph"]))
    check_base(**parts, n_actions=q.shape[1])
    return {**parts, "classifier": classifier, "q": q, "count": count}


def describe_base(policy: Policy | ForestPolicy) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
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


def read_base(manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what :func:`describe_base` described; :func:`check_base` must follow."""
    for name in ("features", "action_names"):
        must(isinstance(manifest[name], list), name.replace("_", " "))
    return {
        "extractor": read_extractor(manifest, arrays),
        "graph": FeatureGraph(tuple(read_feature(entry) for entry in manifest["features"])),
        "usage": arrays["usage"],
        "patches": arrays["patches"],
        "shapes": {
            camera["name"]: tuple(as_int(n) for n in camera["shape"])
            for camera in manifest["cameras"]
        },
        "gamma": as_number(manifest["gamma"]),
        "action_start": as_int(manifest["action_start"]),
        "action_names": tuple(as_text(name) for name in manifest["action_names"]),
        "about": {as_text(key): str(value) for key, value in manifest["about"].items()},
    }


def check_base(
    *,
    extractor: FeatureExtractor,
    graph: FeatureGraph,
    usage: NDArray[Any],
    patches: NDArray[Any],
    shapes: dict[str, tuple[int, ...]],
    gamma: float,
    action_start: int,
    action_names: tuple[str, ...],
    about: dict[str, str],
    n_actions: int,
) -> None:
    """Raise a ValueError if the parts do not fit together, so that acting cannot go astray."""
    n_features = len(graph)
    must(usage.dtype == np.int64 and usage.shape == (n_features,), "usage")
    must(usage.min(initial=0) >= 0, "usage")
    must(patches.dtype == np.uint8 and patches.shape[:1] == (n_features,), "patches")
    must(patches.ndim == 4 and patches.shape[3] == 3, "patches")
    must(0 < patches.shape[1] == patches.shape[2] <= LARGEST_PATCH, "patches")
    must(not action_names or len(action_names) == n_actions, "names of the actions")
    must(0.0 <= gamma < 1.0 and abs(action_start) < 2**31, "parameters")
    must(bool(shapes), "cameras")
    for name, shape in shapes.items():
        must(len(shape) == 3 and shape[2] in (1, 3) and min(shape) > 0, "cameras")
        must(max(shape) <= LARGEST_IMAGE, "cameras")
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
    """Return a classifier, values and counts; nothing of them is believed yet."""
    if as_text(kind) not in CLASSIFIERS:
        raise ValueError(f"its classifier {kind[:40]!r} is not known here")
    made = CLASSIFIERS[kind]
    nodes = {f.name: arrays[f"{prefix}classifier/{f.name}"] for f in dataclasses.fields(made)}
    return made(**nodes), arrays[f"{prefix}q"], arrays[f"{prefix}count"]


def check_values(
    classifier: Tree | Diagrams, q: NDArray[Any], count: NDArray[Any], n_features: int
) -> None:
    """Raise a ValueError unless a classifier over so many features and its values fit together."""
    classifier.check(n_features)
    n_actions = q.shape[1] if q.ndim == 2 else 0
    is_table = q.shape == (classifier.n_classes, n_actions) and n_actions > 0
    must(q.dtype == np.float64 and is_table, "values")
    must((np.abs(q) <= LARGEST_VALUE).all(), "values")  # so is no NaN
    must(count.dtype == np.int64 and count.shape == q.shape, "counts")
    must(count.min(initial=0) >= 0, "counts")
