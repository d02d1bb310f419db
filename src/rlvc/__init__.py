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
    from rlvc.data import Interactions, Percepts, Round, collect, explore
    from rlvc.data.io import read_arrays, read_folder, read_minari, write_folder, write_minari
    from rlvc.distributed.disk import Dataset, open_dataset, write_dataset
    from rlvc.learning import RLVC, Database, Forest, Stage
    from rlvc.policies import (
        Evaluation,
        Explanation,
        ForestExplanation,
        ForestPolicy,
        Policy,
        evaluate,
        load_policy,
    )
    from rlvc.vision import load_vocabulary, save_vocabulary

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

_ROOMS = {
    "rlvc.data": ("Interactions", "Percepts", "Round", "collect", "explore"),
    "rlvc.data.io": ("read_arrays", "read_folder", "read_minari", "write_folder", "write_minari"),
    "rlvc.distributed.disk": ("Dataset", "open_dataset", "write_dataset"),
    "rlvc.learning": ("RLVC", "Database", "Forest", "Stage"),
    "rlvc.policies": (
        "Evaluation",
        "Explanation",
        "ForestExplanation",
        "ForestPolicy",
        "Policy",
        "evaluate",
        "load_policy",
    ),
    "rlvc.vision": ("load_vocabulary", "save_vocabulary"),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: ``import rlvc`` itself must stay cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rlvc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names, so that notebooks and shells complete them."""
    return sorted({*globals(), *__all__})


register_envs()
