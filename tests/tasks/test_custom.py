from __future__ import annotations

import csv
import json
import logging
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import PIL.Image
import pytest
from numpy.typing import NDArray

from rlvc import (
    RLVC,
    ForestPolicy,
    Interactions,
    Policy,
    Round,
    collect,
    evaluate,
    explore,
    load_policy,
    read_arrays,
    read_folder,
    read_minari,
    write_folder,
    write_minari,
)
from rlvc.data import Explorer
from rlvc.runs import Examples
from rlvc.tasks import CustomOutcome, is_data, read_data
from rlvc.tasks.custom.figures import draw_classes, draw_learning
from rlvc.tasks.custom.task import describe_round
from tests.support.commands import contents, read, strict
from tests.support.datasets import HEADER, write_images, write_table
from tests.support.tasks import RecordingCallback, run_custom
from tests.support.worlds import SIDE, Corridor, identical

CORRIDOR = "tests.support.worlds:Corridor-v0"
PICTURE_FILES = {"classes.png", "learning.png", "features.png"}
DATA_FILES = PICTURE_FILES | {
    "policy.rlvc", "result.json", "percept.png", "examples.rlvc", "stages.csv",
}  # fmt: skip
ENV_FILES = DATA_FILES | {"rounds.csv"}
KINDS = ["colour", "grey", "plane", "cameras", "told", "first colour", "last", "nested"]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with Minari's datasets in it."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Record the observations of an environment, as a user would who logs them."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.before: list[Any] = []
        self.after: list[Any] = []

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        self.now, info = super().reset(**given)
        return self.now, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.before.append(self.now)
        self.now, reward, ends, cut, info = super().step(action)
        self.after.append(self.now)
        return self.now, reward, ends, cut, info


