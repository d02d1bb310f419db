"""The options of the commands: dataclasses whose fields are options, shared by inheritance."""

from __future__ import annotations

import shlex
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rlvc.cli.command import argument, option

if TYPE_CHECKING:
    from rlvc.envs.make import EnvConfig
    from rlvc.learning.rlvc import RLVC
    from rlvc.runs.task import Task

environment_option = partial(option, panel="The environment")
exploring_option = partial(option, panel="Exploring it")
learning_option = partial(option, panel="Learning")
watching_option = partial(option, panel="Watching")


def policy_argument() -> Any:
    """Declare the argument for a policy file."""
    return argument("A policy file, such as runs/maze/policy.rlvc.")


def env_argument() -> Any:
    """Declare the argument for an environment."""
    return argument(
        "A Gymnasium environment, with the module that brings it: CartPole-v1, or "
        "minigrid:MiniGrid-Empty-8x8-v0.",
        metavar="ENV_ID",
    )


def port_option() -> Any:
    """Declare the option for the port of a page."""
    free = "one that is free"
    return watching_option("The port of the page.", min=1024, max=65535, show_default=free)


@dataclass(frozen=True, kw_only=True)
class EnvOptions:
    """The options that describe an environment."""

    render: bool = environment_option(
        "Let the agent see what the environment renders, instead of its observations; for "
        "environments whose observations are not images.",
        "--render",
        default=False,
    )
    wrap: list[str] | None = environment_option(
        "A wrapper to apply, such as minigrid.wrappers:RGBImgObsWrapper, or with arguments as in "
        "'MODULE:NAME(tile_size=16)'; may be repeated.",
        metavar="MODULE:NAME",
    )
    arg: list[str] | None = environment_option(
        "An argument of the environment, such as frame_skip=4; may be repeated.",
        metavar="NAME=VALUE",
    )
    size: str | None = environment_option(
        "Resize its images, such as to 160x120.", metavar="WIDTHxHEIGHT"
    )
    frames: int = environment_option(
        "How many of the last images the agent sees: 2 or more if motion matters.",
        default=1,
        min=1,
        max=16,
    )

    def env_config(self, env_id: str) -> EnvConfig:
        """Return how to make the environment."""
        from rlvc.envs.make import EnvConfig, parse_arguments, parse_size

        return EnvConfig(
            env_id=env_id, arguments=parse_arguments(self.arg or []), wraps=self.wrap or [],
            render=self.render, size=parse_size(self.size) if self.size else None,
            frames=self.frames,
        )  # fmt: skip

    def make_env(self, env_id: str, **more: Any) -> Any:
        """Return a new environment; its module may be in the current folder, as with ``python -m``.

        That folder is searched last, and only during this call: a file beside the data must not
        replace an installed module.
        """
        folder = str(Path.cwd())
        sys.path.append(folder)
        try:
            return self.env_config(env_id).make(**more)
        finally:
            sys.path.remove(folder)

    def make_visible(self, env_id: str) -> Any:
        """Return a new environment that renders RGB arrays, if it can."""
        if self.render or "render_mode" in self.env_config(env_id).arguments:
            return self.make_env(env_id)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it cannot render
            try:
                return self.make_env(env_id, render_mode="rgb_array")
            except (ValueError, TypeError):
                return self.make_env(env_id)

    def env_words(self, env_id: str) -> str:
        """Return the id and the options that describe the environment, for a shell."""
        words = [env_id]
        for name, value in self.given().items():
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{name}"] if one is True else [f"--{name}", str(one)]
        return shlex.join(words)

    def given(self) -> dict[str, Any]:
        """Return those of these options that were given."""
        values = {name: getattr(self, name) for name in ("render", "wrap", "arg", "size")}
        values["frames"] = self.frames if self.frames > 1 else None
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The options for the parameters of the learner and the execution backend."""

    preset: str = learning_option(
        "default, or paper: the paper's literal choices.", default="default"
    )
    settings: list[str] | None = learning_option(
        "Change a parameter of the learner, such as selector.alpha=0.01 or solver=sarsa; may be "
        "repeated. `rlvc parameters` lists them.",
        "--set",
        metavar="NAME=VALUE",
    )
    engine: str | None = learning_option(
        "The execution backend: local, all cores of this machine; or ray, workers that may be on "
        "other machines. The policy is the same.",
        metavar="NAME",
        show_default="local",
    )
    address: str | None = learning_option(
        "With --engine ray: the address of a cluster, such as head:6379, or auto for the one on "
        "this machine. One is started here unless given.",
        metavar="ADDRESS",
    )

    def make_learner(self, base: RLVC, *changes: str) -> RLVC:
        """Return a base learner, changed by settings and then by these options."""
        from rlvc.runs.config import make_learner

        if self.address is not None and self.engine != "ray":
            raise ValueError("--address is that of a Ray cluster; add --engine ray.")
        chosen = {"engine": self.engine, "engine.address": self.address}
        engine = [f"{name}={value}" for name, value in chosen.items() if value is not None]
        return make_learner(self.preset, [*changes, *engine, *(self.settings or [])], base)


@dataclass(frozen=True, kw_only=True)
class RunOptions(EngineOptions):
    """The options of commands that start a run."""

    context: typer.Context
    seed: int = option("The same seed gives the same policy.", default=0, min=0)
    out: Path | None = option("Folder for the results; one in runs/ unless given.")
    overwrite: bool = option(
        "Replace the results that are in the folder.", "--overwrite", default=False
    )
    resume: Path | None = option(
        "Resume a run that was interrupted in this folder, with the same options as before; it "
        "learns the same policy as without interruption. If there is none, begin it there.",
        metavar="DIR",
    )
    tensorboard: bool = option(
        "Write event files for TensorBoard as well.", "--tensorboard", default=False
    )
    live: bool = watching_option(
        "Show the progress on a page in the browser, served to this machine only.",
        "--live",
        default=False,
    )
    port: int | None = port_option()
    trees: int = learning_option(
        "Also learn a forest of this many trees: each may use some of the features and learns "
        "from some of the episodes, and all vote.",
        default=0,
        min=0,
    )
    compact: bool = learning_option(
        "Merge equivalent classes, so that there are fewer to read; the same as "
        "--set post_process=compaction.",
        "--compact",
        default=False,
    )

    def learner_of(self, task: Task[Any], *changes: str) -> RLVC:
        """Return the learner of a task, changed by these options."""
        compact = ["post_process=compaction"] * self.compact
        changes = *task.settings(self.preset), *changes, *compact
        return self.make_learner(task.base_learner(), *changes)


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The options for actions that files do not define."""

    actions: str | None = option(
        "For a folder or arrays: how many actions there are, or their names in order with commas "
        "between them."
    )
    first_action: int | None = option(
        "For a folder or arrays: the number of the first action.", show_default="0"
    )

    def action_arguments(self) -> dict[str, Any]:
        """Return the options as arguments of ``read_data``."""
        n_actions, names = parse_actions(self.actions)
        return {"n_actions": n_actions, "action_names": names, "action_start": self.first_action}


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
