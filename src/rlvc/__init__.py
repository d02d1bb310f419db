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
    from rlvc.database import Database
    from rlvc.evaluating import Evaluation, evaluate
    from rlvc.exploring import Round, collect, explore
    from rlvc.forest import Forest
    from rlvc.forest_policy import ForestPolicy, load_policy
    from rlvc.interactions import Interactions
    from rlvc.learner import RLVC, Stage
    from rlvc.percepts import Percepts
    from rlvc.policy import Explanation, Policy
    from rlvc.shards import Dataset, open_dataset, write_dataset
    from rlvc.sources.arrays import read_arrays
    from rlvc.sources.folder import read_folder, write_folder
    from rlvc.sources.minari_datasets import read_minari, write_minari
    from rlvc.vocabulary_file import load_vocabulary, save_vocabulary
    from rlvc.vote import Vote

__version__ = "0.1.0"

__all__ = [
    "RLVC",
    "Database",
    "Dataset",
    "Evaluation",
    "Explanation",
    "Forest",
    "ForestPolicy",
    "Interactions",
    "Percepts",
    "Policy",
    "Round",
    "Stage",
    "Vote",
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
    "RLVC": "rlvc.learner",
    "Database": "rlvc.database",
    "Dataset": "rlvc.shards",
    "Evaluation": "rlvc.evaluating",
    "Explanation": "rlvc.policy",
    "Forest": "rlvc.forest",
    "ForestPolicy": "rlvc.forest_policy",
    "Interactions": "rlvc.interactions",
    "Percepts": "rlvc.percepts",
    "Policy": "rlvc.policy",
    "Round": "rlvc.exploring",
    "Stage": "rlvc.learner",
    "Vote": "rlvc.vote",
    "collect": "rlvc.exploring",
    "evaluate": "rlvc.evaluating",
    "explore": "rlvc.exploring",
    "load_policy": "rlvc.forest_policy",
    "load_vocabulary": "rlvc.vocabulary_file",
    "open_dataset": "rlvc.shards",
    "read_arrays": "rlvc.sources.arrays",
    "read_folder": "rlvc.sources.folder",
    "read_minari": "rlvc.sources.minari_datasets",
    "save_vocabulary": "rlvc.vocabulary_file",
    "write_dataset": "rlvc.shards",
    "write_folder": "rlvc.sources.folder",
    "write_minari": "rlvc.sources.minari_datasets",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: ``import rlvc`` itself must stay cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rlvc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


register_envs()
