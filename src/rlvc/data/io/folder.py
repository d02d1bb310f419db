"""A log of camera frames as a folder: image files and one table, CSV or Parquet.

The table has the columns ``episode, step, image, action, reward, terminated, truncated``: what was
seen, the action that was taken then, the reward that came after it, and whether the episode ended
with it. The last row of an episode has only the last image. Several cameras have a column
``image.NAME`` each instead. The file ``actions.txt`` beside the table, which need not be there, has
a line for each action: its number and, if it has one, its name. Folders that are written here have
``dataset.json`` as well: a format, a version, and a checksum of each file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlvc._core.atomic import explain_os_errors
from rlvc.data.actions import ActionSpec, read_actions, write_actions
from rlvc.data.interactions import Interactions, check_episodes
from rlvc.data.io.checksums import ChecksumWriter, read_seal
from rlvc.data.io.episodes import read_episodes
from rlvc.data.io.frames import OnImage, read_percepts, write_frames
from rlvc.data.io.places import atomic_folder, check_place
from rlvc.data.io.table import SUFFIXES, encode_table, find_table, import_pyarrow, read_table
from rlvc.data.percepts import SINGLE
from rlvc.data.problems import ProblemCollector
from rlvc.data.suspicions import tell_doubts
from rlvc.errors import unknown_name

TABLE = "interactions"


def read_folder(
    path: str | os.PathLike[str],
    *,
    n_actions: int | None = None,
    action_start: int | None = None,
    action_names: tuple[str, ...] = (),
    on_image: OnImage = None,
    doubts: bool = True,
    refer: bool = False,
) -> Interactions:
    """Read a log of camera frames.

    Rows may stand in any order: they are sorted by episode and step. Percepts are numbered as
    :func:`rlvc.collect` does, episodes 0, 1, 2… in their order. An episode that terminated may
    lack its last row: nothing depends on that image. Of one that was cut off without it, the last
    interaction is left out, and a warning says so.

    Args:
        path: A folder with one table, or the table; paths in it start from its folder.
        n_actions: How many actions there are. Unless given it is what ``actions.txt`` says, or
            else the highest action in use is the last.
        action_start: The first action; unless given, what ``actions.txt`` says, or else 0.
        action_names: How to call the actions; unless given, what ``actions.txt`` says.
        on_image: Called after each image file that is read.
        doubts: Whether to warn of what may be meant so, but rarely is.
        refer: Whether images stay in their files, to be read again when they are asked for, instead
            of in memory or in a temporary file.

    Raises:
        DataError: Anything that is wrong with the table, the images or ``actions.txt``; all of it
            is listed.

    >>> import tempfile
    >>> image = np.arange(4 * 8 * 8, dtype=np.uint8).reshape(4, 8, 8)
    >>> data = Interactions.from_arrays(
    ...     image[:3], [0, 1, 0], [0, 0, 1], [False, False, True], next_observations=image[1:]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_folder(data, f"{folder}/log")
    ...     read_folder(f"{folder}/log").end.tolist()
    [1, 2, 3]
    """
    source = find_table(path)
    is_csv = source.suffix.lower() == ".csv"
    problems = ProblemCollector(
        os.fspath(path), f"rows are counted from 1{', after the header' if is_csv else ''}"
    )
    seal = read_seal(source.parent, problems)
    known = read_actions(source.parent, seal, problems)
    actions = known.changed(n_actions, action_start, action_names)
    table = read_table(source, seal, problems)
    episodes = read_episodes(table, actions, problems)
    rows = np.empty(0, np.int64) if episodes is None else episodes.rows
    percepts, numbers = read_percepts(
        table, rows, source.parent, seal, problems, on_image, refer=refer
    )
    seal.check_rest(problems)
    if problems or episodes is None:
        raise problems.error()
    action = episodes.action - actions.start
    try:
        found = Interactions(
            percepts=percepts,
            start=numbers[episodes.start],
            action=action,
            reward=episodes.reward,
            end=numbers[episodes.end],
            episode=episodes.episode,
            terminated=episodes.terminated,
            truncated=episodes.truncated,
            n_actions=int(action.max()) + 1 if actions.n is None else actions.n,
            action_start=actions.start,
            action_names=actions.names,
        )
    except ValueError as error:  # more actions than there can be
        problems.add(str(error))
        raise problems.error() from error
    if doubts:
        tell_doubts(found)
    return found


def write_folder(
    interactions: Interactions,
    path: str | os.PathLike[str],
    *,
    table: str = "csv",
    on_image: OnImage = None,
) -> None:
    """Write interactions as a folder from which :func:`read_folder` reads the same ones.

    The folder appears whole or not at all. Percepts and episodes are numbered in the order in
    which they are met when they are read; the true states are not written.

    Args:
        interactions: They must chain: what follows in an episode starts where the last one ended.
        path: A folder that does not exist yet, or is empty.
        table: The kind of the table, ``csv`` or ``parquet``.
        on_image: Called after each image that is written.
    """
    if f".{table}" not in SUFFIXES:
        raise unknown_name("table", table, [suffix.removeprefix(".") for suffix in SUFFIXES])
    if table == "parquet":
        import_pyarrow()
    if problems := check_episodes(interactions):
        told = "\n".join(problems)
        raise ValueError(f"interactions of write_folder must be whole episodes; {told}")
    _check_names(interactions)
    check_new_folder(path)
    with atomic_folder(path) as folder:
        _fill(folder, interactions, table, on_image)


def check_new_folder(path: str | os.PathLike[str], whose: str = "write_folder") -> None:
    """Raise a ValueError unless a path is free to be written to, an OSError if it may not be."""
    target = Path(path)
    with explain_os_errors(target):
        is_free = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    if not is_free:
        raise ValueError(
            f"path of {whose} must be new or an empty folder; got {path}, which "
            f"{'holds files' if target.is_dir() else 'is a file'}."
        )
    check_place(target)


def _check_names(interactions: Interactions) -> None:
    cameras = interactions.percepts.cameras
    for name in (*interactions.action_names, *(cameras if cameras != (SINGLE,) else ())):
        if name != name.strip() or not name or "\n" in name or "\r" in name:
            raise ValueError(
                "Names of actions and cameras must be on one line, without spaces around them, "
                f"to be written; got {name!r}."
            )


def _fill(folder: Path, interactions: Interactions, table: str, on_image: OnImage) -> None:
    used = np.union1d(interactions.start, interactions.end)
    sealing = ChecksumWriter(folder)
    files = write_frames(interactions.percepts, used, folder, sealing, on_image)
    episode, step, percept, *rest = zip(*_rows(interactions), strict=True)
    columns: dict[str, Sequence[Any]] = {"episode": episode, "step": step}
    for name, file in files.items():
        columns[name] = [file[number] for number in percept]
    columns |= dict(zip(("action", "reward", "terminated", "truncated"), rest, strict=True))
    sealing.write(f"{TABLE}.{table}", encode_table(table, columns))
    names = interactions.action_names
    write_actions(sealing, ActionSpec(interactions.action_start, interactions.n_actions, names))
    sealing.close()


def _rows(interactions: Interactions) -> Iterator[tuple[Any, ...]]:
    """Yield the episode, step, percept, action, reward and flags of each row of the table."""
    episode = step = 0
    for start, action, reward, end, terminated, truncated in zip(
        interactions.start.tolist(),
        (interactions.action + interactions.action_start).tolist(),
        interactions.reward.tolist(),
        interactions.end.tolist(),
        interactions.terminated.tolist(),
        interactions.truncated.tolist(),
        strict=True,
    ):
        yield episode, step, start, action, reward, terminated, truncated
        step += 1
        if terminated or truncated:
            yield episode, step, end, None, None, None, None
            episode, step = episode + 1, 0
