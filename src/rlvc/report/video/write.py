"""Video files that browsers and ordinary players show."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import cv2
import numpy as np
import PIL.Image
from numpy.typing import NDArray

from rlvc.data.images import Image, as_image

CODECS: Final = ("avc1", "vp09", "av01", "mp4v")  # browsers play all but the last


def write_video(
    path: str | os.PathLike[str], frames: Iterable[NDArray[np.uint8]], fps: float = 4.0
) -> None:
    """Write a video atomically: a reader finds the old file or the complete new one.

    An MP4 file is written frame by frame. A GIF file is shown in a loop, has 256 colours per frame,
    and takes more disk and memory.

    Args:
        path: The file; its name ends in ``.mp4`` or ``.gif``.
        frames: Images of one shape, RGB or grey.
        fps: Frames per second.

    Raises:
        OSError: The video cannot be written completely, for example because the disk is full.

    >>> frames = np.zeros((3, 48, 64, 3), np.uint8)
    >>> with TemporaryDirectory() as folder:
    ...     write_video(Path(folder) / "video.mp4", frames)
    ...     print(*(path.name for path in Path(folder).iterdir()))
    video.mp4
    """
    check_video(path)
    if not fps > 0.0:
        raise ValueError(f"fps of write_video must be more than 0; got {fps}.")
    target = Path(path)
    try:  # a folder on the same disk
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise OSError(f"{target.parent} cannot be written to ({error.strerror}).") from error
    with beside as folder:
        video = Path(folder) / f"video{target.suffix.lower()}"
        WRITERS[video.suffix](video, _same_shape(frames), fps)
        with video.open("rb+") as file:
            os.fsync(file.fileno())
        video.replace(target)


def check_video(path: str | os.PathLike[str]) -> None:
    """Raise an error if a video cannot have this name, before any frame is computed.

    >>> check_video("video.avi")
    Traceback (most recent call last):
    ValueError: path of write_video must end in .mp4 or .gif; got 'video.avi'.
    """
    if Path(path).suffix.lower() not in WRITERS:
        known = " or ".join(WRITERS)
        raise ValueError(f"path of write_video must end in {known}; got {os.fspath(path)!r}.")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")


def _same_shape(frames: Iterable[NDArray[np.uint8]]) -> Iterator[Image]:
    """Yield frames in colour; raise a ValueError for none, or one of another shape."""
    shape: tuple[int, ...] = ()
    for frame in frames:
        image = as_image(frame, "a frame")
        shape = shape or image.shape
        if image.shape != shape:
            raise ValueError(f"The shape of a frame must be {shape}, as before; got {image.shape}.")
        yield image if image.shape[2] == 3 else image.repeat(3, axis=2)
    if not shape:
        raise ValueError("frames of write_video must be at least one; got none.")


def _write_gif(path: Path, frames: Iterator[Image], fps: float) -> None:
    # Dithering adds noise to plain areas and doubles the size of the file.
    plain = PIL.Image.Dither.NONE
    shown = (PIL.Image.fromarray(frame).quantize(256, dither=plain) for frame in frames)
    with path.open("wb") as file:
        next(shown).save(
            file, "GIF", save_all=True, append_images=shown, duration=round(1000 / fps), loop=0
        )


def _write_mp4(path: Path, frames: Iterator[Image], fps: float) -> None:
    first = next(frames)
    height, width = first.shape[:2]
    odd = height % 2, width % 2  # most codecs need even sizes
    writer, n = _open_writer(path, (width + odd[1], height + odd[0]), fps), 0
    try:
        for frame in itertools.chain([first], frames):
            even = cv2.copyMakeBorder(frame, 0, odd[0], 0, odd[1], cv2.BORDER_REPLICATE)
            with _quiet():
                writer.write(cv2.cvtColor(even, cv2.COLOR_RGB2BGR))
            n += 1
    finally:
        with _quiet():
            writer.release()
    if _count_frames(path) != n:  # OpenCV does not report that it failed to write
        raise OSError("The video cannot be written completely; is the disk full?")


def _open_writer(path: Path, size: tuple[int, int], fps: float) -> cv2.VideoWriter:
    """Return a writer with the first codec that OpenCV supports here."""
    for codec in CODECS:
        with _quiet():
            fourcc = cv2.VideoWriter.fourcc(*codec)
            writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, fps, size)
        if writer.isOpened():
            return writer
    raise OSError(
        f"OpenCV {cv2.__version__} cannot write MP4 files here; give the video a name that ends in "
        ".gif, or install opencv-python-headless."
    )


def _count_frames(path: Path) -> int:
    """Return the number of frames that can be decoded."""
    with _quiet():
        video, n = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG), 0
        while video.grab():
            n += 1
        video.release()
    return n


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what OpenCV and FFmpeg print when a codec is missing."""
    try:
        stderr = os.dup(2)
    except OSError:  # a process without a terminal may have closed it
        yield
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(devnull)


WRITERS: Final = {".mp4": _write_mp4, ".gif": _write_gif}
