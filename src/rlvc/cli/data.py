"""The commands about data: photographs to download, and datasets of shards."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from rlvc.cli.command import argument, format_help, option, print_plain, with_options
from rlvc.cli.options import DataOptions, EngineOptions

data_app = typer.Typer(
    help="Download photographs for the tasks, and make datasets of shards.", no_args_is_help=True
)


def list_sets() -> None:
    """List what can be downloaded, and where it is now."""
    from rlvc.envs.photos.download import SETS, cached_folder, local_folder

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what", "files", "MB", "licence", "credit", "where"):
        number = column in {"files", "MB"}
        table.add_column(column, justify="right" if number else "left", no_wrap=column != "what")
    hints = []
    for chosen in SETS.values():
        name, n_files, size = chosen.name, str(len(chosen.files)), f"{chosen.n_bytes / 1e6:.1f}"
        local, cached = local_folder(name), cached_folder(name)
        where = "RLVC_DATA" if local else "cached" if cached else "not here"
        table.add_row(name, chosen.what, n_files, size, chosen.licence, chosen.credit, where)
        get = f"Get {name} with: rlvc data get {name}"
        hints.append(f"{name} is in {local or cached}" if local or cached else get)
    console = Console()
    console.print(table, "", highlight=False)
    print_plain(console, "\n".join(hints))


@dataclass(frozen=True, kw_only=True)
class GetOptions:
    """The options of ``rlvc data get``."""

    name: str = argument("What to download: places or street.")
    to: Path | None = option(
        "Download into FOLDER/NAME, for RLVC_DATA=FOLDER, instead of into the cache.",
        metavar="FOLDER",
    )


@with_options
def get_set(options: GetOptions) -> None:
    """Download photographs and check them; files that are complete are not downloaded again."""
    from rich import progress as bars

    from rlvc.envs.photos.download import find_set, get, local_folder

    name, to = options.name, options.to
    chosen, console = find_set(name), Console()
    columns = (
        bars.TextColumn("{task.description}"), bars.BarColumn(), bars.DownloadColumn(),
        bars.TransferSpeedColumn(), bars.TimeRemainingColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def show(n_bytes: int) -> None:
            if progress.task_ids:
                progress.update(progress.task_ids[0], completed=n_bytes)
            elif n_bytes < chosen.n_bytes:  # the bar begins with what was here before
                progress.add_task(name, total=chosen.n_bytes, completed=n_bytes)

        folder = get(name, to=to, on_bytes=show)
    verb = "is now in" if progress.task_ids else "was already in"
    print_plain(
        console,
        f"{name} {verb} {folder}\nPhotographs by {chosen.credit}, {chosen.licence}: views cut from "
        "them carry the same licence and credit.",
    )
    in_use = local_folder(name)
    if in_use and in_use != folder:
        print_plain(console, f"The tasks use {in_use}, because RLVC_DATA comes first.")
    elif to is not None and not in_use:
        print_plain(console, f"To use what is there: export RLVC_DATA={folder.parent}")


@dataclass(frozen=True, kw_only=True)
class ShardOptions(DataOptions, EngineOptions):
    """The options of ``rlvc data shard``."""

    source: str = argument(
        "Where interactions come from: minari:ID, a folder of images with one table, or a .npz "
        "file of arrays.",
        metavar="SOURCE",
    )
    to: Path = option("The new folder to write to.", default=..., metavar="FOLDER")
    shards: int = option("The number of shards: each worker learns from one.", default=1, min=1)


@with_options
def write_shards(options: ShardOptions) -> None:
    """Extract the features of a log once, and save them as shards: Parquet files.

    Neither the images nor their features need fit in memory. Image files stay where they are;
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
    from rlvc.distributed.disk.write import write_dataset
    from rlvc.learning.rlvc import RLVC
    from rlvc.tasks.custom.sources import read_data

    to, console = options.to, Console()
    check_source(options.source)
    learner = options.make_learner(RLVC())
    arguments = options.action_arguments()
    import_pyarrow()
    check_new_folder(to, "rlvc data shard")
    with console.status("getting ready"):
        learner.engine.start()
    with ProgressDisplay(console) as display:
        data = read_data(options.source, callback=display, lazy=True, **arguments)
        about = write_dataset(
            data, to, options.shards, learner.new_extractor(data.percepts),
            threads=learner.threads, on_phase=display.on_phase, on_step=display.on_step,
            backend=learner.engine.extract,
        )  # fmt: skip
    n_images = sum(camera.images for camera in about.cameras)
    n_symbols = sum(camera.symbols for camera in about.cameras)
    print_plain(
        console,
        f"{about.interactions} interactions in {about.episodes} episodes with {about.percepts} "
        f"distinct percepts ({n_images} images, {n_symbols} symbols) are in {to}, in "
        f"{len(about.shards)} shard{'' if len(about.shards) == 1 else 's'}.\n"
        f"Learn from them: rlvc learn {shlex.quote(str(to))}",
    )


def check_source(source: str) -> None:
    """Refuse a source that is an environment, or shards already."""
    from rlvc.distributed.disk.format import is_shards
    from rlvc.tasks.custom.sources import is_data

    if not is_data(source):
        raise ValueError(
            f"SOURCE must be data; got {source!r}. Collect interactions first, with: "
            f"rlvc collect {source} --to FOLDER"
        )
    if is_shards(source):
        raise ValueError(
            f"{source} holds shards already; name the source that they were made from."
        )


for name, command in {"list": list_sets, "get": get_set, "shard": write_shards}.items():
    data_app.command(name, help=format_help(command.__doc__))(command)
