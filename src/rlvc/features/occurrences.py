"""Where features occur on images; composites are found by the paper's Algorithm 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlvc._core.arrays import Bools, Floats, Ints, Ints32
from rlvc._core.jit import jit, take_rows
from rlvc.features.kinds import MAX_OCCURRENCES, AtLeast, Composite, InCell, Marks
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import SymbolOccurrences

BLOCK = 256  # images whose occurrences are sorted at a time
Found = tuple[Ints, Marks]  # (n,) images in ascending order, (n, 4) the occurrences on them


class OccurrenceTable(NamedTuple):
    """Where features occur on the images of one camera, sorted by image, then by feature.

    Attributes:
        begin: (n_images + 1,) where the occurrences of each image begin.
        feature: (n,) the number of the feature, in ascending order on every image.
        marks: (n, 4) the occurrences: x, y, scale, angle.
        size: The width and height of the images.
    """

    begin: Ints
    feature: Ints32
    marks: Marks
    size: tuple[int, int]

    @property
    def n_images(self) -> int:
        """The number of images."""
        return len(self.begin) - 1

    @property
    def image(self) -> Ints:
        """(n,) the image of each occurrence."""
        return np.repeat(np.arange(self.n_images), np.diff(self.begin))

    def of(self, number: int) -> Found:
        """Return the images on which a feature occurs, and its occurrences."""
        rows = np.flatnonzero(self.feature == number)
        return np.searchsorted(self.begin, rows, side="right") - 1, self.marks[rows]

    def only(self, wanted: Bools) -> OccurrenceTable:
        """Return the occurrences of the wanted features, given by a Boolean for each feature."""
        kept = wanted[self.feature]
        before = np.concatenate([[0], np.cumsum(kept)])
        return OccurrenceTable(before[self.begin], self.feature[kept], self.marks[kept], self.size)

    def take(self, images: Ints) -> OccurrenceTable:
        """Return the occurrences on the given images, in this order."""
        begin, rows = take_rows(self.begin, np.arange(len(self.feature)), images)
        return OccurrenceTable(begin, self.feature[rows], self.marks[rows], self.size)

    def join(self, found: dict[int, Found]) -> OccurrenceTable:
        """Return the table with the occurrences of other features, given by number, added."""
        if not found:
            return self
        image = np.concatenate([self.image, *(where for where, _ in found.values())])
        lengths = np.asarray([len(where) for where, _ in found.values()], np.int64)
        others = np.repeat(np.asarray(list(found), np.int32), lengths)
        feature = np.concatenate([self.feature, others])
        rows = np.concatenate([self.marks, *(rows for _, rows in found.values())])
        order = np.lexsort((feature, image))  # keeps the order of the occurrences of a feature
        begin = np.concatenate([[0], np.cumsum(np.bincount(image, minlength=self.n_images))])
        return OccurrenceTable(begin, feature[order], rows[order], self.size)


def locate_symbols(
    numbers: Ints32, symbols: SymbolOccurrences, shape: Sequence[int]
) -> OccurrenceTable:
    """Return where symbols occur, given their feature numbers.

    A few images are sorted at a time, to save memory.
    """
    n = len(symbols.symbol)
    feature, occurrences = np.empty(n, np.int32), np.empty((n, 4), np.float64)
    n_images, points = len(symbols.begin) - 1, symbols.points
    for first in range(0, n_images, BLOCK):
        begin = symbols.begin[first : first + BLOCK + 1]
        rows = slice(begin[0], begin[-1])
        found = numbers[symbols.symbol[rows]]
        order = np.lexsort((found, np.repeat(np.arange(len(begin) - 1), np.diff(begin))))
        feature[rows], point = found[order], symbols.point[rows][order]
        occurrences[rows] = to_marks(points.take(point))
    return OccurrenceTable(symbols.begin, feature, occurrences, (shape[1], shape[0]))


def to_marks(points: InterestPoints) -> Marks:
    """Return the positions, scales and angles of points as occurrences."""
    return np.column_stack([points.xy, points.scale, points.angle]).astype(np.float64)


def derive(
    feature: Composite | InCell | AtLeast,
    parts: Sequence[Found],
    size: tuple[int, int],
    most: int = MAX_OCCURRENCES,
) -> Found:
    """Return the occurrences of a feature, given those of its parts, on images of one camera.

    ``size`` is the width and height of the images. Of a composite, only the first ``most``
    occurrences on each image are returned.
    """
    if isinstance(feature, Composite):
        first, second = parts
        return compose(*first, *second, feature.parameters(), np.empty((most, 4), np.float64))
    if isinstance(feature, InCell):
        ((image, found),) = parts
        inside = feature.is_inside(found, size)
        return image[inside], found[inside]
    image = np.concatenate([one for one, _ in parts])
    found = np.concatenate([one for _, one in parts])
    part = np.repeat(np.arange(len(parts)), [len(one) for one, _ in parts])
    pairs = np.unique(np.column_stack([image, part]), axis=0)
    is_shown = np.bincount(pairs[:, 0]) >= feature.least
    rows = np.flatnonzero(is_shown[image])
    rows = rows[np.argsort(image[rows], kind="stable")]
    return image[rows], found[rows]


@jit
def compose(
    first_image: Ints,
    first: Marks,
    second_image: Ints,
    second: Marks,
    parameters: Floats,
    buffer: Marks,
) -> Found:
    """Return the occurrences of a composite on all images, at most ``len(buffer)`` on each."""
    image = np.empty(64, np.int64)
    out = np.empty((64, 4), np.float64)
    n = 0
    i, j = 0, 0
    while i < len(first_image) and j < len(second_image):
        at = first_image[i]
        if at < second_image[j]:
            i += 1
            continue
        if at > second_image[j]:
            j += 1
            continue
        i_end, j_end = i, j
        while i_end < len(first_image) and first_image[i_end] == at:
            i_end += 1
        while j_end < len(second_image) and second_image[j_end] == at:
            j_end += 1
        found = pair_up(first[i:i_end], second[j:j_end], parameters, buffer)
        i, j = i_end, j_end
        while n + found > len(image):
            image = np.concatenate((image, np.empty_like(image)))
            out = np.concatenate((out, np.empty_like(out)))
        image[n : n + found] = at
        for k in range(found):  # one by one, as Numba takes seconds to compile a copy of rows
            for column in range(out.shape[1]):
                out[n + k, column] = buffer[k, column]
        n += found
    return image[:n].copy(), out[:n].copy()


@jit
def relate(first: Marks, i: int, second: Marks, j: int) -> tuple[float, float, float]:
    """Return the distance, the angle and the log ratio of scales between two occurrences."""
    dx, dy = second[j, 0] - first[i, 0], second[j, 1] - first[i, 1]
    a, b = first[i, 2], second[j, 2]
    ratio = 0.0 if a == b or a <= 0.0 or b <= 0.0 else np.log2(b / a)
    return np.sqrt(dx * dx + dy * dy), second[j, 3] - first[i, 3], ratio


@jit
def is_likely(distance: float, turn: float, ratio: float, parameters: Floats) -> bool:
    """Tell whether two occurrences are likely parts of a composite: Σ z² ≤ −2 ln ν."""
    z = (distance - parameters[1]) * parameters[2]
    total = z * z
    if parameters[4] > 0.0:
        z = wrap(turn - parameters[3]) * parameters[4]
        total += z * z
    if parameters[6] > 0.0:
        z = (ratio - parameters[5]) * parameters[6]
        total += z * z
    return bool(total <= parameters[0])  # false where an angle is missing


@jit
def wrap(angle: float) -> float:
    """Return an angle in degrees between −180 and 180."""
    return (angle + 180.0) % 360.0 - 180.0


@jit
def pair_up(first: Marks, second: Marks, parameters: Floats, out: Marks) -> int:
    """Write the occurrences of a composite, given those of its parts; return their number.

    They are the distinct midpoints, ordered by the first part's occurrences, then by the second's;
    at most as many as ``out`` has rows.
    """
    n = 0
    for i in range(len(first)):
        for j in range(len(second)):
            distance, turn, ratio = relate(first, i, second, j)
            if not is_likely(distance, turn, ratio, parameters):
                continue
            x, y = (first[i, 0] + second[j, 0]) / 2.0, (first[i, 1] + second[j, 1]) / 2.0
            is_new = True
            for k in range(n):
                if out[k, 0] == x and out[k, 1] == y:
                    is_new = False
                    break
            if is_new:
                out[n, 0], out[n, 1] = x, y
                out[n, 2] = np.sqrt(first[i, 2] * second[j, 2])
                out[n, 3] = first[i, 3] + wrap(turn) / 2.0
                n += 1
                if n == len(out):
                    return n
    return n
