"""A policy at work in an environment, frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import cv2
import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlvc.data.batches import one_percept
from rlvc.data.images import Image, as_image
from rlvc.data.observations import as_percept
from rlvc.data.steps import reset, step
from rlvc.policies.forest import AnyPolicy
from rlvc.report.video.frames import EpisodeStep, draw_frame, in_words, name_of

HOLD: Final = 2.0  # seconds that the end of an episode is shown
ALIKE: Final = 0.5  # deviation of two images of the same thing, by that of the pixels of one


def play(
    policy: AnyPolicy,
    env: gymnasium.Env[Any, Any],
    *,
    episodes: int = 1,
    seed: int = 0,
    max_steps: int | None = None,
    fps: float = 4.0,
    on_frame: Callable[[], None] | None = None,
) -> Iterator[NDArray[np.uint8]]:
    """Let a policy act, and yield the frames of a film of it, each (720, 1280, 3) RGB.

    A frame shows what the agent perceives, with the features that were seen and decided, the tests
    or the vote, and the values of the actions. There is one for each decision, and at the end of an
    episode one that is held for two seconds. If the environment renders RGB arrays, and they show
    something else than what the agent perceives, they are in the frames as well. The environment is
    left open.

    Args:
        policy: Who acts.
        env: Its observations are percepts of the policy.
        episodes: How many episodes to play.
        seed: Of the environment.
        max_steps: After how many steps an episode is cut off; None if only the environment does so.
        fps: How many frames the film will show in a second.
        on_frame: Called for each frame.
    """
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if value is not None and value < 1:
            raise ValueError(f"{name} of play must be at least 1; got {value}.")
    if not fps > 0.0:
        raise ValueError(f"fps of play must be more than 0; got {fps}.")

    moments = _moments(policy, env, episodes, seed, max_steps)
    return _frames(policy, moments, max(round(HOLD * fps), 1), on_frame)


def _frames(
    policy: AnyPolicy,
    moments: Iterator[EpisodeStep],
    lock_folder: int,
    on_frame: Callable[[], None] | None,
) -> Iterator[NDArray[np.uint8]]:
    """Draw moments, the end of an episode more than once."""
    for moment in moments:
        frame = draw_frame(policy, moment)
        for _ in range(lock_folder if moment.decision is None else 1):
            if on_frame is not None:
                on_frame()
            yield frame


def _moments(
    policy: AnyPolicy,
    env: gymnasium.Env[Any, Any],
    episodes: int,
    seed: int,
    max_steps: int | None,
) -> Iterator[EpisodeStep]:
    """Play some episodes."""
    task, shows_more = f"{env.spec.id}, " if env.spec else "", False
    for episode in range(1, episodes + 1):
        observation, _ = reset(env, int(seed) if episode == 1 else None)
        if episode == 1:  # once, for the parts of a frame must not jump about
            shown = one_percept(as_percept(observation), policy.shapes)
            shows_more = _shows_more(env, shown.values())
        title = f"{task}episode {episode} of {episodes}"
        yield from _episode(policy, env, observation, title, shows_more, max_steps)


def _episode(
    policy: AnyPolicy,
    env: gymnasium.Env[Any, Any],
    observation: Any,
    title: str,
    shows_more: bool,
    max_steps: int | None,
) -> Iterator[EpisodeStep]:
    """Yield every decision before it is carried out, and then the end."""
    actions: list[str] = []
    reward, total, has_ended, is_cut_off = 0.0, 0.0, False, False
    while True:
        percept = as_percept(observation)
        images = one_percept(percept, policy.shapes)
        world = _rendering(env) if shows_more else None
        now = EpisodeStep(images, None, title, tuple(actions), total, reward, world=world)
        if has_ended or is_cut_off or len(actions) == max_steps:
            steps = f"{len(actions)} step{'s' if len(actions) > 1 else ''}"
            how = "Ended" if has_ended else "Cut off"
            yield replace(now, ending=f"{how} after {steps}, return {in_words(total)}")
            return
        decision = policy.explain(percept)
        yield replace(now, decision=decision)
        observation, reward, has_ended, is_cut_off, _ = step(env, decision.action)
        total += reward
        actions.append(name_of(decision))


def _rendering(env: gymnasium.Env[Any, Any]) -> Image:
    return as_image(env.render(), "the rendering")


def _shows_more(env: gymnasium.Env[Any, Any], images: Iterable[Image]) -> bool:
    """Tell whether an environment renders something else than what the agent perceives."""
    if env.render_mode != "rgb_array":
        return False
    world = _rendering(env)
    return not any(_is_alike(world, image) for image in images)


def _is_alike(world: Image, image: Image) -> bool:
    """Tell whether two images show the same, perhaps in another size."""
    height, width, channels = image.shape
    ratio = world.shape[1] / world.shape[0] / (width / height)
    if channels != world.shape[2] or not 0.98 < ratio < 1.02:
        return False
    same = cv2.resize(world, (width, height), interpolation=cv2.INTER_AREA).reshape(image.shape)
    return bool(np.std(same - image.astype(np.float64)) <= ALIKE * np.std(image))
