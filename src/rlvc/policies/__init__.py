"""Policies: from a percept to an action, with explanations, files and evaluation.

``Policy`` acts by one classifier, ``ForestPolicy`` by many; both predict, explain, save and load.
Modules here import from ``classifiers`` and the layers below it.
"""

from rlvc.policies.evaluate import CachedPolicy, Evaluation, check_compatible, evaluate
from rlvc.policies.explanation import (
    ActionChoice,
    DecisiveTest,
    Explanation,
    FeatureTest,
    ForestExplanation,
)
from rlvc.policies.forest import AnyPolicy, ForestPolicy, ForestTree, load_policy
from rlvc.policies.policy import BasePolicy, Policy
from rlvc.policies.values import combine_values, greedy

__all__ = [
    "ActionChoice",
    "AnyPolicy",
    "BasePolicy",
    "CachedPolicy",
    "DecisiveTest",
    "Evaluation",
    "Explanation",
    "FeatureTest",
    "ForestExplanation",
    "ForestPolicy",
    "ForestTree",
    "Policy",
    "check_compatible",
    "combine_values",
    "evaluate",
    "greedy",
    "load_policy",
]
