"""Third-party environments: return over the number of interactions.

Run it with ``python benchmarks/own_tasks.py``; ``pip install -r
benchmarks/requirements-own-tasks.txt`` first. Results are written to ``runs/own-tasks`` as they are
computed, so that it can be stopped and resumed; ``--table`` only prints and draws existing results.

*grid*: MiniGrid-Empty-8x8, seen as a whole. *lake*: FrozenLake-v1, 4 × 4 and slippery, learned from
rendered frames. *doom*: VizdoomBasic-v1, in the first person at 120 × 160 pixels; an action lasts 8
tics.

*one*: a single classifier, and *forest*: 25 trees, which learn in rounds as ``RLVC.learn`` does;
every point of their curves is a separate run with that number of interactions. *random*: random
actions. *dqn*: the DQN of Stable-Baselines3 with its CnnPolicy, on the same images in grey at
84 × 84 pixels. It has its defaults, except for the discount factor, which is the task's, and for
those that are meant for a million steps: it starts to learn after 1,000 steps, explores for half of
all steps, copies its network every 500 steps, and keeps all interactions. A point is the network
after that number of steps of one run of full length.

All are measured in the same episodes; the tables give the mean over seeds, the lowest and the
highest. Settings were chosen on seeds 0 to 2. The names of result files do not include ``--rounds``
and ``--epsilon``: give another ``--out`` for other values.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import gymnasium as gym
import numpy as np
from gymnasium.wrappers import AddRenderObservation
from numpy.typing import NDArray

from rlvc import RLVC, Forest
from rlvc._core.atomic import atomic_write
from rlvc.data.collect import EPSILON, INTERACTIONS, ROUNDS, Predictor
from rlvc.report.figures import house_style, new_figure, to_png
from rlvc.report.figures.style import BLUE, GREEN, GREY, ORANGE
from rlvc.runs import make_learner

METHODS = ("one", "forest", "dqn", "random")
STYLES = {
    "one": ("one classifier", BLUE, "o"),
    "forest": ("forest of 25", GREEN, "s"),
    "dqn": ("DQN (Stable-Baselines3)", ORANGE, "^"),
    "random": ("random actions", GREY, ""),
}
SEED = 1_000_000  # of the first episode of the evaluation; no exploration uses it

Env = gym.Env[Any, Any]


class Screen(gym.ObservationWrapper[Any, Any, Any]):
    """Reduce observations to the screen of the game, scaled down."""

    def __init__(self, env: Env, height: int, width: int) -> None:
        super().__init__(env)
        self.size = width, height
        self.observation_space = gym.spaces.Box(0, 255, (height, width, 3), np.uint8)

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        """Return the screen."""
        image = cv2.resize(observation["screen"], self.size, interpolation=cv2.INTER_AREA)
        return np.asarray(image, np.uint8)


class Grey(gym.ObservationWrapper[Any, Any, Any]):
    """Convert images to those that networks usually get: in grey, 84 × 84."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 255, (84, 84, 1), np.uint8)

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        """Return the image in grey."""
        grey = cv2.cvtColor(observation, cv2.COLOR_RGB2GRAY)
        return np.asarray(cv2.resize(grey, (84, 84), interpolation=cv2.INTER_AREA))[:, :, None]


def make_grid() -> Env:
    """Return an empty room; the goal is a green square."""
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    return ImgObsWrapper(RGBImgObsWrapper(gym.make("minigrid:MiniGrid-Empty-8x8-v0")))


def make_lake() -> Env:
    """Return the slippery frozen lake, on which two steps of three slip."""
    lake = gym.make("FrozenLake-v1", render_mode="rgb_array", is_slippery=True)
    return AddRenderObservation(lake)


