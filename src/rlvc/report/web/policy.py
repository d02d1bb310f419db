"""Policies as the page shows them: classifiers, features, and their occurrences on percepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlvc.classifiers._nodes import Nodes
from rlvc.classifiers.tree import Tree
from rlvc.data.percepts import Percepts
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import AtLeast, Composite, InCell
from rlvc.features.occurrences import Found
from rlvc.policies.forest import AnyPolicy, ForestPolicy, ForestTree
from rlvc.policies.policy import Policy
from rlvc.report.web.encoding import Json, encode_array, encode_image
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.extractor import SIDE

COLUMNS: Final = 32  # patches in a row of the sheet
QUALITY: Final = 90  # WebP quality of the sheet
UNIT: Final = 16  # positions are rounded to this fraction of a pixel
MOST: Final = 8  # occurrences of a composite that are stored per image
KINDS: Final = {Composite: "composite", InCell: "located", AtLeast: "several"}


def describe_policy(
    name: str,
    policy: AnyPolicy,
    percepts: Percepts,
    cache: ExtractionCache,
    first: int,
    on_image: Callable[[], None] | None = None,
) -> tuple[Json, list[Json]]:
    """Return a policy for the page, and its images, which the page numbers from ``first``.

    The page can explain it on the percepts, whose keypoints are cached; ``on_image`` is called
    after each image from which keypoints are extracted.
    """
    if isinstance(policy, ForestPolicy):
        kind, trees = "forest", [_describe_tree(one) for one in policy.trees]
    else:
        trees = [_describe_tree(policy)]
        kind = "tree" if trees[0]["is_tree"] else "diagram"
    names = policy.action_names or [str(a + policy.action_start) for a in range(policy.n_actions)]
    tested = set(policy.tested.tolist())
    with_patch, places = patches_of(policy.graph)
    found = find_occurrences(policy, percepts, cache, on_image)
    sizes = {images.camera: len(images) for images in percepts.images}
    return {
        "name": name,
        "kind": kind,
        "actions": list(names),
        "uncertainty_penalty": getattr(policy, "uncertainty_penalty", 0.0),
        "trees": trees,
        "features": [
            describe_feature(policy, number) | {"is_tested": number in tested, "patch": place}
            for number, place in enumerate(places)
        ],
        "patches": {"image": first, "side": SIDE, "columns": COLUMNS},
        "seen": [
            _describe_occurrences(
                {n: one for n, one in found.items() if policy.graph.camera[n] == camera},
                policy.graph,
                sizes.get(camera, 0),
            )
            for camera in sorted(policy.shapes)
        ],
    }, [encode_image(_sheet(policy.patches[with_patch]), QUALITY)]


def _describe_tree(one: Policy | ForestTree) -> Json:
    nodes = one.classifier
    if not isinstance(nodes, Nodes):
        raise TypeError(
            "The classifier of a policy in a report must be a tree or diagrams; "
            f"got {type(nodes).__name__}."
        )
    return {
        "is_tree": isinstance(nodes, Tree),
        "feature": nodes.feature.tolist(),
        "present": nodes.present.tolist(),
        "absent": nodes.absent.tolist(),
        "q": one.q.tolist(),
        "count": one.count.tolist(),
    }


def patches_of(graph: FeatureGraph) -> tuple[list[int], list[int]]:
    """Return the features whose patches are on the sheet, and the place of each feature's patch.

    An ``AtLeast`` feature has the patch of its first part.
    """
    shown, places = list[int](), list[int]()
    for number, feature in enumerate(graph.features):
        is_several = isinstance(feature, AtLeast)
        places.append(places[feature.parts[0]] if is_several else len(shown))
        shown += [] if is_several else [number]
    return shown, places


def describe_feature(policy: AnyPolicy, number: int) -> Json:
    """Return a feature for the page."""
    graph, cameras = policy.graph, sorted(policy.shapes)
    feature = graph[number]
    found: Json = {
        "name": graph.describe(number),
        "kind": KINDS.get(type(feature), "symbol"),
        "camera": cameras.index(graph.camera[number]),
        "parts": list(feature.parts),
        "usage": int(policy.usage[number]),
    }
    if isinstance(feature, AtLeast):
        found["least"] = feature.least
    if isinstance(feature, InCell):
        found["cell"] = [2**feature.level, feature.column, feature.line]
    if isinstance(feature, Composite):
        found["distance"] = [max(feature.mean - feature.reach, 0.0), feature.mean + feature.reach]
        if feature.turn is not None:
            found["turn"] = feature.turn
        if feature.ratio is not None:
            found["ratio"] = 2**feature.ratio
    return found


def find_occurrences(
    policy: AnyPolicy,
    percepts: Percepts,
    cache: ExtractionCache,
    on_image: Callable[[], None] | None = None,
) -> dict[int, Found]:
    """Return the images on which each feature of a policy occurs, and the positions.

    ``AtLeast`` features are left out: the page derives them from their parts.
    """
    if len(percepts) == 0:
        return {}
    keypoints = cache.extract(policy.extractor, percepts, 0, on_image)
    seen = policy.extractor.find_symbols(percepts, keypoints, 0, learn=False)
    symbols = FeatureIndex.of(FeatureGraph().add_symbols(policy.extractor), percepts, seen)
    joined, numbers = symbols.graph.join(policy.graph)
    shown = replace(symbols, graph=joined)  # enough to find occurrences
    known: dict[int, Found] = {}
    return {
        number: shown.find(numbers[number], known)
        for number, feature in enumerate(policy.graph.features)
        if not isinstance(feature, AtLeast)
    }


def _describe_occurrences(found: dict[int, Found], graph: FeatureGraph, n_images: int) -> Json:
    """Return the occurrences of a camera's features, image by image; ``MOST`` of a composite."""
    parts = [
        np.column_stack([image, np.full(len(image), number), marks[:, :2]])
        for number, (image, marks) in found.items()
    ]
    rows = np.concatenate([np.empty((0, 4)), *parts])
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]  # keeps the order of occurrences
    begins = np.flatnonzero(np.diff(rows[:, :2], axis=0, prepend=-1).any(axis=1))
    rank = np.arange(len(rows)) - np.repeat(begins, np.diff([*begins, len(rows)]))
    composites = [number for number in found if isinstance(graph[number], Composite)]
    rows = rows[(rank < MOST) | ~np.isin(rows[:, 1], composites)]
    image, feature = rows[:, :2].astype(np.int64).T
    begin = np.concatenate([[0], np.cumsum(np.bincount(image, minlength=n_images))])
    x, y = np.round(UNIT * rows[:, 2:]).astype(np.int64).T
    columns = {"begin": begin, "feature": feature, "x": x, "y": y}
    return {"unit": UNIT, **{key: encode_array(column) for key, column in columns.items()}}


def _sheet(patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return all patches on one sheet, row by row."""
    n_rows = max(1, -(-len(patches) // COLUMNS))
    sheet = np.full((n_rows * COLUMNS, SIDE, SIDE, 3), 255, np.uint8)
    sheet[: len(patches)] = patches
    sheet = sheet.reshape(n_rows, COLUMNS, SIDE, SIDE, 3).swapaxes(1, 2)
    return np.ascontiguousarray(sheet.reshape(n_rows * SIDE, COLUMNS * SIDE, 3))
