"""The command line."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.table import Table

import rlvc
from rlvc.cli import learn as cli_own
from rlvc.cli import report as cli_report
from rlvc.cli.data import data_app
from rlvc.cli.options import (
    AddressOption,
    ArgumentOption,
    CompactOption,
    EngineOption,
    FramesOption,
    LiveOption,
    OverwriteOption,
    PolicyArgument,
    PortOption,
    PresetOption,
    RenderOption,
    ResumeOption,
    SetOption,
    SizeOption,
    TensorBoardOption,
    TreesOption,
    WrapOption,
    engine_settings,
    flow,
    make_env,
    recipe_of,
)
from rlvc.cli.session import image_folder, open_session
from rlvc.errors import RlvcError

if TYPE_CHECKING:
    from rlvc.envs.make import EnvConfig
    from rlvc.policies.forest import AnyPolicy

app = typer.Typer(
    name="rlvc",
    help="Learn visual control policies from interactions, and read them.",
    epilog="Start with: rlvc run maze. For a task of your own: rlvc learn --help",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console()


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command, with its docstring as the help."""
    app.command(help=flow(function.__doc__))(function)
    return function


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"rlvc {rlvc.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@command
def run(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="The task: maze, subway, campus or hill.")],
    pictures: Annotated[
        str,
        typer.Option(
            help="What the world looks like: photos (in every installation); street (subway, hill) "
            "or places (campus), from `rlvc data get` or the folder RLVC_DATA; coil (maze, hill) "
            "from RLVC_DATA; or an image file or folder of yours."
        ),
    ] = "photos",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same policy.")] = 0,
    interactions: Annotated[
        int, typer.Option(min=1, help="How many random interactions to learn from.")
    ] = 10_000,
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Episodes to measure with, on the maze and the subway; trials on the hill.",
            show_default="1000, on the hill 10000",
        ),
    ] = None,
    compact: CompactOption = False,
    trees: TreesOption = 0,
    preset: PresetOption = "default",
    settings: SetOption = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; runs/TASK unless given.")
    ] = None,
    overwrite: OverwriteOption = False,
    resume: ResumeOption = None,
    tensorboard: TensorBoardOption = False,
    live: LiveOption = False,
    port: PortOption = None,
) -> None:
    """Learn a task of the paper, measure the policy, and write pictures.

    The folder gets result.json (all numbers), policy.rlvc (the policy), stages.csv (the curves),
    pictures of what the agent does and of how it was learned stage by stage, features.png (what it
    looks for) and percept.png (a percept to try `rlvc explain` on). The campus is learned twice
    from the same interactions, with a tree (basic.rlvc) and with compaction (policy.rlvc), and both
    are compared. The hill has two cameras, so there are two images to explain, ground.png and
    gauge.png. With --trees, policy.rlvc is the forest, and one.rlvc (on the campus compact.rlvc)
    what it is without.
    """
    from rlvc.cli.progress import ProgressDisplay, combine_callbacks, show_summary
    from rlvc.runs.config import make_learner
    from rlvc.runs.curves import import_tensorboard, open_curves
    from rlvc.runs.folder import write_run
    from rlvc.runs.live import LiveSnapshots
    from rlvc.tasks.catalogue import base_learner, settings_of
    from rlvc.tasks.catalogue import run as run_task

    changes = [*settings_of(task, preset), *["post_process=compaction"] * compact]
    changes += [*engine_settings(engine, address), *(settings or [])]
    learner = make_learner(preset, changes, base_learner(task))
    cli_report.check_page(live, port)
    if tensorboard:
        import_tensorboard()
    folder = image_folder(out, resume, Path("runs") / task, overwrite)
    with console.status("getting ready"):
        learner.engine.start()
    facts = {"task": task, "pictures": pictures, "seed": seed}
    about = {"task": task, "pictures": pictures, "seed": str(seed)}
    is_begun = resume is not None
    with (
        open_session(context, folder, overwrite=overwrite, resume=is_begun, console=console) as own,
        cli_report.live_page(folder, live, port) as stay,
    ):
        facts |= own.facts
        with own.running(console) as stopping, LiveSnapshots(folder, facts, about=about) as shots:
            with open_curves(folder, tensorboard) as journal, ProgressDisplay(console) as shown:
                result = run_task(
                    task,
                    pictures=pictures,
                    seed=seed,
                    interactions=interactions,
                    episodes=episodes,
                    trees=trees,
                    learner=learner,
                    callbacks=stopping(
                        combine_callbacks(shown.callbacks, journal, shots.callbacks)
                    ),
                    store=own.checkpoint,
                )
            shots.callbacks.on_phase("write", None)
            result.result.update(own.facts)
            write_run(result, folder)
        own.finish()
        show_summary(console, result.result, folder)
        stay()


