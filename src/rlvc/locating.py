"""Located features: a feature in one cell of a pyramid of grids over the frame.

A camera that does not move shows by where a thing is how the world stands. The frame is cut into
2 × 2 cells, these into 4 × 4, and so on; every feature that some images of a class show in a cell,
and others do not, is a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.compiled import compiled
from rlvc.features import Located

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cells:
    """Features in cells, as an array.

    Attributes:
        rows: (n, 4) the feature, the level, the column and the line of each.
    """

    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def feature(self, number: int) -> Located:
        """Return one of them as a feature."""
        part, level, column, line = self.rows[number].tolist()
        return Located(part=part, level=level, column=column, line=line)


@compiled
def locate(
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
    most: int,
) -> tuple[Ints, Ints, Ints, NDArray[np.int32], int]:
    """Return the features in cells that tell the images of some jobs apart.

    Returns:
        n_made: (n_jobs,) how many there are of each job.
        rows: (n, 4) what they are, in ascending order for each job.
        count: (n_images,) how many of its job each image exhibits.
        columns: Which, image by image, in ascending order.
        n_cut: How many jobs had more than are allowed; the first ones are kept.
    """
    n_cells = 0
    for level in range(1, levels + 1):
        n_cells += 4**level
    base = job_begin[first_job]
    n_made = np.zeros(last_job - first_job, np.int64)
    count = np.zeros(job_begin[last_job] - base, np.int64)
    rows = np.empty((256, 4), np.int64)
    out = np.empty(4096, np.int32)
    n_rows, n, n_cut = 0, 0, 0
    local = np.full(len(is_part), -1, np.int64)
    for job in range(first_job, last_job):
        images = job_image[job_begin[job] : job_begin[job + 1]]
        known = _parts_of(images, begin, feature, is_part, local)
        shown = np.zeros((len(known), n_cells), np.int32)  # by how many images
        last = np.full((len(known), n_cells), -1, np.int32)  # the image that showed it last
        for k in range(len(images)):
            for i in range(begin[images[k]], begin[images[k] + 1]):
                f = local[feature[i]]
                if f >= 0:
                    for level in range(1, levels + 1):
                        cell = _cell(marks[i, 0] / size[0], marks[i, 1] / size[1], level)
                        shown[f, cell] += last[f, cell] != k
                        last[f, cell] = k
        number = np.full((len(known), n_cells), -1, np.int32)
        m = 0
        for f in range(len(known)):
            for cell in range(n_cells):
                if 0 < shown[f, cell] < len(images):
                    if m < most:
                        number[f, cell] = m
                        if n_rows == len(rows):
                            rows = np.concatenate((rows, np.empty_like(rows)))
                        rows[n_rows, 0] = known[f]
                        rows[n_rows, 1:] = _place(cell)
                        n_rows += 1
                    m += 1
        n_cut += m > most
        n_made[job - first_job] = min(m, most)
        last[:] = -1
        for k in range(len(images)):
            before = n
            for i in range(begin[images[k]], begin[images[k] + 1]):
                f = local[feature[i]]
                if f >= 0:
                    for level in range(1, levels + 1):
                        cell = _cell(marks[i, 0] / size[0], marks[i, 1] / size[1], level)
                        if number[f, cell] >= 0 and last[f, cell] != k:
                            last[f, cell] = k
                            if n == len(out):
                                out = np.concatenate((out, np.empty_like(out)))
                            out[n] = number[f, cell]
                            n += 1
            out[before:n] = np.sort(out[before:n])
            count[job_begin[job] - base + k] = n - before
        local[known] = -1
    return n_made, rows[:n_rows].copy(), count, out[:n].copy(), n_cut


@compiled
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


@compiled
def _cell(x: float, y: float, level: int) -> int:
    """Return the number of the cell of a place, given in shares of the frame; see `cells_of`."""
    side = 2**level
    column = min(max(int(np.floor(x * side)), 0), side - 1)
    line = min(max(int(np.floor(y * side)), 0), side - 1)
    return int((4**level - 4) // 3 + line * side + column)


@compiled
def _place(cell: int) -> tuple[int, int, int]:
    """Return the level, the column and the line of a cell."""
    level = 1
    while (4 ** (level + 1) - 4) // 3 <= cell:
        level += 1
    rest = cell - (4**level - 4) // 3
    return level, rest % 2**level, rest // 2**level
