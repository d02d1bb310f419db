"""The visual features that a classifier tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvc.vision.eye import Glance


@dataclass(frozen=True, slots=True)
class Primitive:
    """A single symbol of one camera's vocabulary.

    Attributes:
        camera: The camera that sees it; empty where percepts are single images.
        symbol: Its number in the camera's vocabulary.
    """

    camera: str
    symbol: int

    def occurrences(self, glance: Glance) -> NDArray[np.float32]:
        """Return the (n, 2) places where a percept exhibits the feature."""
        return glance.find(self.camera, self.symbol)

    def is_exhibited(self, glance: Glance) -> bool:
        """Tell whether a percept exhibits the feature."""
        return glance.exhibits(self.camera, self.symbol)

    def __str__(self) -> str:
        where = f" of {self.camera}" if self.camera else ""
        return f"symbol {self.symbol}{where}"
