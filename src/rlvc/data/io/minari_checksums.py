"""What a Minari dataset says of itself: a format, a version and a checksum of each episode.

It is an entry of the metadata, of which Minari keeps whatever it does not know. A checksum is over
what is read of an episode: the images, the columns, and what actions there are. Episodes that
somebody added later have none, and are no concern of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rlvc.data.io.checksums import FORMAT, VERSION, checksum
from rlvc.data.percepts import SINGLE
from rlvc.errors import DataError

ENTRY = "rlvc_dataset"
CURE = "Get the dataset again from where it was."


class EpisodeSeal:
    """The checksums of the episodes of a dataset that is read."""

    def __init__(self, about: Any, whose: str) -> None:
        self._met: set[int] = set()
        self._sha256: list[str] = []
        self._is_damaged = False
        if about is None:
            return
        version = about.get("version") if isinstance(about, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise DataError(
                whose,
                [
                    f"It has version {version} of the format; this rlvc reads version {VERSION}. "
                    "Update it with: pip install --upgrade rlvc"
                ],
            )
        rest = {k: v for k, v in about.items() if k != "checksum"} if version else {}
        sha256 = rest.get("sha256")
        if isinstance(sha256, list) and about.get("checksum") == checksum(rest):
            self._sha256 = sha256
        else:
            self._is_damaged = True

    def check(self, number: int, digest: str) -> Iterator[str]:
        """Yield that an episode, by the number that it was written with, is not what it was."""
        self._met.add(number)
        if number < len(self._sha256) and digest != self._sha256[number]:
            yield f"damaged: episode {number} has changed since it was written. {CURE}"

    def check_rest(self) -> Iterator[str]:
        """Yield what is amiss with the dataset as a whole."""
        if self._is_damaged:
            yield f"damaged: {ENTRY} in its metadata has changed since it was written. {CURE}"
        if gone := sorted(set(range(len(self._sha256))) - self._met):
            yield f"damaged: {len(gone)} episodes are not there any more, from {gone[0]} on. {CURE}"


def describe(digests: Sequence[str]) -> dict[str, Any]:
    """Return what the metadata says of episodes with these checksums."""
    about = {"format": FORMAT, "version": VERSION, "sha256": list(digests)}
    return {**about, "checksum": checksum(about)}


def digest_of(
    shown: Any, columns: Mapping[str, Any], space: spaces.Discrete, names: tuple[str, ...]
) -> str:
    """Return the checksum of an episode: its images, by camera or all of one, and its columns."""
    digest = hashlib.sha256()
    digest.update(json.dumps([int(space.n), int(space.start), names]).encode())
    cameras = shown if isinstance(shown, Mapping) else {SINGLE: shown}
    for name in sorted(cameras):
        digest.update(json.dumps([name, len(cameras[name])]).encode())
        for image in cameras[name]:
            digest.update(json.dumps(image.shape).encode())
            digest.update(np.ascontiguousarray(image).data)
    for name, kind in (
        ("actions", "<i8"), ("rewards", "<f8"), ("terminations", "?"), ("truncations", "?")
    ):  # fmt: skip
        digest.update(np.asarray(columns[name]).astype(kind).tobytes())
    return digest.hexdigest()
