"""A sample of the percepts that a policy was learned from, for reports.

Interactions are not stored with a policy, as there may be many. A few percepts of each visual class
show most of what there is to see.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlvc._core.archive import read_archive, write_archive
from rlvc._core.arrays import Ints
from rlvc._core.validate import explain_invalid, from_json, require
from rlvc.data.interactions import Interactions
from rlvc.data.percepts import Percepts

Array = NDArray[Any]

FORMAT, VERSION = "rlvc-examples", 1
FILE: Final = "examples.rlvc"
MAX_PERCEPTS: Final = 240  # percepts
MAX_BYTES: Final = 24 * 10**6  # of their images


@dataclass(frozen=True, slots=True)
class Examples:
    """Percepts, and how often interactions started with each of them.

    Attributes:
        percepts: The percepts.
        count: (n,) how many interactions started with each.
        classes: (n,) the visual class of each; None if there is no single policy.
    """

    percepts: Percepts
    count: Ints
    classes: Ints | None = None

    @classmethod
    def choose(cls, interactions: Interactions, classes: Ints, n: int = MAX_PERCEPTS) -> Examples:
        """Return examples of all visual classes: at least one, at most ``n`` and 24 MB.

        The classes take turns, from the most to the least frequent one; each gives its most
        frequent percept that is left. Equally frequent percepts are shuffled with a fixed seed, so
        that they do not all come from the beginning.

        Args:
            interactions: The interactions.
            classes: (n_percepts,) the visual classes of the percepts.
            n: How many to choose.
        """
        percepts = interactions.percepts
        count = np.bincount(interactions.start, minlength=len(percepts))
        table, chosen = percepts.table(), list[int]()
        seen, n_bytes = set[tuple[int, int]](), 0
        sizes = [int(np.prod(images.shape or ())) for images in percepts.images]
        for number in _in_turn(count, classes)[:n].tolist():
            new = set(enumerate(table[number].tolist())) - seen
            n_bytes += sum(sizes[camera] for camera, _ in new)
            if chosen and n_bytes > MAX_BYTES:
                break
            chosen.append(number)
            seen |= new
        kept = Percepts()
        for number in chosen:
            kept.add(percepts[number])
        return cls(kept, count[chosen], classes[chosen])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the examples to one file."""
        arrays: dict[str, Array] = {"table": self.percepts.table(), "count": self.count}
        if self.classes is not None:
            arrays["classes"] = self.classes
        for i, images in enumerate(self.percepts.images):
            arrays[f"images/{i}"] = np.stack(list(images))
        manifest = {"format": FORMAT, "version": VERSION, "cameras": list(self.percepts.cameras)}
        write_archive(path, manifest, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Examples:
        """Return the examples in a file, without running any code from it.

        Raises:
            FileFormatError: The file holds no examples, or is damaged.
        """
        manifest, arrays = read_archive(path, FORMAT, VERSION, max_bytes=2**30)
        with explain_invalid(path, "set of examples"):
            cameras = list(from_json(tuple[str, ...], manifest["cameras"]))
            table, count = arrays["table"], arrays["count"]
            images = [arrays[f"images/{i}"] for i in range(len(cameras))]
            classes = arrays.get("classes")
            _check(cameras, images, table, count, classes)
            percepts = Percepts()
            for row in table.tolist():
                parts = [stack[number] for stack, number in zip(images, row, strict=True)]
                percepts.add(dict(zip(cameras, parts, strict=True)))
            # Percepts and images must be distinct.
            require(np.array_equal(percepts.table(), table), "percepts")
            return cls(percepts, count, classes)


def _in_turn(count: Ints, classes: Ints) -> Ints:
    """Return the percepts in which interactions start, in the order of choice."""
    used = np.flatnonzero(count)
    shuffled = np.random.default_rng(0).permutation(len(count))[used]
    place = np.argsort(np.argsort(-np.bincount(classes, count), kind="stable"))[classes[used]]
    order = np.lexsort((shuffled, -count[used], place))  # class by class
    used, place = used[order], place[order]
    turn = np.arange(len(used)) - np.searchsorted(place, place)
    return np.asarray(used[np.lexsort((place, turn))])


def _check(
    cameras: list[str], images: list[Array], table: Array, count: Array, classes: Array | None
) -> None:
    """Raise a ValueError if the parts do not fit together."""
    require(cameras and cameras == sorted(set(cameras)), "cameras")
    require(table.dtype == np.int64 and table.ndim == 2, "percepts")
    require(len(table) > 0 and table.shape[1] == len(cameras), "percepts")
    n_bytes = sum(stack[:1].nbytes for stack in images)
    require(len(table) * n_bytes <= 2**31, "percepts")  # an image counts in each of its percepts
    for column, (name, stack) in zip(table.T, zip(cameras, images, strict=True), strict=True):
        whose = f"images of camera {name!r}" if name else "images"
        require(stack.dtype == np.uint8 and stack.ndim == 4 and stack.shape[3] in (1, 3), whose)
        require(0 not in stack.shape, whose)
        require(column.min() >= 0 and column.max() == len(stack) - 1, whose)
    for numbers, least in ((count, 1), (classes, 0)):
        if numbers is not None:
            require(numbers.dtype == np.int64 and numbers.shape == (len(table),), "numbers")
            require(numbers.min() >= least, "numbers")
