"""The file of a policy: what is written, and how it is checked when it is read."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlvc.classifier import Classifier
from rlvc.classifier.bdd import Diagrams
from rlvc.classifier.tree import Tree
from rlvc.errors import FileFormatError
from rlvc.feature_file import check_features, describe_feature, must, read_feature, symbols_of
from rlvc.features import Graph
from rlvc.registry import arrays_of
from rlvc.storage import read_archive, write_archive
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.eye import Eye
from rlvc.vision.metrics import Mahalanobis, metrics
from rlvc.vision.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rlvc.forest_policy import ForestPolicy, Member
    from rlvc.policy import Policy

FORMAT, VERSION = "rlvc-policy", 1
CURES = {"rlvc-forest": " Load it with ForestPolicy.load, or with rlvc.load_policy."}
CLASSIFIERS: dict[str, type[Tree] | type[Diagrams]] = {"tree": Tree, "diagrams": Diagrams}


def write_policy(path: str | os.PathLike[str], policy: Policy) -> None:
    """Write a policy to one file, whole or not at all; equal policies give equal bytes."""
    manifest, arrays = describe_base(policy)
    manifest |= {"format": FORMAT, "version": VERSION}
    manifest |= {"classifier": kind_of_classifier(policy.classifier)}
    write_archive(path, manifest, arrays | arrays_of_values(policy))


def read_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the Policy that a file holds; run no code from it.

    Raises:
        FileFormatError: The file is no policy, is damaged, or names a part unknown here.
    """
    manifest, arrays = read_archive(path, FORMAT, VERSION, CURES)
    with refusing(path, "policy"):
        parts = read_base(manifest, arrays)
        classifier, q, count = read_values(manifest["classifier"], arrays)
        check_values(classifier, q, count, len(parts["graph"]))
        check_base(**parts, n_actions=q.shape[1])
        return {**parts, "classifier": classifier, "q": q, "count": count}


@contextmanager
def refusing(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn whatever is wrong with what a file holds into a FileFormatError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{os.fspath(path)} does not hold a {what}: {error}") from error


def describe_base(policy: Policy | ForestPolicy) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest and the arrays of all but the classifiers and their values."""
    eye, cameras = policy.eye, sorted(policy.shapes)
    manifest = {
        "detector": detectors.describe(eye.detector),
        "descriptor": descriptors.describe(eye.descriptor),
        "metric": metrics.describe(eye.metric, learned=True),
        "threshold": eye.threshold,
        "cameras": [{"name": name, "shape": list(policy.shapes[name])} for name in cameras],
        "features": [describe_feature(feature) for feature in policy.graph.features],
        "gamma": policy.gamma,
        "action_start": policy.action_start,
        "action_names": list(policy.action_names),
        "about": dict(policy.about),
    }
    arrays: dict[str, NDArray[Any]] = {"usage": policy.usage, "patches": policy.patches}
    for i, name in enumerate(cameras):
        words = eye.vocabularies[name]
        if words.centres is not None:
            arrays[f"vocabulary/{i}/centres"] = words.centres
        arrays |= {f"vocabulary/{i}/metric/{k}": v for k, v in arrays_of(words.metric).items()}
    return manifest, arrays


def read_base(manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what :func:`describe_base` described; nothing of it is believed yet."""
    eye = Eye(
        detectors.restore(manifest["detector"]),
        descriptors.restore(manifest["descriptor"]),
        metrics.restore(manifest["metric"]),
        float(manifest["threshold"]),
    )
    shapes: dict[str, tuple[int, ...]] = {}
    for i, camera in enumerate(manifest["cameras"]):
        prefix = f"vocabulary/{i}/metric/"
        state = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        metric: Any = eye.metric
        metric = dataclasses.replace(metric, **state) if state else metric
        centres = arrays.get(f"vocabulary/{i}/centres")
        words = Vocabulary(metric, eye.threshold, centres, is_fitted=True)
        eye.vocabularies[str(camera["name"])] = words
        shapes[str(camera["name"])] = tuple(int(n) for n in camera["shape"])
    return {
        "eye": eye,
        "graph": Graph(tuple(read_feature(entry) for entry in manifest["features"])),
        "usage": arrays["usage"],
        "patches": arrays["patches"],
        "shapes": shapes,
        "gamma": float(manifest["gamma"]),
        "action_start": int(manifest["action_start"]),
        "action_names": tuple(str(name) for name in manifest["action_names"]),
        "about": {str(key): str(value) for key, value in manifest["about"].items()},
    }


def check_base(
    *,
    eye: Eye,
    graph: Graph,
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
    must(patches.dtype == np.uint8 and patches.shape[:1] == (n_features,), "patches")
    must(patches.ndim == 4 and patches.shape[3] == 3, "patches")
    must(not action_names or len(action_names) == n_actions, "names of the actions")
    must(math.isfinite(eye.threshold) and 0.0 <= gamma < 1.0, "parameters")
    must(bool(shapes), "cameras")
    for name, shape in shapes.items():
        must(len(shape) == 3 and shape[2] in (1, 3) and min(shape) > 0, "cameras")
        _check_vocabulary(eye, eye.vocabularies[name], shape[2])
    check_features(graph, symbols_of(eye))


def kind_of_classifier(classifier: Classifier) -> str:
    """Return the name of a classifier that can be saved."""
    for name, kind in CLASSIFIERS.items():
        if type(classifier) is kind:
            return name
    raise TypeError(
        "The classifier of a policy must be a Tree or Diagrams to be saved; got "
        f"{type(classifier).__name__}."
    )


def arrays_of_values(policy: Policy | Member, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of a classifier and of the values of its classes."""
    arrays: dict[str, NDArray[Any]] = {f"{prefix}q": policy.q, f"{prefix}count": policy.count}
    nodes = arrays_of(policy.classifier).items()
    return arrays | {f"{prefix}classifier/{k}": v for k, v in nodes}


def read_values(
    kind: Any, arrays: dict[str, NDArray[Any]], prefix: str = ""
) -> tuple[Tree | Diagrams, NDArray[Any], NDArray[Any]]:
    """Return a classifier, values and counts; nothing of them is believed yet."""
    if kind not in CLASSIFIERS:
        raise ValueError(f"its classifier {kind!r} is not known here")
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
    must(np.isfinite(q).all(), "values")
    must(count.dtype == np.int64 and count.shape == q.shape, "counts")


def _check_vocabulary(eye: Eye, words: Vocabulary, channels: int) -> None:
    """Compare a vocabulary with what the descriptor makes of a blank image."""
    if words.centres is None:
        return
    _, rows = eye.look_at(np.zeros((64, 64, channels), np.uint8))
    centres = words.centres
    must(centres.ndim == 2 and centres.shape[1:] == rows.shape[1:], "vocabulary")
    must(centres.dtype == rows.dtype and np.isfinite(centres).all(), "vocabulary")
    for array in arrays_of(words.metric).values():
        must(array.size > 0 and np.isfinite(array).all(), "metric")
        if isinstance(words.metric, Mahalanobis):  # compiled code does not check its shape
            must(array.dtype == np.float64 and array.ndim == 2, "metric")
            must(len(array) == centres.shape[1], "metric")
    words.metric.distances(centres[:1], centres[:1])  # raises if what it learned is missing
