"""A log of camera frames as a folder: image files and one table, CSV or Parquet.

The table has the columns ``episode, step, image, action, reward, terminated, truncated``: an image,
the action taken then, the reward after it, and whether the episode ended with it. The last row of
an episode has only the last image. With several cameras, each has a column ``image.NAME``. The
optional file ``actions.txt`` beside the table has a line for each action: its number and, if it has
one, its name. Folders that rlvc writes also have a file ``SHA256SUMS``, a checksum of each file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlvc._core.atomic import atomic_folder, check_place, explain_os_errors
from rlvc.data.interactions import Interactions
from rlvc.data.io.checksums import ChecksumWriter, open_folder
from rlvc.data.io.episodes import read_episodes
from rlvc.data.io.image_files import OnImage, read_percepts, write_images
from rlvc.data.io.table import (
    ACTIONS_FILE,
    SUFFIXES,
    encode_table,
    find_table,
    import_pyarrow,
    read_actions,
    read_table,
)
from rlvc.data.percepts import SINGLE
from rlvc.data.validation import ProblemCollector, check_episodes, warn_if_suspicious
from rlvc.errors import unknown_name


def read_folder(
    path: str | os.PathLike[str],
    *,
    n_actions: int | None = None,
    action_start: int | None = None,
    action_names: tuple[str, ...] = (),
    on_image: OnImage = lambda: None,
    warn: bool = True,
    lazy: bool = False,
) -> Interactions:
    """Read a log of camera frames.

    Rows may be in any order: they are sorted by episode and step. Percepts are numbered as by
    :func:`rlvc.collect`, episodes 0, 1, 2… in their order. An episode that terminated may lack its
    last row, as nothing depends on that image. If one that was cut off lacks it, its last
    interaction is left out with a warning.

    Args:
        path: A folder with one table, or the table; paths in it are relative to its folder.
        n_actions: The number of actions; by default that of ``actions.txt``, or else one more than
            the highest action in use.
        action_start: The first action; by default that of ``actions.txt``, or else 0.
        action_names: The names of the actions; by default those of ``actions.txt``.
        on_image: Called after each image file that is read.
        warn: Whether to warn of valid but suspicious data.
        lazy: Whether images stay in their files and are read when needed.

    Raises:
        DataError: It lists all errors of the table, the images and ``actions.txt``.

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
    header = ", after the header" if source.suffix.lower() == ".csv" else ""
    problems = ProblemCollector(os.fspath(path), f"rows are counted from 1{header}")
    folder = open_folder(source.parent, problems)
    actions = read_actions(folder, problems).changed(n_actions, action_start, action_names)
    table = read_table(folder, source.name, problems)
    rows, columns = read_episodes(table, actions, problems)
    percepts, numbers = read_percepts(table, rows, folder, problems, on_image, lazy=lazy)
    folder.check_rest(problems)
    if problems:
        raise problems.error()
    columns |= {name: numbers[columns[name]] for name in ("start", "end")}
    found = Interactions(percepts, **columns)
    if warn:
        warn_if_suspicious(found)
    return found


def write_folder(
    interactions: Interactions,
    path: str | os.PathLike[str],
    *,
    table: str = "csv",
    on_image: OnImage = lambda: None,
) -> None:
    """Write interactions as a folder from which :func:`read_folder` reads the same ones.

    The write is atomic. When they are read, percepts and episodes are numbered in the order of
    their first occurrence; true states are not written.

    Args:
        interactions: Whole episodes, in which each interaction starts where the last one ended.
        path: A folder that does not exist yet, or is empty.
        table: The kind of the table, ``csv`` or ``parquet``.
        on_image: Called after each image that is written.
    """
    if f".{table}" not in SUFFIXES:
        raise unknown_name("table", table, [suffix.removeprefix(".") for suffix in SUFFIXES])
    if table == "parquet":
        import_pyarrow()
    if problems := check_episodes(interactions):
        listed = "\n".join(problems)
        raise ValueError(f"interactions of write_folder must be whole episodes; {listed}")
    _check_names(interactions)
    check_new_folder(path)
    with atomic_folder(path) as folder:
        _fill(folder, interactions, table, on_image)


def check_new_folder(path: str | os.PathLike[str], whose: str = "write_folder") -> None:
    """Raise an error unless a path is new, or an empty folder, and can be written to."""
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
    writer = ChecksumWriter(folder)
    files = write_images(interactions.percepts, used, folder, writer, on_image)
    episode, step, percept, *rest = zip(*_rows(interactions), strict=True)
    columns: dict[str, Sequence[Any]] = {"episode": episode, "step": step}
    columns |= {name: [file[number] for number in percept] for name, file in files.items()}
    columns |= zip(("action", "reward", "terminated", "truncated"), rest, strict=True)
    writer.write(f"interactions.{table}", encode_table(table, columns))
    first, names = interactions.action_start, interactions.action_names
    named = enumerate(names or [""] * interactions.n_actions, first)
    lines = [f"{number} {name}".rstrip() + "\n" for number, name in named]
    writer.write(ACTIONS_FILE, "".join(lines).encode())
    writer.close()


def _rows(interactions: Interactions) -> Iterator[tuple[Any, ...]]:
    """Yield the episode, step, percept, action, reward and flags of each row of the table."""
    episode = step = 0
    columns = (
        interactions.start, interactions.action + interactions.action_start, interactions.reward,
        interactions.end, interactions.terminated, interactions.truncated,
    )  # fmt: skip
    for start, action, reward, end, terminated, truncated in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield episode, step, start, action, reward, terminated, truncated
        step += 1
        if terminated or truncated:
            yield episode, step, end, None, None, None, None
            episode, step = episode + 1, 0
