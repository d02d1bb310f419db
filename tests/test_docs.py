"""What the README, the docs and the examples print is run as it is printed."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import types
from html.parser import HTMLParser
from pathlib import Path

import pytest

import rlvc
from rlvc.clustering import clusterings
from rlvc.generation import generators
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
WITH_CODE = [page for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_CODE, ids=_name)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    registries = (detectors, descriptors, metrics, clusterings, generators)
    for registry in registries:  # what a page registers goes with it
        monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look for their module
    exec(compile("\n".join(blocks), str(page), "exec"), module.__dict__)


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


def test_the_reference_has_every_public_name() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    for name in rlvc.__all__:
        assert f"::: rlvc.{name}\n" in pages, f"docs/reference: no page has '::: rlvc.{name}'"


class _Loaded(HTMLParser):
    """What a browser fetches to show a page, and the tags that the page has."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        names = ("src", "srcset", "data", "poster") + ("href",) * (tag in {"link", "use", "image"})
        self.addresses += [value for name in names if (value := given.get(name))]


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
    assert "rlvc.RLVC" in (tmp_path / "reference" / "learner.html").read_text(encoding="utf-8")
    assert (tmp_path / "search" / "search_index.js").exists()  # for pages opened from a file


def test_the_readme_names_every_command() -> None:
    from typer.main import get_command

    from rlvc.cli import app

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in getattr(get_command(app), "commands", {}):
        assert f"rlvc {name}" in readme
