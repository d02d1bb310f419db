"""Bad data, item by item: what is refused, all that is wrong at once, and what is learned from.

Data come in as arrays, as a .npz file, as a folder with a table (CSV or Parquet), as a Minari
dataset, or from an environment.
"""

from __future__ import annotations

import re
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer
from numpy.typing import NDArray

from rlvc import (
    RLVC,
    Interactions,
    Percepts,
    Policy,
    collect,
    read_arrays,
    read_folder,
    read_minari,
)
from rlvc.data.io.table import encode_table
from rlvc.errors import DataError
from tests.support.builders import pictures
from tests.support.worlds import Corridor, identical, space_of

nan, inf = float("nan"), float("inf")
PICTURES = list(pictures(3, shape=(32, 32, 3)))
Log = dict[str, Any]
Way = Callable[[Log, Path], Interactions]


def log(**changed: Any) -> Log:
    """Return two episodes of two interactions each, with some columns replaced."""
    sound = {
        "images": PICTURES, "episode": [0, 0, 1, 1], "start": [0, 1, 0, 2], "end": [1, 2, 2, 0],
        "action": [0, 1, 1, 0], "reward": [0.0, 1.0, 0.0, 2.0],
        "terminated": [False, True, False, True], "truncated": [False] * 4, "n_actions": None,
    }  # fmt: skip
    return sound | changed


def from_arrays(log: Log, folder: Path) -> Interactions:
    return Interactions.from_arrays(
        [log["images"][i] for i in log["start"]], log["action"], log["reward"], log["terminated"],
        log["truncated"], next_observations=[log["images"][i] for i in log["end"]],
        n_actions=log["n_actions"],
    )  # fmt: skip


def from_npz(log: Log, folder: Path) -> Interactions:
    folder.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {
        "observations": np.stack([log["images"][i] for i in log["start"]]),
        "next_observations": np.stack([log["images"][i] for i in log["end"]]),
        "actions": log["action"], "rewards": log["reward"], "terminated": log["terminated"],
        "truncated": log["truncated"],
    }  # fmt: skip
    np.savez(folder / "log.npz", **arrays)
    return read_arrays(folder / "log.npz", n_actions=log["n_actions"])


