"""Read Minari datasets, and write them without loss.

Minari stores images as JPEG by default, which moves and adds interest points: rlvc warns of that.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rlvc._core.arrays import Ints
from rlvc._core.atomic import (
    check_place,
    check_space,
    explain_os_errors,
    missing_folders,
    remove_empty,
)
from rlvc._core.registry import import_extra
from rlvc.data.interactions import Interactions
from rlvc.data.observations import add_observations
from rlvc.data.percepts import Percept, Percepts
from rlvc.data.spaces import check_images, is_image_space, parts_of, warn_of_ignored_entries
from rlvc.data.validation import (
    ACTIONS_CURE,
    ProblemCollector,
    check_actions,
    check_episodes,
    find_bad_rewards,
    find_out_of_range,
    warn_if_suspicious,
)
from rlvc.errors import DataError, unknown_name

log = logging.getLogger(__name__)

NAMES = "rlvc_action_names"  # the metadata entry with the names of the actions


def read_minari(dataset: Any, *, on_episode: Callable[[], None] = lambda: None) -> Interactions:
    """Return the interactions of a Minari dataset.

    Args:
        dataset: The id of a local dataset, such as ``maze/random-v0``, or the dataset itself.
        on_episode: Called after each episode.

    Raises:
        DataError: It lists all errors of the dataset.
        ModuleNotFoundError: Minari is not installed.
    """
    minari = import_minari()
    from minari.dataset.minari_storage import is_image_space as is_compressed

    if isinstance(dataset, str):
        dataset = _load(minari, dataset)
    space, observation_space = dataset.action_space, dataset.observation_space
    if not isinstance(space, spaces.Discrete):
        cure = "This method chooses among a list of actions."
        raise TypeError(f"The action space of the dataset must be Discrete; got {space}. {cure}")
    check_images(observation_space, "dataset")
    metadata, parts = dataset.storage.metadata, parts_of(observation_space).values()
    if metadata.get("jpeg_encoding", True) and any(map(is_compressed, parts)):
        log.warning(
            "The images of this dataset are stored as JPEG, which changes the features that they "
            "show: a policy may not recognise the images of its environment. Collect it again with "
            "`rlvc collect`, or with jpeg_encoding=False where Minari writes it."
        )
    warn_of_ignored_entries(observation_space)
    problems = ProblemCollector(f"minari:{metadata.get('dataset_id', '')}")
    names = tuple(map(str, metadata.get(NAMES, ())))
    problems.add(*check_actions(int(space.n), names))
    percepts, rows = Percepts(), list[tuple[Any, ...]]()
    for number, episode in _read_episodes(dataset, problems):
        shown = _add_percepts(episode, observation_space, percepts, problems, f"episode {number}")
        _check_episode(number, episode, space, problems)
        rows += zip(
            shown[:-1], np.asarray(episode.actions, np.int64) - int(space.start), episode.rewards,
            shown[1:], [number] * len(shown), episode.terminations, episode.truncations,
            strict=False,  # different lengths are among the problems
        )  # fmt: skip
        on_episode()
    if not rows:
        problems.add("There are no episodes.")
    if problems:
        raise problems.error()
    found = Interactions.from_rows(percepts, rows, space, names)
    warn_if_suspicious(found)
    return found


def _read_episodes(dataset: Any, problems: ProblemCollector) -> Iterator[tuple[int, Any]]:
    """Yield the episodes one by one; add a problem if one cannot be read."""
    number = -1
    try:
        for number, episode in enumerate(dataset.iterate_episodes()):
            yield number, episode
    except (OSError, KeyError, RuntimeError, TypeError, ValueError, AssertionError) as error:
        # HDF5 and Minari raise any of these if a file is damaged.
        cure = "Get the dataset again from its source."
        problems.add(f"damaged: episode {number + 1} cannot be read ({error}). {cure}")


def _add_percepts(
    episode: Any, space: Any, percepts: Percepts, problems: ProblemCollector, whose: str
) -> Ints:
    """Return the numbers of the percepts of an episode; add their problems."""
    shown, n, errors = episode.observations, len(episode.actions), list[Exception]()
    if isinstance(space, spaces.Dict):
        shown = {name: shown[name] for name, part in space.spaces.items() if is_image_space(part)}
    numbers, _ = add_observations(percepts, {"observations": shown}, errors, "step")
    problems.add(*(f"{whose}: {error}" for error in errors))
    if (got := len(numbers)) != n + 1:
        problems.add(f"{whose} must have one observation more than its {n} actions; got {got}.")
    return numbers[:, 0]


def _check_episode(
    number: int, episode: Any, space: spaces.Discrete, problems: ProblemCollector
) -> None:
    """Add the problems of an episode's columns."""
    names = ("actions", "rewards", "terminations", "truncations")
    columns = {name: np.asarray(getattr(episode, name)) for name in names}
    action, reward, terminated, truncated = columns.values()
    flaws = [("reward", reward, flaw) for flaw in find_bad_rewards(reward)]
    is_outside = find_out_of_range(action, int(space.start), int(space.n), ACTIONS_CURE)
    for name, values, (demand, is_wrong, cure) in (*flaws, ("action", action, is_outside)):
        steps, fact = np.flatnonzero(is_wrong), f"{name} is not {demand}"
        problems.at(fact, steps, values[steps], cure=cure, episode=number)
    whose = f"episode {number}"
    if len(set(map(len, columns.values()))) > 1:
        counts = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
        problems.add(f"{whose} must have the same number of each; got {counts}.")
    elif len(action) == 0:
        problems.add(f"{whose} has no steps.")
    else:
        ends = terminated | truncated
        if not ends[-1]:
            problems.add(f"{whose} has no end: its last step is neither terminated nor truncated.")
        fact = "terminated or truncated is true before the last step,"
        problems.at(fact, np.flatnonzero(ends[:-1]), episode=number)


