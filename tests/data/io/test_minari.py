from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from minari.data_collector import EpisodeBuffer
from numpy.typing import NDArray

from rlvc import Interactions, Percepts, collect, read_minari, write_minari
from rlvc.data.io.minari import check_minari_id
from rlvc.errors import DataError
from tests.support.builders import blocks, pictures
from tests.support.datasets import any_episodes, chain
from tests.support.worlds import KINDS, Corridor, identical, space_of

JPEG = (
    "The images of this dataset are stored as JPEG, which changes the features that they show: "
    "a policy may not recognise the images of its environment. Collect it again with "
    "`rlvc collect`, or with jpeg_encoding=False where Minari writes it."
)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where Minari keeps its datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def episode(observations: Any, **changed: Any) -> EpisodeBuffer:
    """Return an episode of two steps that was cut off, with some columns replaced."""
    columns: dict[str, Any] = {
        "actions": [0, 1], "rewards": [0.0, 1.0], "terminations": [False, False],
        "truncations": [False, True],
    }  # fmt: skip
    return EpisodeBuffer(observations=observations, **(columns | changed))


def write(
    dataset_id: str, episodes: list[EpisodeBuffer], seen: spaces.Space[Any], **given: Any
) -> Any:
    """Write episodes as somebody does who has never heard of rlvc."""
    given.setdefault("action_space", spaces.Discrete(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return minari.create_dataset_from_buffers(
            dataset_id, episodes, observation_space=seen, **given
        )


def problems(dataset: Any) -> list[str]:
    with pytest.raises(DataError) as caught:
        read_minari(dataset)
    return list(caught.value.problems)


def files(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*"))


# There and back ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "start"),
    [*((kind, 0) for kind in KINDS if kind != "vector"), ("colour", 3), ("grey", -2)],
)
def test_what_is_written_is_read(kind: str, start: int) -> None:
    data = collect(Corridor(kind=kind, start=start, limit=5), 25, seed=2)
    told: list[int] = []
    write_minari(data, "corridor/random-v0", on_episode=lambda: told.append(1))
    assert len(told) == data.episode[-1] + 1
    read = read_minari("corridor/random-v0", on_episode=lambda: told.append(1))
    assert identical(read, data)
    assert read.action_names == ("left", "right")
    assert len(told) == 2 * (data.episode[-1] + 1)
    assert identical(read_minari(minari.load_dataset("corridor/random-v0")), data)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_any_whole_episodes_are_kept_to_the_bit(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = np.random.default_rng(seed)
    data = any_episodes(seed, (*rng.integers(12, 16, 2).tolist(), int(rng.choice([1, 3]))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("any")))
        write_minari(data, "any-v0")
        assert identical(read_minari("any-v0"), data)


def test_the_dataset_says_what_it_is() -> None:
    write_minari(collect(Corridor(), 20), "corridor/random-v3", description="A walk")
    metadata = minari.load_dataset("corridor/random-v3").storage.metadata
    assert metadata["dataset_id"] == "corridor/random-v3"
    assert metadata["description"] == "A walk"
    assert metadata["algorithm_name"] == "rlvc"
    assert metadata["jpeg_encoding"] is False
    assert metadata["total_steps"] == 20
    write_minari(collect(Corridor(), 5), "other-v0")
    assert "rlvc" in minari.load_dataset("other-v0").storage.metadata["description"]


def test_writing_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    write_minari(collect(Corridor(), 5), "corridor/quiet-v0")
    assert capfd.readouterr() == ("", "")


# Datasets of others ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_dict", [False, True])
def test_images_as_jpeg_are_read_with_a_warning(
    is_dict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    images = np.stack([blocks(seed, (48, 48, 3)) for seed in range(3)])
    seen: Any = {"front": images, "speed": np.zeros((3, 1), np.float32)} if is_dict else images
    space = space_of({name: part[0] for name, part in seen.items()} if is_dict else images[0])
    for name, is_jpeg in (("lossy", True), ("lossless", False)):
        ended = episode(seen, terminations=[False, True])
        write(f"{name}-v0", [ended], space, jpeg_encoding=is_jpeg)
    with caplog.at_level(logging.WARNING):
        exact = read_minari("lossless-v0")
    left_out = ["Only images are learned from; left out: speed."] * is_dict
    assert caplog.messages == left_out
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        near = read_minari("lossy-v0")
    assert caplog.messages == [JPEG, *left_out]
    assert np.array_equal(np.asarray(image(exact, 0)), images[0])
    assert not np.array_equal(image(near, 0), images[0])
    assert np.abs(image(near, 0).astype(int) - images[0]).mean() < 30
    assert np.array_equal(near.start, exact.start)


def image(data: Interactions, number: int) -> NDArray[np.uint8]:
    percept = data.percepts[number]
    return percept["front"] if isinstance(percept, dict) else np.asarray(percept)


@pytest.mark.parametrize("shape", [(2, 48, 48), (30, 30, 3)])
def test_what_minari_does_not_compress_is_read_without_a_warning(
    shape: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    images = pictures(3, shape=shape)
    write("stack-v0", [episode(images, terminations=[False, True])], space_of(images[0]))
    with caplog.at_level(logging.WARNING):
        data = read_minari("stack-v0")
    assert caplog.messages == []
    parts = [each(camera) for camera in data.percepts.images]
    shown = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=3).transpose(0, 3, 1, 2)
    assert np.array_equal(shown, images)


def each(images: Any) -> NDArray[np.uint8]:
    return np.stack([images[number] for number in range(len(images))])


def test_what_is_beside_the_images_is_left_out() -> None:
    images = pictures(3, shape=(20, 20, 3))
    space = spaces.Dict(
        {
            "image": space_of(images[0]), "mission": spaces.Text(20),
            "inner": spaces.Dict({"x": spaces.Discrete(3), "y": spaces.Discrete(3)}),
        }
    )  # fmt: skip
    seen = {"image": images, "mission": ["go", "on", "go"], "inner": {"x": [0, 1, 2], "y": [0] * 3}}
    write("told-v0", [episode(seen)], space)
    data = read_minari("told-v0")
    assert data.percepts.cameras == ("image",)
    assert (data.start.tolist(), data.end.tolist()) == ([0, 1], [1, 2])


@pytest.mark.parametrize(
    ("shape", "dtype", "actions", "message"),
    [
        (
            (4,), np.float32, spaces.Discrete(2),
            r"^The observations of the dataset must be images; got Box\(0\.0, 255\.0, \(4,\), "
            r"float32\)\. Supported are images of bytes, .* with some of these\.$",
        ),
        (
            (7, 7, 3), np.uint8, spaces.Discrete(2),
            r"^The images of the observation must have at least 12 × 12 pixels; got 7 × 7, "
            r"which is too small for any feature\.$",
        ),
        (
            (20, 20, 3), np.uint8, spaces.Box(-1.0, 1.0, (1,)),
            r"^The action space of the dataset must be Discrete; got Box\(-1\.0, 1\.0, \(1,\), "
            r"float32\)\. This method chooses among a list of actions\.$",
        ),
    ],
)  # fmt: skip
def test_a_dataset_of_other_spaces_is_refused(
    shape: tuple[int, ...], dtype: Any, actions: spaces.Space[Any], message: str
) -> None:
    taken = [actions.sample(), actions.sample()]
    steps = episode(np.zeros((3, *shape), dtype), actions=taken)
    write("other-v0", [steps], spaces.Box(0, 255, shape, dtype), action_space=actions)
    with pytest.raises(TypeError, match=message):
        read_minari("other-v0")


# What is wrong -----------------------------------------------------------------------------------


def test_all_that_is_wrong_is_listed_at_once() -> None:
    images = pictures(3, shape=(20, 20, 3))
    nan, inf = float("nan"), float("inf")
    correct = "Correct it, or the number of actions."
    write(
        "wrong-v0",
        [
            episode(images),
            episode(images, rewards=[nan, -inf]),
            episode(images, actions=[4, 8], truncations=[False, False]),
            episode(images, truncations=[True, True], actions=[5, 7]),
        ],
        space_of(images[0]),
        action_space=spaces.Discrete(3, start=5),
    )
    with pytest.raises(DataError) as caught:
        read_minari("wrong-v0")
    assert str(caught.value) == "\n  ".join(
        [
            "minari:wrong-v0 has 6 problems:",
            f"action is not in 5..7 in steps 0 and 1 of episode 0 (0, 1). {correct}",
            "reward is not finite in steps 0 and 1 of episode 1 (nan, -inf). Correct it, or leave "
            "the episode out.",
            f"action is not in 5..7 in steps 0 and 1 of episode 1 (0, 1). {correct}",
            f"action is not in 5..7 in steps 0 and 1 of episode 2 (4, 8). {correct}",
            "episode 2 has no end: its last step is neither terminated nor truncated.",
            "terminated or truncated is true before the last step, in step 0 of episode 3.",
        ]
    )


def test_a_dataset_without_episodes() -> None:
    dataset = write("empty-v0", [], spaces.Box(0, 255, (20, 20, 3), np.uint8))
    assert problems(dataset) == ["There are no episodes."]


@pytest.mark.parametrize(
    "dataset_id", ["corridor/randm-v0", "corridor/random", "corridor/random-v1"]
)
def test_an_unknown_dataset_brings_a_suggestion(dataset_id: str) -> None:
    write_minari(chain(), "corridor/random-v0")
    write_minari(chain(), "other-v0")
    with pytest.raises(
        ValueError,
        match=rf"^Unknown Minari dataset '{dataset_id}'\. Did you mean 'corridor/random-v0'\? "
        r"Known: corridor/random-v0, other-v0\.$",
    ):
        read_minari(dataset_id)


def test_where_there_are_no_datasets_one_is_told_how_to_get_some() -> None:
    with pytest.raises(
        ValueError,
        match=r"^There is no local Minari dataset 'maze/random-v0', nor any other\. Get one with: "
        r"minari download maze/random-v0$",
    ):
        read_minari("maze/random-v0")


def test_lengths_that_do_not_fit_are_listed() -> None:
    images = pictures(4, shape=(20, 20, 3))
    write(
        "uneven-v0",
        [
            episode(images[:3], rewards=[0.0]),
            episode(images),
            episode(images[:3], actions=[0], terminations=[False]),
        ],
        space_of(images[0]),
    )
    assert problems("uneven-v0") == [
        "episode 0 must have the same number of each; got 2 actions, 1 rewards, 2 terminations, "
        "2 truncations.",
        "episode 1 must have one observation more than its 2 actions; got 4.",
        "episode 2 must have one observation more than its 1 actions; got 3.",
        "episode 2 must have the same number of each; got 1 actions, 2 rewards, 1 terminations, "
        "2 truncations.",
    ]


def test_a_part_of_a_dataset_and_episodes_that_were_added_do_no_harm() -> None:
    data = collect(Corridor(limit=3), 9, seed=1)
    write_minari(data, "corridor-v0")
    dataset = minari.load_dataset("corridor-v0")
    part = read_minari(dataset.filter_episodes(lambda one: bool(one.id % 2)))
    assert len(part) == np.count_nonzero(data.episode % 2)
    dataset.storage.update_episodes([episode(list(pictures(3, shape=(48, 48, 3))))])
    assert len(read_minari("corridor-v0")) == 11


def test_a_file_that_is_cut_short_is_damage(root: Path) -> None:
    write_minari(collect(Corridor(limit=3), 9, seed=1), "corridor-v0")
    file = root / "corridor-v0" / "data" / "main_data.hdf5"
    for n in (file.stat().st_size // 2, 3, 0):
        os.truncate(file, n)
        (found, *_) = problems("corridor-v0")
        assert found.startswith("damaged: episode 0 cannot be read (")


# Writing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dataset_id", ["", "maze", "maze/random", "maze-vx", "ma ze-v0", "/maze-v0"]
)
def test_an_id_that_is_none_is_explained(dataset_id: str) -> None:
    message = (
        "The id of a Minari dataset must be NAME-vVERSION, with optional namespaces before it, "
        f"such as maze/random-v0; got {dataset_id!r}."
    )
    for check in (check_minari_id, lambda name: write_minari(chain(), name)):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            check(dataset_id)


def test_a_dataset_is_never_overwritten() -> None:
    write_minari(chain(), "maze/random-v0")
    before = read_metadata("maze/random-v0")
    with pytest.raises(
        ValueError,
        match=r"^There is a Minari dataset maze/random-v0 already, and datasets are not "
        r"overwritten\. Choose another id, or remove it with: minari delete maze/random-v0$",
    ):
        write_minari(chain(), "maze/random-v0")
    assert read_metadata("maze/random-v0") == before
    check_minari_id("maze/random-v1")


def read_metadata(dataset_id: str) -> Any:
    return dict(minari.load_dataset(dataset_id).storage.metadata)


def test_episodes_must_be_whole(root: Path) -> None:
    broken = chain(start=np.array([0, 2, 0]), terminated=np.array([False, True, False]))
    with pytest.raises(DataError) as caught:
        write_minari(broken, "maze/random-v0")
    assert str(caught.value) == (
        "The database has 2 problems:\n"
        "  episode 1 has no end: row 2 is neither terminated nor truncated.\n"
        "  row 1 does not start where row 0 ended, in the same episode."
    )
    assert files(root) == []


@pytest.mark.parametrize("dataset_id", ["log-v0", "maze/random-v0", "deep/deeper/random-v0"])
def test_a_dataset_is_whole_or_not_there(dataset_id: str, root: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_minari(chain(), dataset_id, on_episode=stop)
    assert files(root) == []
    write_minari(chain(), "deep/other-v0")
    before = files(root)
    with pytest.raises(KeyboardInterrupt):
        write_minari(chain(), dataset_id, on_episode=stop)
    assert files(root) == before
    write_minari(chain(), dataset_id)
    assert minari.load_dataset(dataset_id).total_steps == 3


def test_names_of_cameras_that_minari_cannot_keep(root: Path) -> None:
    percepts = Percepts()
    for one in pictures(2, shape=(20, 20, 3)):
        percepts.add({"eye/left": one})
    zero, flag = np.zeros(1, np.int64), np.ones(1, np.bool_)
    data = Interactions(percepts, zero, zero, np.zeros(1), zero + 1, zero, flag, flag, 1)
    with pytest.raises(
        ValueError,
        match=r"^The names of cameras must be without a slash to be written to Minari; got "
        r"'eye/left'\.$",
    ):
        write_minari(data, "maze/random-v0")
    assert files(root) == []


@pytest.mark.parametrize("name", ["minari", "h5py"])
def test_minari_is_an_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    message = rf'^{name} is not installed; install it with: pip install "rlvc\[minari\]"\.$'
    for use in (
        lambda: read_minari("maze-v0"),
        lambda: write_minari(chain(), "maze-v0"),
        lambda: check_minari_id("maze-v0"),
    ):
        with pytest.raises(ModuleNotFoundError, match=message):
            use()