for one in (
    cli_own.learn, cli_report.report, cli_report.watch, cli_own.collect, cli_own.play
):  # fmt: skip
    command(one)


@command
def evaluate(
    policy: PolicyArgument,
    env_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENV_ID]",
            help="A Gymnasium environment, with the module that brings it; none for a policy of "
            "`rlvc run`.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task; the one it was learned on unless given.")
    ] = None,
    pictures: Annotated[
        str | None, typer.Option(help="The pictures; those it was learned on unless given.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Of the environment, of the starts and the noise, or of the views; new ones if "
            "not.",
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many episodes to walk, or trials to drive on the hill.",
            show_default="100 in ENV_ID, 1000, on the hill 10000",
        ),
    ] = None,
    render: RenderOption = False,
    wrap: WrapOption = None,
    arg: ArgumentOption = None,
    size: SizeOption = None,
    frames: FramesOption = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure a policy, in an environment or on a task of `rlvc run`.

    In an environment: returns and lengths of episodes, with confidence intervals. On the maze and
    the subway: episodes from random starts, and decisions on a dense grid. On the campus: decisions
    on views that are new if they are drawn; the photographs of a folder are divided as they were to
    learn from. On the hill: trials from random places at rest.
    """
    from rlvc.policies.forest import load_policy
    from rlvc.tasks.catalogue import evaluate_policy

    loaded = load_policy(policy)
    if env_id is not None:
        if task is not None or pictures is not None:
            raise ValueError(
                "--task and --pictures are for policies of `rlvc run`, not for ENV_ID."
            )
        recipe = recipe_of(env_id, render, wrap, arg, size, frames)
        _evaluate_in(loaded, recipe, seed, episodes, as_json)
        return
    if render or wrap or arg or size or frames > 1:
        raise ValueError("--render, --wrap, --arg, --size and --frames need an ENV_ID.")
    with console.status("measuring"):
        found = evaluate_policy(loaded, task=task, pictures=pictures, seed=seed, episodes=episodes)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in found.items():
        shown = "none" if value is None else f"{value:.3f}" if isinstance(value, float) else value
        table.add_row(name, escape(str(shown)))
    console.print(table)


def _evaluate_in(
    policy: AnyPolicy, recipe: EnvConfig, seed: int | None, episodes: int | None, as_json: bool
) -> None:
    """Measure a policy in an environment."""
    from rlvc.cli.progress import ProgressDisplay
    from rlvc.data.explore import CachedPolicy
    from rlvc.policies.evaluate import check_fit
    from rlvc.policies.evaluate import evaluate as evaluate_in
    from rlvc.tasks.custom_figures import measures_table

    env = make_env(recipe)
    check_fit(policy, env)
    chosen = {} if seed is None else {"seed": seed}
    with ProgressDisplay(console if not as_json else Console(stderr=True)) as live:
        live.callbacks.on_phase("evaluate", episodes or 100)
        found = evaluate_in(
            CachedPolicy(policy),
            env,
            episodes=episodes or 100,
            on_episode=live.callbacks.on_step,
            **chosen,
        ).summary()
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        console.print(measures_table(found))


@command
def explain(
    policy: PolicyArgument,
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE",
            help="An image as the agent perceives it. If it has several cameras, CAMERA=IMAGE for "
            "each of them.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The picture to write; IMAGE-explained.png unless given.")
    ] = None,
) -> None:
    """Say why a policy acts as it does on one percept, and draw it.

    Prints the tests on the path through the classifier, the class and the values of the actions;
    or, of a forest, how the trees voted and which features decided. Writes the image, or the images
    of all cameras, with the features marked.
    """
    import cv2

    from rlvc._core.atomic import atomic_write
    from rlvc.data.images import as_image
    from rlvc.data.percepts import SINGLE
    from rlvc.envs.photos.images import read_image
    from rlvc.policies.forest import ForestPolicy, load_policy
    from rlvc.report.figures.explanation import draw_explanation, draw_forest_explanation
    from rlvc.report.figures.style import to_png

    loaded = load_policy(policy)
    paths = _by_camera(images, sorted(loaded.shapes))
    shown = {camera: read_image(path) for camera, path in paths.items()}
    for camera, image in shown.items():
        if loaded.shapes[camera][2] == 1:  # it learned from images without colour
            shown[camera] = as_image(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
    percept = shown.get(SINGLE, shown)
    if isinstance(loaded, ForestPolicy):
        vote = loaded.explain(percept)
        text, figure = str(vote), draw_forest_explanation(loaded, percept, vote)
    else:
        explanation = loaded.explain(percept)
        text, figure = str(explanation), draw_explanation(loaded, percept, explanation)
    target = out or Path(f"{'-'.join(path.stem for path in paths.values())}-explained.png")
    atomic_write(target, to_png(figure))
    text += f"\nThe picture is in {target}."
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _by_camera(images: list[str], cameras: list[str]) -> dict[str, Path]:
    """Return the file of each camera; a policy whose percepts are single images has one, ''."""
    if cameras == [""]:
        if len(images) > 1:
            raise ValueError(
                f"This policy has one camera, so explain takes one image; got {len(images)}."
            )
        return {"": Path(images[0])}
    pairs = [image.partition("=") for image in images]
    paths = {camera: Path(path) for camera, _, path in pairs if path}
    if sorted(paths) != cameras or len(images) > len(cameras):
        wanted = " ".join(f"{camera}=IMAGE" for camera in cameras)
        raise ValueError(
            f"This policy has cameras {', '.join(cameras)}, so explain takes {wanted}; "
            f"got {' '.join(images)}."
        )
    return {camera: paths[camera] for camera in cameras}


@command
def parameters() -> None:
    """List the parameters of the learner: meaning, range, default."""
    from rlvc.runs.config import describe_parameters

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "default", "range", "meaning"):
        table.add_column(column, overflow="fold")
    for row in describe_parameters():
        table.add_row(*row)
    console.print(table)


app.add_typer(data_app, name="data")


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line: 0 if all went well, 1 for a failure, 2 for wrong usage."""
    words = sys.argv[1:] if arguments is None else arguments
    handler = RichHandler(console=Console(stderr=True), show_time=False, show_path=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    try:
        app(args=words, prog_name="rlvc", obj=words)
    except (ValueError, TypeError) as error:
        _complain(error)
        raise SystemExit(2) from None
    except (RlvcError, OSError, ImportError) as error:
        _complain(error)
        raise SystemExit(1) from None
    except MemoryError as error:
        _complain(f"There is not enough memory for this. {error}".rstrip())
        raise SystemExit(1) from None
    except (KeyboardInterrupt, SystemExit) as stop:
        # Typer turns Ctrl-C into a silent exit with the status that a shell gives a killed job.
        if isinstance(stop, SystemExit) and stop.code != 128 + signal.SIGINT:
            raise
        _complain("Stopped.")
        raise SystemExit(1) from None


def _complain(message: object) -> None:
    Console(stderr=True).print(
        f"rlvc: {message}", highlight=False, markup=False, style="red", soft_wrap=True
    )
