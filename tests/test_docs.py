"""The code and the commands in the README, the docs and the examples work as printed."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from minigrid.minigrid_env import MiniGridEnv
from typer.main import get_command

import rlvc
from rlvc.cli import app, main
from rlvc.learning.generation.base import generators
from rlvc.learning.generation.clustering import clusterings
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
GENERATED = {"site/", "frames/"}  # folders that a page names and a command writes
TUTORIAL = ROOT / "docs" / "tutorial.md"
HOWTO = ROOT / "docs" / "howto"
WITH_COMMANDS = [TUTORIAL, HOWTO / "own_data.md", HOWTO / "using.md"]  # which are run as well
WITH_CODE = [page for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(name="run")
def run_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Path], None]:
    """Return a function that runs all blocks of a page in order, in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    registries = (detectors, descriptors, metrics, clusterings, generators)
    for registry in registries:  # undo what a page registers
        monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look for their module
    monkeypatch.syspath_prepend(tmp_path)  # as for a script in this folder
    cache_renderings(monkeypatch)

    def run(page: Path) -> None:
        printed = ""
        for kind, block in blocks_of(page):
            if kind == "text" and printed:
                assert block == printed, f"{_name(page)} says that this is printed"
            printed = ""
            if kind == "python":
                capfd.readouterr()
                exec(compile(block, str(page), "exec"), module.__dict__)
                printed = capfd.readouterr().out
            elif kind == "sh" and page in WITH_COMMANDS:
                for words in commands_of(block):
                    with pytest.raises(SystemExit) as end:
                        main(words)
                    said = capfd.readouterr().err
                    assert end.value.code == 0, f"rlvc {shlex.join(words)}: {said}"

    return run


def cache_renderings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MiniGrid render each state of a room once: the same pixels, in less time."""
    draw: Any = MiniGridEnv.get_full_render
    drawn: dict[Any, Any] = {}

    def look_up(env: Any, highlight: bool, tile_size: int) -> Any:
        room, place = env.grid.encode().tobytes(), (*map(int, env.agent_pos), int(env.agent_dir))
        key = (type(env), env.width, env.agent_view_size, highlight, tile_size, place, room)
        if key not in drawn:
            drawn[key] = draw(env, highlight, tile_size)
        return drawn[key].copy()

    monkeypatch.setattr(MiniGridEnv, "get_full_render", look_up)


@pytest.mark.slow
@pytest.mark.parametrize("page", [one for one in WITH_CODE if one != TUTORIAL], ids=_name)
def test_the_code_of_a_page_runs(page: Path, run: Callable[[Path], None]) -> None:
    run(page)


@pytest.mark.slow
def test_the_tutorial_runs_and_its_first_command_solves_the_task(
    run: Callable[[Path], None], tmp_path: Path
) -> None:
    """Full RGB observations, at most 10,000 interactions, 200 episodes."""
    run(TUTORIAL)
    found = json.loads((tmp_path / "runs" / "MiniGrid-Empty-8x8-v0" / "result.json").read_text())
    assert found["task"] == "minigrid:MiniGrid-Empty-8x8-v0"
    assert found["interactions"] <= 10_000
    assert found["measures"]["episodes"] == 200
    assert found["measures"]["rewarded"]["mean"] >= 0.95
    assert found["measures"]["terminated"]["mean"] >= 0.95


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_commands_of_a_page_are_understood(page: Path) -> None:
    """Commands are not run here, but their names and options must exist."""
    group: Any = get_command(app)
    for kind, block in blocks_of(page):
        for name, *words in commands_of(block) if kind == "sh" else ():
            command = group.commands[name]
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            command.make_context(name, words)


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Return the kind and the text of each block of code."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```(python|sh|text)\n(.*?)^```", text, re.M | re.S)


def commands_of(block: str) -> list[list[str]]:
    """Return the words of each `rlvc` command in a block, without `rlvc`."""
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("rlvc ")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_an_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert "100% of 200 episodes" in capsys.readouterr().out


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{_name(page)} links to {target}"


def test_files_that_pages_name_exist() -> None:
    """Paths start from the project or from the package."""
    places = [ROOT, ROOT / "src" / "rlvc"]
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        found = re.findall(r"`((?:[\w.-]+/)+(?:[\w.-]+\.py)?)`", page.read_text("utf-8"))
        for path in set(found) - GENERATED:
            assert any((place / path).exists() for place in places), f"{_name(page)}: {path}"


def test_names_of_the_package_that_pages_name_exist() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        text = page.read_text("utf-8")
        for name in re.findall(r"(?<![\w./-])rlvc(?:\.[A-Za-z_]\w*)+", text):
            assert _exists(name), f"{_name(page)} names {name}"


def _exists(name: str) -> bool:
    try:
        return pkgutil.resolve_name(name) is not None
    except (ImportError, AttributeError):
        return False


def test_the_reference_has_every_public_name() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    for name in rlvc.__all__:
        assert f"::: rlvc.{name}\n" in pages, f"docs/reference: no page has '::: rlvc.{name}'"
    assert {*rlvc.__all__} <= {*dir(rlvc)}


class _Loaded(HTMLParser):
    """The addresses that a browser loads to show a page, and the tags of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        names = ("src", "srcset", "data", "poster") + ("href",) * (tag in {"link", "use", "image"})
        self.addresses += [value for name in names if (value := given.get(name))]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_needs_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
    for name in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(name, reason='the site needs: pip install "rlvc[docs]"')
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert all(line.startswith("INFO ") for line in said.splitlines() if line), said

    pages = {page.relative_to(tmp_path).as_posix(): _Loaded() for page in tmp_path.rglob("*.html")}
    for name, loaded in pages.items():
        loaded.feed((tmp_path / name).read_text(encoding="utf-8"))
        elsewhere = [one for one in loaded.addresses if re.match(r"(\w+:)?//", one)]
        assert not elsewhere, f"{name} loads {elsewhere}"
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text("utf-8"))

    ideas = (tmp_path / "ideas.html").read_text(encoding="utf-8")
    assert "math" in pages["ideas.html"].tags
    assert "rlvcequation" not in ideas
    assert "$" not in re.sub(r"<(code|script|pre)\b.*?</\1>", "", ideas, flags=re.S)
    reference = "".join(page.read_text("utf-8") for page in (tmp_path / "reference").glob("*.html"))
    assert "rlvc.RLVC" in reference
    assert "doc-module" not in reference  # a function is not mistaken for the module of its name
    assert reference.count("Passes over the database.") == 3  # inherited parameters are documented
    assert (tmp_path / "search" / "search_index.js").exists()  # for pages opened from a file


def test_the_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in getattr(get_command(app), "commands", {}):
        assert f"rlvc {name}" in readme
