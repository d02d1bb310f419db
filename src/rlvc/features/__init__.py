"""Features: what classifiers test, and which percepts exhibit it.

A ``FeatureGraph`` numbers features of the four kinds. ``FeatureIndex`` finds where they occur on
many percepts at once, ``LazyFeatures`` on one percept as far as a policy asks; ``Incidence`` is the
sparse matrix of which percept exhibits which feature. Modules here import from ``vision`` and the
layers below it.
"""

from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import AtLeast, Composite, Feature, InCell, Primitive
from rlvc.features.lazy import LazyFeatures
from rlvc.features.occurrences import OccurrenceTable

__all__ = [
    "AtLeast",
    "Composite",
    "Feature",
    "FeatureGraph",
    "FeatureIndex",
    "InCell",
    "Incidence",
    "LazyFeatures",
    "OccurrenceTable",
    "Primitive",
]
