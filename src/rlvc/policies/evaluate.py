"""Evaluate a policy in an environment: returns and lengths, with confidence intervals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc._core.arrays import Ints
from rlvc.data.collect import Predictor, reset, step
from rlvc.data.observations import as_percept
from rlvc.data.percepts import digest_of, images_of
from rlvc.data.spaces import shapes_of
from rlvc.policies.forest import AnyPolicy

log = logging.getLogger(__name__)

CONFIDENCE = 0.95
MAX_STEPS = 10_000  # after which an episode is truncated


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The returns and lengths of some episodes.

    Attributes:
        returns: (n,) the sums of rewards.
        lengths: (n,) the numbers of steps.
        terminated: (n,) whether the task ended the episode; the others were truncated.
        success: (n,) whether the environment reported success; None unless it always reports it.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    success: NDArray[np.bool_] | None = None

    def summary(self) -> dict[str, Any]:
        """Return means and shares, each with its 95% confidence interval.

        >>> returns, lengths = np.array([1.0, 0.5, 0.0]), np.array([5, 9, 30])
        >>> Evaluation(returns, lengths, returns > 0).summary()["rewarded"]["mean"]
        0.6666666666666666
        """
        found: dict[str, Any] = {
            "episodes": len(self.returns),
            "return": _mean(self.returns),
            "length": _mean(self.lengths),
            "terminated": _share(self.terminated),
            "rewarded": _share(self.returns > 0.0),
        }
        if self.success is not None:
            found["success"] = _share(self.success)
        return found


class CachedPolicy:
    """A deterministic policy that remembers its action in each percept.

    >>> class Brightest:
    ...     def predict(self, observation):
    ...         print("predicting")
    ...         return np.int64(observation.max()), None
    >>> cached, image = CachedPolicy(Brightest()), np.full((8, 8, 3), 2, np.uint8)
    >>> int(cached.predict(image)[0]), int(cached.predict(image)[0])
    predicting
    (2, 2)
    """

    def __init__(self, policy: Predictor) -> None:
        self._policy = policy
        self._known: dict[tuple[bytes, ...], Ints] = {}

    def predict(self, observation: Any) -> tuple[Ints, Any]:
        """Return the action for one percept."""
        percept = as_percept(observation)
        parts = images_of(percept)
        key = tuple(digest_of(np.ascontiguousarray(parts[name])) for name in sorted(parts))
        if key not in self._known:
            self._known[key] = self._policy.predict(percept)[0]
        return self._known[key], None


def evaluate(
    policy: Predictor,
    env: gymnasium.Env[Any, Any],
    *,
    episodes: int = 100,
    seed: int = 1000,
    max_steps: int = MAX_STEPS,
    on_episode: Callable[[], None] | None = None,
) -> Evaluation:
    """Run a policy in an environment and return the outcome of each episode.

    Args:
        policy: A policy with the ``predict`` method of Stable-Baselines3.
        env: The environment.
        episodes: The number of episodes.
        seed: The seed of the environment's first reset.
        max_steps: The number of steps after which an episode is truncated.
        on_episode: Called after each episode.
    """
    if episodes < 1:
        raise ValueError(f"episodes of evaluate must be at least 1; got {episodes}.")
    if isinstance(policy, AnyPolicy):
        check_compatible(policy, env)
        policy = CachedPolicy(policy)
    rows: list[tuple[float, int, bool]] = []
    successes: list[bool] = []
    n_truncated = 0
    for number in range(episodes):
        observation, info = reset(env, seed if number == 0 else None)
        total, steps, ends, cut = 0.0, 0, False, False
        while not (ends or cut) and steps < max_steps:
            action = np.asarray(policy.predict(observation)[0]).item()
            observation, reward, ends, cut, info = step(env, action)
            total, steps = total + reward, steps + 1
        n_truncated += not (ends or cut)
        rows.append((total, steps, bool(ends)))
        success = info.get("is_success", info.get("success"))
        if success is not None:
            successes.append(bool(success))
        if on_episode is not None:
            on_episode()
    if n_truncated:
        log.warning(
            "%d of %d episodes did not end within %d steps and were truncated. Give the "
            "environment a limit, for example by gymnasium.wrappers.TimeLimit.",
            n_truncated, episodes, max_steps,
        )  # fmt: skip
    returns, lengths, terminated = zip(*rows, strict=True)
    return Evaluation(
        np.asarray(returns, np.float64),
        np.asarray(lengths, np.int64),
        np.asarray(terminated, np.bool_),
        np.asarray(successes, np.bool_) if len(successes) == episodes else None,
    )


def check_compatible(policy: AnyPolicy, env: gymnasium.Env[Any, Any]) -> None:
    """Raise a ValueError unless an environment has the actions and the images of a policy."""
    space = env.action_space
    start, n = policy.action_start, policy.n_actions
    if not (isinstance(space, gymnasium.spaces.Discrete) and (space.start, space.n) == (start, n)):
        raise ValueError(
            f"The actions of the environment must be those of the policy, {start} to "
            f"{start + n - 1}; got {space}. Was it learned in another environment?"
        )
    shapes = shapes_of(env.observation_space)
    if {camera: shapes.get(camera) for camera in policy.shapes} != dict(policy.shapes):
        raise ValueError(
            f"The images of the environment must be those of the policy, "
            f"{_format_shapes(policy.shapes)}; got {_format_shapes(shapes)}. Make the environment "
            "with the same options: --wrap, --render, --size, --frames, --arg."
        )


def _format_shapes(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the shapes of images as text, with the names of the cameras if they have any."""
    if not shapes:
        return "no images"
    return ", ".join(
        f"{f'{camera} ' if camera else ''}{' × '.join(map(str, shape))}"
        for camera, shape in sorted(shapes.items())
    )


def _mean(values: NDArray[Any]) -> dict[str, Any]:
    """Return the mean and its interval by Student's t, a point if all values are equal."""
    from scipy import stats  # slow to import

    mean, n = float(np.mean(values)), len(values)
    if n == 1:
        return {"mean": mean, "low": None, "high": None}
    spread = float(np.std(values, ddof=1))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) * spread) / n**0.5
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _share(hits: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a share and its Wilson score interval."""
    from scipy import stats

    low, high = stats.binomtest(int(hits.sum()), len(hits)).proportion_ci(CONFIDENCE, "wilson")
    return {"mean": float(hits.mean()), "low": float(low), "high": float(high)}
