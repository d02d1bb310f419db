"""Views of the states of the campus: some to learn from, the others to test with."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from rlvc.data.images import Image
from rlvc.data.percepts import IN_MEMORY, Images
from rlvc.envs.campus.graph_world import CAMPUS, HEADINGS
from rlvc.envs.photos.camera import HEIGHT, WIDTH, Panoramas
from rlvc.envs.photos.download import expand, find_folder, find_set
from rlvc.envs.photos.facades import draw_facade
from rlvc.envs.photos.images import list_images, photograph_folder, read_image
from rlvc.errors import ImageError, unknown_name

N_VIEWS: Final = 24
DIVISIONS: Final = ("learn", "test")

# The last number of a seed separates the random streams.
_SPLIT, _PLACES, _PHOTOS = 0, 1, 2


class Views:
    """Numbered views of every state, in two divisions; each is drawn once, when first needed.

    Args:
        draw: Returns a view of a state, by their numbers; must be deterministic.
        shape: Shape of every view, (height, width, 3).
        n_views: The number of views of each state, at least two.
        seed: Seed of the division: a quarter of the views of each state (rounded down, at least
            one) are to test with.

    Attributes:
        shape: Shape of every view.
        learn: The numbers of the views to learn from, for each state, in ascending order.
        test: The numbers of the others.

    >>> views = Views(lambda state, view: np.full((2, 3, 3), 10 * state + view, np.uint8),
    ...               shape=(2, 3, 3), n_views=[4, 8], seed=0)
    >>> views.n_states, [len(numbers) for numbers in views.learn + views.test]
    (2, [3, 6, 1, 2])
    >>> views.image(1, 7).max()
    np.uint8(17)
    """

    def __init__(
        self,
        draw: Callable[[int, int], Image],
        shape: tuple[int, int, int],
        n_views: Sequence[int],
        seed: int,
    ) -> None:
        self.shape = shape
        self._draw = draw
        self._clear()
        learn, test = [], []
        for state, n in enumerate(n_views):
            order = np.random.default_rng([seed, state, _SPLIT]).permutation(n)
            n_test = max(1, n // 4)
            learn.append(tuple(sorted(order[n_test:].tolist())))
            test.append(tuple(sorted(order[:n_test].tolist())))
        self.learn, self.test = tuple(learn), tuple(test)

    def _clear(self) -> None:
        self._store = Images(in_memory=IN_MEMORY)
        self._numbers: dict[tuple[int, int], int] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def n_states(self) -> int:
        """The number of states."""
        return len(self.learn)

    def division(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of the views to ``learn`` from or to ``test`` with, by state."""
        if name not in DIVISIONS:
            raise unknown_name("views", name, DIVISIONS)
        return self.learn if name == "learn" else self.test

    def image(self, state: int, view: int) -> Image:
        """Return a view by number, as a read-only array; this is thread-safe."""
        if not 0 <= state < self.n_states:
            raise IndexError(f"There are {self.n_states} states; there is no state {state}.")
        n_views = len(self.learn[state]) + len(self.test[state])
        if not 0 <= view < n_views:
            raise IndexError(f"State {state} has {n_views} views; there is no view {view}.")
        if self._process != os.getpid():
            self._clear()  # after a fork both processes would write to one temporary file
        number = self._numbers.get((state, view))
        if number is None:
            image = self._draw(state, view)
            with self._lock:
                number = self._numbers[state, view] = self._store.add(image)
        return self._store[number]


