"""The protocol of a task: all that a run, a page and the command line need to know of it.

Tasks are found by name in a registry of entry points, so that neither runs nor reports import them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from rlvc._core.registry import Registry, load
from rlvc.data.images import Image
from rlvc.data.percepts import SINGLE
from rlvc.learning.rlvc import RLVC
from rlvc.policies.forest import AnyPolicy
from rlvc.runs.examples import Examples
from rlvc.runs.summary import Summary, SummaryTable

if TYPE_CHECKING:
    from rlvc.report.web.scene import Scene
    from rlvc.runs.run import Outcome, Run

NEW_SEED: Final = 1000  # of episodes and views that no run with a smaller seed learned from


@dataclass(frozen=True, slots=True)
class TaskEvaluation:
    """What a task measured of a run; tasks add what their figures need.

    Attributes:
        numbers: Entries of ``result.json``.
    """

    numbers: dict[str, Any]


E = TypeVar("E", bound=TaskEvaluation)


class Task(ABC, Generic[E]):
    """A task, with its environment or data; a run does what all tasks have in common.

    Attributes:
        name: How the command line and ``result.json`` call it.
        lead: A sentence about it for the page.
        main: The variant whose policy acts.
        forest_base: The variant whose learner grows the trees of a forest.
        beside: The file of the main policy where ``policy.rlvc`` is a forest.
        extra_files: The files of the policies of other variants.
        has_examples: Whether percepts must be saved, as they cannot be made again.
    """

    name: str
    lead = ""
    main = "learn"
    forest_base = "learn"
    beside = "one.rlvc"
    extra_files: ClassVar[Mapping[str, str]] = {}
    has_examples = False

    @property
    def facts(self) -> dict[str, Any]:
        """What the result says of the task beside its name."""
        return {}

    def base_learner(self) -> RLVC:
        """Return the learner of the task before any option changes it."""
        return RLVC()

    def settings(self, preset: str) -> list[str]:
        """Return what a preset changes for this task in particular."""
        return []

    def variants(self, learner: RLVC) -> dict[str, RLVC]:
        """Return the learners that learn from the same interactions, by the names of phases."""
        return {self.main: learner}

    def about(self, seed: int, variant: str | None = None) -> dict[str, str]:
        """Return what a policy file says of its origin."""
        return {}

    @abstractmethod
    def collect(self, run: Run[E]) -> None:
        """Check what the run needs, collect interactions and let the run learn from them.

        It calls ``run.learn`` once, or once a round.
        """

    @abstractmethod
    def evaluate(self, run: Run[E]) -> E:
        """Measure the policies of a run."""

    @abstractmethod
    def figures(self, outcome: Outcome[E]) -> Iterator[tuple[str, bytes]]:
        """Yield the names of figures and their PNG files.

        Raises:
            ImageError: Images of the interactions are gone.
        """

    @abstractmethod
    def sample_percept(self, outcome: Outcome[E]) -> dict[str, Image]:
        """Return the images of a percept to explain, by camera."""

    def percept_file(self, camera: str) -> str:
        """Return the file name of a camera's image of the sample percept."""
        if camera == SINGLE:
            return "percept.png"
        return "percept-" + "".join(c if c.isalnum() else "-" for c in camera) + ".png"

    def examples(self, outcome: Outcome[E]) -> Examples | None:
        """Return the percepts that the page shows, where they cannot be made again."""
        return None

    @abstractmethod
    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return the table of what was measured; None as long as nothing was."""

    @abstractmethod
    def summary(self, result: dict[str, Any]) -> Summary:
        """Return what else there is to say of a result."""

    @abstractmethod
    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return what the page shows of the task.

        Args:
            result: What is known of the run.
            examples: The percepts that the run saved.
            is_draft: Whether a coarser map will do, because the run is not finished.
        """

    def evaluate_policy(self, policy: AnyPolicy, seed: int | None = None) -> dict[str, Any]:
        """Return the measures of a policy from a file.

        Args:
            policy: The policy.
            seed: Of the episodes or views; such as the policy did not learn from unless given.
        """
        raise NotImplementedError


tasks: Registry[Task[Any]] = Registry("task")
tasks.register("maze", "rlvc.tasks.navigation.task:MazeTask")
tasks.register("subway", "rlvc.tasks.navigation.task:SubwayTask")
tasks.register("campus", "rlvc.tasks.campus.task:CampusTask")
tasks.register("hill", "rlvc.tasks.hill.task:HillTask")
CUSTOM: Final = "rlvc.tasks.custom.task:CustomTask"


def task_of(result: Mapping[str, Any]) -> Task[Any]:
    """Return the task of a result: one of the paper's has pictures, all others are custom."""
    name = str(result.get("task"))
    if "pictures" in result:
        return tasks.make(name, pictures=result["pictures"])
    custom: Task[Any] = load(CUSTOM)(name)
    return custom


def evaluate_policy(
    policy: AnyPolicy,
    *,
    task: str | None = None,
    pictures: str | None = None,
    seed: int | None = None,
    episodes: int | None = None,
) -> dict[str, Any]:
    """Return the measures of a policy on the task that it was learned on, or on another.

    Unless a seed is given, episodes and views are such as it did not learn from.
    """
    name = task or policy.about.get("task")
    if name is None:
        raise ValueError(
            "The policy does not say which task it is for; give the id of its environment, or name "
            "a task of `rlvc run` with --task."
        )
    if pictures is None:
        is_its_own = policy.about.get("task") == name
        pictures = policy.about.get("pictures", "photos") if is_its_own else "photos"
    return tasks.make(name, pictures=pictures, episodes=episodes).evaluate_policy(policy, seed)
