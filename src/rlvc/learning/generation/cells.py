"""Located features: a feature in one cell of a pyramid of grids over the frame.

With a fixed camera, the position of an object in the frame reveals the state of the world. The
frame is cut into 2 × 2 cells, then 4 × 4, and so on; every feature that some but not all images of
a class show in a cell is a candidate. Cells are numbered level by level and line by line.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc._core.jit import jit
from rlvc.features.kinds import InCell
from rlvc.features.occurrences import OccurrenceTable
from rlvc.learning.generation.class_images import ClassImages, Exhibited, FeatureSearch
from rlvc.learning.generation.pairs import frequent_features
from rlvc.learning.generation.sampling import CellCounts


@dataclass(frozen=True, slots=True)
class Cells:
    """Features in cells, as arrays.

    Attributes:
        rows: (n, 2) the feature and the number of the cell of each, in ascending order.
    """

    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def concatenate(cls, every: Sequence[Cells]) -> Cells:
        """Return the features of several classes."""
        return cls(np.concatenate([one.rows for one in every]))

    def feature(self, number: int) -> InCell:
        """Return one of them as a feature."""
        part, cell = self.rows[number].tolist()
        level = 1
        while _first_cell(level + 1) <= cell:
            level += 1
        line, column = divmod(cell - _first_cell(level), 2**level)
        return InCell(part=part, level=level, column=column, line=line)

    def exhibited(self, search: FeatureSearch, span: tuple[int, int]) -> Exhibited:
        """Return which located features of its class each image of some classes exhibits."""
        return _find_located(search, self.rows, span)


def choose_cells(counts: CellCounts, most: int) -> tuple[list[Cells], int]:
    """Return the features in cells that distinguish the images of each class.

    Args:
        counts: How many images show each feature in each cell; the rows of several shards may
            follow each other.
        most: Maximum number of features of each class; the first ones are kept.

    Returns:
        chosen: For each class, the features that are kept, in ascending order.
        n_cut: How many classes had more.
    """
    n_images, (number, feature, cell, shown) = counts.n_images, counts.rows.T
    n_cells = int(cell.max(initial=0)) + 1
    width = (int(feature.max(initial=0)) + 1) * n_cells
    keys, which = np.unique(number * width + feature * n_cells + cell, return_inverse=True)
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, which, shown)
    keys = keys[total < n_images[keys // width]]
    edges = np.searchsorted(keys, np.arange(len(n_images) + 1) * width)
    chosen, n_cut = list[Cells](), 0
    for first, last in itertools.pairwise(edges.tolist()):
        n_cut += last - first > most
        ours = keys[first : min(last, first + most)] % width
        chosen.append(Cells(np.column_stack([ours // n_cells, ours % n_cells])))
    return chosen, n_cut


@jit
def count_cells(
    images: ClassImages, places: OccurrenceTable, is_part: Bools, levels: int, span: tuple[int, int]
) -> Ints:
    """Count the images of some classes that show each feature in each cell.

    Returns:
        (n, 4) the number of the class, the feature, the cell, and how many images show it there,
            if any.
    """
    n_cells = _first_cell(levels + 1)
    out = np.empty((1024, 4), np.int64)
    n = 0
    seen = np.zeros(len(is_part), np.int64)
    local = np.full(len(is_part), -1, np.int64)
    for number in range(span[0], span[1]):
        ours = images.image[images.begin[number] : images.begin[number + 1]]
        known = np.sort(frequent_features(ours, places, is_part, 1, seen))
        for f in range(len(known)):
            local[known[f]] = f
        shown = np.zeros((len(known), n_cells), np.int64)
        by = np.full((len(known), n_cells), -1, np.int64)  # the last image that showed it
        for k in range(len(ours)):
            for i in range(places.begin[ours[k]], places.begin[ours[k] + 1]):
                f = local[places.feature[i]]
                if f >= 0:
                    for level in range(1, levels + 1):
                        cell = _cell_of(places, i, level)
                        shown[f, cell] += by[f, cell] != k
                        by[f, cell] = k
        for f in range(len(known)):
            for cell in range(n_cells):
                if shown[f, cell] > 0:
                    if n == len(out):
                        out = np.concatenate((out, np.empty_like(out)))
                    out[n, 0], out[n, 1] = number, known[f]
                    out[n, 2], out[n, 3] = cell, shown[f, cell]
                    n += 1
        local[known] = -1
    return out[:n].copy()


@jit
def _find_located(search: FeatureSearch, rows: Ints, span: tuple[int, int]) -> Exhibited:
    """Return how many features in cells each image of some classes exhibits, and which."""
    images, places, n_features, made = search
    base = images.begin[span[0]]
    count = np.zeros(images.begin[span[1]] - base, np.int64)
    out = np.empty(4096, np.int32)
    n = 0
    for number in range(span[0], span[1]):
        ours = rows[made[number] : made[number + 1]]
        if len(ours) == 0:
            continue
        edges = np.searchsorted(ours[:, 0], np.arange(n_features + 1))
        by = np.full(len(ours), -1, np.int64)  # the last image that showed each
        for k in range(images.begin[number], images.begin[number + 1]):
            image, before = images.image[k], n
            for i in range(places.begin[image], places.begin[image + 1]):
                level, end = 1, edges[places.feature[i] + 1]
                at = edges[places.feature[i]]
                while at < end:  # cells of higher levels have higher numbers
                    cell = _cell_of(places, i, level)
                    at += np.searchsorted(ours[at:end, 1], cell)
                    if at < end and ours[at, 1] == cell and by[at] != k:
                        by[at] = k
                        if n == len(out):
                            out = np.concatenate((out, np.empty_like(out)))
                        out[n] = at
                        n += 1
                    level += 1
            out[before:n] = np.sort(out[before:n])
            count[k - base] = n - before
    return count, out[:n].copy()


@jit
def _cell_of(places: OccurrenceTable, i: int, level: int) -> int:
    """Return the number of the cell in which a feature occurs; see ``features.kinds.cells_of``."""
    side = 1 << level
    column = int(np.floor(places.marks[i, 0] / places.size[0] * side))
    line = int(np.floor(places.marks[i, 1] / places.size[1] * side))
    return _first_cell(level) + min(max(line, 0), side - 1) * side + min(max(column, 0), side - 1)


@jit
def _first_cell(level: int) -> int:
    """Return the number of the first cell of a level, which is that of cells on lower levels."""
    return int((4**level - 4) // 3)
