"""Fixtures that several test files share."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import settings

from rlvc import RLVC, Policy
from tests.support.builders import COLOUR, database
from tests.support.commands import CommandLine
from tests.support.pages import Page, write_page
from tests.support.policies import bytes_of
from tests.support.tasks import small_task, without_figures

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def policy() -> Policy:
    return RLVC(threads=1).learn(database(COLOUR))


@pytest.fixture(scope="module")
def saved(policy: Policy) -> bytes:
    """Return the file of the policy; a module may override it."""
    return bytes_of(policy)


@pytest.fixture(scope="session")
def page_about(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Page]:
    """Return a function that learns a small task and writes its page, once for each kind."""
    return cache(lambda kind: write_page(kind, tmp_path_factory.mktemp("page") / kind))


@pytest.fixture
def call(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CommandLine]:
    """Yield a function that runs a command line like a shell, without starting a process."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("RLVC_CACHE", str(tmp_path_factory.mktemp("cache")))
    for name in ("RLVC_DATA", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # to which the current folder is added
    handlers = logging.getLogger().handlers[:]
    yield CommandLine(capfd)
    logging.getLogger().handlers[:] = handlers


@pytest.fixture
def small() -> Iterator[None]:
    """Register the small task."""
    with small_task():
        yield


@pytest.fixture
def unpainted() -> Iterator[None]:
    """Skip the figures."""
    with without_figures():
        yield
