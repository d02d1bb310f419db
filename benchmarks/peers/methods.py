"""The methods that are compared: this library, and the implementations of other libraries.

Each is a function of an exam, a watch and its settings, and returns what it learned. Networks get
84 × 84 pixels in colour (the two cameras of the hill stacked vertically, 42 rows each), divided by
255, and rewards divided by 100, the largest of all tasks, where their libraries clip those of Atari
to ±1. All other deviations from the defaults of a library are named here.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
from exams import Act, Exam, Ints, Measures, N, agent_of
from numpy.typing import NDArray
from watch import Watch

from rlvc import RLVC, Forest, ForestPolicy, Interactions
from rlvc.learning.forest import out_of_bag_error, with_joint_values
from rlvc.learning.mdp import map_interactions

SIDE = 84  # pixels a side of the images for networks
FEW = 16  # pixels a side of the images for trees
REWARD = 100.0  # the largest
TARGET_INTERVAL = 250  # updates between two copies of the network, instead of 8,000 or 10,000
BATCH = 256  # percepts that a network decides on at once

Settings = dict[str, Any]


@dataclass(frozen=True)
class Learned:
    """What a method learned.

    Attributes:
        measure: Returns the measures in a number of episodes.
        act: Returns the actions on many percepts.
        decide: Returns the action on one percept.
        size: Bytes of a file of all that is needed to act.
        more: Further numbers to report.
    """

    measure: Callable[[int], Measures]
    act: Act
    decide: Callable[[Any], int]
    size: int
    more: dict[str, Any] = field(default_factory=dict)


Method = Callable[[Exam, Watch, Settings, Interactions | None], Learned]


# This library


def warm_up() -> None:
    """Compile the kernels, on two places and two actions."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    place, action = rng.integers(0, 2, (2, 200))
    data = Interactions.from_arrays(
        images[place], action, place == action, np.ones(200, np.bool_),
        next_observations=images[place],
    )  # fmt: skip
    Forest(learner=RLVC(threads=1), trees=2).learn(data).predict(images)


def size_of(policy: Any) -> int:
    """Return the size of a policy's file in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.rlvc"
        policy.save(file)
        return file.stat().st_size


def one(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Learn one classifier; the points of its curve are stages."""
    assert data is not None
    learner = RLVC(gamma=exam.gamma, threads=1)
    database = learner.extract(data)
    extraction = watch.seconds
    due = 1.0
    for stage in learner.stages(database):
        if stage.number >= due:
            due = max(due + 1, due * 2)
            with watch.pause():
                policy, known = stage.policy(), stage.database
            watch.note((policy, known), stage=stage.number, classes=policy.n_classes)
    policy, known = stage.policy(), stage.database
    return Learned(
        lambda n: exam.measure_policy(policy, known, n),
        agent_of(policy, known),
        lambda percept: int(policy.predict(percept)[0]),
        size_of(policy),
        {"looking": extraction, "classes": policy.n_classes},
    )


