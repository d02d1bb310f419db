"""A Gymnasium environment in which an agent walks over a picture and perceives a window of it."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike

from rlvc._core.arrays import Floats
from rlvc.data.images import Image
from rlvc.envs.base import TaskEnv, as_pair
from rlvc.envs.planar_world import ACTION_NAMES, PlanarWorld, Point

Color = tuple[int, int, int]
WHITE: Final[Color] = (255, 255, 255)
DARK: Final[Color] = (16, 24, 32)
GLASS: Final[Color] = (150, 220, 255)
AMBER: Final[Color] = (255, 160, 0)
SHIFT: Final = 4  # OpenCV takes whole numbers: sixteenths of a pixel


class PictureEnv(TaskEnv[Image, Floats]):
    """An agent that walks over a picture and perceives the window around it.

    The observation is the square of ``world.window`` pixels around the agent, at the nearest
    whole pixel; beyond its borders the picture continues by reflection. ``info["position"]`` is
    the position of the agent. Truncation is left to a wrapper.

    Args:
        world: The dynamics.
        picture: Shape (height, width, 3), RGB, of the size of the world.
        render_mode: None, or ``rgb_array`` to have ``render`` draw the picture, the walls, the
            exits, the agent and its window.

    Attributes:
        padded: The picture with a margin of its reflection.
        margin: The width of the margin in pixels.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 (as Gymnasium's)
    state_name = "position"

    def __init__(self, world: PlanarWorld, picture: Image, render_mode: str | None = None) -> None:
        shape = (world.height, world.width, 3)
        if picture.shape != shape or picture.dtype != np.uint8:
            raise ValueError(
                f"picture of {type(self).__name__} must be uint8 of shape {shape}; "
                f"got {picture.dtype} of shape {picture.shape}."
            )
        window = Box(0, 255, (world.window, world.window, 3), np.uint8)
        super().__init__(ACTION_NAMES, window, render_mode)
        self.world = world
        self.picture = picture
        self._scene: Image | None = None
        # Half a window on every side suffices for any position, also on the edges.
        self.margin = margin = (world.window + 1) // 2
        self.padded = np.pad(picture, ((margin, margin), (margin, margin), (0, 0)), "reflect")

    def percept(self, position: ArrayLike) -> Image:
        """Return the percept of an agent at (x, y), a new array."""
        x, y = self.corner(position)
        side = self.world.window
        return self.padded[y : y + side, x : x + side].copy()

    def corner(self, position: ArrayLike) -> tuple[int, int]:
        """Return the top left corner of the window of an agent at (x, y) on ``padded``."""
        x, y = np.floor(self._checked(position) + 0.5).astype(np.intp).tolist()
        offset = self.margin - self.world.window // 2
        return x + offset, y + offset

    def _checked(self, position: ArrayLike) -> Floats:
        checked = as_pair(position)
        if not self.world.inside(checked[None])[0]:
            raise ValueError(
                f"position of {type(self).__name__} must be (x, y) with 0 <= x <= "
                f"{self.world.width} and 0 <= y <= {self.world.height}; got {position!r}."
            )
        return checked

    def _checked_start(self, value: ArrayLike) -> Floats:
        position = self._checked(value)
        on_wall = self.world.blocked(position[None], position[None])[0]
        if on_wall or self.world.in_exit(position[None])[0]:
            raise ValueError(
                f"position of {type(self).__name__}.reset must be outside the exits and off "
                f"the walls; got {tuple(position.tolist())}."
            )
        return position

    def _random_start(self) -> Floats:
        return np.asarray(self.world.random_starts(1, self.np_random)[0])

    def _act(self, state: Floats, action: int) -> tuple[Floats, float, bool]:
        positions, exited = self.world.move(state[None], [action], self.np_random)
        return positions[0], self.world.reward if exited[0] else 0.0, bool(exited[0])

    def _draw(self, state: Floats | None) -> Image:
        if self._scene is None:
            self._scene = draw_scene(self.world, self.picture)
        scene = self._scene.copy()
        if state is not None:
            draw_agent(scene, self.world, state)
        return scene


def draw_scene(world: PlanarWorld, picture: Image) -> Image:
    """Return a copy of the picture with the exits and the walls of glass drawn on it."""
    pen = _pen(world)
    layer = picture.copy()
    # Exits lie at the border of the picture, where half of a line on their edge would be lost.
    boxes = [(x0 + pen, y0 + pen, x1 - pen, y1 - pen) for x0, y0, x1, y1 in world.exits]
    for x0, y0, x1, y1 in boxes:
        cv2.rectangle(layer, _sixteenths(x0, y0), _sixteenths(x1, y1), DARK, -1, shift=SHIFT)
    scene = _blend(picture, layer, 0.6)
    for color, width in ((DARK, 2.2 * pen), (WHITE, pen)):
        for x0, y0, x1, y1 in boxes:
            sides = _sides(x0, y0, x1, y1)
            for start, end in (*sides, ((x0, y0), (x1, y1)), ((x1, y0), (x0, y1))):
                _line(scene, start, end, color, width)
    for color, width, opacity in ((DARK, 3.2 * pen, 0.8), (GLASS, 2 * pen, 0.85)):
        layer = scene.copy()
        for start, end in world.walls:
            _line(layer, start, end, color, width)
        scene = _blend(scene, layer, opacity)
    for start, end in world.walls:
        _line(scene, start, end, WHITE, 0.5 * pen)  # the light on the edge of the glass
    return scene


def draw_agent(scene: Image, world: PlanarWorld, position: Floats) -> None:
    """Draw the agent and, dashed, the window that it perceives, onto a scene."""
    pen = _pen(world)
    x, y = position.tolist()
    half = world.window / 2
    for color, width in ((DARK, pen), (WHITE, 0.5 * pen)):
        for start, end in _sides(x - half, y - half, x + half, y + half):
            _dashes(scene, start, end, color, width)
    for color, radius in ((DARK, 2.6), (WHITE, 2.2), (AMBER, 1.6)):
        size = round(radius * pen * 2**SHIFT)
        cv2.circle(scene, _sixteenths(x, y), size, color, -1, cv2.LINE_AA, SHIFT)


def _pen(world: PlanarWorld) -> float:
    return world.step / 16  # pixels; drawings are in proportion to a move


def _sixteenths(x: float, y: float) -> tuple[int, int]:
    return round(x * 2**SHIFT), round(y * 2**SHIFT)


def _sides(x0: float, y0: float, x1: float, y1: float) -> list[tuple[Point, Point]]:
    """Return the sides of a rectangle, clockwise."""
    corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    return list(zip(corners, corners[1:] + corners[:1], strict=True))


def _line(scene: Image, start: Point, end: Point, color: Color, width: float) -> None:
    thickness = max(1, round(width))
    cv2.line(scene, _sixteenths(*start), _sixteenths(*end), color, thickness, cv2.LINE_AA, SHIFT)


def _dashes(scene: Image, start: Point, end: Point, color: Color, width: float) -> None:
    """Draw nine dashes and the gaps between them, a dash at either end."""
    points = np.linspace(start, end, 18).tolist()
    for a, b in zip(points[::2], points[1::2], strict=True):
        _line(scene, a, b, color, width)


def _blend(below: Image, above: Image, opacity: float) -> Image:
    return np.asarray(cv2.addWeighted(above, opacity, below, 1 - opacity, 0), dtype=np.uint8)
