"""What the README, the docs and the examples print is run as it is printed."""

from __future__ import annotations

import re
import runpy
import sys
import types
from pathlib import Path

import pytest

from rlvc.clustering import clusterings
from rlvc.generation import generators
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
WITH_CODE = [page for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
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
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_every_command() -> None:
    from typer.main import get_command

    from rlvc.cli import app

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in getattr(get_command(app), "commands", {}):
        assert f"rlvc {name}" in readme
