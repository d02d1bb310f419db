"""Classifiers: from the features that a percept exhibits to its visual class.

``Classifier`` is the protocol, ``Tree`` the decision tree of Section 3.1 of the paper, and
``Diagrams`` the Boolean functions of Section 4.2, whose classes can be merged. Modules here import
from ``features`` and the layers below it.
"""

from rlvc.classifiers.base import Classifier, Split
from rlvc.classifiers.bdd import Diagrams
from rlvc.classifiers.tree import Tree

__all__ = ["Classifier", "Diagrams", "Split", "Tree"]
