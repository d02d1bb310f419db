"""The folder of a run: checks before it begins, and its results in the end."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import Any, Final

from rlvc._core.atomic import atomic_write
from rlvc._core.lock import LOCK_FILE
from rlvc.data.io.image_files import encode
from rlvc.errors import ImageError
from rlvc.runs.checkpoint import ASIDE, FOLDER
from rlvc.runs.examples import FILE as EXAMPLES
from rlvc.runs.run import POLICY, Outcome

log = logging.getLogger(__name__)

RESULT: Final = "result.json"


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that already holds results, unless they may be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give --out the name of a folder.")
    if (folder / RESULT).exists() and not overwrite:
        raise ValueError(
            f"{folder} holds a run already; give another folder with --out, or add --overwrite."
        )


def check_foreign_files(folder: Path) -> None:
    """Refuse a folder that holds any files but those of an interrupted run."""
    known = (FOLDER, ASIDE, LOCK_FILE)
    if others := sorted(path.name for path in folder.iterdir() if path.name not in known):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise ValueError(
            f"{folder} holds {others[0]}{more}, and a run may write over it; give a new folder "
            "with --out, or add --overwrite."
        )


def prepare_folder(folder: Path) -> None:
    """Create the folder of a run; refuse one that is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:  # fail now, and not after the work is done
            file.write(b"probe")
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written to ({error.strerror}); give another folder with --out."
        ) from error


def write_run(outcome: Outcome[Any], folder: Path) -> None:
    """Write policies, figures, examples, a percept to explain, and finally the numbers.

    ``policy.rlvc`` is the policy to act with: the forest, if one was grown; a second file then
    holds the policy of the single classifier. A folder with ``result.json`` counts as finished, so
    that of an earlier run is removed first.
    """
    task = outcome.task
    for old in (folder / RESULT, folder / task.classifier_file, *folder.glob("percept*.png")):
        old.unlink(missing_ok=True)  # of an earlier run
    outcome.best.save(folder / POLICY)
    if outcome.forest is not None:
        outcome.policy.save(folder / task.classifier_file)
    for variant, name in task.extra_files.items():
        outcome.policies[variant].save(folder / name)
    try:
        for name, png in task.figures(outcome):
            atomic_write(folder / name, png)
        if examples := task.examples(outcome):
            examples.save(folder / EXAMPLES)
        for camera, image in task.sample_percept(outcome).items():
            atomic_write(folder / task.percept_file(camera), encode(image))
    except ImageError as error:  # the images of a dataset on disk may be gone
        log.warning("Figures of percepts are left out: %s", error)
    text = json.dumps(outcome.result, indent=1, ensure_ascii=False)
    atomic_write(folder / RESULT, text.encode())
