"""The commands about custom tasks: learn, collect."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from rlvc.cli.command import argument, option, print_plain, with_options
from rlvc.cli.options import (
    DataOptions,
    EnvOptions,
    RunOptions,
    env_argument,
    exploring_option,
    learning_option,
)
from rlvc.cli.session import choose_folder, execute_run


@dataclass(frozen=True, kw_only=True)
class LearnOptions(DataOptions, RunOptions, EnvOptions):
    """The options of ``rlvc learn``."""

    source: str = argument(
        "Where interactions come from. An environment: its Gymnasium id, with the module that "
        "brings it, such as CartPole-v1 or minigrid:MiniGrid-Empty-8x8-v0. Or data: minari:ID, a "
        "folder of images with one table, a folder of shards, or a .npz file of arrays.",
        metavar="SOURCE",
    )
    interactions: int | None = exploring_option(
        "How many interactions to collect.", min=1, show_default="10000"
    )
    rounds: int | None = exploring_option(
        "The number of rounds: the first explores at random, each of the others around the policy "
        "learned so far.",
        min=1,
        show_default="5",
    )
    epsilon: float | None = exploring_option(
        "Share of random actions from the second round on.", min=0.0, max=1.0, show_default="0.3"
    )
    episodes: int | None = exploring_option(
        "Episodes to measure the policy with at the end; 0 for none.", min=0, show_default="100"
    )
    gamma: float | None = learning_option(
        "Discount factor, below 1: the nearer to 1, the farther ahead it looks.", show_default="0.9"
    )


@with_options
def learn(options: LearnOptions) -> None:
    """Learn a policy for a custom task, from an environment or from data.

    The folder gets policy.rlvc (the policy), result.json (all numbers), classes.png (a percept of
    each class, and its action), learning.png, features.png, stages.csv and rounds.csv (the curves),
    examples.rlvc (some percepts for `rlvc report`), and a percept to try `rlvc explain` on. All
    problems of the data are listed before anything is learned or written.

    For example:

      rlvc learn minigrid:MiniGrid-Empty-8x8-v0 --wrap minigrid.wrappers:RGBImgObsWrapper

      rlvc learn CartPole-v1 --render --size 150x100 --frames 2

      rlvc learn minari:maze/random-v0

      rlvc learn my_log/ --actions left,right,stop
    """
    from rlvc.data.collect import EPSILON, INTERACTIONS, ROUNDS, check_exploration
    from rlvc.data.spaces import check_spaces
    from rlvc.tasks.custom.sources import is_data
    from rlvc.tasks.custom.task import EPISODES, CustomTask

    source, console = options.source, Console()
    gamma = [f"gamma={options.gamma}"] * (options.gamma is not None)
    learner = options.learner_of(CustomTask(source), *gamma)
    folder = choose_folder(options, Path("runs") / folder_name(source))
    n = options.interactions or INTERACTIONS
    rounds = min(ROUNDS, n) if options.rounds is None else options.rounds
    epsilon = EPSILON if options.epsilon is None else options.epsilon
    check_exploration(n, rounds, epsilon)
    with console.status("getting ready"):
        learner.engine.start()
    check_options(options)
    if is_data(source):
        check_outside_data(folder, source)
        data = _open_data(options, learner, console)
    else:
        data = options.make_env(source)
        check_spaces(data)
    task = CustomTask(
        source, data, source if is_data(source) else options.env_words(source),
        interactions=n, rounds=rounds, epsilon=epsilon,
        episodes=EPISODES if options.episodes is None else options.episodes,
    )  # fmt: skip
    execute_run(task, learner, options, folder)


def check_options(options: LearnOptions) -> None:
    """Refuse options that do not suit the kind of source."""
    from rlvc.distributed.disk.format import is_shards
    from rlvc.tasks.custom.sources import MINARI, is_data

    source, from_data = options.source, is_data(options.source)
    if from_data:
        refuse(
            f"{source} is data", "environments", interactions=options.interactions,
            rounds=options.rounds, epsilon=options.epsilon, episodes=options.episodes,
            **options.given(),
        )  # fmt: skip
    if not from_data:
        kind = "an environment"
    elif is_shards(source):
        kind = "a dataset of shards"
    elif source.startswith(MINARI):
        kind = "a Minari dataset"
    else:
        return
    given = {"actions": options.actions, "first-action": options.first_action}
    refuse(f"{kind} defines its actions", "a folder or arrays", **given)


def _open_data(options: LearnOptions, learner: Any, console: Console) -> Any:
    """Return interactions, or the database of a dataset of shards."""
    from rlvc.cli.progress import ProgressDisplay
    from rlvc.distributed.disk.dataset import open_dataset
    from rlvc.distributed.disk.format import is_shards
    from rlvc.tasks.custom.sources import read_data

    if is_shards(options.source):
        return learner.engine.open(open_dataset(options.source), learner.threads)
    arguments = options.action_arguments()
    with ProgressDisplay(console) as display:
        return read_data(options.source, callback=display, **arguments)


@dataclass(frozen=True, kw_only=True)
class CollectOptions(EnvOptions):
    """The options of ``rlvc collect``."""

    env_id: str = env_argument()
    to: str = option(
        "Where to write: minari:ID such as minari:maze/random-v0, or the name of a new folder for "
        "images and a table.",
        default=...,
        metavar="WHERE",
    )
    interactions: int = option("How many interactions.", default=10_000, min=1)
    policy: Path | None = option("A policy file to follow; at random unless given.")
    epsilon: float | None = option("Share of random actions with a policy.", min=0.0, max=1.0)
    seed: int = option("The seed of the environment and the actions.", default=0, min=0)


@with_options
def collect(options: CollectOptions) -> None:
    """Collect interactions with an environment and save them without loss.

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
    from rlvc.policies.evaluate import check_compatible
    from rlvc.policies.forest import load_policy
    from rlvc.tasks.custom.sources import MINARI

    to, n, console = options.to, options.interactions, Console()
    if to.startswith(MINARI):
        check_minari_id(to.removeprefix(MINARI))
    else:
        check_new_folder(to)
    env = options.make_env(options.env_id)
    policy = load_policy(options.policy) if options.policy else None
    if policy is not None:
        check_compatible(policy, env)
    with ProgressDisplay(console) as display:
        display.on_phase("collect", n)
        data = collect_interactions(
            env, n, policy=policy, epsilon=options.epsilon, seed=options.seed,
            on_step=display.on_step,
        )  # fmt: skip
        n_episodes = int(data.episode[-1]) + 1
        if to.startswith(MINARI):
            display.on_phase("write", n_episodes)
            about = f"{n} interactions of {options.env_words(options.env_id)}, collected by rlvc"
            name = to.removeprefix(MINARI)
            write_minari(data, name, description=about, on_episode=display.on_step)
        else:
            display.on_phase("write", sum(map(len, data.percepts.images)))
            write_folder(data, to, on_image=display.on_step)
    print_plain(
        console,
        f"{len(data)} interactions in {n_episodes} episodes with {len(data.percepts)} distinct "
        f"percepts are in {to}.\nLearn from them: rlvc learn {shlex.quote(to)}",
    )


def check_outside_data(folder: Path, source: str) -> None:
    """Refuse to write results into the folder of the data, which would spoil both."""
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
    """Return a name for the folder of a run, after its source.

    >>> folder_name("minigrid:MiniGrid-Empty-8x8-v0"), folder_name("minari:maze/random-v0")
    ('MiniGrid-Empty-8x8-v0', 'maze-random-v0')
    >>> folder_name("logs/monday/")
    'logs-monday'
    """
    last = source.rpartition(":")[2].strip("/.")
    return re.sub(r"[^\w.-]+", "-", last) or "custom"
