"""The file of an eye: what it looks for, and every symbol that it has met."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.atomic import Pathlike
from rlvc._core.registry import arrays_of
from rlvc._core.validate import LARGEST, as_number, as_part, as_text, must, refusing
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.extractor import SIDE, Eye
from rlvc.vision.metrics import Mahalanobis, metrics
from rlvc.vision.vocabulary import Vocabulary

FORMAT, VERSION = "rlvc-vocabulary", 1
MOST_BYTES: Final = 16 * 2**30  # a patch has 3 KB, so that is room for five million symbols
MOST_CAMERAS: Final = 256

Arrays = Mapping[str, NDArray[Any]]


def save_vocabulary(eye: Eye, path: Pathlike) -> None:
    """Write all that an eye knows to one file, whole or not at all.

    Another run that learns with it calls the same things by the same symbols:

    >>> import tempfile, rlvc
    >>> from rlvc.vision.detectors import Harris
    >>> images = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    >>> data = rlvc.Interactions.from_arrays(
    ...     images, [0, 1], [0.0, 1.0], [True, True], next_observations=images
    ... )
    >>> first = rlvc.RLVC(detector=Harris()).look(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rlvc.save_vocabulary(first.eye, f"{folder}/eye.rlvc")
    ...     eye = rlvc.load_vocabulary(f"{folder}/eye.rlvc")
    >>> second = rlvc.RLVC().look(data, eye=eye)
    >>> second.eye.n_symbols == first.eye.n_symbols
    True
    """
    cameras = list(eye.vocabularies)  # in the order in which they were met, as features are
    manifest, arrays = describe_eye(eye, cameras)
    manifest |= {"format": FORMAT, "version": VERSION}
    for i, (name, camera) in enumerate(zip(cameras, manifest["cameras"], strict=True)):
        camera["is_fitted"] = eye.vocabularies[name].is_fitted
        if eye.patches.get(name):
            arrays[f"vocabulary/{i}/patches"] = np.stack(eye.patches[name])
    write_archive(path, manifest, arrays)


def load_vocabulary(path: Pathlike) -> Eye:
    """Read an eye; it goes on learning symbols just as the one that was saved would have.

    Raises:
        FileFormatError: The file is no vocabulary, or is damaged. No code from it is run.
    """
    manifest, arrays = read_archive(path, FORMAT, VERSION, largest=MOST_BYTES)
    with refusing(path, "vocabulary"):
        eye = read_eye(manifest, arrays)
        for i, camera in enumerate(manifest["cameras"]):
            name, is_fitted = camera["name"], camera["is_fitted"]
            words, patches = eye.vocabularies[name], arrays.get(f"vocabulary/{i}/patches")
            must(type(is_fitted) is bool, "cameras")
            words.is_fitted = is_fitted
            must(is_fitted == (words.centres is not None), "vocabulary")
            must(is_fitted or not arrays_of(words.metric), "metric")
            check_words(eye, words, channels=3)
            shape = (words.n_symbols, SIDE, SIDE, 3)
            must((patches is not None) == is_fitted, "patches")
            if patches is not None:
                must(patches.dtype == np.uint8 and patches.shape == shape, "patches")
            eye.patches[name] = [] if patches is None else list(patches)
        return eye


def describe_eye(
    eye: Eye, cameras: Iterable[str]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest and the arrays of an eye's parts and of what some cameras know."""
    manifest: dict[str, Any] = {
        "detector": detectors.describe(eye.detector),
        "descriptor": descriptors.describe(eye.descriptor),
        "metric": metrics.describe(eye.metric, learned=True),
        "threshold": eye.threshold,
        "cameras": [{"name": name} for name in cameras],
    }
    arrays: dict[str, NDArray[Any]] = {}
    for i, camera in enumerate(manifest["cameras"]):
        words = eye.vocabularies[camera["name"]]
        if words.centres is not None:
            arrays[f"vocabulary/{i}/centres"] = words.centres
        arrays |= {f"vocabulary/{i}/metric/{k}": v for k, v in arrays_of(words.metric).items()}
    return manifest, arrays


def read_eye(manifest: Mapping[str, Any], arrays: Arrays) -> Eye:
    """Return what :func:`describe_eye` described; :func:`check_words` must follow."""
    eye = Eye(
        as_part(detectors, manifest["detector"]),
        as_part(descriptors, manifest["descriptor"]),
        as_part(metrics, manifest["metric"]),
        as_number(manifest["threshold"]),
    )
    must(0.0 <= eye.threshold <= LARGEST, "parameters")
    cameras = manifest["cameras"]
    must(isinstance(cameras, list) and len(cameras) <= MOST_CAMERAS, "cameras")
    states: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        start, _, field = name.partition("/metric/")
        states.setdefault(start, {})[field] = array
    for i, camera in enumerate(cameras):
        state = states.get(f"vocabulary/{i}", {})
        state.pop("", None)
        metric: Any = eye.metric
        metric = dataclasses.replace(metric, **state) if state else metric
        centres = arrays.get(f"vocabulary/{i}/centres")
        words = Vocabulary(metric, eye.threshold, centres, is_fitted=True)
        eye.vocabularies[as_text(camera["name"])] = words
    must(len(eye.vocabularies) == len(cameras), "cameras")
    must(not isinstance(eye.metric, Mahalanobis) or eye.metric.whitening is None, "metric")
    return eye


def check_words(eye: Eye, words: Vocabulary, channels: int) -> None:
    """Raise a ValueError unless a vocabulary is of what the descriptor makes of a blank image."""
    if words.centres is None:
        return
    _, rows = eye.look_at(np.zeros((64, 64, channels), np.uint8))
    centres = words.centres
    must(centres.ndim == 2 and centres.shape[1:] == rows.shape[1:], "vocabulary")
    must(len(centres) > 0 and centres.dtype == rows.dtype, "vocabulary")
    must(np.isfinite(centres).all(), "vocabulary")
    for array in arrays_of(words.metric).values():
        must(array.size > 0 and np.isfinite(array).all(), "metric")
        if isinstance(words.metric, Mahalanobis):  # compiled code does not check its shape
            must(array.dtype == np.float64 and array.ndim == 2, "metric")
            must(array.shape[1] <= len(array) == centres.shape[1], "metric")
            must(_largest(array) * _largest(centres) * len(array) <= LARGEST, "metric")
    words.metric.distances(centres[:1], centres[:1])  # raises if what it learned is missing


def _largest(array: NDArray[Any]) -> float:
    """Return the size of the largest number, without a copy of all."""
    return max(float(array.max()), -float(array.min()))
