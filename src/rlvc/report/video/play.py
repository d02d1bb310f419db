"""Let a policy act in an environment, and draw each of its decisions as a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from rlvc.data.collect import Env, reset, step
from rlvc.data.images import Image, as_image
from rlvc.data.observations import as_percept, one_percept
from rlvc.policies.forest import AnyPolicy
from rlvc.report.video.frames import EpisodeStep, action_in_words, draw_frame, format_number

HOLD: Final = 2.0  # seconds for which the end of an episode is shown
ALIKE: Final = 0.5  # largest deviation of two equal views, relative to that of one's pixels


def play(
    policy: AnyPolicy,
    env: Env,
    *,
    episodes: int = 1,
    seed: int = 0,
    max_steps: int | None = None,
    fps: float = 4.0,
    on_frame: Callable[[], None] | None = None,
) -> Iterator[NDArray[np.uint8]]:
    """Let a policy act, and yield the frames of a video of it, each (720, 1280, 3) RGB.

    A frame shows what the agent perceives, with the features that were seen and decided, the tests
    or the vote, and the values of the actions. There is one for each decision, and one at the end
    of an episode that is held for two seconds. If the environment renders RGB arrays that differ
    from what the agent perceives, the frames show these as well. The environment is left open.

    Args:
        policy: The policy.
        env: An environment whose observations are percepts of the policy.
        episodes: The number of episodes.
        seed: The seed of the environment.
        max_steps: Truncate an episode after this many steps; None leaves that to the environment.
        fps: Frames per second of the video.
        on_frame: Called for each frame.
    """
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if value is not None and value < 1:
            raise ValueError(f"{name} of play must be at least 1; got {value}.")
    if not fps > 0.0:
        raise ValueError(f"fps of play must be more than 0; got {fps}.")

    def frames() -> Iterator[NDArray[np.uint8]]:
        for one in _play_episodes(policy, env, episodes, seed, max_steps):
            frame = draw_frame(policy, one)
            for _ in range(max(round(HOLD * fps), 1) if one.decision is None else 1):
                if on_frame is not None:
                    on_frame()
                yield frame

    return frames()


def _play_episodes(
    policy: AnyPolicy, env: Env, episodes: int, seed: int, max_steps: int | None
) -> Iterator[EpisodeStep]:
    """Yield each decision of some episodes before it is carried out, and the end of each."""
    task, shows_more = f"{env.spec.id}, " if env.spec else "", False
    for episode in range(1, episodes + 1):
        observation, _ = reset(env, int(seed) if episode == 1 else None)
        if episode == 1:  # only once, so that all frames have the same layout
            shown = one_percept(as_percept(observation), policy.shapes)
            shows_more = _shows_more(env, shown.values())
        title, actions = f"{task}episode {episode} of {episodes}", list[str]()
        reward, total, has_ended, is_cut_off = 0.0, 0.0, False, False
        while True:
            percept = as_percept(observation)
            images = one_percept(percept, policy.shapes)
            world = as_image(env.render(), "the rendering") if shows_more else None
            now = EpisodeStep(images, None, title, tuple(actions), total, reward, world=world)
            if has_ended or is_cut_off or len(actions) == max_steps:
                break
            decision = policy.explain(percept)
            yield replace(now, decision=decision)
            observation, reward, has_ended, is_cut_off, _ = step(env, decision.action)
            total += reward
            actions.append(action_in_words(decision))
        steps = f"{len(actions)} step{'s' if len(actions) > 1 else ''}"
        how = "Ended" if has_ended else "Cut off"
        yield replace(now, ending=f"{how} after {steps}, return {format_number(total)}")


def _shows_more(env: Env, images: Iterable[Image]) -> bool:
    """Tell whether the rendering of an environment differs from what the agent perceives."""
    if env.render_mode != "rgb_array":
        return False
    world = as_image(env.render(), "the rendering")
    return not any(_is_alike(world, image) for image in images)


def _is_alike(world: Image, image: Image) -> bool:
    """Tell whether two images show the same view, perhaps in different sizes."""
    height, width, channels = image.shape
    ratio = world.shape[1] / world.shape[0] / (width / height)
    if channels != world.shape[2] or not 0.98 < ratio < 1.02:
        return False
    same = cv2.resize(world, (width, height), interpolation=cv2.INTER_AREA).reshape(image.shape)
    return bool(np.std(same - image.astype(np.float64)) <= ALIKE * np.std(image))
