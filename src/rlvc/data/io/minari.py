"""Read Minari datasets, and write them without loss.

Minari stores images as JPEG by default, which moves and adds interest points. rlvc writes them as
they are; when it reads a dataset of JPEG images, it logs a warning.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rlvc._core.atomic import explain_os_errors
from rlvc._core.folders import check_place, check_space, missing_folders, remove_empty
from rlvc.data.interactions import Interactions
from rlvc.data.io.minari_episodes import check_episode, images_of, read_episodes, see_episode
from rlvc.data.percepts import Percept, Percepts
from rlvc.data.spaces import check_images, tell_left_out
from rlvc.data.validation import check_episodes, warn_if_suspicious
from rlvc.errors import DataError, unknown_name

log = logging.getLogger(__name__)

NAMES = "rlvc_action_names"  # the entry of the metadata for the names of the actions


def read_minari(dataset: Any, *, on_episode: Callable[[], None] | None = None) -> Interactions:
    """Return the interactions of a Minari dataset.

    Args:
        dataset: The id of a local dataset, such as ``maze/random-v0``, or the dataset itself.
        on_episode: Called after each episode.

    Raises:
        DataError: It lists all errors of the dataset.
        ModuleNotFoundError: Minari is not installed.
    """
    minari = import_minari()
    if isinstance(dataset, str):
        dataset = _load(minari, dataset)
    space = dataset.action_space
    if not isinstance(space, spaces.Discrete):
        raise TypeError(
            f"The action space of the dataset must be Discrete; got {space}. "
            "This method chooses among a list of actions."
        )
    check_images(dataset.observation_space, "dataset")
    metadata = dataset.storage.metadata
    if metadata.get("jpeg_encoding", True) and _is_jpeg(dataset.observation_space):
        log.warning(
            "The images of this dataset are stored as JPEG, which changes the features that can be "
            "seen in them: a policy may not recognise what its environment shows. Collect it again "
            "with `rlvc collect`, or with jpeg_encoding=False where Minari writes it."
        )
    tell_left_out(dataset.observation_space)
    whose = f"minari:{metadata.get('dataset_id', '')}"
    names = tuple(map(str, metadata.get(NAMES, ())))
    percepts, rows = Percepts(), list[tuple[Any, ...]]()
    problems: list[str] = []
    for number, episode in read_episodes(dataset, problems):
        problems += check_episode(number, episode, space)
        shown = images_of(episode.observations, dataset.observation_space)
        seen = see_episode(number, episode, shown, percepts, problems)
        rows += zip(
            seen[:-1], np.asarray(episode.actions, np.int64) - int(space.start), episode.rewards,
            seen[1:], [number] * len(seen), episode.terminations, episode.truncations,
            strict=False,  # other lengths are among the problems
        )  # fmt: skip
        if on_episode is not None:
            on_episode()
    if not rows:
        problems.append("There are no episodes.")
    if problems:
        raise DataError(whose, problems)
    try:
        found = Interactions.from_rows(percepts, rows, space, names)
    except ValueError as error:
        raise DataError(whose, str(error).split("\n"), "rows are counted from 0") from error
    warn_if_suspicious(found)
    return found


def write_minari(
    interactions: Interactions,
    dataset_id: str,
    *,
    description: str = "",
    on_episode: Callable[[], None] | None = None,
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
    problems = check_episodes(interactions)
    if problems:
        raise DataError("The database", problems)
    _check_cameras(interactions.percepts.cameras)
    buffers = _buffers(interactions, on_episode)
    folder = _folder(dataset_id)
    created = missing_folders(folder.parent)
    actions = spaces.Discrete(interactions.n_actions, start=interactions.action_start)
    with explain_os_errors(folder), _remove_after_error(folder, created), warnings.catch_warnings():
        # HDF5 may crash on a full disk, so the space is checked first.
        check_space(created[-1].parent if created else folder.parent, largest_size(interactions))
        warnings.simplefilter("ignore", UserWarning)  # about missing authors and links
        dataset = minari.create_dataset_from_buffers(
            dataset_id, buffers, action_space=actions,
            observation_space=_space(interactions.percepts[0]),
            description=description or "Interactions collected by rlvc",
            algorithm_name="rlvc", jpeg_encoding=False,
        )  # fmt: skip
        if interactions.action_names:
            dataset.storage.update_metadata({NAMES: list(interactions.action_names)})


def check_minari_id(dataset_id: str) -> None:
    """Raise a ValueError unless an id is valid and new, an OSError unless it can be written."""
    import_minari()
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):
        raise ValueError(
            "The id of a Minari dataset must read NAME-vVERSION, with optional namespaces before "
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
    try:
        import h5py  # noqa: F401 - Minari needs it for its datasets
        import minari
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{error.name} is not installed; install it with: pip install "rlvc[minari]".'
        ) from error
    return minari


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


def _buffers(interactions: Interactions, on_episode: Callable[[], None] | None) -> Iterator[Any]:
    """Yield the episodes as Minari takes them, one at a time, as they may not fit in memory."""
    from minari.data_collector import EpisodeBuffer

    ends = np.flatnonzero(interactions.is_last) + 1
    for rows in map(np.arange, np.concatenate([[0], ends[:-1]]), ends):
        numbers = [*interactions.start[rows], interactions.end[rows[-1]]]
        shown = _stack([interactions.percepts[int(number)] for number in numbers])
        yield EpisodeBuffer(
            observations=shown,
            actions=list(interactions.action[rows] + interactions.action_start),
            rewards=list(interactions.reward[rows]),
            terminations=list(interactions.terminated[rows]),
            truncations=list(interactions.truncated[rows]),
        )
        if on_episode is not None:
            on_episode()


def _stack(shown: list[Any]) -> Any:
    """Return the percepts of an episode, camera by camera if there are several."""
    if isinstance(shown[0], Mapping):
        return {name: [one[name] for one in shown] for name in shown[0]}
    return shown


def _space(percept: Percept) -> spaces.Space[Any]:
    """Return the space of such percepts."""
    if not isinstance(percept, Mapping):
        return spaces.Box(0, 255, percept.shape, np.uint8)
    return spaces.Dict({name: _space(image) for name, image in percept.items()})


def _is_jpeg(space: spaces.Space[Any]) -> bool:
    """Tell whether Minari would store observations as compressed images."""
    from minari.dataset.minari_storage import is_image_space

    parts = space.spaces.values() if isinstance(space, spaces.Dict) else [space]
    return any(map(is_image_space, parts))


def _check_cameras(cameras: tuple[str, ...]) -> None:
    for camera in cameras:
        if "/" in camera or camera == ".":
            raise ValueError(
                "The names of cameras must be without a slash to be written to Minari; "
                f"got {camera!r}."
            )


def _folder(dataset_id: str) -> Path:
    from minari.storage import get_dataset_path

    with explain_os_errors(Path(os.environ.get("MINARI_DATASETS_PATH", "~/.minari/datasets"))):
        return Path(get_dataset_path(dataset_id))


def largest_size(interactions: Interactions) -> int:
    """Return the largest size that a dataset may have; HDF5 stores arrays in chunks."""
    n_episodes, n_rows = int(np.count_nonzero(interactions.is_last)), len(interactions)
    sizes = [math.prod(images.shape or ()) for images in interactions.percepts.images]
    return 2 * (sum(sizes) * (n_rows + n_episodes) + 18 * n_rows) + 2**16 * n_episodes


@contextmanager
def _remove_after_error(folder: Path, created: list[Path]) -> Iterator[None]:
    """Remove the dataset and its namespaces after an error."""
    from minari.namespace import NAMESPACE_METADATA_FILENAME

    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        for place in created:
            (place / NAMESPACE_METADATA_FILENAME).unlink(missing_ok=True)
            remove_empty([place])
        raise
