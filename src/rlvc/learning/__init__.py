"""Learning: the paper's Algorithm 1, with one part for each box of its figure.

``RLVC`` runs the stages on a ``Database``, whose shards compute sums over the percepts; a ``View``
is the database under one classifier. ``mdp`` estimates the mapped MDP, ``solvers`` solve it,
``aliasing`` detects the classes to split, ``generation`` proposes features, ``selection`` chooses
among them, ``surrogates`` back them up, and ``compaction`` merges classes. A ``Stage`` holds the
results of one iteration; a ``Forest`` learns many classifiers. Modules here import from
``policies`` and the layers below it.
"""

from rlvc.learning.aliasing import AbsoluteVariance, AliasingDetector, RelativeVariance
from rlvc.learning.compaction import Compaction, Keep, PostProcess
from rlvc.learning.database import Database
from rlvc.learning.engine import Engine, Local
from rlvc.learning.forest import Forest
from rlvc.learning.mdp import MappedMDP
from rlvc.learning.rlvc import RLVC
from rlvc.learning.stage import Stage
from rlvc.learning.surrogates import Surrogates
from rlvc.learning.view import View

__all__ = [
    "RLVC",
    "AbsoluteVariance",
    "AliasingDetector",
    "Compaction",
    "Database",
    "Engine",
    "Forest",
    "Keep",
    "Local",
    "MappedMDP",
    "PostProcess",
    "RelativeVariance",
    "Stage",
    "Surrogates",
    "View",
]
