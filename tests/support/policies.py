"""Files of policies."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rlvc import load_policy
from rlvc.policies import AnyPolicy
from rlvc.vision import FeatureExtractor


def bytes_of(policy: AnyPolicy) -> bytes:
    """Return the bytes of a policy's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.rlvc"
        policy.save(path)
        return path.read_bytes()


def check_saving(policy: AnyPolicy, images: Any, path: Path) -> None:
    """Check that a policy that is loaded is the one that was saved."""
    policy.save(path)
    saved = path.read_bytes()
    for loaded in (type(policy).load(path), load_policy(path)):
        _check_same(loaded, policy)
        assert np.array_equal(loaded.predict(images)[0], policy.predict(images)[0])
        for image in images[:12]:
            assert str(loaded.explain(image)) == str(policy.explain(image))
        loaded.save(path)
        assert path.read_bytes() == saved
    assert list(path.parent.iterdir()) == [path]


def _check_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected, strict=True)
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            _check_same(one, other)
    elif dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            _check_same(getattr(found, field.name), getattr(expected, field.name))
    elif not isinstance(expected, FeatureExtractor):
        assert found == expected
