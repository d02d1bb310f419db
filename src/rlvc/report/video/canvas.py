"""A canvas for the frames of a video: fast, and measured in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import cv2
import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from rlvc.data.images import Image
from rlvc.report.figures.arrangements import Point

WIDTH: Final = 1280
HEIGHT: Final = 720
DPI: Final = 100
SIZE: Final = 10.5  # font size, points
WIDEST: Final = 1.4  # pixels of the widest letter, per point of its size
SMALLER: Final = 0.7  # smallest share of the font size for a long line
TITLE: Final = 28  # pixels of a title above its box
CRISP: Final = 3  # enlargement from which on pixels are drawn as squares


class Box(NamedTuple):
    """A rectangle on a canvas, in pixels from the upper left corner."""

    x: int
    y: int
    width: int
    height: int

    def below(self, pixels: int) -> Box:
        """Return the box without this many pixels at its top."""
        return Box(self.x, self.y + pixels, self.width, max(self.height - pixels, 1))

    def fit(self, shape: tuple[int, ...]) -> Box:
        """Return the largest box for an image; a small image is enlarged by a whole number.

        >>> Box(0, 0, 580, 300).fit((64, 64, 3)), Box(0, 0, 580, 300).fit((400, 600, 3))
        (Box(x=0, y=0, width=256, height=256), Box(x=0, y=0, width=450, height=300))
        """
        height, width = shape[:2]
        scale = min(self.width / width, self.height / height)
        scale = float(int(scale)) if scale >= CRISP else scale
        return Box(self.x, self.y, max(round(scale * width), 1), max(round(scale * height), 1))


class Canvas:
    """An empty canvas of 1280×720 pixels.

    Images are copied into an array, which is many times faster than to draw them by matplotlib;
    everything else is drawn by matplotlib on top.

    >>> canvas = Canvas()
    >>> canvas.write(100, 100, "Step 1", weight="bold")
    >>> canvas.pixels().shape
    (720, 1280, 3)
    """

    def __init__(self) -> None:
        self._background = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
        self.figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor="none")
        self._renderer: Any = RendererAgg(WIDTH, HEIGHT, DPI)  # type: ignore[no-untyped-call]
        # Matplotlib's y axis points up.
        self._flip = Affine2D().scale(1.0, -1.0).translate(0.0, HEIGHT)

    def paste(self, image: Image, box: Box, white: float = 0.0) -> None:
        """Draw an image in a box, blended with a share of white."""
        scale = box.width / image.shape[1]
        smooth = cv2.INTER_CUBIC if scale > 1.0 else cv2.INTER_AREA
        how = cv2.INTER_NEAREST if scale >= CRISP else smooth
        shown = cv2.resize(image, (box.width, box.height), interpolation=how)
        if shown.ndim == 2:
            shown = cv2.cvtColor(shown, cv2.COLOR_GRAY2RGB)
        shown = cv2.addWeighted(shown, 1.0 - white, np.full_like(shown, 255), white, 0.0)
        self._background[box.y : box.y + box.height, box.x : box.x + box.width] = shown

    def write(self, x: float, y: float, text: str, width: float = math.inf, **style: Any) -> None:
        """Write a line; one that is too wide is written smaller, and cut if that is not enough."""
        size = style.pop("fontsize", SIZE)
        line = self.figure.text(x, y, text, transform=self._flip, fontsize=size, **style)
        if len(text) * size * WIDEST <= width:
            return  # measuring the text takes time
        share = width / max(line.get_window_extent(self._renderer).width, 1.0)
        line.set_fontsize(size * min(max(share, SMALLER), 1.0))
        if share < SMALLER:
            line.set_text(f"{text[: max(int(len(text) * share / SMALLER) - 1, 1)]}…")

    def title(self, box: Box, text: str) -> None:
        """Write the title of a box at its top."""
        self.write(box.x, box.y + TITLE - 10, text, max(box.width, 80), weight="bold")

    def tag(self, x: float, y: float, number: int, colour: str) -> None:
        """Write a number in a small box around a point."""
        box = {"fc": colour, "ec": "white", "pad": 1.6}
        self.write(
            x, y, str(number), fontsize=8.5, color="white", weight="bold", ha="center",
            va="center", bbox=box,
        )  # fmt: skip

    def fill(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Fill a rectangle with a colour."""
        self._draw(Rectangle((x, y), width, height, facecolor=colour))

    def frame(self, box: Box, colour: str) -> None:
        """Draw the outline of a box."""
        edge: dict[str, Any] = {"fill": False, "edgecolor": colour, "linewidth": 2.0}
        self._draw(Rectangle(box[:2], box.width, box.height, **edge))

    def mark(self, points: Sequence[Point], shape: str, size: float, **style: Any) -> None:
        """Draw a marker at each point."""
        x, y = [x for x, _ in points], [y for _, y in points]
        self._draw(Line2D(x, y, linestyle="", marker=shape, markersize=size, **style))

    def join(self, lines: Sequence[tuple[Point, Point]], colour: str, width: float) -> None:
        """Draw lines between pairs of points."""
        self._draw(LineCollection(lines, colors=colour, linewidths=width, capstyle="round"))

    def _draw(self, drawn: Rectangle | Line2D | LineCollection) -> None:
        drawn.set_transform(self._flip)
        self.figure.add_artist(drawn)

    def pixels(self) -> NDArray[np.uint8]:
        """Return the canvas as an RGB image."""
        drawn = np.asarray(self._renderer.buffer_rgba())
        drawn[:] = cv2.cvtColor(self._background, cv2.COLOR_RGB2RGBA)
        self.figure.draw(self._renderer)
        return drawn[:, :, :3].copy()
