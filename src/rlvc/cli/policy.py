"""The commands about a policy file: evaluate, explain, play."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rlvc.cli.command import argument, option, print_plain, with_options
from rlvc.cli.options import EnvOptions, env_argument, policy_argument

if TYPE_CHECKING:
    from rlvc.policies.forest import AnyPolicy


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(EnvOptions):
    """The options of ``rlvc evaluate``."""

    policy: Path = policy_argument()
    env_id: str | None = argument(
        "A Gymnasium environment, with the module that brings it; none for a policy of `rlvc run`.",
        metavar="[ENV_ID]",
        default=None,
    )
    task: str | None = option("The task; the one it was learned on unless given.")
    pictures: str | None = option("The pictures; those it was learned on unless given.")
    seed: int | None = option(
        "The seed of the environment, or of starts, noise and views; new ones unless given.", min=0
    )
    episodes: int | None = option(
        "How many episodes, or trials on the hill, to measure with.",
        min=1,
        show_default="100 in ENV_ID, 1000, on the hill 10000",
    )
    as_json: bool = option("Print JSON instead of a table.", "--json", default=False)


@with_options
def evaluate(options: EvaluateOptions) -> None:
    """Measure a policy, in an environment or on a task of `rlvc run`.

    In an environment: returns and lengths of episodes, with confidence intervals. On the maze and
    the subway: episodes from random starts, and decisions on a dense grid. On the campus: decisions
    on views that are new if they are drawn; the photographs of a folder are divided as they were to
    learn from. On the hill: trials from random places at rest.
    """
    from rlvc.cli.progress import show_table
    from rlvc.policies.forest import load_policy
    from rlvc.runs.task import evaluate_policy
    from rlvc.tasks.custom.task import measures_table

    policy, console = load_policy(options.policy), Console()
    if options.env_id is not None:
        if options.task is not None or options.pictures is not None:
            raise ValueError(
                "--task and --pictures are for policies of `rlvc run`, not for ENV_ID."
            )
        found = _evaluate_in_env(policy, options)
    else:
        if options.given():
            raise ValueError("--render, --wrap, --arg, --size and --frames need an ENV_ID.")
        with console.status("measuring"):
            found = evaluate_policy(
                policy, task=options.task, pictures=options.pictures, seed=options.seed,
                episodes=options.episodes,
            )  # fmt: skip
    if options.as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    elif options.env_id is not None:
        show_table(console, measures_table(found))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        for name, value in found.items():
            text = "none" if value is None else value
            table.add_row(name, escape(f"{text:.3f}" if isinstance(text, float) else str(text)))
        console.print(table)


def _evaluate_in_env(policy: AnyPolicy, options: EvaluateOptions) -> dict[str, Any]:
    """Return the measures of a policy in an environment."""
    from rlvc.cli.progress import ProgressDisplay
    from rlvc.policies.evaluate import check_compatible
    from rlvc.policies.evaluate import evaluate as evaluate_in_env

    env = options.make_env(str(options.env_id))
    check_compatible(policy, env)
    seed = {} if options.seed is None else {"seed": options.seed}
    episodes = options.episodes or 100
    with ProgressDisplay(Console(stderr=options.as_json)) as display:
        display.on_phase("evaluate", episodes)
        return evaluate_in_env(
            policy, env, episodes=episodes, on_episode=display.on_step, **seed
        ).summary()


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """The options of ``rlvc explain``."""

    policy: Path = policy_argument()
    images: list[str] = argument(
        "An image as the agent perceives it. If it has several cameras, CAMERA=IMAGE for each of "
        "them.",
        metavar="IMAGE",
    )
    out: Path | None = option("The picture to write; IMAGE-explained.png unless given.")


@with_options
def explain(options: ExplainOptions) -> None:
    """Explain why a policy acts as it does on one percept, and draw the explanation.

    Prints the tests on the path through the classifier, the class and the values of the actions;
    or, of a forest, how the trees voted and which features decided. Writes the image, or the images
    of all cameras, with the features marked.
    """
    import cv2

    from rlvc._core.atomic import atomic_write
    from rlvc.data.images import as_image
    from rlvc.data.percepts import SINGLE
    from rlvc.envs.photos.images import read_image
    from rlvc.policies.forest import load_policy
    from rlvc.report.figures.explanation import draw_explanation
    from rlvc.report.figures.style import to_png

    loaded = load_policy(options.policy)
    paths = _by_camera(options.images, sorted(loaded.shapes))
    shown = {camera: read_image(path) for camera, path in paths.items()}
    for camera, image in shown.items():
        if loaded.shapes[camera][2] == 1:  # it learned from images without colour
            shown[camera] = as_image(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
    percept = shown.get(SINGLE, shown)
    explanation = loaded.explain(percept)
    target = options.out or Path(f"{'-'.join(path.stem for path in paths.values())}-explained.png")
    atomic_write(target, to_png(draw_explanation(loaded, percept, explanation)))
    print_plain(Console(), f"{explanation}\nThe picture is in {target}.")


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


@dataclass(frozen=True, kw_only=True)
class PlayOptions(EnvOptions):
    """The options of ``rlvc play``."""

    policy: Path = policy_argument()
    env_id: str = env_argument()
    video: Path = option(
        "The video to write, .mp4 or .gif.", default=Path("play.mp4"), metavar="FILE"
    )
    episodes: int = option("How many episodes to show.", default=1, min=1)
    max_steps: int = option("Cut off an episode after this many steps.", default=1000, min=1)
    fps: float = option("Decisions per second.", default=4.0, min=0.1, max=60.0)
    seed: int = option("The seed of the environment.", default=1000, min=0)


@with_options
def play(options: PlayOptions) -> None:
    """Record a video of a policy, and show at every step why it acts as it does.

    Each frame has the percept with the features that decided marked on it, the tests, the class,
    and the values of the actions.
    """
    from rlvc.policies.evaluate import check_compatible
    from rlvc.policies.forest import load_policy
    from rlvc.report.video.play import play as play_frames
    from rlvc.report.video.write import check_video, write_video

    check_video(options.video)
    policy, console, n_frames = load_policy(options.policy), Console(), 0
    env = options.make_visible(options.env_id)
    check_compatible(policy, env)
    with console.status("recording") as status:

        def count() -> None:
            nonlocal n_frames
            n_frames += 1
            status.update(f"recording, {n_frames} frames")

        frames = play_frames(
            policy, env, episodes=options.episodes, seed=options.seed,
            max_steps=options.max_steps, fps=options.fps, on_frame=count,
        )  # fmt: skip
        write_video(options.video, frames, options.fps)
    print_plain(console, f"The video is in {options.video} ({n_frames} frames).")
