"""Compile the kernels that most tests run, once for all of their processes.

They are kept beside the sources, as Numba does, so that later runs find them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.builders import COLOUR, database

from rlvc import RLVC, Forest
from rlvc.learning.compaction import Compaction

interactions = database(COLOUR)
RLVC(post_process=Compaction()).learn(interactions)
Forest(trees=2).learn(interactions)
