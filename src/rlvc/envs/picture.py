"""A Gymnasium environment in which an agent walks over a picture and perceives a window of it."""

from __future__ import annotations

from typing import Any, Final

import cv2
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import ArrayLike, NDArray

from rlvc._core.arrays import Floats
from rlvc.envs.checks import (
    check_options,
    check_render_mode,
    check_step,
    warn_of_no_render_mode,
)
from rlvc.envs.photos.images import Image
from rlvc.envs.planar_world import ACTION_NAMES, PlanarWorld, Point

Color = tuple[int, int, int]
WHITE: Final[Color] = (255, 255, 255)
DARK: Final[Color] = (16, 24, 32)
GLASS: Final[Color] = (150, 220, 255)
AMBER: Final[Color] = (255, 160, 0)
SHIFT: Final = 4  # OpenCV takes whole numbers: sixteenths of a pixel


class PictureEnv(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """An agent that walks over a picture and sees the window around it.

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

    metadata = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["rgb_array"],
        "render_fps": 4,
    }

    def __init__(self, world: PlanarWorld, picture: Image, render_mode: str | None = None) -> None:
        if picture.shape != (world.height, world.width, 3) or picture.dtype != np.uint8:
            raise ValueError(
                f"picture of {type(self).__name__} must be uint8 of shape "
                f"{(world.height, world.width, 3)}; got {picture.dtype} of shape {picture.shape}."
            )
        check_render_mode(self, render_mode)
        self.world = world
        self.picture = picture
        self.render_mode = render_mode
        self.action_names = ACTION_NAMES
        self.action_space = Discrete(len(ACTION_NAMES))
        self.observation_space = Box(0, 255, (world.window, world.window, 3), np.uint8)
        self._position: Floats | None = None
        self._scene: Image | None = None
        # Half a window on every side is enough for any place in the picture, edges included.
        self.margin = margin = (world.window + 1) // 2
        self.padded: Image = np.asarray(
            cv2.copyMakeBorder(picture, margin, margin, margin, margin, cv2.BORDER_REFLECT_101),
            dtype=np.uint8,
        )

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

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        """Start an episode at a random place, or at ``options["position"]``, an (x, y)."""
        super().reset(seed=seed)
        check_options(options, "position")
        if options and "position" in options:
            position = self._checked(options["position"])
            on_wall = self.world.blocked(position[None], position[None])[0]
            if on_wall or self.world.in_exit(position[None])[0]:
                raise ValueError(
                    f"position of {type(self).__name__}.reset must be outside the exits and off "
                    f"the walls; got {tuple(position.tolist())}."
                )
        else:
            position = self.world.random_starts(1, self.np_random)[0]
        self._position = position
        return self.percept(position), {"position": position.copy()}

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Move once: 0 up, 1 right, 2 down, 3 left."""
        check_step(self, action, has_begun=self._position is not None)
        assert self._position is not None
        positions, exited = self.world.move(
            self._position[None], np.array([action]), self.np_random
        )
        self._position = positions[0]
        terminated = bool(exited[0])
        reward = self.world.reward if terminated else 0.0
        info = {"position": self._position.copy()}
        return self.percept(self._position), reward, terminated, False, info

    def render(self) -> Image | None:
        """Return a drawing of the whole picture, shape (height, width, 3), or None."""
        if self.render_mode is None:
            warn_of_no_render_mode()
            return None
        if self._scene is None:
            self._scene = draw_scene(self.world, self.picture)
        scene = self._scene.copy()
        if self._position is not None:
            draw_agent(scene, self.world, self._position)
        return scene

    def _checked(self, position: ArrayLike) -> Floats:
        try:
            checked = np.array(position, dtype=np.float64)
        except (TypeError, ValueError):
            checked = np.empty(0)
        if checked.shape != (2,) or not self.world.inside(checked[None])[0]:
            raise ValueError(
                f"position of {type(self).__name__} must be (x, y) with 0 <= x <= "
                f"{self.world.width} and 0 <= y <= {self.world.height}; got {position!r}."
            )
        return checked


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
            corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
            for start, end in zip(corners, corners[1:] + corners[:1], strict=True):
                _line(scene, start, end, color, width)
            _line(scene, corners[0], corners[2], color, width)
            _line(scene, corners[1], corners[3], color, width)
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
    corners = [(x + i * half, y + j * half) for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    for color, width in ((DARK, pen), (WHITE, 0.5 * pen)):
        for start, end in zip(corners, corners[1:] + corners[:1], strict=True):
            _dashes(scene, start, end, color, width, n=9)
    for color, radius in ((DARK, 2.6), (WHITE, 2.2), (AMBER, 1.6)):
        size = round(radius * pen * 2**SHIFT)
        cv2.circle(scene, _sixteenths(x, y), size, color, -1, cv2.LINE_AA, SHIFT)


def _pen(world: PlanarWorld) -> float:
    return world.step / 16  # pixels; drawings are in proportion to a move


def _sixteenths(x: float, y: float) -> tuple[int, int]:
    return round(x * 2**SHIFT), round(y * 2**SHIFT)


def _line(scene: Image, start: Point, end: Point, color: Color, width: float) -> None:
    thickness = max(1, round(width))
    cv2.line(scene, _sixteenths(*start), _sixteenths(*end), color, thickness, cv2.LINE_AA, SHIFT)


def _dashes(scene: Image, start: Point, end: Point, color: Color, width: float, n: int) -> None:
    """Draw ``n`` dashes and the gaps between them, a dash at either end."""
    (x0, y0), (x1, y1) = start, end
    for dash in range(0, 2 * n - 1, 2):
        a, b = dash / (2 * n - 1), (dash + 1) / (2 * n - 1)
        ends = [(x0 + part * (x1 - x0), y0 + part * (y1 - y0)) for part in (a, b)]
        _line(scene, ends[0], ends[1], color, width)


def _blend(below: Image, above: Image, opacity: float) -> Image:
    return np.asarray(cv2.addWeighted(above, opacity, below, 1 - opacity, 0), dtype=np.uint8)
