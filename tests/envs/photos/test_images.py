from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from rlvc.data import Image
from rlvc.envs.photos import images
from rlvc.envs.photos.images import maze_picture, strip_picture
from rlvc.errors import ImageError
from tests.support.photographs import write_color, write_picture

Make = Callable[..., Image]
BOTH = pytest.mark.parametrize("make", [maze_picture, strip_picture])


def tile(picture: Image, row: int, column: int) -> Image:
    return picture[row * 128 : row * 128 + 128, column * 128 : column * 128 + 128]


def test_photos_montage_keeps_tiles_of_one_photograph_apart() -> None:
    source = np.repeat(list(images.PHOTOGRAPHS), list(images.PHOTOGRAPHS.values()))
    grid = np.array([source[37 * cell % 100] for cell in range(100)]).reshape(10, 10)
    assert (grid[:, 1:] != grid[:, :-1]).all()
    assert (grid[1:] != grid[:-1]).all()


def test_photos_montage_has_a_hundred_distinct_tiles_that_are_full_of_detail() -> None:
    picture = maze_picture("photos")
    assert picture.shape == (1280, 1280, 3)
    assert picture.dtype == np.uint8
    tiles = [tile(picture, i, j) for i in range(10) for j in range(10)]
    assert len({one.tobytes() for one in tiles}) == 100
    sift = cv2.SIFT.create()
    assert np.median([len(sift.detect(one)) for one in tiles]) > 40


def test_strip_of_photos_begins_with_the_first_photograph() -> None:
    strip = strip_picture("photos")
    assert strip.shape == (384, 3041, 3)
    assert not np.array_equal(strip[:, :384], strip[:, 384:768])
    # The overall of the astronaut is orange; with the channels swapped it would be blue.
    red, _, blue = strip[200:, :384].astype(int).mean(axis=(0, 1))
    assert red > blue + 20


@BOTH
def test_pictures_are_made_once_and_read_only(make: Make) -> None:
    assert make("photos") is make("photos")
    assert not make("photos").flags.writeable


def test_coil_is_laid_out_in_numeric_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 101):
        write_color(tmp_path / "coil100" / f"obj{number}__0.png", (number, 2 * number, 7))
    monkeypatch.setenv("RLVC_DATA", str(tmp_path))
    picture = maze_picture("coil")
    for row, column in [(0, 0), (0, 9), (1, 0), (9, 9)]:
        number = row * 10 + column + 1
        assert (tile(picture, row, column) == (number, 2 * number, 7)).all()


def test_street_is_its_middle_band(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    street = np.zeros((1480, 4096, 3), np.uint8)
    street[482:999] = 200  # 4096 × 517 has the aspect ratio of the strip
    write_picture(tmp_path / "street" / "charles-street.jpg", street)
    monkeypatch.setenv("RLVC_DATA", str(tmp_path))
    strip = strip_picture("street")
    assert strip.shape == (384, 3041, 3)
    assert strip[10:-10].min() > 190


def test_file_covers_and_is_cropped_centrally(tmp_path: Path) -> None:
    image = np.zeros((100, 300, 3), np.uint8)
    image[:, 100:200] = 255
    wide = write_picture(tmp_path / "wide.png", image)
    assert (maze_picture(wide) == 255).all()
    assert (maze_picture(str(wide)) == 255).all()
    tall = write_picture(tmp_path / "tall.png", image.swapaxes(0, 1))
    assert (strip_picture(tall, width=64, height=64) == 255).all()


def test_folder_is_cycled_in_order_of_names(tmp_path: Path) -> None:
    write_color(tmp_path / "b.png", (0, 255, 0), (50, 80))
    write_color(tmp_path / "a.JPG", (255, 0, 0), (300, 200))
    write_color(tmp_path / "c.bmp", (0, 0, 255), (128, 128))
    (tmp_path / "notes.txt").write_text("not an image")
    picture = maze_picture(tmp_path)
    assert [int(tile(picture, 0, i)[64, 64].argmax()) for i in range(10)] == [0, 1, 2] * 3 + [0]
    assert int(tile(picture, 1, 0)[64, 64].argmax()) == 1
    strip = strip_picture(tmp_path, width=1000, height=100)
    parts = [0] * 67 + [1] * 160 + [2] * 100  # the widths at height 100
    assert strip.argmax(axis=2)[50].tolist() == (parts * 4)[:1000]


def test_names_win_over_folders_unless_given_as_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_color(tmp_path / "photos" / "red.png", (255, 0, 0))
    monkeypatch.chdir(tmp_path)
    assert (maze_picture("./photos") == (255, 0, 0)).all()
    assert (maze_picture(Path("photos")) == (255, 0, 0)).all()
    assert not (maze_picture("photos") == (255, 0, 0)).all()


@BOTH
def test_unknown_name(make: Make) -> None:
    with pytest.raises(ValueError, match=r"Unknown pictures 'photo'\. Did you mean 'photos'"):
        make("photo")


@BOTH
@pytest.mark.parametrize("missing", ["nowhere/tiles", "nowhere.png", Path("nowhere")])
def test_missing_path(make: Make, missing: str | Path) -> None:
    with pytest.raises(ImageError, match=r"nowhere.* neither an image file nor a folder\. Check"):
        make(missing)


def test_coil_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLVC_DATA", raising=False)
    with pytest.raises(ImageError, match=r"'coil' need .* coil100 in RLVC_DATA; .* not set"):
        maze_picture("coil")
    monkeypatch.setenv("RLVC_DATA", str(tmp_path))
    with pytest.raises(ImageError, match=r"coil100 in RLVC_DATA; it is not in .*--pictures"):
        maze_picture("coil")
    (tmp_path / "coil100").mkdir()
    with pytest.raises(ImageError, match=r"cannot be read: No such file"):
        maze_picture("coil")


@BOTH
@pytest.mark.parametrize("data", [b"", b"no image at all", b"\x89PNG\r\n\x1a\n\x00\x00"])
def test_file_that_is_no_image(make: Make, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(data)
    with pytest.raises(ImageError, match=r"bad\.png is not an image"):
        make(tmp_path / "bad.png")


@BOTH
def test_folder_without_images(make: Make, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not an image")
    with pytest.raises(ImageError, match="holds no image"):
        make(tmp_path)


@BOTH
def test_photographs_without_their_package(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImageError, match="scikit-image, which is not installed"):
        make("photos")
    write_color(tmp_path / "red.png", (255, 0, 0))
    assert (make(tmp_path) == (255, 0, 0)).all()  # other pictures do not need it


def test_size_of_a_strip() -> None:
    with pytest.raises(ValueError, match="height of strip_picture must be at least 1; got 0"):
        strip_picture("photos", height=0)
