"""Conformance checks for authors of parts: does a detector, a solver … keep its contract?

Each check takes an instance, tries it on small made-up data, and raises an ``AssertionError`` that
names the part and what is wrong with it. It does not say how good a part is, only that learning can
rely on it. In a test of your own:

>>> from rlvc.testing import check_detector
>>> from rlvc.vision.detectors import Harris
>>> check_detector(Harris(sigma=1.5))
"""

from __future__ import annotations

from rlvc.testing.learning import (
    check_aliasing_detector,
    check_classifier,
    check_clustering,
    check_generator,
    check_post_process,
    check_selector,
    check_solver,
)
from rlvc.testing.vision import check_descriptor, check_detector, check_metric

__all__ = [
    "check_aliasing_detector",
    "check_classifier",
    "check_clustering",
    "check_descriptor",
    "check_detector",
    "check_generator",
    "check_metric",
    "check_post_process",
    "check_selector",
    "check_solver",
]
