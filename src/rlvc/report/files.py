"""The folder of a run."""

from __future__ import annotations

import json
from pathlib import Path

import cv2

from rlvc.experiments.navigation import Run
from rlvc.report.figures import write_figures
from rlvc.storage import write_whole


def prepare_folder(folder: Path, *, overwrite: bool) -> Path:
    """Make the folder of a run; refuse one that holds results already, unless told otherwise."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give --out the name of a folder.")
    if (folder / "result.json").exists() and not overwrite:
        raise ValueError(
            f"{folder} holds a run already; give another folder with --out, or add --overwrite."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ".probe", b"")  # now, and not after the work is done
        (folder / ".probe").unlink()
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written to ({error.strerror}); give another folder with --out."
        ) from error
    return folder


def write_run(run: Run, folder: Path) -> None:
    """Write the policy, the pictures, a percept to try, and last the numbers.

    A folder without ``result.json`` is not finished, so that of an earlier run goes first.
    """
    (folder / "result.json").unlink(missing_ok=True)
    run.policy.save(folder / "policy.rlvc")
    write_figures(run, folder)
    world = run.grid.world
    percept = cv2.cvtColor(run.env.percept((world.width / 2, world.height / 2)), cv2.COLOR_RGB2BGR)
    write_whole(folder / "percept.png", cv2.imencode(".png", percept)[1].tobytes())
    text = json.dumps(run.result, indent=1, ensure_ascii=False)
    write_whole(folder / "result.json", text.encode())