def forest(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Learn a forest of 25 trees; the points of its curve are forests of fewer trees."""
    assert data is not None
    learner = RLVC(gamma=exam.gamma, threads=1)
    trainer = Forest(learner=learner, seed=exam.seed)
    database = learner.extract(data)
    extraction = watch.seconds
    grown, policy = [], None
    for number in range(trainer.trees):
        grown.append(trainer.grow(database, number))
        if len(grown) in (1, 2, 4, 8, 16, trainer.trees):
            before = watch.seconds
            trees = with_joint_values(grown, data, learner)
            error = out_of_bag_error(grown, data, learner)
            policy = ForestPolicy.of(trees, error, trainer.uncertainty_penalty)
            if len(grown) < trainer.trees:
                watch.note((policy, database), trees=len(grown))
                watch.forget(watch.seconds - before)
    assert policy is not None
    final = policy
    return Learned(
        lambda n: exam.measure_policy(final, database, n),
        agent_of(final, database),
        lambda percept: int(final.predict(percept)[0]),
        size_of(final),
        {"looking": extraction, "classes": final.n_classes, "trees": len(grown)},
    )


# Observations of networks


def small(percept: Any) -> NDArray[np.uint8]:
    """Return a percept as (84, 84, 3) pixels."""
    if isinstance(percept, Mapping):
        views, height = [percept["ground"], percept["gauge"]], SIDE // 2
        return np.vstack([_resize(view, SIDE, height) for view in views])
    return _resize(percept, SIDE, SIDE)


def _resize(image: Any, width: int, height: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def channels_first(percepts: Iterable[Any]) -> NDArray[np.uint8]:
    """Return percepts as (n, 3, 84, 84) pixels."""
    return np.ascontiguousarray(np.stack([small(p) for p in percepts]).transpose(0, 3, 1, 2))


def in_batches(decide: Callable[[Sequence[Any]], Any]) -> Act:
    """Return an agent that decides on many percepts, in batches."""

    def act(percepts: Sequence[Any]) -> Ints:
        parts = [decide(percepts[i : i + BATCH]) for i in range(0, len(percepts), BATCH)]
        return np.concatenate([np.asarray(part, np.int64).ravel() for part in parts])

    return act


def bytes_of(module: Any) -> int:
    """Return the size of a file of a network's weights in bytes."""
    import torch

    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    return buffer.tell()


# d3rlpy


def d3rlpy_dqn(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Learn with d3rlpy's DQN."""
    from d3rlpy.algos import DQNConfig

    return _d3rlpy(DQNConfig, exam, watch, settings, data)


def d3rlpy_cql(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Learn with d3rlpy's discrete CQL."""
    from d3rlpy.algos import DiscreteCQLConfig

    return _d3rlpy(DiscreteCQLConfig, exam, watch, settings, data)


def _d3rlpy(
    config: Any, exam: Exam, watch: Watch, settings: Settings, data: Interactions | None
) -> Learned:
    import d3rlpy
    from d3rlpy.models.encoders import PixelEncoderFactory
    from d3rlpy.preprocessing import MultiplyRewardScaler, PixelObservationScaler

    assert data is not None
    d3rlpy.seed(exam.seed)
    images = channels_first(data.percepts)
    dataset = d3rlpy.dataset.MDPDataset(
        images[data.start],
        data.action[:, None],
        data.reward,
        data.terminated.astype(np.float32),
        (data.truncated & ~data.terminated).astype(np.float32),
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=exam.n_actions,
    )
    del images
    extraction = watch.seconds
    agent = config(
        gamma=exam.gamma,
        target_update_interval=TARGET_INTERVAL,
        encoder_factory=PixelEncoderFactory(),
        observation_scaler=PixelObservationScaler(),
        reward_scaler=MultiplyRewardScaler(1 / REWARD),
        **settings,
    ).create(device=False)
    agent.build_with_dataset(dataset)
    act, updates = in_batches(lambda percepts: agent.predict(channels_first(percepts))), 0
    while not watch.is_over(act, updates=updates):
        agent.update(dataset.sample_transition_batch(agent.batch_size))
        updates += 1
    return Learned(
        lambda n: exam.measure(act, n),
        act,
        lambda percept: int(act([percept])[0]),
        bytes_of(agent.impl.modules.q_funcs),
        {"looking": extraction, "updates": updates},
    )


# Stable-Baselines3


class Small(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Scale images for networks."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        """Return the image."""
        return small(observation)


def sb3_dqn(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Learn online with Stable-Baselines3's DQN.

    It starts to learn after 1,000 steps, explores for half of all steps, and keeps all of them; its
    defaults are for a million steps.
    """
    from stable_baselines3 import DQN

    every = settings.get("train_freq", 4)
    agent = DQN(
        "CnnPolicy", _own_env(exam), gamma=exam.gamma, seed=exam.seed, device="cpu", buffer_size=N,
        learning_starts=1000, exploration_fraction=0.5,
        target_update_interval=TARGET_INTERVAL * every, **settings,
    )  # fmt: skip
    return _sb3(agent, exam, watch, lambda: agent.policy.q_net)


def sb3_ppo(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Learn online with Stable-Baselines3's PPO."""
    from stable_baselines3 import PPO

    agent = PPO("CnnPolicy", _own_env(exam), gamma=exam.gamma, seed=exam.seed, device="cpu",
                **settings)  # fmt: skip
    learned = _sb3(agent, exam, watch, lambda: agent.policy)
    drawn = in_batches(lambda percepts: _predict(agent, percepts, deterministic=False))
    with watch.pause():
        sampled = exam.roam(drawn, 200)
    return replace(learned, more={**learned.more, "sampled": sampled})


def _own_env(exam: Exam) -> Any:
    scaled = gymnasium.wrappers.TransformReward(exam.new_env(), lambda reward: reward / REWARD)
    return Small(scaled)


def _predict(agent: Any, percepts: Sequence[Any], *, deterministic: bool = True) -> Any:
    images = np.stack([small(percept) for percept in percepts])
    return agent.predict(images, deterministic=deterministic)[0]


def _sb3(agent: Any, exam: Exam, watch: Watch, network: Callable[[], Any]) -> Learned:
    from stable_baselines3.common.callbacks import BaseCallback

    act = in_batches(lambda percepts: _predict(agent, percepts))

    class Examine(BaseCallback):
        def _on_step(self) -> bool:
            return not watch.is_over(act, interactions=self.num_timesteps)

    agent.learn(N, callback=Examine())
    return Learned(
        lambda n: exam.measure(act, n),
        act,
        lambda percept: int(act([percept])[0]),
        bytes_of(network()),
        {"interactions": agent.num_timesteps},
    )


# Fitted Q Iteration


def few(percept: Any) -> NDArray[np.float32]:
    """Return a percept as 16 × 16 pixels, camera after camera."""
    views = [percept["ground"], percept["gauge"]] if isinstance(percept, Mapping) else [percept]
    return np.concatenate([_resize(view, FEW, FEW).ravel() for view in views]).astype(np.float32)


def fqi(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Learn by Fitted Q Iteration: 50 times 50 Extra-Trees for each action, on pixels.

    With ``stuck``, an action that never led to another percept is treated as repeated forever, as
    this library does; published Fitted Q Iteration does not.
    """
    import joblib
    from sklearn.ensemble import ExtraTreesRegressor

    assert data is not None
    rows = np.stack([few(percept) for percept in data.percepts])
    extraction = watch.seconds
    absorbing_gamma = exam.gamma if settings["stuck"] else None
    steps = map_interactions(data, np.arange(len(rows)), absorbing_gamma)
    of_action = [np.flatnonzero(steps.action == action) for action in range(exam.n_actions)]
    models: list[Any] = []
    value = np.zeros(len(rows))

    def act(percepts: Sequence[Any]) -> Ints:
        asked = np.stack([few(percept) for percept in percepts])
        return np.argmax([model.predict(asked) for model in models], axis=0)

    iterations = 0
    for iterations in range(1, 51):
        target = steps.reward + exam.gamma * np.where(steps.terminated, 0.0, value[steps.end])
        models = [
            ExtraTreesRegressor(
                50, max_features=settings["max_features"], n_jobs=1,
                random_state=1000 * exam.seed + iterations,
            ).fit(rows[steps.start[ours]], target[ours])
            for ours in of_action
        ]  # fmt: skip
        value = np.max([model.predict(rows) for model in models], axis=0)
        if watch.is_over(act, iterations=iterations):
            break
    with watch.pause():
        buffer = io.BytesIO()
        joblib.dump(models, buffer, compress=3)
    return Learned(
        lambda n: exam.measure(act, n),
        act,
        lambda percept: int(act([percept])[0]),
        buffer.tell(),
        {"looking": extraction, "iterations": iterations},
    )


def at_random(exam: Exam, watch: Watch, settings: Settings, data: Interactions | None) -> Learned:
    """Act at random, without learning."""
    rng = np.random.default_rng([exam.seed, 3])
    act: Act = lambda percepts: rng.integers(exam.n_actions, size=len(percepts))  # noqa: E731
    return Learned(
        lambda n: exam.roam(act, n),
        act,
        lambda percept: int(rng.integers(exam.n_actions)),
        0,
    )


METHODS: dict[str, Method] = {
    "one": one, "forest": forest, "d3rlpy-dqn": d3rlpy_dqn, "d3rlpy-cql": d3rlpy_cql,
    "sb3-dqn": sb3_dqn, "sb3-ppo": sb3_ppo, "fqi": fqi, "random": at_random,
}  # fmt: skip
OFFLINE = ("one", "forest", "d3rlpy-dqn", "d3rlpy-cql", "fqi")
