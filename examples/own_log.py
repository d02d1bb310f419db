"""Learn a policy from a log: images on disk, and a table of actions and rewards.

A camera faces a traffic light; a driver who ignores colours either waits or goes. Going at green
is rewarded with +1, going at red with −1, and waiting costs a little. The log is generated here;
yours would come from elsewhere.

Run it with ``python examples/own_log.py``; it takes a few seconds.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import rlvc

LIGHTS = {"red": (210, 30, 30), "green": (30, 180, 60)}


def take_picture(light: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return an image of a light somewhere in front of a wall, with noise."""
    wall = np.full((96, 96, 3), 120, np.uint8)
    x, y = rng.integers(36, 60, 2).tolist()
    cv2.rectangle(wall, (x - 16, y - 26), (x + 16, y + 26), (20, 20, 20), -1)
    at = y - 12 if light == "red" else y + 12
    cv2.circle(wall, (x, at), 9, LIGHTS[light], -1)
    return np.clip(wall + rng.normal(0.0, 2.0, wall.shape), 0, 255).astype(np.uint8)


def write_log(folder: Path, rng: np.random.Generator) -> None:
    """Write a log of 150 drives."""
    with (folder / "drives.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["episode", "step", "image", "action", "reward", "terminated", "truncated"])
        for episode in range(150):
            for step in range(10):
                light = "green" if rng.random() < 0.5 else "red"
                name = f"{episode}-{step}.png"
                cv2.imwrite(str(folder / name), take_picture(light, rng)[:, :, ::-1])
                goes = int(rng.integers(2))
                reward = (1.0 if light == "green" else -1.0) if goes else -0.1
                cut = step == 9 and not goes
                table.writerow([episode, step, name, goes, reward, bool(goes), cut])
                if goes:  # terminated, so no last image is needed
                    break
    (folder / "actions.txt").write_text("0 wait\n1 go\n")


def main() -> None:
    """Write a log, read it, learn, explain a decision, and count correct decisions."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        write_log(Path(name), rng)
        interactions = rlvc.read_folder(name)
    print(f"{len(interactions)} interactions in {interactions.episode[-1] + 1} episodes")
    policy = rlvc.RLVC(gamma=0.5).learn(interactions)
    print(policy.explain(take_picture("green", rng)))

    right = 0
    for light in ("red", "green") * 100:
        action, _ = policy.predict(take_picture(light, rng))
        right += int(action) == (light == "green")
    print(f"correct in {right / 200:.0%} of 200 episodes")


if __name__ == "__main__":
    main()
