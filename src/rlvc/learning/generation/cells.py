"""Located features: a feature in one cell of a pyramid of grids over the frame.

A camera that does not move shows by where a thing is how the world stands. The frame is cut into
2 × 2 cells, these into 4 × 4, and so on; every feature that some images of a class show in a cell,
and others do not, is a candidate.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Floats, Ints
from rlvc._core.jit import jit
from rlvc.features.kinds import InCell
from rlvc.features.occurrences import OccurrenceTable
from rlvc.learning.generation.class_images import ClassImages, Shown
from rlvc.learning.generation.sampling import CellCounts


@dataclass(frozen=True, slots=True)
class Cells:
    """Features in cells, as arrays.

    Attributes:
        job: (n,) the number of the class, in ascending order.
        rows: (n, 4) the feature, the level, the column and the line of each.
    """

    job: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def concatenate(cls, every: Sequence[Cells]) -> Cells:
        """Return those of several classes, which are numbered by their place in the list."""
        job = np.repeat(np.arange(len(every)), [len(one) for one in every])
        return cls(job, np.concatenate([one.rows for one in every]))

    def feature(self, number: int) -> InCell:
        """Return one of them as a feature."""
        part, level, column, line = self.rows[number].tolist()
        return InCell(part=part, level=level, column=column, line=line)

    def show(
        self, images: ClassImages, places: OccurrenceTable, n_features: int, span: slice
    ) -> Shown:
        """Return which located features of its class each image of some classes exhibits."""
        first = np.searchsorted(self.job, np.arange(len(images.begin)))
        return show_cells(
            span.start, span.stop, images.begin, images.image, places.begin, places.feature,
            places.marks, places.size, self.rows, first, n_features,
        )  # fmt: skip


def choose_cells(counts: CellCounts, most: int) -> tuple[list[Cells], int]:
    """Return the features in cells that tell the images of each class apart.

    Args:
        counts: How many images show what in which cell; the counts of several shards may stand one
            after the other.
        most: How many features of each class are kept at most, the first ones.

    Returns:
        made: For each class, what is left, in ascending order.
        n_cut: How many classes had more.
    """
    n_images, job, feature, cell, shown = counts
    n_cells = int(cell.max(initial=0)) + 1
    width = (int(feature.max(initial=0)) + 1) * n_cells
    keys, which = np.unique(job * np.int64(width) + feature * n_cells + cell, return_inverse=True)
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, which, shown)
    keys = keys[total < n_images[keys // width]]
    edges = np.searchsorted(keys, np.arange(len(n_images) + 1) * width)
    made, n_cut = list[Cells](), 0
    for number, (first, last) in enumerate(itertools.pairwise(edges.tolist())):
        n_cut += last - first > most
        ours = keys[first : min(last, first + most)] % width
        rows = np.empty((len(ours), 4), np.int64)
        rows[:, 0] = ours // n_cells
        rows[:, 1:] = _places(ours % n_cells)
        made.append(Cells(np.full(len(ours), number), rows))
    return made, n_cut


@jit
def count_cells(
    first_job: int,
    last_job: int,
    job_begin: Ints,
    job_image: Ints,
    begin: Ints,
    feature: NDArray[np.int32],
    marks: Floats,
    is_part: NDArray[np.bool_],
    size: tuple[int, int],
    levels: int,
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return how many images of some jobs show each feature in each cell.

    Returns:
        job: (n,) the job.
        feature: (n,) the feature, which some image of the job shows in the cell.
        cell: (n,) the number of the cell.
        shown: (n,) by how many images it is shown there.
    """
    n_cells = 0
    for level in range(1, levels + 1):
        n_cells += 4**level
    out = np.empty((4, 1024), np.int64)
    n = 0
    local = np.full(len(is_part), -1, np.int64)
    for job in range(first_job, last_job):
        images = job_image[job_begin[job] : job_begin[job + 1]]
        known = _parts_of(images, begin, feature, is_part, local)
        shown = np.zeros((len(known), n_cells), np.int64)
        last = np.full((len(known), n_cells), -1, np.int64)  # the image that showed it last
        for k in range(len(images)):
            for i in range(begin[images[k]], begin[images[k] + 1]):
                f = local[feature[i]]
                if f >= 0:
                    for level in range(1, levels + 1):
                        cell = _cell(marks[i, 0] / size[0], marks[i, 1] / size[1], level)
                        shown[f, cell] += last[f, cell] != k
                        last[f, cell] = k
        for f in range(len(known)):
            for cell in range(n_cells):
                if shown[f, cell] > 0:
                    if n == out.shape[1]:
                        out = np.concatenate((out, np.empty_like(out)), axis=1)
                    out[0, n], out[1, n] = job, known[f]
                    out[2, n], out[3, n] = cell, shown[f, cell]
                    n += 1
        local[known] = -1
    return out[0, :n].copy(), out[1, :n].copy(), out[2, :n].copy(), out[3, :n].copy()


