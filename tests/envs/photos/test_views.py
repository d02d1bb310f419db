from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import cv2
import numpy as np
import pytest

from rlvc.data import Image
from rlvc.envs.photos import views as module
from rlvc.envs.photos.camera import Panoramas, PinholeCamera, expose
from rlvc.envs.photos.download import find_set
from rlvc.envs.photos.facades import MURALS, Surface, draw_facade
from rlvc.envs.photos.views import Views, campus_views
from rlvc.errors import ImageError
from tests.support.photographs import write_color, write_picture, write_views

PLACE = (256, 512)  # height and width of a panorama
FEW = [(0, 0), (0, 23), (17, 5), (41, 11)]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Photographs whose red tells the column, green the row and blue the spot."""
    height, width = PLACE
    red = np.tile(np.linspace(0, 255, width), (height, 1))
    green = np.tile(np.linspace(0, 255, height)[:, None], (1, width))
    for spot, name in enumerate(sorted(file.name for file in find_set("places").files)):
        blue = np.full(PLACE, 20 * spot)
        write_picture(tmp_path / "places" / name, np.stack([red, green, blue], axis=2))
    monkeypatch.setenv("RLVC_DATA", str(tmp_path))
    yield tmp_path / "places"
    module._panoramas.cache_clear()


@pytest.mark.parametrize("seed", [0, 1])
def test_eighteen_views_to_learn_from_and_six_to_test_with(seed: int) -> None:
    views = campus_views("photos", seed)
    assert views.n_states == 44
    for learn, test in zip(views.learn, views.test, strict=True):
        assert (len(learn), len(test)) == (18, 6)
        assert sorted(learn + test) == list(range(24))
        assert list(learn) == sorted(learn)
    assert len(set(views.test)) > 30  # every state has a division of its own
    assert campus_views("photos", 2).test != views.test
    assert (views.division("learn"), views.division("test")) == (views.learn, views.test)


@pytest.mark.parametrize("pictures", ["photos", "places"])
def test_views_do_not_depend_on_the_order(places: Path, pictures: str) -> None:
    def drawn(order: list[tuple[int, int]], seed: int = 0) -> list[bytes]:
        module._drawn_views.cache_clear()
        views = campus_views(pictures, seed)
        seen = {numbers: views.image(*numbers) for numbers in order}
        for image in seen.values():
            assert image.shape == views.shape == (480, 640, 3)
            assert image.dtype == np.uint8
            assert not image.flags.writeable
        return [seen[numbers].tobytes() for numbers in FEW]

    once = drawn(FEW)
    assert drawn(FEW[::-1]) == once
    assert len(set(once)) == len(FEW)  # views of one state differ, and so do states
    assert not set(drawn(FEW, seed=1)) & set(once)


class Drawing:
    """Views of one shade each, which remember what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def __call__(self, state: int, view: int) -> Image:
        self.asked.append((state, view))
        return np.full((4, 5, 3), 10 * state + view, np.uint8)

    def of(self, n_states: int, n_views: int) -> Views:
        return Views(self, shape=(4, 5, 3), n_views=[n_views] * n_states, seed=0)


def test_each_view_is_drawn_once_and_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_MEMORY", 100)
    drawing = Drawing()
    views, pairs = drawing.of(3, 4), list(np.ndindex(3, 4))
    assert drawing.asked == []
    for state, view in 2 * pairs:
        assert (views.image(state, view) == 10 * state + view).all()
    assert drawing.asked == pairs


def test_many_threads_may_ask_at_once() -> None:
    views, pairs = Drawing().of(20, 10), 3 * list(np.ndindex(20, 10))
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(lambda pair: views.image(*pair), pairs))
    for (state, view), image in zip(pairs, images, strict=True):
        assert (image == 10 * state + view).all()


