"""The commands for a task of one's own: learn, collect, play."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rlvc.cli.options import (
    EXPLORING,
    LEARNING,
    ActionsOption,
    AddressOption,
    ArgumentOption,
    CompactOption,
    EngineOption,
    EnvArgument,
    FirstActionOption,
    FramesOption,
    LiveOption,
    OverwriteOption,
    PolicyArgument,
    PortOption,
    PresetOption,
    RenderOption,
    ResumeOption,
    SeedOption,
    SetOption,
    SizeOption,
    TensorBoardOption,
    TreesOption,
    WrapOption,
    engine_settings,
    make_env,
    make_visible,
    parse_actions,
    recipe_of,
    say_on,
    words_of,
)
from rlvc.cli.report import check_page, live_page
from rlvc.cli.session import image_folder, open_session

if TYPE_CHECKING:
    from rlvc.policies.forest import AnyPolicy

console = Console()


def learn(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Where interactions come from. An environment: its Gymnasium id, with the module "
            "that brings it, such as CartPole-v1 or minigrid:MiniGrid-Empty-8x8-v0. Or data: "
            "minari:ID, a folder of images with one table, a folder of shards, or a .npz file of "
            "arrays.",
        ),
    ],
    render: RenderOption = False,
    wrap: WrapOption = None,
    arg: ArgumentOption = None,
    size: SizeOption = None,
    frames: FramesOption = 1,
    interactions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many interactions to collect.",
            show_default="10000",
            rich_help_panel=EXPLORING,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="In how many rounds: the first explores at random, each of the others around what "
            "was learned so far.",
            show_default="5",
            rich_help_panel=EXPLORING,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of random actions from the second round on.",
            show_default="0.3",
            rich_help_panel=EXPLORING,
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Episodes to measure the policy with at the end; 0 for none.",
            show_default="100",
            rich_help_panel=EXPLORING,
        ),
    ] = None,
    actions: ActionsOption = None,
    first_action: FirstActionOption = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            help="Discount factor, below 1: the nearer to 1, the farther ahead it looks.",
            show_default="0.9",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    trees: TreesOption = 0,
    compact: CompactOption = False,
    preset: PresetOption = "default",
    settings: SetOption = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; runs/SOURCE unless given.")
    ] = None,
    overwrite: OverwriteOption = False,
    resume: ResumeOption = None,
    tensorboard: TensorBoardOption = False,
    live: LiveOption = False,
    port: PortOption = None,
) -> None:
    """Learn a policy for a task of your own, from an environment or from data.

    The folder gets policy.rlvc (the policy), result.json (all numbers), classes.png (what it does
    when it sees what), learning.png, features.png, stages.csv and rounds.csv (the curves),
    examples.rlvc (some percepts for `rlvc report`), and a percept to try `rlvc explain` on. All
    that is wrong with data is listed before anything is learned or written.

    For example:

      rlvc learn minigrid:MiniGrid-Empty-8x8-v0 --wrap minigrid.wrappers:RGBImgObsWrapper

      rlvc learn CartPole-v1 --render --size 150x100 --frames 2

      rlvc learn minari:maze/random-v0

      rlvc learn my_log/ --actions left,right,stop
    """
    from rlvc.cli.progress import ProgressDisplay, combine_callbacks
    from rlvc.data.explore import EPSILON, INTERACTIONS, ROUNDS, check_exploration
    from rlvc.data.spaces import check_spaces
    from rlvc.distributed.disk import is_shards, open_dataset
    from rlvc.learning.rlvc import RLVC
    from rlvc.runs.config import make_learner
    from rlvc.runs.curves import import_tensorboard, open_curves
    from rlvc.runs.live import LiveSnapshots
    from rlvc.tasks.custom import EPISODES, MINARI, is_data, learn_task, read_data
    from rlvc.tasks.custom_figures import show_own_summary, write_own_run

    changes = [f"gamma={gamma}"] * (gamma is not None) + ["post_process=compaction"] * compact
    changes += [*engine_settings(engine, address), *(settings or [])]
    learner = make_learner(preset, changes, RLVC())
    check_page(live, port)
    folder = image_folder(out, resume, Path("runs") / folder_name(source), overwrite)
    is_begun = resume is not None
    data: Any
    n = interactions or INTERACTIONS
    k = min(ROUNDS, n) if rounds is None else rounds
    e = EPSILON if epsilon is None else epsilon
    check_exploration(n, k, e)
    with console.status("getting ready"):
        learner.engine.start()
    recipe = recipe_of(source, render, wrap, arg, size, frames)
    from_data = is_data(source)
    if from_data:
        refuse(
            f"{source} is data", "environments", interactions=interactions, rounds=rounds,
            epsilon=epsilon, episodes=episodes, render=render or None, wrap=wrap, arg=arg,
            size=size, frames=frames if frames > 1 else None,
        )  # fmt: skip
    from_shards = from_data and is_shards(source)
    if not from_data or from_shards or source.startswith(MINARI):
        dataset = "a dataset of shards" if from_shards else "a Minari dataset"
        what = dataset if from_data else "an environment"
        given = {"actions": actions, "first-action": first_action}
        refuse(f"{what} tells its actions", "a folder or arrays", **given)
    if from_data:
        check_apart(folder, source)
    if from_shards:
        data = learner.engine.open(open_dataset(source), learner.threads)
    elif from_data:
        n_actions, names = parse_actions(actions)
        with ProgressDisplay(console) as shown:
            data = read_data(
                source, n_actions=n_actions, action_start=first_action, action_names=names,
                callbacks=shown.callbacks,
            )  # fmt: skip
    else:
        data = make_env(recipe)
        check_spaces(data)
    if tensorboard:
        import_tensorboard()
    with (
        open_session(context, folder, overwrite=overwrite, resume=is_begun, console=console) as own,
        live_page(folder, live, port) as stay,
    ):
        told = {"source": source if from_data else words_of(recipe), **own.facts}
        facts = {"task": source, "seed": seed, **told}
        with own.running(console) as stopping, LiveSnapshots(folder, facts, examples=True) as shots:
            with open_curves(folder, tensorboard) as journal, ProgressDisplay(console) as shown:
                run = learn_task(
                    source, data, learner=learner, interactions=n, rounds=k, epsilon=e, seed=seed,
                    episodes=EPISODES if episodes is None else episodes, trees=trees,
                    callbacks=stopping(
                        combine_callbacks(shown.callbacks, journal, shots.callbacks)
                    ),
                    keep=folder / "policy.rlvc", checkpoint=own.checkpoint,
                )  # fmt: skip
            shots.callbacks.on_phase("write", None)
            run.result.update(told)
            write_own_run(run, folder)
        own.finish()
        show_own_summary(console, run, folder, told["source"])
        stay()


def collect(
    env_id: EnvArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="Where to write: minari:ID such as minari:maze/random-v0, or the name of a new "
            "folder for images and a table.",
        ),
    ],
    interactions: Annotated[int, typer.Option(min=1, help="How many interactions.")] = 10_000,
    policy: Annotated[
        Path | None, typer.Option(help="A policy file to follow; at random unless given.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of random actions with a policy."),
    ] = None,
    render: RenderOption = False,
    wrap: WrapOption = None,
    arg: ArgumentOption = None,
    size: SizeOption = None,
    frames: FramesOption = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the environment and the actions.")] = 0,
) -> None:
    """Collect interactions with an environment and keep them, without loss.

    Images are stored as they are, never as JPEG, so that what is learned from the dataset later is
    what would have been learned at once.

    For example:

      rlvc collect rlvc:rlvc/Maze-v0 --to minari:maze/random-v0

      rlvc learn minari:maze/random-v0
    """
    from rlvc.cli.progress import ProgressDisplay
    from rlvc.data.collect import collect as collect_interactions
    from rlvc.data.io.folder import check_new_folder, write_folder
    from rlvc.data.io.minari import check_minari_id, write_minari
    from rlvc.policies.evaluate import check_fit
    from rlvc.policies.forest import load_policy
    from rlvc.tasks.custom import MINARI

    recipe = recipe_of(env_id, render, wrap, arg, size, frames)
    if to.startswith(MINARI):
        check_minari_id(to.removeprefix(MINARI))
    else:
        check_new_folder(to)
    env = make_env(recipe)
    guide: AnyPolicy | None = load_policy(policy) if policy else None
    if guide is not None:
        check_fit(guide, env)
    with ProgressDisplay(console) as live:
        live.callbacks.on_phase("collect", interactions)
        data = collect_interactions(
            env, interactions, policy=guide, epsilon=epsilon, seed=seed,
            on_step=live.callbacks.on_step,
        )  # fmt: skip
        if to.startswith(MINARI):
            live.callbacks.on_phase("write", int(data.episode[-1]) + 1)
            about = f"{interactions} interactions of {words_of(recipe)}, collected by rlvc"
            write_minari(
                data, to.removeprefix(MINARI), description=about, on_episode=live.callbacks.on_step
            )
        else:
            live.callbacks.on_phase("write", sum(map(len, data.percepts.images)))
            write_folder(data, to, on_image=live.callbacks.on_step)
    say(
        f"{len(data)} interactions in {int(data.episode[-1]) + 1} episodes with "
        f"{len(data.percepts)} distinct percepts are in {to}."
    )
    say(f"Learn from them: rlvc learn {shlex.quote(to)}")


def play(
    policy: PolicyArgument,
    env_id: EnvArgument,
    video: Annotated[
        Path, typer.Option(metavar="FILE", help="The film to write, .mp4 or .gif.")
    ] = Path("play.mp4"),
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes to show.")] = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Most steps of an episode to show.")] = 1000,
    fps: Annotated[float, typer.Option(min=0.1, max=60.0, help="Decisions a second.")] = 4.0,
    render: RenderOption = False,
    wrap: WrapOption = None,
    arg: ArgumentOption = None,
    size: SizeOption = None,
    frames: FramesOption = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the environment.")] = 1000,
) -> None:
    """Film a policy at work, and show at every step why it does what it does.

    Each frame has the percept with the features that decided marked on it, the tests, the class,
    and the values of the actions.
    """
    from rlvc.policies.evaluate import check_fit
    from rlvc.policies.forest import load_policy
    from rlvc.report.video.play import play as play_frames
    from rlvc.report.video.write import check_video, write_video

    check_video(video)
    loaded = load_policy(policy)
    env = make_visible(recipe_of(env_id, render, wrap, arg, size, frames))
    check_fit(loaded, env)
    with console.status("filming") as status:
        n = 0

        def count() -> None:
            nonlocal n
            n += 1
            status.update(f"filming, {n} frames")

        shown = play_frames(
            loaded, env, episodes=episodes, seed=seed, max_steps=max_steps, fps=fps, on_frame=count
        )
        write_video(video, shown, fps)
    say(f"The film is in {video} ({n} frames).")


def check_apart(folder: Path, source: str) -> None:
    """Refuse to write results where the data is: neither would be what it was."""
    data = Path(source)
    if folder.resolve() == (data if data.is_dir() else data.parent).resolve() and data.exists():
        raise ValueError(f"{folder} holds the data; give another folder with --out.")


def refuse(why: str, whose: str, **options: Any) -> None:
    """Raise a ValueError if any of some options was given.

    >>> refuse("log is data", "environments", rounds=3, wrap=None)
    Traceback (most recent call last):
    ValueError: --rounds is for environments only; log is data.
    """
    if given := [f"--{name}" for name, value in options.items() if value is not None]:
        verb = "are" if len(given) > 1 else "is"
        raise ValueError(f"{', '.join(given)} {verb} for {whose} only; {why}.")


def folder_name(source: str) -> str:
    """Return a name for the folder of a run, after where its interactions come from.

    >>> folder_name("minigrid:MiniGrid-Empty-8x8-v0"), folder_name("minari:maze/random-v0")
    ('MiniGrid-Empty-8x8-v0', 'maze-random-v0')
    >>> folder_name("logs/monday/")
    'logs-monday'
    """
    last = source.rpartition(":")[2].strip("/.")
    return re.sub(r"[^\w.-]+", "-", last) or "own"


def say(text: str) -> None:
    """Print a line as it is."""
    say_on(console, text)
