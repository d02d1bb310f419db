"""Learn visual control policies from interactions: Reinforcement Learning of Visual Classes.

>>> import rlvc
>>> rlvc.RLVC(gamma=0.8).gamma
0.8
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlvc.envs import register_envs

if TYPE_CHECKING:
    from rlvc.data.collect import Round, collect, explore
    from rlvc.data.interactions import Interactions
    from rlvc.data.io.folder import read_folder, write_folder
    from rlvc.data.io.minari import read_minari, write_minari
    from rlvc.data.io.npz import read_arrays
    from rlvc.data.percepts import Percepts
    from rlvc.distributed.disk import Dataset, open_dataset, write_dataset
    from rlvc.learning.database import Database
    from rlvc.learning.forest import Forest
    from rlvc.learning.rlvc import RLVC
    from rlvc.learning.stage import Stage
    from rlvc.policies.evaluate import Evaluation, evaluate
    from rlvc.policies.explanation import Explanation, ForestExplanation
    from rlvc.policies.forest import ForestPolicy, load_policy
    from rlvc.policies.policy import Policy
    from rlvc.vision.io import load_vocabulary, save_vocabulary

__version__ = "0.1.0"

__all__ = [
    "RLVC",
    "Database",
    "Dataset",
    "Evaluation",
    "Explanation",
    "Forest",
    "ForestExplanation",
    "ForestPolicy",
    "Interactions",
    "Percepts",
    "Policy",
    "Round",
    "Stage",
    "collect",
    "evaluate",
    "explore",
    "load_policy",
    "load_vocabulary",
    "open_dataset",
    "read_arrays",
    "read_folder",
    "read_minari",
    "register_envs",
    "save_vocabulary",
    "write_dataset",
    "write_folder",
    "write_minari",
]

_HOMES = {
    "RLVC": "rlvc.learning.rlvc",
    "Database": "rlvc.learning.database",
    "Dataset": "rlvc.distributed.disk",
    "Evaluation": "rlvc.policies.evaluate",
    "Explanation": "rlvc.policies.explanation",
    "Forest": "rlvc.learning.forest",
    "ForestExplanation": "rlvc.policies.explanation",
    "ForestPolicy": "rlvc.policies.forest",
    "Interactions": "rlvc.data.interactions",
    "Percepts": "rlvc.data.percepts",
    "Policy": "rlvc.policies.policy",
    "Round": "rlvc.data.collect",
    "Stage": "rlvc.learning.stage",
    "collect": "rlvc.data.collect",
    "evaluate": "rlvc.policies.evaluate",
    "explore": "rlvc.data.collect",
    "load_policy": "rlvc.policies.forest",
    "load_vocabulary": "rlvc.vision.io",
    "open_dataset": "rlvc.distributed.disk",
    "read_arrays": "rlvc.data.io.npz",
    "read_folder": "rlvc.data.io.folder",
    "read_minari": "rlvc.data.io.minari",
    "save_vocabulary": "rlvc.vision.io",
    "write_dataset": "rlvc.distributed.disk",
    "write_folder": "rlvc.data.io.folder",
    "write_minari": "rlvc.data.io.minari",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: ``import rlvc`` itself must stay cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rlvc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


register_envs()