def test_a_forked_process_draws_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing()
    views = drawing.of(1, 2)
    views.image(0, 0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    views.image(0, 0)
    views.image(0, 0)
    assert drawing.asked == [(0, 0)] * 2


def test_there_are_no_other_states_or_views() -> None:
    views = campus_views()
    for state in (-1, 44):
        with pytest.raises(IndexError, match=f"There are 44 states; there is no state {state}"):
            views.image(state, 0)
    for view in (-1, 24):
        with pytest.raises(IndexError, match=f"State 3 has 24 views; there is no view {view}"):
            views.image(3, view)


def test_headings_look_along_the_right_columns(places: Path) -> None:
    upright = PinholeCamera(yaw=0, pitch=0, roll=0, field=60)
    panoramas = Panoramas(sorted(places.iterdir()))
    for heading in range(4):
        view = panoramas._project(2, 90.0 * heading, upright).astype(int)
        column = (0.5 + heading / 4) % 1 * 255
        if heading != 2:  # where the photograph begins and ends, the column jumps
            assert abs(view[240, 320, 0] - column) < 3
            assert view[240, 600, 0] > view[240, 320, 0] > view[240, 40, 0]
        else:
            assert view[240, 300, 0] > 240
            assert view[240, 340, 0] < 15
        assert abs(view[240, 320, 1] - 127.5) < 3
        assert view[470, 320, 1] > view[10, 320, 1]
        assert abs(view[240, 320, 2] - 40) < 4


def test_the_angles_of_the_camera(places: Path) -> None:
    panoramas = Panoramas(sorted(places.iterdir()))

    def middle(yaw: float = 0, pitch: float = 0) -> tuple[int, int]:
        camera = PinholeCamera(yaw=yaw, pitch=pitch, roll=0, field=60)
        column, row, _ = panoramas._project(0, 0, camera)[240, 320].tolist()
        return column, row

    assert middle(yaw=15)[0] > middle()[0] > middle(yaw=-15)[0]
    assert middle(pitch=8)[1] < middle()[1] < middle(pitch=-8)[1]
    # The edge of a view of 60° is 30° away: 30/360 of the columns.
    ahead = panoramas._project(0, 0, PinholeCamera(yaw=0, pitch=0, roll=0, field=60)).astype(int)
    assert abs(ahead[240, 639, 0] - (0.5 + 30 / 360) * 255) < 3
    tilted = panoramas._project(0, 0, PinholeCamera(yaw=0, pitch=0, roll=5, field=60)).astype(int)
    assert tilted[240, 600, 1] > tilted[240, 40, 1]  # a camera tilted clockwise


def test_cameras_stay_within_their_bounds() -> None:
    rng = np.random.default_rng(0)
    drawn = [PinholeCamera.draw(rng) for _ in range(500)]
    for name, low, high in [("yaw", -15, 15), ("pitch", -8, 8), ("roll", -5, 5), ("field", 50, 80)]:
        values = np.array([getattr(camera, name) for camera in drawn])
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high >= values.max() > high - 0.05 * (high - low)


def test_light_and_noise_of_a_photograph() -> None:
    gray = np.full((300, 400, 3), 128, np.uint8)
    views = [expose(gray, np.random.default_rng(seed)).astype(float) for seed in range(30)]
    means = np.array([view.mean() for view in views])
    assert 255 * (128 / 255) ** 1.4 - 1 < means.min() < 105
    assert 150 < means.max() < 255 * (128 / 255) ** 0.7 + 1
    assert np.mean([view.std() for view in views]) == pytest.approx(4, abs=0.05)


@pytest.mark.parametrize(("row", "column"), [(3, 5), (10, 30), (35, 52)])
def test_a_surface_is_drawn_in_true_perspective(row: int, column: int) -> None:
    texture = np.zeros((40, 60, 3), np.uint8)
    texture[row, column] = 255
    surface = Surface(texture, (-1.5, -2.0, 9.0), (0.05, 0, 0), (0, 0.05, 0))
    camera = PinholeCamera(yaw=7, pitch=-4, roll=3, field=40)
    position = np.array([0.3, -1.2, 0.4])
    view = np.zeros((480, 640, 3), np.uint8)
    surface.draw_on(view, camera, position)
    point = np.array([-1.5 + (column + 0.5) * 0.05, -2.0 + (row + 0.5) * 0.05, 9.0])
    x, y, z = camera.rotation().T @ (point - position)
    focal = 320 / np.tan(np.radians(20))
    weights = view[..., 0].astype(float) / view[..., 0].sum()
    rows, columns = np.mgrid[:480, :640] + 0.5
    assert (weights * columns).sum() == pytest.approx(320 + focal * x / z, abs=0.3)
    assert (weights * rows).sum() == pytest.approx(240 + focal * y / z, abs=0.3)


def test_what_lies_outside_the_view_changes_nothing() -> None:
    surface = Surface(np.full((9, 9, 3), 255, np.uint8), (40, 0, 9), (0.1, 0, 0), (0, 0.1, 0))
    view = np.zeros((48, 64, 3), np.uint8)
    surface.draw_on(view, PinholeCamera(yaw=0, pitch=0, roll=0, field=60), np.zeros(3))
    assert not view.any()


def test_facades_fill_the_view_and_share_their_murals() -> None:
    for state in (0, 22):
        view = draw_facade(state, np.random.default_rng(4))
        assert (view.reshape(-1, 3).max(axis=1) > 0).mean() > 0.99
    assert len(MURALS) == 22
    sift, matcher = cv2.SIFT.create(400), cv2.BFMatcher()
    described = {
        state: sift.detectAndCompute(draw_facade(state, np.random.default_rng(seed)), None)[1]
        for state, seed in [(0, 1), (22, 2), (2, 3)]
    }

    def n_alike(a: int, b: int) -> int:
        pairs = matcher.knnMatch(described[a], described[b], k=2)
        return sum(first.distance < 0.7 * second.distance for first, second in pairs)

    assert n_alike(0, 22) > 2 * n_alike(0, 2)


def test_photographs_of_the_users_keep_their_names_and_sizes(tmp_path: Path) -> None:
    root = write_views(tmp_path / "campus", n_views=5)
    for old, new in [("00-N", "0n"), ("10-E", "10E"), ("03-W", "3_w"), ("04-S", "004 s")]:
        (root / old).rename(root / new)
    (root / ".thumbnails").mkdir()
    (root / "notes.txt").write_text("the camera was a phone")
    (root / "10E" / "notes.txt").write_text("rainy")
    views = campus_views(root, seed=1)
    assert views.shape == (12, 16, 3)
    for state in range(44):
        assert (len(views.learn[state]), len(views.test[state])) == (4, 1)
        for view in range(5):
            assert (views.image(state, view) == (state, view, 0)).all()
    assert campus_views(root, seed=2).test != views.test


@pytest.mark.parametrize(("n", "n_test"), [(2, 1), (3, 1), (4, 1), (7, 1), (8, 2), (24, 6)])
def test_a_quarter_of_the_views_is_to_test_with(n: int, n_test: int) -> None:
    views = Drawing().of(1, n)
    assert (len(views.learn[0]), len(views.test[0])) == (n - n_test, n_test)


def test_missing_folders() -> None:
    for missing in ("no/such", Path("nowhere")):
        with pytest.raises(ImageError, match=rf"'{missing}' is not a folder of views\. Check the"):
            campus_views(missing)
    with pytest.raises(ValueError, match=r"Unknown pictures 'place'\. Did you mean 'places'\?"):
        campus_views("place")


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_bad_seeds(seed: int) -> None:
    with pytest.raises(ValueError, match="seed of campus_views must be a whole number, at least 0"):
        campus_views("photos", seed)


def test_a_photograph_that_is_no_panorama(tmp_path: Path) -> None:
    file = write_picture(tmp_path / "flat.png", np.zeros((30, 40, 3)))
    with pytest.raises(ImageError, match=r"flat\.png must be an equirectangular.*got 40×30"):
        Panoramas([file]).draw(0, np.random.default_rng(0))


def test_states_that_are_missing_are_named(tmp_path: Path) -> None:
    root = write_views(tmp_path, n_views=2)
    for name in ("10-W", "00-E"):
        rmtree(root / name)
    with pytest.raises(ImageError, match=r"each of 44 states; missing: 00-E, 10-W\. Name them"):
        campus_views(root)
    (tmp_path / "bare").mkdir()
    with pytest.raises(ImageError, match="00-N, 00-E, 00-S, 00-W, 01-N and 39 more"):
        campus_views(tmp_path / "bare")


@pytest.mark.parametrize("name", ["11-N", "00", "north", "3-X", "0-NE", "-1N"])
def test_folders_whose_names_are_not_understood(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    message = rf"must be named by a spot from 0 to 10 and a heading \(N, E, S, W\).*got '{name}'"
    with pytest.raises(ImageError, match=message):
        campus_views(tmp_path)


def test_two_folders_of_one_state(tmp_path: Path) -> None:
    for name in ("3-N", "03n"):
        (tmp_path / name).mkdir()
    with pytest.raises(ImageError, match=r"03n and .*3-N are both of state 03-N\. Put"):
        campus_views(tmp_path)


def test_a_state_with_a_single_view(tmp_path: Path) -> None:
    root = write_views(tmp_path, n_views=2)
    (root / "05-S" / "01.png").unlink()
    with pytest.raises(ImageError, match=r"at least 2 views of state 05-S.*got 1\. Add"):
        campus_views(root)


def test_photographs_of_two_sizes_and_photographs_that_cannot_be_read(tmp_path: Path) -> None:
    root = write_views(tmp_path, n_views=2)
    write_color(root / "07-W" / "01.png", (0, 0, 0), (9, 8))
    message = r"07-W.01\.png must be 16×12 pixels.*00-N.00\.png; got 8×9\. Scale"
    with pytest.raises(ImageError, match=message):
        campus_views(root)
    (root / "07-W" / "01.png").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"07-W.01\.png is not an image that OpenCV can read"):
        campus_views(root)