def write_minari(
    interactions: Interactions,
    dataset_id: str,
    *,
    description: str = "",
    on_episode: Callable[[], None] = lambda: None,
) -> None:
    """Write interactions to a new Minari dataset, without loss.

    Args:
        interactions: Whole episodes; each must have an end.
        dataset_id: A name and a version, optionally in namespaces, such as ``maze/random-v0``.
        description: A description of the data.
        on_episode: Called after each episode.
    """
    minari = import_minari()
    check_minari_id(dataset_id)
    if problems := check_episodes(interactions):
        raise DataError("The database", problems)
    for name in interactions.percepts.cameras:
        if "/" in name or name == ".":
            fact = "The names of cameras must be without a slash to be written to Minari"
            raise ValueError(f"{fact}; got {name!r}.")
    folder = _folder(dataset_id)
    created = missing_folders(folder.parent)
    actions = spaces.Discrete(interactions.n_actions, start=interactions.action_start)
    with explain_os_errors(folder), warnings.catch_warnings(), ExitStack() as undo:
        undo.callback(_remove, folder, created)
        # HDF5 may crash on a full disk, so the space is checked first.
        check_space(created[-1].parent if created else folder.parent, largest_size(interactions))
        warnings.simplefilter("ignore", UserWarning)  # about missing authors and links
        dataset = minari.create_dataset_from_buffers(
            dataset_id, _buffers(interactions, on_episode), action_space=actions,
            observation_space=_space(interactions.percepts[0]),
            description=description or "Interactions collected by rlvc",
            algorithm_name="rlvc", jpeg_encoding=False,
        )  # fmt: skip
        if interactions.action_names:
            dataset.storage.update_metadata({NAMES: list(interactions.action_names)})
        undo.pop_all()


def check_minari_id(dataset_id: str) -> None:
    """Raise a ValueError unless an id is valid and new, an OSError unless it is writable."""
    import_minari()
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):
        raise ValueError(
            "The id of a Minari dataset must be NAME-vVERSION, with optional namespaces before "
            f"it, such as maze/random-v0; got {dataset_id!r}."
        ) from None
    folder = _folder(dataset_id)
    if folder.exists():
        raise ValueError(
            f"There is a Minari dataset {dataset_id} already, and datasets are not overwritten. "
            f"Choose another id, or remove it with: minari delete {dataset_id}"
        )
    check_place(folder)


def import_minari() -> Any:
    """Return the minari package, or say how to install it."""
    return import_extra("minari", "h5py", "minari")  # Minari needs h5py for its datasets


def _load(minari: Any, dataset_id: str) -> Any:
    folder = _folder(dataset_id)
    try:
        return minari.load_dataset(dataset_id)
    except ValueError as error:
        if not folder.exists():
            raise
        raise DataError(f"minari:{dataset_id}", [f"It is damaged: {error}"]) from error
    except FileNotFoundError:
        known = list(minari.list_local_datasets())
        if not known:
            raise ValueError(
                f"There is no local Minari dataset {dataset_id!r}, nor any other. Get one with: "
                f"minari download {dataset_id}"
            ) from None
        raise unknown_name("Minari dataset", dataset_id, known) from None


def _buffers(interactions: Interactions, on_episode: Callable[[], None]) -> Iterator[Any]:
    """Yield the episodes as Minari takes them, one at a time: they may not all fit in memory."""
    from minari.data_collector import EpisodeBuffer

    ends = np.flatnonzero(interactions.is_last) + 1
    for rows in np.split(np.arange(len(interactions)), ends[:-1]):
        numbers = [*interactions.start[rows], interactions.end[rows[-1]]]
        shown: Any = [interactions.percepts[int(number)] for number in numbers]
        if isinstance(shown[0], Mapping):
            shown = {name: [one[name] for one in shown] for name in shown[0]}
        yield EpisodeBuffer(
            observations=shown,
            actions=list(interactions.action[rows] + interactions.action_start),
            rewards=list(interactions.reward[rows]),
            terminations=list(interactions.terminated[rows]),
            truncations=list(interactions.truncated[rows]),
        )
        on_episode()


def _space(percept: Percept) -> spaces.Space[Any]:
    """Return the space of percepts like this one."""
    if not isinstance(percept, Mapping):
        return spaces.Box(0, 255, percept.shape, np.uint8)
    return spaces.Dict({name: _space(image) for name, image in percept.items()})


def _folder(dataset_id: str) -> Path:
    from minari.storage import get_dataset_path

    with explain_os_errors(Path(os.environ.get("MINARI_DATASETS_PATH", "~/.minari/datasets"))):
        return Path(get_dataset_path(dataset_id))


def largest_size(interactions: Interactions) -> int:
    """Return an upper bound of the bytes of a dataset; HDF5 stores arrays in chunks."""
    n_episodes, n_rows = int(np.count_nonzero(interactions.is_last)), len(interactions)
    sizes = [math.prod(images.shape or ()) for images in interactions.percepts.images]
    return 2 * (sum(sizes) * (n_rows + n_episodes) + 18 * n_rows) + 2**16 * n_episodes


def _remove(folder: Path, created: list[Path]) -> None:
    """Remove a dataset and the namespaces that were created for it."""
    from minari.namespace import NAMESPACE_METADATA_FILENAME

    shutil.rmtree(folder, ignore_errors=True)
    for place in created:
        (place / NAMESPACE_METADATA_FILENAME).unlink(missing_ok=True)
        remove_empty([place])
