"""The databases that all methods learn from, and how each is examined on them.

Every exam hands percepts to an agent in bulk, as the environment shows them, and asks for actions;
what an agent makes of them, smaller images or features, is its own affair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc import Database, Interactions, Percepts, Policy, collect
from rlvc.envs.campus.graph_world import CAMPUS
from rlvc.envs.hill.dynamics import HILL
from rlvc.envs.hill.scene import gauge_column, ground_column
from rlvc.envs.photos.views import campus_views
from rlvc.policies import AnyPolicy
from rlvc.tasks import MazeTask, grid_over, walk
from rlvc.tasks.campus.metrics import error_of
from rlvc.tasks.hill import metrics as hill_measures
from rlvc.tasks.hill.index import actions_of, actor
from rlvc.tasks.navigation.metrics import MAX_STEPS
from rlvc.vision import ExtractionCache
from scenes import Batch, act_of_forest, act_of_policy, remembering

N = 10_000  # interactions
EPISODES = 1000  # of the last exam, on the maze and on the hill
GLANCE = 100  # of those on the way

Ints = NDArray[np.int64]
Measures = dict[str, float | None]
Act = Callable[[Sequence[Any]], Ints]  # from percepts to actions


def numbers(**values: float) -> Measures:
    """Return measures for JSON, in which a number that does not exist is null."""
    return {name: float(v) if np.isfinite(v) else None for name, v in values.items()}


class Exam(ABC):
    """A task with one seed: its environment, its database and its exam."""

    gamma: float
    env_id: str
    state: str

    def __init__(self, pictures: str, seed: int) -> None:
        self.pictures, self.seed = pictures, seed
        self.env: Any = self.new_env().unwrapped
        self.n_actions = int(self.env.action_space.n)

    def new_env(self) -> gymnasium.Env[Any, Any]:
        """Return the environment, anew."""
        return gymnasium.make(self.env_id, disable_env_checker=True, **self.options())

    def options(self) -> dict[str, Any]:
        """Return what the environment is made with."""
        return {"pictures": self.pictures}

    def collect(self, n: int = N) -> Interactions:
        """Return the database: random interactions, the same for all methods."""
        return collect(self.new_env(), n, seed=self.seed, state=self.state)

    @abstractmethod
    def measure(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return what an agent reaches that does the same whenever it perceives the same."""

    @abstractmethod
    def roam(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return what an agent reaches that leaves something to chance."""

    def measure_policy(self, policy: AnyPolicy, database: Database, episodes: int) -> Measures:
        """Return what a policy of this library reaches, in the quickest way."""
        return self.measure(act_of(policy, database), episodes)


def act_of(policy: AnyPolicy, database: Database) -> Act:
    """Return the actions of a policy, with the extraction of its database."""
    decide = act_of_policy(policy) if isinstance(policy, Policy) else act_of_forest(policy)

    def act(percepts: Sequence[Any]) -> Ints:
        store = Percepts()
        rows = np.asarray([store.add(one) for one in percepts])
        seen = database.index_of(store, 1)
        shown = seen.of_percepts(seen.table[rows])
        return decide(Batch(lambda: shown, lambda: np.empty((0, 0), np.float32)))

    return act


def restless(act: Act, n_actions: int, rng: np.random.Generator, share: float = 0.05) -> Act:
    """Return an agent that now and then acts at random instead, and so is not stuck for ever."""

    def loose(percepts: Sequence[Any]) -> Ints:
        drawn = rng.integers(n_actions, size=len(percepts))
        return np.where(rng.random(len(percepts)) < share, drawn, act(percepts))

    return loose


class Maze(Exam):
    """The maze."""

    task = MazeTask()
    gamma, env_id, state = task.world.gamma, task.env_id, "position"

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 2])

    def measure(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return success and steps, and in the last exam where decisions are not optimal."""

        def at(positions: NDArray[np.float64]) -> Ints:
            return act([self.env.percept(p) for p in positions])

        success, steps = walk(self.task.world, at, self._rng(), episodes)
        if episodes < EPISODES:
            return numbers(success=success, steps=steps)
        grid = grid_over(self.task.world)
        return numbers(success=success, steps=steps, suboptimal=grid.suboptimal(at(grid.positions)))

    def roam(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return success and steps."""
        world, rng = self.task.world, self._rng()
        position, steps = world.random_starts(episodes, rng), np.zeros(episodes, np.int64)
        going = np.arange(episodes)
        for t in range(1, MAX_STEPS + 1):
            action = act([self.env.percept(p) for p in position[going]])
            position[going], out = world.move(position[going], action, rng)
            steps[going[out]] = t
            going = going[~out]
            if len(going) == 0:
                break
        done = steps > 0
        return numbers(success=done.mean(), steps=steps[done].mean() if done.any() else np.nan)


class Campus(Exam):
    """The campus; its exam are the views that no interaction shows."""

    gamma, env_id, state = CAMPUS.gamma, "rlvc/Campus-v0", "state"

    def __init__(self, pictures: str, seed: int) -> None:
        super().__init__(pictures, seed)
        views = campus_views(pictures, seed)
        pairs = [(s, view) for s, held in enumerate(views.division("test")) for view in held]
        self.states = np.asarray([s for s, _ in pairs])
        self.views = [views.image(*pair) for pair in pairs]
        self._shown: dict[int, Any] = {}

    def options(self) -> dict[str, Any]:
        """Return what the environment is made with."""
        return {"pictures": self.pictures, "views_seed": self.seed}

    def measure(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the share of views on which the action is not optimal."""
        return numbers(error=error_of(act(self.views), self.states))

    def roam(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the same, each view shown many times."""
        times = 20
        return numbers(error=error_of(np.concatenate([act(self.views) for _ in range(times)]),
                                      np.tile(self.states, times)))  # fmt: skip

    def measure_policy(self, policy: AnyPolicy, database: Database, episodes: int) -> Measures:
        """Extract the views once for all policies on a database with the same extractor."""
        key = id(database.extractor)
        if key not in self._shown:
            store = Percepts()
            rows = [store.add(view) for view in self.views]
            keypoints = ExtractionCache().extract(database.extractor, store)
            self._shown[key] = store, np.asarray(rows), keypoints
        store, rows, keypoints = self._shown[key]
        seen = database.index_of(store, 1, keypoints=keypoints)
        shown = seen.of_percepts(seen.table[rows])
        decide = act_of_policy(policy) if isinstance(policy, Policy) else act_of_forest(policy)
        batch = Batch(lambda: shown, lambda: np.empty((0, 0), np.float32))
        return self.measure(lambda _: decide(batch), episodes)


class Hill(Exam):
    """The hill."""

    gamma, env_id, state = HILL.gamma, "rlvc/Hill-v0", "state"

    def _starts(self, episodes: int) -> Any:
        return hill_measures.starts(self.seed, episodes)

    def measure(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the share of trials that miss the top, and the steps of the others."""
        state: dict[tuple[int, int], Any] = {}

        def at(columns: Ints) -> Ints:
            return act([self.env.percept(state[tuple(pair)]) for pair in columns.tolist()])

        again = remembering(at)

        def drive(states: NDArray[np.float64]) -> Ints:
            columns = np.stack([ground_column(states[:, 0]), gauge_column(states[:, 1])], axis=1)
            state.update(zip(map(tuple, columns.tolist()), states, strict=True))
            return again(columns)

        missed, steps = hill_measures.trials(drive, self._starts(episodes))
        return numbers(missed=missed, steps=steps)

    def roam(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the same of a driver who leaves something to chance."""
        missed, steps = hill_measures.trials(
            lambda states: act([self.env.percept(one) for one in states]), self._starts(episodes)
        )
        return numbers(missed=missed, steps=steps)

    def measure_policy(self, policy: AnyPolicy, database: Database, episodes: int) -> Measures:
        """Look at all images once."""
        drive = actor(actions_of(policy, self.env.strip))
        missed, steps = hill_measures.trials(drive, self._starts(episodes))
        return numbers(missed=missed, steps=steps)


EXAMS: dict[str, type[Exam]] = {"maze": Maze, "campus": Campus, "hill": Hill}
