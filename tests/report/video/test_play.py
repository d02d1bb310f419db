from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import gymnasium
import numpy as np
import PIL.Image
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Explanation, Forest, ForestPolicy, Policy
from rlvc.policies import AnyPolicy
from rlvc.report.figures.style import BLUE, ORANGE
from rlvc.report.video import Box, Canvas, EpisodeStep, check_video, draw_frame, play, write_video
from rlvc.report.video import write as video
from rlvc.report.video.canvas import HEIGHT, TITLE, WIDTH
from rlvc.report.video.frames import LEFT, TESTS, VALUES
from tests.support.builders import COLOUR, GREY, N_ACTIONS, N_PLACES, RIGHT, blocks, database

Frame = NDArray[np.uint8]
PLACES = [{"front": COLOUR[i], "rear": GREY[i]} for i in range(N_PLACES)]


class Walk(gymnasium.Env[Any, np.int64]):
    """Places one after the other; the right action earns 1."""

    def __init__(self, places: Any, length: int = 2, rendered: Frame | None = None) -> None:
        self.observation_space = gymnasium.spaces.Space()
        self.action_space = gymnasium.spaces.Discrete(N_ACTIONS)
        self.render_mode = None if rendered is None else "rgb_array"
        self.places, self.length, self.rendered = places, length, rendered
        self.place, self.seeds = 0, list[int | None]()
        self.taken: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.place = 0
        self.seeds.append(seed)
        return self.places[0], {}

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == RIGHT[self.place])
        self.taken.append(int(action))
        self.place += 1
        return self.places[self.place], reward, self.place == self.length, False, {}

    def render(self) -> Any:
        return self.rendered


@pytest.fixture(scope="module")
def two_cameras() -> Policy:
    return RLVC(threads=1).learn(database(PLACES, action_names=("left", "on", "right")))


@pytest.fixture(scope="module")
def forest() -> ForestPolicy:
    return Forest(learner=RLVC(threads=1), trees=3).learn(database(COLOUR))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[EpisodeStep]:
    """What would be drawn, without the work."""
    found: list[EpisodeStep] = []

    def draw(policy: AnyPolicy, step: EpisodeStep) -> Frame:
        found.append(step)
        return np.zeros((HEIGHT, WIDTH, 3), np.uint8)

    monkeypatch.setitem(play.__globals__, "draw_frame", draw)
    return found


@pytest.fixture
def canvases(monkeypatch: pytest.MonkeyPatch) -> list[Canvas]:
    """The canvases on which frames are drawn."""
    found: list[Canvas] = []
    pixels = Canvas.pixels

    def keep(canvas: Canvas) -> Frame:
        found.append(canvas)
        return pixels(canvas)

    monkeypatch.setattr(Canvas, "pixels", keep)
    return found


def words(canvas: Canvas) -> list[str]:
    return [text.get_text() for text in canvas.figure.texts]


def is_colour(frame: Frame, colour: str) -> NDArray[np.bool_]:
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return np.asarray((np.abs(frame.astype(int) - rgb) < 2).all(axis=2))


def part(frame: NDArray[Any], box: Box) -> NDArray[Any]:
    return frame[box.y : box.y + box.height, box.x : box.x + box.width]


# How it is played --------------------------------------------------------------------------------


def test_every_decision_has_a_frame_and_the_end_is_held(policy: Policy) -> None:
    env, told = Walk(COLOUR), list[None]()
    frames = list(play(policy, env, fps=1.5, on_frame=lambda: told.append(None)))
    assert env.taken == RIGHT[:2]
    assert len(frames) == len(told) == 2 + 3
    for frame in frames:
        assert frame.shape == (HEIGHT, WIDTH, 3)
        assert frame.dtype == np.uint8
        assert frame.flags.c_contiguous
    assert not any(np.array_equal(one, two) for one, two in itertools.pairwise(frames[:3]))
    assert np.array_equal(frames[2], frames[3])
    assert np.array_equal(frames[2], frames[4])


def test_what_happens_is_told(policy: Policy, steps: list[EpisodeStep]) -> None:
    env = Walk(COLOUR, length=3)
    assert sum(1 for _ in play(policy, env, episodes=2, seed=7, fps=0.1)) == 8
    assert env.seeds == [7, None]
    first, second, third, end = steps[:4]
    assert first.title == "episode 1 of 2"
    assert steps[7].title == "episode 2 of 2"
    assert [step.total for step in (first, second, third, end)] == [0.0, 1.0, 2.0, 3.0]
    assert [step.reward for step in (first, second, third, end)] == [0.0, 1.0, 1.0, 1.0]
    assert third.actions == (f"action {RIGHT[0]}", f"action {RIGHT[1]}")
    assert isinstance(third.decision, Explanation)
    assert third.decision.action == RIGHT[2]
    assert not third.ending
    assert end.decision is None
    assert end.ending == "Ended after 3 steps, return 3"
    assert np.array_equal(end.images[""], COLOUR[3])
    assert steps[4].total == steps[4].reward == 0.0


