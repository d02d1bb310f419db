"""Pictures of symbols: the first ones in memory, the rest in a temporary file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from rlvc._core.spool import SpooledArrays

Patch = NDArray[np.uint8]  # (side, side, 3)
IN_MEMORY = 12 * 2**20  # bytes of 4096 patches in memory; there may be a million symbols


class Patches(Sequence[Patch]):
    """The patches of one camera's symbols, by number; all have one size.

    >>> patches = Patches()
    >>> patches.extend([np.full((32, 32, 3), level, np.uint8) for level in (3, 7)])
    >>> len(patches), patches[1].max()
    (2, np.uint8(7))
    """

    def __init__(self, patches: Iterable[Patch] = (), *, in_memory: int = IN_MEMORY) -> None:
        self._arrays = SpooledArrays(in_memory)
        self.extend(patches)

    def __len__(self) -> int:
        return len(self._arrays)

    def extend(self, patches: Iterable[Patch]) -> None:
        """Add the patches of the next symbols."""
        for patch in patches:
            self._arrays.append(patch, f"patch {len(self)}")

    @overload
    def __getitem__(self, number: int) -> Patch: ...

    @overload
    def __getitem__(self, number: slice) -> list[Patch]: ...

    def __getitem__(self, number: int | slice) -> Patch | list[Patch]:
        if isinstance(number, slice):
            return [self[one] for one in range(len(self))[number]]
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"There are {len(self)} patches; there is no number {number}.")
        return self._arrays.read(number, f"Patch {number}")
