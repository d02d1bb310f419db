"""The scene of a page: percepts to explain, where their pixels are, and a map of the task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.data.percepts import Percepts
from rlvc.report.web.encoding import Json


@dataclass(frozen=True, slots=True)
class Scene:
    """The percepts, images and map of a task on a page.

    Attributes:
        percepts: The percepts whose features are extracted.
        table: (n, n_cameras) the images that make up each percept that can be shown.
        labels: The names of these percepts.
        images: Pictures of the page.
        cameras: For each camera, where on these pictures its images are.
        task: The data of the view of the task.
    """

    percepts: Percepts
    table: NDArray[np.int64]
    labels: list[str]
    images: list[Json]
    cameras: list[Json]
    task: Json
