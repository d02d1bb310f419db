"""Options that commands share, and the environments that some of them describe."""

from __future__ import annotations

import inspect
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from rlvc.envs.make import EnvConfig

FLAGS = ("--live", "--overwrite")  # options without a value, among those that may be dropped
ENVIRONMENT, EXPLORING, LEARNING = "The environment", "Exploring it", "Learning"
WATCHING = "Watching"

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a parameter of the learner, such as selector.alpha=0.01 or solver=sarsa; "
        "may be repeated. `rlvc parameters` lists them.",
        rich_help_panel=LEARNING,
    ),
]
EnvArgument = Annotated[
    str,
    typer.Argument(
        metavar="ENV_ID",
        help="A Gymnasium environment, with the module that brings it: CartPole-v1, or "
        "minigrid:MiniGrid-Empty-8x8-v0.",
    ),
]
RenderOption = Annotated[
    bool,
    typer.Option(
        "--render",
        help="Let the agent see what the environment draws, instead of what it tells; for "
        "environments whose observations are no images.",
        rich_help_panel=ENVIRONMENT,
    ),
]
WrapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--wrap",
        metavar="MODULE:NAME",
        help="Put it in a wrapper, such as minigrid.wrappers:RGBImgObsWrapper, or with options "
        "as in 'MODULE:NAME(tile_size=16)'; may be repeated.",
        rich_help_panel=ENVIRONMENT,
    ),
]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument that it is made with, such as frame_skip=4; may be repeated.",
        rich_help_panel=ENVIRONMENT,
    ),
]
SizeOption = Annotated[
    str | None,
    typer.Option(
        "--size",
        metavar="WIDTHxHEIGHT",
        help="Resize its images, such as to 160x120.",
        rich_help_panel=ENVIRONMENT,
    ),
]
FramesOption = Annotated[
    int,
    typer.Option(
        "--frames",
        min=1,
        max=16,
        help="How many of the last images the agent sees: 2 or more if what moves matters.",
        rich_help_panel=ENVIRONMENT,
    ),
]
PolicyArgument = Annotated[
    Path, typer.Argument(help="A policy file, such as runs/maze/policy.rlvc.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="The same seed gives the same policy.")]
CompactOption = Annotated[
    bool,
    typer.Option(
        "--compact",
        help="Merge equivalent classes, so that there are fewer to read; the same as "
        "--set post_process=compaction.",
        rich_help_panel=LEARNING,
    ),
]
TreesOption = Annotated[
    int,
    typer.Option(
        "--trees",
        min=0,
        help="Learn a forest of so many trees as well: each may use some of the features and "
        "learns from some of the episodes, and all vote.",
        rich_help_panel=LEARNING,
    ),
]
PresetOption = Annotated[
    str,
    typer.Option(
        "--preset",
        help="default, or paper: the paper's literal choices.",
        rich_help_panel=LEARNING,
    ),
]
ActionsOption = Annotated[
    str | None,
    typer.Option(
        help="For a folder or arrays: how many actions there are, or their names in order with "
        "commas between them.",
    ),
]
FirstActionOption = Annotated[
    int | None,
    typer.Option(help="For a folder or arrays: the number of the first action.", show_default="0"),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Who does the work: local, all cores of this machine; or ray, workers that may be on "
        "other machines. The policy is the same.",
        show_default="local",
        rich_help_panel=LEARNING,
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="With --engine ray: that of a cluster, such as head:6379, or auto for the one on "
        "this machine. One is started here unless given.",
        rich_help_panel=LEARNING,
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace the results that are in the folder.")
]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Go on with a run that was stopped in this folder, with the same options as before; "
        "it ends with the policy that it would have ended with. If there is none, begin it there.",
    ),
]
TensorBoardOption = Annotated[
    bool, typer.Option("--tensorboard", help="Write event files for TensorBoard as well.")
]

LiveOption = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Show on a page in the browser how it goes on; the page is for this machine only.",
        rich_help_panel=WATCHING,
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=1024,
        max=65535,
        help="The port of the page.",
        show_default="one that is free",
        rich_help_panel=WATCHING,
    ),
]


def words_typed(context: typer.Context) -> list[str]:
    """Return the words of the command line after ``rlvc``."""
    words = context.find_root().obj
    return list(sys.argv[1:] if words is None else words)