def test_an_episode_can_be_cut_off(policy: Policy, steps: list[EpisodeStep]) -> None:
    list(play(policy, Walk(COLOUR), max_steps=1))
    assert steps[-1].ending == "Cut off after 1 step, return 1"
    env = gymnasium.wrappers.TimeLimit(Walk(COLOUR, length=5), 2)
    list(play(policy, env))
    assert steps[-1].ending == "Cut off after 2 steps, return 2"
    assert len(steps) == 2 + 3


def test_what_is_no_camera_is_left_out(two_cameras: Policy, steps: list[EpisodeStep]) -> None:
    places = [{**place, "speed": np.float32(3.0), "mission": "go"} for place in PLACES]
    list(play(two_cameras, Walk(places)))
    for step, place in zip(steps, PLACES[:3], strict=True):
        assert sorted(step.images) == ["front", "rear"]
        assert all(np.array_equal(step.images[name], place[name]) for name in place)
    assert steps[2].actions == ("left", "on")


def test_the_world_is_shown_if_it_is_more_than_what_is_seen(
    policy: Policy, steps: list[EpisodeStep]
) -> None:
    enlarged = COLOUR[0].repeat(3, axis=0).repeat(3, axis=1)
    for rendered, is_shown in (
        (blocks(3, (64, 64, 3)), True), (blocks(3, (64, 90, 3)), True),
        (GREY[0], True), (COLOUR[0], False), (enlarged, False), (None, False),
    ):  # fmt: skip
        steps.clear()
        list(play(policy, Walk(COLOUR, rendered=rendered)))
        assert len(steps) == 3
        for step in steps:
            assert (step.world is rendered) == (is_shown or rendered is None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "episodes of play must be at least 1; got 0."),
        ({"max_steps": 0}, "max_steps of play must be at least 1; got 0."),
        ({"fps": 0.0}, "fps of play must be more than 0; got 0.0."),
    ],
)
def test_arguments_of_play_are_checked_at_once(
    arguments: dict[str, Any], message: str, policy: Policy
) -> None:
    env = Walk(COLOUR)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        play(policy, env, **arguments)
    assert not env.seeds


# How it is drawn ---------------------------------------------------------------------------------


def test_features_are_marked_where_they_are_seen(policy: Policy) -> None:
    room = LEFT.below(TITLE)
    for image in COLOUR:
        decision = policy.explain(image)
        frame = draw_frame(policy, EpisodeStep({"": image}, decision, ""))
        marked = part(is_colour(frame, ORANGE), room)
        places = [xy for test in decision.tests for xy in test.occurrences]
        scale = room.width // 64
        shown = part(frame, room)[: 64 * scale, : 64 * scale]
        near = np.zeros(marked.shape, np.bool_)  # where marks may be
        lines, columns = np.indices(marked.shape)
        for x, y in (np.asarray(places).reshape(-1, 2) + 0.5) * scale:
            away = np.hypot(columns - x, lines - y)
            assert marked[(away > 8) & (away < 13)].mean() > 0.1
            near |= away < 45
        assert not (marked & ~near).any()
        untouched = ~near[: 64 * scale, : 64 * scale]
        crisp = image.repeat(scale, axis=0).repeat(scale, axis=1)
        assert np.array_equal(shown[untouched], crisp[untouched])


def test_what_was_not_seen_leaves_no_mark(policy: Policy, canvases: list[Canvas]) -> None:
    image, decision, seen = next(
        (image, decision, test)
        for image in COLOUR
        for decision in [policy.explain(image)]
        for test in decision.tests
        if test.exhibited
    )
    missed = dataclasses.replace(seen, exhibited=False, occurrences=np.empty((0, 2)), seen=())
    frames = [
        draw_frame(
            policy, EpisodeStep({"": image}, dataclasses.replace(decision, tests=(one,)), "")
        )
        for one in (seen, missed, missed)
    ]
    marked = [is_colour(frame, ORANGE) for frame in frames]
    assert part(marked[0], LEFT).sum() > 20
    assert part(marked[0], TESTS).sum() > 20
    assert not marked[1].any()
    assert np.array_equal(frames[1], frames[2])
    assert "seen" in words(canvases[0])
    assert "not seen" in words(canvases[1])


