from __future__ import annotations

import contextlib
import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import rlvc
from rlvc import RLVC, Policy
from rlvc.classifiers import Diagrams, Tree
from rlvc.cli import app, main
from rlvc.runs import describe_parameters, evaluate_policy
from rlvc.tasks import MazeTask, grid_over
from tests.support.builders import COLOUR, GREY, RIGHT, database
from tests.support.commands import SMALL_RUN, Done, contents, read, strict
from tests.support.tasks import SMALL, small_task

PICTURES = {"policy.png", "values.png", "learning.png", "features.png", "percept.png"}
FILES = PICTURES | {"result.json", "policy.rlvc", "stages.csv"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the small task once; nobody may write here."""
    folder = tmp_path_factory.mktemp("cli") / "small"
    with small_task(), pytest.raises(SystemExit, match=r"^0$"):
        main([*SMALL_RUN, "--out", str(folder)])
    return folder


# A whole run of the maze -------------------------------------------------------------------------


def check_result(result: dict[str, Any], task: str, interactions: int) -> None:
    measures = {"success", "mean_steps", "suboptimal"}
    assert {
        "task", "pictures", "seed", "interactions", "stages", "classes", "features", "seconds",
        "measures", "direct", "history",
    } <= set(result)  # fmt: skip
    assert (result["task"], result["pictures"], result["seed"]) == (task, "photos", 0)
    assert result["interactions"] == interactions
    assert set(result["features"]) == {"distinct", "selected"}
    assert set(result["seconds"]) == {"collect", "extract", "learn", "evaluate"}
    assert set(result["measures"]) == measures
    assert set(result["direct"]) == {"equal", "best"}
    for one in result["direct"].values():
        assert set(one) == {"cells"} | measures
    for one in (result["measures"], *result["direct"].values()):
        assert 0.0 <= one["success"] <= 1.0
        assert 0.0 <= one["suboptimal"] <= 1.0
        assert (one["mean_steps"] is None) == (one["success"] == 0)
    assert len(result["history"]) == result["stages"] + 1
    for line in result["history"]:
        assert {"stage", "classes", "features", "residual"} <= set(line)
        assert all(isinstance(line[key], (int, float)) for key in ("stage", "classes", "features"))
        assert line["residual"] >= 0.0
    assert result["versions"]["rlvc"] == rlvc.__version__


def check_folder(folder: Path, window: int) -> None:
    assert set(contents(folder)) == FILES
    for name in PICTURES - {"percept.png"}:
        image = read(folder / name)
        assert min(image.shape[:2]) >= 200
        assert max(image.shape[:2]) >= 1000
        assert len(np.unique(image @ (1, 256, 65536))) > 50  # colours
        assert image.std() > 5
    percept = read(folder / "percept.png")
    assert percept.shape == (window, window, 3)
    assert percept.std() > 5


@pytest.mark.slow
def test_the_maze_from_its_run_to_an_explanation(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse = functools.partial(grid_over, spacing=51.2)  # a quarter of the percepts to look at
    monkeypatch.setattr("rlvc.tasks.navigation.task.grid_over", coarse)
    folder = tmp_path / "maze"
    done = call("run", "maze", "--interactions", 400, "--episodes", 5, "--out", folder)
    assert done.code == 0, done.err
    for phase in ("explore", "extract", "learn", "measure"):
        assert re.search(rf"^{phase} .* s\b", done.out, re.M)
    assert f"rlvc explain {folder / 'policy.rlvc'} {folder / 'percept.png'}\n" in done.out
    assert f"rlvc report {folder} --open\n" in done.out
    check_folder(folder, window=230)
    result = strict((folder / "result.json").read_text(encoding="utf-8"))
    check_result(result, "maze", 400)
    assert 10 <= result["classes"] <= 60
    policy = Policy.load(folder / "policy.rlvc")
    assert policy.n_classes == result["classes"]
    assert dict(policy.about) == {"task": "maze", "pictures": "photos"}
    printed = call.succeed("explain", folder / "policy.rlvc", folder / "percept.png", "--out",
                tmp_path / "x.png")  # fmt: skip
    percept = np.ascontiguousarray(read(folder / "percept.png")[:, :, ::-1])
    assert printed == f"{policy.explain(percept)}\nThe picture is in {tmp_path / 'x.png'}.\n"
    assert read(tmp_path / "x.png").std() > 5


# Run ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_writes_all_it_promises(folder: Path) -> None:
    check_folder(folder, window=SMALL.window)
    text = (folder / "result.json").read_text(encoding="utf-8")
    result = strict(text)
    check_result(result, "small", 300)
    assert result["command"] == shlex.join(["rlvc", *SMALL_RUN, "--out", str(folder)])
    policy = Policy.load(folder / "policy.rlvc")
    assert policy.n_classes == result["classes"] == result["history"][-1]["classes"] > 1
    assert len(policy.classifier.features) == result["features"]["selected"]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_second_run_needs_another_folder_or_a_word(
    call: Any, folder: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    again.mkdir()
    for name, data in contents(folder).items():
        (again / name).write_bytes(data)
    assert call.fail(2, *SMALL_RUN, "--seed", 1, "--out", again) == (
        f"rlvc: {again} holds a run already; give another folder with --out, or add --overwrite.\n"
    )
    assert contents(again) == contents(folder)
    (again / "policy.rlvc").write_bytes(b"old")
    (again / "notes.txt").write_text("mine")
    call.succeed(*SMALL_RUN, "--out", again, "--overwrite")
    assert set(contents(again)) == FILES | {"notes.txt"}
    (again / "notes.txt").unlink()
    # The same seed as the first run: the same policy and pictures, byte for byte.
    assert contents(again) | {"result.json": b""} == contents(folder) | {"result.json": b""}
    first, second = (strict((f / "result.json").read_text()) for f in (folder, again))
    assert second["command"] == first["command"].replace(str(folder), str(again))
    for result in (first, second):
        del result["seconds"], result["command"]
    assert first == second


@pytest.mark.usefixtures("small", "unpainted")
def test_the_folder_is_named_after_the_task_unless_given(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call.succeed(
        "run", "small", "--seed", 3, "--interactions", 40, "--episodes", 1, "--preset", "paper",
        "--set", "solver=q_learning", "--set", "selector.min_samples=4", "--set", "max_splits=2",
    )  # fmt: skip
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]
    result = strict((tmp_path / "runs" / "small" / "result.json").read_text())
    assert (result["seed"], result["interactions"]) == (3, 40)
    found = result["parameters"]
    assert found["solver"]["type"] == "QLearning"
    assert found["selector"] == {
        "type": "Selector", "ranking": "remaining", "test": "student", "alpha": 0.05,
        "correction": "none", "min_samples": 4, "samples": "interactions", "relevant": False,
    }  # fmt: skip
    assert found["detector"]["type"] == "Harris"
    assert (found["max_splits"], found["gamma"]) == (2, SMALL.gamma)


@pytest.mark.slow
@pytest.mark.usefixtures("small", "unpainted")
def test_classes_are_merged_when_told(call: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    call.succeed(*SMALL_RUN, "--compact", "--set", "post_process.epsilon=0.4", "--out", out)
    assert set(contents(out)) == FILES
    result = strict((out / "result.json").read_text(encoding="utf-8"))
    check_result(result, "small", 300)
    assert result["parameters"]["post_process"] == {
        "type": "Compaction", "every": 10, "epsilon": 0.4, "equivalence": "value+policy",
        "on_the_way": "action-value", "backend": "auto",
    }  # fmt: skip
    policy, plain = (Policy.load(f / "policy.rlvc") for f in (out, folder))
    assert isinstance(policy.classifier, Diagrams)
    assert isinstance(plain.classifier, Tree)
    assert policy.n_classes == result["classes"] < plain.n_classes
    printed = call.succeed(
        "explain", out / "policy.rlvc", out / "percept.png", "--out", tmp_path / "x.png"
    )
    assert re.search(r"^so the action is (up|right|down|left)$", printed, re.M)
    printed = call.succeed("evaluate", out / "policy.rlvc", "--episodes", 5, "--json")
    assert strict(printed)["suboptimal"] == result["measures"]["suboptimal"]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_floor_without_any_feature_is_learned_all_the_same(
    call: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cv2.imwrite(str(tmp_path / "grey.png"), np.full((64, 64), 90, np.uint8))
    out = tmp_path / "out"
    done = call("run", "small", "--interactions", 30, "--episodes", 2, "--pictures",
                tmp_path / "grey.png", "--out", out)  # fmt: skip
    assert done.code == 0, done.err
    assert "No percept has an interest point" in caplog.text
    result = strict((out / "result.json").read_text())
    assert result["features"] == {"distinct": 0, "selected": 0}
    assert result["classes"] == 1
    assert set(contents(out)) == FILES
    printed = call.succeed(
        "explain", out / "policy.rlvc", out / "percept.png", "--out", tmp_path / "x.png"
    )
    assert printed.startswith("so this is class 0, where the values are up ")


# Evaluate and explain ----------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_evaluating_prints_the_measures(call: Any, folder: Path) -> None:
    printed = call.succeed("evaluate", folder / "policy.rlvc", "--episodes", 20, "--json")
    found = strict(printed)
    assert list(found) == ["task", "pictures", "success", "mean_steps", "suboptimal"]
    assert (found["task"], found["pictures"]) == ("small", "photos")
    expected = evaluate_policy(Policy.load(folder / "policy.rlvc"), seed=1000, episodes=20)
    assert found == expected
    result = strict((folder / "result.json").read_text(encoding="utf-8"))
    assert found["suboptimal"] == result["measures"]["suboptimal"]  # whatever the seed
    printed = call.succeed("evaluate", folder / "policy.rlvc", "--episodes", 20)
    rows = dict(line.split(maxsplit=1) for line in printed.strip().split("\n"))
    assert rows["success"].strip() == f"{found['success']:.3f}"
    assert rows["task"].strip() == "small"
    other = strict(call("evaluate", folder / "policy.rlvc", "--episodes", 20, "--seed", 3,
                        "--json").out)  # fmt: skip
    assert other["suboptimal"] == found["suboptimal"]
    assert other["mean_steps"] != found["mean_steps"]


@pytest.mark.slow
def test_explaining_draws_and_prints(call: Any, folder: Path, tmp_path: Path) -> None:
    image, out = folder / "percept.png", tmp_path / "deep" / "x.png"
    printed = call.succeed("explain", folder / "policy.rlvc", image, "--out", out)
    policy = Policy.load(folder / "policy.rlvc")
    explanation = policy.explain(np.ascontiguousarray(read(image)[:, :, ::-1]))
    lines = printed.split("\n")
    assert len(explanation.tests) > 0
    assert lines[0] == f"1. {explanation.tests[0]}"
    assert lines[-4].startswith(f"so this is class {explanation.visual_class}, where the values")
    assert lines[-3] == f"so the action is {explanation.name(explanation.best)}"
    assert lines[-2] == f"The picture is in {out}."  # on one line, however long
    assert read(out).shape[1] > read(out).shape[0] > 500
    assert [p.name for p in out.parent.iterdir()] == ["x.png"]
    with contextlib.chdir(out.parent):
        call.succeed("explain", folder / "policy.rlvc", image)
    assert {p.name for p in out.parent.iterdir()} == {"x.png", "percept-explained.png"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "image",
    [COLOUR[0][..., 0], COLOUR[0][:1, :1], COLOUR[0][:7, :50], np.tile(COLOUR[0], (3, 5, 1)),
     np.concatenate([COLOUR[0], COLOUR[0][..., :1]], axis=2), COLOUR[0].astype(np.uint16) * 257],
    ids=["grey", "one pixel", "narrow", "larger", "transparent", "16 bits"],
)  # fmt: skip
def test_any_image_can_be_explained(call: Any, folder: Path, tmp_path: Path, image: Any) -> None:
    cv2.imwrite(str(tmp_path / "image.png"), image)
    printed = call.succeed("explain", folder / "policy.rlvc", tmp_path / "image.png", "--out",
                tmp_path / "x.png")  # fmt: skip
    assert re.search(r"^so the action is (up|right|down|left)$", printed, re.M)
    assert read(tmp_path / "x.png").std() > 5


def test_one_camera_takes_one_image(call: Any, folder: Path, tmp_path: Path) -> None:
    image = folder / "percept.png"
    told = call.fail(2, "explain", folder / "policy.rlvc", image, image, "--out", tmp_path / "x")
    assert told == "rlvc: This policy has one camera, so explain takes one image; got 2.\n"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a=b.png").write_bytes(image.read_bytes())  # a name like any other
    call.succeed("explain", folder / "policy.rlvc", tmp_path / "a=b.png", "--out", tmp_path / "x")


@pytest.mark.slow
def test_a_policy_of_grey_images_can_be_explained(call: Any, tmp_path: Path) -> None:
    RLVC(threads=1).learn(database(GREY)).save(tmp_path / "p")
    for number, action in enumerate(RIGHT[:2]):
        cv2.imwrite(str(tmp_path / "image.png"), GREY[number])
        printed = call.succeed(
            "explain", tmp_path / "p", tmp_path / "image.png", "--out", tmp_path / "x.png"
        )
        assert f"\nso the action is {action}\n" in printed


# Wrong usage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mazze"],
         "Unknown task 'mazze'. Did you mean 'maze'? Known: campus, hill, maze, subway."),
        (["maze", "--preset", "papr"],
         "Unknown preset 'papr'. Did you mean 'paper'? Known: default, paper."),
        (["maze", "--set", "gama=1"],
         "Unknown parameter 'gama'. Did you mean 'gamma'? Known: absorbing_self_loops, "
         "aliasing, descriptor, detector, engine, gamma, generator, max_splits, max_stages, "
         "metric, post_process, selector, shrinkage, solver, surrogates, threads, threshold."),
        (["maze", "--pictures", "photo"],
         "Unknown pictures 'photo'. Did you mean 'photos'? Known: coil, photos, the path to an "
         "image or a folder of images."),
        (["subway", "--pictures", "coil"], "Unknown pictures 'coil'. Known: photos, street, the "
         "path to an image or a folder of images."),
    ],
)  # fmt: skip
def test_wrong_usage_of_run_is_explained(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("run", *arguments)  # one line, so that others can search it
    assert (done.code, done.err) == (2, f"rlvc: {message}\n")
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "Missing argument"),
        (["run", "maze", "--seed", "-1"], "--seed"),
        (["run", "maze", "--seed", "one"], "--seed"),
        (["run", "maze", "--interactions", "0"], "--interactions"),
        (["run", "maze", "--episodes", "0"], "--episodes"),
        (["run", "maze", "--colour"], "--colour"),
        (["walk"], "walk"),
        (["evaluate"], "Missing argument"),
        (["explain", "policy.rlvc"], "Missing argument"),
    ],
)
def test_wrong_arguments_are_named(call: Any, arguments: list[str], words: str) -> None:
    assert words in call.fail(2, *arguments)


def test_a_file_is_no_folder_for_results(call: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    told = call.fail(2, "run", "maze", "--out", tmp_path / "file")
    assert told == f"rlvc: {tmp_path / 'file'} is a file; give --out the name of a folder.\n"
    assert call.fail(1, "run", "maze", "--out", tmp_path / "file" / "folder") == (
        f"rlvc: {tmp_path / 'file' / 'folder'} cannot be written to (Not a directory); give "
        "another folder with --out.\n"
    )
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "mine")]


def test_a_policy_for_nothing_in_particular_needs_a_task(
    call: Any, saved: bytes, tmp_path: Path
) -> None:
    (tmp_path / "p").write_bytes(saved)
    assert call.fail(2, "evaluate", tmp_path / "p") == (
        "rlvc: The policy does not say which task it is for; give the id of its environment, or "
        "name a task of `rlvc run` with --task.\n"
    )
    assert call.fail(2, "evaluate", tmp_path / "p", "--task", "mace") == (
        "rlvc: Unknown task 'mace'. Did you mean 'maze'? Known: campus, hill, maze, subway.\n"
    )


# Failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["evaluate", "explain"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path, data: None, "There is no file PATH."),
        (lambda path, data: path.mkdir(), "PATH is a folder; name a file in it."),
        (lambda path, data: path.write_text("hello"),
         "PATH is not a rlvc-policy file: rlvc did not write it."),
        (lambda path, data: path.write_bytes(data[: len(data) // 2]),
         "PATH is damaged: its header is invalid, or bytes are missing at its end. Copy it again "
         "from an intact copy, or make it again."),
    ],
    ids=["missing", "folder", "text", "cut"],
)  # fmt: skip
def test_a_policy_that_cannot_be_read_is_a_failure(
    call: Any, saved: bytes, tmp_path: Path, command: str, make: Any, message: str
) -> None:
    path = tmp_path / "policy.rlvc"
    make(path, saved)
    image = [tmp_path / "image.png"] if command == "explain" else []
    assert call.fail(1, command, path, *image) == f"rlvc: {message.replace('PATH', str(path))}\n"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "cannot be read: No such file or directory. "),
        (lambda path: path.mkdir(), "cannot be read: Is a directory. "),
        (lambda path: path.write_text("no image"), "is not an image that OpenCV can read. "),
    ],
    ids=["missing", "folder", "text"],
)
def test_an_image_that_cannot_be_read_is_a_failure(
    call: Any, folder: Path, tmp_path: Path, make: Any, message: str
) -> None:
    make(tmp_path / "image.png")
    done = call("explain", folder / "policy.rlvc", tmp_path / "image.png", "--out",
                tmp_path / "x.png")  # fmt: skip
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"rlvc: Picture {tmp_path / 'image.png'} {message}")
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize(
    ("task", "pictures", "message"),
    [
        ("maze", "coil", "Pictures 'coil' need the folder coil100 in RLVC_DATA; RLVC_DATA is not "
         "set. Set RLVC_DATA to a folder that holds coil100, or use --pictures photos."),
        ("campus", "places", "Pictures 'places' were not found: RLVC_DATA is not set, and they are "
         "not downloaded. Get them with: rlvc data get places; or set RLVC_DATA to a folder that "
         "holds places."),
        ("maze", "no/where.png", "Pictures 'no/where.png' are neither an image file nor a folder. "
         "Check the path, or use --pictures photos."),
    ],
)  # fmt: skip
def test_pictures_that_are_not_there_are_a_failure(
    call: Any, tmp_path: Path, task: str, pictures: str, message: str
) -> None:
    done = call("run", task, "--pictures", pictures, "--out", tmp_path / "out")
    assert (done.code, done.err) == (1, f"rlvc: {message}\n")
    assert not (tmp_path / "out" / "result.json").exists()


def test_a_picture_that_cannot_be_written_is_a_failure(
    call: Any, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    done = call("explain", folder / "policy.rlvc", folder / "percept.png", "--out",
                tmp_path / "taken")  # fmt: skip
    assert done.code == 1
    assert str(tmp_path / "taken") in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyboardInterrupt(), "Stopped."),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    ],
    ids=["Ctrl-C", "disk"],
)
def test_what_breaks_off_a_run_is_told_in_one_line(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str
) -> None:
    def break_off(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(MazeTask, "collect", break_off)
    done = call("run", "maze", "--out", tmp_path / "out")
    assert (done.code, done.err) == (1, f"rlvc: {message}\n")
    assert list((tmp_path / "out").iterdir()) == []


# Help --------------------------------------------------------------------------------------------


def test_the_version(call: Any) -> None:
    assert call("--version") == Done(0, f"rlvc {rlvc.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["run", "report", "watch", "evaluate", "explain", "parameters", "data",
         "--version", "rlvc run maze"]),
        (["run", "-h"], ["maze, subway, campus or hill", "--pictures", "RLVC_DATA", "rlvc data get",
         "--seed", "--interactions", "--compact", "--out", "--overwrite", "--preset", "--set",
         "policy.rlvc", "basic.rlvc", "features.png", "percept.png", "result.json",
         "same seed gives the same policy", "rlvc parameters"]),
        (["evaluate", "--help"], ["--episodes", "--json", "--task", "--pictures", "--seed"]),
        (["explain", "--help"], ["--out", "path through the classifier", "features marked",
         "CAMERA=IMAGE"]),
    ],
)  # fmt: skip
def test_help_says_what_there_is(call: Any, arguments: list[str], words: list[str]) -> None:
    printed = call.succeed(*arguments)
    text = " ".join(re.sub(r"[│╭╮╰╯─\s]+", " ", printed).split())
    for word in words:
        assert word in text


def test_without_a_command_there_is_help(call: Any) -> None:
    done = call()
    assert "Usage: rlvc" in done.out + done.err
    assert "explain" in done.out + done.err


def test_the_help_gives_the_defaults_and_groups_the_options(call: Any) -> None:
    text = re.sub(r"[│\s]+", " ", call("run", "--help").out)
    for default in ("photos", "10000", "(1000, on the hill 10000)", "default"):
        assert f"[default: {default}]" in text
    panels = re.findall(r"╭─ ([\w ]+) ─", call("learn", "--help").out)
    assert panels[2:] == ["The environment", "Exploring it", "Learning", "Watching"]


def test_all_parameters_are_listed(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    printed = call.succeed("parameters")
    lines = [" ".join(line.split()) for line in printed.split("\n")]
    for row in describe_parameters():
        assert " ".join(" ".join(row).split()) in lines


def test_every_command_has_a_sentence(call: Any) -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        assert (command.callback.__doc__ or "").split("\n")[0].endswith((".", "default."))


def test_the_command_is_installed_and_starts_without_the_heavy_parts() -> None:
    script = (
        "import sys, rlvc.cli\n"
        "heavy = {'numba', 'cv2', 'scipy', 'matplotlib', 'skimage'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "rlvc.cli.main(['--version'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"rlvc {rlvc.__version__}\n"), done.stderr
