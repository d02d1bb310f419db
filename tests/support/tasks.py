"""Small tasks: a world that is learned within a second, and a campus of a few photographs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cv2
import gymnasium
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from rlvc import RLVC, Stage
from rlvc.envs.campus.graph_world import CAMPUS
from rlvc.envs.photos.images import maze_picture
from rlvc.envs.photos.views import state_name
from rlvc.envs.picture import PictureEnv
from rlvc.envs.planar_world import PlanarWorld
from rlvc.learning import Compaction
from rlvc.learning.selection.selector import Selector
from rlvc.runs import Callback, Checkpoint, Outcome, Run, tasks
from rlvc.tasks import (
    CampusOutcome,
    CampusTask,
    CustomOutcome,
    CustomTask,
    MazeTask,
    NavigationOutcome,
    NavigationTask,
)
from tests.support.builders import blocks

SMALL = PlanarWorld(
    width=256, height=205, step=51.2, noise=6.0, window=64,
    walls=(((128, 0), (128, 110)),), exits=((204, 153, 256, 205),),
)  # fmt: skip


class SmallEnv(PictureEnv):
    """A world that is explored, learned and measured within a second."""

    def __init__(self, pictures: str | Path = "photos", render_mode: str | None = None) -> None:
        shape = SMALL.height, SMALL.width, 3
        shown = blocks(1, shape) if pictures == "photos" else maze_picture(pictures)
        super().__init__(SMALL, shown[: shape[0], : shape[1]], render_mode)


gymnasium.register("rlvc-test/Small-v0", f"{__name__}:SmallEnv", max_episode_steps=100)


@dataclass(frozen=True, kw_only=True)
class Small(NavigationTask):
    """The task of this world."""

    name = "small"
    env_id = "rlvc-test/Small-v0"
    world = SMALL
    gamma = SMALL.gamma
    paper: ClassVar = MazeTask.paper


@contextmanager
def small_task() -> Iterator[None]:
    """Let the small task be known by its name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(tasks._factories, "small", Small)
        yield


def run_small(
    learner: RLVC | None = None, interactions: int = 300, episodes: int = 20, **options: Any
) -> NavigationOutcome:
    """Run the small task; inside :func:`small_task`."""
    return Run(Small(interactions=interactions, episodes=episodes), learner, **options).execute()


# The campus --------------------------------------------------------------------------------------

N_VIEWS = 4  # three to learn from and one to test with
SHAPE = (48, 64, 3)
CAMPUS_LEARNER = RLVC(
    gamma=0.8, threads=1, max_splits=0, selector=Selector(ranking="remaining", min_samples=1),
    post_process=Compaction(every=5, epsilon=0.02),
)  # fmt: skip
Draw = Callable[[int, int], NDArray[np.uint8]]


def photograph(state: int, view: int) -> NDArray[np.uint8]:
    """Return a noisy part of the wall of a state; the last four states look like the first."""
    wall = blocks(state % 40, (56, 75, 3), side=10)
    rng = np.random.default_rng([state, view])
    y, x = rng.integers(0, (8, 11))
    shown = wall[y : y + SHAPE[0], x : x + SHAPE[1]] + rng.normal(0, 10, SHAPE)
    return shown.clip(0, 255).astype(np.uint8)


def write_photographs(root: Path, draw: Draw = photograph) -> Path:
    """Write the views of a campus to a folder."""
    for state in range(CAMPUS.n_states):
        (root / state_name(state)).mkdir(parents=True)
        for view in range(N_VIEWS):
            file = root / state_name(state) / f"{view}.png"
            assert cv2.imwrite(str(file), draw(state, view))
    return root


def run_campus(
    photographs: Path, interactions: int = 500, learner: RLVC = CAMPUS_LEARNER, **options: Any
) -> CampusOutcome:
    """Run the campus on photographs in a folder."""
    task = CampusTask(pictures=str(photographs), interactions=interactions)
    return Run(task, learner, **options).execute()


# Figures -----------------------------------------------------------------------------------------


def texts(figure: Figure) -> str:
    """Return all that is written on a figure."""
    return "\n".join(one.get_text() for one in figure.findobj(Text) if isinstance(one, Text))


def _blank_figures(outcome: Outcome[Any]) -> Iterator[tuple[str, bytes]]:
    return ((name, b"") for name in outcome.task.summary(outcome.result).figures)


@contextmanager
def without_figures() -> Iterator[None]:
    """Write runs without figures, which take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("navigation", "campus", "hill", "custom"):
            patched.setattr(f"rlvc.tasks.{name}.figures.draw_figures", _blank_figures)
        yield


# Custom tasks ------------------------------------------------------------------------------------


def run_custom(
    data: Any,
    learner: RLVC | None = None,
    *,
    name: str = "corridor",
    seed: int = 0,
    trees: int = 0,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoint | None = None,
    **options: Any,
) -> CustomOutcome:
    """Run a custom task on an environment or data."""
    task = CustomTask(name, data, **options)
    return Run(
        task, learner, seed=seed, trees=trees, callbacks=callbacks, checkpoint=checkpoint
    ).execute()


class RecordingCallback(Callback):
    """Record all that happens: phases with their totals, and what happened in each."""

    def __init__(self) -> None:
        self.phases = list[tuple[str, int | None]]()
        self.steps, self.stages = dict[str, int](), dict[str, list[Stage]]()
        self.rounds = list[dict[str, Any]]()

    def on_phase(self, phase: str, total: int | None) -> None:
        self.phases.append((phase, total))

    def on_step(self) -> None:
        phase = self.phases[-1][0]
        self.steps[phase] = self.steps.get(phase, 0) + 1

    def on_stage(self, stage: Stage) -> None:
        self.stages.setdefault(self.phases[-1][0], []).append(stage)

    def on_round(self, numbers: dict[str, Any]) -> None:
        self.rounds.append(numbers)
