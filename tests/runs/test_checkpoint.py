from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Database, Forest, Interactions, Percepts, Stage
from rlvc._core.checkpoint_store import PrefixedStore, Record
from rlvc.data import Image
from rlvc.errors import FileFormatError
from rlvc.learning import Compaction
from rlvc.learning.forest_trees import GrownTree, load_tree
from rlvc.learning.generation.composites import Composites
from rlvc.policies import AnyPolicy
from rlvc.runs import Checkpoint
from rlvc.vision import ExtractionCache, FeatureExtractor
from rlvc.vision import cache as memory_module
from rlvc.vision.cache import CacheChunks
from tests.support.builders import COLOUR, database, pictures
from tests.support.checkpoints import Recorder
from tests.support.policies import bytes_of
from tests.support.tasks import RecordingCallback, run_custom
from tests.support.worlds import Corridor


class HaltError(Exception):
    """The machine stops here."""


class Halting(Checkpoint):
    """A checkpoint on a machine that stops after a number of records were saved."""

    def __init__(self, folder: Path, last: int = 10**9) -> None:
        super().__init__(folder)
        self.left, self.names = last, list[str]()

    def save(
        self, name: str, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        super().save(name, manifest, arrays)
        self.names.append(name)
        self.left -= 1
        if self.left < 0:
            raise HaltError(name)


class Drifting(Corridor):
    """A corridor in which no image ever comes back."""

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        image, info = super().reset(**given)
        return self._drift(image), info

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        image, *rest = super().step(action)
        return self._drift(image), *rest  # type: ignore[return-value]

    def _drift(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        image = image.copy()
        image[:2, :2] = self.np_random.integers(256, size=(2, 2, 3))
        return image


def world(kind: str) -> Corridor:
    return Drifting(limit=9) if kind == "drifting" else Corridor(kind=kind, limit=9)


def learn(checkpoint: Checkpoint | None, kind: str = "colour") -> AnyPolicy:
    """Learn in rounds, and grow a forest."""
    return run_custom(
        world(kind), RLVC(threads=1, max_splits=1), interactions=80, rounds=2, seed=5, episodes=0,
        trees=2, checkpoint=checkpoint,
    ).best  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["colour", "cameras", "drifting"])
def test_wherever_a_run_stops_it_ends_with_the_same_policy(kind: str, tmp_path: Path) -> None:
    expected = bytes_of(learn(None, kind))
    whole = Halting(tmp_path / "whole")
    assert bytes_of(learn(whole, kind)) == expected
    assert len(whole.names) > 10
    assert {name.partition("-")[0] for name in whole.names} == {"extract", "learn", "forest"}
    n_chunks = sum(name.startswith("extract") for name in whole.names)
    assert n_chunks == {"colour": 1, "cameras": 2, "drifting": 2}[kind]  # in each round if new
    every = {"colour": 1, "cameras": 100, "drifting": 7}[kind]
    for last in range(0, len(whole.names), every):
        folder = tmp_path / f"stopped-{last}"
        with pytest.raises(HaltError, match=whole.names[last]):
            learn(Halting(folder, last), kind)
        rest = Halting(folder)
        assert bytes_of(learn(rest, kind)) == expected
        assert rest.names == whole.names[last + 1 :]  # nothing is done twice


def test_a_run_may_stop_again_and_again(tmp_path: Path) -> None:
    expected, n_stops = bytes_of(learn(None)), 0
    while True:
        try:
            found = learn(Halting(tmp_path / "run", 0))
        except HaltError:
            n_stops += 1
            continue
        break
    assert n_stops > 10
    assert bytes_of(found) == expected


def test_rounds_are_saved_before_they_are_learned_from(tmp_path: Path) -> None:
    steps = list[int]()

    class Counting(Corridor):
        def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            steps.append(1)
            return super().step(action)

    for expected in (80, 0):
        steps.clear()
        run_custom(
            Counting(), RLVC(threads=1), interactions=80, rounds=2, episodes=0,
            checkpoint=Checkpoint(tmp_path),
        )  # fmt: skip
        assert len(steps) == expected


def test_a_damaged_record_is_computed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Halting(tmp_path / "run")
    expected = bytes_of(learn(whole))
    folder = whole.folder
    names = [next(n for n in whole.names if n.startswith(kind)) for kind in ("extract", "learn")]
    names.append(whole.names[-1])  # a tree
    for name in names:
        file = folder / f"{name}.rlvc"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data if name != names[1] else data[:-10])
    picture = next((folder / "round-2").rglob("*.png"))
    picture.write_bytes(b"")
    (folder / "round-1" / "SHA256SUMS").unlink()  # so that it cannot be checked
    with caplog.at_level(logging.WARNING):
        rest = Halting(tmp_path / "run")
        assert bytes_of(learn(rest)) == expected
    assert rest.names == names
    told = [record.message for record in caplog.records]
    assert sum("A record of the run is computed again" in line for line in told) == 3
    assert sum("A round is repeated" in line for line in told) == 2


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("write_archive", OSError(28, "No space left on device")),
        ("write_folder", ValueError("no such names")),
    ],
)
def test_an_error_stops_the_checkpoints_and_not_the_run(
    what: str,
    error: Exception,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, calls = bytes_of(learn(None)), list[Any]()

    def fail(*given: object) -> None:
        calls.append(given)
        raise error

    monkeypatch.setattr(f"rlvc.runs.checkpoint.{what}", fail)
    with caplog.at_level(logging.WARNING):
        assert bytes_of(learn(Checkpoint(tmp_path / "run"))) == expected
    assert len(calls) == 1
    (record,) = caplog.records
    assert "The run continues, but no more checkpoints can be saved" in record.message
    assert str(error) in record.message


def test_a_round_without_an_end_is_no_reason_to_warn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = Interactions.from_arrays(
        COLOUR[:2], [0, 1], [0.0, 1.0], [False, False], [False, True], next_observations=COLOUR[1:3]
    )
    rounds = Checkpoint(tmp_path).rounds
    rounds.save(1, data)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        found = rounds.load(1)
    assert found is not None
    assert found.reward.tolist() == [0.0, 1.0]
    assert caplog.records == []


def test_a_description_says_what_there_is(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.description() is None
    checkpoint.begin({"options": {"seed": 3}})
    found = Checkpoint(tmp_path).description()
    assert found is not None
    assert found["options"] == {"seed": 3}
    checkpoint.save("learn-stage-0", {}, {})
    (checkpoint.folder / ".half").mkdir()
    (checkpoint.folder / ".half" / "image.png").write_bytes(b"")
    (checkpoint.folder / ".other").write_bytes(b"")
    checkpoint.tidy()
    assert sorted(path.name for path in checkpoint.folder.iterdir()) == [
        "learn-stage-0.rlvc", "run.rlvc",
    ]  # fmt: skip
    checkpoint.begin({"options": {"seed": 4}})
    assert [path.name for path in checkpoint.folder.iterdir()] == ["run.rlvc"]
    checkpoint.clear()
    checkpoint.clear()
    assert list(tmp_path.iterdir()) == []


def test_another_run_is_set_aside_until_a_record_is_saved(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.begin({"options": {"seed": 3}})
    checkpoint.save("learn-stage-0", {}, {})
    checkpoint.begin({"options": {"seed": 4}})
    checkpoint.save("run", {"options": {"seed": 4}}, {})
    assert (checkpoint.has_other, checkpoint.is_empty) == (True, True)
    checkpoint.withdraw()
    assert (checkpoint.has_other, checkpoint.is_empty) == (False, False)
    checkpoint.begin({"options": {"seed": 4}})
    checkpoint.save("learn-stage-0", {}, {})
    assert (checkpoint.has_other, checkpoint.is_empty) == (False, False)


# Stages


LEARNERS: dict[str, Callable[[], RLVC]] = {
    "tree": partial(RLVC, threads=1),
    "compaction": partial(RLVC, threads=1, max_splits=1, post_process=Compaction(every=2)),
    "grid": partial(RLVC, threads=1, max_splits=2, generator=Composites(grid=2, together=True)),
    "short": partial(RLVC, threads=1, max_splits=1, max_stages=3),
}


def same(one: Stage, other: Stage) -> bool:
    names = ("number", "residual", "n_aliased", "n_refinable", "n_refined")
    graphs = [stage.database.graph.features for stage in (one, other)]
    return (
        all(getattr(one, name) == getattr(other, name) for name in names)
        and np.array_equal(one.q, other.q)
        and graphs[0] == graphs[1]
    )


@pytest.mark.parametrize("kind", LEARNERS)
def test_stages_follow_from_their_decisions(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, notes = LEARNERS[kind](), Recorder()
    data = learner.extract(database(COLOUR))
    first = list(learner.stages(data, notes))
    assert len(first) == len(notes.parts) > 3
    halfway = Recorder({f"stage-{k}": notes.parts[f"stage-{k}"] for k in range(len(first) // 2)})
    later = list(learner.stages(data, halfway))
    assert halfway.parts == notes.parts

    def no_choice(*_: object) -> None:
        raise AssertionError("chosen already")

    monkeypatch.setattr(RLVC, "choose_splits", no_choice)
    for again in (list(learner.stages(data, notes)), later):
        assert all(same(a, b) for a, b in zip(first, again, strict=True))
        assert bytes_of(again[-1].policy()) == bytes_of(first[-1].policy())


def changed(parts: dict[str, Record], name: str, **entries: Any) -> Recorder:
    manifest, arrays = parts[name]
    return Recorder({**parts, name: ({**manifest, **entries}, arrays)})


def test_decisions_of_another_run_are_refused() -> None:
    learner, notes = LEARNERS["grid"](), Recorder()
    data = learner.extract(database(COLOUR))
    list(learner.stages(data, notes))
    n_known = len(data.index.graph)
    with_features = next(n for n, (m, _) in notes.parts.items() if m["features"])
    cell = {"part": 0, "level": 1, "column": 0, "line": 0}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("stage-1", {"residual": "0x1p-3"}),
        ("stage-1", {"classes": 1}),
        ("stage-1", {"splits": [[99, 0]]}),
        ("stage-1", {"splits": [[-1, 0]]}),
        ("stage-1", {"splits": [[0, 10**6]]}),
        ("stage-1", {"splits": [[0, 0], [0, 1]]}),
        ("stage-1", {"splits": 7}),
        ("stage-1", {"splits": [[0]]}),
        ("stage-1", {"refinable": None}),
        (with_features, {"features": [{}]}),
        (with_features, {"features": [{**cell, "part": n_known + 9}]}),
        (with_features, {"features": [{**cell, "column": 2}]}),
        (with_features, {"features": [cell, cell]}),
        (with_features, {"features": [{"camera": "", "symbol": 0}]}),
    ]
    for name, entries in wrong:
        with pytest.raises(FileFormatError, match="Start over with --overwrite"):
            list(learner.stages(data, changed(notes.parts, name, **entries)))
    other = replace(data.interactions, reward=data.interactions.reward[::-1].copy())
    with pytest.raises(FileFormatError, match="saved stages of this run"):
        list(learner.stages(learner.extract(other), notes))


# Trees


def test_trees_are_grown_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forest, notes = Forest(learner=RLVC(threads=1), trees=3), Recorder()
    data = forest.learner.extract(database(COLOUR))
    told = list[int]()
    expected = bytes_of(forest.learn(data, store=notes))
    assert sorted(notes.parts) == ["tree-0", "tree-1", "tree-2"]
    assert not any(name.startswith("vocabulary") for name in notes.parts["tree-0"][1])
    del notes.parts["tree-1"]  # so the one after it is grown again as well
    numbers, grow = list[int](), Forest.grow

    def count_and_grow(forest: Forest, data: Database, number: int) -> GrownTree:
        numbers.append(number)
        return grow(forest, data, number)

    monkeypatch.setattr(Forest, "grow", count_and_grow)
    again = forest.learn(data, lambda: told.append(1), store=notes)
    assert bytes_of(again) == expected
    assert (numbers, len(told)) == ([1, 2], 3)


def test_trees_of_another_run_are_refused() -> None:
    forest, notes = Forest(learner=RLVC(threads=1), trees=1), Recorder()
    data = forest.learner.extract(database(COLOUR))
    forest.learn(data, store=notes)
    manifest, arrays = notes.parts["tree-0"]
    assert load_tree(notes, 0, data) is not None
    wrong: list[dict[str, NDArray[Any]]] = [
        {"classes": arrays["classes"][1:]},
        {"classes": arrays["classes"] + 1000},
        {"classes": arrays["classes"] - 1000},
        {"classes": arrays["classes"].astype(np.float64)},
        {"is_known": arrays["is_known"][1:]},
        {"is_known": arrays["is_known"].astype(np.int64)},
        {"tree/0/q": arrays["tree/0/q"][:, 1:]},
        {"tree/0/q": arrays["tree/0/q"] * np.nan},
        {"usage": arrays["usage"][1:]},
    ]
    for change in wrong:
        notes.parts["tree-0"] = manifest, {**arrays, **change}
        with pytest.raises(FileFormatError, match="saved trees of this run"):
            load_tree(notes, 0, data)
    notes.parts["tree-0"] = {}, arrays
    with pytest.raises(FileFormatError, match="saved trees of this run"):
        load_tree(notes, 0, data)


# Keypoints


def percept_store(images: NDArray[np.uint8]) -> Percepts:
    percepts = Percepts()
    for image in images:
        percepts.add(image)
    return percepts


def halt_at(n: int) -> Mock:
    """Return a function that raises an error at its n-th call."""
    return Mock(side_effect=[*[None] * (n - 1), HaltError])


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the images whose keypoints are extracted."""
    calls, extract_image = list[int](), FeatureExtractor.extract_image

    def count_and_extract(extractor: FeatureExtractor, image: Image) -> Any:
        calls.append(1)
        return extract_image(extractor, image)

    monkeypatch.setattr(FeatureExtractor, "extract_image", count_and_extract)
    return calls


def test_keypoints_are_not_extracted_again_after_a_stop(
    count: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "SAVE_INTERVAL", 0.0)  # save every image by itself
    percepts, learner, notes = percept_store(pictures(9)), RLVC(threads=1), Recorder()
    extractor = learner.new_extractor(percepts)
    (expected,) = ExtractionCache().extract(extractor, percepts)
    count.clear()
    with pytest.raises(HaltError):
        ExtractionCache(notes).extract(extractor, percepts, 1, halt_at(4))
    assert (len(count), len(notes.parts)) == (4, 4)
    told = list[int]()
    (found,) = ExtractionCache(notes).extract(extractor, percepts, 1, lambda: told.append(1))
    assert (len(count), len(told)) == (9, 9)
    assert np.array_equal(found.begin, expected.begin)
    assert np.array_equal(found.row, expected.row)
    assert np.array_equal(found.descriptors, expected.descriptors)
    for name in ("xy", "scale", "angle", "octave"):
        one, other = getattr(found.points, name), getattr(expected.points, name)
        assert np.array_equal(one, other, equal_nan=True)


def test_pending_keypoints_are_saved_at_a_stop(count: list[int]) -> None:
    percepts, learner, notes = percept_store(pictures(9)), RLVC(threads=1), Recorder()
    extractor = learner.new_extractor(percepts)
    count.clear()
    with pytest.raises(HaltError):
        ExtractionCache(notes).extract(extractor, percepts, 1, halt_at(4))
    assert len(notes.parts) == 1
    memory = ExtractionCache(notes)
    memory.extract(extractor, percepts)
    assert (len(count), len(notes.parts)) == (9, 2)
    # Only new images are extracted, and saved beside the others.
    more = percept_store(pictures(12))
    assert memory.n_new(extractor, more) == 3
    memory.extract(extractor, more)
    assert (len(count), len(notes.parts)) == (12, 3)
    ExtractionCache(notes).extract(extractor, more)
    assert len(count) == 12


def test_keypoints_of_other_images_are_refused() -> None:
    percepts, learner, notes = percept_store(pictures(5)), RLVC(threads=1), Recorder()
    extractor = learner.new_extractor(percepts)
    ExtractionCache(notes).extract(extractor, percepts)
    for others in (pictures(5, 1), pictures(3), pictures(5)[::-1]):
        with pytest.raises(FileFormatError, match="saved images of this run"):
            ExtractionCache(notes).extract(extractor, percept_store(others))
    (name,) = notes.parts
    manifest, arrays = notes.parts[name]
    wrong: list[dict[str, NDArray[Any]]] = [
        {"count": -arrays["count"]},
        {"count": arrays["count"][1:]},
        {"count": arrays["count"][:0]},
        {"count": arrays["count"].astype(np.float64)},
        {"xy": arrays["xy"][1:]},
        {"xy": arrays["xy"] * np.float32(np.nan)},
        {"xy": arrays["xy"].astype(np.float64)},
        {"rows": arrays["rows"][1:]},
        {"rows": arrays["rows"][:, :0]},
        {"rows": arrays["rows"].ravel()},
        {"octave": arrays["octave"].astype(np.int64)},
        {"more": arrays["xy"]},
    ]
    for change in wrong:
        notes.parts[name] = manifest, {**arrays, **change}
        with pytest.raises(FileFormatError, match=r"The saved .* of this run"):
            ExtractionCache(notes).extract(extractor, percepts)


def test_chunks_are_saved_after_a_pause() -> None:
    percepts, notes, now = percept_store(pictures(6)), Recorder(), [0.0]
    learner = RLVC(threads=1)
    extractor = learner.new_extractor(percepts)
    (images,) = percepts.images
    chunks = CacheChunks(notes, "here", images, 0, lambda: now[0])
    for number in range(6):
        chunks.add(*extractor.extract_image(images[number]))
        now[0] += 0.75 * memory_module.SAVE_INTERVAL
    assert list(notes.parts) == ["here-0", "here-3"]
    chunks.flush()
    chunks.flush()
    assert list(notes.parts) == ["here-0", "here-3", "here-5"]
    assert PrefixedStore(notes, "here").load("3") is not None
    assert PrefixedStore(notes, "there").load("3") is None
    restored = CacheChunks(notes, "here", images, 0).restore()
    assert [len(counts) for counts, *_ in restored] == [3, 2, 1]
    assert list(CacheChunks(notes, "here", images, 1).restore()) == []


def test_callbacks_also_follow_what_is_only_restored(tmp_path: Path) -> None:
    whole, again = RecordingCallback(), RecordingCallback()
    for callback in (whole, again):
        run_custom(
            Corridor(), RLVC(threads=1), interactions=60, rounds=2, episodes=3,
            callbacks=[callback], checkpoint=Checkpoint(tmp_path),
        )  # fmt: skip
    assert again.phases == whole.phases
    assert again.steps == whole.steps
    assert again.rounds == whole.rounds
    assert [len(stages) for stages in again.stages.values()] == [
        len(stages) for stages in whole.stages.values()
    ]


def test_keypoints_of_data_are_extracted_once(tmp_path: Path, count: list[int]) -> None:
    data: Interactions = database(COLOUR)
    learner = RLVC(threads=1)
    for _ in range(2):
        run_custom(data, learner, checkpoint=Checkpoint(tmp_path))
    sample = len(count)
    count.clear()
    run_custom(data, learner)
    assert sample < 2 * len(count)
