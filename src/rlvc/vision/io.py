"""The file of a vocabulary: a feature extractor with all its symbols."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.arrays import Arrays
from rlvc._core.atomic import Pathlike
from rlvc._core.registry import arrays_of
from rlvc._core.validate import MAX_SQUARED, as_part, explain_invalid, from_json, require
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.extractor import SIDE, FeatureExtractor
from rlvc.vision.metrics import Mahalanobis, metrics
from rlvc.vision.vocabulary import Vocabulary

FORMAT, VERSION = "rlvc-vocabulary", 1
MAX_BYTES: Final = 16 * 2**30  # a patch has 3 KB, so this is enough for five million symbols
MAX_CAMERAS: Final = 256


def save_vocabulary(extractor: FeatureExtractor, path: Pathlike) -> None:
    """Write a feature extractor and its vocabularies to one file.

    Another run that learns with it uses the same symbols:

    >>> import tempfile, rlvc
    >>> from rlvc.vision.detectors import Harris
    >>> images = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    >>> data = rlvc.Interactions.from_arrays(
    ...     images, [0, 1], [0.0, 1.0], [True, True], next_observations=images
    ... )
    >>> first = rlvc.RLVC(detector=Harris()).extract(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rlvc.save_vocabulary(first.extractor, f"{folder}/extractor.rlvc")
    ...     extractor = rlvc.load_vocabulary(f"{folder}/extractor.rlvc")
    >>> second = rlvc.RLVC().extract(data, extractor=extractor)
    >>> second.extractor.n_symbols == first.extractor.n_symbols
    True
    """
    cameras = list(extractor.vocabularies)  # in the order of their symbols' features
    manifest, arrays = describe_extractor(extractor, cameras)
    manifest |= {"format": FORMAT, "version": VERSION}
    for i, (name, camera) in enumerate(zip(cameras, manifest["cameras"], strict=True)):
        camera["is_fitted"] = extractor.vocabularies[name].is_fitted
        if extractor.patches.get(name):
            arrays[f"vocabulary/{i}/patches"] = np.stack(extractor.patches[name])
    write_archive(path, manifest, arrays)


def load_vocabulary(path: Pathlike) -> FeatureExtractor:
    """Read a feature extractor; it learns new symbols just as the saved one would.

    Raises:
        FileFormatError: The file is no vocabulary, or is damaged. No code from it is run.
    """
    manifest, arrays = read_archive(path, FORMAT, VERSION, max_bytes=MAX_BYTES)
    with explain_invalid(path, "vocabulary"):
        extractor = read_extractor(manifest, arrays)
        for i, camera in enumerate(manifest["cameras"]):
            name, is_fitted = camera["name"], camera["is_fitted"]
            vocabulary = extractor.vocabularies[name]
            vocabulary.is_fitted = from_json(bool, is_fitted)
            require(is_fitted == (vocabulary.centres is not None), "symbols")
            require(is_fitted or not arrays_of(vocabulary.metric), "metrics")
            check_vocabulary(extractor, vocabulary, channels=3)
            patches = arrays.get(f"vocabulary/{i}/patches")
            shape = (vocabulary.n_symbols, SIDE, SIDE, 3)
            require((patches is not None) == is_fitted, "patches")
            if patches is not None:
                require(patches.dtype == np.uint8 and patches.shape == shape, "patches")
            extractor.patches[name] = [] if patches is None else list(patches)
        return extractor


def describe_extractor(
    extractor: FeatureExtractor, cameras: Iterable[str]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest and the arrays of an extractor and of the vocabularies of cameras."""
    manifest: dict[str, Any] = {
        "detector": detectors.describe(extractor.detector),
        "descriptor": descriptors.describe(extractor.descriptor),
        "metric": metrics.describe(extractor.metric, learned=True),
        "threshold": extractor.threshold,
        "cameras": [{"name": name} for name in cameras],
    }
    arrays: dict[str, NDArray[Any]] = {}
    for i, camera in enumerate(manifest["cameras"]):
        vocabulary = extractor.vocabularies[camera["name"]]
        if vocabulary.centres is not None:
            arrays[f"vocabulary/{i}/centres"] = vocabulary.centres
        for name, array in arrays_of(vocabulary.metric).items():
            arrays[f"vocabulary/{i}/metric/{name}"] = array
    return manifest, arrays


def read_extractor(manifest: Mapping[str, Any], arrays: Arrays) -> FeatureExtractor:
    """Return what :func:`describe_extractor` described; :func:`check_vocabulary` must follow."""
    extractor = FeatureExtractor(
        as_part(detectors, manifest["detector"]),
        as_part(descriptors, manifest["descriptor"]),
        as_part(metrics, manifest["metric"]),
        from_json(float, manifest["threshold"]),
    )
    require(0.0 <= extractor.threshold <= MAX_SQUARED, "parameters")
    cameras = manifest["cameras"]
    require(isinstance(cameras, list) and len(cameras) <= MAX_CAMERAS, "cameras")
    metric: Any = extractor.metric
    for i, camera in enumerate(cameras):
        prefix = f"vocabulary/{i}/metric/"
        names = [name for name in arrays if name.startswith(prefix)]
        learned = {name.removeprefix(prefix): arrays[name] for name in names}
        fitted = dataclasses.replace(metric, **learned) if learned else metric
        centres = arrays.get(f"vocabulary/{i}/centres")
        vocabulary = Vocabulary(fitted, extractor.threshold, centres, is_fitted=True)
        extractor.vocabularies[from_json(str, camera["name"])] = vocabulary
    require(len(extractor.vocabularies) == len(cameras), "cameras")
    require(not isinstance(metric, Mahalanobis) or metric.whitening is None, "metrics")
    return extractor


def check_vocabulary(extractor: FeatureExtractor, vocabulary: Vocabulary, channels: int) -> None:
    """Raise a ValueError unless a vocabulary fits the descriptors of a blank image."""
    if vocabulary.centres is None:
        return
    _, rows = extractor.extract_image(np.zeros((64, 64, channels), np.uint8))
    centres = vocabulary.centres
    require(centres.ndim == 2 and centres.shape[1:] == rows.shape[1:], "symbols")
    require(len(centres) > 0 and centres.dtype == rows.dtype, "symbols")
    require(np.isfinite(centres).all(), "symbols")
    for array in arrays_of(vocabulary.metric).values():
        require(array.size > 0 and np.isfinite(array).all(), "metrics")
        if isinstance(vocabulary.metric, Mahalanobis):  # compiled code does not check its shape
            require(array.dtype == np.float64 and array.ndim == 2, "metrics")
            require(array.shape[1] <= len(array) == centres.shape[1], "metrics")
            require(_largest(array) * _largest(centres) * len(array) <= MAX_SQUARED, "metrics")
    vocabulary.metric.distances(centres[:1], centres[:1])  # raises if it was not fitted


def _largest(array: NDArray[Any]) -> float:
    """Return the size of the largest number, without a copy of all."""
    return max(float(array.max()), -float(array.min()))