def command_of(context: typer.Context) -> str:
    """Return the command line as it was typed, without what does not change the run."""
    kept = drop(words_typed(context), "--live", "--overwrite", "--port", "--resume")
    return shlex.join(["rlvc", *kept])


def drop(words: list[str], *options: str) -> list[str]:
    """Return words of a command line without some options and their values.

    >>> drop(["run", "maze", "--out", "here", "--live", "--port=1"], "--out", "--live", "--port")
    ['run', 'maze']
    """
    kept, rest = list[str](), iter(words)
    for word in rest:
        if word in options:
            if word not in FLAGS:
                next(rest, None)
        elif not word.startswith(tuple(f"{name}=" for name in options)):
            kept.append(word)
    return kept


def say_on(console: Console, text: str) -> None:
    """Print a line as it is."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def flow(text: str | None) -> str:
    r"""Return a docstring whose paragraphs are lines, so that a terminal can break them itself.

    >>> flow("Do this.\n\n    It is\n    easy.\n\n      as here\n")
    'Do this.\n\nIt is easy.\n\n  as here'
    """
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(one if one.startswith(" ") else " ".join(one.split()) for one in paragraphs)


def engine_settings(engine: str | None, address: str | None) -> list[str]:
    """Return who does the work, as settings of a learner.

    >>> engine_settings("ray", "auto")
    ['engine=ray', 'engine.address=auto']
    """
    if address is not None and engine != "ray":
        raise ValueError("--address is that of a Ray cluster; add --engine ray.")
    chosen = [] if engine is None else [f"engine={engine}"]
    return chosen if address is None else [*chosen, f"engine.address={address}"]


def recipe_of(
    env_id: str,
    render: bool,
    wrap: list[str] | None,
    arg: list[str] | None,
    size: str | None,
    frames: int,
) -> EnvConfig:
    """Return how to make the environment that the options of a command describe."""
    from rlvc.envs.make import EnvConfig, parse_arguments, parse_size

    return EnvConfig(
        env_id=env_id, arguments=parse_arguments(arg or []), wraps=wrap or [], render=render,
        size=parse_size(size) if size else None, frames=frames,
    )  # fmt: skip


def make_env(recipe: EnvConfig, **more: Any) -> Any:
    """Return a new environment; its module may be in the current folder, as with ``python -m``.

    That folder is searched behind all that is installed, and only now: data that lies in it must
    not run.
    """
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        return recipe.make(**more)
    finally:
        sys.path.remove(here)


def words_of(recipe: EnvConfig) -> str:
    """Return the id and the options that describe an environment, for a shell."""
    words = [recipe.env_id]
    words += ["--render"] * recipe.render
    for text in recipe.wraps:
        words += ["--wrap", text]
    for name, value in recipe.arguments.items():
        words += ["--arg", f"{name}={_plain(value)}"]
    if recipe.size:
        words += ["--size", "{}x{}".format(*recipe.size)]
    if recipe.frames > 1:
        words += ["--frames", str(recipe.frames)]
    return shlex.join(words)


def make_visible(recipe: EnvConfig) -> Any:
    """Return an environment that draws itself for people, if it can."""
    if "render_mode" in recipe.arguments or recipe.render:
        return make_env(recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it cannot draw itself
        try:
            return make_env(recipe, render_mode="rgb_array")
        except (ValueError, TypeError):
            return make_env(recipe)


def _plain(value: Any) -> str:
    """Return a value as ``--arg`` reads it: a text that reads like something else in quotes."""
    from rlvc.envs.make import parse_arguments

    is_same = parse_arguments([f"value={value}"])["value"] == value
    return str(value) if is_same else repr(value)


def parse_actions(text: str | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the number of actions and their names, from either.

    >>> parse_actions("3"), parse_actions("left, right"), parse_actions(None)
    ((3, ()), (2, ('left', 'right')), (None, ()))
    """
    if text is None:
        return None, ()
    if text.strip().isdecimal():
        return int(text), ()
    names = tuple(name.strip() for name in text.split(","))
    if "" in names or len(set(names)) < len(names):
        raise ValueError(f"The names of --actions must be different, and none empty; got {text!r}.")
    return len(names), names