def table_of(log: Log) -> dict[str, list[Any]]:
    """Return the columns of a table: an episode ends with a row that has only the last image."""
    names = ("episode", "step", "image", "action", "reward", "terminated", "truncated")
    rows: list[tuple[Any, ...]] = []
    step = 0
    for i, episode in enumerate(log["episode"]):
        told = [log[name][i] for name in names[3:]]
        rows.append((episode, step, f"{log['start'][i]}.png", *told))
        step += 1
        if i + 1 == len(log["episode"]) or log["episode"][i + 1] != episode:
            rows.append((episode, step, f"{log['end'][i]}.png", None, None, None, None))
            step = 0
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def write_log(log: Log, folder: Path, kind: str, table: dict[str, list[Any]] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for number, image in enumerate(log["images"]):
        cv2.imwrite(str(folder / f"{number}.png"), np.ascontiguousarray(image)[..., ::-1])
    (folder / f"log.{kind}").write_bytes(encode_table(kind, table or table_of(log)))
    return folder


def from_table(kind: str) -> Way:
    return lambda log, folder: read_folder(write_log(log, folder, kind), n_actions=log["n_actions"])


def from_minari(log: Log, folder: Path) -> Interactions:
    names = ("episode", "start", "end", "action", "reward", "terminated", "truncated")
    columns = {name: np.asarray(log[name]) for name in names}
    buffers = []
    for number in dict.fromkeys(log["episode"]):
        rows = np.flatnonzero(columns["episode"] == number)
        seen = [log["images"][i] for i in [*columns["start"][rows], columns["end"][rows[-1]]]]
        buffers.append(
            EpisodeBuffer(
                observations=seen, actions=list(columns["action"][rows]),
                rewards=list(columns["reward"][rows]),
                terminations=list(columns["terminated"][rows]),
                truncations=list(columns["truncated"][rows]),
            )
        )  # fmt: skip
    n = log["n_actions"] or int(max(log["action"])) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about authors and links
        minari.create_dataset_from_buffers(
            "log-v0", buffers, observation_space=space_of(np.asarray(log["images"][0])),
            action_space=gymnasium.spaces.Discrete(n), jpeg_encoding=False,
        )  # fmt: skip
    return read_minari("log-v0")


WAYS: dict[str, Way] = {
    "arrays": from_arrays, "npz": from_npz, "csv": from_table("csv"),
    "parquet": from_table("parquet"), "minari": from_minari,
}  # fmt: skip
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def problems(way: str, log: Log, tmp_path: Path) -> list[str]:
    """Return what is said of data that are refused, a sentence each."""
    with pytest.raises((DataError, ValueError)) as caught:
        WAYS[way](log, tmp_path / "log")
    error = caught.value
    return list(error.problems) if isinstance(error, DataError) else str(error).split("\n")


def learn(data: Interactions) -> Policy:
    return RLVC(gamma=0.5, threads=1).learn(data)


def actions_of(policy: Policy, log: Log) -> list[int]:
    return [int(policy.predict(np.asarray(image))[0]) for image in log["images"]]


@every_way
def test_sound_data_come_in_alike(way: str, tmp_path: Path) -> None:
    expected = from_arrays(log(), tmp_path)
    assert identical(WAYS[way](log(), tmp_path / "log"), expected)


# Rewards and actions -----------------------------------------------------------------------------

LEAVE_OUT = "Correct it, or leave the episode out."
SCALE = "Scale the rewards: policies do not change."
CORRECT = "Correct it, or the number of actions."
EXTREME = "0 or between 1e-100 and 1e100 in size"
WRONG_VALUES = {
    "arrays": [
        f"reward of Interactions must be finite; got nan in row 0, -inf in row 2. {LEAVE_OUT}",
        f"reward of Interactions must be {EXTREME}; got 1e+300 in row 1, -1e-300 in row 3. {SCALE}",
        f"action of Interactions must be in 0..1; got -1 in row 1, 7 in row 3. {CORRECT}",
    ],
    "csv": [
        f"action is not in 0..1 in rows 2 and 5 (-1, 7). {CORRECT}",
        f"reward is not finite in rows 1 and 4 (nan, -inf). {LEAVE_OUT}",
        f"reward is not {EXTREME} in rows 2 and 5 (1e+300, -1e-300). {SCALE}",
    ],
    "minari": [
        f"reward is not finite in step 0 of episode 0 (nan). {LEAVE_OUT}",
        f"reward is not {EXTREME} in step 1 of episode 0 (1e+300). {SCALE}",
        f"action is not in 0..1 in step 1 of episode 0 (-1). {CORRECT}",
        f"reward is not finite in step 0 of episode 1 (-inf). {LEAVE_OUT}",
        f"reward is not {EXTREME} in step 1 of episode 1 (-1e-300). {SCALE}",
        f"action is not in 0..1 in step 1 of episode 1 (7). {CORRECT}",
    ],
}
LIKE = {"npz": "arrays", "parquet": "csv"}  # what words its errors as another does


@every_way
def test_wrong_rewards_and_actions(way: str, tmp_path: Path) -> None:
    given = log(reward=[nan, 1e300, -inf, -1e-300], action=[0, -1, 1, 7], n_actions=2)
    assert problems(way, given, tmp_path) == WRONG_VALUES[LIKE.get(way, way)]


@pytest.mark.parametrize("way", ["arrays", "npz", "csv", "parquet"])
def test_actions_that_cannot_be_counted(way: str, tmp_path: Path) -> None:
    (found,) = problems(way, log(action=[0, 1, 1, 2**40]), tmp_path)
    assert found == (
        f"n_actions of Interactions must be between 1 and 65536; got {2**40 + 1}. Number the "
        "actions from 0, and set n_actions to how many there are."
    )


@pytest.mark.slow
def test_large_rewards_that_still_do(tmp_path: Path) -> None:
    given = log(reward=[0.0, 1e90, -1e90, 2e90])
    small = learn(from_arrays(log(reward=[0.0, 1.0, -1.0, 2.0]), tmp_path))
    policy = learn(from_arrays(given, tmp_path))
    assert policy.q == pytest.approx(1e90 * small.q)
    assert actions_of(policy, given) == actions_of(small, given)


# Too little to tell anything apart ---------------------------------------------------------------


@every_way
def test_one_interaction(way: str, tmp_path: Path) -> None:
    one = log(episode=[0], start=[0], end=[1], action=[2], reward=[1.0], terminated=[True],
              truncated=[False], n_actions=3)  # fmt: skip
    policy = learn(WAYS[way](one, tmp_path / "log"))
    assert actions_of(policy, one) == [2, 2, 2]
    assert policy.n_classes == 1


@every_way
def test_one_action(way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = log(action=[0] * 4)
    assert actions_of(learn(WAYS[way](one, tmp_path / "log")), one) == [0, 0, 0]
    assert "There is only one action: the policy will always take it." in caplog.messages


@every_way
def test_one_percept(way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = log(images=PICTURES[:1], start=[0] * 4, end=[0] * 4, reward=[0.0, 1.0, 1.0, 0.0])
    data = WAYS[way](one, tmp_path / "log")
    assert len(data.percepts) == 1
    assert actions_of(learn(data), one) == [1]
    assert caplog.messages == ["There is only one percept: the policy will always do the same."]


BLANK = [np.full((32, 32, 3), grey, np.uint8) for grey in (0, 90, 255)]


@every_way
def test_blank_images(way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blank = log(images=BLANK, reward=[0.0, 1.0, 1.0, 0.0])
    policy = learn(WAYS[way](blank, tmp_path / "log"))
    assert actions_of(policy, blank) == [1, 1, 1]
    assert caplog.messages == [
        "No percept has an interest point: all look the same to this detector."
    ]
    assert policy.explain(BLANK[0]).action == 1


def test_some_blank_images_are_told_from_the_others(tmp_path: Path) -> None:
    n = 60
    mixed = log(
        images=[BLANK[0], PICTURES[0]], episode=list(range(n)), start=[0, 0, 1, 1] * (n // 4),
        end=[0, 0, 1, 1] * (n // 4), action=[0, 1] * (n // 2), reward=[1.0, 0, 0, 1] * (n // 4),
        terminated=[True] * n, truncated=[False] * n,
    )  # fmt: skip
    assert actions_of(learn(from_npz(mixed, tmp_path / "log")), mixed) == [0, 1]


def test_an_environment_that_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Dark(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self._look = lambda before, now: BLANK[0]
            self.observation_space = space_of(BLANK[0])

    policy = RLVC(threads=1).learn(Dark(), interactions=60, rounds=2)
    assert int(policy.predict(BLANK[0])[0]) in (0, 1)
    assert "There is only one percept: the policy will always do the same." in caplog.messages


# Images ------------------------------------------------------------------------------------------


def test_images_of_another_size_in_an_episode_of_minari(tmp_path: Path) -> None:
    images = [*PICTURES, *(image[:30] for image in PICTURES)]
    given = log(images=images, start=[0, 1, 3, 4], end=[1, 2, 4, 5], reward=[0.0, 1.0, 0.0, inf])
    assert problems("minari", given, tmp_path) == [
        "episode 1: observations in steps 0, 1 and 2: The shape of the percept must be "
        "(32, 32, 3), as before; got (30, 32, 3). Resize the images to one size.",
        f"reward is not finite in step 1 of episode 1 (inf). {LEAVE_OUT}",
    ]


def frozen(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    image = image.copy()
    image.flags.writeable = False
    return image


LAYOUTS: dict[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    "read-only": frozen,
    "Fortran": np.asfortranarray,
    "reversed": lambda image: image[:, ::-1].copy()[:, ::-1],
    "a part": lambda image: np.repeat(np.repeat(image, 2, 0), 3, 1)[::2, ::3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_read_only_and_non_contiguous_images(layout: str, tmp_path: Path) -> None:
    given = log(images=[LAYOUTS[layout](image) for image in PICTURES])
    data = from_arrays(given, tmp_path)
    assert identical(data, from_arrays(log(), tmp_path))
    policy = learn(data)
    assert actions_of(policy, given) == actions_of(learn(from_arrays(log(), tmp_path)), log())
    assert [policy.explain(image).action for image in given["images"]] == actions_of(policy, given)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whole_arrays_that_are_read_only_or_non_contiguous(layout: str, tmp_path: Path) -> None:
    seen = LAYOUTS[layout](np.stack([PICTURES[i] for i in log()["start"]]))
    after = LAYOUTS[layout](np.stack([PICTURES[i] for i in log()["end"]]))
    columns = {
        name: np.repeat(np.asarray(log()[name]), 2)[::2]
        for name in ("action", "reward", "terminated", "truncated")
    }
    for column in columns.values():
        column.flags.writeable = False
    given = (columns["action"], columns["reward"], columns["terminated"], columns["truncated"])
    expected = from_arrays(log(), tmp_path)
    assert identical(Interactions.from_arrays(seen, *given, next_observations=after), expected)
    np.savez(
        tmp_path / "log.npz", observations=seen, actions=given[0], rewards=given[1],
        terminated=given[2], next_observations=after,
    )  # fmt: skip
    assert identical(read_arrays(tmp_path / "log.npz"), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_environment_with_arrays_of_any_layout(layout: str) -> None:
    class Laid(Corridor):
        def __init__(self) -> None:
            super().__init__()
            look = self._look
            self._look = lambda before, now: LAYOUTS[layout](look(before, now))

    assert identical(collect(Laid(), 30), collect(Corridor(), 30))


# Episodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_episodes_that_overlap(kind: str, tmp_path: Path) -> None:
    table = table_of(log(terminated=[False, False, False, True]))
    table["episode"] = [0] * 6  # two episodes of one number
    folder = write_log(log(), tmp_path / "log", kind, table)
    with pytest.raises(DataError) as caught:
        read_folder(folder)
    assert list(caught.value.problems) == [
        "step is that of another row of its episode in rows 4, 5 and 6 (episode 0, step 0, episode "
        "0, step 1, episode 0, step 2). Number the steps of an episode consecutively."
    ]


def test_episodes_that_overlap_in_a_database(tmp_path: Path) -> None:
    data = from_arrays(log(), tmp_path)
    columns = {name: getattr(data, name) for name in data.__dataclass_fields__}
    with pytest.raises(
        ValueError,
        match=r"^episode of Interactions must keep the rows of one episode together; got 0 in "
        r"row 2, 1 in row 3 again\. Sort the rows by episode and step\.$",
    ):
        Interactions(**(columns | {"episode": np.array([0, 1, 0, 1])}))


def test_rows_of_arrays_in_another_order_are_learned_from_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sound, order = log(), [2, 0, 1, 3]
    mixed = log(
        **{name: [sound[name][i] for i in order] for name in
           ("start", "end", "action", "reward", "terminated", "truncated")}
    )  # fmt: skip
    data = from_npz(mixed, tmp_path / "log")
    assert caplog.messages == [
        "1 rows do not start where the row before them ended, though no episode ended there. Each "
        "row is learned from on its own; if rows should be consecutive, sort them by episode "
        "and step."
    ]
    assert actions_of(learn(data), mixed) == actions_of(learn(from_arrays(sound, tmp_path)), sound)


@every_way
def test_no_terminal_at_all(way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    n = 20  # round and round: action 1 pays
    given = log(
        episode=[0] * n, start=[i % 2 for i in range(n)], end=[(i + 1) % 2 for i in range(n)],
        action=[i // 2 % 2 for i in range(n)], reward=[float(i // 2 % 2) for i in range(n)],
        terminated=[False] * n, truncated=[False] * (n - 1) + [True],
    )  # fmt: skip
    policy = learn(WAYS[way](given, tmp_path / "log"))
    assert actions_of(policy, given)[:2] == [1, 1]
    assert policy.q.max() == pytest.approx(2.0)  # 1 + 0.5 · 2
    told = [
        "Nothing is terminal: terminated is false in every row. If the task has an end, set it "
        "in that row; otherwise rewards are assumed to continue forever."
    ]
    assert caplog.messages == (told if way != "arrays" else [])


def test_a_recording_that_breaks_off(tmp_path: Path) -> None:
    assert problems("npz", log(terminated=[False, True, False, False]), tmp_path) == [
        "The last episode has no end: neither terminated nor truncated in row 3. Set truncated "
        "there if it was cut off."
    ]


# All at once -------------------------------------------------------------------------------------


def test_all_that_is_wrong_with_arrays_is_told_at_once(tmp_path: Path) -> None:
    images: list[Any] = [PICTURES[0], PICTURES[1].astype(np.float32), None, PICTURES[2][:9]]
    given = log(
        images=images, start=[0, 1, 2, 3], action=[0, 5, -1, 0], reward=["a", "b", "c", "d"],
        terminated=[0, 0, 2, nan], truncated=[[True, False], [True, False]], n_actions=2,
    )  # fmt: skip
    assert problems("arrays", given, tmp_path) == [
        "next_observations in row 0: The dtype of the percept must be uint8; got float32. Scale it "
        "to 0..255 and convert it with .astype(numpy.uint8).",
        "observations in row 1: The dtype of the percept must be uint8; got float32. Scale it to "
        "0..255 and convert it with .astype(numpy.uint8).",
        "next_observations in rows 1 and 2: The type of the percept must be an array; got "
        "NoneType.",
        "observations in row 2: The type of the percept must be an array; got NoneType.",
        "observations in row 3: The shape of the percept must be (32, 32, 3), as before; got "
        "(9, 32, 3). Resize the images to one size.",
        "rewards of from_arrays must be numbers; got <U1, such as 'a'.",
        "terminated of from_arrays must be 0 or 1; got 2.0 in row 2, nan in row 3.",
        "truncated of Interactions must have 4 entries; got shape (2, 2).",
        "action of Interactions must be in 0..1; got 5 in row 1, -1 in row 2. Correct it, or the "
        "number of actions.",
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"action": [[0], [1, 2]]}, "actions of from_arrays must have one entry per row; got rows "
         "of different lengths."),
        ({"reward": [10**400, 0, 0, 0]}, "rewards of from_arrays must be numbers; got object, such "
         f"as 1{'0' * 58}…."),
        ({"reward": [None, 0, 0, 0]}, "rewards of from_arrays must be numbers; got object, such as "
         "None."),
        ({"reward": np.array([1, 0, 0, 0], complex)}, "rewards of from_arrays must be numbers; got "
         "complex128, such as (1+0j)."),
        ({"reward": np.array([1, 0, 0, "1e999"], np.longdouble)}, "reward of Interactions must be "
         "finite; got inf in row 3. Correct it, or leave the episode out."),
    ],
)  # fmt: skip
def test_columns_that_are_hardly_any(changed: Log, told: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(told)}$"):
        from_arrays(log(**changed), tmp_path)


# Much --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", ["npz", "csv", "parquet", "minari"])
def test_images_are_never_in_memory_all_at_once(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 120
    images = list(pictures(n + 1, shape=(80, 80, 3)))
    much = log(
        images=images, episode=[i // 6 for i in range(n)], start=list(range(n)),
        end=list(range(1, n + 1)), action=[0, 1] * (n // 2), reward=[1.0] * n,
        terminated=[i % 6 == 5 for i in range(n)], truncated=[False] * n,
    )  # fmt: skip
    WAYS[way](much, tmp_path / "log")
    defaults = Percepts.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "in_memory", 0)
    monkeypatch.setattr("rlvc.data.io.image_files.IN_MEMORY", 0)
    dataset = minari.load_dataset("log-v0") if way == "minari" else None  # reads only its spaces
    read: dict[str, Callable[[], Interactions]] = {
        "npz": lambda: read_arrays(tmp_path / "log" / "log.npz"),
        "minari": lambda: read_minari(dataset),
    }
    tracemalloc.start()
    try:
        data = read.get(way, lambda: read_folder(tmp_path / "log"))()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(data) == n
    assert peak < 0.4 * sum(image.nbytes for image in images)
