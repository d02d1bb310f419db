"""The commands about data: photographs to download, and datasets of shards."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rlvc.cli.options import (
    ActionsOption,
    AddressOption,
    EngineOption,
    FirstActionOption,
    PresetOption,
    SetOption,
    engine_settings,
    flow,
    parse_actions,
)

data_app = typer.Typer(
    help="Download photographs for the tasks, and make datasets of shards.", no_args_is_help=True
)
console = Console()


@data_app.command("list")
def list_sets() -> None:
    """List what can be downloaded, and where it is now."""
    from rlvc.envs.photos.download import SETS, cached_folder, local_folder

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what", "files", "MB", "licence", "credit", "where"):
        number = column in {"files", "MB"}
        table.add_column(column, justify="right" if number else "left", no_wrap=column != "what")
    found = {}
    for chosen in SETS.values():
        local, cached = local_folder(chosen.name), cached_folder(chosen.name)
        where = "RLVC_DATA" if local else "cached" if cached else "not here"
        n_files, size = str(len(chosen.files)), f"{chosen.n_bytes / 1e6:.1f}"
        table.add_row(chosen.name, chosen.what, n_files, size, chosen.licence, chosen.credit, where)
        found[chosen.name] = local or cached
    console.print(table, highlight=False)
    console.print()
    for name, folder in found.items():
        _say(f"{name} is in {folder}" if folder else f"Get {name} with: rlvc data get {name}")


@data_app.command("get")
def get_set(
    name: Annotated[str, typer.Argument(help="What to download: places or street.")],
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Download into FOLDER/NAME, for RLVC_DATA=FOLDER, instead of into the cache.",
        ),
    ] = None,
) -> None:
    """Download photographs and check them; files that are complete are not downloaded again."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from rlvc.envs.photos.download import find_set, get, local_folder

    chosen = find_set(name)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def show(n_bytes: int) -> None:
            if progress.task_ids:
                progress.update(progress.task_ids[0], completed=n_bytes)
            elif n_bytes < chosen.n_bytes:  # the bar begins with what was here before
                progress.add_task(name, total=chosen.n_bytes, completed=n_bytes)

        folder = get(name, to=to, on_bytes=show)
    verb = "is now in" if progress.task_ids else "was already in"
    _say(f"{name} {verb} {folder}")
    _say(
        f"Photographs by {chosen.credit}, {chosen.licence}: views cut from them carry the same "
        "licence and credit."
    )
    in_use = local_folder(name)
    if in_use and in_use != folder:
        _say(f"The tasks use {in_use}, because RLVC_DATA comes first.")
    elif to is not None and not in_use:
        _say(f"To use what is there: export RLVC_DATA={folder.parent}")


def write_shards(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Where interactions come from: minari:ID, a folder of images with one table, or a "
            ".npz file of arrays.",
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="The new folder to write to.")],
    shards: Annotated[
        int, typer.Option(min=1, help="In how many parts: workers learn from one each.")
    ] = 1,
    actions: ActionsOption = None,
    first_action: FirstActionOption = None,
    preset: PresetOption = "default",
    settings: SetOption = None,
    engine: EngineOption = None,
    address: AddressOption = None,
) -> None:
    """Look at the images of a log once, and keep what was seen as shards: Parquet files.

    Neither images nor what is seen on them need fit in memory. Image files stay where they are;
    other images are written as PNG. What `rlvc learn FOLDER` learns is what it would learn from the
    source, to the last bit, however many shards there are. DuckDB, Polars and others read the files
    as they are.

    For example:

      rlvc data shard my_log --to my_shards --shards 4 --actions left,right,stop

      rlvc learn my_shards
    """
    from rlvc.cli.progress import ProgressDisplay
    from rlvc.data.io.folder import check_new_folder
    from rlvc.data.io.table import import_pyarrow
    from rlvc.distributed.disk import is_shards, write_dataset
    from rlvc.learning.rlvc import RLVC
    from rlvc.runs.config import make_learner
    from rlvc.tasks.custom import is_data, read_data

    if not is_data(source):
        raise ValueError(
            f"SOURCE must be data; got {source!r}. Collect interactions first, with: "
            f"rlvc collect {source} --to FOLDER"
        )
    if is_shards(source):
        raise ValueError(
            f"{source} holds shards already; name the source that they were made from."
        )
    changes = [*engine_settings(engine, address), *(settings or [])]
    learner = make_learner(preset, changes, RLVC())
    n_actions, names = parse_actions(actions)
    import_pyarrow()
    check_new_folder(to, "rlvc data shard")
    with console.status("getting ready"):
        learner.engine.start()
    with ProgressDisplay(console) as live:
        callbacks = live.callbacks
        data = read_data(
            source, n_actions=n_actions, action_start=first_action, action_names=names,
            callbacks=callbacks, lazy=True,
        )  # fmt: skip
        about = write_dataset(
            data, to, shards, learner.new_extractor(data.percepts), threads=learner.threads,
            on_phase=callbacks.on_phase, on_step=callbacks.on_step, backend=learner.engine.extract,
        )  # fmt: skip
    n_images = sum(camera.images for camera in about.cameras)
    n_symbols = sum(camera.symbols for camera in about.cameras)
    _say(
        f"{about.interactions} interactions in {about.episodes} episodes with {about.percepts} "
        f"distinct percepts ({n_images} images, {n_symbols} symbols) are in {to}, in "
        f"{len(about.shards)} shard{'' if len(about.shards) == 1 else 's'}."
    )
    _say(f"Learn from them: rlvc learn {shlex.quote(str(to))}")


data_app.command("shard", help=flow(write_shards.__doc__))(write_shards)


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
