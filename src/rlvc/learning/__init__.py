"""Learning: the paper's Algorithm 1, and a part for each box of its figure.

``RLVC`` runs the stages. It asks a ``Database``, whose shards answer, and what a classifier makes
of it, a ``View``. ``mdp`` estimates the mapped MDP that ``solvers`` solve, ``aliasing`` tells which
classes to split, ``generation`` offers features, ``selection`` chooses among them, ``surrogates``
stand in for them, and ``compaction`` merges classes. A ``Stage`` is what all this finds; a
``Forest`` learns many classifiers. Modules here import from ``policies`` and the layers below it.
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
