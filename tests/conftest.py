"""What several test files share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import settings

from rlvc import RLVC, Policy
from tests.support.builders import COLOUR, database
from tests.support.pages import Page, write_page

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def policy() -> Policy:
    return RLVC(threads=1).learn(database(COLOUR))


@pytest.fixture(scope="session")
def saved(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "policy.rlvc"
    policy.save(path)
    return path.read_bytes()


@pytest.fixture(scope="session")
def page_about(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Page]:
    """Return what learns a small task and writes its page, once for each kind of task."""
    return cache(lambda kind: write_page(kind, tmp_path_factory.mktemp("page") / kind))
