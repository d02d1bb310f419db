"""Pictures of symbols: the first ones in memory, the rest in a temporary file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from rlvc._core.spool import Spool

Patch = NDArray[np.uint8]  # (side, side, 3)
IN_MEMORY = 4096  # patches in memory, 12 MB; there may be a million symbols


class Patches(Sequence[Patch]):
    """The patches of one camera's symbols, by number; all have one size.

    >>> patches = Patches()
    >>> patches.extend([np.full((32, 32, 3), level, np.uint8) for level in (3, 7)])
    >>> len(patches), patches[1].max()
    (2, np.uint8(7))
    """

    def __init__(self, patches: Iterable[Patch] = (), *, in_memory: int = IN_MEMORY) -> None:
        self._kept: list[Patch] = []
        self._limit = in_memory
        self._n_spooled = 0
        self._shape: tuple[int, ...] = ()
        self._spool: Spool | None = None
        self.extend(patches)

    def __len__(self) -> int:
        return len(self._kept) + self._n_spooled

    def extend(self, patches: Iterable[Patch]) -> None:
        """Add the patches of the next symbols."""
        for patch in patches:
            self._shape = patch.shape
            if len(self._kept) < self._limit:
                self._kept.append(patch)
            else:
                self._store(patch)

    def _store(self, patch: Patch) -> None:
        if self._spool is None:
            self._spool = Spool()
        self._spool.write(self._n_spooled, patch.tobytes(), f"patch {len(self)}")
        self._n_spooled += 1

    def __getitem__(self, number: int) -> Patch:  # type: ignore[override]
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"There are {len(self)} patches; there is no number {number}.")
        if number < len(self._kept):
            return self._kept[number]
        assert self._spool is not None
        index, n_bytes = number - len(self._kept), math.prod(self._shape)
        data = self._spool.read(index, n_bytes, f"Patch {number}")
        return np.frombuffer(data, np.uint8).reshape(self._shape)
