"""Compile the kernels that most tests run, once for all their processes.

Numba caches them beside the sources, so later runs load them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.builders import COLOUR, database

from rlvc import RLVC, Forest
from rlvc.learning import Compaction

interactions = database(COLOUR)
RLVC(post_process=Compaction()).learn(interactions)
Forest(trees=2).learn(interactions)
