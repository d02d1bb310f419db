"""What all environments have in common."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rlvc import register_envs
from tests.support.photographs import write_color

register_envs()
START: dict[str, dict[str, Any]] = {  # from which an agent can idle for ever
    "rlvc/Maze-v0": {"position": (700, 20)},
    "rlvc/Subway-v0": {"position": (700, 20)},
    "rlvc/Campus-v0": {"state": 0},
    "rlvc/Hill-v0": {"state": (-0.5, 0.0)},
}
IDS = pytest.mark.parametrize("env_id", START)


def make(env_id: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(env_id, **arguments).unwrapped


@IDS
@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_gymnasium_finds_nothing_wrong(env_id: str, render_mode: str | None) -> None:
    check_env(make(env_id, render_mode=render_mode))


@IDS
def test_stable_baselines3_finds_nothing_wrong(env_id: str) -> None:
    pytest.importorskip("stable_baselines3.common.env_checker").check_env(make(env_id))


@pytest.mark.slow
@IDS
def test_the_same_seed_gives_the_same_episode(env_id: str) -> None:
    def episode(seed: int, spoils: bool = False) -> list[bytes]:
        env = make(env_id)
        env.action_space.seed(seed)
        percept, info = env.reset(seed=seed)
        seen = list[bytes]()
        for _ in range(30):
            images = percept.values() if isinstance(percept, dict) else [percept]
            for one in map(np.asarray, (*images, *info.values())):
                seen.append(one.tobytes())
                if spoils:  # percepts and states belong to the caller
                    one[...] = 0
            percept, _, terminated, _, info = env.step(env.action_space.sample())
            if terminated:
                percept, info = env.reset()
        return seen

    assert episode(3) == episode(3, spoils=True) == episode(3)
    assert episode(3) != episode(4)


@IDS
def test_episodes_are_truncated_after_a_hundred_steps(env_id: str) -> None:
    env = gymnasium.make(env_id)
    _, info = env.reset(seed=0, options=START[env_id])
    expected = -5.0 if "Campus" in env_id else 0.0
    for step in range(1, 101):
        action = int(info["state"][1] < 0) if "Hill" in env_id else 0  # a car that brakes
        *_, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (expected, False, step == 100)


@IDS
def test_arguments_can_be_written_as_json(env_id: str) -> None:
    arguments = {"pictures": "photos", "render_mode": None}
    env = gymnasium.make(env_id, **json.loads(json.dumps(arguments)))
    assert env.spec is not None
    assert json.loads(env.spec.to_json())["kwargs"] == arguments


@pytest.mark.parametrize("env_id", sorted(START.keys() - {"rlvc/Campus-v0"}))
def test_pictures_are_an_argument(env_id: str, tmp_path: Path) -> None:
    red = write_color(tmp_path / "red.png", (255, 0, 0))
    percept, _ = make(env_id, pictures=str(red)).reset(seed=0)
    seen = percept["ground"] if isinstance(percept, dict) else percept
    assert (seen == (255, 0, 0)).all()


@IDS
def test_render_without_a_mode_warns_and_does_nothing(env_id: str) -> None:
    with pytest.warns(UserWarning, match="render does nothing without a render mode"):
        assert make(env_id).render() is None


@IDS
def test_unknown_names_are_refused(env_id: str) -> None:
    (option,) = START[env_id]
    with pytest.raises(ValueError, match=rf"Unknown reset option .* Did you mean '{option}'"):
        make(env_id).reset(options={option[:-1]: 0})
    with pytest.raises(ValueError, match=r"Unknown render mode 'human'\. Known: rgb_array"):
        type(make(env_id))(render_mode="human")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"Unknown pictures 'foto'\. Did you mean 'photos'"):
        make(env_id, pictures="foto")


@IDS
def test_bad_actions_are_refused(env_id: str) -> None:
    env = make(env_id)
    with pytest.raises(gymnasium.error.ResetNeeded, match="Call reset before step"):
        env.step(0)
    env.reset(seed=0)
    n = int(env.action_space.n)  # type: ignore[attr-defined]
    message = f"action of {type(env).__name__} must be a whole number from 0 to {n - 1}"
    for action in (n, -1, 0.5, None):
        with pytest.raises(ValueError, match=message):
            env.step(action)


def test_registering_is_cheap_and_may_be_repeated() -> None:
    code = (
        "import sys, rlvc.envs; rlvc.envs.register_envs(); rlvc.envs.register_envs();"
        "print(sorted({'cv2', 'numba', 'skimage', 'scipy'} & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "[]"