def test_the_action_that_is_taken_stands_out(two_cameras: Policy, canvases: list[Canvas]) -> None:
    decision = two_cameras.explain(PLACES[1])
    step = EpisodeStep(PLACES[1], decision, "a task", ("left",), 3.5, -2.0)
    frame = draw_frame(two_cameras, step)
    blue = part(is_colour(frame, BLUE), VALUES)
    assert blue.sum() > 500
    rows = np.flatnonzero(blue.sum(axis=1) > 50)
    assert TITLE + 40 < rows.min() < rows.max() < TITLE + 80  # the second of three
    told = words(canvases[0])
    for text in ("Step 2", "a task", "reward so far 3.5 (-2)", "front", "rear"):
        assert any(text in one for one in told)
    assert f"Class {decision.visual_class}: “on” is worth most" in told
    assert {"left", "on", "right"} <= set(told)


def test_a_forest_tells_what_decided_and_who_voted(
    forest: ForestPolicy, canvases: list[Canvas]
) -> None:
    vote = forest.explain(COLOUR[2])
    frame = draw_frame(forest, EpisodeStep({"": COLOUR[2]}, vote, ""))
    told = words(canvases[0])
    assert f"3 trees vote: “action {vote.best}” is worth most" in told
    assert f"{vote.ballots[vote.best]} votes" in told
    worth = [f"{one.gain:+.2f}" for _, one in vote.shown()]
    assert [one.split(", ")[1] for one in told if re.search(r"seen, [+-]", one)] == worth
    assert part(is_colour(frame, ORANGE), LEFT).sum() > 20


def test_an_end_says_what_was_done(policy: Policy, canvases: list[Canvas]) -> None:
    actions = ["up", "up", "left", *["down", "up"] * 200]
    step = EpisodeStep({"": COLOUR[0]}, None, "", actions, ending="Ended after 403 steps, return 0")
    frame = draw_frame(policy, step)
    told = words(canvases[0])
    assert {"The end", "Ended after 403 steps, return 0", "…"} <= set(told)
    assert any(text.startswith("up ×2, left, down, up, down") for text in told)
    assert told[-1].endswith("down, up")
    assert not is_colour(frame, ORANGE).any()


NAMES = ("turn left by a quarter", "wait", *(f"DOWNRIGHTFIRE{i}" for i in range(16)))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 9, 18])
@pytest.mark.parametrize("size", [None, (210, 160), (90, 300)])
@pytest.mark.parametrize("names", [(), NAMES])
def test_nothing_is_written_over_anything_else(
    n: int,
    size: tuple[int, int] | None,
    names: tuple[str, ...],
    policy: Policy,
    canvases: list[Canvas],
) -> None:
    rng = np.random.default_rng(n)
    q, is_tried = rng.normal(0.0, 900.0, n), rng.random(n) < 0.7
    is_tried[0] = True
    wide = dataclasses.replace(policy, q=np.zeros((policy.n_classes, n)))
    decision = policy.explain(COLOUR[0])
    test = dataclasses.replace(decision.tests[0], exhibited=False)
    decision = dataclasses.replace(
        decision, q=q, is_tried=is_tried, action_names=names[:n], tests=(test,) * 30
    )
    world = None if size is None else blocks(0, (*size, 3))
    title = f"{'a very long name ' * 9}, episode 1000 of 1000"
    step = EpisodeStep(
        {"": COLOUR[0]}, decision, title, ("x",) * 12344, -12345.67, -100.0, world=world
    )
    draw_frame(wide, step)
    (canvas,) = canvases
    boxes = [text.get_window_extent() for text in canvas.figure.texts if text.get_text()]
    for box in boxes:
        assert 0 <= box.x0 <= box.x1 <= WIDTH
        assert 0 <= box.y0 <= box.y1 <= HEIGHT
    for one, two in itertools.combinations(boxes, 2):
        over = min(one.x1, two.x1) - max(one.x0, two.x0), min(one.y1, two.y1) - max(one.y0, two.y0)
        assert min(over) < 3.0  # letters have some room above and below


@pytest.mark.parametrize("shape", [(400, 600, 3), (40, 900, 3), (700, 30, 1), (1, 1, 3)])
@pytest.mark.parametrize("n", [1, 4])
def test_images_of_any_size_and_number_find_room(
    shape: tuple[int, ...], n: int, policy: Policy
) -> None:
    image = np.full(shape, 77, np.uint8)
    step = EpisodeStep({f"frame {i}": image for i in range(n)}, None, "", world=image)
    is_there = (draw_frame(policy, step) == 77).all(axis=2)
    assert is_there.sum() >= min(n * image.shape[0] * image.shape[1], 12_000)
    room = part(is_there, LEFT).sum() + part(is_there, VALUES).sum()
    assert room == is_there.sum()