@jit
def show_cells(
    first_job: int,
    last_job: int,
    job_begin: Ints,
    job_image: Ints,
    begin: Ints,
    feature: NDArray[np.int32],
    marks: Floats,
    size: tuple[int, int],
    rows: Ints,
    made_begin: Ints,
    n_features: int,
) -> tuple[Ints, NDArray[np.int32]]:
    """Return how many features in cells each image of some jobs exhibits, and which.

    Args:
        first_job: The first job.
        last_job: The one after the last.
        job_begin: (n_jobs + 1,) where the images of each job begin.
        job_image: The images.
        begin: (n_images + 1,) where the occurrences of each image begin.
        feature: The features that occur.
        marks: Where.
        size: The width and height of the images.
        rows: (n, 4) the features in cells of all jobs; see :class:`Cells`.
        made_begin: (n_jobs + 1,) where those of each job begin.
        n_features: How many features there are.
    """
    base = job_begin[first_job]
    count = np.zeros(job_begin[last_job] - base, np.int64)
    out = np.empty(4096, np.int32)
    n = 0
    first = np.zeros(n_features + 1, np.int64)  # of a job, where the rows of each feature begin
    for job in range(first_job, last_job):
        a, b = made_begin[job], made_begin[job + 1]
        if a == b:
            continue
        at = a
        for f in range(n_features):
            first[f] = at
            while at < b and rows[at, 0] == f:
                at += 1
        first[n_features] = b
        last = np.full(b - a, -1, np.int64)  # the image that showed each last
        for k in range(job_begin[job], job_begin[job + 1]):
            image, before = job_image[k], n
            for i in range(begin[image], begin[image + 1]):
                f = feature[i]
                for row in range(first[f], first[f + 1]):
                    side = 2 ** rows[row, 1]
                    column = min(max(int(np.floor(marks[i, 0] / size[0] * side)), 0), side - 1)
                    line = min(max(int(np.floor(marks[i, 1] / size[1] * side)), 0), side - 1)
                    is_here = column == rows[row, 2] and line == rows[row, 3]
                    if is_here and last[row - a] != k:
                        last[row - a] = k
                        if n == len(out):
                            out = np.concatenate((out, np.empty_like(out)))
                        out[n] = row - a
                        n += 1
            out[before:n] = np.sort(out[before:n])
            count[k - base] = n - before
    return count, out[:n].copy()


@jit
def _parts_of(
    images: Ints,
    begin: Ints,
    feature: NDArray[np.int32],
    is_part: NDArray[np.bool_],
    local: Ints,
) -> Ints:
    """Return the features of some images in ascending order, and number them in ``local``."""
    known = np.empty(64, np.int64)
    n = 0
    for image in images:
        for i in range(begin[image], begin[image + 1]):
            f = feature[i]
            if is_part[f] and local[f] < 0:
                if n == len(known):
                    known = np.concatenate((known, np.empty_like(known)))
                known[n] = f
                local[f] = 0
                n += 1
    known = np.sort(known[:n])
    for i in range(n):
        local[known[i]] = i
    return known


@jit
def _cell(x: float, y: float, level: int) -> int:
    """Return the number of the cell of a place, given in shares of the frame; see `cells_of`."""
    side = 2**level
    column = min(max(int(np.floor(x * side)), 0), side - 1)
    line = min(max(int(np.floor(y * side)), 0), side - 1)
    return int((4**level - 4) // 3 + line * side + column)


@jit
def _place(cell: int) -> tuple[int, int, int]:
    """Return the level, the column and the line of a cell."""
    level = 1
    while (4 ** (level + 1) - 4) // 3 <= cell:
        level += 1
    rest = cell - (4**level - 4) // 3
    return level, rest % 2**level, rest // 2**level


@jit
def _places(cells: Ints) -> Ints:
    """Return the level, the column and the line of cells."""
    out = np.empty((len(cells), 3), np.int64)
    for i in range(len(cells)):
        out[i, 0], out[i, 1], out[i, 2] = _place(cells[i])
    return out
