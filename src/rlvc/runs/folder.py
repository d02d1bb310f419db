"""The folder of a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import cv2
from matplotlib.figure import Figure

from rlvc._core.atomic import atomic_write
from rlvc.data.images import Image
from rlvc.report.figures.curves import draw_figures
from rlvc.report.figures.style import to_png
from rlvc.tasks.campus import CampusRun
from rlvc.tasks.campus_figures import draw_campus_figures
from rlvc.tasks.hill import HillRun
from rlvc.tasks.hill_figures import draw_hill_figures
from rlvc.tasks.navigation import Run

START = (-0.5, 0.0)  # the percept to try on the hill: at rest in the valley


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds results already, unless told otherwise."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give --out the name of a folder.")
    if (folder / "result.json").exists() and not overwrite:
        raise ValueError(
            f"{folder} holds a run already; give another folder with --out, or add --overwrite."
        )


def check_strange(folder: Path, known: tuple[str, ...]) -> None:
    """Refuse a folder that holds anything else than what is known, which could get lost."""
    if others := sorted(path.name for path in folder.iterdir() if path.name not in known):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise ValueError(
            f"{folder} holds {others[0]}{more}, and a run may write over it; give a new folder "
            "with --out, or add --overwrite."
        )


def prepare_folder(folder: Path, *, overwrite: bool) -> Path:
    """Make the folder of a run; refuse one that holds results already, unless told otherwise."""
    check_folder(folder, overwrite=overwrite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:  # now, and not after the work is done
            file.write(b"probe")
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written to ({error.strerror}); give another folder with --out."
        ) from error
    return folder


def write_run(run: Run | CampusRun | HillRun, folder: Path) -> None:
    """Write the policies, the pictures, a percept to try, and last the numbers.

    ``policy.rlvc`` is what to act with: the forest, if one was learned; the policy that it would
    have been without one is then ``one.rlvc``, on the campus ``compact.rlvc``.
    A folder without ``result.json`` is not finished, so that of an earlier run goes first.
    """
    (folder / "result.json").unlink(missing_ok=True)
    percept: dict[str, Image]
    if isinstance(run, CampusRun):
        run.policies["basic"].save(folder / "basic.rlvc")
        beside, without = "compact.rlvc", run.policies["compact"]
        write_figures(draw_campus_figures(run), folder)
        percept = {"percept": run.views.image(0, run.views.test[0][0])}
    elif isinstance(run, HillRun):
        beside, without = "one.rlvc", run.policy
        write_figures(draw_hill_figures(run), folder)
        percept = run.env.percept(START)
    else:
        beside, without = "one.rlvc", run.policy
        write_figures(draw_figures(run), folder)
        world = run.grid.world
        percept = {"percept": run.env.percept((world.width / 2, world.height / 2))}
    run.best.save(folder / "policy.rlvc")
    (folder / beside).unlink(missing_ok=True)  # of an earlier run
    if run.forest is not None:
        without.save(folder / beside)
    for name, image in percept.items():
        coded = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1]
        atomic_write(folder / f"{name}.png", coded.tobytes())
    text = json.dumps(run.result, indent=1, ensure_ascii=False)
    atomic_write(folder / "result.json", text.encode())


def write_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write figures under their names; return their paths."""
    for name, figure in figures.items():
        atomic_write(folder / name, to_png(figure))
    return [folder / name for name in figures]