# Films -------------------------------------------------------------------------------------------


def film(n: int = 5, shape: tuple[int, ...] = (96, 128, 3)) -> list[Frame]:
    """Return a block that goes from left to right, on a plain ground."""
    frames = np.full((n, *shape), 230, np.uint8)
    for i, frame in enumerate(frames):
        frame[30:60, 15 * i : 15 * i + 30] = (200, 60, 20)[: shape[2]]
    return list(frames)


def read(path: Path) -> tuple[list[Frame], float]:
    capture = cv2.VideoCapture(str(path))
    fps, found = capture.get(cv2.CAP_PROP_FPS), list[Frame]()
    while True:
        is_read, frame = capture.read()
        if not is_read:
            return found, fps
        found.append(np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), np.uint8))


def alike(one: Frame, two: Frame) -> bool:
    return float(np.abs(one.astype(int) - two).mean()) < 4.0


@pytest.mark.parametrize("shape", [(96, 128, 3), (95, 127, 3), (96, 128, 1)])
def test_an_mp4_shows_what_was_written(
    shape: tuple[int, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, frames = tmp_path / "new" / "film.MP4", film(shape=shape)
    write_video(path, iter(frames), 5.0)
    found, fps = read(path)
    assert (len(found), fps) == (5, 5.0)
    for one, two in zip(found, frames, strict=True):
        assert one.shape == (96, 128, 3)
        assert alike(one[: shape[0], : shape[1]], two)
    assert not alike(found[0], found[4])
    assert [other.name for other in path.parent.iterdir()] == ["film.MP4"]
    (path.parent / "other").touch()
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode
    assert capfd.readouterr() == ("", "")


def test_a_gif_shows_what_was_written_over_and_over(tmp_path: Path) -> None:
    path, frames = tmp_path / "film.gif", film()
    write_video(path, iter(frames), fps=10.0)
    with PIL.Image.open(path) as found:
        assert getattr(found, "n_frames", 1) == 5
        assert (found.info["duration"], found.info["loop"]) == (100, 0)
        for number, frame in enumerate(frames):
            found.seek(number)
            assert alike(np.asarray(found.convert("RGB")), frame)


def interrupted(n: int) -> Iterator[Frame]:
    yield from film(n)
    raise KeyboardInterrupt


def mixed() -> Iterator[Frame]:
    yield film()[0]
    yield film(shape=(64, 64, 3))[0]


@pytest.mark.parametrize("name", ["film.mp4", "film.gif"])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_an_interruption_leaves_what_was_there(name: str, n: int, tmp_path: Path) -> None:
    for before in ([], [name]):
        for known in before:
            (tmp_path / known).write_text("precious")
        with pytest.raises(KeyboardInterrupt):
            write_video(tmp_path / name, interrupted(n))
        assert [path.name for path in tmp_path.iterdir()] == before
    assert (tmp_path / name).read_text() == "precious"


@pytest.mark.parametrize("name", ["film.mp4", "film.gif"])
def test_a_full_disk_leaves_nothing(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (3, 120, 160, 3), dtype=np.uint8)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
    try:
        with pytest.raises(OSError, match=r"is the disk full\?|too large"):
            write_video(tmp_path / name, noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_film_without_a_codec_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(video, "CODECS", ("nope",))
    with pytest.raises(OSError, match=r"cannot write MP4 files here; give the video a name that"):
        write_video(tmp_path / "film.mp4", film())
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (lambda: [], "frames of write_video must be at least one; got none."),
        (mixed, "The shape of a frame must be (96, 128, 3), as before; got (64, 64, 3)."),
    ],
)
def test_frames_are_checked(frames: Callable[[], Any], message: str, tmp_path: Path) -> None:
    for name in ("film.mp4", "film.gif"):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            write_video(tmp_path / name, frames())
    assert list(tmp_path.iterdir()) == []


def test_places_where_no_film_can_be(tmp_path: Path) -> None:
    for name in ("film.avi", "film", "mp4"):
        message = f"path of write_video must end in .mp4 or .gif; got {str(tmp_path / name)!r}."
        for refuse in (check_video, lambda path: write_video(path, interrupted(0))):
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                refuse(tmp_path / name)
    with pytest.raises(ValueError, match=r"^fps of write_video must be more than 0; got 0\.$"):
        write_video(tmp_path / "film.gif", interrupted(0), fps=0)
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder\.gif is a folder; name a file in it\.$"):
        check_video(tmp_path / "folder.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file cannot be written to \("):
        write_video(tmp_path / "file" / "film.gif", interrupted(0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.gif"]