def campus_views(pictures: str | Path = "photos", seed: int = 0) -> Views:
    """Return the views of the 44 states of the campus; made once per process.

    State 4 · spot + heading looks from one of 11 spots to the N, E, S or W. Of 24 views of each
    state, 18 are to learn from and 6 to test with. The pictures and the seed determine every
    pixel of every view, whatever the order of the calls.

    Args:
        pictures: ``photos``, facades that carry photographs of scikit-image; ``places``, 11
            panoramas, from ``RLVC_DATA`` or downloaded; or a folder with one sub-folder of
            photographs per state, named by spot and heading, such as ``00-N``, ``10E`` or
            ``3_w``, where all photographs have one size and a state has two or more of them:
            three quarters to learn from.
        seed: Seed of the cameras and of the division; a whole number, at least 0.

    Raises:
        ValueError: An unknown name that is not a path, or a bad seed.
        ImageError: A folder or a file is missing or is not an image.
    """
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed of campus_views must be a whole number, at least 0; got {seed!r}.")
    if pictures == "photos":
        photograph_folder()  # raise now, not at the first view, if it is not installed
        return _drawn_views(draw_facade, int(seed), _PHOTOS)
    if pictures == "places":
        return _drawn_views(_panoramas(find_folder("places")).draw, int(seed), _PLACES)
    path = expand(pictures)
    if path.is_dir():
        files = _files_by_state(path.resolve())
        found = [file.stat() for group in files for file in group]
        stamps = tuple((one.st_size, one.st_mtime_ns) for one in found)
        return _views_in_folder(files, int(seed), stamps)
    if isinstance(pictures, Path) or path.exists() or path.suffix or len(path.parts) > 1:
        raise ImageError(
            f"{str(pictures)!r} is not a folder of views. Check the path, or use --pictures photos."
        )
    raise unknown_name("pictures", pictures, ["photos", "places", "the path to a folder of views"])


@lru_cache(maxsize=1)
def _panoramas(folder: Path) -> Panoramas:
    return Panoramas(sorted(folder / file.name for file in find_set("places").files))


@lru_cache(maxsize=4)
def _drawn_views(draw: Callable[[int, np.random.Generator], Image], seed: int, salt: int) -> Views:
    def view(state: int, number: int) -> Image:
        return draw(state, np.random.default_rng([seed, state, number, salt]))

    return Views(view, (HEIGHT, WIDTH, 3), [N_VIEWS] * CAMPUS.n_states, seed)


@lru_cache(maxsize=2)
def _views_in_folder(
    files: tuple[tuple[Path, ...], ...], seed: int, stamps: tuple[tuple[int, int], ...]
) -> Views:
    """Return views of photographs; ``stamps`` change with the files, which are then read anew."""
    first = files[0][0]
    height, width, _ = read_image(first).shape

    def read(state: int, view: int) -> Image:
        file = files[state][view]
        image = read_image(file)
        if image.shape[:2] != (height, width):
            raise ImageError(
                f"Photograph {file} must be {width}×{height} pixels, the size of {first}; "
                f"got {image.shape[1]}×{image.shape[0]}. Scale all photographs to one size."
            )
        return image

    views = Views(read, (height, width, 3), [len(group) for group in files], seed)
    for state, group in enumerate(files):
        for view in range(len(group)):
            views.image(state, view)  # find bad photographs now, not after learning
    return views


def _files_by_state(folder: Path) -> tuple[tuple[Path, ...], ...]:
    """Return the photographs of each state in the order of their names."""
    names = [state_name(state) for state in range(CAMPUS.n_states)]
    found: dict[str, Path] = {}
    for place in sorted(folder.iterdir()):
        if not place.is_dir() or place.name.startswith((".", "__")):
            continue
        match = re.fullmatch(r"0*(\d+)[-_ .]?([nesw])", place.name.lower())
        name = f"{int(match[1]):02}-{match[2].upper()}" if match else ""
        if name not in names:
            raise ImageError(
                f"Folder {place} must be named by a spot from 0 to {len(CAMPUS.places) - 1} and a "
                f"heading ({', '.join(HEADINGS)}), such as 00-N or 10E; got {place.name!r}. "
                "Rename it or move it elsewhere."
            )
        if name in found:
            raise ImageError(
                f"Folders {found[name]} and {place} are both of state {name}. "
                "Put their photographs into one."
            )
        found[name] = place
    if missing := [name for name in names if name not in found]:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ImageError(
            f"Folder {folder} must have a sub-folder of photographs for each of {len(names)} "
            f"states; missing: {', '.join(missing[:5])}{more}. Name them by spot and heading."
        )
    files = {name: tuple(list_images(found[name])) for name in names}
    for name, group in files.items():
        if len(group) < 2:
            raise ImageError(
                f"Folder {found[name]} must hold at least 2 views of state {name}, one to learn "
                f"from and one to test with; got {len(group)}. Add photographs to it."
            )
    return tuple(files.values())


def state_name(state: int) -> str:
    """Return the name of a state's folder.

    >>> state_name(41)
    '10-E'
    """
    spot, heading = divmod(state, len(HEADINGS))
    return f"{spot:02}-{HEADINGS[heading]}"
