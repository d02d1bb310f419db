"""Read the episodes of a Minari dataset one by one, and check each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from rlvc.data.observations import as_percept, rows_of
from rlvc.data.percepts import Percepts
from rlvc.data.spaces import shows
from rlvc.data.validation import LARGE, SMALL, name_rows


def read_episodes(dataset: Any, problems: list[str]) -> Iterator[tuple[int, Any]]:
    """Yield the episodes one by one; add a problem if one cannot be read."""
    number = -1
    try:
        for number, episode in enumerate(dataset.iterate_episodes()):
            yield number, episode
    except (OSError, KeyError, RuntimeError, TypeError, ValueError, AssertionError) as error:
        # HDF5 and Minari raise any of these if a file is damaged.
        problems.append(
            f"damaged: episode {number + 1} cannot be read ({error}). "
            "Get the dataset again from where it was."
        )


def see_episode(
    number: int, episode: Any, shown: Any, percepts: Percepts, problems: list[str]
) -> list[int]:
    """Return the numbers of the percepts of an episode, and add their problems."""
    seen, unfit = list[int](), dict[str, list[int]]()
    try:
        for step, one in enumerate(rows_of(shown)):
            try:
                seen.append(percepts.add(as_percept(one)))
            except (TypeError, ValueError) as error:
                unfit.setdefault(str(error), []).append(step)
                seen.append(-1)
    except ValueError as error:
        problems.append(f"episode {number}: {error}")
    if len(seen) != len(episode.actions) + 1:
        problems.append(
            f"episode {number} must have one observation more than its {len(episode.actions)} "
            f"actions; got {len(seen)}."
        )
    for fact, steps in unfit.items():
        where = name_rows(steps).replace("row", "step")
        problems.append(f"observations in {where} of episode {number}: {fact}")
    return seen


def images_of(observations: Any, space: spaces.Space[Any]) -> Any:
    """Return the images among the observations of an episode."""
    if not isinstance(space, spaces.Dict):
        return observations
    return {name: observations[name] for name, part in space.spaces.items() if shows(part)}


def check_episode(number: int, episode: Any, space: spaces.Discrete) -> Iterator[str]:
    """Yield all errors of an episode, with steps counted from 0."""
    rewards, actions = np.asarray(episode.rewards), np.asarray(episode.actions)
    for step in np.flatnonzero(~np.isfinite(rewards)):
        yield f"reward is not finite in step {step} of episode {number} ({rewards[step]})."
    size = np.abs(rewards)
    for step in np.flatnonzero(
        np.isfinite(rewards) & (size > 0) & ((size > LARGE) | (size < SMALL))
    ):
        yield (
            f"reward is neither 0 nor between 1e-100 and 1e100 in size in step {step} of episode "
            f"{number} ({rewards[step]}). Scale the rewards: policies do not change."
        )
    is_wrong = (actions < space.start) | (actions >= space.start + space.n)
    for step in np.flatnonzero(is_wrong):
        yield (
            f"action must be in {space.start}..{space.start + space.n - 1}; got {actions[step]} in "
            f"step {step} of episode {number}."
        )
    lengths = {
        name: len(getattr(episode, name))
        for name in ("actions", "rewards", "terminations", "truncations")
    }
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{n} {name}" for name, n in lengths.items())
        yield f"episode {number} must have as many of each; got {counts}."
        return
    ends = np.asarray(episode.terminations) | np.asarray(episode.truncations)
    if len(ends) == 0:
        yield f"episode {number} has no steps."
        return
    if not ends[-1]:
        yield f"episode {number} has no end: its last step is neither terminated nor truncated."
    for step in np.flatnonzero(ends[:-1]):
        yield f"episode {number} goes on after its end in step {step}."
