from __future__ import annotations

import numpy as np
import pytest

from rlvc.vision import Patches


def test_patches_beyond_a_few_are_in_a_file() -> None:
    shown = [np.full((4, 4, 3), level, np.uint8) for level in range(5)]
    patches = Patches(shown[:1], in_memory=2 * 48)
    patches.extend(shown[1:])
    assert len(patches) == 5
    assert [int(patch.max()) for patch in patches] == [0, 1, 2, 3, 4]
    assert int(patches[-1].max()) == 4
    assert [int(patch.min()) for patch in patches[1:4]] == [1, 2, 3]
    assert np.array_equal(np.stack(patches), np.stack(shown))
    with pytest.raises(IndexError, match="There are 5 patches; there is no number 5"):
        patches[5]
