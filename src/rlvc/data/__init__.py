"""Data: images, percepts and interactions, and how environments provide them.

``Percepts`` stores distinct percepts, ``Interactions`` is the database that is learned from,
``collect`` and ``explore`` fill it from an environment, and ``data.io`` reads and writes it.
Modules here import from ``_core`` and ``errors`` alone.
"""

from rlvc.data.collect import ExplorationCallback, Explorer, Round, collect, explore
from rlvc.data.images import Image, as_image
from rlvc.data.interactions import Interactions
from rlvc.data.observations import as_percept
from rlvc.data.percepts import SINGLE, Images, Percept, Percepts
from rlvc.data.spaces import check_spaces

__all__ = [
    "SINGLE",
    "ExplorationCallback",
    "Explorer",
    "Image",
    "Images",
    "Interactions",
    "Percept",
    "Percepts",
    "Round",
    "as_image",
    "as_percept",
    "check_spaces",
    "collect",
    "explore",
]
