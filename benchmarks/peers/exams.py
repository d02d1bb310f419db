"""The databases that all methods learn from, and how agents are evaluated on them.

An exam passes percepts to an agent in bulk, as the environment shows them, and gets actions; agents
extract features or scale images themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc import Database, Interactions, Percepts, collect
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
from scenes import Batch, act_of, cached

N = 10_000  # interactions
EPISODES = 1000  # of the final evaluation, on the maze and on the hill
INTERIM_EPISODES = 100  # of the evaluations during learning

Ints = NDArray[np.int64]
Measures = dict[str, float | None]
Act = Callable[[Sequence[Any]], Ints]  # from percepts to actions


def numbers(**values: float) -> Measures:
    """Return measures for JSON; null stands for numbers that are not finite."""
    return {name: float(v) if np.isfinite(v) else None for name, v in values.items()}


class Exam(ABC):
    """A task with one seed: its environment, its database and its evaluation."""

    gamma: float
    env_id: str
    state: str

    def __init__(self, pictures: str, seed: int) -> None:
        self.pictures, self.seed = pictures, seed
        self.env: Any = self.new_env().unwrapped
        self.n_actions = int(self.env.action_space.n)

    def new_env(self) -> gymnasium.Env[Any, Any]:
        """Return a new environment."""
        return gymnasium.make(self.env_id, disable_env_checker=True, **self.options())

    def options(self) -> dict[str, Any]:
        """Return the arguments of the environment."""
        return {"pictures": self.pictures}

    def collect(self, n: int = N) -> Interactions:
        """Return the database: random interactions, the same for all methods."""
        return collect(self.new_env(), n, seed=self.seed, state=self.state)

    @abstractmethod
    def measure(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the measures of a deterministic agent."""

    @abstractmethod
    def roam(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the measures of a stochastic agent."""

    def measure_policy(self, policy: AnyPolicy, database: Database, episodes: int) -> Measures:
        """Return the measures of a policy of this library, in the fastest way."""
        return self.measure(agent_of(policy, database), episodes)


def agent_of(policy: AnyPolicy, database: Database) -> Act:
    """Return the actions of a policy, with the feature extraction of its database."""
    decide = act_of(policy)

    def act(percepts: Sequence[Any]) -> Ints:
        store = Percepts()
        rows = np.asarray([store.add(one) for one in percepts])
        index = database.index_of(store, 1)
        index = index.of_percepts(index.table[rows])
        return decide(Batch(lambda: index, lambda: np.empty((0, 0), np.float32)))

    return act


def restless(act: Act, n_actions: int, rng: np.random.Generator, share: float = 0.05) -> Act:
    """Return an agent that acts at random now and then, so that it is not stuck forever."""

    def act_or_explore(percepts: Sequence[Any]) -> Ints:
        drawn = rng.integers(n_actions, size=len(percepts))
        return np.where(rng.random(len(percepts)) < share, drawn, act(percepts))

    return act_or_explore


class Maze(Exam):
    """The maze."""

    task = MazeTask()
    gamma, env_id, state = task.world.gamma, task.env_id, "position"

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 2])

    def measure(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return success and steps; after learning, also the share of suboptimal decisions."""

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
    """The campus; agents are evaluated on the views that no interaction shows."""

    gamma, env_id, state = CAMPUS.gamma, "rlvc/Campus-v0", "state"

    def __init__(self, pictures: str, seed: int) -> None:
        super().__init__(pictures, seed)
        views = campus_views(pictures, seed)
        pairs = [(s, view) for s, held in enumerate(views.division("test")) for view in held]
        self.states = np.asarray([s for s, _ in pairs])
        self.views = [views.image(*pair) for pair in pairs]
        self._extracted: dict[int, Any] = {}

    def options(self) -> dict[str, Any]:
        """Return the arguments of the environment."""
        return {"pictures": self.pictures, "views_seed": self.seed}

    def measure(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the share of views on which the action is not optimal."""
        return numbers(error=error_of(act(self.views), self.states))

    def roam(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the same, with each view shown many times."""
        times = 20
        return numbers(error=error_of(np.concatenate([act(self.views) for _ in range(times)]),
                                      np.tile(self.states, times)))  # fmt: skip

    def measure_policy(self, policy: AnyPolicy, database: Database, episodes: int) -> Measures:
        """Return the measures; features of the views are extracted once for each extractor."""
        key = id(database.extractor)
        if key not in self._extracted:
            store = Percepts()
            rows = [store.add(view) for view in self.views]
            keypoints = ExtractionCache().extract(database.extractor, store)
            self._extracted[key] = store, np.asarray(rows), keypoints
        store, rows, keypoints = self._extracted[key]
        index = database.index_of(store, 1, keypoints=keypoints)
        index, decide = index.of_percepts(index.table[rows]), act_of(policy)
        batch = Batch(lambda: index, lambda: np.empty((0, 0), np.float32))
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

        decide = cached(at)

        def drive(states: NDArray[np.float64]) -> Ints:
            columns = np.stack([ground_column(states[:, 0]), gauge_column(states[:, 1])], axis=1)
            state.update(zip(map(tuple, columns.tolist()), states, strict=True))
            return decide(columns)

        missed, steps = hill_measures.trials(drive, self._starts(episodes))
        return numbers(missed=missed, steps=steps)

    def roam(self, act: Act, episodes: int = EPISODES) -> Measures:
        """Return the same for a stochastic agent."""
        missed, steps = hill_measures.trials(
            lambda states: act([self.env.percept(one) for one in states]), self._starts(episodes)
        )
        return numbers(missed=missed, steps=steps)

    def measure_policy(self, policy: AnyPolicy, database: Database, episodes: int) -> Measures:
        """Return the measures; features of all images are extracted once."""
        drive = actor(actions_of(policy, self.env.strip))
        missed, steps = hill_measures.trials(drive, self._starts(episodes))
        return numbers(missed=missed, steps=steps)


EXAMS: dict[str, type[Exam]] = {"maze": Maze, "campus": Campus, "hill": Hill}