def by_name(name: str, observations: list[Any]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file."""
    if not isinstance(observations[0], dict):
        return {name: np.stack(observations)}
    return {
        f"{name}.{part}": np.stack([one[part] for one in observations]) for part in observations[0]
    }


def write_arrays(data: Interactions, env: Recorder, path: Path) -> None:
    np.savez(
        path, **by_name("observations", env.before), **by_name("next_observations", env.after),
        actions=data.action + data.action_start, rewards=data.reward, terminated=data.terminated,
        truncated=data.truncated, allow_pickle=False,
    )  # fmt: skip


# All roads lead to the same policy ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rounds", "start"), [("colour", 1, 0), *((kind, 3, -2) for kind in KINDS)]
)
def test_all_roads_lead_to_the_same_policy(kind: str, rounds: int, start: int, root: Path) -> None:
    given: dict[str, Any] = {"interactions": 150, "rounds": rounds, "epsilon": 0.4, "seed": 7}
    learner = RLVC(gamma=0.5, threads=1)
    recorder = Recorder(Corridor(kind=kind, start=start))
    *_, last = explore(recorder, learner.learn, **given)
    data = last.interactions
    write_minari(data, "corridor/explored-v0")
    write_folder(data, root / "csv")
    write_folder(data, root / "parquet", table="parquet")
    write_arrays(data, recorder, root / "log.npz")
    names = ("left", "right")
    named: dict[str, Any] = {"n_actions": 2, "action_start": start, "action_names": names}
    read = {
        "interactions": data,
        "minari": read_minari("corridor/explored-v0"),
        "csv": read_folder(root / "csv"),
        "parquet": read_folder(root / "parquet"),
        "npz": read_arrays(root / "log.npz", action_start=start, action_names=names),
        "arrays": Interactions.from_arrays(
            recorder.before, data.action + start, data.reward, data.terminated, data.truncated,
            next_observations=recorder.after, **named,
        ),
    }  # fmt: skip
    policies = {road: learner.learn(met) for road, met in read.items()}
    policies["environment"] = learner.learn(Corridor(kind=kind, start=start), **given)
    policies["rounds"] = last.policy
    policies["task"] = run_custom(
        Corridor(kind=kind, start=start), learner, episodes=0, **given
    ).policy
    for road, met in read.items():
        assert identical(met, data), road
    for road, policy in policies.items():
        policy.save(root / f"{road}.rlvc")
    files = {road: (root / f"{road}.rlvc").read_bytes() for road in policies}
    assert {road for road, file in files.items() if file != files["interactions"]} == set()
    assert policies["environment"].action_names == names
    assert policies["environment"].n_classes > 1


def test_one_round_is_what_curiosity_collects(root: Path) -> None:
    learner = RLVC(gamma=0.5, threads=1)
    learner.learn(Corridor(), interactions=100, rounds=1, seed=3).save("env.rlvc")
    data = Explorer(Corridor(), seed=3).collect(100, curious=True)
    learner.learn(data).save("data.rlvc")
    assert (root / "env.rlvc").read_bytes() == (root / "data.rlvc").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(("kind", "rounds"), [("colour", 1), ("nested", 3)])
def test_all_roads_of_the_command_line_lead_to_the_same_policy(
    kind: str, rounds: int, call: Any, root: Path
) -> None:
    call.succeed(
        "learn", CORRIDOR, "--arg", f"kind={kind}", "--interactions", 120, "--rounds", rounds,
        "--episodes", 0, "--gamma", 0.5, "--seed", 2,
    )  # fmt: skip
    recorder = Recorder(Corridor(kind=kind))
    *_, last = explore(recorder, RLVC(gamma=0.5).learn, interactions=120, rounds=rounds, seed=2)
    write_minari(last.interactions, "corridor/explored-v0")
    write_folder(last.interactions, root / "log")
    write_folder(last.interactions, root / "pq", table="parquet")
    write_arrays(last.interactions, recorder, root / "log.npz")
    sources = {
        "corridor-explored-v0": ["minari:corridor/explored-v0"],
        "log": ["log"],
        "pq-interactions.parquet": ["pq/interactions.parquet"],
        "log.npz": ["log.npz", "--actions", "left,right"],
    }
    for folder, source in sources.items():
        printed = call.succeed("learn", *source, "--gamma", 0.5)
        assert f"Results and pictures are in runs/{folder}; have a look at:" in printed
    files = {path.parent.name: path.read_bytes() for path in root.glob("runs/*/policy.rlvc")}
    assert set(files) == {"Corridor-v0", *sources}
    assert len(set(files.values())) == 1


@pytest.mark.usefixtures("unpainted")
def test_what_is_collected_is_learned_alike_wherever_it_is_kept(call: Any, root: Path) -> None:
    for to in ("minari:corridor/random-v0", "log"):
        printed = call.succeed(
            "collect", CORRIDOR, "--arg", "start=5", "--interactions", 80, "--to", to
        )
        assert printed.endswith(
            f"80 interactions in 18 episodes with 5 distinct percepts are in {to}.\n"
            f"Learn from them: rlvc learn {to}\n"
        )
        assert call("learn", to).code == 0
    expected = collect(Corridor(start=5), 80)
    assert identical(read_folder(root / "log"), expected)
    assert identical(read_minari("corridor/random-v0"), expected)
    one, other = (root / "runs" / name / "policy.rlvc" for name in ("corridor-random-v0", "log"))
    assert one.read_bytes() == other.read_bytes()
    metadata = minari.load_dataset("corridor/random-v0").storage.metadata
    assert metadata["description"] == (
        f"80 interactions of {CORRIDOR} --arg start=5, collected by rlvc"
    )


# In Python ---------------------------------------------------------------------------------------


def test_a_custom_task_from_an_environment() -> None:
    recorded = RecordingCallback()
    run = run_custom(
        Corridor(), RLVC(gamma=0.5, threads=1), interactions=100, rounds=2, epsilon=0.5, seed=4,
        episodes=7, callbacks=[recorded],
    )  # fmt: skip
    phases, steps = dict(recorded.phases), recorded.steps
    assert list(phases) == [
        "collect 1", "extract 1", "learn 1", "collect 2", "extract 2", "learn 2", "evaluate",
    ]  # fmt: skip
    assert steps == {"collect 1": 50, "extract 1": 5, "collect 2": 50, "evaluate": 7}
    assert {total for name, total in phases.items() if name.startswith("learn")} == {None}
    assert phases | steps == phases | {"extract 2": 0}  # as many as was promised
    assert recorded.rounds == run.result["rounds"]
    assert [one["interactions"] for one in recorded.rounds] == [50, 100]
    result = run.result
    assert (result["task"], result["seed"], result["interactions"]) == ("corridor", 4, 100)
    assert (result["actions"], result["percepts"]) == (2, 5)
    assert result["episodes"] == run.interactions.episode[-1] + 1
    assert result["classes"] == run.policy.n_classes == result["history"][-1]["classes"]
    assert result["features"]["selected"] == len(run.policy.classifier.features)
    assert set(result["seconds"]) == {"collect", "extract", "learn", "evaluate"}
    assert result["parameters"]["gamma"] == 0.5
    assert result["parameters"]["detector"]["type"] == "Harris"  # that which was chosen
    assert len(recorded.stages["learn 2"]) == len(result["history"]) == result["stages"] + 1
    expected = evaluate(run.policy, Corridor(), episodes=7, seed=1004)
    assert result["measures"] == expected.summary()
    assert result["measures"]["episodes"] == 7
    strict(json.dumps(result))  # no NaN
    assert run.best is run.policy
    for number, percept in enumerate(run.interactions.percepts):
        assert run.evaluation.classes[number] == run.policy.classify(percept)


def test_a_custom_task_from_data() -> None:
    data = collect(Corridor(kind="cameras"), 150)
    run = run_custom(data, RLVC(gamma=0.5, threads=1), trees=2, seed=1)
    assert run.interactions is data
    assert run.result["measures"] is None
    assert run.result["rounds"] == []
    assert set(run.result["seconds"]) == {"extract", "learn"}
    assert isinstance(run.best, ForestPolicy)
    assert run.result["forest"]["trees"] == 2
    strict(json.dumps(run.result))
    with pytest.raises(TypeError, match=r"^data of CustomTask must be a Gymnasium environment, I"):
        run_custom("log.npz")


def test_a_round_without_an_end_has_no_means() -> None:
    data = collect(Corridor(), 3)
    policy = RLVC(threads=1).learn(data)
    none = Round(1, data, policy, np.empty(0), np.empty(0, np.int64))
    assert describe_round(none) == {
        "round": 1, "interactions": 3, "episodes": 0, "return": None, "length": None, "classes": 1,
    }  # fmt: skip
    some = replace(none, returns=np.array([1.0, 0.0]), lengths=np.array([2, 5]))
    assert describe_round(some) == describe_round(none) | {
        "episodes": 2, "return": 0.5, "length": 3.5,
    }  # fmt: skip


def test_data_is_known_by_its_name(root: Path) -> None:
    (root / "log").mkdir()
    data = ["minari:x-v0", "a.npz", "a.csv", "a.parquet", "log", "log/", "./no", "/no", "no/"]
    worlds = ["CartPole-v1", "rlvc:rlvc/Maze-v0", "rlvc/Maze-v0", "no"]
    assert [source for source in (*data, *worlds) if is_data(source)] == data


def test_data_is_read_with_what_is_known_of_its_actions(root: Path) -> None:
    data = replace(collect(Corridor(), 20), action_names=())
    write_folder(data, root / "log")
    recorded = RecordingCallback()
    read = read_data("log", n_actions=3, action_names=("a", "b", "c"), callback=recorded)
    assert (read.n_actions, read.action_names) == (3, ("a", "b", "c"))
    assert recorded.phases == [("read", None)]
    assert recorded.steps == {"read": len(data.percepts)}


# Pictures ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs() -> dict[str, CustomOutcome]:
    learner = RLVC(gamma=0.5, threads=1)
    return {
        "environment": run_custom(Corridor(), learner, interactions=90, rounds=3, episodes=5),
        "data": run_custom(collect(Corridor(kind="nested", start=3), 150), learner),
    }


def test_classes_are_shown_with_what_is_done_there(runs: dict[str, CustomOutcome]) -> None:
    run = runs["environment"]
    figure = draw_classes(run)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    here = run.evaluation.classes[run.interactions.start]
    size = np.bincount(here, minlength=run.policy.n_classes)
    shown = [int(re.findall(r"class (\d+)", title)[0]) for title in titles]
    assert shown == [int(c) for c in np.argsort(-size, kind="stable") if size[c]]
    for number, title in zip(shown, titles, strict=True):
        name = ("left", "right")[run.policy.actions[number]]
        value = run.policy.values[number]
        assert title == f"class {number}: “{name}”\nvalue {value:.2f}, {size[number]}×"
    few = draw_classes(run, n=2)
    assert sum(bool(axes.get_title()) for axes in few.axes) == 2
    nameless = replace(
        runs["data"], policies={"learn": replace(runs["data"].policy, action_names=())}
    )
    titles = [axes.get_title() for axes in draw_classes(nameless).axes if axes.get_title()]
    assert {re.findall("“(.*)”", title)[0] for title in titles} <= {"3", "4"}


@pytest.mark.slow
def test_the_curve_of_rounds_needs_returns(runs: dict[str, CustomOutcome]) -> None:
    result = runs["environment"].result
    titles = [axes.get_title() for axes in draw_learning(result).axes]
    assert "Return while exploring" in titles
    silent = result | {"rounds": [one | {"return": None} for one in result["rounds"]]}
    for other in (silent, runs["data"].result, result | {"measures": None}):
        found = [axes.get_title() for axes in draw_learning(other).axes]
        assert ("Return while exploring" in found) == (other["measures"] is None and bool(
            other["rounds"]))  # fmt: skip


def test_each_camera_has_a_percept_to_try(runs: dict[str, CustomOutcome]) -> None:
    files = {
        kind: [run.task.percept_file(camera) for camera in run.task.sample_percept(run)]
        for kind, run in runs.items()
    }
    assert files["environment"] == ["percept.png"]
    assert files["data"] == [
        "percept-front-frame-1.png", "percept-front-frame-2.png",
        "percept-rear-frame-1.png", "percept-rear-frame-2.png",
    ]  # fmt: skip


# rlvc learn --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_learning_from_an_environment(call: Any, root: Path) -> None:
    out = root / "my runs" / "one"
    printed = call.succeed(
        "learn", CORRIDOR, "--arg", "limit=9", "--interactions", 120, "--rounds", 3, "--episodes",
        20, "--gamma", 0.5, "--out", out,
    )  # fmt: skip
    assert set(contents(out)) == ENV_FILES
    for name in PICTURE_FILES:
        assert min(read(out / name).shape[:2]) > 150
        assert read(out / name).std() > 5
    assert read(out / "percept.png").shape == (SIDE, SIDE, 3)
    result = strict((out / "result.json").read_text(encoding="utf-8"))
    assert result["task"] == CORRIDOR
    assert result["source"] == f"{CORRIDOR} --arg limit=9"
    assert shlex.split(result["command"])[:5] == ["rlvc", "learn", CORRIDOR, "--arg", "limit=9"]
    assert shlex.split(result["command"])[-1] == str(out)
    examples = Examples.load(out / "examples.rlvc")
    assert (examples.count.sum(), len(examples.percepts)) == (120, 4)  # the goal ends an episode
    assert examples.classes is not None
    assert examples.classes.max() < result["classes"]
    assert result["interactions"] == 120
    policy = Policy.load(out / "policy.rlvc")
    assert policy.n_classes == result["classes"]
    assert (policy.gamma, policy.action_names) == (0.5, ("left", "right"))
    with (out / "rounds.csv").open(newline="") as file:
        rounds = list(csv.DictReader(file))
    assert [row["step"] for row in rounds] == ["60", "90", "120"]
    assert [float(row["return"]) for row in rounds] == [one["return"] for one in result["rounds"]]
    with (out / "stages.csv").open(newline="") as file:
        stages = list(csv.DictReader(file))
    assert stages[-1]["classes"] == str(result["classes"])
    assert stages[-1]["interactions"] == "120"
    # What it says
    for phase in ("explore 1", "extract 1", "learn 1", "explore 3", "learn 3", "measure"):
        assert re.search(rf"^{phase} .* s\b", printed, re.M), phase
    assert re.search(r"^round +interactions +classes +episodes +return +steps$", printed, re.M)
    assert re.search(r"^ +3 +120 +4 +", printed, re.M)
    assert re.search(r"^return +1\.00 +1\.00 to 1\.00$", printed, re.M)
    assert re.search(r"^success +100\.0% +83\.9% to 100\.0%$", printed, re.M)
    assert f"Results and pictures are in {out}; have a look at:\n" in printed
    for name in PICTURE_FILES:
        assert f"  {out / name}  " in printed
    # What it recommends
    assert f"rlvc report '{out}' --open\n" in printed
    why, watch = printed.splitlines()[-2:]
    assert why.startswith("Ask why: rlvc explain ")
    assert watch.startswith("Watch it: rlvc play ")
    printed = call.succeed(*shlex.split(why)[3:], "--out", root / "why.png")
    assert re.search(r"^so the action is (left|right)$", printed, re.M)
    call.succeed(*shlex.split(watch)[3:], "--max-steps", 1, "--fps", 1)
    assert (out / "play.mp4").stat().st_size > 1000


@pytest.mark.usefixtures("unpainted")
def test_learning_from_drawings_and_frames(call: Any, root: Path) -> None:
    words = [CORRIDOR, "--arg", "kind=vector", "--render", "--size", "40x32", "--frames", 2]
    printed = call.succeed("learn", *words, "--interactions", 60, "--rounds", 2, "--episodes", 3)
    folder = root / "runs" / "Corridor-v0"
    result = strict((folder / "result.json").read_text())
    assert result["source"] == (f"{CORRIDOR} --render --arg kind=vector --size 40x32 --frames 2")
    assert {f"percept-frame-{i}.png" for i in (1, 2)} <= set(contents(folder))
    assert read(folder / "percept-frame-1.png").shape == (32, 40, 3)
    policy = Policy.load(folder / "policy.rlvc")
    assert policy.shapes == {"frame 1": (32, 40, 3), "frame 2": (32, 40, 3)}
    why = next(line for line in printed.splitlines() if line.startswith("Ask why: "))
    call.succeed(*shlex.split(why)[3:], "--out", root / "why.png")
    assert call("evaluate", folder / "policy.rlvc", *words, "--episodes", 5, "--json").code == 0
    told = call.fail(2, "evaluate", folder / "policy.rlvc", *words[:-2], "--episodes", 5)
    assert told.endswith(
        "rlvc: The images of the environment must be those of the policy, frame 1 "
        "32 × 40 × 3, frame 2 32 × 40 × 3; got 32 × 40 × 3. Make the environment with the same "
        "options: --wrap, --render, --size, --frames, --arg.\n"
    )


@pytest.mark.usefixtures("unpainted")
def test_a_forest_and_other_choices(call: Any, root: Path) -> None:
    call.succeed(
        "learn", CORRIDOR, "--interactions", 80, "--rounds", 2, "--episodes", 5, "--trees", 2,
        "--compact", "--set", "max_splits=3", "--tensorboard", "--out", "one",
    )  # fmt: skip
    assert isinstance(load_policy(root / "one" / "policy.rlvc"), ForestPolicy)
    assert isinstance(load_policy(root / "one" / "one.rlvc"), Policy)
    result = strict((root / "one" / "result.json").read_text())
    assert result["parameters"]["post_process"]["type"] == "Compaction"
    assert result["parameters"]["max_splits"] == 3
    assert result["forest"]["trees"] == 2
    assert Examples.load(root / "one" / "examples.rlvc").classes is None  # of which tree?
    (events,) = (root / "one" / "tensorboard").iterdir()
    for tag in (b"stages/classes", b"stages/residual", b"rounds/return", b"rounds/episodes"):
        assert tag in events.read_bytes()
    # None of its files stay when the folder is used again, for data.
    write_folder(collect(Corridor(), 60), root / "log")
    call.succeed("learn", "log", "--out", "one", "--overwrite")
    assert {path.name for path in (root / "one").iterdir()} == DATA_FILES | {"tensorboard"}


@pytest.mark.usefixtures("unpainted")
def test_a_module_in_the_current_folder_is_found(call: Any, root: Path) -> None:
    (root / "my_world.py").write_text(
        "import gymnasium\n"
        "from tests.support.worlds import Corridor as Mine\n"
        "gymnasium.register('Mine-v0', 'my_world:Mine')\n"
    )
    (root / "json.py").write_text("raise SystemExit('this hides what is installed')\n")
    words = ("learn", "my_world:Mine-v0", "--interactions", 20, "--rounds", 1, "--episodes", 0)
    told = call.fail(2, *words, "--wrap", "my_world:gymnasium.Wrapper")
    assert told.endswith("There is no wrapper 'gymnasium.Wrapper' in my_world.\n")
    call.succeed(*words)
    gymnasium.registry.pop("Mine-v0")


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_a_first_round_without_an_end(call: Any, root: Path) -> None:
    printed = call.succeed("learn", CORRIDOR, "--interactions", 40, "--rounds", 20, "--episodes", 0)
    with (root / "runs" / "Corridor-v0" / "rounds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert {"0", "1"} <= {row["episodes"] for row in rows}
    assert {row["return"] for row in rows if row["episodes"] == "0"} == {""}
    assert re.search(r"^ +\d+ +\d+ +\d+ +0 +– +–$", printed, re.M)
    assert "measure" not in printed


@pytest.mark.usefixtures("unpainted")
def test_results_are_not_overwritten_by_accident(call: Any, root: Path) -> None:
    words = ("learn", CORRIDOR, "--interactions", 30, "--rounds", 1, "--episodes", 0)
    assert call(*words).code == 0
    folder = root / "runs" / "Corridor-v0"
    before = contents(folder)
    told = call.fail(2, *words, "--seed", 5)
    assert told.startswith("rlvc: runs/Corridor-v0 holds a run already; ")
    assert contents(folder) == before
    assert call(*words, "--seed", 5, "--overwrite").code == 0
    assert strict((folder / "result.json").read_text())["seed"] == 5


def test_the_help_fits_a_terminal(call: Any) -> None:
    for command in ("learn", "collect", "play", "evaluate"):
        printed = call.succeed(command, "--help")
        assert max(map(len, printed.splitlines())) <= 80
    words = " ".join(call("learn", "--help").out.replace("│", " ").split())
    for source in ("An environment: its Gymnasium id", "minari:ID", "a folder of images with one "
                   "table", "a .npz file of arrays"):  # fmt: skip
        assert source in words


# What does not fit -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["log.npz", "--rounds", "3"], "--rounds is for environments only; log.npz is data."),
        (
            ["minari:a/b-v0", "--interactions", "9", "--frames", "2", "--wrap", "a:b"],
            "--interactions, --wrap, --frames are for environments only; minari:a/b-v0 is data.",
        ),
        (
            [CORRIDOR, "--actions", "left,right"],
            "--actions is for a folder or arrays only; an environment defines its actions.",
        ),
        (
            ["minari:a/b-v0", "--actions", "2"],
            "--actions is for a folder or arrays only; a Minari dataset defines its actions.",
        ),
        (
            [CORRIDOR, "--interactions", "5", "--rounds", "9"],
            "rounds of learn must be at least 1, and no more than the 5 interactions; got 9.",
        ),
        ([CORRIDOR, "--gamma", "1.2"], "gamma of RLVC must be in [0, 1); got 1.2."),
        ([CORRIDOR, "--size", "big"], "A size must read WIDTHxHEIGHT, such as 160x120; got 'big'."),
        ([CORRIDOR, "--arg", "kind"], "An argument must read NAME=VALUE; got 'kind'."),
        (
            ["no_such_package:Maze-v0"],
            "The module 'no_such_package' of the environment 'no_such_package:Maze-v0' is not "
            "installed, nor is it in this folder; install the package that provides it, for "
            "example: pip install no_such_package.",
        ),
        (
            ["minari:maze/random-v0"],
            "There is no local Minari dataset 'maze/random-v0', nor any other. Get one with: "
            "minari download maze/random-v0",
        ),
    ],
)
def test_wrong_usage_is_explained(words: list[str], message: str, call: Any, root: Path) -> None:
    done = call("learn", *words)
    assert (done.code, done.err) == (2, f"rlvc: {message}\n")
    assert list(root.glob("runs/*/*")) == []


def test_an_environment_without_images_is_refused(call: Any, root: Path) -> None:
    told = call.fail(2, "learn", CORRIDOR, "--arg", "kind=vector")
    assert told.startswith("rlvc: The observations of the environment must be images; got Box(")
    assert "add --render" in told
    told = call.fail(2, "learn", "minigrid:MiniGrid-Empty-5x5-v0")
    assert "got 7 × 7, which is too small for any feature" in told
    assert not (root / "runs").exists()


def test_all_that_is_wrong_with_a_folder_is_listed(call: Any, root: Path) -> None:
    write_images(root / "log", n=2, shape=(16, 16, 3))
    write_table(root / "log", "0,0,0.png,7,nan,,\n0,2,none.png,0,1,maybe,\n1,0,1.png,x,,,", HEADER)
    done = call("learn", "log", "--actions", "left,right")
    assert done.code == 1
    lines = done.err.splitlines()
    assert lines[0] == "rlvc: log has 8 problems (rows are counted from 1, after the header):"
    assert len(lines) == 1 + 8
    assert lines[1].startswith("  action is not a whole number in row 3 (x).")
    assert not (root / "runs").exists()


@pytest.mark.parametrize("source", ["nowhere/", "./nowhere", "nowhere/log.csv"])
def test_a_folder_that_is_not_there(source: str, call: Any, root: Path) -> None:
    done = call("learn", source)
    message = f"rlvc: {source} has 1 problem:\n  There is no such folder and no such file.\n"
    assert (done.code, done.err) == (1, message)
    assert list(root.iterdir()) == []


def test_extras_that_are_missing(call: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    told = 'tensorboardX is not installed; install it with: pip install "rlvc[tensorboard]".'
    for words in (["learn", CORRIDOR], ["run", "maze"]):
        assert call.fail(1, *words, "--tensorboard") == f"rlvc: {told}\n"
    assert list(root.glob("runs/*/*")) == []  # nothing was collected in vain


# rlvc collect ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy for the corridor."""
    path = tmp_path_factory.mktemp("policy") / "policy.rlvc"
    RLVC(gamma=0.5, threads=1).learn(collect(Corridor(), 200)).save(path)
    return path


def test_collecting_around_a_policy(call: Any, root: Path, walker: Path) -> None:
    for epsilon, folder in (("0", "greedy"), ("1", "random")):
        call.succeed(
            "collect", CORRIDOR, "--policy", walker, "--epsilon", epsilon, "--interactions", 60,
            "--seed", 3, "--to", folder,
        )  # fmt: skip
    greedy, random = read_folder(root / "greedy"), read_folder(root / "random")
    policy = load_policy(walker)
    assert identical(greedy, collect(Corridor(), 60, policy=policy, epsilon=0.0, seed=3))
    assert greedy.episode[-1] > 1.5 * random.episode[-1]


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("minari:corridor", "The id of a Minari dataset must be NAME-vVERSION, with optional "
         "namespaces before it, such as maze/random-v0; got 'corridor'."),
        ("minari:corridor/here-v0", "There is a Minari dataset corridor/here-v0 already, and "
         "datasets are not overwritten. Choose another id, or remove it with: minari delete "
         "corridor/here-v0"),
        ("full", "path of write_folder must be new or an empty folder; got full, which holds "
         "files."),
    ],
)  # fmt: skip
def test_where_nothing_can_be_written_nothing_is_collected(
    to: str, message: str, call: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_minari(collect(Corridor(), 5), "corridor/here-v0")
    (root / "full").mkdir()
    (root / "full" / "file").touch()
    monkeypatch.delattr(Corridor, "step")
    assert call.fail(2, "collect", CORRIDOR, "--to", to) == f"rlvc: {message}\n"


# rlvc evaluate and rlvc play ---------------------------------------------------------------------


def test_measuring_in_an_environment(call: Any, walker: Path) -> None:
    words = ("evaluate", walker, CORRIDOR, "--episodes", 30)
    expected = evaluate(load_policy(walker), Corridor(), episodes=30).summary()
    assert strict(call(*words, "--json").out) == expected
    other = strict(call(*words, "--seed", 6, "--json").out)
    assert other["length"] != expected["length"]
    printed = call.succeed(*words)
    table = re.search(r"^30 episodes.*", printed, re.M | re.S)
    assert table is not None
    assert [line.split("  ")[0] for line in table[0].splitlines()] == [
        "30 episodes", "return", "steps", "ended by the task", "return above 0", "success",
    ]  # fmt: skip
    low, high = expected["length"]["low"], expected["length"]["high"]
    assert f"{low:.2f} to {high:.2f}" in table[0]


def test_a_policy_of_other_actions_is_refused(call: Any, walker: Path, root: Path) -> None:
    words = (CORRIDOR, "--arg", "start=1")
    message = (
        "rlvc: The actions of the environment must be those of the policy, 0 to 1; got "
        "Discrete(2, start=1). Was it learned in another environment?\n"
    )
    for command in (
        ("evaluate", walker, *words),
        ("play", walker, *words, "--video", "film.gif"),
        ("collect", *words, "--policy", walker, "--to", "log"),
    ):
        assert call.fail(2, *command) == message
    assert list(root.iterdir()) == []


def test_tasks_and_environments_are_not_mixed(call: Any, walker: Path) -> None:
    assert call.fail(2, "evaluate", walker, CORRIDOR, "--task", "maze") == (
        "rlvc: --task and --pictures are for policies of `rlvc run`, not for ENV_ID.\n"
    )


class Plain(Corridor):
    """The corridor, which cannot draw itself."""

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium's

    def __init__(self) -> None:
        super().__init__()


def test_a_film_of_a_policy(
    call: Any, walker: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = ("play", walker, CORRIDOR, "--video")
    printed = call.succeed(*play, "film.gif", "--fps", 1, "--seed", 4)
    lengths = evaluate(load_policy(walker), Corridor(), episodes=1, seed=4).lengths
    n = int(lengths.sum()) + 2  # the end of an episode is shown for two seconds
    assert printed.endswith(f"The video is in film.gif ({n} frames).\n")
    with PIL.Image.open(root / "film.gif") as film:
        assert film.size == (1280, 720)
    monkeypatch.setitem(
        gymnasium.registry, "Plain-v0",
        gymnasium.envs.registration.EnvSpec("Plain-v0", f"{__name__}:Plain"),
    )  # fmt: skip
    call.succeed("play", walker, "Plain-v0", "--video", "plain.gif", "--max-steps", 1, "--fps", 1)
    assert call.fail(2, *play, "film.avi") == (
        "rlvc: path of write_video must end in .mp4 or .gif; got 'film.avi'.\n"
    )


# A whole task ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_a_small_grid_is_solved(call: Any, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        done = call(
            "learn", "minigrid:MiniGrid-Empty-5x5-v0", "--wrap",
            "minigrid.wrappers:RGBImgObsWrapper", "--interactions", 1500, "--episodes", 10,
        )  # fmt: skip
    assert done.code == 0, done.err
    assert "Only images are learned from; left out: direction, mission." in caplog.messages
    folder = root / "runs" / "MiniGrid-Empty-5x5-v0"
    result = strict((folder / "result.json").read_text())
    assert result["measures"]["rewarded"]["mean"] == 1.0
    assert result["measures"]["length"]["mean"] <= 6.0  # five are possible
    policy = Policy.load(folder / "policy.rlvc")
    assert policy.action_names[:3] == ("left", "right", "forward")
    assert read(folder / "percept-image.png").shape == (40, 40, 3)


@pytest.mark.usefixtures("unpainted")
def test_modules_that_lie_beside_data_are_not_run(
    call: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many packages import optional ones, which a stranger's folder might contain."""
    log = root / "log"
    write_folder(collect(Corridor(), 60, seed=0), log)
    (log / "trap.py").write_text("raise SystemExit(77)")
    monkeypatch.chdir(log)
    before = sys.path[:]
    call.succeed("learn", ".", "--out", root / "out")
    assert sys.path == before
    assert call("learn", "trap:Trap-v0").code == 77  # named by the user, so that it is meant to run
    assert sys.path == before


def test_the_policy_is_kept_before_it_is_measured(
    call: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlvc.tasks.custom.task.evaluate", stop)
    assert call("learn", CORRIDOR, "--interactions", 60, "--out", root / "out").code == 1
    assert load_policy(root / "out" / "policy.rlvc").n_actions == 2
    for name in ("result.json", "live.json", "live.rlvc", "examples.rlvc"):
        assert not (root / "out" / name).exists()


def test_wrong_usage_leaves_an_earlier_run_as_it_was(call: Any, root: Path) -> None:
    out = root / "out"
    out.mkdir()
    for name in ("result.json", "stages.csv", "rounds.csv"):
        (out / name).write_text("old")
    words = ("learn", CORRIDOR, "--interactions", 3, "--rounds", 5, "--out", out)
    assert call.fail(2, *words, "--overwrite") == (
        "rlvc: rounds of learn must be at least 1, and no more than the 3 interactions; got 5.\n"
    )
    assert {file.read_text() for file in out.iterdir()} == {"old"}
