"""Where the interactions of a custom task come from: an environment, or data of some format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvc.data.interactions import Interactions
from rlvc.data.io.folder import read_folder
from rlvc.data.io.minari import read_minari
from rlvc.data.io.npz import read_arrays
from rlvc.runs.callbacks import Callback

MINARI = "minari:"
DATA_FILES = (".npz", ".csv", ".parquet")


def is_data(source: str) -> bool:
    """Return whether a source names data, not an environment.

    >>> [is_data(source) for source in ("minari:maze/random-v0", "log.npz", "logs/", "CartPole-v1")]
    [True, True, True, False]
    """
    begins, ends = (MINARI, "/", "./", "../", "~"), ("/", *DATA_FILES)
    return source.startswith(begins) or source.endswith(ends) or Path(source).exists()


def read_data(
    source: str,
    *,
    n_actions: int | None = None,
    action_start: int | None = None,
    action_names: tuple[str, ...] = (),
    callback: Callback | None = None,
    lazy: bool = False,
) -> Interactions:
    """Return the interactions of a Minari dataset, a folder with a table, or a file of arrays.

    With ``lazy``, images in files of their own are read when they are needed.

    Raises:
        DataError: The data are invalid; the message lists all problems.
    """
    callback = callback or Callback()
    callback.on_phase("read", None)
    if source.startswith(MINARI):
        return read_minari(source.removeprefix(MINARI), on_episode=callback.on_step)
    known: dict[str, Any] = {"n_actions": n_actions, "action_names": action_names}
    if source.endswith(".npz"):
        return read_arrays(source, action_start=action_start or 0, **known)
    return read_folder(
        source, on_image=callback.on_step, action_start=action_start, lazy=lazy, **known
    )
