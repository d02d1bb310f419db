from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray
from scipy import stats

from rlvc import RLVC, Evaluation, Forest, Policy, collect, evaluate
from rlvc.policies import CachedPolicy, check_compatible
from rlvc.policies.evaluate import MAX_STEPS
from tests.support.worlds import (
    GREYS,
    KINDS,
    PICTURES,
    REAR,
    Always,
    Corridor,
    Script,
    Scripted,
)

EPISODES: list[Script] = [
    ([1.0], True, {}),
    ([0.0, 0.5], False, {}),
    ([0.25, -1.0, 0.0], True, {}),
    ([0.0] * 10, False, {}),
]


# What is measured --------------------------------------------------------------------------------


def test_episodes_are_summed_up() -> None:
    calls: list[int] = []
    env = Scripted(EPISODES)
    found = evaluate(Always(1), env, episodes=4, seed=7, on_episode=lambda: calls.append(1))
    assert found.returns.tolist() == [2.0, 1.0, -1.5, 0.0]
    assert found.lengths.tolist() == [1, 2, 3, 10]
    assert found.terminated.tolist() == [True, False, True, False]
    assert found.success is None
    assert env.seeds == [7, None, None, None]
    assert len(calls) == 4
    found = evaluate(Always(0), Scripted(EPISODES), episodes=3)
    assert found.returns.tolist() == [1.0, 0.5, -0.75]


@pytest.mark.parametrize("name", ["is_success", "success"])
def test_success_is_what_the_environment_reports(name: str) -> None:
    episodes = [(rewards, ends, {name: np.bool_(ends)}) for rewards, ends, _ in EPISODES]
    found = evaluate(Always(0), Scripted(episodes), episodes=4)
    assert found.success is not None
    assert found.success.tolist() == [True, False, True, False]
    episodes[2][2].clear()
    assert (
        evaluate(Always(0), Scripted(episodes), episodes=4).success is None
    )  # not always reported


def test_a_policy_is_evaluated_in_its_environment() -> None:
    policy = RLVC(gamma=0.5, threads=1).learn(collect(Corridor(start=2), 200))
    found = evaluate(policy, Corridor(start=2), episodes=30, seed=3)
    assert found.returns.tolist() == [1.0] * 30
    assert set(found.lengths.tolist()) == {1, 2}
    again = evaluate(policy, Corridor(start=2), episodes=30, seed=3)
    assert found.lengths.tolist() == again.lengths.tolist()
    other = evaluate(policy, Corridor(start=2), episodes=30, seed=4)
    assert found.lengths.tolist() != other.lengths.tolist()
    lost = evaluate(Always(2), Corridor(start=2, limit=5), episodes=40)
    assert lost.returns.tolist() == lost.success.tolist() == lost.terminated.tolist()  # type: ignore[union-attr]
    assert set(lost.lengths[~lost.terminated].tolist()) == {5}


def test_at_least_one_episode_is_required() -> None:
    with pytest.raises(ValueError, match=r"^episodes of evaluate must be at least 1; got 0\.$"):
        evaluate(Always(0), Corridor(), episodes=0)