def make_doom() -> Env:
    """Return a room with a monster; the goal is to shoot it."""
    import vizdoom.gymnasium_wrapper  # noqa: F401 - registers

    return Screen(gym.make("VizdoomBasic-v1", frame_skip=8), 120, 160)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, its parameters, and its evaluation.

    Attributes:
        title: Its name in tables and figures.
        make: Returns a new environment.
        gamma: Its discount factor.
        episodes: The number of episodes of an evaluation.
        settings: Parameters that are not the default, as for ``--set``.
        best: The optimal return, if it is known.
    """

    title: str
    make: Callable[[], Env]
    gamma: float
    episodes: int
    settings: list[str] = field(default_factory=list)
    best: float | None = None

    def learner(self) -> RLVC:
        """Return the learner."""
        return make_learner("default", self.settings, RLVC(gamma=self.gamma))


TASKS = {
    "grid": Task(
        title="MiniGrid-Empty-8x8", make=make_grid, gamma=0.9, episodes=1, best=0.961,
    ),  # it is deterministic, so one episode suffices
    "lake": Task(
        title="FrozenLake-v1, slippery, rendered", make=make_lake, gamma=0.99, episodes=500,
        best=0.744,
    ),
    "doom": Task(
        title="VizdoomBasic-v1", make=make_doom, gamma=0.95, episodes=100,
        settings=["detector=harris", "threshold=1.2", "generator.grid=4", "generator.pairs=0"],
    ),
}  # fmt: skip


def evaluate(env: Env, act: Callable[[Any], int], episodes: int) -> dict[str, float]:
    """Return the measures of a policy in the episodes of the evaluation."""
    returns, lengths = [], []
    for episode in range(episodes):
        observation, _ = env.reset(seed=SEED + episode)
        total, steps, is_over = 0.0, 0, False
        while not is_over:
            observation, reward, ends, cut, _ = env.step(act(observation))
            total, steps, is_over = total + float(reward), steps + 1, ends or cut
        returns.append(total)
        lengths.append(steps)
    return {
        "return": float(np.mean(returns)),
        "deviation": float(np.std(returns)),
        "steps": float(np.mean(lengths)),
    }


def cached(policy: Predictor) -> Callable[[Any], int]:
    """Return the actions of a policy, which decides once for each image."""
    known: dict[bytes, int] = {}

    def act(observation: Any) -> int:
        key = observation.tobytes()
        if key not in known:
            known[key] = int(policy.predict(observation)[0])
        return known[key]

    return act


Point = dict[str, float]


def ours(task: Task, seed: int, options: argparse.Namespace, trees: int) -> Iterator[Point]:
    """Yield the measures of one classifier or a forest for every number of interactions."""
    learner = task.learner()
    trainer = Forest(learner=learner, trees=trees, seed=seed) if trees else learner
    for n in options.interactions:
        env, test_env, begin = task.make(), task.make(), time.perf_counter()
        policy = trainer.learn(
            env, interactions=n, rounds=options.rounds, epsilon=options.epsilon, seed=seed
        )
        seconds = time.perf_counter() - begin
        measures = evaluate(test_env, cached(policy), options.episodes or task.episodes)
        yield {
            "interactions": n, **measures, "classes": float(policy.n_classes), "seconds": seconds
        }  # fmt: skip
        env.close()
        test_env.close()


def at_random(task: Task, seed: int, options: argparse.Namespace) -> Iterator[Point]:
    """Yield the measures of random actions."""
    env, rng = task.make(), np.random.default_rng(seed)
    n, episodes = int(env.action_space.n), max(options.episodes or task.episodes, 50)  # type: ignore[attr-defined]
    yield {"interactions": 0, **evaluate(env, lambda _: int(rng.integers(n)), episodes)}
    env.close()


def dqn(task: Task, seed: int, options: argparse.Namespace) -> Iterator[Point]:
    """Yield the measures of a network after every number of steps of one run."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback

    ends = set(options.interactions)
    n, env, test_env = max(ends), Grey(task.make()), Grey(task.make())
    points: list[Point] = []

    class Evaluate(BaseCallback):
        lost, begin = 0.0, time.perf_counter()

        def _on_step(self) -> bool:
            if self.num_timesteps in ends:
                seconds, now = time.perf_counter() - self.begin - self.lost, time.perf_counter()
                measures = evaluate(test_env, cached(Greedy), options.episodes or task.episodes)
                points.append({"interactions": self.num_timesteps, **measures, "seconds": seconds})
                self.lost += time.perf_counter() - now
            return True

    class Greedy:
        @staticmethod
        def predict(observation: Any) -> Any:
            return model.predict(observation, deterministic=True)

    model = DQN(
        "CnnPolicy", env, gamma=task.gamma, seed=seed, device="cpu", buffer_size=n,
        learning_starts=min(1000, n // 10), exploration_fraction=0.5, target_update_interval=500,
    )  # fmt: skip
    model.learn(n, callback=Evaluate())
    env.close()
    test_env.close()
    yield from points


def run(name: str, method: str, seed: int, options: argparse.Namespace) -> None:
    """Write the measures of a method on a task to a file, unless it exists."""
    file = options.out / f"{name}_{method}_{seed}.json"
    if file.exists():
        return
    if method == "dqn":
        try:
            import stable_baselines3  # noqa: F401
        except ImportError:
            print("stable_baselines3 is not installed; dqn is skipped.", flush=True)
            return
    task = TASKS[name]
    points = []
    made = {
        "one": lambda: ours(task, seed, options, 0),
        "forest": lambda: ours(task, seed, options, 25),
        "dqn": lambda: dqn(task, seed, options),
        "random": lambda: at_random(task, seed, options),
    }[method]()
    for point in made:
        points.append(point)
        print(name, method, seed, point, flush=True)
    atomic_write(file, json.dumps(points).encode())


def read(name: str, method: str, options: argparse.Namespace) -> list[list[Point]]:
    """Return the points of each seed with results."""
    files = [options.out / f"{name}_{method}_{seed}.json" for seed in options.seeds]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def table(name: str, options: argparse.Namespace) -> None:
    """Print the mean return over seeds after each round, with the lowest and the highest."""
    done = {method: read(name, method, options) for method in METHODS}
    learned = [m for m in METHODS if done[m] and m != "random"]
    counts = sorted({int(p["interactions"]) for m in learned for seed in done[m] for p in seed})
    print(f"\n{TASKS[name].title}: return\n\n| interactions | "
          + " | ".join(f"{n:,}" for n in counts) + " | seeds | seconds |")  # fmt: skip
    print("|---" * (len(counts) + 3) + "|")
    for method in METHODS:
        cells = []
        for n in counts if method != "random" else [0] * min(1, len(done[method])):
            values = [p["return"] for seed in done[method] for p in seed if p["interactions"] == n]
            cells.append(
                f"{np.mean(values):.3g} ({min(values):.3g} to {max(values):.3g})" if values else "–"
            )
        if cells and done[method]:
            cells += [""] * (len(counts) - len(cells))
            ends = [seed[-1].get("seconds", 0.0) for seed in done[method]]
            seconds = f"{np.mean(ends):.0f}" if method != "random" else "–"
            print(f"| {STYLES[method][0]} | " + " | ".join(cells)
                  + f" | {len(ends)} | {seconds} |", flush=True)  # fmt: skip


def draw(names: list[str], options: argparse.Namespace) -> bytes:
    """Draw the curves of all tasks: means over seeds, and bands from the lowest to the highest."""
    with house_style():
        figure = new_figure(max(3.4 * len(names), 4.5), 3.2)
        axes = figure.subplots(1, len(names), squeeze=False)[0]
        for name, ax in zip(names, axes, strict=True):
            task = TASKS[name]
            for method in METHODS:
                label, colour, marker = STYLES[method]
                seeds = read(name, method, options)
                if not seeds:
                    continue
                values = np.array([[p["return"] for p in seed] for seed in seeds])
                if method == "random":
                    ax.axhline(values.mean(), color=colour, ls="--", lw=1.2, label=label)
                    continue
                n = [p["interactions"] for p in seeds[0]]
                ax.plot(n, values.mean(axis=0), color=colour, marker=marker, ms=4, label=label)
                ax.fill_between(n, values.min(axis=0), values.max(axis=0), color=colour,
                                alpha=0.15, lw=0)  # fmt: skip
            if task.best is not None:
                ax.axhline(task.best, color=GREY, ls=":", lw=1.2, label="optimum")
            ax.set_title(task.title)
            ax.set_xlabel("interactions")
            ax.set_xlim(left=0)
        axes[0].set_ylabel("return of an episode")
        entries = {}
        for ax in axes:
            handles, labels = ax.get_legend_handles_labels()
            entries |= dict(zip(labels, handles, strict=True))
        figure.legend(list(entries.values()), list(entries), loc="outside lower center",
                      ncols=min(len(entries), len(names) + 1))  # fmt: skip
        return to_png(figure)


def main() -> None:
    """Run what is missing, print the tables and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[5, 6, 7])
    counts = [1000, 2000, 5000, INTERACTIONS]
    parser.add_argument("--interactions", nargs="+", type=int, default=counts)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--episodes", type=int, default=0, help="of an evaluation; 0: the task's")
    parser.add_argument("--out", type=Path, default=Path("runs") / "own-tasks")
    parser.add_argument("--figure", type=Path, default=Path("docs") / "images" / "own-tasks.png")
    parser.add_argument("--table", action="store_true", help="only print and draw results")
    parser.add_argument("--quick", action="store_true", help="a quick look: 1,000 steps, 1 seed")
    options = parser.parse_args()
    if options.quick:
        options.interactions, options.rounds, options.episodes = [500, 1000], 2, 5
        options.seeds, options.out = options.seeds[:1], options.out / "quick"
        options.figure = options.out / "own-tasks.png"
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.table:
        for seed in options.seeds:
            for name in options.task:
                for method in options.methods:
                    run(name, method, seed, options)
    for name in options.task:
        table(name, options)
    options.figure.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(options.figure, draw(options.task, options))
    print(f"\nDrew {options.figure}.")


if __name__ == "__main__":
    main()
