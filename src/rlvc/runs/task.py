"""The protocol of a task: all that runs, reports and the command line need to know about it.

A registry loads tasks by name, so that neither runs nor reports import them.
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

NEW_SEED: Final = 1000  # of episodes and views that runs with smaller seeds did not learn from


@dataclass(frozen=True, slots=True)
class TaskEvaluation:
    """What a task measured; subclasses add what figures need.

    Attributes:
        numbers: Entries of ``result.json``.
    """

    numbers: dict[str, Any]


E = TypeVar("E", bound=TaskEvaluation)


class Task(ABC, Generic[E]):
    """A task, with its environment or data.

    Attributes:
        name: Its name on the command line and in ``result.json``.
        lead: A sentence about it for the page.
        main: The variant whose policy acts.
        forest_base: The variant whose learner grows the trees of a forest.
        classifier_file: The file of the main policy if ``policy.rlvc`` is a forest.
        extra_files: The files of the policies of other variants.
        has_examples: Whether percepts must be saved, as they cannot be rendered again.
    """

    name: str
    lead = ""
    main = "learn"
    forest_base = "learn"
    classifier_file = "one.rlvc"
    extra_files: ClassVar[Mapping[str, str]] = {}
    has_examples = False

    @property
    def facts(self) -> dict[str, Any]:
        """The entries of a result that describe the task, beside its name."""
        return {}

    def base_learner(self) -> RLVC:
        """Return the default learner of the task."""
        return RLVC()

    def settings(self, preset: str) -> list[str]:
        """Return additional settings of a preset for this task."""
        return []

    def variants(self, learner: RLVC) -> dict[str, RLVC]:
        """Return the learners that learn from the same interactions, by the name of their phase."""
        return {self.main: learner}

    def about(self, seed: int, variant: str | None = None) -> dict[str, str]:
        """Return the metadata of a policy file on its origin."""
        return {}

    @abstractmethod
    def collect(self, run: Run[E]) -> None:
        """Announce what the run needs, collect interactions and let the run learn from them.

        It calls ``run.learn`` once, or once per round.
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
        """Return the file name of the image of a camera in the sample percept."""
        if camera == SINGLE:
            return "percept.png"
        return "percept-" + "".join(c if c.isalnum() else "-" for c in camera) + ".png"

    def examples(self, outcome: Outcome[E]) -> Examples | None:
        """Return the percepts for the page, if they cannot be rendered again."""
        return None

    @abstractmethod
    def measures(self, result: dict[str, Any]) -> SummaryTable | None:
        """Return the table of measures; None as long as there are none."""

    @abstractmethod
    def summary(self, result: dict[str, Any]) -> Summary:
        """Return the summary of a result, beside its measures."""

    @abstractmethod
    def scene(self, result: dict[str, Any], examples: Examples | None, *, is_draft: bool) -> Scene:
        """Return what the page shows of the task.

        Args:
            result: The result, as far as it is known.
            examples: The percepts that the run saved.
            is_draft: Whether a coarser map will do, as the run is not finished.
        """

    def evaluate_policy(self, policy: AnyPolicy, seed: int | None = None) -> dict[str, Any]:
        """Return the measures of a policy from a file.

        Args:
            policy: The policy.
            seed: Seed of the episodes or views; if None, one that the policy did not learn from.
        """
        raise NotImplementedError


tasks: Registry[Task[Any]] = Registry("task")
tasks.register("maze", "rlvc.tasks.navigation.task:MazeTask")
tasks.register("subway", "rlvc.tasks.navigation.task:SubwayTask")
tasks.register("campus", "rlvc.tasks.campus.task:CampusTask")
tasks.register("hill", "rlvc.tasks.hill.task:HillTask")
CUSTOM: Final = "rlvc.tasks.custom.task:CustomTask"


def task_of(result: Mapping[str, Any]) -> Task[Any]:
    """Return the task of a result; only the tasks of the paper have pictures."""
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

    Unless a seed is given, the policy did not learn from these episodes and views.
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