# Confidence intervals ----------------------------------------------------------------------------


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return Wilson's score interval by the textbook formula."""
    z = float(stats.norm.ppf(0.975))
    middle = (hits + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * (hits * (n - hits) / n + z**2 / 4) ** 0.5
    return middle - half, middle + half


def test_intervals_match_textbook_formulas() -> None:
    rng = np.random.default_rng(0)
    returns, lengths = rng.normal(size=40), rng.integers(1, 100, 40)
    terminated, success = rng.random((2, 40)) < 0.3
    found = Evaluation(returns, lengths, terminated, success).summary()
    assert list(found) == ["episodes", "return", "length", "terminated", "rewarded", "success"]
    assert found["episodes"] == 40
    for name, values in (("return", returns), ("length", lengths)):
        low, high = stats.t.interval(0.95, 39, np.mean(values), stats.sem(values))
        assert found[name] == pytest.approx({"mean": values.mean(), "low": low, "high": high})
    hits = {"terminated": terminated, "rewarded": returns > 0, "success": success}
    for name, is_hit in hits.items():
        low, high = wilson(int(is_hit.sum()), 40)
        assert found[name] == pytest.approx({"mean": is_hit.mean(), "low": low, "high": high})


def test_shares_stay_between_0_and_1() -> None:
    all_of_them = np.ones(20, np.bool_)
    found = Evaluation(np.zeros(20), np.ones(20, np.int64), all_of_them).summary()
    assert found["terminated"]["high"] == pytest.approx(1.0)
    assert 0.8 < found["terminated"]["low"] < 0.9
    assert found["rewarded"]["low"] == pytest.approx(0.0)
    assert "success" not in found


def test_intervals_of_equal_values_and_of_a_single_value() -> None:
    equal = Evaluation(np.full(5, 0.1), np.full(5, 7), np.ones(5, np.bool_)).summary()
    assert equal["length"] == {"mean": 7.0, "low": 7.0, "high": 7.0}
    one = Evaluation(np.ones(1), np.ones(1, np.int64), np.ones(1, np.bool_)).summary()
    assert one["return"] == {"mean": 1.0, "low": None, "high": None}
    assert one["terminated"]["low"] > 0.2


# Compatible environments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Discrete(3, start=2), "Discrete(3, start=2)"),
        (spaces.Discrete(2), "Discrete(2)"),
        (spaces.MultiDiscrete([2, 2]), "MultiDiscrete([2 2])"),
    ],
)
def test_other_actions_are_incompatible(space: spaces.Space[Any], text: str) -> None:
    policy = RLVC(threads=1).learn(collect(Corridor(start=2), 100))
    env = Corridor(start=2)
    check_compatible(policy, env)
    env.action_space = space
    message = (
        f"The actions of the environment must be those of the policy, 2 to 3; got {text}. "
        "Was it learned in another environment?"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_compatible(policy, env)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vector"])
def test_a_policy_is_compatible_with_its_environment(kind: str) -> None:
    policy = policy_of(kind)
    check_compatible(policy, Corridor(kind=kind, start=1))
    for other in ("vector", "told"):
        if other != kind:
            with pytest.raises(ValueError, match=r"^The images of the environment must be those "):
                check_compatible(policy, Corridor(kind=other, start=1))


def test_other_images_are_incompatible() -> None:
    policy = policy_of("cameras")
    for kind, text in (
        ("colour", "48 × 48 × 3"),
        ("vector", "no images"),
        ("told", "image 48 × 48 × 3"),
        ("nested", "front frame 1 48 × 48 × 3, front frame 2 48 × 48 × 3, rear frame 1 "
         "48 × 48 × 1, rear frame 2 48 × 48 × 1"),
    ):  # fmt: skip
        message = (
            "The images of the environment must be those of the policy, front 48 × 48 × 3, "
            f"rear 48 × 48 × 1; got {text}. Make the environment with the same options: --wrap, "
            "--render, --size, --frames, --arg."
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            check_compatible(policy, Corridor(kind=kind, start=1))
    front = replace(policy, shapes={"front": (48, 48, 3)})
    check_compatible(front, Corridor(kind="cameras", start=1))  # it need not use all of them


# Stable-Baselines3 -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["colour", "grey", "cameras", "first", "first colour", "last colour", "nested"]
)
def test_stable_baselines_computes_the_same_returns(kind: str) -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    vector = pytest.importorskip("stable_baselines3.common.vec_env")
    policy = policy_of(kind)

    def make() -> Any:
        return Corridor(kind=kind, start=1)

    found = evaluate(policy, make(), episodes=8, seed=0)
    env = make()
    env.reset(seed=0)
    seeded = vector.DummyVecEnv([lambda: env])
    seeded.seed(0)
    returns, lengths = evaluation.evaluate_policy(
        policy, seeded, n_eval_episodes=8, return_episode_rewards=True, warn=False
    )
    assert returns == found.returns.tolist() == [1.0] * 8
    assert lengths == found.lengths.tolist()
    several = vector.DummyVecEnv([make] * 3)  # a batch of three
    mean, deviation = evaluation.evaluate_policy(policy, several, n_eval_episodes=9, warn=False)
    assert (mean, deviation) == (1.0, 0.0)


def policy_of(kind: str) -> Policy:
    return RLVC(gamma=0.5, threads=1).learn(collect(Corridor(kind=kind, start=1), 300))


def test_stable_baselines_evaluates_a_forest() -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    forest = Forest(learner=RLVC(gamma=0.5, threads=1), trees=3).learn(collect(Corridor(), 300))
    mean, _ = evaluation.evaluate_policy(forest, Corridor(), n_eval_episodes=5, warn=False)
    assert mean == 1.0


def test_any_predictor_can_be_evaluated() -> None:
    class Listed:
        def predict(self, observation: Any) -> tuple[NDArray[np.int64], Any]:
            return np.array([1]), None  # as for a batch of one

    assert evaluate(Listed(), Corridor(), episodes=20).terminated.mean() == pytest.approx(
        0.5, abs=0.3
    )


def test_an_endless_episode_is_truncated(caplog: pytest.LogCaptureFixture) -> None:
    class Endless(Corridor):
        def step(self, action: np.int64) -> Any:
            observation, *_, info = super().step(action)
            return observation, 0.0, False, False, info

    found = evaluate(Always(0), Endless(), episodes=2, max_steps=30)
    assert found.lengths.tolist() == [30, 30]
    assert not found.terminated.any()
    assert caplog.messages == [
        "2 of 2 episodes did not end within 30 steps and were truncated. Give the environment "
        "a limit, for example by gymnasium.wrappers.TimeLimit."
    ]
    assert MAX_STEPS == 10_000


def test_a_cached_policy_predicts_once_per_percept() -> None:
    inner = Always(1)
    cached = CachedPolicy(inner)
    for speed in range(5):
        rear = np.asfortranarray(GREYS[REAR])
        cached.predict({"speed": np.float32(speed), "rear": rear, "front": PICTURES[0]})
    cached.predict({"front": PICTURES[1], "rear": GREYS[REAR]})
    assert len(inner.seen) == 2


def test_a_cached_policy_acts_as_the_policy() -> None:
    policy = RLVC(gamma=0.5, threads=1).learn(collect(Corridor(kind="first"), 200))
    cached, env = CachedPolicy(policy), Corridor(kind="first")
    for seed in range(6):
        observation, _ = env.reset(seed=seed)
        for _ in range(3):
            action, state = cached.predict(observation)
            assert (int(action), state) == (int(policy.predict(observation)[0]), None)
            observation, *_ = env.step(np.int64(action))
