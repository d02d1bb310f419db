"""The base class of the paper's tasks: an environment, pictures, random interactions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium

from rlvc.data.collect import Env, collect
from rlvc.data.interactions import Interactions
from rlvc.learning.rlvc import RLVC
from rlvc.policies.forest import AnyPolicy
from rlvc.runs.resources import ResourceEstimate
from rlvc.runs.run import Run
from rlvc.runs.task import NEW_SEED, E, Task


@dataclass(frozen=True, kw_only=True)
class PaperTask(Task[E]):
    """A task of the paper.

    Attributes:
        pictures: What its world looks like.
        interactions: How many random interactions to learn from.
        episodes: How many episodes to evaluate with; the default of the task if None.
        env_id: The Gymnasium id of the environment.
        state: The entry of ``info`` that holds the true state.
        gamma: The discount factor.
        n_actions: How many actions there are.
        paper: The results of the paper.
    """

    pictures: str = "photos"
    interactions: int = 10_000
    episodes: int | None = None

    env_id: ClassVar[str]
    state: ClassVar[str] = "state"
    gamma: ClassVar[float]
    n_actions: ClassVar[int]
    paper: ClassVar[Mapping[str, Any]]

    @property
    def facts(self) -> dict[str, Any]:
        """The pictures."""
        return {"pictures": str(self.pictures)}

    def base_learner(self) -> RLVC:
        """Return the default learner, with the discount factor of the task."""
        return RLVC(gamma=self.gamma)

    def about(self, seed: int, variant: str | None = None) -> dict[str, str]:
        """Return the task and the pictures."""
        return {"task": self.name, **self.facts}

    def make_env(self, seed: int = 0) -> Env:
        """Return a new environment."""
        return gymnasium.make(self.env_id, pictures=self.pictures, disable_env_checker=True)

    @abstractmethod
    def estimate(self, run: Run[E], env: Env) -> ResourceEstimate:
        """Return the resources that a run needs."""

    def collect(self, run: Run[E]) -> None:
        """Collect random interactions once, and learn from them."""
        env = self.make_env(run.seed)
        run.callback.on_needs(self.estimate(run, env), None)
        with run.timer.phase("collect", self.interactions):
            data = collect(
                env, self.interactions, seed=run.seed, state=self.state,
                on_step=run.callback.on_step,
            )  # fmt: skip
        self.complete(data, run.seed)
        run.learn(data)

    def complete(self, data: Interactions, seed: int) -> None:
        """Add percepts that the agent may not have met, but on which it is evaluated."""

    def evaluate_policy(self, policy: AnyPolicy, seed: int | None = None) -> dict[str, Any]:
        """Return the measures of a policy whose percepts and actions are those of the task."""
        self.check_policy(policy)
        measures = self.measure_policy(policy, self.new_seed(policy) if seed is None else seed)
        return {"task": self.name, **self.facts, **measures}

    def new_seed(self, policy: AnyPolicy) -> int:
        """Return a seed of episodes or views that a policy did not learn from."""
        return NEW_SEED

    def check_policy(self, policy: AnyPolicy) -> None:
        """Refuse a policy that has other actions."""
        if policy.n_actions != self.n_actions:
            raise ValueError(
                f"The actions of the policy must be those of the {self.name}, {self.n_actions}; "
                f"got {policy.n_actions}."
            )

    @abstractmethod
    def measure_policy(self, policy: AnyPolicy, seed: int) -> dict[str, Any]:
        """Return the measures of a policy that fits the task."""
