"""The commands about data: what can be downloaded, and downloading it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

data_app = typer.Typer(
    help="Download photographs for the tasks, and see which are here.", no_args_is_help=True
)
console = Console()


@data_app.command("list")
def list_sets() -> None:
    """List what can be downloaded, and where it is now."""
    from rlvc.datasets.download import SETS, cached_folder, local_folder

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
    """Download photographs and check them; after an interruption it goes on where it stopped."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from rlvc.datasets.download import find_set, get, local_folder

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


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
