"""What can be learned from, and may yet not be what was meant: it is told before work starts."""

from __future__ import annotations

import logging

import numpy as np

from rlvc.data.interactions import Interactions

log = logging.getLogger(__name__)


def tell_doubts(interactions: Interactions) -> None:
    """Warn of interactions that never end a task, or that do not follow from one another."""
    if not interactions.terminated.any():
        log.warning(
            "Nothing is terminal: terminated is false in every row. If the task comes to an end, "
            "set it where it does; otherwise rewards are expected to go on for ever."
        )
    ends = interactions.terminated | interactions.truncated
    broken = np.count_nonzero(interactions.is_last[:-1] & ~ends[:-1])
    if broken:
        log.warning(
            "%d rows do not start where the row before them ended, though no episode ended there. "
            "Each row is learned from for itself; if they should follow one another, sort them by "
            "episode and step.",
            broken,
        )
