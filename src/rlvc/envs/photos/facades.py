"""A small campus of facades with photographs on them, and views of it in true perspective.

Every state faces another building: brick, windows, a door, a mural over both floors and four
posters. Nothing alone identifies a state: two states share each mural, a poster hangs in about
six places, and the wings beside the building, the hedges, the ground and the sky are the same
everywhere. Lengths are in metres; x points right, y down and z ahead, and the ground is at y = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

import cv2
import numpy as np

from rlvc._core.arrays import Floats
from rlvc.data.images import Image
from rlvc.envs.photos import walls
from rlvc.envs.photos.camera import HEIGHT, WIDTH, PinholeCamera, expose
from rlvc.envs.photos.images import photograph_folder, read_image, richest_tiles, scale_to
from rlvc.envs.photos.walls import PLINTH, SCALE, Color

FINER: Final = 2  # a view is drawn this many times larger, then shrunk, for smooth edges
SEED: Final = 2007  # of the campus, which is the same for every seed of the views
FACADE, WINGS, SKY = 10.0, 11.5, 400.0  # how far ahead of a spot they are
BAY, FLOOR, PARAPET = 2.5, 2.9, 0.6
N_BAYS, N_FLOORS, N_POSTERS = 6, 2, 4
RIGHT: Final = (1 / SCALE, 0, 0)  # from a pixel to the next one
LAWN: Final[Color] = (96, 132, 62)
LEAVES: Final[Color] = (58, 92, 44)
PAVING: Final[Color] = (176, 170, 158)

# Where the murals are cut: the photograph, then the left, the top and the side of a square.
MURALS: Final = (
    ("astronaut.png", 110, 0, 230), ("hubble_deep_field.jpg", 40, 30, 260),
    ("coffee.png", 90, 20, 250), ("camera.png", 120, 20, 230), ("rocket.jpg", 190, 190, 230),
    ("astronaut.png", 282, 0, 230), ("hubble_deep_field.jpg", 380, 60, 260),
    ("chelsea.png", 20, 10, 230), ("coffee.png", 250, 140, 250), ("camera.png", 230, 90, 230),
    ("hubble_deep_field.jpg", 700, 90, 260), ("astronaut.png", 20, 260, 230),
    ("rocket.jpg", 10, 190, 230), ("chelsea.png", 200, 50, 230),
    ("hubble_deep_field.jpg", 90, 430, 260), ("coffee.png", 180, 0, 250),
    ("camera.png", 200, 260, 240), ("astronaut.png", 260, 250, 240),
    ("hubble_deep_field.jpg", 430, 560, 260), ("rocket.jpg", 390, 180, 240),
    ("astronaut.png", 0, 0, 230), ("hubble_deep_field.jpg", 700, 500, 260),
)  # fmt: skip
# How many posters are cut from each photograph: its richest tiles.
POSTERS: Final = {
    "astronaut.png": 8,
    "coffee.png": 6,
    "hubble_deep_field.jpg": 5,
    "chelsea.png": 5,
    "rocket.jpg": 4,
}


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """A painted rectangle in space."""

    texture: Image
    corner: tuple[float, float, float]
    """The position of the top left corner."""
    across: tuple[float, float, float]
    """The vector from a pixel to the next one on the right."""
    down: tuple[float, float, float]
    """The vector from a pixel to the next one below."""

    def draw_on(self, view: Image, camera: PinholeCamera, position: Floats) -> None:
        """Draw the surface on the view of a camera at a position."""
        height, width = view.shape[:2]
        focal = camera.focal_length(width)
        lens = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
        plane = np.stack([self.across, self.down, np.subtract(self.corner, position)], axis=1)
        # OpenCV counts from the middle of the first pixel, not from its corner.
        half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
        to_view = np.linalg.inv(half) @ lens @ camera.rotation().T @ plane @ half
        left, top, right, bottom = self._reach(to_view, width, height)
        if left < right and top < bottom:
            to_part = np.array([[1, 0, -left], [0, 1, -top], [0, 0, 1]]) @ to_view
            part, size = view[top:bottom, left:right], (right - left, bottom - top)
            flags, border = cv2.INTER_LINEAR, cv2.BORDER_TRANSPARENT
            cv2.warpPerspective(self.texture, to_part, size, part, flags, border)

    def _reach(self, to_view: Floats, width: int, height: int) -> tuple[int, int, int, int]:
        """Return a box around all visible pixels, since drawing takes time for each pixel."""
        n_rows, n_columns = self.texture.shape[:2]
        corners = [(x, y, 1) for x in (-1, n_columns) for y in (-1, n_rows)]
        x, y, depth = to_view @ np.transpose(corners)
        if depth.min() <= 0:  # it reaches behind the camera
            return 0, 0, width, height
        (left, right), (top, bottom) = (
            np.clip([np.floor(side.min()), np.ceil(side.max()) + 1], 0, end).astype(int).tolist()
            for side, end in ((x / depth, width), (y / depth, height))
        )
        return left, top, right, bottom


def draw_facade(state: int, rng: np.random.Generator) -> Image:
    """Return a view, (480, 640, 3), of the building that a state faces, from a random camera.

    Beside the angles of the camera (see ``PinholeCamera.draw``), its position varies by 2 m to each
    side and its height from 1.4 to 1.9 m; the light varies in color and strength, and the clouds
    drift. Takes about 30 ms.

    >>> draw_facade(41, np.random.default_rng(0)).shape
    (480, 640, 3)
    """
    camera = PinholeCamera.draw(rng)
    position = np.array([rng.uniform(-2, 2), -rng.uniform(1.4, 1.9), rng.uniform(-2, 2)])
    light = rng.uniform(0.85, 1.1) * rng.uniform(0.95, 1.05, 3)
    drift = rng.uniform(-150, 150)
    large = np.zeros((FINER * HEIGHT, FINER * WIDTH, 3), np.uint8)
    # From back to front. The ground comes before the sky: above the horizon it would be seen
    # where the rays, followed backward, meet it behind the camera.
    sky = Surface(_clouds(), (drift - 900, -599, SKY), (2, 0, 0), (0, 2, 0))
    for surface in (_ground(), sky, *_wings(), *_building(state)):
        surface.draw_on(large, camera, position)
    return expose(scale_to(large, WIDTH, HEIGHT), rng, light)


@lru_cache(maxsize=64)
def _building(state: int) -> tuple[Surface, ...]:
    """Return the facade of a state and the hedges in front of it."""
    rng = np.random.default_rng([SEED, state])
    width, height = N_BAYS * BAY, PLINTH + N_FLOORS * FLOOR + PARAPET
    # The same bricks everywhere, in two colors, so that they do not identify a building.
    color = (walls.RED, walls.SAND)[int(rng.integers(2))]
    wall = walls.brick_wall(width, height, color, np.random.default_rng(SEED))
    walls.add_ledges(wall)
    mural = int(rng.integers(1, N_BAYS - 2))  # its first bay of two
    free = [bay for bay in range(N_BAYS) if bay not in (mural, mural + 1)]
    door = int(rng.choice(free))
    walls.hang(wall, _murals()[state % len(MURALS)], (mural + 1) * BAY, PLINTH + FLOOR, 4.7)
    walls.add_door(wall, (door + 0.5) * BAY)
    cells = [(bay, floor) for floor in range(N_FLOORS) for bay in free if (bay, floor) != (door, 0)]
    posters = rng.choice(len(_posters()), N_POSTERS, replace=False).tolist()
    pictures = dict(zip(rng.permutation(len(cells)).tolist(), posters, strict=False))
    for number, (bay, floor) in enumerate(cells):
        x, y = (bay + 0.5) * BAY, PLINTH + FLOOR * floor + 1.45
        if number in pictures:
            walls.hang(wall, _posters()[pictures[number]], x, y, 1.9)
        else:
            walls.add_window(wall, x, y, 1.4, 1.9)
    places = [bay * BAY - width / 2 for bay in free if bay != door]
    hedge = walls.tinted(_pebbles()[: round(0.7 * SCALE), : round(BAY * SCALE)], LEAVES, 0.8)
    hedges = [_upright(hedge, place, 0.7, FACADE - 0.6) for place in places]
    return (_upright(wall, -width / 2, height, FACADE), *hedges)


@lru_cache(maxsize=1)
def _wings() -> tuple[Surface, ...]:
    """Return the roof and the wall of the low building behind all others."""
    rng = np.random.default_rng(SEED)
    n_bays, floor = 16, 2.5
    width, height = n_bays * BAY, PLINTH + N_FLOORS * floor
    wall = walls.brick_wall(width, height, walls.GREY, rng)
    for bay in range(n_bays):
        for below in (PLINTH, PLINTH + floor):
            walls.add_window(wall, (bay + 0.5) * BAY, below + 1.35, 1.2, 1.5)
    walls.add_ledges(wall)
    roof = walls.tiled_roof(width, 2.2, rng)
    ridge = (-width / 2, -height - 1.1, WINGS + 2.2 * np.sqrt(0.75))
    slope = (0, 0.5 / SCALE, -np.sqrt(0.75) / SCALE)
    shaded = (0.85 * wall).astype(np.uint8)
    return Surface(roof, ridge, RIGHT, slope), _upright(shaded, -width / 2, height, WINGS)


@lru_cache(maxsize=1)
def _ground() -> Surface:
    """Return a lawn with a paved way, up to the wings."""
    rng = np.random.default_rng(SEED)
    n_rows, n_columns, way = 16, 40, range(18, 22)  # in metres
    pebbles = _pebbles()
    lawn = np.tile(pebbles, (4, 10, 1))[: n_rows * SCALE, : n_columns * SCALE]
    texture = walls.tinted(lawn, LAWN, 0.5)
    for row, column in product(range(n_rows), way):
        slab = walls.tinted(pebbles[:SCALE, :SCALE], PAVING, 0.2) * rng.uniform(0.85, 1.1)
        slab[0] = slab[:, 0] = walls.GRANITE
        y, x = row * SCALE, column * SCALE
        texture[y : y + SCALE, x : x + SCALE] = slab.clip(0, 255)
    return Surface(texture, (-n_columns / 2, 0, WINGS), RIGHT, (0, 0, -1 / SCALE))


@lru_cache(maxsize=1)
def _clouds() -> Image:
    """Return a sky with clouds, blue above and pale at the horizon."""
    rng = np.random.default_rng(SEED)
    n_rows, n_columns = 300, 900
    clouds = np.zeros((n_rows, n_columns))
    for size in (60, 30, 15, 7):
        noise = rng.standard_normal((n_rows, n_columns))
        clouds += size * cv2.GaussianBlur(noise, (0, 0), sigmaX=size, sigmaY=size / 3)
    density = 0.6 * np.clip(clouds / clouds.std() - 0.4, 0, 1.2)[..., None]
    blue = np.linspace((78.0, 128.0, 196.0), (196.0, 214.0, 232.0), n_rows)[:, None]
    return np.asarray(blue + density * (np.array(walls.WHITE) - blue), np.uint8)


@lru_cache(maxsize=1)
def _pebbles() -> Image:
    return scale_to(_photograph("gravel.png"), 256, 256)


@lru_cache(maxsize=1)
def _murals() -> tuple[Image, ...]:
    return tuple(
        _photograph(file)[top : top + side, left : left + side] for file, left, top, side in MURALS
    )


@lru_cache(maxsize=1)
def _posters() -> tuple[Image, ...]:
    found = (richest_tiles(_photograph(file), n) for file, n in POSTERS.items())
    return tuple(tile for tiles in found for tile in tiles)


def _photograph(name: str) -> Image:
    return read_image(photograph_folder() / name)


def _upright(texture: Image, left: float, top: float, ahead: float) -> Surface:
    return Surface(texture, (left, -top, ahead), RIGHT, (0, 1 / SCALE, 0))
