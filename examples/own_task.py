"""Learn a policy for a custom environment: a ring of four rooms with posters.

Each room has a poster, and the goal is the room with the last one. The agent sees only the poster
of the room that it is in, each time from another place and with noise.

Run it with ``python examples/own_task.py``; it takes a few seconds.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import rlvc

SIZE, VIEW = 120, 96


class Posters(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """Four rooms in a ring: action 0 moves back, action 1 moves on, and room 3 is the goal."""

    def __init__(self) -> None:
        shapes = np.random.default_rng(7)
        blocks = shapes.integers(0, 256, (4, SIZE // 12, SIZE // 12, 3), dtype=np.uint8)
        self.posters = blocks.repeat(12, axis=1).repeat(12, axis=2)
        self.observation_space = gymnasium.spaces.Box(0, 255, (VIEW, VIEW, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.action_names = ("back", "on")
        self.room = 0

    def _observe(self) -> NDArray[np.uint8]:
        x, y = self.np_random.integers(0, SIZE - VIEW, 2)
        view = self.posters[self.room, y : y + VIEW, x : x + VIEW]
        noise = self.np_random.normal(0.0, 2.0, view.shape)
        return np.clip(view + noise, 0, 255).astype(np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start in one of the first three rooms."""
        super().reset(seed=seed)
        self.room = int(self.np_random.integers(0, 3))
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Move one room on or back; the reward is 1 in the goal."""
        self.room = (self.room + (1 if action == 1 else -1)) % 4
        terminated = self.room == 3
        return self._observe(), float(terminated), terminated, False, {}


def main() -> None:
    """Collect, learn, explain a decision, and count the shortest paths."""
    env = Posters()
    interactions = rlvc.collect(env, 500, seed=0)
    policy = rlvc.RLVC(gamma=0.8).learn(interactions)
    print(f"{policy.n_classes} classes from {len(policy.features)} features")
    observation, _ = env.reset(seed=1)
    print(policy.explain(observation))

    short = 0
    for seed in range(200):
        observation, _ = env.reset(seed=1000 + seed)
        fewest, steps, terminated = (1, 2, 1)[env.room], 0, False
        while not terminated and steps < 10:
            action, _ = policy.predict(observation)
            observation, _, terminated, _, _ = env.step(action)
            steps += 1
        short += steps == fewest
    print(f"the shortest path in {short / 200:.0%} of 200 episodes")


if __name__ == "__main__":
    main()
